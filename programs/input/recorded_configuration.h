// The configuration of the engine that recorded a journal, as it changed while that ran.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/engine_config.h"

namespace batchflow::input {

class RecordedConfiguration {
 public:
  // `recorded` is what the journal's header has. What is said of it goes to `notes`.
  RecordedConfiguration(const std::string& recorded, std::vector<std::string>& notes);

  void policy(std::string_view change);
  void setting(std::string_view change);
  // So many samples were trained on with what it is now.
  void trained(std::uint64_t samples) { used_[text_] += samples; }
  // The one that most samples were trained on with, as a scenario has it.
  std::string most_used();

 private:
  void changed();
  const std::string& text();

  std::vector<std::string>& notes_;
  std::string preset_;
  engine::EngineConfig now_;
  std::string text_;
  std::map<std::string, std::uint64_t> used_;
};

}  // namespace batchflow::input
