// What a policy makes of the weights of a mixture, by its rule written again. Jobs of the driver
// report the same losses after each of their steps, so that any number of reports has one mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace batchflow::test {

class LossCheck {
 public:
  // `policy`: excess-loss, softmax or ucb, with `every`, `least` and `change`.
  LossCheck(const std::string& policy, std::vector<float> losses);

  // The parts were `before`, and are `after`. Throws Violation where the policy cannot have said
  // so. `ahead`: the draw from which on they hold, which is behind all that is committed.
  void changed(const std::vector<std::uint64_t>& before, const std::vector<std::uint64_t>& after,
               std::uint64_t ahead);
  // An engine begins anew, or the job comes back: it may be asked sooner.
  void begun() { ++beginnings_; }

  std::uint64_t changes() const { return changes_; }

 private:
  double parameter(const std::string& name, double otherwise) const;
  std::vector<double> wanted(const std::vector<double>& now) const;

  std::string policy_;
  std::vector<float> losses_;
  std::uint64_t changes_ = 0;
  std::uint64_t beginnings_ = 0;
};

}  // namespace batchflow::test
