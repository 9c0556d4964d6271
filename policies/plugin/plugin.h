// Makes a plugin of policies that are written as built-in ones are:
//
//   constexpr engine::PolicyEntry eviction_mine{"mine", "...", &make_eviction<Mine>, kParameters};
//   BATCHFLOW_POLICY_PLUGIN("mine", "1.0.0", eviction_mine)
//
// The macro stands in one file of the plugin, at namespace scope, behind what it names: entries of
// policies and presets, all constexpr. This file defines what the policy headers only declare, so
// that file alone includes it.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/zeroed_memory.h"
#include "core/engine/policy_list.h"
#include "core/engine/preset.h"
#include "policies/plugin/batchflow_policy.h"
#include "policies/plugin/tables.h"

namespace batchflow::plugin {

// All tables of a plugin, as the host sees them.
class Offer {
 public:
  void add(const engine::PolicyEntry& entry) {
    bf_policy& policy = *policies_.emplace_back(std::make_unique<bf_policy>());
    policy.bytes = sizeof(bf_policy);
    policy.kind = static_cast<std::uint32_t>(entry.kind());
    policy.name = text(entry.name);
    policy.help = text(entry.help);
    const std::pair<bool, std::uint32_t> flags[] = {
        {entry.clairvoyant, BF_CLAIRVOYANT},
        {entry.next_uses, BF_NEXT_USES},
        {entry.reads_early, BF_READS_EARLY},
        {entry.ignores_hits, BF_IGNORES_HITS},
        {entry.whole_without_hits, BF_WHOLE_WITHOUT_HITS},
        {entry.simulated_only, BF_SIMULATED_ONLY},
        {entry.may_starve, BF_MAY_STARVE}};
    policy.flags = 0;
    for (const auto& [set, flag] : flags) policy.flags |= set ? flag : 0;
    auto& parameters = parameters_.emplace_back();
    for (const Parameter& one : entry.parameters) {
      declared_.push_back(std::make_unique<bf_policy_parameter>(bf_policy_parameter{
          sizeof(bf_policy_parameter), static_cast<std::uint32_t>(one.type), text(one.name),
          text(one.default_value), text(one.help), one.least, one.greatest}));
      parameters.push_back(declared_.back().get());
    }
    policy.parameter_count = static_cast<std::uint32_t>(parameters.size());
    policy.parameters = parameters.data();
    policy.user = &entry;
    set_tables(policy, entry.kind());
  }
  void add(const engine::Preset& preset) {
    bf_policy_preset made{};
    made.bytes = sizeof(bf_policy_preset);
    if (preset.share_streams) made.flags |= BF_SHARE_STREAMS;
    if (preset.share_nodes) made.flags |= BF_SHARE_NODES;
    if (preset.workers_held_during_reads) made.flags |= BF_WORKERS_HELD_DURING_READS;
    made.name = text(preset.name);
    made.help = text(preset.help);
    made.allocation = text(preset.allocation);
    for (std::size_t form = 0; form < kForms; ++form)
      made.eviction[form] = text(preset.eviction[form]);
    made.selection = text(preset.selection);
    made.dispatch = text(preset.dispatch);
    made.scaling = text(preset.scaling);
    made.helper_nodes = preset.helper_nodes;
    made.workers_per_rank = preset.workers_per_rank;
    made.late_after_p99 = preset.late_after_p99;
    presets_.push_back(std::make_unique<bf_policy_preset>(made));
  }

  const bf_policy_plugin* plugin(std::uint32_t version) {
    for (const auto& one : policies_) policy_list_.push_back(one.get());
    for (const auto& one : presets_) preset_list_.push_back(one.get());
    plugin_ = {sizeof(bf_policy_plugin),
               version,
               BF_POLICY_UNSTABLE,
               static_cast<std::uint32_t>(policy_list_.size()),
               policy_list_.data(),
               static_cast<std::uint32_t>(preset_list_.size()),
               0,
               preset_list_.data()};
    return &plugin_;
  }

