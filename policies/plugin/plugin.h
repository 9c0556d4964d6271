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
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/zeroed_memory.h"
#include "core/engine/policy_list.h"
#include "core/engine/preset.h"
#include "policies/plugin/batchflow_policy.h"
#include "policies/plugin/guarded.h"
#include "policies/plugin/layout.h"

namespace batchflow::plugin {

// ----------------------------------------------------------------------------- what it stands on
// --

// A struct that the host made, as this plugin knows it. If the host is older and its struct
// shorter, what it lacks has its default.
template <class Struct>
class Seen {
 public:
  Seen(const void* made, int index) {
    const std::uint32_t bytes = host->struct_bytes[index];
    if (bytes >= sizeof(Struct)) [[likely]] {
      seen_ = static_cast<const Struct*>(made);
    } else {
      std::memcpy(static_cast<void*>(&copy_.emplace()), made, bytes);
      seen_ = &*copy_;
    }
  }
  Seen(const Seen&) = delete;
  const Struct& operator*() const { return *seen_; }

 private:
  const Struct* seen_;
  std::optional<Struct> copy_;
};

// The same for an array.
template <class Struct>
std::span<const Struct> seen_array(const void* made, std::uint64_t count, int index,
                                   std::vector<Struct>& copies) {
  const std::uint32_t bytes = host->struct_bytes[index];
  if (bytes == sizeof(Struct)) return {static_cast<const Struct*>(made), count};
  copies.assign(count, Struct{});
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<void*>(&copies[i]), static_cast<const char*>(made) + i * bytes,
                std::min<std::size_t>(bytes, sizeof(Struct)));
  }
  return copies;
}

// A policy, which guards itself, and what its kind needs to show it views of another host.
template <class Interface>
struct Instance {
  std::unique_ptr<Interface> policy;
  std::vector<engine::ShareView> shares;
  std::vector<engine::SelectionCandidate> blocks;
  std::vector<engine::SampleCandidate> samples;
  std::vector<engine::WorkCandidate> work;
  std::vector<engine::NodeCandidate> nodes;
};

template <class Interface>
Instance<Interface>& instance(void* policy) {
  return *static_cast<Instance<Interface>*>(policy);
}

inline std::int64_t count_of(Instant at) {
  return at.time_since_epoch().count();
}
inline Instant instant(std::int64_t count) {
  return Instant(Duration(count));
}

// --------------------------------------------------------------------------- tables of a kind ----

// The policy that the host wants; null: it failed, and the host was told.
template <class Interface>
std::unique_ptr<Interface> make_object(const void* user, const bf_policy_context* made) noexcept {
  const auto& entry = *static_cast<const engine::PolicyEntry*>(user);
  const Seen<bf_policy_context> seen(made, BF_STRUCT_CONTEXT);
  const bf_policy_context& context = *seen;
  bool failed = false;
  return guarded(
      context.instance, failed,
      [&]() -> std::unique_ptr<Interface> {
        std::vector<bf_parameter_value> copies;
        std::vector<Parameters::Value> values;
        for (const bf_parameter_value& one : seen_array(context.parameters, context.parameter_count,
                                                        BF_STRUCT_PARAMETER_VALUE, copies))
          values.push_back({one.text, one.integer, one.number, one.flag != 0});
        const Parameters parameters(entry.parameters, std::move(values));
        const Random random(context.seed);
        if constexpr (std::is_same_v<Interface, engine::EvictionPolicy>) {
          return std::get<engine::MakeEviction>(entry.make)(
              {context.items, context.capacity, random, parameters, static_cast<Form>(context.form),
               static_cast<Tier>(context.tier), DatasetId(context.dataset), context.instance});
        } else {
          using Make = std::unique_ptr<Interface> (*)(const engine::PolicyContext&);
          return std::get<Make>(entry.make)({random, parameters, context.instance});
        }
      },
      [] { return std::unique_ptr<Interface>(); });
}

