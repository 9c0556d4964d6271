// The last decisions of the policies, for `batchflowctl explain`. They are kept only if the service
// was started with --explain: to put a decision into words costs more than to make it.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "core/base/types.h"
#include "core/engine/explain.h"

namespace batchflow::service {

class DecisionLog {
 public:
  void add(Instant at, const engine::Decision& decision);
  // The answer to `explain`. `is_on`: decisions are kept.
  std::string to_json(bool is_on) const;

 private:
  static constexpr std::size_t kDecisionsMost = 400;
  static constexpr std::size_t kBytesMost = 400;  // of a text: an answer stays below its bound
  struct Kept {
    Instant at{};
    std::string kind;
    std::string policy;
    std::string what;
    std::string numbers;
  };
  std::deque<Kept> kept_;
};

}  // namespace batchflow::service
