// Plugins and functions in a pipeline.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/prepare/pipeline_compiler.h"
#include "runtime/prepare/plugin_step.h"

namespace batchflow::prepare {

void PipelineCompiler::add_plugin(config::ConfigSection& section) {
  if (view_field_)
    section.refuse(section.has("plugin") ? "plugin" : "python", "it stands in a view",
                   "write it into the steps of the pipeline");
  if (section.has("step"))
    section.refuse(
        "step", fmt::format("it stands beside '{}'", section.has("plugin") ? "plugin" : "python"),
        "leave one of them out");
  if (section.has("plugin") && section.has("python"))
    section.refuse("python", "it stands beside 'plugin'", "leave one of them out");
  if (!plugins_)
    section.refuse("plugin", "plugins run in worker processes of the service, and here is none",
                   "name this pipeline to batchflowd");
  const config::ConfigNode& steps = *plugins_->pipeline.find("steps");
  const std::shared_ptr<step::StepPlugin> plugin = open_plugin(
      section, steps.kind == config::ConfigNode::Kind::list ? steps.list.at(steps_) : steps,
      plugin_input(section), plugins_->settings);
  const step::StepDeclaration& declared = plugin->declared();
  out_->plugins_.push_back(plugin);
  PipelineStep step;
  step.name = declared.name;
  step.random = declared.random;
  step.text = plugin->text();
  const bool of_pictures = out_->picture_ && last_stage_ <= StepStage::picture;
  if (const auto made = of_pictures ? picture_by(section, plugin) : std::nullopt) {
    step.kind = *made;
  } else {
    check_output(section, *plugin);
    step.stage = StepStage::plugin;
    step.kind = PictureByPlugin{plugin, {}};
  }
  add(section, step);
}

batch::Field PipelineCompiler::plugin_input(config::ConfigSection& section) {
  if (out_->afterwards_) return out_->plugins_.back()->declared().output;
  if (!out_->picture_) return worked_on(section).second;
  if (last_stage_ <= StepStage::picture) {
    const Extent2 size = extent_.value_or(Extent2{});
    return {"image",
            batch::ElementType::u8,
            {static_cast<std::uint64_t>(size.height), static_cast<std::uint64_t>(size.width),
             kChannels},
            false};
  }
  end_picture();
  return out_->spec_.fields[out_->picture_->field];
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep& step,
                            std::uint32_t index, const PictureByPlugin& kind) {
  if (step.stage == StepStage::picture) {
    refuse_beside_followers(section, step.name);
    if (kind.size.width > 0) extent_ = kind.size;
    check_extent(section, "plugin", step.name, extent_);
    out_->picture_->steps.push_back({step.kind, index});
    return;
  }
  if (!out_->afterwards_) {
    if (out_->picture_) end_picture();
    Afterwards& made = out_->afterwards_.emplace();
    made.field = out_->picture_ ? out_->picture_->field : worked_on(section).first.field;
    made.before = {{out_->spec_.fields[made.field]}};
  }
  out_->afterwards_->steps.push_back({kind.plugin, index});
}

void PipelineCompiler::refuse_beside_followers(config::ConfigSection& section,
                                               std::string_view plugin) const {
  for (const JointField& field : out_->joint_)
    if (follows_picture(field.entry.kind))
      section.refuse(section.has("plugin") ? "plugin" : "python",
                     fmt::format("'{}' makes pictures, and field '{}' cannot go along with it",
                                 plugin, field.entry.name),
                     "write a step of the service, or leave that field out");
}

void PipelineCompiler::end_plugins() {
  Afterwards& made = *out_->afterwards_;
  if (const std::string problem = made.before.problem(); !problem.empty())
    section_.refuse("steps", problem, "make the samples smaller");
  end_kept(made);
  made.layout = batch::BlockLayout(made.before, 1);
  check_scratch(section_, "steps", made.layout.bytes, "what plugins are given of a sample");
  out_->spec_.fields[made.field] = out_->plugins_.back()->declared().output;
}

void PipelineCompiler::end_kept(Afterwards& made) {
  const auto is_fixed = [](const Afterwards::PlannedStep& one) {
    return !one.plugin->declared().output.ragged;
  };
  const auto end = made.steps.begin() + static_cast<std::ptrdiff_t>(made.kept);
  if (!out_->picture_ && out_->numbers_.size() == 1 &&
      std::all_of(made.steps.begin(), end, is_fixed))
    return;
  made.kept = 0;
  if (!out_->picture_) out_->info_.prefix_hash = 0;
}

}  // namespace batchflow::prepare
