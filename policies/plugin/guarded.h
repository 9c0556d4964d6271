// A policy inside a plugin, as the host gets it: an exception ends the use of that policy, and
// never leaves the plugin. The calls go straight to the policy, the class of which is known here.
#pragma once

#include <exception>
#include <type_traits>

#include "core/engine/policy.h"
#include "policies/plugin/batchflow_policy.h"
#include "policies/plugin/fallback.h"

namespace batchflow::plugin {

inline const bf_policy_host* host = nullptr;  // since it asked for the plugin

// Calls; `otherwise()` answers after an exception, of which the host is told.
template <class Call, class Otherwise>
auto guarded(void* name, bool& failed, Call call, Otherwise otherwise) noexcept {
  if (failed) [[unlikely]]
    return otherwise();
  try {
    return call();
  } catch (const std::exception& error) {
    host->failed(name, error.what());
  } catch (...) {
    host->failed(name, "it threw something");
  }
  failed = true;
  return otherwise();
}

// `Context` names the instance to the host by what it has in place of a plugin.
template <class Interface, class Policy>
class GuardedOf : public Interface {
 public:
  template <class Context>
  explicit GuardedOf(const Context& context)
      : name_(const_cast<void*>(context.plugin)), policy_(context) {}
  std::size_t save(std::span<std::byte> room) const override {
    return call([&] { return policy_.save(room); }, [] { return std::size_t{0}; });
  }
  void restore(std::span<const std::byte> saved) override {
    call([&] { policy_.restore(saved); }, [] {});
  }

 protected:
  template <class Call, class Otherwise>
  auto call(Call call, Otherwise otherwise) const noexcept {
    return guarded(name_, failed_, call, otherwise);
  }
  template <class Call>
  void tell(Call call) const noexcept {
    guarded(name_, failed_, call, [] {});
  }

  void* name_;
  mutable bool failed_ = false;
  Policy policy_;
};

template <class Policy, class Enabled = void>
class Guarded;

template <class Policy>
class Guarded<Policy, std::enable_if_t<std::is_base_of_v<engine::EvictionPolicy, Policy>>> final
    : public GuardedOf<engine::EvictionPolicy, Policy> {
  using Base = GuardedOf<engine::EvictionPolicy, Policy>;
  using Base::policy_;

 public:
  using Base::Base;
  void hit(const engine::Access& access) override {
    this->tell([&] { policy_.hit(access); });
  }
  engine::Admission missed(const engine::Access& access) override {
    return this->call([&] { return policy_.missed(access); },
                      [] { return engine::Admission::insert; });
  }
  void inserted(const engine::Access& access) override {
    this->tell([&] { policy_.inserted(access); });
  }
  ItemId victim(const engine::Access& newcomer) override {
    return this->call([&] { return policy_.victim(newcomer); }, [] { return ItemId::none(); });
  }
  void removed(ItemId item, engine::Removal why) override {
    this->tell([&] { policy_.removed(item, why); });
  }
  void pinned(ItemId item) override {
    this->tell([&] { policy_.pinned(item); });
  }
  void unpinned(ItemId item) override {
    this->tell([&] { policy_.unpinned(item); });
  }
  void resized(Slots capacity) override {
    this->tell([&] { policy_.resized(capacity); });
  }
  void grow(std::size_t items) override {
    this->tell([&] { policy_.grow(items); });
  }
  void forget(ItemId item) override {
    this->tell([&] { policy_.forget(item); });
  }
  void needed(ItemId item, std::uint32_t jobs) override {
    this->tell([&] { policy_.needed(item, jobs); });
  }
  void scored(ItemId item, float score) override {
    this->tell([&] { policy_.scored(item, score); });
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    this->tell([&] { policy_.epoch_began(job, epoch); });
  }
  void prefetch(ItemId item) const override {
    this->tell([&] { policy_.prefetch(item); });
  }
  engine::EarlyRead read_early(const engine::Access& access) override {
    return this->call([&] { return policy_.read_early(access); },
                      [] { return engine::EarlyRead::no; });
  }
};

template <class Policy>
class Guarded<Policy, std::enable_if_t<std::is_base_of_v<engine::AllocationPolicy, Policy>>> final
    : public GuardedOf<engine::AllocationPolicy, Policy> {
  using Base = GuardedOf<engine::AllocationPolicy, Policy>;
  using Base::policy_;

 public:
  using Base::Base;
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    this->call([&] { policy_.allocate(place, slots); }, [&] { fallback::allocate(place, slots); });
  }
  Instant ask_again() override {
    return this->call([&] { return policy_.ask_again(); }, [] { return kNever; });
  }
  bool wants_measures() const override {
    return this->call([&] { return policy_.wants_measures(); }, [] { return false; });
  }
  engine::Forecast forecast() const override {
    return this->call([&] { return policy_.forecast(); }, [] { return engine::Forecast{}; });
  }
};

