#include "sim/fixed_policies.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/config_error.h"
#include "core/engine/engine_config.h"
#include "programs/output/terminal.h"

namespace batchflow::sim {

namespace {

using Policies = std::vector<std::pair<std::string, std::string>>;

std::string named(const Policies& policies, const std::string& kind) {
  const auto found = std::find_if(policies.begin(), policies.end(),
                                  [&](const auto& one) { return one.first == kind; });
  return found == policies.end() ? "" : found->second;
}

// What the preset of a run stands for; empty for a preset that this version does not know.
std::string usual(const output::RunResult& run, const std::string& kind) {
  engine::EngineConfig config;
  try {
    engine::apply_preset(config, named(run.policies, "preset"));
  } catch (const ConfigError&) {
    return "";
  }
  const engine::PolicyTexts& texts = config.policies;
  const Policies all = {{"allocation", texts.allocation},
                        {"eviction.encoded", texts.eviction[0]},
                        {"eviction.decoded", texts.eviction[1]},
                        {"eviction.prepared", texts.eviction[2]},
                        {"selection", texts.selection},
                        {"dispatch", texts.dispatch},
                        {"scaling", texts.scaling}};
  return named(all, kind);
}

}  // namespace

Policies fixed_policies(std::span<const output::RunResult* const> runs) {
  std::vector<const output::RunResult*> telling;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(telling),
               [](const output::RunResult* run) { return !run->policies.empty(); });
  Policies fixed;
  if (telling.empty()) return fixed;
  for (const auto& [kind, policy] : telling.front()->policies) {
    const auto has_it = [&, &kind = kind, &policy = policy](const output::RunResult* run) {
      return named(run->policies, kind) == policy;
    };
    const auto is_chosen = [&, &kind = kind](const output::RunResult* run) {
      return kind == "preset" || named(run->policies, kind) != usual(*run, kind);
    };
    if (std::all_of(telling.begin(), telling.end(), has_it) &&
        std::any_of(telling.begin(), telling.end(), is_chosen))
      fixed.emplace_back(kind, policy);
  }
  return fixed;
}

Policies fixed_policies(std::span<const output::RunResult> runs) {
  std::vector<const output::RunResult*> all;
  for (const output::RunResult& run : runs) all.push_back(&run);
  return fixed_policies(std::span<const output::RunResult* const>(all));
}

std::string policies_text(const Policies& policies) {
  std::string text;
  for (const auto& [kind, policy] : policies)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", output::printable(kind),
                        output::printable(policy));
  return text;
}

std::string fixed_policies_line(std::span<const output::RunResult> runs) {
  const Policies fixed = fixed_policies(runs);
  if (fixed.empty() || (fixed.size() == 1 && fixed[0].second == "default")) return "";
  return fmt::format("policies in all runs: {}\n", policies_text(fixed));
}

}  // namespace batchflow::sim
