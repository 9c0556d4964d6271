#include "programs/config/replay_journal.h"

#include "core/engine/engine.h"
#include "programs/config/engine_settings.h"

namespace batchflow::config {

log::ReplayResult replay_journal(log::JournalReader& journal, const engine::PolicyList& policies,
                                 const std::function<void()>& before_step) {
  const engine::EngineConfig config =
      engine_config_of(journal.header().configuration, "its configuration");
  engine::Engine engine(config, policies, journal.catalogues());
  return log::replay(journal, [&](Instant now, std::span<const engine::Event> events) {
    if (before_step) before_step();
    return engine.step(now, events);
  });
}

}  // namespace batchflow::config