template <class Interface>
inline constexpr bf_policy_common kCommon{
    .bytes = sizeof(bf_policy_common),
    .reserved = 0,
    .make = [](const void* user, const bf_policy_context* context) noexcept -> void* {
      auto policy = make_object<Interface>(user, context);
      if (!policy) return nullptr;
      auto* const made = new (std::nothrow) Instance<Interface>;
      if (made != nullptr) made->policy = std::move(policy);
      return made;
    },
    .end = [](void* policy) { delete static_cast<Instance<Interface>*>(policy); },
    .save = [](void* policy, void* to, std::uint64_t room) -> std::uint64_t {
      return instance<Interface>(policy).policy->save({static_cast<std::byte*>(to), room});
    },
    .restore =
        [](void* policy, const void* saved, std::uint64_t bytes) {
          instance<Interface>(policy).policy->restore(
              {static_cast<const std::byte*>(saved), bytes});
        },
    .object = [](const void* user, const bf_policy_context* context) noexcept -> void* {
      return make_object<Interface>(user, context).release();
    },
    .object_version = BF_POLICY_OBJECT,
    .reserved_2 = 0,
};

// The functions of each kind, as the C interface has them.

template <class Interface>
Interface& of(void* policy) {
  return *instance<Interface>(policy).policy;
}
using Allocation = engine::AllocationPolicy;
using Eviction = engine::EvictionPolicy;
using Selection = engine::SelectionPolicy;
using Dispatch = engine::DispatchPolicy;
using Scaling = engine::ScalingPolicy;
using SeenAccess = Seen<engine::Access>;

inline constexpr bf_allocation_functions kAllocation{
    .bytes = sizeof(bf_allocation_functions),
    .reserved = 0,
    .allocate =
        [](void* policy, const bf_place_view* made, std::uint64_t* slots) {
          const Seen<bf_place_view> seen(made, BF_STRUCT_PLACE_VIEW);
          const bf_place_view& view = *seen;
          const auto shares = seen_array(view.shares, view.share_count, BF_STRUCT_SHARE_VIEW,
                                         instance<Allocation>(policy).shares);
          of<Allocation>(policy).allocate(
              {{NodeId(view.place.node), static_cast<Tier>(view.place.tier), view.place.device},
               view.capacity_bytes,
               shares,
               instant(view.now),
               view.workers,
               view.busy,
               view.waits_for_reads,
               view.store_bytes_per_s},
              {slots, view.share_count});
        },
    .ask_again = [](void* policy) { return count_of(of<Allocation>(policy).ask_again()); },
    .wants_measures = [](void* policy) -> std::uint32_t {
      return of<Allocation>(policy).wants_measures();
    },
    .forecast =
        [](void* policy, bf_forecast* forecast) {
          const engine::Forecast answer = of<Allocation>(policy).forecast();
          std::memcpy(
              static_cast<void*>(forecast), &answer,
              std::min<std::size_t>(host->struct_bytes[BF_STRUCT_FORECAST], sizeof(answer)));
        },
};

