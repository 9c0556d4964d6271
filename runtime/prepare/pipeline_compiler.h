// Compiles one pipeline: takes its fields, steps and views in their order, checks each, and makes
// the plan. It is used once, and only by compile.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/prepare/plan.h"
#include "runtime/prepare/steps.h"

namespace batchflow::prepare {

// Whether an entry of `steps` is a plugin or a function.
bool is_plugin(config::ConfigSection& step);
// Refuses a step that comes after as many as a pipeline may have.
void check_count(config::ConfigSection& step, std::size_t before);

class PipelineCompiler {
 public:
  // `plugins`, if there may be any: the pipeline as it is written, and how plugins are run.
  struct Plugins {
    const config::ConfigNode& pipeline;
    const step::StepSettings& settings;
  };
  PipelineCompiler(config::ConfigSection& section, const sources::SampleIndex& dataset,
                   const Plugins* plugins, const memory::ScratchLimits& scratch);

  std::unique_ptr<Pipeline> run();

 private:
  // Adds a line to the text, and to its digest.
  void add_text(std::string_view line);
  void add(config::ConfigSection& section);
  void add(config::ConfigSection& section, const PipelineStep& step);
  // Takes a step, by its kind.
  void take_kind(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index);
  void check_stage(config::ConfigSection& section, const PipelineStep& step);

  // Fields and views: compile_fields.cpp.
  void add_fields();
  void add_field(config::ConfigSection& section);
  void add_picture_field(config::ConfigSection& section, const FieldEntry& entry);
  void find_rows_of(JointField& field);
  // A step of one field alone.
  void add_own(config::ConfigSection& section);
  void end_fields();
  // The fields of views stand first in the batch. Their steps are read once those
  // before them are known.
  void name_views();
  void add_views();
  void check_beside_views(config::ConfigSection& section, const PipelineStep& step) const;

  // Plugins: compile_plugins.cpp.
  void add_plugin(config::ConfigSection& section);
  // What the steps so far have made.
  batch::Field plugin_input(config::ConfigSection& section);
  // The first plugin that makes no picture: what the steps before it make is not a field of the
  // batch.
  void take(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index,
            const PictureByPlugin& kind);
  // Nothing says where a plugin moves pixels to.
  void refuse_beside_followers(config::ConfigSection& section, std::string_view plugin) const;
  void end_plugins();
  // What is kept is one run of bytes of a size that is known. Pictures are kept as they were
  // decoded.
  void end_kept(Afterwards& made);

  // Steps.
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t, const Decode& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t index,
            const Clip& step);
  void end_clip(batch::Field& field);
  // Checks what a step makes of every picture, whatever becomes of it later.
  void check_extent(config::ConfigSection& section, std::string_view key, std::string_view name,
                    const std::optional<Extent2>& extent);
  void check_scratch(config::ConfigSection& section, std::string_view key, Bytes bytes,
                     std::string_view what) const;
  // Steps that change pictures.
  template <class Kind>
  void take(config::ConfigSection& section, const PipelineStep& step, std::uint32_t index,
            const Kind&) {
    extent_ = made_by(section, step.name, step.kind, extent_);
    out_->picture_->steps.push_back({step.kind, index});
  }
  // The size that a step makes of pictures of this one, where all have one.
  std::optional<Extent2> made_by(config::ConfigSection& section, std::string_view name,
                                 const StepKind& step, const std::optional<Extent2>& before);
  void take(config::ConfigSection&, const PipelineStep&, std::uint32_t, const Normalisation& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t index,
            const RandomErasing& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t, const Cast& step);
  void take(config::ConfigSection&, const PipelineStep&, std::uint32_t, const Layout& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
            const DecodeSound& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t index,
            const CutSound& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
            const MelOfSound& step);
  SoundPlan& sound(config::ConfigSection& section);
  void shape_sound(config::ConfigSection& section);
  void end_sound();
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t, const Tokens& step);
  void take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
            const Reshape& step);
  void cast_numbers(config::ConfigSection& section, batch::ElementType type);
  // How the field that steps work on is made, and what it has become so far.
  std::pair<NumbersPlan&, batch::Field&> worked_on(config::ConfigSection& section);
  bool has_parts() const;
  // Plans the stored fields that become fields of the batch. If a part is named, it is the only
  // one. Otherwise `label` replaces the part that it was read from.
  void plan_numbers();
  void end_picture();
  void end_info();

  config::ConfigSection& section_;
  const sources::SampleIndex& dataset_;
  const Plugins* const plugins_;
  const memory::ScratchLimits scratch_;
  const bool has_labels_;
  std::unique_ptr<CompiledPipeline> out_;
  std::uint32_t steps_ = 0;
  std::size_t all_steps_ = 0;  // with those inside of others
  std::string_view last_;
  StepStage last_stage_ = StepStage::decode;
  std::optional<Extent2> extent_;       // of pictures so far, where all have one
  std::optional<Extent2> kept_extent_;  // of the decoded form
  std::optional<Normalisation> normalisation_;
  std::optional<batch::ElementType> cast_;
  bool planes_ = false;
  bool has_fields_ = false;                   // the pipeline names its fields
  bool names_picture_ = false;                // one of them
  std::optional<std::size_t> picture_field_;  // where that stands in the batch
  std::optional<std::size_t> view_field_;     // the view with the steps that are read
  std::uint32_t all_views_ = 0;
  JointField* own_ = nullptr;  // the field with the steps that are read
  StepStage own_stage_ = StepStage::decode;
  std::uint32_t own_steps_ = 0;  // of that field
  bool own_random_ = false;      // a step of a field draws
};

}  // namespace batchflow::prepare