 private:
  const char* text(std::string_view from) {
    return texts_.emplace_back(std::make_unique<std::string>(from))->c_str();
  }
  static void set_tables(bf_policy& policy, engine::PolicyKind kind) {
    policy.unstable = nullptr;
    switch (kind) {
      case engine::PolicyKind::allocation:
        policy.common = &kCommon<engine::AllocationPolicy>;
        policy.functions = &kAllocation;
        return;
      case engine::PolicyKind::eviction:
        policy.common = &kCommon<engine::EvictionPolicy>;
        policy.functions = &kEviction;
        policy.unstable = &kEvictionUnstable;
        return;
      case engine::PolicyKind::selection:
        policy.common = &kCommon<engine::SelectionPolicy>;
        policy.functions = &kSelection;
        policy.unstable = &kSelectionUnstable;
        return;
      case engine::PolicyKind::dispatch:
        policy.common = &kCommon<engine::DispatchPolicy>;
        policy.functions = &kDispatch;
        policy.unstable = &kDispatchUnstable;
        return;
      case engine::PolicyKind::scaling:
        policy.common = &kCommon<engine::ScalingPolicy>;
        policy.functions = &kScaling;
        return;
      case engine::PolicyKind::rehearsal:
        policy.common = &kCommon<engine::RehearsalPolicy>;
        policy.functions = &kRehearsal;
        return;
      case engine::PolicyKind::mixture:
        policy.common = &kCommon<engine::MixturePolicy>;
        policy.functions = &kMixture;
        return;
    }
  }

  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<std::unique_ptr<bf_policy_parameter>> declared_;
  std::vector<std::vector<const bf_policy_parameter*>> parameters_;
  std::vector<std::unique_ptr<bf_policy>> policies_;
  std::vector<std::unique_ptr<bf_policy_preset>> presets_;
  std::vector<const bf_policy*> policy_list_;
  std::vector<const bf_policy_preset*> preset_list_;
  bf_policy_plugin plugin_{};
};

// The least version of the interface that has policies of this kind.
constexpr std::uint32_t version_least(const engine::PolicyEntry& entry) {
  const bool since_2 = entry.kind() >= engine::PolicyKind::rehearsal;
  return since_2 ? std::uint32_t{2} : std::uint32_t{BF_POLICY_VERSION_LEAST};
}
constexpr std::uint32_t version_least(const engine::Preset&) {
  return BF_POLICY_VERSION_LEAST;
}
template <class... Parts>
constexpr std::uint32_t least_of_all(const Parts&... parts) {
  return std::max({version_least(parts)...});
}

template <class... Parts>
const bf_policy_plugin* offer(const bf_policy_host* given_host, const Parts&... parts) noexcept {
  if (given_host->version < least_of_all(parts...) || given_host->version_least > BF_POLICY_VERSION)
    return nullptr;
  host = given_host;
  try {
    static Offer all;
    static const bf_policy_plugin* const plugin = [&] {
      (all.add(parts), ...);
      return all.plugin(std::min<std::uint32_t>(host->version, BF_POLICY_VERSION));
    }();
    return plugin;
  } catch (const std::exception&) {
    return nullptr;  // there is no memory
  }
}

// -------------------------------------------------------------------------------- its footer ----

template <std::size_t room>
constexpr std::size_t put(char (&to)[room], std::size_t at, std::string_view text) {
  // A text that does not fit does not compile.
  if (at + text.size() >= room) throw std::bad_alloc();
  for (const char one : text) to[at++] = one;
  return at;
}
constexpr std::string_view kind_of(const engine::PolicyEntry& entry) {
  constexpr std::string_view kNames[] = {"allocation", "eviction",  "selection", "dispatch",
                                         "scaling",    "rehearsal", "mixture"};
  return kNames[static_cast<std::size_t>(entry.kind())];
}
constexpr std::string_view kind_of(const engine::Preset&) {
  return "preset";
}

template <class... Parts>
constexpr bf_policy_footer footer(std::string_view name, std::string_view version,
                                  const Parts&... parts) {
  bf_policy_footer made{};
  for (std::size_t i = 0; i < sizeof(made.magic); ++i) made.magic[i] = BF_POLICY_MAGIC[i];
  made.bytes = sizeof(bf_policy_footer);
  made.version_least = least_of_all(parts...);
  made.version = BF_POLICY_VERSION;
  made.unstable = BF_POLICY_UNSTABLE;
  put(made.platform, 0, BF_POLICY_PLATFORM);
  put(made.name, 0, name);
  put(made.plugin_version, 0, version);
  std::size_t at = 0;
  const auto add = [&](std::string_view kind, std::string_view policy) {
    if (at > 0) at = put(made.policies, at, " ");
    at = put(made.policies, at, kind);
    at = put(made.policies, at, "=");
    at = put(made.policies, at, policy);
  };
  (add(kind_of(parts), parts.name), ...);
  return made;
}

}  // namespace batchflow::plugin

#define BATCHFLOW_POLICY_PLUGIN(name, version, ...)                                        \
  extern "C" const bf_policy_plugin* batchflow_policy_plugin(const bf_policy_host* host) { \
    return ::batchflow::plugin::offer(host, __VA_ARGS__);                                  \
  }                                                                                        \
  extern const bf_policy_footer batchflow_policy_footer;                                   \
  __attribute__((section(BF_POLICY_SECTION),                                               \
                 used)) constexpr bf_policy_footer batchflow_policy_footer =               \
      ::batchflow::plugin::footer(name, version, __VA_ARGS__);

// ------------------------------------------------------- what the policy headers only declare ----

namespace batchflow {

void check_failed(const char* condition, const char* file, int line, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, condition, *message ? ": " : "",
               message);
  std::abort();
}

ZeroedMemory::~ZeroedMemory() {
  if (data_ != nullptr) plugin::host->free_memory(data_, bytes_);
}

void ZeroedMemory::grow(std::size_t bytes) {
  if (bytes <= bytes_) return;
  std::uint64_t now = bytes_;
  void* const grown = plugin::host->grow_memory(data_, &now, bytes);
  if (grown == nullptr) throw std::bad_alloc();
  data_ = grown;
  bytes_ = now;
}

}  // namespace batchflow
