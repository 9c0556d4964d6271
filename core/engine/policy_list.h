// The list of policies: the name of each, what it is for, its parameters, and how it is made.
//
// The list is an explicit table (policies/registry.cpp) that a program hands to the engine. Nothing
// registers itself, so what is linked is what is listed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/engine/policy.h"
#include "core/engine/policy_texts.h"

namespace batchflow::engine {

using MakeEviction = std::unique_ptr<EvictionPolicy> (*)(const EvictionContext&);
using MakeAllocation = std::unique_ptr<AllocationPolicy> (*)(const PolicyContext&);
using MakeSelection = std::unique_ptr<SelectionPolicy> (*)(const PolicyContext&);
using MakeDispatch = std::unique_ptr<DispatchPolicy> (*)(const PolicyContext&);
using MakeScaling = std::unique_ptr<ScalingPolicy> (*)(const PolicyContext&);
using MakeRehearsal = std::unique_ptr<RehearsalPolicy> (*)(const RehearsalContext&);
using MakeMixture = std::unique_ptr<MixturePolicy> (*)(const MixtureContext&);

template <class Make>
using Made = std::invoke_result_t<Make, const PolicyContext&>;

// One policy. Its kind follows from the factory that is given.
struct PolicyEntry {
  std::string_view name;
  std::string_view help;  // one line, and further lines if needed
  std::variant<MakeAllocation, MakeEviction, MakeSelection, MakeDispatch, MakeScaling,
               MakeRehearsal, MakeMixture>
      make;
  std::span<const Parameter> parameters = {};
  // Needs to know all next uses, as traces do: a bound for the others rather than a competitor.
  bool clairvoyant = false;
  // Is told when items are requested next, as far as orders tell it, which takes some time. So are
  // clairvoyant policies.
  bool next_uses = false;
  // Of an eviction policy: it is asked which samples to read before they are requested.
  bool reads_early = false;
  // Of an eviction policy: hits of items that are no runs change nothing that it will answer.
  bool ignores_hits = false;
  // Of an eviction policy: while all items are resident, it need not be told of hits of items that
  // are no runs. What it answers when some have to leave after all is as good as before the hits.
  bool whole_without_hits = false;
  // A service refuses it, because its clients cannot follow yet what it does to orders.
  bool simulated_only = false;
  // A job may be left without data for ever. The suites of fairness leave the policy out, and
  // lists, help, tables of results and the log of a service say so.
  bool may_starve = false;
  // Of a policy that a plugin brought: the first digits of the hash of the plugin's file, and what
  // its factory is given.
  std::string_view from = {};
  const void* plugin = nullptr;

  constexpr PolicyKind kind() const { return static_cast<PolicyKind>(make.index()); }
};

// A policy with its parameters set: what `kind=name:parameter=value` says.
struct PolicyChoice {
  const PolicyEntry* entry;
  Parameters parameters;

  // Name, and the parameters that differ from their defaults. A policy of a plugin is named with
  // `from`, since another plugin may bring another policy of that name: `mine@3f2a91bc`.
  std::string text() const;

  // REQUIRES: a policy of that kind
  template <class Make>
  Made<Make> make(Random random) const {
    return std::get<Make>(entry->make)({random, parameters, entry->plugin});
  }
  // REQUIRES: an eviction policy. For a share of so many items and slots, and what it keeps where.
  std::unique_ptr<EvictionPolicy> make_eviction(std::size_t items, Slots capacity, Random random,
                                                Form form = Form::encoded, Tier tier = Tier::dram,
                                                DatasetId dataset = {}, bool shadow = false) const {
    return std::get<MakeEviction>(entry->make)(
        {items, capacity, random, parameters, form, tier, dataset, entry->plugin, shadow});
  }
  // REQUIRES: a rehearsal policy, capacity > 0
  std::unique_ptr<RehearsalPolicy> make_rehearsal(std::size_t capacity) const {
    return std::get<MakeRehearsal>(entry->make)({capacity, parameters, entry->plugin});
  }
  // REQUIRES: a mixture policy, sources > 0
  std::unique_ptr<MixturePolicy> make_mixture(std::size_t sources) const {
    return std::get<MakeMixture>(entry->make)({sources, parameters, entry->plugin});
  }
};

// `to` takes over from `from`. If both have the same name, `to` is given what `from` saved.
void hand_over(const PolicyChoice& before, const Policy& from, const PolicyChoice& after,
               Policy& to);

class PolicyList {
 public:
  explicit PolicyList(std::span<const PolicyEntry* const> entries)
      : entries_(entries.begin(), entries.end()) {}

  std::span<const PolicyEntry* const> entries() const { return entries_; }
  std::vector<const PolicyEntry*> of_kind(PolicyKind kind) const;

  // From now on the name alone means `entry`. Policies of that name that were added before can
  // still be chosen with what they are from (`name@from`). Throws ConfigError when a policy that no
  // plugin brought has the name.
  void add(const PolicyEntry& entry);

  // `text` is `name[@from][:parameter=value[:parameter=value...]]`. Throws ConfigError that names
  // the nearest policy or parameter.
  PolicyChoice choose(PolicyKind kind, std::string_view text) const;
  // `text`, but with what it is from if the policy is of a plugin, so that the text can mean no
  // other plugin's policy. A text that names no policy stays as it is.
  std::string exactly(PolicyKind kind, std::string_view text) const;
  // The same with the kind in front: `kind=name[:parameter=value...]`.
  PolicyChoice choose(std::string_view text) const;

 private:
  const PolicyEntry& find(PolicyKind kind, std::string_view name) const;

  std::vector<const PolicyEntry*> entries_;  // of one name, the last is meant
};

// Names all of them exactly.
void name_exactly(PolicyTexts& texts, const PolicyList& list);

}  // namespace batchflow::engine
