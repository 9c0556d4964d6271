#include "policies/plugin/adaptors.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "policies/plugin/fallback.h"
#include "policies/plugin/hosting.h"
#include "policies/plugin/layout.h"

namespace batchflow::plugin {
namespace {

// The parameters of a policy, as a plugin is shown them.
class Values {
 public:
  explicit Values(const Parameters& parameters) {
    for (const Parameters::Value& one : parameters.values())
      values_.push_back({one.text.c_str(), one.integer, one.number, one.flag});
  }
  void show(bf_policy_context& context) const {
    context.parameters = values_.data();
    context.parameter_count = values_.size();
  }

 private:
  std::vector<bf_parameter_value> values_;
};

bf_policy_context context_of(const engine::PolicyContext& context) {
  bf_policy_context made{};
  made.seed = context.random.key();
  return made;
}
bf_policy_context context_of(const engine::EvictionContext& context) {
  bf_policy_context made{};
  made.seed = context.random.key();
  made.items = context.items;
  made.capacity = context.capacity;
  made.dataset = context.dataset.value;
  made.form = static_cast<std::uint8_t>(context.form);
  made.tier = static_cast<std::uint8_t>(context.tier);
  return made;
}

bf_policy_context context_of(const engine::RehearsalContext& context) {
  bf_policy_context made{};
  made.capacity = context.capacity;
  return made;
}
bf_policy_context context_of(const engine::MixtureContext& context) {
  bf_policy_context made{};
  made.items = context.sources;
  return made;
}

template <class Interface>
class Hosted : public Interface {
 public:
  template <class Context>
  explicit Hosted(const Context& context)
      : hosting_(*static_cast<const HostedPolicy*>(context.plugin)) {
    const HostedPolicy& policy = hosting_.policy();
    const Values values(context.parameters);
    bf_policy_context made = context_of(context);
    made.instance = &hosting_;
    values.show(made);
    hosting_.tell([&] { policy_ = policy.common.make(policy.user, &made); });
    if (policy_ == nullptr) hosting_.fail("it could not be made");
  }
  Hosted(const Hosted&) = delete;
  ~Hosted() override {
    // What has failed may be broken inside: it is left alone.
    hosting_.tell([&] { hosting_.policy().common.end(policy_); });
  }

  std::size_t save(std::span<std::byte> room) const override {
    return hosting_.ask(std::uint64_t{0}, [&] {
      return hosting_.policy().common.save(policy_, room.data(), room.size());
    });
  }
  void restore(std::span<const std::byte> saved) override {
    hosting_.tell([&] { hosting_.policy().common.restore(policy_, saved.data(), saved.size()); });
  }

 protected:
  mutable Hosting hosting_;
  void* policy_ = nullptr;
};

Instant instant(std::int64_t count) {
  return Instant(Duration(count));
}
std::int64_t count_of(Instant at) {
  return at.time_since_epoch().count();
}

template <class C, class Cpp>
const C* as_c(const Cpp& view) {
  return reinterpret_cast<const C*>(&view);
}
template <class C, class Cpp>
const C* as_c(std::span<const Cpp> views) {
  return reinterpret_cast<const C*>(views.data());
}

class HostedAllocation final : public Hosted<engine::AllocationPolicy> {
 public:
  explicit HostedAllocation(const engine::PolicyContext& context)
      : Hosted(context), f_(hosting_.policy().allocation) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    const bf_place_view view{{place.place.node.value, static_cast<std::uint8_t>(place.place.tier),
                              0, place.place.device},
                             place.capacity_bytes,
                             as_c<bf_share_view>(place.shares),
                             place.shares.size(),
                             count_of(place.now),
                             place.workers,
                             0,
                             place.busy,
                             place.waits_for_reads,
                             place.store_bytes_per_s};
    hosting_.tell([&] { f_.allocate(policy_, &view, slots.data()); });
    if (hosting_.failed()) fallback::allocate(place, slots);
  }
  Instant ask_again() override {
    return instant(hosting_.ask(BF_NEVER, [&] { return f_.ask_again(policy_); }));
  }
  bool wants_measures() const override {
    return hosting_.ask(0u, [&] { return f_.wants_measures(policy_); }) != 0;
  }
  engine::Forecast forecast() const override {
    engine::Forecast answer;
    hosting_.tell([&] { f_.forecast(policy_, reinterpret_cast<bf_forecast*>(&answer)); });
    return hosting_.failed() ? engine::Forecast{} : answer;
  }

