// Compiles one pipeline: takes its fields, steps and views in their order, checks each, and makes
// the plan. It is used once, and only by pipeline.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/prepare/fields_compiler.h"
#include "runtime/prepare/picture_compiler.h"
#include "runtime/prepare/pipeline_draft.h"
#include "runtime/prepare/plugin_compiler.h"

namespace batchflow::prepare {

// What each pipeline has: a name and steps.
void check_head(config::ConfigSection& section);

class PipelineCompiler {
 public:
  // `plugins`: null if there may be none.
  PipelineCompiler(config::ConfigSection& section, const sources::SampleIndex& dataset,
                   const PluginCompiler::Plugins* plugins, const memory::ScratchLimits& scratch)
      : draft_(section, dataset, scratch), plugins_(draft_, picture_, plugins) {}

  std::unique_ptr<Pipeline> run();

 private:
  void add(config::ConfigSection& section);
  // Reads whether only the decoded form is wanted.
  void read_form();
  void add(config::ConfigSection& section, const PipelineStep& step);
  // Hands the step to the part of the compiler that it is for.
  void take(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index);
  void take_numbers(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index);
  void check_stage(config::ConfigSection& section, const PipelineStep& step) const;

  // The fields of views stand first in the batch. Their steps are read once those before them are
  // known.
  void name_views();
  void add_views();
  void check_beside_views(config::ConfigSection& section, const PipelineStep& step) const;
  void end_info();

  PipelineDraft draft_;
  PictureCompiler picture_{draft_};
  FieldsCompiler fields_{draft_};
  PluginCompiler plugins_;
  std::uint32_t steps_ = 0;
  std::size_t all_steps_ = 0;  // with those inside of others, and those of fields
  std::string_view last_;
  StepStage last_stage_ = StepStage::decode;
  bool until_random_ = false;  // only the steps before the first random step are wanted
  bool is_cut_ = false;        // and these have been read
};

}  // namespace batchflow::prepare
