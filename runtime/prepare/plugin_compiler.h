// The steps of a pipeline that are plugins or functions: opens each, for what the steps before it
// make, and says what is kept of theirs.
#pragma once

#include <cstdint>

#include "runtime/prepare/number_steps.h"
#include "runtime/prepare/picture_compiler.h"
#include "runtime/prepare/pipeline_draft.h"

namespace batchflow::prepare {

class PluginCompiler {
 public:
  // The pipeline as it is written, and how plugins are run.
  struct Plugins {
    const config::ConfigNode& pipeline;
    const step::StepSettings& settings;
  };
  // `plugins`: null if there may be none.
  PluginCompiler(PipelineDraft& draft, PictureCompiler& picture, const Plugins* plugins)
      : draft_(draft), picture_(picture), plugins_(plugins) {}

  // Opens the plugin that stands at `index` of the steps; the last step before it is of `before`.
  PipelineStep open(config::ConfigSection& section, std::uint32_t index, StepStage before);
  // The first plugin that makes no picture: what the steps before it make is not a field of the
  // batch.
  void take(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index,
            const PictureByPlugin& kind);
  // The decoded form has all plugins so far behind it.
  void keep() { draft_.parts.afterwards->kept = draft_.parts.afterwards->steps.size(); }
  void end();

 private:
  // What the steps so far have made.
  batch::Field input(config::ConfigSection& section, StepStage before);
  // Nothing says where a plugin moves pixels to.
  void refuse_beside_followers(config::ConfigSection& section, std::string_view plugin) const;
  // What is kept is one run of bytes of a size that is known. Pictures are kept as they were
  // decoded.
  void end_kept(Afterwards& made);

  PipelineDraft& draft_;
  PictureCompiler& picture_;
  const Plugins* const plugins_;
};

}  // namespace batchflow::prepare
