// What policies are told and asked, and what becomes of jobs when they, or the nodes they decide
// for, give nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tests/driver/canaries.h"
#include "tests/driver/driver.h"
#include "tests/driver/shrinking.h"

namespace batchflow::test::policies_test {

namespace {

JobPlan one_rank(Order order, std::uint32_t epochs) {
  JobPlan job;
  job.order = order;
  job.ranks = {NodeId(1)};
  job.epochs = epochs;
  return job;
}

// ---- scaling
class NoWorkers final : public engine::ScalingPolicy {
 public:
  explicit NoWorkers(const engine::PolicyContext&) {}
  std::uint32_t workers(const engine::NodeView&) override { return 0; }
  std::uint32_t depth(const engine::JobView&) override { return 2; }
};
const engine::PolicyEntry kNoWorkers{"no-workers", "",
                                     &make_canary<engine::ScalingPolicy, NoWorkers>};

// ---- dispatch
class WaitsForTime final
    : public engine::DispatchPolicy {  // each start ten milliseconds after the last
 public:
  explicit WaitsForTime(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView& view) override {
    if (view.now < again_) return engine::kNoChoice;
    again_ = view.now + ms(10);
    return 0;
  }
  Instant ask_again() override { return again_; }

 private:
  Instant again_{};
};
const engine::PolicyEntry kWaitsForTime{"waits", "",
                                        &make_canary<engine::DispatchPolicy, WaitsForTime>};

class AsksAtOnce final : public engine::DispatchPolicy {
 public:
  explicit AsksAtOnce(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView&) override { return engine::kNoChoice; }
  Instant ask_again() override { return Instant{}; }
};
const engine::PolicyEntry kAsksAtOnce{"asks-at-once", "",
                                      &make_canary<engine::DispatchPolicy, AsksAtOnce>};

// What policies were shown. A test runs in one thread.
struct Shown {
  double cached_least = 2;
  double cached_most = -1;
  double stall_most = 0;
  double node_stall_most = 0;
  double requests_per_s_most = 0;
};
Shown shown;  // NOLINT

class NotesCandidates final : public engine::DispatchPolicy {
 public:
  explicit NotesCandidates(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView& view) override {
    for (const engine::WorkCandidate& one : view.candidates) {
      shown.cached_least = std::min(shown.cached_least, one.cached);
      shown.cached_most = std::max(shown.cached_most, one.cached);
      shown.stall_most = std::max(shown.stall_most, one.stall_fraction);
    }
    return 0;
  }
};
const engine::PolicyEntry kNotesCandidates{"notes", "",
                                           &make_canary<engine::DispatchPolicy, NotesCandidates>};

class NotesNodes final : public engine::ScalingPolicy {
 public:
  explicit NotesNodes(const engine::PolicyContext&) {}
  std::uint32_t workers(const engine::NodeView& view) override {
    shown.node_stall_most = std::max(shown.node_stall_most, view.stall_fraction);
    return view.workers_most;
  }
  std::uint32_t depth(const engine::JobView&) override { return 1; }
};
const engine::PolicyEntry kNotesNodes{"notes", "", &make_canary<engine::ScalingPolicy, NotesNodes>};

class AlwaysAsksAgain final : public engine::AllocationPolicy {
 public:
  explicit AlwaysAsksAgain(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    asked_ = place.now;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i] = place.capacity_bytes / place.shares.size() / place.shares[i].slot_bytes;
    }
  }
  Instant ask_again() override { return asked_ + ms(1); }

 private:
  Instant asked_{};
};
const engine::PolicyEntry kAlwaysAsksAgain{"asks-again", "",
                                           &make_canary<engine::AllocationPolicy, AlwaysAsksAgain>};

class NotesShares final : public engine::AllocationPolicy {
 public:
  explicit NotesShares(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      slots[i] = place.capacity_bytes / place.shares.size() / share.slot_bytes;
      if (share.form == Form::encoded) {
        shown.requests_per_s_most = std::max(shown.requests_per_s_most, share.requests_per_s);
      }
    }
  }
};
const engine::PolicyEntry kNotesShares{"notes", "",
                                       &make_canary<engine::AllocationPolicy, NotesShares>};

