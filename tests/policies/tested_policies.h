// What the suites run over: every registered policy and the examples of docs/policy-guide.md, each
// with its defaults and with every parameter at its least and at its greatest.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/conformance/conformance.h"
#include "policies/registry.h"

namespace batchflow::policies {

// docs/examples: what the guide tells its reader to write.
extern const engine::PolicyEntry allocation_by_jobs;
extern const engine::PolicyEntry eviction_lru_protect;
extern const engine::PolicyEntry selection_most_shared;
extern const engine::PolicyEntry dispatch_most_wanted;
extern const engine::PolicyEntry scaling_follow_stall;
extern const engine::PolicyEntry rehearsal_newest;
extern const engine::PolicyEntry mixture_hardest_half;

}  // namespace batchflow::policies

namespace batchflow::test {

inline const engine::PolicyList& tested_policies() {
  static const std::vector<const engine::PolicyEntry*> entries = [] {
    const auto registered = policies::policy_list().entries();
    std::vector<const engine::PolicyEntry*> all(registered.begin(), registered.end());
    for (const engine::PolicyEntry* example :
         {&policies::allocation_by_jobs, &policies::eviction_lru_protect,
          &policies::selection_most_shared, &policies::dispatch_most_wanted,
          &policies::scaling_follow_stall, &policies::rehearsal_newest,
          &policies::mixture_hardest_half}) {
      // A reader who follows the guide to the letter has registered it.
      if (std::find(all.begin(), all.end(), example) == all.end()) all.push_back(example);
    }
    return all;
  }();
  static const engine::PolicyList list(entries);
  return list;
}

using conformance::variants;

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
  return choice.make<Make>(Random(seed));
}

}  // namespace batchflow::test
