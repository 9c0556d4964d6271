// NoPFS: N. Dryden, R. Boehringer, T. Ben-Nun, T. Hoefler, "Clairvoyant Prefetching for Distributed
// Machine Learning I/O", SC 2021. What comes first is read first, before it is requested.
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"
#include "policies/eviction_minio.h"

namespace batchflow::policies {
namespace {

class NoPfs final : public MinIo {
 public:
  using MinIo::MinIo;
  engine::EarlyRead read_early(const engine::Access& access) override {
    return has_room_for(access) ? engine::EarlyRead::yes : engine::EarlyRead::stop;
  }
};

}  // namespace

extern const engine::PolicyEntry eviction_nopfs;
constexpr engine::PolicyEntry eviction_nopfs{
    .name = "nopfs",
    .help =
        "As minio, and fills ahead of requests, in their order.\n"
        "While nothing else is read from the store, what comes next is read until\n"
        "there is no room left; then nothing enters or leaves (NoPFS, SC 2021).\n"
        "Departs from it: of several nodes one keeps a sample, by a hash, and not\n"
        "those that come to it most often.",
    .make = &make_eviction<NoPfs>,
    .reads_early = true,
    .ignores_hits = true};

}  // namespace batchflow::policies