// ---- eviction: reads its parameter whenever it is asked
class ReadsParameters final : public engine::EvictionPolicy {
 public:
  static inline std::uint64_t changed = 0;

  explicit ReadsParameters(const engine::EvictionContext& context)
      : parameters_(context.parameters), value_(parameters_.integer("value")) {}
  void hit(const engine::Access&) override { look(); }
  engine::Admission missed(const engine::Access&) override {
    look();
    return engine::Admission::insert;
  }
  void inserted(const engine::Access& access) override { residents_.push_back(access.item); }
  ItemId victim(const engine::Access&) override {
    look();
    return residents_.empty() ? ItemId::none() : residents_.front();
  }
  void removed(ItemId item, engine::Removal) override { std::erase(residents_, item); }
  void pinned(ItemId item) override { std::erase(residents_, item); }
  void unpinned(ItemId item) override { residents_.insert(residents_.begin(), item); }
  void resized(Slots) override { look(); }
  void grow(std::size_t) override {}
  void forget(ItemId) override {}

 private:
  void look() { changed += parameters_.integer("value") == value_ ? 0 : 1; }

  const Parameters& parameters_;
  const std::int64_t value_;
  std::vector<ItemId> residents_;
};
constexpr Parameter kValue[] = {{"value", Parameter::Type::integer, "1", "", 0, 1000}};
const engine::PolicyEntry kReadsParameters{"reads-parameters", "",
                                           &make_eviction_canary<ReadsParameters>, kValue};

}  // namespace

TEST_CASE("an allocation policy is not asked again and again where there are no jobs") {
  Scenario scenario = small_scenario();
  scenario.jobs = {one_rank(Order::relaxed, 2)};
  scenario.config.policies.allocation = "asks-again";
  // Its samples stay when the job has left.
  scenario.faults = {{Fault::Kind::kept, ms(1), static_cast<std::uint64_t>(engine::Keep::always)}};
  const Canaries canaries{&kAlwaysAsksAgain};
  CHECK(Driver(scenario, canaries.list()).run().jobs_done == 1);
}

TEST_CASE("a scaling policy that gives no workers is refused, and jobs go on with one") {
  const Canaries canaries{&kNoWorkers};
  const engine::PolicyList list = canaries.list();
  Scenario scenario = small_scenario();
  scenario.nodes[0].cores = 4;
  scenario.config.policies.scaling = "no-workers";
  scenario.jobs = {one_rank(Order::strict, 2)};
  const Outcomes out = Driver(scenario, list).run();
  CHECK(out.jobs_done == 1);
  CHECK(out.counted_steps == 32);
  CHECK(out.engine.refused_proposals > 0);
}

TEST_CASE("a dispatch policy that waits for time alone is asked when it is over") {
  const Canaries canaries{&kWaitsForTime};
  const engine::PolicyList list = canaries.list();
  Scenario scenario = small_scenario();
  scenario.config.policies.dispatch = "waits";
  scenario.nodes[0].dram = 8 * 3200;  // two cores read two blocks each within an eighth of it
  scenario.timings.jitter = false;
  scenario.jobs = {one_rank(Order::strict, 1)};
  const Outcomes out = Driver(scenario, list).run();
  CHECK(out.counted_steps == 16);
  // Eight blocks, ten milliseconds apart; the last one is made in three and trained on in two.
  CHECK(out.end >= at(ms(70)));
  CHECK(out.end <= at(ms(70) + ms(8)));
}

TEST_CASE("a dispatch policy that asks to be asked at once cannot keep the engine busy") {
  const Canaries canaries{&kAsksAtOnce};
  const engine::PolicyList list = canaries.list();
  Scenario scenario = small_scenario();
  scenario.config.policies.dispatch = "asks-at-once";
  scenario.jobs = {one_rank(Order::strict, 1)};
  const Outcomes out = Driver(scenario, list).run_for(1000);
  CHECK(out.engine.batches == 0);
  CHECK(out.end >= at(us(9) * 900));  // time goes on
}

