// Tests of the tests: what a broken engine or backend would do, and the checker must notice; what a
// broken policy would propose, and the engine must refuse.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/driver/canaries.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

namespace {

Scenario two_ranks(Order order) {
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 32 * 512;
  JobPlan job;
  job.order = order;
  job.ranks = {NodeId(1), NodeId(1)};
  job.batch_samples = 5;
  job.epochs = 2;
  scenario.jobs = {job};
  return scenario;
}

// Whether the checker notices what `spoil` does to one batch.
bool noticed(Order order, std::function<void(std::vector<Handed>&)> spoil) {
  Hooks hooks;
  hooks.handed = [&](std::vector<Handed>& samples, Rank rank, std::uint64_t step) {
    if (rank == 1 && step == 6) spoil(samples);  // the last step of the first epoch: 4 samples
  };
  try {
    Driver(two_ranks(order), policy_list(), hooks).run();
    return false;
  } catch (const Violation&) {
    return true;
  }
}

// ---- policies that break their rules

class NeverDispatch final : public DispatchPolicy {
 public:
  explicit NeverDispatch(const PolicyContext&) {}
  std::size_t next(const DispatchView&) override { return kNoChoice; }
};
class NeverSelect final : public SelectionPolicy {
 public:
  explicit NeverSelect(const PolicyContext&) {}
  std::size_t choose(const SelectionView&) override { return kNoChoice; }
};
class WildDispatch final : public DispatchPolicy {
 public:
  explicit WildDispatch(const PolicyContext& context) : random_(context.random) {}
  std::size_t next(const DispatchView& view) override {
    return random_.below(2) == 0 ? view.candidates.size() + random_.below(1000) : 0;
  }

 private:
  Random random_;
};
class WildSelection final : public SelectionPolicy {
 public:
  explicit WildSelection(const PolicyContext& context) : random_(context.random) {}
  // Out of range, not ready, or good.
  std::size_t choose(const SelectionView& view) override {
    return random_.below(view.candidates.size() + 2);
  }

 private:
  Random random_;
};
class GreedyAllocation final : public AllocationPolicy {
 public:
  explicit GreedyAllocation(const PolicyContext&) {}
  void allocate(const PlaceView&, std::span<Slots> slots) override {
    for (Slots& one : slots) one = Slots{1} << 60;
  }
};
class WildScaling final : public ScalingPolicy {
 public:
  explicit WildScaling(const PolicyContext&) {}
  std::uint32_t workers(const NodeView&) override { return UINT32_MAX; }
  std::uint32_t depth(const JobView&) override { return UINT32_MAX; }
};

// ---- eviction: the oldest resident, but for each third victim, which breaks one rule
enum class Rule { pinned, not_resident, out_of_range, nobody };

template <Rule rule>
class BreaksRule final : public EvictionPolicy {
 public:
  explicit BreaksRule(const EvictionContext& context) : items_(context.items) {}
  void hit(const Access&) override {}
  Admission missed(const Access&) override { return Admission::insert; }
  void inserted(const Access& access) override { residents_.push_back(access.item); }
  ItemId victim(const Access&) override {
    if (++asked_ % 3 == 0) {
      const ItemId wrong = broken();
      if (!wrong.is_none() || rule == Rule::nobody) return wrong;
    }
    return residents_.empty() ? ItemId::none() : residents_.front();
  }
  void removed(ItemId item, Removal) override { std::erase(residents_, item); }
  void pinned(ItemId item) override {
    std::erase(residents_, item);
    pinned_.push_back(item);
  }
  void unpinned(ItemId item) override {
    std::erase(pinned_, item);
    residents_.insert(residents_.begin(), item);
  }
  void resized(Slots) override {}
  void grow(std::size_t items) override { items_ = items; }
  void forget(ItemId) override {}

 private:
  ItemId broken() const {
    if (rule == Rule::out_of_range) return ItemId(static_cast<std::uint32_t>(items_ + 5));
    if (rule == Rule::pinned) return pinned_.empty() ? ItemId::none() : pinned_.front();
    for (std::uint32_t i = 0; i < items_ && rule != Rule::nobody; ++i) {
      const bool here = std::count(residents_.begin(), residents_.end(), ItemId(i)) +
                            std::count(pinned_.begin(), pinned_.end(), ItemId(i)) !=
                        0;
      if (!here) return ItemId(i);
    }
    return ItemId::none();
  }

