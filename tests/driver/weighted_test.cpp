// Weighted orders end to end. The checker counts every draw; here stands what is made and shared.
#include <doctest/doctest.h>

#include "policies/registry.h"
#include "tests/driver/canaries.h"
#include "tests/driver/driver.h"

namespace batchflow::test::weighted_test {

namespace {

// 64 samples in blocks of 8, batches of 4: 8 blocks and 16 steps an epoch.
JobPlan weighted(std::uint32_t epochs) {
  JobPlan job;
  job.order = Order::weighted;
  job.ranks = {NodeId(1)};
  job.epochs = epochs;
  return job;
}

Outcomes run(const Scenario& scenario) {
  const Outcomes out = Driver(scenario, policies::policy_list()).run();
  CHECK(out.engine.refused_proposals == 0);
  CHECK(out.refusals == 0);
  CHECK(out.jobs_done == scenario.jobs.size());
  return out;
}

// Notes when samples are expected to be requested next, and keeps none.
class NotesNextUse final : public KeepsNothing {
 public:
  struct Noted {
    std::uint32_t sample;
    double in_s;
  };
  static inline std::vector<Noted> noted;

  explicit NotesNextUse(const engine::EvictionContext&) {}
  engine::Admission missed(const engine::Access& access) override {
    const auto now = static_cast<std::uint64_t>(access.at.time_since_epoch().count());
    noted.push_back({access.item.value, access.next_use == engine::kNeverUsed
                                            ? -1
                                            : static_cast<double>(access.next_use - now) * 1e-9});
    return engine::Admission::bypass;
  }
};
const engine::PolicyEntry kNotesNextUse{.name = "notes-next-use",
                                        .help = "",
                                        .make = &make_eviction_canary<NotesNextUse>,
                                        .next_uses = true};

}  // namespace

TEST_CASE("what a weighted job draws next is expected by weight") {
  // Of 64 samples, the first eight weigh three times as much as the others: 24 of 80 parts.
  JobPlan job = weighted(4);
  for (std::uint64_t sample = 0; sample < 8; ++sample) {
    job.scores_first.push_back({SampleId(sample), 3});
  }
  Scenario scenario = roomy_scenario({job});
  scenario.nodes[0].dram = 9 * 512;  // where all have room, no next use is told
  scenario.config.policies.allocation = "encoded-first:forms=encoded";
  scenario.config.policies.eviction[0] = "notes-next-use";
  const Canaries canaries{&kNotesNextUse};
  NotesNextUse::noted.clear();
  CHECK(Driver(scenario, canaries.list()).run().jobs_done == 1);
  REQUIRE(NotesNextUse::noted.size() > 100);
  // At one moment the rate is one: then times are as 1 to 3.
  for (std::size_t i = 1; i < NotesNextUse::noted.size(); ++i) {
    const auto [sample, in_s] = NotesNextUse::noted[i];
    const auto [before, before_in_s] = NotesNextUse::noted[i - 1];
    CHECK(in_s > 0);
    if ((sample < 8) == (before < 8)) continue;
    const double ratio = sample < 8 ? before_in_s / in_s : in_s / before_in_s;
    CHECK(ratio > 1);
  }
}

TEST_CASE("a weighted epoch is so many draws, however many samples there are") {
  for (const std::uint64_t draws : {0, 5, 64, 150}) {
    for (const bool multinomial : {false, true}) {
      JobPlan job = weighted(3);
      job.draws = draws;
      job.multinomial = multinomial;
      job.scores_in_100 = 60;
      const Outcomes out = run(roomy_scenario({job}));
      const std::uint64_t in_epoch = draws == 0 ? 64 : draws;
      CHECK(out.counted_steps == 3 * ((in_epoch + 3) / 4));
      CHECK(out.engine.preparations == 3 * ((in_epoch + 7) / 8));
    }
  }
}

TEST_CASE("equal weights share blocks, other weights and other kinds of draws do not") {
  CHECK(run(roomy_scenario({weighted(2), weighted(2)})).engine.preparations == 2 * 8);
  // Its scores count from the second epoch on.
  JobPlan scoring = weighted(2);
  scoring.scores_in_100 = 100;
  CHECK(run(roomy_scenario({weighted(2), scoring})).engine.preparations == 3 * 8);
  JobPlan multinomial = weighted(2);
  multinomial.multinomial = true;
  CHECK(run(roomy_scenario({weighted(2), multinomial})).engine.preparations == 4 * 8);
}

TEST_CASE("what ranks tell before all of them ask is what the first epoch is drawn by") {
  // Of 64 samples the first two: an epoch is two samples, 32 times each, and 8 blocks all the same.
  JobPlan job = weighted(2);
  job.ranks = {NodeId(1), NodeId(1)};
  for (std::uint64_t sample = 2; sample < 64; ++sample)
    job.scores_first.push_back({SampleId(sample), 0});
  const Outcomes out = run(roomy_scenario({job}));
  CHECK(out.samples_read_from_store == 2);
  CHECK(out.engine.preparations == 2 * 8);
  // Joined anew, wherever it stood, it is told them again and goes on there.
  std::uint64_t voided = 0;
  for (int at = 3; at < 15; ++at) {
    Scenario leaves = roomy_scenario({job});
    leaves.faults = {{Fault::Kind::job_leaves, ms(at), 0, ms(3), 3, {NodeId(1), NodeId(1)}, 0, {}}};
    const Outcomes later = Driver(leaves, policies::policy_list()).run();
    CHECK(later.jobs_done == 1);
    CHECK(later.samples_read_from_store == 2);
    voided += later.voided_samples;
  }
  CHECK(voided == 0);
}

TEST_CASE("a weighted epoch goes on after a loss of ranks, and begins again after one of scores") {
  for (const Fault::Kind kind :
       {Fault::Kind::rank_lost, Fault::Kind::job_resized, Fault::Kind::job_leaves,
        Fault::Kind::coordinator_lost, Fault::Kind::node_lost}) {
    for (const bool scores : {false, true}) {
      JobPlan job = weighted(3);
      job.scores_in_100 = scores ? 100 : 0;
      Scenario scenario = roomy_scenario({job});
      scenario.from_promises = scores;
      // In the middle of the second epoch: 16 steps of 1 ms and what comes before them.
      scenario.faults = {{kind, ms(28), 0, ms(3), 3, {NodeId(1), NodeId(1)}, 0, {}}};
      CAPTURE(static_cast<int>(kind));
      const Outcomes out = Driver(scenario, policies::policy_list()).run();
      CHECK(out.jobs_done == 1);
      // It joins again, and the service it joins knows nothing of its scores.
      const bool anew = kind == Fault::Kind::job_leaves || kind == Fault::Kind::coordinator_lost;
      CHECK((out.voided_samples > 0) == (anew && scores));
    }
  }
}

// ---- a policy that weighs scores

class Weighs : public engine::SelectionPolicy {
 public:
  std::size_t choose(const engine::SelectionView& view) override {
    return view.candidates.front().ready ? 0 : engine::kNoChoice;
  }
};
class Threefold final : public Weighs {
 public:
  explicit Threefold(const engine::PolicyContext&) {}
  void weigh(JobId, std::span<const float> scores, std::span<float> weights) override {
    for (std::size_t i = 0; i < scores.size(); ++i) weights[i] = 3 * scores[i];
  }
};
class Inverse final : public Weighs {
 public:
  explicit Inverse(const engine::PolicyContext&) {}
  void weigh(JobId, std::span<const float> scores, std::span<float> weights) override {
    for (std::size_t i = 0; i < scores.size(); ++i) weights[i] = 1 / (scores[i] + 0.01F);
  }
};
const engine::PolicyEntry kThreefold{"threefold", "",
                                     &make_canary<engine::SelectionPolicy, Threefold>};
const engine::PolicyEntry kInverse{"inverse", "", &make_canary<engine::SelectionPolicy, Inverse>};

TEST_CASE("draws follow the weights that the policy makes of scores") {
  // With a score for each sample, three times the weight of all is the same order. The checker
  // counts by the scores, so it notices other weights.
  JobPlan job = weighted(3);
  for (std::uint64_t sample = 0; sample < 64; ++sample)
    job.scores_first.push_back({SampleId(sample), static_cast<float>(sample % 5)});
  const Canaries canaries{&kThreefold, &kInverse};
  Scenario scenario = roomy_scenario({job});
  scenario.config.policies.selection = "threefold";
  CHECK(Driver(scenario, canaries.list()).run().jobs_done == 1);
  scenario.config.policies.selection = "inverse";
  CHECK_THROWS_AS(Driver(scenario, canaries.list()).run(), Violation);
}

}  // namespace batchflow::test::weighted_test
