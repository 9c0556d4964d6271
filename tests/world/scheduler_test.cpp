// Which job gets GPUs when, worked out by hand: four GPUs, five jobs, data that costs nothing,
// steps of a minute.
#include "tests/world/harness.h"

namespace batchflow::test::scheduler_test {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

struct Wanted {
  const char* name;
  int ranks;
  int steps;  // minutes
  seconds arrives;
  minutes began;  // on record
};
constexpr Wanted kFive[] = {{"a", 1, 90, seconds(105), minutes(10)},
                            {"b", 3, 40, seconds(60), minutes(1)},
                            {"c", 3, 25, seconds(120), minutes(50)},
                            {"d", 1, 10, seconds(2250), minutes(45)},
                            {"e", 3, 15, seconds(2190), minutes(48)}};

input::Scenario five(const std::string& scheduler) {
  Small small;
  small.samples = 12;
  small.node = "cores: 8, gpus: 4, memory: 1gb";
  for (const Wanted& job : kFive) {
    small.jobs.push_back(fmt::format(
        "name: {}, batch: 1, ranks: {}, epochs: 100, drop_last: true, step: 1min, arrives: {}s",
        job.name, job.ranks, job.arrives.count()));
  }
  small.more = "grain: {items_per_block: 1}\nscheduler: " + scheduler + "\n";
  input::Scenario scenario = scenario_of(small.yaml());
  for (input::JobModel& job : scenario.jobs) {
    const auto* wanted = std::find_if(std::begin(kFive), std::end(kFive),
                                      [&](const Wanted& one) { return one.name == job.name; });
    job.steps = static_cast<std::uint64_t>(wanted->steps);
    if (scenario.scheduler == input::Scheduler::recorded) job.not_before = Instant(wanted->began);
  }
  return scenario;
}

// In minutes.
struct Times {
  double from;
  double to;
};

// Times exactly, of a to e; nothing is lost, nothing is trained on twice.
output::RunResult check_schedule(const std::string& scheduler, const std::vector<Times>& expected) {
  const input::Scenario scenario = five(scheduler);
  const output::RunResult run =
      output::decode_run(in_child([&] { return output::encode_run(sim::simulate(scenario, {})); }));
  check_conservation(scenario, run);
  REQUIRE(run.jobs.size() == std::size(kFive));
  for (const output::JobResult& job : run.jobs) {
    const auto index = static_cast<std::size_t>(job.name[0] - 'a');
    CAPTURE(job.name);
    CHECK(job.state == "done");
    CHECK(job.started_s == exactly(60 * expected[index].from));
    CHECK(job.ended_s == exactly(60 * expected[index].to));
    CHECK(job.stall_s == exactly(0));
    CHECK(job.samples == static_cast<std::uint64_t>(kFive[index].ranks * kFive[index].steps));
    CHECK(job.fillers == 0);
  }
  return run;
}

}  // namespace

TEST_CASE("fifo: no job passes an earlier one, although there is room for it") {
  check_schedule("fifo", {{1.75, 91.75}, {1, 41}, {41, 66}, {81, 91}, {66, 81}});
}

TEST_CASE("sjf: the job that computes least is next, and others fill what it leaves") {
  check_schedule("sjf", {{1.75, 91.75}, {1, 41}, {66, 91}, {41, 51}, {51, 66}});
}

TEST_CASE("recorded: no job begins before its recorded start, or before there are GPUs") {
  check_schedule("recorded", {{10, 100}, {1, 41}, {70, 95}, {45, 55}, {55, 70}});
}

TEST_CASE("las: a job that has had an hour of GPUs makes room at once, and goes on where it was") {
  // b has had an hour after 20 minutes, as c has: c and then e wait for that. e leaves too few GPUs
  // for them, and b, which waits longer, is the first to go on. a has its hour when no job with
  // less waits.
  const output::RunResult run =
      check_schedule("las", {{1.75, 91.75}, {1, 86}, {21, 91}, {56, 66}, {41, 56}});
  for (const output::JobResult& job : run.jobs) {
    const bool left = job.name == "b" || job.name == "c";
    CAPTURE(job.name);
    CHECK(job.preemptions == (left ? 1 : 0));
    CHECK(job.down_s == exactly(left ? 60 * 45 : 0));
    CHECK(job.compute_s == exactly(job.time_s - job.down_s));
    CHECK(job.lost_samples == 0);
  }
}

// A job is preempted in mid-step: a step that stands for many goes on where it was, any other is
// computed again, and what is computed twice counts as lost.
TEST_CASE("las: what is computed twice is lost, and no more than a step") {
  for (const bool streams : {false, true}) {
    CAPTURE(streams);
    Small small;
    small.samples = 12;
    small.node = "cores: 8, gpus: 4, memory: 1gb, nic_bytes_per_s: 100gb";
    small.store = "{bytes_per_s: 100gb}";
    small.steps = "[{name: decode, cost: 1us}]";
    small.jobs = {"name: long, batch: 1, ranks: 4, epochs: 100, drop_last: true, step: 20min",
                  "name: short, batch: 1, ranks: 4, epochs: 100, drop_last: true, step: 1min, "
                  "arrives: 1980s"};
    small.more = "grain: {items_per_block: 1}\nscheduler: las\n";
    input::Scenario scenario = scenario_of(small.yaml());
    scenario.jobs[0].steps = 3;
    scenario.jobs[1].steps = 5;
    if (streams) {
      for (input::PipelineModel& pipeline : scenario.pipelines) {
        pipeline.items_per_block = 4;
        pipeline.epochs_per_block = 1;
        pipeline.cores_most = 8;
      }
      for (input::JobModel& job : scenario.jobs) job.batch = 4;
      for (input::NodeModel& node : scenario.cluster.nodes) node.workers = 4;
    }
    const output::RunResult run = output::decode_run(
        in_child([&] { return output::encode_run(sim::simulate(scenario, {})); }));
    REQUIRE(run.jobs.size() == 2);
    const output::JobResult& job = run.jobs[0];
    // After 33 minutes it is 13 into its second step.
    CHECK(job.preemptions == 1);
    CHECK(job.down_s == exactly(60 * 5));
    CHECK(job.compute_s == exactly(60 * 60));
    CHECK(job.idle_s == doctest::Approx(streams ? 0 : 60 * 13).epsilon(1e-6));
    CHECK(job.ended_s == exactly(60 * (streams ? 65 : 78)));
  }
}

}  // namespace batchflow::test::scheduler_test
