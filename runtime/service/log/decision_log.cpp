#include "runtime/service/log/decision_log.h"

#include <chrono>
#include <string_view>

#include "nlohmann/json.hpp"

namespace batchflow::service {

void DecisionLog::add(Instant at, const engine::Decision& decision) {
  const auto bounded = [](std::string_view text) {
    return std::string(text.substr(0, kBytesMost));
  };
  kept_.push_back({at, bounded(decision.kind), bounded(decision.policy), bounded(decision.what),
                   bounded(decision.numbers)});
  if (kept_.size() > kDecisionsMost) kept_.pop_front();
}

std::string DecisionLog::to_json(bool is_on) const {
  using Json = nlohmann::json;
  Json all = {{"type", "answer"}, {"is_on", is_on}, {"decisions", Json::array()}};
  for (const Kept& one : kept_) {
    all["decisions"].push_back(
        {{"at_s", std::chrono::duration<double>(one.at.time_since_epoch()).count()},
         {"kind", one.kind},
         {"policy", one.policy},
         {"what", one.what},
         {"numbers", one.numbers}});
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace batchflow::service