inline constexpr bf_eviction_functions kEviction{
    .bytes = sizeof(bf_eviction_functions),
    .reserved = 0,
    .hit =
        [](void* policy, const bf_access* made) {
          of<Eviction>(policy).hit(*SeenAccess(made, BF_STRUCT_ACCESS));
        },
    .missed = [](void* policy, const bf_access* made) -> std::uint32_t {
      return static_cast<std::uint32_t>(
          of<Eviction>(policy).missed(*SeenAccess(made, BF_STRUCT_ACCESS)));
    },
    .inserted =
        [](void* policy, const bf_access* made) {
          of<Eviction>(policy).inserted(*SeenAccess(made, BF_STRUCT_ACCESS));
        },
    .victim =
        [](void* policy, const bf_access* made) {
          return of<Eviction>(policy).victim(*SeenAccess(made, BF_STRUCT_ACCESS)).value;
        },
    .removed =
        [](void* policy, std::uint32_t item, std::uint32_t why) {
          of<Eviction>(policy).removed(ItemId(item), static_cast<engine::Removal>(why));
        },
    .pinned = [](void* policy, std::uint32_t item) { of<Eviction>(policy).pinned(ItemId(item)); },
    .unpinned = [](void* policy,
                   std::uint32_t item) { of<Eviction>(policy).unpinned(ItemId(item)); },
    .resized = [](void* policy, std::uint64_t capacity) { of<Eviction>(policy).resized(capacity); },
    .grow = [](void* policy, std::uint64_t items) { of<Eviction>(policy).grow(items); },
    .forget = [](void* policy, std::uint32_t item) { of<Eviction>(policy).forget(ItemId(item)); },
    .needed = [](void* policy, std::uint32_t item,
                 std::uint32_t jobs) { of<Eviction>(policy).needed(ItemId(item), jobs); },
    .scored = [](void* policy, std::uint32_t item,
                 float score) { of<Eviction>(policy).scored(ItemId(item), score); },
    .epoch_began = [](void* policy, std::uint32_t job,
                      std::uint32_t epoch) { of<Eviction>(policy).epoch_began(JobId(job), epoch); },
};

inline constexpr bf_eviction_unstable kEvictionUnstable{
    .bytes = sizeof(bf_eviction_unstable),
    .reserved = 0,
    .prefetch = [](void* policy,
                   std::uint32_t item) { of<Eviction>(policy).prefetch(ItemId(item)); },
    .read_early = [](void* policy, const bf_access* made) -> std::uint32_t {
      return static_cast<std::uint32_t>(
          of<Eviction>(policy).read_early(*SeenAccess(made, BF_STRUCT_ACCESS)));
    },
};

inline constexpr bf_selection_functions kSelection{
    .bytes = sizeof(bf_selection_functions),
    .reserved = 0,
    .choose = [](void* policy, const bf_selection_view* made) -> std::uint64_t {
      const Seen<bf_selection_view> seen(made, BF_STRUCT_SELECTION_VIEW);
      const bf_selection_view& view = *seen;
      return of<Selection>(policy).choose(
          {JobId(view.job), static_cast<Order>(view.order),
           seen_array(view.candidates, view.candidate_count, BF_STRUCT_SELECTION_CANDIDATE,
                      instance<Selection>(policy).blocks),
           instant(view.now), view.user});
    },
    .looks_behind_ready = [](void* policy) -> std::uint32_t {
      return of<Selection>(policy).looks_behind_ready();
    },
    .ask_again = [](void* policy) { return count_of(of<Selection>(policy).ask_again()); },
    .epoch_began =
        [](void* policy, std::uint32_t job, std::uint32_t epoch) {
          of<Selection>(policy).epoch_began(JobId(job), epoch);
        },
    .weigh =
        [](void* policy, std::uint32_t job, const float* scores, float* weights,
           std::uint64_t count) {
          of<Selection>(policy).weigh(JobId(job), {scores, count}, {weights, count});
        },
};

inline constexpr bf_selection_unstable kSelectionUnstable{
    .bytes = sizeof(bf_selection_unstable),
    .reserved = 0,
    .blocks_to_choose_from =
        [](void* policy) { return of<Selection>(policy).blocks_to_choose_from(); },
    .choose_samples =
        [](void* policy, const bf_samples_view* made, std::uint32_t* picks, std::uint64_t count) {
          const Seen<bf_samples_view> seen(made, BF_STRUCT_SAMPLES_VIEW);
          const bf_samples_view& view = *seen;
          of<Selection>(policy).choose_samples(
              {JobId(view.job), view.epoch, view.left,
               seen_array(view.candidates, view.candidate_count, BF_STRUCT_SAMPLE_CANDIDATE,
                          instance<Selection>(policy).samples),
               instant(view.now)},
              {picks, count});
        },
};

