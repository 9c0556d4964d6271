// Whether jobs wait longer since a plugin was installed. Only the plugin that was installed last is
// watched, for a while.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/types.h"
#include "core/engine/policy_texts.h"
#include "runtime/service/jobs/jobs.h"

namespace batchflow::service {

class StallWatch {
 public:
  // `before`: the policies that the plugin's replace. `most_worse`: points of stall, beyond which
  // it is worse than before. Answers the stall until now, in percent.
  double begin(std::string from, engine::PolicyTexts before, const WaitTotals& totals, Instant now,
               Duration watch, double most_worse);
  void end() { watched_.reset(); }
  // What decided before the plugin was installed. Null: another plugin is watched, or none.
  const engine::PolicyTexts* before(std::string_view from) const {
    return watched_ && watched_->from == from ? &watched_->before : nullptr;
  }

  struct Verdict {
    std::string from;
    bool stays = false;  // it was watched long enough; false: it is to be taken back
    std::string why;
  };
  // Call look() when it is due. It answers when it is known whether the plugin stays or goes; a
  // plugin that stays is watched no more.
  bool is_due(Instant now) const;
  std::optional<Verdict> look(const WaitTotals& totals, Instant now);

 private:
  struct Watched {
    std::string from;
    engine::PolicyTexts before;
    Instant until;
    double most_worse;
    double stall_before;
    WaitTotals at_begin;
    WaitTotals last;
    Instant last_at;
  };
  std::optional<Watched> watched_;
};

}  // namespace batchflow::service
