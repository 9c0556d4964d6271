// First in, first out: needs are served in the order in which they arose.
#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class Fifo final : public engine::DispatchPolicy {
 public:
  explicit Fifo(const engine::PolicyContext&) {}

  std::size_t next(const engine::DispatchView& view) override {
    return first_candidate(view.candidates,
                           [](const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
                             return a.asked < b.asked;
                           });
  }
};

}  // namespace

extern const engine::PolicyEntry dispatch_fifo;
constexpr engine::PolicyEntry dispatch_fifo{"fifo", "The need that arose first is served first.",
                                            &make_policy<engine::DispatchPolicy, Fifo>};

}  // namespace batchflow::policies
