// First in, first out: needs are served in the order in which they arose.
#include "core/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class Fifo final : public DispatchPolicy {
 public:
  explicit Fifo(const PolicyContext&) {}

  std::size_t next(const DispatchView& view) override {
    return first_candidate(view.candidates, [](const WorkCandidate& a, const WorkCandidate& b) {
      return a.asked < b.asked;
    });
  }
};

}  // namespace

extern const PolicyEntry dispatch_fifo;
const PolicyEntry dispatch_fifo{"fifo", "The need that arose first is served first.",
                                &make_policy<DispatchPolicy, Fifo>};

}  // namespace batchflow