  std::size_t items_;
  std::uint64_t asked_ = 0;
  std::vector<ItemId> residents_;
  std::vector<ItemId> pinned_;  // that it was told of
};

// ---- selection and dispatch: each third answer breaks one rule
class SelectsUnready final : public SelectionPolicy {
 public:
  explicit SelectsUnready(const PolicyContext&) {}
  std::size_t choose(const SelectionView& view) override {
    for (std::size_t i = 0; i < view.candidates.size() && ++asked_ % 3 == 0; ++i) {
      if (!view.candidates[i].ready) return i;
    }
    for (std::size_t i = 0; i < view.candidates.size(); ++i) {
      if (view.candidates[i].ready) return i;
    }
    return kNoChoice;
  }

 private:
  std::uint64_t asked_ = 0;
};
class SelectsNobody final : public SelectionPolicy {
 public:
  explicit SelectsNobody(const PolicyContext&) {}
  std::size_t choose(const SelectionView& view) override {
    if (++asked_ % 3 == 0) return view.candidates.size();
    for (std::size_t i = 0; i < view.candidates.size(); ++i) {
      if (view.candidates[i].ready) return i;
    }
    return kNoChoice;
  }

 private:
  std::uint64_t asked_ = 0;
};
class DispatchesNobody final : public DispatchPolicy {
 public:
  explicit DispatchesNobody(const PolicyContext&) {}
  std::size_t next(const DispatchView& view) override {
    return ++asked_ % 3 == 0 ? view.candidates.size() : 0;
  }

 private:
  std::uint64_t asked_ = 0;
};

const PolicyEntry kNeverDispatch{"never", "", &make_canary<DispatchPolicy, NeverDispatch>};
const PolicyEntry kNeverSelect{"never", "", &make_canary<SelectionPolicy, NeverSelect>};
const PolicyEntry kWildDispatch{"wild", "", &make_canary<DispatchPolicy, WildDispatch>};
const PolicyEntry kWildSelection{"wild", "", &make_canary<SelectionPolicy, WildSelection>};
const PolicyEntry kGreedyAllocation{"greedy", "", &make_canary<AllocationPolicy, GreedyAllocation>};
const PolicyEntry kWildScaling{"wild", "", &make_canary<ScalingPolicy, WildScaling>};
const PolicyEntry kSelectsUnready{"unready", "", &make_canary<SelectionPolicy, SelectsUnready>};
const PolicyEntry kSelectsNobody{"nobody", "", &make_canary<SelectionPolicy, SelectsNobody>};
const PolicyEntry kDispatchesNobody{"nobody", "", &make_canary<DispatchPolicy, DispatchesNobody>};
const PolicyEntry kPinned{"pinned", "", &make_eviction_canary<BreaksRule<Rule::pinned>>};
const PolicyEntry kAbsent{"absent", "", &make_eviction_canary<BreaksRule<Rule::not_resident>>};
const PolicyEntry kBeyond{"beyond", "", &make_eviction_canary<BreaksRule<Rule::out_of_range>>};
const PolicyEntry kNobody{"nobody", "", &make_eviction_canary<BreaksRule<Rule::nobody>>};

const Canaries kCanaries{
    &kNeverDispatch, &kNeverSelect,    &kWildDispatch,  &kWildSelection,    &kGreedyAllocation,
    &kWildScaling,   &kSelectsUnready, &kSelectsNobody, &kDispatchesNobody, &kPinned,
    &kAbsent,        &kBeyond,         &kNobody};

}  // namespace

