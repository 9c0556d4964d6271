#include "programs/config/replay_journal.h"

#include <utility>
#include <variant>

#include "core/engine/engine.h"
#include "programs/config/engine_settings.h"

namespace batchflow::config {

log::ReplayResult replay_journal(log::JournalReader& journal, const engine::PolicyList& policies,
                                 const std::function<void()>& before_step,
                                 const ExplainAt& explain) {
  const engine::EngineConfig config =
      engine_config_of(journal.header().configuration, "its configuration");
  Instant at{};
  engine::Explain tell;
  if (explain) tell = [&](const engine::Decision& decision) { explain(at, decision); };
  engine::Engine engine(config, policies, journal.catalogues(), std::move(tell));
  // A plugin that is not loaded is an error in words, and not a difference.
  const auto require_policies = [&](std::span<const engine::Event> events) {
    for (const engine::Event& event : events) {
      const auto* const changed = std::get_if<engine::PolicyChanged>(&event);
      const std::size_t equals =
          changed == nullptr ? std::string_view::npos : changed->text.find('=');
      if (equals == std::string_view::npos || changed->text.find('@') == std::string_view::npos)
        continue;
      policies.choose(engine::policy_name(changed->text.substr(0, equals)).kind,
                      changed->text.substr(equals + 1));
    }
  };
  return log::replay(journal, [&](Instant now, std::span<const engine::Event> events) {
    if (before_step) before_step();
    require_policies(events);
    at = now;
    return engine.step(now, events);
  });
}

}  // namespace batchflow::config
