// Tests of the tests: what a broken engine or backend would do, and the checker must notice; what a
// broken policy would propose, and the engine must refuse.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/driver/canaries.h"
#include "tests/driver/driver.h"
#include "tests/driver/noticed.h"

namespace batchflow::test::canary_test {

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
  return is_noticed(two_ranks(order),
                    [&](std::vector<Handed>& samples, Rank rank, std::uint64_t step) {
                      if (rank == 1 && step == 6)
                        spoil(samples);  // the last step of the first epoch: 4 samples
                    });
}

// ---- policies that break their rules

class NeverDispatch final : public engine::DispatchPolicy {
 public:
  explicit NeverDispatch(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView&) override { return engine::kNoChoice; }
};
class NeverSelect final : public engine::SelectionPolicy {
 public:
  explicit NeverSelect(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView&) override { return engine::kNoChoice; }
};
class WildDispatch final : public engine::DispatchPolicy {
 public:
  explicit WildDispatch(const engine::PolicyContext& context) : random_(context.random) {}
  std::size_t next(const engine::DispatchView& view) override {
    return random_.below(2) == 0 ? view.candidates.size() + random_.below(1000) : 0;
  }

 private:
  Random random_;
};
class WildSelection final : public engine::SelectionPolicy {
 public:
  explicit WildSelection(const engine::PolicyContext& context) : random_(context.random) {}
  // Out of range, not ready, or good.
  std::size_t choose(const engine::SelectionView& view) override {
    return random_.below(view.candidates.size() + 2);
  }

 private:
  Random random_;
};
class GreedyAllocation final : public engine::AllocationPolicy {
 public:
  explicit GreedyAllocation(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView&, std::span<Slots> slots) override {
    for (Slots& one : slots) one = Slots{1} << 60;
  }
};
class WildScaling final : public engine::ScalingPolicy {
 public:
  explicit WildScaling(const engine::PolicyContext&) {}
  std::uint32_t workers(const engine::NodeView&) override { return UINT32_MAX; }
  std::uint32_t depth(const engine::JobView&) override { return UINT32_MAX; }
};

// When a policy that answers rightly otherwise breaks its rule: each third time it is asked, or
// once for all, from the fourth time on when it can.
enum class When { often, once };

template <When when>
class Liar {
 public:
  bool may_lie() { return ++asked_ % 3 == 0 || (when == When::once && asked_ > 3); }
  // It has lied.
  void lied() { over_ = when == When::once; }
  bool over() const { return over_; }

 private:
  std::uint64_t asked_ = 0;
  bool over_ = false;
};

// ---- eviction: the oldest resident, but for victims that break one rule
enum class Rule { pinned, not_resident, out_of_range, none };

template <Rule rule, When when>
class BreaksRule final : public engine::EvictionPolicy {
 public:
  explicit BreaksRule(const engine::EvictionContext& context) : items_(context.items) {}
  void hit(const engine::Access&) override {}
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override { residents_.push_back(access.item); }
  ItemId victim(const engine::Access&) override {
    if (liar_.may_lie() && !liar_.over()) {
      const ItemId wrong = broken();
      if (!wrong.is_none() || rule == Rule::none) {
        liar_.lied();
        return wrong;
      }
    }
    return residents_.empty() ? ItemId::none() : residents_.front();
  }
  void removed(ItemId item, engine::Removal) override { std::erase(residents_, item); }
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
    for (std::uint32_t i = 0; i < items_ && rule != Rule::none; ++i) {
      const bool here = std::count(residents_.begin(), residents_.end(), ItemId(i)) +
                            std::count(pinned_.begin(), pinned_.end(), ItemId(i)) !=
                        0;
      if (!here) return ItemId(i);
    }
    return ItemId::none();
  }

  std::size_t items_;
  Liar<when> liar_;
  std::vector<ItemId> residents_;
  std::vector<ItemId> pinned_;  // that it was told of
};

