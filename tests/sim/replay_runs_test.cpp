// Replays as they run: GPUs compute what was recorded, and no policy beats the bound.
#include <doctest/doctest.h>

#include <set>

#include "policies/registry.h"
#include "sim/cluster_replay/fluid_bound.h"
#include "sim/cluster_replay/replay_summary.h"
#include "sim/planned_runs.h"
#include "tests/sim/replay_traces.h"
#include "tests/skip.h"

namespace batchflow::test::replay_runs_test {

namespace {

// Every preset, with several seeds.
std::vector<sim::PlannedRun> runs_of(const std::string& overlay, const std::string& scheduler,
                                     const sim::ReplayGrain& grain) {
  const traces::JobTrace trace = made_trace(80, 1, 32);
  const input::OverlayModel model = input::read_overlay(input::load_overlay(overlay));
  std::vector<sim::PlannedRun> planned;
  for (const char* preset : {"default", "independent"}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      sim::LeftOut out;
      const input::Scenario base = base_of(
          seed, "scheduler: " + scheduler + "\nengine: {preset: " + std::string(preset) + "}\n");
      planned.push_back({preset, sim::replay_scenario(base, trace, model, grain, {}, out)});
    }
  }
  return planned;
}

}  // namespace

TEST_CASE("what jobs compute is what was recorded, and no run beats its bound") {
  if (!sim::can_simulate()) return batchflow::test::skipped("built without SimGrid");
  struct Case {
    const char* overlay;
    const char* scheduler;
    sim::ReplayGrain grain;
  };
  for (const Case& one : {Case{"vision", "fifo", {}}, Case{"mixed", "recorded", {16, 8}},
                          Case{"hp-search", "las", {32, 40}}}) {
    const std::vector<sim::PlannedRun> planned = runs_of(one.overlay, one.scheduler, one.grain);
    const auto results = sim::run_all(planned, {});
    for (std::size_t i = 0; i < planned.size(); ++i) {
      CAPTURE(one.overlay);
      CAPTURE(planned[i].label);
      REQUIRE(results[i]);
      const output::RunResult& run = *results[i];
      const input::Scenario& scenario = planned[i].scenario;
      CHECK(run.failure.empty());
      CHECK(run.refused_proposals == 0);
      const sim::FluidBound bound = sim::fluid_bound(scenario);
      CHECK(bound.least_s() > 0);
      CHECK(run.makespan_s >= bound.least_s() * (1 - 1e-12));
      double samples = 0;
      for (std::size_t j = 0; j < run.jobs.size(); ++j) {
        const output::JobResult& job = run.jobs[j];
        const input::JobModel& model = scenario.jobs[j];
        const input::PipelineModel& pipeline =
            scenario.pipelines[static_cast<std::size_t>(model.pipeline)];
        CAPTURE(job.name);
        CAPTURE(job.preemptions);
        CAPTURE(job.samples);
        CAPTURE(model.steps * model.batch * std::max(1u, pipeline.epochs_per_block));
        CAPTURE(scenario.datasets[static_cast<std::size_t>(model.dataset)].samples);
        REQUIRE(job.state == "done");
        const double compute_s = static_cast<double>(model.step.count()) * 1e-9 *
                                 static_cast<double>(model.steps) *
                                 std::max(1u, pipeline.epochs_per_block);
        // A step that a preemption breaks off is computed again.
        if (job.preemptions == 0) CHECK(job.compute_s == doctest::Approx(compute_s).epsilon(1e-9));
        CHECK(job.compute_s >= compute_s * (1 - 1e-9));
        CHECK(job.compute_s + job.stall_s + job.idle_s + job.down_s ==
              doctest::Approx(job.time_s).epsilon(1e-9));
        CHECK(job.started_s >= job.arrived_s);
        samples += static_cast<double>(job.samples);
      }
      CHECK(samples <= bound.samples * (1 + 1e-12));
      const sim::ReplaySummary sum = sim::summary_of(run);
      CHECK(sum.jobs_done == scenario.jobs.size());
      CHECK(sum.fairness > 0);
      CHECK(sum.fairness <= 1 + 1e-12);
    }
  }
}

