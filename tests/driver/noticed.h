// Canaries: whether the checker notices a batch that is spoilt.
#pragma once

#include <functional>
#include <vector>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

using Spoil = std::function<void(std::vector<Handed>&, Rank, std::uint64_t step)>;

inline bool is_noticed(const Scenario& scenario, const Spoil& spoil) {
  Hooks hooks;
  hooks.handed = spoil;
  try {
    Driver(scenario, policies::policy_list(), hooks).run();
    return false;
  } catch (const Violation&) {
    return true;
  }
}

}  // namespace batchflow::test
