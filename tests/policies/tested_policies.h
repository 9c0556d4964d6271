// What the suites run over: every registered policy and the examples of docs/policy-guide.md, each
// with its defaults and with every parameter at its least and at its greatest.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/registry.h"

namespace batchflow::policies {

// docs/examples: what the guide tells its reader to write.
extern const engine::PolicyEntry allocation_by_jobs;
extern const engine::PolicyEntry eviction_lru_protect;
extern const engine::PolicyEntry selection_most_shared;
extern const engine::PolicyEntry dispatch_most_wanted;
extern const engine::PolicyEntry scaling_follow_stall;

}  // namespace batchflow::policies

namespace batchflow::test {

inline const engine::PolicyList& tested_policies() {
  static const std::vector<const engine::PolicyEntry*> entries = [] {
    const auto registered = policies::policy_list().entries();
    std::vector<const engine::PolicyEntry*> all(registered.begin(), registered.end());
    for (const engine::PolicyEntry* example :
         {&policies::allocation_by_jobs, &policies::eviction_lru_protect,
          &policies::selection_most_shared, &policies::dispatch_most_wanted,
          &policies::scaling_follow_stall}) {
      // A reader who follows the guide to the letter has registered it.
      if (std::find(all.begin(), all.end(), example) == all.end()) all.push_back(example);
    }
    return all;
  }();
  static const engine::PolicyList list(entries);
  return list;
}

inline std::vector<std::string> extremes(const Parameter& parameter) {
  switch (parameter.type) {
    case Parameter::Type::integer:
      return {std::to_string(static_cast<std::int64_t>(parameter.least)),
              std::to_string(static_cast<std::int64_t>(parameter.greatest))};
    case Parameter::Type::number:
      return {std::to_string(parameter.least), std::to_string(parameter.greatest)};
    case Parameter::Type::flag:
      return {"false", "true"};
    case Parameter::Type::text:
      break;
  }
  return {std::string(parameter.default_value)};
}

inline std::vector<engine::PolicyChoice> variants(const engine::PolicyEntry& entry) {
  std::vector<engine::PolicyChoice> choices{{&entry, Parameters(entry.parameters)}};
  for (const Parameter& parameter : entry.parameters) {
    for (const std::string& value : extremes(parameter)) {
      choices.push_back({&entry, Parameters(entry.parameters)});
      choices.back().parameters.set(parameter.name, value);
    }
  }
  return choices;
}

// All variants of all policies of a kind.
inline std::vector<engine::PolicyChoice> variants_of(engine::PolicyKind kind) {
  std::vector<engine::PolicyChoice> choices;
  for (const engine::PolicyEntry* entry : tested_policies().of_kind(kind)) {
    for (engine::PolicyChoice& choice : variants(*entry)) choices.push_back(std::move(choice));
  }
  return choices;
}

template <class Make>
auto make(const engine::PolicyChoice& choice, std::uint64_t seed = 1) {
  return std::get<Make>(choice.entry->make)({Random(seed), choice.parameters});
}

}  // namespace batchflow::test
