#include "policies/plugin/hosted.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/config_value.h"
#include "policies/plugin/adaptors.h"
#include "policies/plugin/hosting.h"
#include "policies/plugin/names.h"

namespace batchflow::plugin {
namespace {

// A copy of a table, of which the plugin may have less or more than this program.
template <class Table>
Table table_of(const void* table, const char* what) {
  Table copy{};
  std::uint32_t bytes = 0;
  if (table != nullptr) std::memcpy(&bytes, table, sizeof(bytes));
  if (bytes < sizeof(bytes)) throw ConfigError(fmt::format("it has no table of {}", what));
  std::memcpy(static_cast<void*>(&copy), table, std::min<std::size_t>(bytes, sizeof(Table)));
  return copy;
}

template <class Function, class Default>
void default_to(Function& function, Default otherwise) {
  if (function == nullptr) function = otherwise;
}
template <class Function>
void must_have(Function function, const char* name) {
  if (function == nullptr) throw ConfigError(fmt::format("it has no function {}", name));
}

std::string_view text_or_refuse(const char* text, std::size_t most, const char* what) {
  if (text == nullptr) throw ConfigError(fmt::format("it gives no {}", what));
  const std::size_t length = strnlen(text, most + 1);
  if (length > most) throw ConfigError(fmt::format("a {} is longer than {} bytes", what, most));
  return {text, length};
}

constexpr std::size_t kParametersMost = 64;

std::string_view name_or_refuse(const char* text, const char* what) {
  const std::string_view name = text_or_refuse(text, kNameMost, what);
  if (!is_policy_name(name)) {
    throw ConfigError(
        fmt::format("'{}' is no {}; use small letters, digits and hyphens", name, what));
  }
  return name;
}

}  // namespace

HostedPolicy::HostedPolicy(const bf_policy& given, std::uint32_t unstable, std::string from)
    : from_(std::move(from)), entry_{{}, {}, engine::MakeAllocation{}} {
  const auto policy = table_of<bf_policy>(&given, "a policy");
  name_ = name_or_refuse(policy.name, "name of a policy");
  help_ = text_or_refuse(policy.help, 4000, "help");
  const bool settled = unstable == BF_POLICY_UNSTABLE && policy.unstable != nullptr;
  user = policy.user;

  common = table_of<bf_policy_common>(policy.common, "what all policies have");
  must_have(common.make, "make");
  must_have(common.end, "end");
  default_to(common.save, [](void*, void*, std::uint64_t) { return std::uint64_t{0}; });
  default_to(common.restore, [](void*, const void*, std::uint64_t) {});
  if (common.object_version != BF_POLICY_OBJECT || unstable != BF_POLICY_UNSTABLE)
    common.object = nullptr;

  if (policy.kind > BF_MIXTURE)
    throw ConfigError(fmt::format("there is no kind of policy {}", policy.kind));
  entry_.make = adaptor_of(static_cast<engine::PolicyKind>(policy.kind));
  take_functions(policy, settled);
  take_parameters(policy);
  entry_.name = name_;
  entry_.help = help_;
  entry_.parameters = parameters_;
  entry_.clairvoyant = (policy.flags & BF_CLAIRVOYANT) != 0;
  entry_.next_uses = (policy.flags & BF_NEXT_USES) != 0;
  entry_.reads_early = (policy.flags & BF_READS_EARLY) != 0 && settled;
  entry_.ignores_hits = (policy.flags & BF_IGNORES_HITS) != 0;
  entry_.whole_without_hits = (policy.flags & BF_WHOLE_WITHOUT_HITS) != 0;
  entry_.simulated_only = (policy.flags & BF_SIMULATED_ONLY) != 0;
  entry_.may_starve = (policy.flags & BF_MAY_STARVE) != 0;
  entry_.from = from_;
  entry_.plugin = this;
  direct_ = std::make_shared<Hosting>(*this, false);
}

void HostedPolicy::take_functions(const bf_policy& policy, bool settled) {
  switch (policy.kind) {
    case BF_ALLOCATION:
      allocation = table_of<bf_allocation_functions>(policy.functions, "allocation");
      must_have(allocation.allocate, "allocate");
      default_to(allocation.ask_again, [](void*) { return std::int64_t{BF_NEVER}; });
      default_to(allocation.wants_measures, [](void*) { return 0u; });
      default_to(allocation.forecast, [](void*, bf_forecast*) {});
      break;
    case BF_EVICTION:
      take_eviction(policy, settled);
      break;
    case BF_SELECTION:
      take_selection(policy, settled);
      break;
    case BF_DISPATCH:
      dispatch = table_of<bf_dispatch_functions>(policy.functions, "dispatch");
      must_have(dispatch.next, "next");
      default_to(dispatch.ask_again, [](void*) { return std::int64_t{BF_NEVER}; });
      if (settled) dispatch_unstable = table_of<bf_dispatch_unstable>(policy.unstable, "dispatch");
      default_to(dispatch_unstable.chooses_nodes, [](void*) { return 0u; });
      default_to(dispatch_unstable.choose_node,
                 [](void*, const bf_nodes_view*) { return std::uint64_t{0}; });
      break;
    case BF_SCALING:
      scaling = table_of<bf_scaling_functions>(policy.functions, "scaling");
      must_have(scaling.workers, "workers");
      must_have(scaling.depth, "depth");
      break;
    case BF_REHEARSAL:
      rehearsal = table_of<bf_rehearsal_functions>(policy.functions, "rehearsal");
      must_have(rehearsal.choose, "choose");
      must_have(rehearsal.put, "put");
      default_to(rehearsal.weighs, [](void*) { return 0u; });
      default_to(rehearsal.weight, [](void*, const bf_exemplar*) { return 1.0F; });
      break;
    case BF_MIXTURE:
      mixture = table_of<bf_mixture_functions>(policy.functions, "mixture");
      must_have(mixture.every, "every");
      must_have(mixture.weigh, "weigh");
      break;
  }
}

void HostedPolicy::take_eviction(const bf_policy& policy, bool settled) {
  eviction = table_of<bf_eviction_functions>(policy.functions, "eviction");
  default_to(eviction.hit, [](void*, const bf_access*) {});
  default_to(eviction.missed, [](void*, const bf_access*) { return std::uint32_t{BF_INSERT}; });
  must_have(eviction.inserted, "inserted");
  must_have(eviction.victim, "victim");
  must_have(eviction.removed, "removed");
  must_have(eviction.pinned, "pinned");
  must_have(eviction.unpinned, "unpinned");
  must_have(eviction.grow, "grow");
  default_to(eviction.resized, [](void*, std::uint64_t) {});
  default_to(eviction.forget, [](void*, std::uint32_t) {});
  default_to(eviction.needed, [](void*, std::uint32_t, std::uint32_t) {});
  default_to(eviction.scored, [](void*, std::uint32_t, float) {});
  default_to(eviction.epoch_began, [](void*, std::uint32_t, std::uint32_t) {});
  if (settled) eviction_unstable = table_of<bf_eviction_unstable>(policy.unstable, "eviction");
  default_to(eviction_unstable.read_early,
             [](void*, const bf_access*) { return std::uint32_t{BF_EARLY_NO}; });
}

void HostedPolicy::take_selection(const bf_policy& policy, bool settled) {
  selection = table_of<bf_selection_functions>(policy.functions, "selection");
  must_have(selection.choose, "choose");
  default_to(selection.looks_behind_ready, [](void*) { return 1u; });
  default_to(selection.ask_again, [](void*) { return std::int64_t{BF_NEVER}; });
  default_to(selection.epoch_began, [](void*, std::uint32_t, std::uint32_t) {});
  default_to(selection.weigh, [](void*, std::uint32_t, const float* scores, float* weights,
                                 std::uint64_t count) { std::copy_n(scores, count, weights); });
  if (settled) selection_unstable = table_of<bf_selection_unstable>(policy.unstable, "selection");
  default_to(selection_unstable.blocks_to_choose_from, [](void*) { return 0u; });
  default_to(selection_unstable.choose_samples,
             [](void*, const bf_samples_view*, std::uint32_t* picks, std::uint64_t count) {
               for (std::uint32_t i = 0; i < count; ++i) picks[i] = i;
             });
}

void HostedPolicy::take_parameters(const bf_policy& policy) {
  if (policy.parameter_count > kParametersMost)
    throw ConfigError(fmt::format("it has more than {} parameters", kParametersMost));
  const auto keep = [&](std::string_view text) {
    return std::string_view(*texts_.emplace_back(std::make_unique<std::string>(text)));
  };
  for (std::uint32_t i = 0; i < policy.parameter_count; ++i) {
    const auto one = table_of<bf_policy_parameter>(
        policy.parameters == nullptr ? nullptr : policy.parameters[i], "a parameter");
    if (one.type > BF_TEXT) throw ConfigError("a parameter is of no type that there is");
    Parameter parameter;
    parameter.name = keep(text_or_refuse(one.name, 60, "name of a parameter"));
    parameter.type = static_cast<Parameter::Type>(one.type);
    parameter.default_value = keep(text_or_refuse(one.default_value, 1000, "default"));
    parameter.help = keep(text_or_refuse(one.help, 1000, "help of a parameter"));
    parameter.least = one.least;
    parameter.greatest = one.greatest;
    parameters_.push_back(parameter);
    Parameters check(std::span(&parameter, 1));
    check.set(parameter.name, parameter.default_value);
  }
}

void* HostedPolicy::direct() const {
  return direct_.get();
}

std::string HostedPolicy::text() const {
  return fmt::format("{} {}@{}", engine::policy_kind_name(entry_.kind()), entry_.name, entry_.from);
}

}  // namespace batchflow::plugin
