// A pipeline as far as it is compiled, and what it is compiled for. The parts of the compiler share
// it: each adds what it has read.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "programs/config/config.h"
#include "runtime/memory/scratch.h"
#include "runtime/prepare/plan.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::prepare {

struct PipelineDraft {
  PipelineDraft(config::ConfigSection& whole, const sources::SampleIndex& samples,
                const memory::ScratchLimits& limits);

  // Adds a line to the text, and to its digest.
  void add_text(std::string_view line);
  // Refuses what takes more memory for a sample than there may be.
  void check_scratch(config::ConfigSection& step, std::string_view key, Bytes bytes,
                     std::string_view what) const;

  config::ConfigSection& section;  // all of the pipeline
  const sources::SampleIndex& dataset;
  const memory::ScratchLimits scratch;
  const bool has_labels;
  bool has_fields = false;                   // the pipeline names its fields
  bool names_picture = false;                // one of them
  std::optional<std::size_t> picture_field;  // where that stands in the batch
  PipelineParts parts;
};

// Whether an entry of `steps` is a plugin or a function.
bool is_plugin(config::ConfigSection& step);
// The key that names it.
std::string_view plugin_key(config::ConfigSection& step);
// Refuses a step that has as many steps before it as a pipeline may have.
void check_count(config::ConfigSection& step, std::size_t before);

}  // namespace batchflow::prepare
