// The functions of each kind of policy, as the C interface has them, over an object of the engine's
// classes: what a plugin's tables hold. They read what the host shows through its own layout, which
// may be older or newer than the plugin's.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/plugin/batchflow_policy.h"
#include "policies/plugin/guarded.h"
#include "policies/plugin/layout.h"

namespace batchflow::plugin {

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
  std::vector<engine::SourceView> sources;
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
        } else if constexpr (std::is_same_v<Interface, engine::RehearsalPolicy>) {
          return std::get<engine::MakeRehearsal>(entry.make)(
              {context.capacity, parameters, context.instance});
        } else if constexpr (std::is_same_v<Interface, engine::MixturePolicy>) {
          return std::get<engine::MakeMixture>(entry.make)(
              {context.items, parameters, context.instance});
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
Interface& policy_of(void* policy) {
  return *instance<Interface>(policy).policy;
}
using Allocation = engine::AllocationPolicy;
using Eviction = engine::EvictionPolicy;
using Selection = engine::SelectionPolicy;
using Dispatch = engine::DispatchPolicy;
using Scaling = engine::ScalingPolicy;
using Rehearsal = engine::RehearsalPolicy;
using Mixture = engine::MixturePolicy;
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
          policy_of<Allocation>(policy).allocate(
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
    .ask_again = [](void* policy) { return count_of(policy_of<Allocation>(policy).ask_again()); },
    .wants_measures = [](void* policy) -> std::uint32_t {
      return policy_of<Allocation>(policy).wants_measures();
    },
    .forecast =
        [](void* policy, bf_forecast* forecast) {
          const engine::Forecast answer = policy_of<Allocation>(policy).forecast();
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
          policy_of<Eviction>(policy).hit(*SeenAccess(made, BF_STRUCT_ACCESS));
        },
    .missed = [](void* policy, const bf_access* made) -> std::uint32_t {
      return static_cast<std::uint32_t>(
          policy_of<Eviction>(policy).missed(*SeenAccess(made, BF_STRUCT_ACCESS)));
    },
    .inserted =
        [](void* policy, const bf_access* made) {
          policy_of<Eviction>(policy).inserted(*SeenAccess(made, BF_STRUCT_ACCESS));
        },
    .victim =
        [](void* policy, const bf_access* made) {
          return policy_of<Eviction>(policy).victim(*SeenAccess(made, BF_STRUCT_ACCESS)).value;
        },
    .removed =
        [](void* policy, std::uint32_t item, std::uint32_t why) {
          policy_of<Eviction>(policy).removed(ItemId(item), static_cast<engine::Removal>(why));
        },
    .pinned = [](void* policy,
                 std::uint32_t item) { policy_of<Eviction>(policy).pinned(ItemId(item)); },
    .unpinned = [](void* policy,
                   std::uint32_t item) { policy_of<Eviction>(policy).unpinned(ItemId(item)); },
    .resized = [](void* policy,
                  std::uint64_t capacity) { policy_of<Eviction>(policy).resized(capacity); },
    .grow = [](void* policy, std::uint64_t items) { policy_of<Eviction>(policy).grow(items); },
    .forget = [](void* policy,
                 std::uint32_t item) { policy_of<Eviction>(policy).forget(ItemId(item)); },
    .needed = [](void* policy, std::uint32_t item,
                 std::uint32_t jobs) { policy_of<Eviction>(policy).needed(ItemId(item), jobs); },
    .scored = [](void* policy, std::uint32_t item,
                 float score) { policy_of<Eviction>(policy).scored(ItemId(item), score); },
    .epoch_began =
        [](void* policy, std::uint32_t job, std::uint32_t epoch) {
          policy_of<Eviction>(policy).epoch_began(JobId(job), epoch);
        },
};

inline constexpr bf_eviction_unstable kEvictionUnstable{
    .bytes = sizeof(bf_eviction_unstable),
    .reserved = 0,
    .prefetch = [](void* policy,
                   std::uint32_t item) { policy_of<Eviction>(policy).prefetch(ItemId(item)); },
    .read_early = [](void* policy, const bf_access* made) -> std::uint32_t {
      return static_cast<std::uint32_t>(
          policy_of<Eviction>(policy).read_early(*SeenAccess(made, BF_STRUCT_ACCESS)));
    },
};

inline constexpr bf_selection_functions kSelection{
    .bytes = sizeof(bf_selection_functions),
    .reserved = 0,
    .choose = [](void* policy, const bf_selection_view* made) -> std::uint64_t {
      const Seen<bf_selection_view> seen(made, BF_STRUCT_SELECTION_VIEW);
      const bf_selection_view& view = *seen;
      return policy_of<Selection>(policy).choose(
          {JobId(view.job), static_cast<Order>(view.order),
           seen_array(view.candidates, view.candidate_count, BF_STRUCT_SELECTION_CANDIDATE,
                      instance<Selection>(policy).blocks),
           instant(view.now), view.user});
    },
    .looks_behind_ready = [](void* policy) -> std::uint32_t {
      return policy_of<Selection>(policy).looks_behind_ready();
    },
    .ask_again = [](void* policy) { return count_of(policy_of<Selection>(policy).ask_again()); },
    .epoch_began =
        [](void* policy, std::uint32_t job, std::uint32_t epoch) {
          policy_of<Selection>(policy).epoch_began(JobId(job), epoch);
        },
    .weigh =
        [](void* policy, std::uint32_t job, const float* scores, float* weights,
           std::uint64_t count) {
          policy_of<Selection>(policy).weigh(JobId(job), {scores, count}, {weights, count});
        },
};

inline constexpr bf_selection_unstable kSelectionUnstable{
    .bytes = sizeof(bf_selection_unstable),
    .reserved = 0,
    .blocks_to_choose_from =
        [](void* policy) { return policy_of<Selection>(policy).blocks_to_choose_from(); },
    .choose_samples =
        [](void* policy, const bf_samples_view* made, std::uint32_t* picks, std::uint64_t count) {
          const Seen<bf_samples_view> seen(made, BF_STRUCT_SAMPLES_VIEW);
          const bf_samples_view& view = *seen;
          policy_of<Selection>(policy).choose_samples(
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
      return policy_of<Dispatch>(policy).next(
          {instant(view.now),
           seen_array(view.candidates, view.candidate_count, BF_STRUCT_WORK_CANDIDATE,
                      instance<Dispatch>(policy).work)});
    },
    .ask_again = [](void* policy) { return count_of(policy_of<Dispatch>(policy).ask_again()); },
};

inline constexpr bf_dispatch_unstable kDispatchUnstable{
    .bytes = sizeof(bf_dispatch_unstable),
    .reserved = 0,
    .chooses_nodes = [](void* policy) -> std::uint32_t {
      return policy_of<Dispatch>(policy).chooses_nodes();
    },
    .choose_node = [](void* policy, const bf_nodes_view* made) -> std::uint64_t {
      const Seen<bf_nodes_view> seen(made, BF_STRUCT_NODES_VIEW);
      const bf_nodes_view& view = *seen;
      const Seen<engine::WorkCandidate> work(view.work, BF_STRUCT_WORK_CANDIDATE);
      return policy_of<Dispatch>(policy).choose_node(
          {*work, seen_array(view.candidates, view.candidate_count, BF_STRUCT_NODE_CANDIDATE,
                             instance<Dispatch>(policy).nodes)});
    },
};

inline constexpr bf_scaling_functions kScaling{
    .bytes = sizeof(bf_scaling_functions),
    .reserved = 0,
    .workers =
        [](void* policy, const bf_node_view* made) {
          return policy_of<Scaling>(policy).workers(
              *Seen<engine::NodeView>(made, BF_STRUCT_NODE_VIEW));
        },
    .depth =
        [](void* policy, const bf_job_view* made) {
          return policy_of<Scaling>(policy).depth(*Seen<engine::JobView>(made, BF_STRUCT_JOB_VIEW));
        },
};

inline constexpr bf_rehearsal_functions kRehearsal{
    .bytes = sizeof(bf_rehearsal_functions),
    .reserved = 0,
    .choose = [](void* policy, const bf_rehearsal_view* made, std::uint64_t seed) -> std::uint64_t {
      const Seen<bf_rehearsal_view> seen(made, BF_STRUCT_REHEARSAL_VIEW);
      const bf_rehearsal_view& view = *seen;
      const Seen<engine::Exemplar> exemplar(view.exemplar, BF_STRUCT_EXEMPLAR);
      return policy_of<Rehearsal>(policy).choose(
          {*exemplar, view.number, {view.features, view.feature_count}}, Random(seed));
    },
    .put =
        [](void* policy, std::uint64_t index, const bf_rehearsal_view* made) {
          const Seen<bf_rehearsal_view> seen(made, BF_STRUCT_REHEARSAL_VIEW);
          const bf_rehearsal_view& view = *seen;
          const Seen<engine::Exemplar> exemplar(view.exemplar, BF_STRUCT_EXEMPLAR);
          policy_of<Rehearsal>(policy).put(
              index, {*exemplar, view.number, {view.features, view.feature_count}});
        },
    .weighs = [](void* policy) -> std::uint32_t { return policy_of<Rehearsal>(policy).weighs(); },
    .weight =
        [](void* policy, const bf_exemplar* made) {
          return policy_of<Rehearsal>(policy).weight(
              *Seen<engine::Exemplar>(made, BF_STRUCT_EXEMPLAR));
        },
};

inline constexpr bf_mixture_functions kMixture{
    .bytes = sizeof(bf_mixture_functions),
    .reserved = 0,
    .every = [](void* policy) { return policy_of<Mixture>(policy).every(); },
    .weigh =
        [](void* policy, const bf_mixture_view* made, double* weights) {
          const Seen<bf_mixture_view> seen(made, BF_STRUCT_MIXTURE_VIEW);
          const bf_mixture_view& view = *seen;
          policy_of<Mixture>(policy).weigh(
              {JobId(view.job), view.drawn,
               seen_array(view.sources, view.source_count, BF_STRUCT_SOURCE_VIEW,
                          instance<Mixture>(policy).sources)},
              {weights, view.source_count});
        },
};

}  // namespace batchflow::plugin