// ---- selection and dispatch: the first, but for answers that break one rule
std::size_t first_with(const engine::SelectionView& view, bool ready) {
  for (std::size_t i = 0; i < view.candidates.size(); ++i) {
    if (view.candidates[i].ready == ready) return i;
  }
  return engine::kNoChoice;
}

template <When when>
class SelectsUnready final : public engine::SelectionPolicy {
 public:
  explicit SelectsUnready(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView& view) override {
    const std::size_t unready = first_with(view, false);
    const bool lies = liar_.may_lie() && !liar_.over() && unready != engine::kNoChoice;
    if (lies) liar_.lied();
    return lies ? unready : first_with(view, true);
  }

 private:
  Liar<when> liar_;
};
template <When when>
class SelectsNone final : public engine::SelectionPolicy {
 public:
  explicit SelectsNone(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView& view) override {
    const bool lies = liar_.may_lie() && !liar_.over();
    if (lies) liar_.lied();
    return lies ? view.candidates.size() : first_with(view, true);
  }

 private:
  Liar<when> liar_;
};
template <When when>
class DispatchesNone final : public engine::DispatchPolicy {
 public:
  explicit DispatchesNone(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView& view) override {
    const bool lies = liar_.may_lie() && !liar_.over();
    if (lies) liar_.lied();
    return lies ? view.candidates.size() : 0;
  }

 private:
  Liar<when> liar_;
};
// ---- allocation and scaling: what is right, but once all that can be written
class AllocatesTooMuchOnce final : public engine::AllocationPolicy {
 public:
  explicit AllocatesTooMuchOnce(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    const bool lies = ++asked_ == 3;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Slots part = place.capacity_bytes / slots.size() / place.shares[i].slot_bytes;
      slots[i] = lies ? Slots{1} << 60 : part;
    }
  }

 private:
  std::uint64_t asked_ = 0;
};
class ScalesTooMuchOnce final : public engine::ScalingPolicy {
 public:
  explicit ScalesTooMuchOnce(const engine::PolicyContext&) {}
  std::uint32_t workers(const engine::NodeView& view) override {
    return ++asked_ == 4 ? UINT32_MAX : view.workers_most;
  }
  std::uint32_t depth(const engine::JobView&) override { return 1; }

 private:
  std::uint64_t asked_ = 0;
};

const engine::PolicyEntry kNeverDispatch{"never", "",
                                         &make_canary<engine::DispatchPolicy, NeverDispatch>};
const engine::PolicyEntry kNeverSelect{"never", "",
                                       &make_canary<engine::SelectionPolicy, NeverSelect>};
const engine::PolicyEntry kWildDispatch{"wild", "",
                                        &make_canary<engine::DispatchPolicy, WildDispatch>};
const engine::PolicyEntry kWildSelection{"wild", "",
                                         &make_canary<engine::SelectionPolicy, WildSelection>};
const engine::PolicyEntry kGreedyAllocation{
    "greedy", "", &make_canary<engine::AllocationPolicy, GreedyAllocation>};
const engine::PolicyEntry kWildScaling{"wild", "",
                                       &make_canary<engine::ScalingPolicy, WildScaling>};
const engine::PolicyEntry kAllocatesOnce{
    "once", "", &make_canary<engine::AllocationPolicy, AllocatesTooMuchOnce>};
const engine::PolicyEntry kScalesOnce{"once", "",
                                      &make_canary<engine::ScalingPolicy, ScalesTooMuchOnce>};

