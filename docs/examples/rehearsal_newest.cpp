// Newest: the last samples that jobs have had; the oldest leaves first.
#include <cstdint>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class Newest final : public engine::RehearsalPolicy {
 public:
  explicit Newest(const engine::RehearsalContext& context) : capacity_(context.capacity) {}

  std::size_t choose(const engine::RehearsalView& /*sample*/, Random /*random*/) override {
    if (since_.size() < capacity_) return since_.size();
    std::size_t oldest = 0;
    for (std::size_t i = 1; i < since_.size(); ++i) {
      if (since_[i] < since_[oldest]) oldest = i;
    }
    return oldest;
  }
  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    if (index == since_.size()) since_.push_back(0);
    since_[index] = exemplar.exemplar.since;
  }

 private:
  std::size_t capacity_;
  std::vector<std::uint64_t> since_;  // when each exemplar came
};

}  // namespace

extern const engine::PolicyEntry rehearsal_newest;
constexpr engine::PolicyEntry rehearsal_newest{"newest",
                                               "The last samples that jobs have had.\n"
                                               "The oldest leaves first, whatever it is.",
                                               &make_rehearsal<Newest>};

}  // namespace batchflow::policies