 private:
  const bf_allocation_functions& f_;
};

class HostedEviction final : public Hosted<engine::EvictionPolicy> {
 public:
  explicit HostedEviction(const engine::EvictionContext& context)
      : Hosted(context),
        f_(hosting_.policy().eviction),
        unstable_(hosting_.policy().eviction_unstable) {}

  void hit(const engine::Access& access) override {
    hosting_.tell([&] { f_.hit(policy_, as_c<bf_access>(access)); });
  }
  engine::Admission missed(const engine::Access& access) override {
    return hosting_.ask_one_of(engine::Admission::insert, engine::Admission::trim_and_insert,
                               "missed",
                               [&] { return f_.missed(policy_, as_c<bf_access>(access)); });
  }
  void inserted(const engine::Access& access) override {
    hosting_.tell([&] { f_.inserted(policy_, as_c<bf_access>(access)); });
  }
  ItemId victim(const engine::Access& newcomer) override {
    return ItemId(
        hosting_.ask(BF_NO_ITEM, [&] { return f_.victim(policy_, as_c<bf_access>(newcomer)); }));
  }
  void removed(ItemId item, engine::Removal why) override {
    hosting_.tell([&] { f_.removed(policy_, item.value, static_cast<std::uint32_t>(why)); });
  }
  void pinned(ItemId item) override {
    hosting_.tell([&] { f_.pinned(policy_, item.value); });
  }
  void unpinned(ItemId item) override {
    hosting_.tell([&] { f_.unpinned(policy_, item.value); });
  }
  void resized(Slots capacity) override {
    hosting_.tell([&] { f_.resized(policy_, capacity); });
  }
  void grow(std::size_t items) override {
    hosting_.tell([&] { f_.grow(policy_, items); });
  }
  void forget(ItemId item) override {
    hosting_.tell([&] { f_.forget(policy_, item.value); });
  }
  void needed(ItemId item, std::uint32_t jobs) override {
    hosting_.tell([&] { f_.needed(policy_, item.value, jobs); });
  }
  void scored(ItemId item, float score) override {
    hosting_.tell([&] { f_.scored(policy_, item.value, score); });
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    hosting_.tell([&] { f_.epoch_began(policy_, job.value, epoch); });
  }
  void prefetch(ItemId item) const override {
    if (unstable_.prefetch != nullptr)
      hosting_.tell([&] { unstable_.prefetch(policy_, item.value); });
  }
  engine::EarlyRead read_early(const engine::Access& access) override {
    return hosting_.ask_one_of(engine::EarlyRead::no, engine::EarlyRead::stop, "read_early", [&] {
      return unstable_.read_early(policy_, as_c<bf_access>(access));
    });
  }

 private:
  const bf_eviction_functions f_;  // copies: a request goes through several of them
  const bf_eviction_unstable unstable_;
};

class HostedSelection final : public Hosted<engine::SelectionPolicy> {
 public:
  explicit HostedSelection(const engine::PolicyContext& context)
      : Hosted(context),
        f_(hosting_.policy().selection),
        unstable_(hosting_.policy().selection_unstable) {}