TEST_CASE("what policies are told of caches, stalls and rates is what the names say") {
  const Canaries canaries{&kNotesCandidates, &kNotesNodes, &kNotesShares};
  const engine::PolicyList list = canaries.list();
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 1 << 20;
  scenario.timings.jitter = false;
  scenario.config.policies.allocation = "notes";
  scenario.config.policies.dispatch = "notes";
  scenario.config.policies.scaling = "notes";
  scenario.jobs = {one_rank(Order::strict, 20)};
  // Something must make the engine ask again: the place's size changes once, near the end.
  scenario.faults = {{Fault::Kind::capacity, ms(300), 0, {}, 0, {}, (1 << 20) - 4096, {}}};
  shown = {};
  const Outcomes out = Driver(scenario, list).run();
  CHECK(shown.cached_least == 0);
  CHECK(shown.cached_most == 1);  // from the second epoch on all 64 samples are encoded in memory
  CHECK(shown.stall_most > 0);
  CHECK(shown.stall_most <= 1);  // before its first step it has done nothing else
  CHECK(shown.node_stall_most > 0);
  CHECK(shown.node_stall_most <= shown.stall_most);
  // An epoch asks for 64 samples; it takes 16 steps of 1 ms at least, and 8 blocks of 3 ms at most.
  CHECK(shown.requests_per_s_most > 64 / .050);
  CHECK(shown.requests_per_s_most < 64 / .016 * 1.1);
  CHECK(out.counted_steps == 20 * 16);
}

TEST_CASE("a policy's parameters are its own while another is taking over") {
  const Canaries canaries{&kReadsParameters};
  const engine::PolicyList list = canaries.list();
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 1 << 20;
  scenario.timings.jitter = false;
  scenario.config.policies.eviction.fill("reads-parameters:value=7");
  scenario.jobs = {one_rank(Order::relaxed, 2), one_rank(Order::strict, 2)};
  // Blocks are made at whole milliseconds too: policies change in steps that ask the old ones.
  for (std::int64_t i = 1; i < 40; ++i) {
    Fault fault{};
    fault.kind = Fault::Kind::policy;
    fault.when = ms(i);
    fault.text = "eviction=reads-parameters:value=" + std::to_string(i);
    scenario.faults.push_back(fault);
  }
  ReadsParameters::changed = 0;
  const Outcomes out = Driver(scenario, list).run();
  CHECK(out.counted_steps == 2 * 2 * 16);
  CHECK(ReadsParameters::changed == 0);
}

TEST_CASE("a job that joins late holds back no job for what that one had before") {
  for (const char* policy : {"bounded-lag:blocks=4", "coordinated:staging=4"}) {
    Scenario scenario = roomy_scenario();
    scenario.timings.jitter = false;
    scenario.config.policies.dispatch = policy;
    // In sequence: what the late one has made is of no use to the other.
    JobPlan early = one_rank(Order::strict, 10);
    JobPlan late = one_rank(Order::strict, 4);
    late.joins = ms(100);
    scenario.jobs = {early, late};
    CAPTURE(policy);
    const Outcomes out = Driver(scenario, policies::policy_list()).run();
    CHECK(out.counted_steps == 14 * 16);
    // 160 steps of 1 ms one after the other. Held back until the other has its 64, it would end
    // after 100 + 64 + 60.
    CHECK(out.end >= at(ms(160)));
    CHECK(out.end <= at(ms(185)));
  }
}

