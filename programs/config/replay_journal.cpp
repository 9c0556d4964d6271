#include "programs/config/replay_journal.h"

#include <utility>

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
  return log::replay(journal, [&](Instant now, std::span<const engine::Event> events) {
    if (before_step) before_step();
    at = now;
    return engine.step(now, events);
  });
}

}  // namespace batchflow::config
