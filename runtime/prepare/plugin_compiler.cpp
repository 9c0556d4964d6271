#include "runtime/prepare/plugin_compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/prepare/plugin_step.h"

namespace batchflow::prepare {

PipelineStep PluginCompiler::open(config::ConfigSection& section, std::uint32_t index,
                                  StepStage before) {
  if (picture_.is_view())
    section.refuse(plugin_key(section), "it stands in a view",
                   "write it into the steps of the pipeline");
  if (section.has("step"))
    section.refuse("step", fmt::format("it stands beside '{}'", plugin_key(section)),
                   "leave one of them out");
  if (section.has("plugin") && section.has("python"))
    section.refuse("python", "it stands beside 'plugin'", "leave one of them out");
  if (!plugins_)
    section.refuse("plugin", "plugins run in worker processes of the service, and here is none",
                   "name this pipeline to batchflowd");
  const config::ConfigNode& steps = *plugins_->pipeline.find("steps");
  const std::shared_ptr<step::StepPlugin> plugin = open_plugin(
      section, steps.kind == config::ConfigNode::Kind::list ? steps.list.at(index) : steps,
      input(section, before), plugins_->settings);
  const step::StepDeclaration& declared = plugin->declared();
  draft_.parts.plugins.push_back(plugin);
  PipelineStep step;
  step.name = declared.name;
  step.random = declared.random;
  step.text = plugin->text();
  const bool of_pictures = draft_.parts.picture && before <= StepStage::picture;
  if (const auto made = of_pictures ? picture_by(section, plugin) : std::nullopt) {
    step.kind = *made;
  } else {
    check_output(section, *plugin);
    step.stage = StepStage::plugin;
    step.kind = PictureByPlugin{plugin, {}};
  }
  return step;
}

batch::Field PluginCompiler::input(config::ConfigSection& section, StepStage before) {
  if (draft_.parts.afterwards) return draft_.parts.plugins.back()->declared().output;
  if (!draft_.parts.picture) return worked_on(draft_, section).made;
  if (before <= StepStage::picture) {
    const Extent2 size = picture_.extent().value_or(Extent2{});
    return {"image",
            batch::ElementType::u8,
            {static_cast<std::uint64_t>(size.height), static_cast<std::uint64_t>(size.width),
             kChannels},
            false};
  }
  picture_.end();
  return draft_.parts.spec.fields[draft_.parts.picture->field];
}

void PluginCompiler::take(config::ConfigSection& section, const PipelineStep& step,
                          std::uint32_t index, const PictureByPlugin& kind) {
  if (step.stage == StepStage::picture) {
    refuse_beside_followers(section, step.name);
    return picture_.take(section, step, index, kind);
  }
  if (!draft_.parts.afterwards) {
    if (draft_.parts.picture) picture_.end();
    Afterwards& made = draft_.parts.afterwards.emplace();
    made.field =
        draft_.parts.picture ? draft_.parts.picture->field : worked_on(draft_, section).plan.field;
    made.before = {{draft_.parts.spec.fields[made.field]}};
  }
  draft_.parts.afterwards->steps.push_back({kind.plugin, index});
}

void PluginCompiler::refuse_beside_followers(config::ConfigSection& section,
                                             std::string_view plugin) const {
  for (const JointField& field : draft_.parts.joint)
    if (follows_picture(field.entry.kind))
      section.refuse(plugin_key(section),
                     fmt::format("'{}' makes pictures, and field '{}' cannot go along with it",
                                 plugin, field.entry.name),
                     "write a step of the service, or leave that field out");
}

void PluginCompiler::end() {
  Afterwards& made = *draft_.parts.afterwards;
  if (const std::string problem = made.before.problem(); !problem.empty())
    draft_.section.refuse("steps", problem, "make the samples smaller");
  end_kept(made);
  made.layout = batch::BlockLayout(made.before, 1);
  draft_.check_scratch(draft_.section, "steps", made.layout.bytes,
                       "what plugins are given of a sample");
  draft_.parts.spec.fields[made.field] = draft_.parts.plugins.back()->declared().output;
}

void PluginCompiler::end_kept(Afterwards& made) {
  const auto is_fixed = [](const Afterwards::PlannedStep& one) {
    return !one.plugin->declared().output.ragged;
  };
  const auto end = made.steps.begin() + static_cast<std::ptrdiff_t>(made.kept);
  if (!draft_.parts.picture && draft_.parts.numbers.size() == 1 &&
      std::all_of(made.steps.begin(), end, is_fixed))
    return;
  made.kept = 0;
  if (!draft_.parts.picture) draft_.parts.info.prefix_hash = 0;
}

}  // namespace batchflow::prepare
