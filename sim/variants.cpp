#include "sim/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

#include "core/base/config_value.h"
#include "core/base/names.h"
#include "core/engine/engine_config.h"
#include "policies/description.h"
#include "programs/config/engine_settings.h"
#include "programs/output/terminal.h"

namespace batchflow::sim {

namespace {

struct Kind {
  std::string name;
  std::vector<std::string> texts;
};

void check_choice(const engine::PolicyList& list, const std::string& kind,
                  const std::string& text) {
  if (kind == "preset") {
    engine::EngineConfig config;
    return engine::apply_preset(config, text);
  }
  list.choose(engine::policy_name(kind).kind, text);
}

void add(const engine::PolicyList& list, std::vector<Kind>& kinds, const std::string& kind,
         const std::string& text) {
  check_choice(list, kind, text);
  auto found = std::find_if(kinds.begin(), kinds.end(),
                            [&](const Kind& other) { return other.name == kind; });
  if (found == kinds.end()) found = kinds.insert(kinds.end(), Kind{kind, {}});
  if (std::find(found->texts.begin(), found->texts.end(), text) == found->texts.end()) {
    found->texts.push_back(text);
  }
}

// `text` stands between two commas; `kind` is the kind that was named last.
void parse_one(const engine::PolicyList& list, std::vector<Kind>& kinds, std::string_view text,
               std::string& kind) {
  if (kind.empty() || text.empty() || engine::find_kind(text)) {
    const auto [named, name] = engine::split_policy(text);
    kind = named;
    text = name;
  }
  add(list, kinds, kind, std::string(text));
}

std::vector<Kind> parse_kinds(const engine::PolicyList& list,
                              const std::vector<std::string>& texts) {
  std::vector<Kind> kinds;
  for (std::string_view text : texts) {
    std::string kind;
    for (;;) {
      const std::size_t comma = text.find(',');
      parse_one(list, kinds, text.substr(0, comma), kind);
      if (comma == std::string_view::npos) break;
      text.remove_prefix(comma + 1);
    }
  }
  // A preset comes first, so that the kinds beside it win.
  std::stable_partition(kinds.begin(), kinds.end(),
                        [](const Kind& kind) { return kind.name == "preset"; });
  return kinds;
}

config::ConfigNode scalar(const std::string& kind, const std::string& text) {
  config::ConfigNode node;
  node.source = {std::make_shared<const std::string>(fmt::format("--policy {}={}", kind, text)), 0};
  node.kind = config::ConfigNode::Kind::scalar;
  node.scalar = text;
  return node;
}

}  // namespace

std::vector<Variant> parse_variants(const engine::PolicyList& list,
                                    const std::vector<std::string>& texts) {
  std::vector<Variant> variants(1);
  for (const Kind& kind : parse_kinds(list, texts)) {
    std::vector<Variant> crossed;
    for (const Variant& variant : variants) {
      for (const std::string& text : kind.texts) {
        Variant with = variant;
        with.choices.emplace_back(kind.name, text);
        if (kind.texts.size() > 1) {
          with.label += fmt::format("{}{}={}", with.label.empty() ? "" : " ", kind.name, text);
        }
        crossed.push_back(std::move(with));
      }
    }
    variants = std::move(crossed);
  }
  return variants;
}

void check_policies(const engine::PolicyList& list, const engine::PolicyTexts& policies,
                    const config::ConfigNode& tree) {
  config::check_policies(policies, tree, [&](std::string_view kind, const std::string& text) {
    list.choose(engine::policy_name(kind).kind, text);
  });
}

void apply_variant(const Variant& variant, config::ConfigNode& tree) {
  for (const auto& [kind, text] : variant.choices) {
    if (kind == "preset") {
      // The preset stands for all kinds: what the scenario chose for another preset is removed.
      if (config::ConfigNode* engine = tree.find("engine")) {
        std::erase_if(engine->map,
                      [](const config::ConfigEntry& entry) { return entry.key == "policies"; });
      }
      tree.set("engine.preset", scalar(kind, text));
      continue;
    }
    const engine::PolicyName name = engine::policy_name(kind);
    for (const std::size_t one : name.evictions) {
      tree.set(fmt::format("engine.policies.eviction.{}", engine::eviction_name(one)),
               scalar(kind, text));
    }
    if (name.evictions.empty()) tree.set("engine.policies." + kind, scalar(kind, text));
  }
}

namespace {

using Policies = std::vector<std::pair<std::string, std::string>>;

std::string named(const Policies& policies, const std::string& kind) {
  const auto found = std::find_if(policies.begin(), policies.end(),
                                  [&](const auto& choice) { return choice.first == kind; });
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
  Policies all;
  engine::visit_policies(config.policies, [&](std::string_view name, const std::string& text) {
    all.emplace_back(name, text);
  });
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
  // What `eviction=` sets at once is shown as it was set.
  const std::string of_samples = named(policies, "eviction.encoded");
  const std::string on_gpus = named(policies, "eviction.gpu");
  const bool at_once = !of_samples.empty() && named(policies, "eviction.decoded") == of_samples &&
                       named(policies, "eviction.drive") == of_samples &&
                       (on_gpus.empty() || on_gpus == of_samples);
  std::string text;
  for (const auto& [kind, policy] : policies) {
    const bool follows =
        kind == "eviction.decoded" || kind == "eviction.drive" || kind == "eviction.gpu";
    if (at_once && follows) continue;
    const std::string shown = at_once && kind == "eviction.encoded" ? "eviction" : kind;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", output::printable(shown),
                        output::printable(policy));
  }
  return text;
}

namespace {

std::string starving_lines(std::span<const output::RunResult> runs) {
  std::set<std::string> lines;
  for (const output::RunResult& run : runs) {
    for (const auto& [kind, policy] : run.policies) {
      if (kind == "preset" || !policies::may_starve(kind, policy)) continue;
      lines.insert(fmt::format("{}={} may leave a job without data for ever\n",
                               output::printable(kind), output::printable(policy)));
    }
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace

std::string policies_lines(std::span<const output::RunResult> runs) {
  const Policies fixed = fixed_policies(runs);
  const bool plain = fixed.empty() || (fixed.size() == 1 && fixed[0].second == "default");
  return (plain ? "" : fmt::format("policies in all runs: {}\n", policies_text(fixed))) +
         starving_lines(runs);
}

}  // namespace batchflow::sim
