// FastMatch's draws: Algorithm 1, a Gaussian about the greatest score.
//
// A sample weighs exp(-(v - m)^2 / 2 s^2), v being its score, m the greatest, and s^2 the mean of
// (v - m)^2. As it is printed, the algorithm then normalises the weights and takes their softmax,
// which leaves them all but equal where there are many samples; `printed=1` does so. m and s are
// those of the epoch before, since scores come one batch after the other; in a job's first epoch
// all samples weigh the same.
#include <algorithm>
#include <map>

#include "core/base/real_functions.h"
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/selection_in_turn.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"printed", Parameter::Type::integer, "0",
     "1: with the softmax of the printed algorithm, which draws nearly uniformly", 0, 1},
};

class FastMatch final : public InTurn {
 public:
  explicit FastMatch(const engine::PolicyContext& context)
      : printed_(context.parameters.integer("printed") == 1) {}

  void weigh(JobId job, std::span<const float> scores, std::span<float> weights) override {
    Scores& known = jobs_[job];
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double score = scores[i] == scores[i] ? std::clamp(scores[i], -kMost, kMost) : 0;
      known.running.add(score);
      weights[i] = static_cast<float>(weight(known, score));
    }
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    if (epoch == 0) jobs_.erase(job);  // its number may be that of a job that is gone
    Scores& known = jobs_[job];
    if (known.running.count == 0) return;
    known.last = known.running;
    known.running = {};
    if (jobs_.size() > kJobsMost) jobs_.erase(jobs_.begin());
  }

 private:
  static constexpr float kMost = 1e9F;
  static constexpr std::size_t kJobsMost = 4096;
  struct Moments {
    double count = 0;
    double sum = 0;
    double squares = 0;
    double greatest = -kMost;

    void add(double score) {
      count += 1;
      sum += score;
      squares += score * score;
      greatest = std::max(greatest, score);
    }
    // The mean of the squares of the distances from the greatest.
    double variance() const {
      const double mean = sum / count;
      return std::max(0.0, squares / count - mean * mean) + (greatest - mean) * (greatest - mean);
    }
  };
  struct Scores {
    Moments running;
    Moments last;
  };

  double weight(const Scores& known, double score) const {
    const double variance = known.last.count > 0 ? known.last.variance() : 0;
    if (variance <= 0) return 1;
    const double distance = std::min(0.0, score - known.last.greatest);
    const double gaussian = exp_of(-distance * distance / (2 * variance));
    // The greatest of the normalised weights is at most e^(1/2) over their number.
    return printed_ ? exp_of(gaussian / known.last.count) : std::max(gaussian, 1e-3);
  }

  bool printed_;
  std::map<JobId, Scores> jobs_;
};

}  // namespace

extern const engine::PolicyEntry selection_fastmatch;
constexpr engine::PolicyEntry selection_fastmatch{
    "fastmatch",
    "Weighted orders draw by a Gaussian about the greatest score.\n"
    "FastMatch, Algorithm 1; with printed=1 as it is printed, which is nearly\n"
    "uniform. Jobs of other orders take their blocks in turn.\n"
    "Departs from it: greatest score and spread are those of the epoch before.",
    &make_policy<engine::SelectionPolicy, FastMatch>, kParameters};

}  // namespace batchflow::policies
