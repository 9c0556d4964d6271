// Tests of the tests: what a broken engine or backend would do, and the checker must notice; what a
// broken policy would propose, and the engine must refuse.
#include <doctest/doctest.h>

#include "policies/registry.h"
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

template <class Interface, class Policy>
std::unique_ptr<Interface> make(const PolicyContext& context) {
  return std::make_unique<Policy>(context);
}

const PolicyEntry kNeverDispatch{"never", "", &make<DispatchPolicy, NeverDispatch>};
const PolicyEntry kNeverSelect{"never", "", &make<SelectionPolicy, NeverSelect>};
const PolicyEntry kWildDispatch{"wild", "", &make<DispatchPolicy, WildDispatch>};
const PolicyEntry kWildSelection{"wild", "", &make<SelectionPolicy, WildSelection>};
const PolicyEntry kGreedyAllocation{"greedy", "", &make<AllocationPolicy, GreedyAllocation>};
const PolicyEntry kWildScaling{"wild", "", &make<ScalingPolicy, WildScaling>};

struct Canaries {
  Canaries() {
    for (const PolicyEntry* entry : policy_list().entries()) entries.push_back(entry);
    for (const PolicyEntry* entry : {&kNeverDispatch, &kNeverSelect, &kWildDispatch,
                                     &kWildSelection, &kGreedyAllocation, &kWildScaling}) {
      entries.push_back(entry);
    }
  }
  std::vector<const PolicyEntry*> entries;
  PolicyList list() const { return PolicyList(entries); }
};

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
  const Canaries canaries;
  const PolicyList list = canaries.list();
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
  const Canaries canaries;
  const PolicyList list = canaries.list();
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
    // A number of workers or a depth is never wrong: it is bounded.
    if (kind != "scaling") CHECK(out.engine.refused_proposals > 0);
  }
}

}  // namespace batchflow::test
