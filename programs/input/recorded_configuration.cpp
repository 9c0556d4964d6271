#include "programs/input/recorded_configuration.h"

#include <algorithm>

#include "core/engine/policy_texts.h"
#include "programs/config/engine_settings.h"
#include "programs/config/replay_journal.h"

namespace batchflow::input {

RecordedConfiguration::RecordedConfiguration(const std::string& recorded,
                                             std::vector<std::string>& notes)
    : notes_(notes) {
  if (recorded.starts_with("preset="))
    preset_ = recorded.substr(7, std::min(recorded.find('\n'), recorded.size()) - 7);
  now_ = config::engine_config_of(config::without_preset(recorded), "its configuration");
  used_[text()] = 0;
}

void RecordedConfiguration::policy(std::string_view change) {
  const auto [kind, policy] = engine::split_policy(change);
  if (engine::policy_scope(kind).only) return;  // of one share or stream
  engine::set_policy(now_.policies, kind, std::string(policy));
  changed();
}

void RecordedConfiguration::setting(std::string_view change) {
  engine::change_setting(now_, change);
  changed();
}

std::string RecordedConfiguration::most_used() {
  const auto most = std::max_element(
      used_.begin(), used_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (used_.size() > 1)
    notes_.push_back(
        "policies or settings changed while it ran; those that most samples were trained on with "
        "are taken for all of it");
  return most->first;
}

void RecordedConfiguration::changed() {
  preset_.clear();
  used_.try_emplace(text(), 0);
}

const std::string& RecordedConfiguration::text() {
  engine::EngineConfig named = now_;
  named.preset = preset_;
  for (const engine::Preset* preset : engine::presets()) {
    if (!named.preset.empty()) break;
    engine::EngineConfig other = now_;
    engine::apply_preset(other, preset->name);
    other.preset = now_.preset;
    if (other == now_) named.preset = preset->name;
  }
  return text_ = config::text_of(named);
}

}  // namespace batchflow::input