  std::size_t choose(const engine::SelectionView& view) override {
    const bf_selection_view shown{view.job.value,
                                  static_cast<std::uint8_t>(view.order),
                                  {},
                                  as_c<bf_selection_candidate>(view.candidates),
                                  view.candidates.size(),
                                  count_of(view.now),
                                  view.user};
    const std::uint64_t choice =
        hosting_.ask(std::uint64_t{BF_NO_CHOICE}, [&] { return f_.choose(policy_, &shown); });
    return hosting_.failed() ? fallback::choose(view) : choice;
  }
  bool looks_behind_ready() const override {
    return hosting_.ask(1u, [&] { return f_.looks_behind_ready(policy_); }) != 0;
  }
  Instant ask_again() override {
    return instant(hosting_.ask(BF_NEVER, [&] { return f_.ask_again(policy_); }));
  }
  std::uint32_t blocks_to_choose_from() const override {
    return hosting_.ask(0u, [&] { return unstable_.blocks_to_choose_from(policy_); });
  }
  void choose_samples(const engine::SamplesView& view, std::span<std::uint32_t> picks) override {
    const bf_samples_view shown{view.job.value,
                                view.epoch,
                                view.left,
                                as_c<bf_sample_candidate>(view.candidates),
                                view.candidates.size(),
                                count_of(view.now)};
    hosting_.tell([&] { unstable_.choose_samples(policy_, &shown, picks.data(), picks.size()); });
    if (hosting_.failed()) fallback::choose_samples(picks);
  }
  void weigh(JobId job, std::span<const float> scores, std::span<float> weights) override {
    hosting_.tell(
        [&] { f_.weigh(policy_, job.value, scores.data(), weights.data(), scores.size()); });
    if (hosting_.failed()) fallback::weigh(scores, weights);
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    hosting_.tell([&] { f_.epoch_began(policy_, job.value, epoch); });
  }

 private:
  const bf_selection_functions& f_;
  const bf_selection_unstable& unstable_;
};

class HostedDispatch final : public Hosted<engine::DispatchPolicy> {
 public:
  explicit HostedDispatch(const engine::PolicyContext& context)
      : Hosted(context),
        f_(hosting_.policy().dispatch),
        unstable_(hosting_.policy().dispatch_unstable) {}

  std::size_t next(const engine::DispatchView& view) override {
    const bf_dispatch_view shown{count_of(view.now), as_c<bf_work_candidate>(view.candidates),
                                 view.candidates.size()};
    const std::uint64_t choice =
        hosting_.ask(std::uint64_t{BF_NO_CHOICE}, [&] { return f_.next(policy_, &shown); });
    return hosting_.failed() ? fallback::next(view) : choice;
  }
  Instant ask_again() override {
    return instant(hosting_.ask(BF_NEVER, [&] { return f_.ask_again(policy_); }));
  }
  bool chooses_nodes() const override {
    return hosting_.ask(0u, [&] { return unstable_.chooses_nodes(policy_); }) != 0;
  }
  std::size_t choose_node(const engine::NodesView& view) override {
    const bf_nodes_view shown{as_c<bf_work_candidate>(view.work),
                              as_c<bf_node_candidate>(view.candidates), view.candidates.size()};
    return hosting_.ask(std::uint64_t{0}, [&] { return unstable_.choose_node(policy_, &shown); });
  }

 private:
  const bf_dispatch_functions& f_;
  const bf_dispatch_unstable& unstable_;
};

class HostedScaling final : public Hosted<engine::ScalingPolicy> {
 public:
  explicit HostedScaling(const engine::PolicyContext& context)
      : Hosted(context), f_(hosting_.policy().scaling) {}

  std::uint32_t workers(const engine::NodeView& view) override {
    return hosting_.ask(fallback::workers(view),
                        [&] { return f_.workers(policy_, as_c<bf_node_view>(view)); });
  }
  std::uint32_t depth(const engine::JobView& view) override {
    return hosting_.ask(fallback::depth(view),
                        [&] { return f_.depth(policy_, as_c<bf_job_view>(view)); });
  }