inline constexpr bf_dispatch_functions kDispatch{
    .bytes = sizeof(bf_dispatch_functions),
    .reserved = 0,
    .next = [](void* policy, const bf_dispatch_view* made) -> std::uint64_t {
      const Seen<bf_dispatch_view> seen(made, BF_STRUCT_DISPATCH_VIEW);
      const bf_dispatch_view& view = *seen;
      return of<Dispatch>(policy).next(
          {instant(view.now),
           seen_array(view.candidates, view.candidate_count, BF_STRUCT_WORK_CANDIDATE,
                      instance<Dispatch>(policy).work)});
    },
    .ask_again = [](void* policy) { return count_of(of<Dispatch>(policy).ask_again()); },
};

inline constexpr bf_dispatch_unstable kDispatchUnstable{
    .bytes = sizeof(bf_dispatch_unstable),
    .reserved = 0,
    .chooses_nodes = [](void* policy) -> std::uint32_t {
      return of<Dispatch>(policy).chooses_nodes();
    },
    .choose_node = [](void* policy, const bf_nodes_view* made) -> std::uint64_t {
      const Seen<bf_nodes_view> seen(made, BF_STRUCT_NODES_VIEW);
      const bf_nodes_view& view = *seen;
      const Seen<engine::WorkCandidate> work(view.work, BF_STRUCT_WORK_CANDIDATE);
      return of<Dispatch>(policy).choose_node(
          {*work, seen_array(view.candidates, view.candidate_count, BF_STRUCT_NODE_CANDIDATE,
                             instance<Dispatch>(policy).nodes)});
    },
};

inline constexpr bf_scaling_functions kScaling{
    .bytes = sizeof(bf_scaling_functions),
    .reserved = 0,
    .workers =
        [](void* policy, const bf_node_view* made) {
          return of<Scaling>(policy).workers(*Seen<engine::NodeView>(made, BF_STRUCT_NODE_VIEW));
        },
    .depth =
        [](void* policy, const bf_job_view* made) {
          return of<Scaling>(policy).depth(*Seen<engine::JobView>(made, BF_STRUCT_JOB_VIEW));
        },
};

// ------------------------------------------------------------------------------------ the plugin
// --

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

  const bf_policy_plugin* plugin() {
    for (const auto& one : policies_) policy_list_.push_back(one.get());
    for (const auto& one : presets_) preset_list_.push_back(one.get());
    plugin_ = {sizeof(bf_policy_plugin),
               BF_POLICY_VERSION,
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

template <class... Parts>
const bf_policy_plugin* offer(const bf_policy_host* of, const Parts&... parts) noexcept {
  if (of->version < BF_POLICY_VERSION_LEAST || of->version_least > BF_POLICY_VERSION)
    return nullptr;
  host = of;
  try {
    static Offer all;
    static const bf_policy_plugin* const plugin = [&] {
      (all.add(parts), ...);
      return all.plugin();
    }();
    return plugin;
  } catch (const std::exception&) {
    return nullptr;  // there is no memory
  }
}

// ------------------------------------------------------------------------------------ its footer
// --

template <std::size_t room>
constexpr std::size_t put(char (&to)[room], std::size_t at, std::string_view text) {
  // A text that does not fit is an error of the one who compiles.
  if (at + text.size() >= room) throw std::bad_alloc();
  for (const char one : text) to[at++] = one;
  return at;
}
constexpr std::string_view kind_of(const engine::PolicyEntry& entry) {
  constexpr std::string_view kNames[] = {"allocation", "eviction", "selection", "dispatch",
                                         "scaling"};
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
  made.version_least = BF_POLICY_VERSION_LEAST;
  made.version = BF_POLICY_VERSION;
  made.unstable = BF_POLICY_UNSTABLE;
  put(made.platform, 0, BF_POLICY_PLATFORM);
  put(made.name, 0, name);
  put(made.plugin_version, 0, version);
  std::size_t at = 0;
  const auto add = [&](std::string_view kind, std::string_view of) {
    if (at > 0) at = put(made.policies, at, " ");
    at = put(made.policies, at, kind);
    at = put(made.policies, at, "=");
    at = put(made.policies, at, of);
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
