// Round-robin: the job with the oldest turn is served first, or of the user with the oldest turn.
#include <cstdint>
#include <map>

#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"users", Parameter::Type::flag, "false", "users take turns, and then the jobs of each"},
};

class RoundRobin final : public engine::DispatchPolicy {
 public:
  explicit RoundRobin(const engine::PolicyContext& context)
      : users_(context.parameters.flag("users")) {}

  std::size_t next(const engine::DispatchView& view) override {
    if (!users_) return first_candidate(view.candidates, had_turn_before);
    const auto turn = [&](const engine::WorkCandidate& one) {
      const auto found = turns_.find(one.user);
      return found == turns_.end() ? 0 : found->second;
    };
    const std::size_t next = first_candidate(
        view.candidates, [&](const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
          return turn(a) != turn(b) ? turn(a) < turn(b) : had_turn_before(a, b);
        });
    // Where there were very many users, all are forgotten, to forget those who are gone.
    if (turns_.size() >= kUsersMost) turns_.clear();
    if (next != engine::kNoChoice) turns_[view.candidates[next].user] = ++served_;
    return next;
  }

 private:
  static constexpr std::size_t kUsersMost = 4096;

  bool users_;
  std::uint64_t served_ = 0;
  std::map<std::uint64_t, std::uint64_t> turns_;  // when each user had the last one
};

}  // namespace

extern const engine::PolicyEntry dispatch_round_robin;
constexpr engine::PolicyEntry dispatch_round_robin{
    "round-robin",
    "Serves the job that has waited longest since its last turn.\n"
    "With users=true the user, so that many jobs of one get no more than one of\n"
    "another.",
    &make_policy<engine::DispatchPolicy, RoundRobin>, kParameters};

}  // namespace batchflow::policies