TEST_CASE("the checker notices what a broken engine would deliver") {
  for (const Order order : {Order::strict, Order::relaxed}) {
    CHECK(!noticed(order, [](auto&) {}));
    CHECK(noticed(order, [](auto& samples) { samples.pop_back(); }));
    CHECK(noticed(order, [](auto& samples) { samples.push_back(samples.front()); }));
    CHECK(noticed(order, [](auto& samples) { samples[0] = samples[1]; }));
    CHECK(noticed(order, [](auto& samples) { samples.back().filler = !samples.back().filler; }));
    CHECK(
        noticed(order, [](auto& samples) { ++samples[0].generation; }));  // the next epoch's draws
    CHECK(noticed(order, [](auto& samples) { samples[0].used = samples[1].used; }));
    CHECK(noticed(order, [](auto& samples) { samples[0].replaced = true; }));
  }
  CHECK(noticed(Order::strict, [](auto& samples) { std::swap(samples[0], samples[1]); }));
}

TEST_CASE("a policy that never dispatches, or never selects, delivers nothing") {
  const PolicyList list = kCanaries.list();
  Scenario scenario = two_ranks(Order::relaxed);
  scenario.config.policies.dispatch = "never";
  Outcomes out = Driver(scenario, list).run_for(10'000);
  CHECK(out.engine.batches == 0);
  CHECK(out.engine.reads == 0);
  CHECK(out.engine.preparations == 0);
  scenario.config.policies.dispatch = "fifo";
  scenario.config.policies.selection = "never";
  out = Driver(scenario, list).run_for(10'000);
  CHECK(out.engine.batches == 0);
  CHECK(out.steps < 10'000);  // it stops: nobody makes blocks for ever
}

TEST_CASE("policies that break their rules are counted and harm nothing") {
  const PolicyList list = kCanaries.list();
  for (const char* what : {"dispatch", "selection", "allocation", "scaling"}) {
    Scenario scenario = two_ranks(Order::relaxed);
    const std::string kind = what;
    if (kind == "dispatch") scenario.config.policies.dispatch = "wild";
    if (kind == "selection") scenario.config.policies.selection = "wild";
    if (kind == "allocation") scenario.config.policies.allocation = "greedy";
    if (kind == "scaling") scenario.config.policies.scaling = "wild";
    CAPTURE(kind);
    const Outcomes out = Driver(scenario, list).run();
    CHECK(out.counted_steps == 14);
    CHECK(out.engine.refused_proposals > 0);
  }
}

TEST_CASE("each rule broken now and then is refused each time, and nothing else changes") {
  const PolicyList list = kCanaries.list();
  // Four jobs of different speeds in memory for a fraction of their samples and blocks.
  Scenario scenario = two_ranks(Order::relaxed);
  scenario.pipelines[0].info.prefix_hash = 5;
  scenario.pipelines[0].info.decoded_bytes = 64;
  scenario.nodes[0].dram = 24 * 512;
  for (const std::int64_t speed : {1, 2, 4}) {
    JobPlan job = scenario.jobs[0];
    job.ranks = {NodeId(1)};
    job.compute = ms(speed);
    scenario.jobs.push_back(job);
  }
  const std::uint64_t steps = 14 + 3 * 2 * 13;
  const auto refused = [&](auto set, const char* name) {
    Scenario spoilt = scenario;
    set(spoilt.config.policies, name);
    CAPTURE(name);
    const Outcomes out = Driver(spoilt, list).run();
    CHECK(out.counted_steps == steps);
    CHECK(out.jobs_done == 4);
    CHECK(out.engine.protocol_errors == 0);
    return out.engine.refused_proposals;
  };
  const auto selection = [](PolicyTexts& texts, const char* name) { texts.selection = name; };
  const auto dispatch = [](PolicyTexts& texts, const char* name) { texts.dispatch = name; };
  const auto eviction = [](PolicyTexts& texts, const char* name) { texts.eviction.fill(name); };
  CHECK(refused(selection, "unready") > 0);
  CHECK(refused(selection, "nobody") > 0);
  CHECK(refused(dispatch, "nobody") > 0);
  CHECK(refused(eviction, "pinned") > 0);
  CHECK(refused(eviction, "absent") > 0);
  CHECK(refused(eviction, "beyond") > 0);
  CHECK(refused(eviction, "nobody") > 0);
  CHECK(refused(eviction, "fifo") == 0);
}

}  // namespace batchflow::test
