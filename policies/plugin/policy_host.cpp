#include "policies/plugin/policy_host.h"

#include <new>

#include "core/base/zeroed_memory.h"
#include "policies/plugin/hosting.h"

namespace batchflow::plugin {
namespace {

void* grow_memory(void* data, std::uint64_t* bytes, std::uint64_t wanted) {
  try {
    ZeroedMemory memory = ZeroedMemory::taken(data, *bytes);
    try {
      memory.grow(wanted);
    } catch (const std::bad_alloc&) {
      memory.give_up();
      return nullptr;
    }
    *bytes = memory.bytes();
    return memory.give_up();
  } catch (...) {
    return nullptr;
  }
}
void free_memory(void* data, std::uint64_t bytes) {
  ZeroedMemory::taken(data, bytes);
}
void failed(void* instance, const char* why) {
  if (instance != nullptr) static_cast<Hosting*>(instance)->fail(why);
}

}  // namespace

const bf_policy_host& policy_host() {
  static const bf_policy_host host = [] {
    bf_policy_host made{};
    made.bytes = sizeof(bf_policy_host);
    made.version_least = BF_POLICY_VERSION_LEAST;
    made.version = BF_POLICY_VERSION;
    made.unstable = BF_POLICY_UNSTABLE;
    made.struct_bytes[BF_STRUCT_ACCESS] = sizeof(bf_access);
    made.struct_bytes[BF_STRUCT_SHARE_VIEW] = sizeof(bf_share_view);
    made.struct_bytes[BF_STRUCT_PLACE_VIEW] = sizeof(bf_place_view);
    made.struct_bytes[BF_STRUCT_FORECAST] = sizeof(bf_forecast);
    made.struct_bytes[BF_STRUCT_SELECTION_CANDIDATE] = sizeof(bf_selection_candidate);
    made.struct_bytes[BF_STRUCT_SELECTION_VIEW] = sizeof(bf_selection_view);
    made.struct_bytes[BF_STRUCT_SAMPLE_CANDIDATE] = sizeof(bf_sample_candidate);
    made.struct_bytes[BF_STRUCT_SAMPLES_VIEW] = sizeof(bf_samples_view);
    made.struct_bytes[BF_STRUCT_WORK_CANDIDATE] = sizeof(bf_work_candidate);
    made.struct_bytes[BF_STRUCT_DISPATCH_VIEW] = sizeof(bf_dispatch_view);
    made.struct_bytes[BF_STRUCT_NODE_CANDIDATE] = sizeof(bf_node_candidate);
    made.struct_bytes[BF_STRUCT_NODES_VIEW] = sizeof(bf_nodes_view);
    made.struct_bytes[BF_STRUCT_NODE_VIEW] = sizeof(bf_node_view);
    made.struct_bytes[BF_STRUCT_JOB_VIEW] = sizeof(bf_job_view);
    made.struct_bytes[BF_STRUCT_CONTEXT] = sizeof(bf_policy_context);
    made.struct_bytes[BF_STRUCT_PARAMETER_VALUE] = sizeof(bf_parameter_value);
    made.struct_bytes[BF_STRUCT_EXEMPLAR] = sizeof(bf_exemplar);
    made.struct_bytes[BF_STRUCT_REHEARSAL_VIEW] = sizeof(bf_rehearsal_view);
    made.struct_bytes[BF_STRUCT_SOURCE_VIEW] = sizeof(bf_source_view);
    made.struct_bytes[BF_STRUCT_MIXTURE_VIEW] = sizeof(bf_mixture_view);
    made.grow_memory = &grow_memory;
    made.free_memory = &free_memory;
    made.failed = &failed;
    return made;
  }();
  return host;
}

}  // namespace batchflow::plugin