 private:
  const bf_scaling_functions& f_;
};

class HostedRehearsal final : public Hosted<engine::RehearsalPolicy> {
 public:
  explicit HostedRehearsal(const engine::RehearsalContext& context)
      : Hosted(context), f_(hosting_.policy().rehearsal) {}

  std::size_t choose(const engine::RehearsalView& sample, Random random) override {
    const bf_rehearsal_view shown = shown_of(sample);
    return hosting_.ask(std::uint64_t{BF_NO_CHOICE},
                        [&] { return f_.choose(policy_, &shown, random.key()); });
  }
  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    const bf_rehearsal_view shown = shown_of(exemplar);
    hosting_.tell([&] { f_.put(policy_, index, &shown); });
  }
  bool weighs() const override {
    return hosting_.ask(0u, [&] { return f_.weighs(policy_); }) != 0;
  }
  float weight(const engine::Exemplar& exemplar) const override {
    return hosting_.ask(1.0F, [&] { return f_.weight(policy_, as_c<bf_exemplar>(exemplar)); });
  }

 private:
  static bf_rehearsal_view shown_of(const engine::RehearsalView& view) {
    return {as_c<bf_exemplar>(view.exemplar), view.number, view.features.data(),
            view.features.size()};
  }

  const bf_rehearsal_functions& f_;
};

class HostedMixture final : public Hosted<engine::MixturePolicy> {
 public:
  explicit HostedMixture(const engine::MixtureContext& context)
      : Hosted(context), f_(hosting_.policy().mixture) {}

  std::uint64_t every() const override {
    return hosting_.ask(fallback::kEvery, [&] { return f_.every(policy_); });
  }
  void weigh(const engine::MixtureView& view, std::span<double> weights) override {
    const bf_mixture_view shown{view.job.value, 0, view.drawn, as_c<bf_source_view>(view.sources),
                                view.sources.size()};
    hosting_.tell([&] { f_.weigh(policy_, &shown, weights.data()); });
    if (hosting_.failed()) fallback::weigh(view, weights);
  }

 private:
  const bf_mixture_functions& f_;
};

// What the plugin makes as an object of the engine's own classes, or an adaptor to its tables.
template <class Interface, class Adaptor, class Context>
std::unique_ptr<Interface> make_hosted(const Context& context) {
  const auto& policy = *static_cast<const HostedPolicy*>(context.plugin);
  if (policy.common.object == nullptr) return std::make_unique<Adaptor>(context);
  const Values values(context.parameters);
  bf_policy_context made = context_of(context);
  made.instance = policy.direct();
  values.show(made);
  std::unique_ptr<Interface> object(
      static_cast<Interface*>(policy.common.object(policy.user, &made)));
  // An adaptor that finds the same says so, and answers in its place.
  return object ? std::move(object) : std::make_unique<Adaptor>(context);
}

}  // namespace

decltype(engine::PolicyEntry::make) adaptor_of(engine::PolicyKind kind) {
  using engine::PolicyContext;
  switch (kind) {
    case engine::PolicyKind::allocation:
      return &make_hosted<engine::AllocationPolicy, HostedAllocation, PolicyContext>;
    case engine::PolicyKind::eviction:
      return &make_hosted<engine::EvictionPolicy, HostedEviction, engine::EvictionContext>;
    case engine::PolicyKind::selection:
      return &make_hosted<engine::SelectionPolicy, HostedSelection, PolicyContext>;
    case engine::PolicyKind::dispatch:
      return &make_hosted<engine::DispatchPolicy, HostedDispatch, PolicyContext>;
    case engine::PolicyKind::rehearsal:
      return &make_hosted<engine::RehearsalPolicy, HostedRehearsal, engine::RehearsalContext>;
    case engine::PolicyKind::mixture:
      return &make_hosted<engine::MixturePolicy, HostedMixture, engine::MixtureContext>;
    case engine::PolicyKind::scaling:
      break;
  }
  return &make_hosted<engine::ScalingPolicy, HostedScaling, PolicyContext>;
}

}  // namespace batchflow::plugin
