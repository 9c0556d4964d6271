// What every policy must keep to, whatever it is asked: used at random, within what the engine
// might ask and at its edges. The tests run it over all policies, and `batchflow-sim check` over
// those of a plugin.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/engine/policy_list.h"

namespace batchflow::conformance {

// A policy has broken a rule. Says which, and by what.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Asks the policy that many times, and checks the rules: answers lie within what was offered, a
// share holds what its residents say, nothing that is pinned leaves, no proposal is refused.
// Returns a digest of all that it answered. Throws Violation.
std::uint64_t use_at_random(const engine::PolicyChoice& choice, std::uint64_t seed, int steps);

// Of a dispatch policy: with n jobs at speeds that differ by at most eight times, each is served
// within 10 n + 100 decisions. Throws Violation. REQUIRES: a policy that is not exempt (may_starve)
void check_fairness(const engine::PolicyChoice& choice, std::uint64_t seed);

// Of an eviction policy: what it answers does not depend on next uses that it has not declared to
// need. Throws Violation.
void check_honesty(const engine::PolicyChoice& choice, std::uint64_t seed);

// The policy with its defaults, and with each parameter at its least and at its greatest.
std::vector<engine::PolicyChoice> variants(const engine::PolicyEntry& entry);

}  // namespace batchflow::conformance