// Those that break one rule, often and once.
template <When when>
struct Liars {
  static std::string named(const char* name) {
    return when == When::once ? std::string("once-") + name : name;
  }
  template <Rule rule>
  static constexpr engine::MakeEviction kEvicts = &make_eviction_canary<BreaksRule<rule, when>>;
  std::string names[7] = {named("unready"), named("none"),   named("none"), named("pinned"),
                          named("absent"),  named("beyond"), named("none")};
  engine::PolicyEntry entries[7] = {
      {names[0].c_str(), "", &make_canary<engine::SelectionPolicy, SelectsUnready<when>>},
      {names[1].c_str(), "", &make_canary<engine::SelectionPolicy, SelectsNone<when>>},
      {names[2].c_str(), "", &make_canary<engine::DispatchPolicy, DispatchesNone<when>>},
      {names[3].c_str(), "", kEvicts<Rule::pinned>},
      {names[4].c_str(), "", kEvicts<Rule::not_resident>},
      {names[5].c_str(), "", kEvicts<Rule::out_of_range>},
      {names[6].c_str(), "", kEvicts<Rule::none>}};
};

const Canaries& canaries() {
  static const Liars<When::often> often;
  static const Liars<When::once> once;
  static const Canaries all = [] {
    Canaries made{&kNeverDispatch,    &kNeverSelect, &kWildDispatch,  &kWildSelection,
                  &kGreedyAllocation, &kWildScaling, &kAllocatesOnce, &kScalesOnce};
    made.add(often.entries);
    made.add(once.entries);
    return made;
  }();
  return all;
}

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
  const engine::PolicyList list = canaries().list();
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
  CHECK(out.steps < 10'000);  // it stops: no worker makes blocks for ever
}

TEST_CASE("policies that break their rules are counted and harm nothing") {
  const engine::PolicyList list = canaries().list();
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

namespace {

// Four jobs of different speeds in memory for a fraction of their samples and blocks.
Scenario four_jobs() {
  Scenario scenario = two_ranks(Order::relaxed);
  scenario.pipelines[0].info.prefix_hash = 5;
  scenario.pipelines[0].info.decoded_bytes = 64;
  scenario.nodes[0].dram = 28 * 512;
  for (const std::int64_t speed : {1, 2, 4}) {
    JobPlan job = scenario.jobs[0];
    job.ranks = {NodeId(1)};
    job.compute = ms(speed);
    scenario.jobs.push_back(job);
  }
  return scenario;
}

// Proposals that were refused; the jobs have what they would have had.
std::uint64_t refused(std::string engine::PolicyTexts::*kind, const std::string& name) {
  Scenario spoilt = four_jobs();
  if (kind == nullptr) {
    spoilt.config.policies.eviction.fill(name);
  } else {
    spoilt.config.policies.*kind = name;
  }
  CAPTURE(name);
  const Outcomes out = Driver(spoilt, canaries().list()).run();
  CHECK(out.counted_steps == 14 + 3 * 2 * 13);
  CHECK(out.jobs_done == 4);
  CHECK(out.engine.protocol_errors == 0);
  return out.engine.refused_proposals;
}

}  // namespace

TEST_CASE("each rule broken now and then is refused each time, and nothing else changes") {
  CHECK(refused(&engine::PolicyTexts::selection, "unready") > 1);
  CHECK(refused(&engine::PolicyTexts::selection, "none") > 1);
  CHECK(refused(&engine::PolicyTexts::dispatch, "none") > 1);
  for (const char* rule : {"pinned", "absent", "beyond", "none"}) {
    CHECK(refused(nullptr, rule) > 1);
  }
  CHECK(refused(nullptr, "fifo") == 0);
}

TEST_CASE("each rule broken once is refused once") {
  CHECK(refused(&engine::PolicyTexts::selection, "once-unready") == 1);
  CHECK(refused(&engine::PolicyTexts::selection, "once-none") == 1);
  CHECK(refused(&engine::PolicyTexts::dispatch, "once-none") == 1);
  CHECK(refused(&engine::PolicyTexts::allocation, "once") == 1);
  CHECK(refused(&engine::PolicyTexts::scaling, "once") == 1);
  // Each share has a policy of its own: the samples as stored, decoded, and the blocks.
  for (const char* rule : {"once-pinned", "once-absent", "once-beyond", "once-none"}) {
    const std::uint64_t times = refused(nullptr, rule);
    CHECK(times >= 1);
    CHECK(times <= 3);
  }
}

}  // namespace batchflow::test::canary_test