template <class Policy>
class Guarded<Policy, std::enable_if_t<std::is_base_of_v<engine::SelectionPolicy, Policy>>> final
    : public GuardedOf<engine::SelectionPolicy, Policy> {
  using Base = GuardedOf<engine::SelectionPolicy, Policy>;
  using Base::policy_;

 public:
  using Base::Base;
  std::size_t choose(const engine::SelectionView& view) override {
    return this->call([&] { return policy_.choose(view); }, [&] { return fallback::choose(view); });
  }
  bool looks_behind_ready() const override {
    return this->call([&] { return policy_.looks_behind_ready(); }, [] { return true; });
  }
  Instant ask_again() override {
    return this->call([&] { return policy_.ask_again(); }, [] { return kNever; });
  }
  std::uint32_t blocks_to_choose_from() const override {
    return this->call([&] { return policy_.blocks_to_choose_from(); },
                      [] { return std::uint32_t{0}; });
  }
  void choose_samples(const engine::SamplesView& view, std::span<std::uint32_t> picks) override {
    this->call([&] { policy_.choose_samples(view, picks); },
               [&] { fallback::choose_samples(picks); });
  }
  void weigh(JobId job, std::span<const float> scores, std::span<float> weights) override {
    this->call([&] { policy_.weigh(job, scores, weights); },
               [&] { fallback::weigh(scores, weights); });
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    this->tell([&] { policy_.epoch_began(job, epoch); });
  }
};

template <class Policy>
class Guarded<Policy, std::enable_if_t<std::is_base_of_v<engine::DispatchPolicy, Policy>>> final
    : public GuardedOf<engine::DispatchPolicy, Policy> {
  using Base = GuardedOf<engine::DispatchPolicy, Policy>;
  using Base::policy_;

 public:
  using Base::Base;
  std::size_t next(const engine::DispatchView& view) override {
    return this->call([&] { return policy_.next(view); }, [&] { return fallback::next(view); });
  }
  Instant ask_again() override {
    return this->call([&] { return policy_.ask_again(); }, [] { return kNever; });
  }
  bool chooses_nodes() const override {
    return this->call([&] { return policy_.chooses_nodes(); }, [] { return false; });
  }
  std::size_t choose_node(const engine::NodesView& view) override {
    return this->call([&] { return policy_.choose_node(view); }, [] { return std::size_t{0}; });
  }
};

template <class Policy>
class Guarded<Policy, std::enable_if_t<std::is_base_of_v<engine::ScalingPolicy, Policy>>> final
    : public GuardedOf<engine::ScalingPolicy, Policy> {
  using Base = GuardedOf<engine::ScalingPolicy, Policy>;
  using Base::policy_;

 public:
  using Base::Base;
  std::uint32_t workers(const engine::NodeView& node) override {
    return this->call([&] { return policy_.workers(node); },
                      [&] { return fallback::workers(node); });
  }
  std::uint32_t depth(const engine::JobView& job) override {
    return this->call([&] { return policy_.depth(job); }, [&] { return fallback::depth(job); });
  }
};

template <class Policy>
class Guarded<Policy, std::enable_if_t<std::is_base_of_v<engine::RehearsalPolicy, Policy>>> final
    : public GuardedOf<engine::RehearsalPolicy, Policy> {
  using Base = GuardedOf<engine::RehearsalPolicy, Policy>;
  using Base::policy_;

 public:
  using Base::Base;
  std::size_t choose(const engine::RehearsalView& sample, Random random) override {
    return this->call([&] { return policy_.choose(sample, random); },
                      [] { return engine::kNoChoice; });
  }
  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    this->tell([&] { policy_.put(index, exemplar); });
  }
  bool weighs() const override {
    return this->call([&] { return policy_.weighs(); }, [] { return false; });
  }
  float weight(const engine::Exemplar& exemplar) const override {
    return this->call([&] { return policy_.weight(exemplar); }, [] { return 1.0F; });
  }
};

template <class Policy>
class Guarded<Policy, std::enable_if_t<std::is_base_of_v<engine::MixturePolicy, Policy>>> final
    : public GuardedOf<engine::MixturePolicy, Policy> {
  using Base = GuardedOf<engine::MixturePolicy, Policy>;
  using Base::policy_;

 public:
  using Base::Base;
  std::uint64_t every() const override {
    return this->call([&] { return policy_.every(); }, [] { return fallback::kEvery; });
  }
  void weigh(const engine::MixtureView& view, std::span<double> weights) override {
    this->call([&] { policy_.weigh(view, weights); }, [&] { fallback::weigh(view, weights); });
  }
};

}  // namespace batchflow::plugin
