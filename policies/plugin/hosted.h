// A policy of a plugin: its tables, as far as this program knows them, checked and complete.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/plugin/batchflow_policy.h"

namespace batchflow::plugin {

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
  bf_rehearsal_functions rehearsal{};
  bf_mixture_functions mixture{};
  const void* user = nullptr;
  // The name by which instances that the plugin hands out as objects report failures. They guard
  // themselves.
  void* direct() const;

 private:
  // Of its kind; `settled`: the unstable ones, too, since the plugin has this program's version.
  void take_functions(const bf_policy& policy, bool settled);
  void take_eviction(const bf_policy& policy, bool settled);
  void take_selection(const bf_policy& policy, bool settled);
  void take_parameters(const bf_policy& policy);

  std::string name_;
  std::string help_;
  std::string from_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<Parameter> parameters_;
  engine::PolicyEntry entry_;
  std::shared_ptr<void> direct_;
};

}  // namespace batchflow::plugin
