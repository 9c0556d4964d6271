// The configuration of the engine that recorded a journal, with its changes during that run.
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
  // `recorded` is the configuration in the journal's header. Sentences about it go to `notes`.
  RecordedConfiguration(const std::string& recorded, std::vector<std::string>& notes);

  void policy(std::string_view change);
  void setting(std::string_view change);
  // Counts samples that were trained on with the configuration of now.
  void trained(std::uint64_t samples) { used_[text_] += samples; }
  // The configuration that most samples were trained on with, as a scenario has it.
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
