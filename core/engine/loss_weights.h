// The weights of a mixture's sources, as a policy sets them by the losses that the job's ranks
// report.
//
// The policy says after how many samples of the job it is asked again; the next report after that
// asks it. Its answer becomes a change of the mixture like any other (docs/order.md, section 9):
// promised before any rank sees it, and part of the job's position. Losses are not promised: a
// loader reports its last ones again to a service that begins anew.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/policy_list.h"
#include "core/order/mixing.h"

namespace batchflow::engine {

class LossWeights {
 public:
  // `at`: where the job is committed. Throws ConfigError where there is no such policy.
  LossWeights(std::string_view policy, const PolicyList& list, const order::Mixing& at);

  // What a rank reports, a number for each source. A number that is not finite says nothing.
  void report(std::span<const float> losses);
  // The parts that the policy wants by now, if it is asked and wants others. `at`: where the job is
  // committed.
  std::optional<std::vector<std::uint64_t>> decide(JobId job, const order::Mixing& at);

  std::size_t sources() const { return heard_.size(); }
  std::uint64_t refused() const { return refused_; }  // answers

 private:
  struct Heard {
    double sum = 0;  // of the reports since the policy was asked last
    std::uint32_t reports = 0;
    bool is_known = false;
    double mean = 0;  // of those before
  };

  PolicyChoice choice_;  // the policy refers to its parameters
  std::unique_ptr<MixturePolicy> policy_;
  std::vector<Heard> heard_;  // a source
  bool has_reports_ = false;
  std::uint64_t asked_at_;  // draws that were committed then
  std::uint64_t refused_ = 0;
};

}  // namespace batchflow::engine
