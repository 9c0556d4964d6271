// Policies of plugins that have failed: what this program uses no more, and why.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace batchflow::plugin {

// An instance that is used no more.
struct Failure {
  std::string policy;  // HostedPolicy::text
  std::string why;
  // Added by what `tell_of_failures` was given: the share or stream of the policy
  // (engine::PolicyScope), if that is known, and what it was asked.
  std::string scope;
  std::string asked;
};
void report(Failure failure);
// From now on `tell` is called from within the call that fails, with the failure that it may add
// to. Null: nothing is called.
void tell_of_failures(std::function<void(Failure&)> tell);
// The failures since the last call. Cheap while there are none.
std::vector<Failure> take_failures();
// Throws std::runtime_error with all of them, if there are any: what a simulation came to is not
// what the policy would do.
void check_failures();

}  // namespace batchflow::plugin
