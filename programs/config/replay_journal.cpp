#include "programs/config/replay_journal.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/engine/engine.h"
#include "policies/apart/described.h"
#include "policies/apart/playback.h"
#include "programs/config/engine_settings.h"

namespace batchflow::config {

std::string without_preset(std::string text) {
  if (text.starts_with("preset=")) text.erase(0, text.find('\n') + 1);
  return text;
}

log::ReplayResult replay_journal(log::JournalReader& journal, const engine::PolicyList& policies,
                                 const std::function<void()>& before_step, const ExplainAt& explain,
                                 const ObserveStep& observe) {
  const engine::EngineConfig config =
      engine_config_of(without_preset(journal.header().configuration), "its configuration");
  Instant at{};
  engine::Explain tell;
  if (explain) tell = [&](const engine::Decision& decision) { explain(at, decision); };
  // Policies that decided in another process: their answers are in the journal.
  apart::Playback playback;
  engine::PolicyList list = policies;
  std::vector<std::unique_ptr<apart::Described>> described;
  const auto add_described = [&] {
    while (described.size() < journal.described().size()) {
      described.push_back(
          std::make_unique<apart::Described>(journal.described()[described.size()], playback));
      for (const engine::PolicyEntry* entry : described.back()->policies()) list.add(*entry);
    }
  };
  // A plugin that is not loaded is an error in words, and not a difference.
  const auto require_policies = [&](std::span<const engine::Event> events) {
    for (const engine::Event& event : events) {
      const auto* const changed = std::get_if<engine::PolicyChanged>(&event);
      const std::size_t equals =
          changed == nullptr ? std::string_view::npos : changed->text.find('=');
      if (equals == std::string_view::npos || changed->text.find('@') == std::string_view::npos)
        continue;
      list.choose(engine::policy_name(changed->text.substr(0, equals)).kind,
                  changed->text.substr(equals + 1));
    }
  };
  std::optional<engine::Engine> engine;
  return log::replay(journal, [&](const log::JournalReader::EngineStep& step) {
    if (before_step) before_step();
    add_described();
    playback.begin_step(step.answers);
    if (!engine) engine.emplace(config, list, journal.catalogues(), tell);
    require_policies(step.events);
    at = step.now;
    const std::span<const engine::Command> commands = engine->step(step.now, step.events);
    if (observe) observe(step, commands);
    return commands;
  });
}

}  // namespace batchflow::config