TEST_CASE("every eviction policy runs at the grain of replays, and their caches differ") {
  if (!sim::can_simulate()) return batchflow::test::skipped("built without SimGrid");
  const traces::JobTrace trace = made_trace(60, 1, 32);
  const input::OverlayModel model = input::read_overlay(input::load_overlay("vision"));
  std::vector<sim::PlannedRun> planned;
  for (const engine::PolicyEntry* entry :
       policies::policy_list().of_kind(engine::PolicyKind::eviction)) {
    const std::string name(entry->name);
    input::Scenario base =
        base_of(1,
                "engine: {policies: {allocation: 'proportional:forms=encoded', "
                "eviction: {encoded: " +
                    name + ", decoded: " + name + ", prepared: " + name + "}}}\n");
    for (input::NodeModel& node : base.cluster.nodes) node.cache /= 4;
    sim::LeftOut out;
    planned.push_back({name, sim::replay_scenario(std::move(base), trace, model, {}, {}, out)});
  }
  const auto results = sim::run_all(planned, {});
  std::set<Bytes> read;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    CAPTURE(planned[i].label);
    REQUIRE(results[i]);
    CHECK(results[i]->failure.empty());
    CHECK(results[i]->refused_proposals == 0);
    CHECK(results[i]->aggregate.repeats == 0);
    for (const output::JobResult& job : results[i]->jobs) CHECK(job.state == "done");
    read.insert(results[i]->aggregate.storage_bytes);
  }
  CHECK(read.size() >= planned.size() / 2);
}

TEST_CASE("policies are compared by the seeds that ran to their end in both") {
  const auto run_of = [](const char* label, std::uint64_t seed, double stall_s, bool interrupted) {
    output::RunResult run;
    run.label = label;
    run.seed = seed;
    run.interrupted = interrupted;
    output::JobResult job;
    job.state = "done";
    job.user = "ann";
    job.ranks = 2;
    job.arrived_s = 5;
    job.started_s = 10;
    job.time_s = 3600;
    job.ended_s = 3610;
    job.stall_s = stall_s;
    job.down_s = 600;
    job.compute_s = 3000 - stall_s;
    run.jobs = {job};
    return run;
  };
  const std::vector<output::RunResult> runs{run_of("a", 1, 360, false), run_of("a", 2, 720, false),
                                            run_of("b", 1, 180, false), run_of("b", 2, 0, true)};
  const std::vector<sim::ReplayGroup> groups = sim::by_label(runs);
  REQUIRE(groups.size() == 2);
  const sim::ReplaySummary& sum = groups[0][0];
  CHECK(sum.gpu_h_lost == doctest::Approx(0.2));
  CHECK(sum.gpu_h ==
        doctest::Approx(2 * 3000 / 3600.));  // without the time in which it had no GPUs
  CHECK(sum.completion_s.mean == 3605);
  CHECK(sum.queueing_s.p99 == 5);
  CHECK(sum.fairness == doctest::Approx(1));
  const sim::Estimate change = sim::change_of(groups[0], groups[1], sim::headline());
  CHECK(change.count == 1);
  CHECK(change.mean == doctest::Approx(-0.1));
  CHECK(sim::change_text(groups[0], groups[1], sim::headline()) == "-50.0 %");
  CHECK(sim::estimate_of(groups[0], sim::headline()).mean == doctest::Approx(0.3));
}

TEST_CASE("quantiles are the least values that so large a share is not above") {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const sim::Distribution of = sim::distribution(values);
  CHECK(of.mean == 50.5);
  CHECK(of.p50 == 50);
  CHECK(of.p95 == 95);
  CHECK(of.p99 == 99);
  CHECK(sim::distribution({}).p99 == 0);
  CHECK(sim::distribution({7}).p50 == 7);
}

}  // namespace batchflow::test::replay_runs_test
