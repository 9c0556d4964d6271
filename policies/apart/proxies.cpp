#include "policies/apart/proxies.h"

#include <memory>
#include <span>

#include "policies/apart/eviction_proxy.h"
#include "policies/apart/proxy.h"
#include "policies/plugin/fallback.h"

namespace batchflow::apart {
namespace {

namespace fallback = plugin::fallback;

class AllocationProxy final : public Proxy<engine::AllocationPolicy> {
 public:
  using Proxy::Proxy;

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    engine::PlaceView shown = place;
    shown.shares = {};
    MessageWriter call = begin(CallKind::allocate);
    call.put(shown);
    call.list(place.shares);
    forecast_ = {};
    if (auto answer = ask()) {
      standing_ = standing(*answer);
      forecast_ = answer->get<engine::Forecast>();
      answer->fill(slots);
      whole(*answer);
    }
    if (!failed()) return;
    forecast_ = {};
    fallback::allocate(place, slots);
  }
  Instant ask_again() override { return failed() ? kNever : ask_again_at(); }
  bool wants_measures() const override { return standing_.wants_measures != 0; }
  engine::Forecast forecast() const override { return forecast_; }

 private:
  engine::Forecast forecast_;
};

class SelectionProxy final : public Proxy<engine::SelectionPolicy> {
 public:
  using Proxy::Proxy;

  std::size_t choose(const engine::SelectionView& view) override {
    engine::SelectionView shown = view;
    shown.candidates = {};
    MessageWriter call = begin(CallKind::choose);
    call.put(shown);
    call.list(view.candidates);
    const auto choice = ask_standing<std::uint64_t>();
    return choice ? static_cast<std::size_t>(*choice) : fallback::choose(view);
  }
  bool looks_behind_ready() const override { return standing_.looks_behind_ready != 0; }
  Instant ask_again() override { return failed() ? kNever : ask_again_at(); }
  std::uint32_t blocks_to_choose_from() const override { return standing_.blocks_to_choose_from; }
  void choose_samples(const engine::SamplesView& view, std::span<std::uint32_t> picks) override {
    engine::SamplesView shown = view;
    shown.candidates = {};
    MessageWriter call = begin(CallKind::choose_samples);
    call.put(shown);
    call.list(view.candidates);
    call.put(static_cast<std::uint64_t>(picks.size()));
    if (auto answer = ask()) {
      answer->fill(picks);
      whole(*answer);
    }
    if (failed()) fallback::choose_samples(picks);
  }
  void weigh(JobId job, std::span<const float> scores, std::span<float> weights) override {
    MessageWriter call = begin(CallKind::weigh);
    call.put(job);
    call.list(scores);
    if (auto answer = ask()) {
      answer->fill(weights);
      whole(*answer);
    }
    if (failed()) fallback::weigh(scores, weights);
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    MessageWriter call = begin(CallKind::epoch_began);
    call.put(job);
    call.put(epoch);
    tell();
  }
};

class DispatchProxy final : public Proxy<engine::DispatchPolicy> {
 public:
  using Proxy::Proxy;

  std::size_t next(const engine::DispatchView& view) override {
    MessageWriter call = begin(CallKind::next);
    call.put(view.now);
    call.list(view.candidates);
    const auto choice = ask_standing<std::uint64_t>();
    return choice ? static_cast<std::size_t>(*choice) : fallback::next(view);
  }
  Instant ask_again() override { return failed() ? kNever : ask_again_at(); }
  bool chooses_nodes() const override { return !failed() && standing_.chooses_nodes != 0; }
  std::size_t choose_node(const engine::NodesView& view) override {
    MessageWriter call = begin(CallKind::choose_node);
    call.put(view.work);
    call.list(view.candidates);
    return static_cast<std::size_t>(ask_for<std::uint64_t>().value_or(0));
  }
};

class ScalingProxy final : public Proxy<engine::ScalingPolicy> {
 public:
  using Proxy::Proxy;

  std::uint32_t workers(const engine::NodeView& view) override {
    begin(CallKind::workers).put(view);
    const auto answer = ask_for<std::uint32_t>();
    return answer ? *answer : fallback::workers(view);
  }
  std::uint32_t depth(const engine::JobView& view) override {
    begin(CallKind::depth).put(view);
    const auto answer = ask_for<std::uint32_t>();
    return answer ? *answer : fallback::depth(view);
  }
};

class RehearsalProxy final : public Proxy<engine::RehearsalPolicy> {
 public:
  using Proxy::Proxy;

  std::size_t choose(const engine::RehearsalView& sample, Random random) override {
    MessageWriter call = begin(CallKind::choose_exemplar);
    put_view(call, sample);
    call.put(random.key());
    return static_cast<std::size_t>(ask_for<std::uint64_t>().value_or(engine::kNoChoice));
  }
  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    MessageWriter call = begin(CallKind::put_exemplar);
    put_view(call, exemplar);
    call.put(static_cast<std::uint64_t>(index));
    tell();
  }
  bool weighs() const override { return standing_.weighs != 0; }
  float weight(const engine::Exemplar& exemplar) const override {
    begin(CallKind::weight_of_exemplar).put(exemplar);
    return ask_for<float>().value_or(1);
  }

 private:
  static void put_view(MessageWriter& call, const engine::RehearsalView& view) {
    call.put(view.exemplar);
    call.put(view.number);
    call.list(view.features);
  }
};

class MixtureProxy final : public Proxy<engine::MixturePolicy> {
 public:
  using Proxy::Proxy;

  std::uint64_t every() const override { return failed() ? fallback::kEvery : standing_.every; }
  void weigh(const engine::MixtureView& view, std::span<double> weights) override {
    MessageWriter call = begin(CallKind::weigh_sources);
    call.put(view.job);
    call.put(view.drawn);
    call.list(view.sources);
    if (auto answer = ask()) {
      standing_ = standing(*answer);
      answer->fill(weights);
      whole(*answer);
    }
    if (failed()) fallback::weigh(view, weights);
  }
};

template <class Policy, class Interface, class Context>
std::unique_ptr<Interface> make_proxy(const Context& context) {
  return std::make_unique<Policy>(context);
}

}  // namespace

decltype(engine::PolicyEntry::make) proxy_of(engine::PolicyKind kind) {
  using engine::PolicyContext;
  switch (kind) {
    case engine::PolicyKind::allocation:
      return &make_proxy<AllocationProxy, engine::AllocationPolicy, PolicyContext>;
    case engine::PolicyKind::eviction:
      return &make_proxy<EvictionProxy, engine::EvictionPolicy, engine::EvictionContext>;
    case engine::PolicyKind::selection:
      return &make_proxy<SelectionProxy, engine::SelectionPolicy, PolicyContext>;
    case engine::PolicyKind::dispatch:
      return &make_proxy<DispatchProxy, engine::DispatchPolicy, PolicyContext>;
    case engine::PolicyKind::rehearsal:
      return &make_proxy<RehearsalProxy, engine::RehearsalPolicy, engine::RehearsalContext>;
    case engine::PolicyKind::mixture:
      return &make_proxy<MixtureProxy, engine::MixturePolicy, engine::MixtureContext>;
    case engine::PolicyKind::scaling:
      break;
  }
  return &make_proxy<ScalingProxy, engine::ScalingPolicy, PolicyContext>;
}

}  // namespace batchflow::apart
