// Policies of plugins, as the engine sees policies: objects of its own classes that a plugin made,
// or adaptors between those classes and the tables of the C interface. What a plugin answers
// against the rules of that interface ends the use of that instance: from then on the adaptor
// answers as if it had nothing to say, which the engine bears.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/plugin/batchflow_policy.h"

namespace batchflow::plugin {

// What this program offers to plugins.
const bf_policy_host& policy_host();

// A policy of a plugin that is loaded, for as long as the program runs.
class HostedPolicy {
 public:
  // Throws ConfigError if the tables contradict themselves or the interface. `unstable`: the
  // version of the unstable tables that the plugin has.
  HostedPolicy(const bf_policy& policy, std::uint32_t unstable, std::string from);
  HostedPolicy(const HostedPolicy&) = delete;

  const engine::PolicyEntry& entry() const { return entry_; }
  // `eviction mine@3f2a91bc`
  std::string text() const;

  // Of its kind; functions that the plugin does not have do their default.
  bf_policy_common common{};
  bf_allocation_functions allocation{};
  bf_eviction_functions eviction{};
  bf_eviction_unstable eviction_unstable{};
  bf_selection_functions selection{};
  bf_selection_unstable selection_unstable{};
  bf_dispatch_functions dispatch{};
  bf_dispatch_unstable dispatch_unstable{};
  bf_scaling_functions scaling{};
  const void* user = nullptr;
  // What instances are called that the plugin hands out as objects: they guard themselves.
  void* direct() const;

 private:
  std::string name_;
  std::string help_;
  std::string from_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<Parameter> parameters_;
  engine::PolicyEntry entry_;
  std::shared_ptr<void> direct_;
};

// ----------------------------------------------------------------------------------- failures ----

// An instance that is used no more.
struct Failure {
  std::string policy;  // HostedPolicy::text
  std::string why;
  // Added by what `tell_of_failures` was given: the share or stream of the policy
  // (engine::PolicyScope), if that is known, and what it was asked.
  std::string of;
  std::string asked;
};
// From now on `tell` is called from within the call that fails, with the failure that it may add
// to. Null: nothing is.
void tell_of_failures(std::function<void(Failure&)> tell);
// Those since it was asked last. Cheap while there are none.
std::vector<Failure> take_failures();
// Throws std::runtime_error with all of them, if there are any: what a simulation came to is not
// what the policy would do.
void check_failures();

}  // namespace batchflow::plugin