TEST_CASE("jobs take turns, whatever one of them had before another came") {
  for (const char* policy : {"round-robin", "coordinated"}) {
    Scenario scenario = small_scenario();
    scenario.nodes[0].cores = 1;
    scenario.nodes[0].dram = 64 * 512;
    scenario.timings.jitter = false;
    scenario.config.policies.dispatch = policy;
    JobPlan early = one_rank(Order::relaxed, 30);
    early.compute = us(1);
    JobPlan late = early;
    late.user = 2;  // a stream of its own
    late.joins = ms(300);
    // A job that needs little has had little: it must not be the measure of what the others may
    // have.
    JobPlan slow = one_rank(Order::relaxed, 1);
    slow.user = 3;
    slow.compute = ms(40);
    CAPTURE(policy);
    scenario.jobs = {early, late};
    Outcomes out = Driver(scenario, policies::policy_list()).run();
    CHECK(out.counted_steps == 2 * 30 * 16);
    // Blocks take 2 ms. Taking turns, each waits for two of the other's, not for 18 epochs of them.
    CHECK(out.longest_wait <= ms(20));
    scenario.jobs = {early, late, slow};
    out = Driver(scenario, policies::policy_list()).run();
    CHECK(out.counted_steps == (2 * 30 + 1) * 16);
    CHECK(out.longest_wait <= slow.compute + ms(20));
  }
}

TEST_CASE("jobs with one preparing node, which rests for ever, get their answer") {
  Scenario scenario = small_scenario();
  scenario.config.rank_timeout = ms(50);
  scenario.nodes.push_back({NodeId(2), 2, 100, 0, {}});  // no room for a block
  scenario.jobs = {one_rank(Order::relaxed, 50), one_rank(Order::strict, 50)};
  scenario.faults = {{Fault::Kind::node_quiesced, ms(30), 0, {}, 0, {}, 0, {}}};
  std::map<engine::Refusal, int> refusals;
  Instant now{};
  Instant first_refused{};
  Hooks hooks;
  hooks.before_step = [&](Instant at, std::span<const engine::Event>) { now = at; };
  hooks.commanded = [&](const engine::Command& command) {
    const auto* refuse = std::get_if<engine::Refuse>(&command);
    if (refuse == nullptr) return;
    if (refusals.empty()) first_refused = now;
    ++refusals[refuse->why];
  };
  const Outcomes out = Driver(scenario, policies::policy_list(), hooks).run();
  CHECK(refusals[engine::Refusal::no_workers] == 2);
  CHECK(first_refused == at(ms(80)));
  CHECK(out.jobs_without_room == 2);  // they ask again, and are told how much there is
}

TEST_CASE("a stream moves to another node when its own rests") {
  Scenario scenario = small_scenario();
  scenario.nodes.push_back({NodeId(2), 1, 4 * 512, 0, {}});
  scenario.jobs = {one_rank(Order::relaxed, 5), one_rank(Order::strict, 5)};
  scenario.faults = {{Fault::Kind::node_quiesced, ms(30), 0, {}, 0, {}, 0, {}}};
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.jobs_done == 2);
  CHECK(out.refusals == 0);
}

TEST_CASE("workers that go finish what they have, and nothing they made is lost") {
  const Canaries policies{&kShrinks};
  Scenario scenario = small_scenario();
  scenario.config.policies.scaling = "shrinks";
  scenario.nodes[0].cores = 4;
  scenario.nodes[0].dram = 64 * 512;
  scenario.jobs = {one_rank(Order::strict, 10), one_rank(Order::relaxed, 10)};
  scenario.jobs[0].compute = scenario.jobs[1].compute = us(10);
  std::uint64_t gone = 0;
  std::set<std::pair<std::uint64_t, order::BlockName>> made;
  Hooks hooks;
  hooks.before_step = [&](Instant, std::span<const engine::Event> events) {
    for (const engine::Event& event : events) {
      gone += std::holds_alternative<engine::WorkerQuiesced>(event) ? 1 : 0;
    }
  };
  hooks.commanded = [&](const engine::Command& command) {
    const auto* prepare = std::get_if<engine::Prepare>(&command);
    if (prepare != nullptr) made.insert({prepare->lineage.seed, prepare->lineage.name});
  };
  const Outcomes out = Driver(scenario, policies.list(), hooks).run();
  CHECK(out.jobs_done == 2);
  CHECK(gone > 10);
  CHECK(made.size() == 2 * 10 * 8);
  CHECK(out.engine.remakes == 0);
}

}  // namespace batchflow::test::policies_test
