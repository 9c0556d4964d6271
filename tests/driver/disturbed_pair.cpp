#include "tests/driver/disturbed_pair.h"

#include <algorithm>

#include "core/base/random.h"
#include "policies/registry.h"
#include "tests/driver/driver.h"
#include "tests/driver/machine.h"

namespace batchflow::test {

namespace {

using Kind = DisturbedPair::Kind;

// The samples of each job, of the steps that count.
struct Run {
  std::vector<std::vector<SampleId>> sequences;
  Outcomes outcomes;
};

Run run_of(const Scenario& scenario) {
  Run run;
  run.sequences.resize(scenario.jobs.size());
  Hooks hooks;
  hooks.counted = [&](std::size_t job, std::span<const SampleId> samples) {
    run.sequences[job].insert(run.sequences[job].end(), samples.begin(), samples.end());
  };
  try {
    run.outcomes = Driver(scenario, policies::policy_list(), hooks).run();
  } catch (const Violation& violation) {
    violated(scenario.text() + violation.what());
  }
  if (run.outcomes.jobs_done != scenario.jobs.size() || run.outcomes.jobs_given_up > 0 ||
      run.outcomes.jobs_without_room > 0)
    violated("a job is not done");
  return run;
}

// Two jobs on two nodes; of one stream, where they are strict.
class Maker {
 public:
  Maker(Kind kind, std::uint64_t seed)
      : kind_(kind), random_(hash(23, static_cast<std::uint64_t>(kind), seed)) {
    made_ = small_scenario();
    made_.seed = seed;
  }

  Scenario undisturbed() {
    made_.nodes[0].dram = Bytes{1} << 17;
    made_.nodes.push_back(made_.nodes[0]);
    made_.nodes[1].id = NodeId(2);
    made_.datasets[0].samples = 200 + random_.below(200);
    if (kind_ == Kind::live) arrivals();
    for (std::uint64_t i = 0; i < 2; ++i) {
      made_.jobs.push_back(job());
      // Blocks of a mixture are known by where they begin, and weights of the two change apart.
      made_.jobs.back().has_shuffle_seed = kind_ == Kind::mixture;
      made_.jobs.back().shuffle_seed = i;
    }
    return made_;
  }

  // The same with all that happens to it, one thing every few milliseconds.
  Scenario disturbed() {
    Scenario scenario = made_;
    scenario.from_promises = random_.below(2) == 0;
    scenario.failures = {10, 10, 10, 10, 10};
    scenario.heal = ms(300);
    Duration when{0};
    for (std::uint64_t left = 20 + random_.below(40); left > 0; --left) {
      when += us(static_cast<std::int64_t>(1 + random_.below(16'000)));
      scenario.faults.push_back(fault(when));
    }
    scenario.heal = std::max(scenario.heal, when);
    if (kind_ != Kind::mixture) return scenario;
    for (JobPlan& plan : scenario.jobs) plan.changes_in_100 = 3;
    return scenario;
  }

 private:
  std::vector<NodeId> ranks() {
    std::vector<NodeId> ranks(1 + random_.below(4));
    for (NodeId& node : ranks) node = NodeId(static_cast<std::uint32_t>(1 + random_.below(2)));
    return ranks;
  }

  JobPlan job() {
    JobPlan plan;
    plan.ranks = ranks();
    plan.batch_samples = static_cast<std::uint32_t>(1 + random_.below(8));
    plan.credits = static_cast<std::uint32_t>(1 + random_.below(3));
    plan.hold = us(static_cast<std::int64_t>(random_.below(2000)));
    plan.epochs = 3;
    switch (kind_) {
      case Kind::strict:
        plan.order = Order::strict;
        break;
      case Kind::mixture:
        plan.order = Order::mixed;
        plan.sources = {{SampleId(90), 100}, {SampleId(0), 60}, {SampleId(60), 7}};
        plan.weights = {5, 2, 1};
        plan.draws = 300;
        break;
      case Kind::live:
        plan.order = Order::live;
        plan.epochs = 1;
        plan.fills_after = ms(static_cast<std::int64_t>(random_.below(10)));
        plan.fills_from = random_.below(2) * (1 + random_.below(60));
        break;
    }
    return plan;
  }

  // Bursts, and pauses between them.
  void arrivals() {
    made_.datasets[0].samples = 100'000;
    Duration when{0};
    std::uint64_t end = 0;
    for (int i = 0; i < 100; ++i) {
      when += random_.below(4) == 0 ? ms(static_cast<std::int64_t>(random_.below(20)))
                                    : us(static_cast<std::int64_t>(random_.below(2000)));
      end += random_.below(16);
      made_.datasets[0].arrivals.push_back({when, end});
    }
  }

  Fault fault(Duration when) {
    Fault fault{};
    const std::uint64_t kind = random_.below(16);
    fault.kind = kind < 4    ? Fault::Kind::coordinator_lost
                 : kind < 9  ? Fault::Kind::rank_lost
                 : kind < 13 ? Fault::Kind::job_resized
                 : kind < 15 ? Fault::Kind::worker_lost
                             : Fault::Kind::node_lost;
    fault.when = when;
    fault.number = random_.below(1000);
    fault.later = us(static_cast<std::int64_t>(random_.below(4000)));
    fault.batch_samples = static_cast<std::uint32_t>(1 + random_.below(8));
    fault.ranks = ranks();
    return fault;
  }

  Kind kind_;
  Random random_;
  Scenario made_;
};

}  // namespace

void Compared::add(const Compared& other) {
  samples += other.samples;
  lost += other.lost;
  doubled += other.doubled;
  differing += other.differing;
}

Compared compare(std::span<const SampleId> undisturbed, std::span<const SampleId> disturbed) {
  Compared found;
  found.samples = undisturbed.size();
  found.differing = std::ranges::equal(undisturbed, disturbed) ? 0 : 1;
  std::vector<SampleId> due(undisturbed.begin(), undisturbed.end());
  std::vector<SampleId> had(disturbed.begin(), disturbed.end());
  std::sort(due.begin(), due.end());
  std::sort(had.begin(), had.end());
  std::vector<SampleId> rest;
  std::set_difference(due.begin(), due.end(), had.begin(), had.end(), std::back_inserter(rest));
  found.lost = rest.size();
  rest.clear();
  std::set_difference(had.begin(), had.end(), due.begin(), due.end(), std::back_inserter(rest));
  found.doubled = rest.size();
  return found;
}

void DisturbedPair::run() {
  Maker maker(kind_, seed_);
  Scenario undisturbed = maker.undisturbed();
  const Run with = run_of(maker.disturbed());
  for (std::size_t job = 0; job < undisturbed.jobs.size(); ++job)
    undisturbed.jobs[job].changes = with.outcomes.changes[job];
  const Run without = run_of(undisturbed);
  if (without.outcomes.disturbances.all() > 0) violated("a run is disturbed that should not be");
  disturbances_ = with.outcomes.disturbances;
  for (std::size_t job = 0; job < undisturbed.jobs.size(); ++job)
    compared_.add(compare(without.sequences[job], with.sequences[job]));
}

}  // namespace batchflow::test
