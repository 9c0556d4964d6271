// The parameters of steps that choose among changes, and of those that contain other steps.
#include <numeric>
#include <string>
#include <vector>

#include "runtime/prepare/step_readers.h"

namespace batchflow::prepare {
namespace {

constexpr int kBinsMost = 1000, kOperationsMost = 16;
// Deep enough for what people write; reading a text that is deeper would take ever more stack.
constexpr int kDepthMost = 3;

int read_bins(config::ConfigSection& section) {
  return static_cast<int>(section.integer("bins", 31, 2, kBinsMost));
}

// The steps under `steps`, and their texts.
std::vector<NestedStep> read_inner(config::ConfigSection& section, int depth, std::string& text) {
  if (depth >= kDepthMost)
    section.refuse("step", fmt::format("it stands inside of {} others", depth),
                   fmt::format("write at most {} inside of each other", kDepthMost));
  section.require("steps", "write a list of steps, as [{step: greyscale}]");
  std::vector<NestedStep> steps;
  section.sections("steps", [&](config::ConfigSection& inner) {
    if (inner.has("plugin") || inner.has("python"))
      inner.refuse(inner.has("plugin") ? "plugin" : "python", "it stands inside of another step",
                   "write it into the pipeline's own list");
    PipelineStep step = read_step(inner, depth + 1);
    if (step.stage != StepStage::picture)
      inner.refuse("step", fmt::format("'{}' stands inside of another step", step.name),
                   "write only steps that change pictures there");
    text += fmt::format(" {{{}}}", step.text);
    steps.push_back({step.name, std::move(step.kind)});
  });
  if (steps.empty()) section.refuse("steps", "it is empty", "write what may be done");
  return steps;
}

}  // namespace

ReadStep read_rand_augment(config::ConfigSection& section) {
  RandAugment step;
  step.operations = static_cast<int>(section.integer("operations", 2, 1, kOperationsMost));
  step.bins = read_bins(section);
  step.magnitude = static_cast<int>(section.integer("magnitude", 9, 0, step.bins - 1));
  step.style = read_warp_style(section);
  return {step, fmt::format("operations={} magnitude={} bins={} {}", step.operations,
                            step.magnitude, step.bins, text_of(step.style))};
}

ReadStep read_trivial_augment(config::ConfigSection& section) {
  TrivialAugment step;
  step.bins = read_bins(section);
  step.style = read_warp_style(section);
  return {step, fmt::format("bins={} {}", step.bins, text_of(step.style))};
}

ReadStep read_auto_augment(config::ConfigSection& section) {
  const std::vector<std::string_view> policies = {"imagenet", "cifar10", "svhn"};
  AutoAugment step;
  step.policy = section.choice("policy", policies, AugmentPolicy::imagenet);
  step.style = read_warp_style(section);
  return {step, fmt::format("policy={} {}", policies[static_cast<std::size_t>(step.policy)],
                            text_of(step.style))};
}

ReadStep read_random_apply(config::ConfigSection& section, int depth) {
  RandomApply step;
  step.probability = section.number("probability", 0.5, 0, 1);
  std::string text = fmt::format("probability={}", step.probability);
  step.steps = read_inner(section, depth, text);
  return {std::move(step), text};
}

ReadStep read_random_choice(config::ConfigSection& section, int depth) {
  RandomChoice step;
  std::string inner;
  step.steps = read_inner(section, depth, inner);
  step.probabilities.assign(step.steps.size(), 1.0);
  if (section.has("probabilities")) {
    constexpr std::string_view remedy = "write a number from 0 on for each step, not all of them 0";
    const std::vector<std::string> texts = section.texts("probabilities");
    if (texts.size() != step.steps.size())
      section.refuse("probabilities",
                     fmt::format("{} values for {} steps", texts.size(), step.steps.size()),
                     remedy);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto value = parse_number(texts[i]);
      if (!value || !(*value >= 0 && *value <= 1e6))
        section.refuse("probabilities",
                       fmt::format("'{}' is not such a number", texts[i].substr(0, 40)), remedy);
      step.probabilities[i] = *value;
    }
  }
  const double sum = std::accumulate(step.probabilities.begin(), step.probabilities.end(), 0.0);
  if (!(sum > 0)) section.refuse("probabilities", "all of them are 0", "leave it out");
  for (double& probability : step.probabilities) probability /= sum;
  std::string text = fmt::format("probabilities={}{}", fmt::join(step.probabilities, ","), inner);
  return {std::move(step), std::move(text)};
}

}  // namespace batchflow::prepare
