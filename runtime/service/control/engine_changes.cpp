#include "runtime/service/control/engine_changes.h"

#include <type_traits>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

// Calls visit(key, member) for each setting that can change while the engine runs.
template <class Visit>
void visit_settings(Visit visit) {
  using Config = engine::EngineConfig;
  visit("credits", &Config::credits);
  visit("corrupt_ratio_max", &Config::corrupt_ratio_max);
  visit("rank_timeout", &Config::rank_timeout);
  visit("retry_wait", &Config::retry_wait);
  visit("read_attempts", &Config::read_attempts);
  visit("share_streams", &Config::share_streams);
  visit("share_nodes", &Config::share_nodes);
  visit("helper_nodes", &Config::helper_nodes);
  visit("workers_per_rank", &Config::workers_per_rank);
  visit("workers_held_during_reads", &Config::workers_held_during_reads);
  visit("late_after_p99", &Config::late_after_p99);
}

template <class Value>
std::string text_of(const Value& value) {
  if constexpr (std::is_same_v<Value, Duration>) {
    return fmt::format("{}ns", value.count());
  } else if constexpr (std::is_same_v<Value, Ratio>) {
    return fmt::format("{}.{:012}", value.parts / Ratio::kWhole, value.parts % Ratio::kWhole);
  } else {
    return fmt::format("{}", value);
  }
}

}  // namespace

void EngineChanges::tell(Inbox& inbox) const {
  for (const std::string& text : policies) inbox.add(engine::PolicyChanged{inbox.keep(text)});
  for (const std::string& text : settings)
    inbox.add(engine::ConfigurationChanged{inbox.keep(text)});
}

EngineChanges engine_changes(const engine::EngineConfig& running,
                             const engine::EngineConfig& wanted) {
  EngineChanges changes;
  std::vector<std::string> before;
  engine::visit_policies(
      running.policies, [&](std::string_view, const std::string& text) { before.push_back(text); });
  engine::visit_policies(
      wanted.policies,
      [&, at = before.begin()](std::string_view name, const std::string& text) mutable {
        if (*at++ != text) changes.policies.push_back(fmt::format("{}={}", name, text));
      });
  visit_settings([&](std::string_view key, auto member) {
    if (running.*member != wanted.*member)
      changes.settings.push_back(fmt::format("{}={}", key, text_of(wanted.*member)));
  });
  changes.takes_restart = reachable(running, wanted) != wanted;
  return changes;
}

engine::EngineConfig reachable(const engine::EngineConfig& running,
                               const engine::EngineConfig& wanted) {
  engine::EngineConfig reached = running;
  reached.preset = wanted.preset;
  reached.policies = wanted.policies;
  visit_settings([&](std::string_view, auto member) { reached.*member = wanted.*member; });
  return reached;
}

}  // namespace batchflow::service
