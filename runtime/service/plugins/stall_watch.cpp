#include "runtime/service/plugins/stall_watch.h"

#include <chrono>
#include <utility>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

// Before that, a stall says more of the moment than of the policy.
constexpr Duration kJudgedAfter = std::chrono::seconds(3);

double stall(const WaitTotals& from, const WaitTotals& to) {
  const double waited = to.wait_s - from.wait_s, computed = to.compute_s - from.compute_s;
  return waited + computed > 0 ? waited / (waited + computed) : 0;
}

}  // namespace

double StallWatch::begin(std::string from, engine::PolicyTexts before, const WaitTotals& totals,
                         Instant now, Duration watch, double most_worse) {
  const double stall_before = stall({}, totals);
  watched_ = Watched{std::move(from), std::move(before),
                     now + watch,     most_worse,
                     stall_before,    totals,
                     totals,          now};
  return 100 * stall_before;
}

bool StallWatch::is_due(Instant now) const {
  return watched_ && now - watched_->last_at >= kJudgedAfter;
}

std::optional<StallWatch::Verdict> StallWatch::look(const WaitTotals& totals, Instant now) {
  Watched& watched = *watched_;
  const double recent = stall(watched.last, totals), all = stall(watched.at_begin, totals);
  watched.last = totals;
  watched.last_at = now;
  const double before = watched.stall_before;
  const double most = before + watched.most_worse / 100;
  if (recent > most && all > most)
    return Verdict{watched.from, false,
                   fmt::format("jobs waited {:.1f} % of their time, and {:.1f} % before it came",
                               100 * recent, 100 * before)};
  if (now <= watched.until) return std::nullopt;
  Verdict verdict{watched.from, true,
                  fmt::format("jobs waited {:.1f} % of their time, and {:.1f} % before", 100 * all,
                              100 * before)};
  watched_.reset();
  return verdict;
}

}  // namespace batchflow::service
