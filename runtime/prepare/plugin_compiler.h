// The steps of a pipeline that are plugins or functions: opens each for the output of the steps
// before it, and says which of their results are kept.
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

  // Opens the plugin that stands at `index` of the steps; the last step before it is of stage
  // `before`.
  PipelineStep open(config::ConfigSection& section, std::uint32_t index, StepStage before);
  // Takes a plugin. The first that makes no picture takes over the field that the steps before it
  // made: the batch has the field as plugins leave it.
  void take(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index,
            const PictureByPlugin& kind);
  // The decoded form has all plugins so far behind it.
  void keep() { draft_.parts.afterwards->kept = draft_.parts.afterwards->steps.size(); }
  void end();

 private:
  // What the steps so far have made.
  batch::Field input(config::ConfigSection& section, StepStage before);
  // Refuses a plugin beside fields that follow the picture: nothing says where it moves pixels to.
  void refuse_beside_followers(config::ConfigSection& section, std::string_view plugin) const;
  // The kept form is one run of bytes of a known size. Pictures are kept as they were
  // decoded.
  void end_kept(Afterwards& made);

  PipelineDraft& draft_;
  PictureCompiler& picture_;
  const Plugins* const plugins_;
};

}  // namespace batchflow::prepare
