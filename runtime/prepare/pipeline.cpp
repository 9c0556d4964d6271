#include "runtime/prepare/pipeline.h"

#include <algorithm>

#include "runtime/prepare/pipeline_compiler.h"

namespace batchflow::prepare {

void check_pipeline(const config::ConfigNode& pipeline) {
  config::read_config(pipeline, [&](config::ConfigSection& section) {
    check_head(section);
    section.has("field");
    section.sections("fields", [](config::ConfigSection& field) {
      read_field(field);
      field.sections("steps", [](config::ConfigSection& step) {
        if (!is_plugin(step)) read_step(step);
      });
    });
    section.sections("views", [](config::ConfigSection& view) {
      read_view(view);
      view.sections("steps", [](config::ConfigSection& step) {
        if (!is_plugin(step)) read_step(step);
      });
    });
    const config::ConfigNode& steps = *pipeline.find("steps");
    std::size_t at = 0;
    section.sections("steps", [&](config::ConfigSection& step) {
      check_count(step, at);
      const config::ConfigNode& written =
          steps.kind == config::ConfigNode::Kind::list ? steps.list[at] : steps;
      ++at;
      if (!is_plugin(step)) {
        read_step(step);
      } else {
        for (const config::ConfigEntry& parameter : written.map) step.has(parameter.key);
      }
    });
  });
}

std::unique_ptr<Pipeline> compile_pipeline(config::ConfigSection& section,
                                           const sources::SampleIndex& dataset,
                                           const memory::ScratchLimits& scratch) {
  return PipelineCompiler(section, dataset, nullptr, scratch).run();
}

std::unique_ptr<Pipeline> compile_pipeline(const config::ConfigNode& pipeline,
                                           const sources::SampleIndex& dataset,
                                           const step::StepSettings& steps,
                                           const memory::ScratchLimits& scratch) {
  const PluginCompiler::Plugins plugins{pipeline, steps};
  std::unique_ptr<Pipeline> compiled;
  config::read_config(pipeline, [&](config::ConfigSection& section) {
    compiled = PipelineCompiler(section, dataset, &plugins, scratch).run();
  });
  return compiled;
}

namespace {

bool has_step_with(const config::ConfigNode& pipeline, std::string_view key) {
  const config::ConfigNode* const steps = pipeline.find("steps");
  return steps &&
         std::any_of(steps->list.begin(), steps->list.end(),
                     [key](const config::ConfigNode& step) { return step.find(key) != nullptr; });
}

}  // namespace

bool has_plugins(const config::ConfigNode& pipeline) {
  return has_step_with(pipeline, "plugin");
}

bool has_functions(const config::ConfigNode& pipeline) {
  return has_step_with(pipeline, "python");
}

}  // namespace batchflow::prepare
