// Jobs that leave their GPUs when they lose a node, and go on elsewhere: when, and what they do
// again, worked out by hand. The witness sees each sample exactly once an epoch.
#include "tests/world/witness.h"

namespace batchflow::test::moving_test {

namespace {

// Jobs of 40 steps of 100 ms, of one sample each, which are there at once; nodes of one GPU.
std::string forty_steps(int nodes, const std::vector<std::string>& jobs,
                        const std::string& faults) {
  std::string text = fmt::format(
      "cluster: {{nodes: [{{name: n, count: {}, gpus: 1, cores: 1, memory: 1gb}}], store: {{}}}}\n"
      "datasets: [{{name: data, samples: 40, compute_only: true}}]\n"
      "pipelines: [{{name: train, steps: []}}]\nafter_loss: moves\nfaults: [{}]\njobs:\n",
      nodes, faults);
  for (const std::string& job : jobs) {
    text += fmt::format(
        "  - {{dataset: data, pipeline: train, batch: 1, step: 100ms, order: strict, {}}}\n", job);
  }
  return text;
}

std::string lost(const std::string& node, const std::string& at, const std::string& lasts) {
  return fmt::format("{{kind: node-lost, target: {}, at: {}, lasts: {}}}", node, at, lasts);
}

output::RunResult watch(const std::string& yaml) {
  const input::Scenario scenario = scenario_of(yaml);
  const Watched watched = simulate_watched(scenario);
  CHECK(watched.violation == "");
  CHECK(watched.run.protocol_errors == 0);
  check_conservation(scenario, watched.run);
  for (const output::JobResult& job : watched.run.jobs) CHECK(job.state == "done");
  return watched.run;
}

}  // namespace

TEST_CASE("a job that loses its node goes on at once on another, from its last step") {
  const output::RunResult run = watch(forty_steps(2, {"name: a"}, lost("n-0", "1750ms", "1h")));
  const output::JobResult& job = run.jobs[0];
  // 17 steps are done, and the half of the next one is done again.
  CHECK(run.makespan_s == exactly(1.75 + 23 * 0.1));
  CHECK(job.restarts == 1);
  CHECK(job.preemptions == 0);
  CHECK(job.samples == 40);
  CHECK(job.down_s == exactly(0));
  CHECK(job.compute_s == exactly(4));
  CHECK(job.idle_s == exactly(0.05));
}

TEST_CASE("a job for which there is no other node waits for its own, however long") {
  const output::RunResult run = watch(forty_steps(1, {"name: a"}, lost("n", "1750ms", "10h")));
  CHECK(run.makespan_s == exactly(1.75 + 36000 + 23 * 0.1));
  CHECK(run.jobs[0].down_s == exactly(36000));
  CHECK(run.jobs[0].restarts == 1);
}

TEST_CASE("a job that has lost a node gets GPUs before jobs that wait, and leaves those it has") {
  // a loses its node: b is done at 4 s, and a goes on before c.
  output::RunResult run =
      watch(forty_steps(2, {"name: a", "name: b", "name: c"}, lost("n-0", "1750ms", "1h")));
  CHECK(run.jobs[0].ended_s == exactly(4 + 23 * 0.1));
  CHECK(run.jobs[0].down_s == exactly(4 - 1.75));
  CHECK(run.jobs[1].ended_s == exactly(4));
  CHECK(run.jobs[2].started_s == exactly(4 + 23 * 0.1));
  // A job that loses one of its two nodes takes a third that was free, before jobs that wait.
  run = watch(forty_steps(3, {"name: a, ranks: 2, epochs: 2", "name: b, ranks: 2", "name: c"},
                          lost("n-0", "1750ms", "1h")));
  CHECK(run.jobs[0].down_s == exactly(0));
  CHECK(run.jobs[0].ended_s == exactly(1.75 + 23 * 0.1));
  CHECK(run.jobs[1].started_s == exactly(1.75 + 23 * 0.1));
}

TEST_CASE("no job gets GPUs of a node that is lost at the same instant") {
  const std::string both = lost("n-0", "1750ms", "1h") + ", " + lost("n-1", "1750ms", "1h");
  const output::RunResult run = watch(forty_steps(3, {"name: a"}, both));
  CHECK(run.makespan_s == exactly(1.75 + 23 * 0.1));
  CHECK(run.jobs[0].restarts == 1);
}

TEST_CASE("a job that moves goes back to its last checkpoint") {
  output::RunResult run =
      watch(forty_steps(2, {"name: a, checkpoint: {every: 10}"}, lost("n-0", "1750ms", "1h")));
  CHECK(run.jobs[0].repeated_samples == 7);
  CHECK(run.jobs[0].restarts == 1);
  CHECK(run.jobs[0].compute_s == exactly(1.75 + 30 * 0.1));
  CHECK(run.makespan_s == exactly(1.75 + 30 * 0.1));
  // Twice, and the second time it waits for a node.
  run = watch(forty_steps(2, {"name: a, checkpoint: {every: 10}"},
                          lost("n-0", "1750ms", "4s") + ", " + lost("n-1", "3300ms", "1h")));
  CHECK(run.jobs[0].restarts == 2);
  CHECK(run.jobs[0].repeated_samples == 7 + 5);
  CHECK(run.jobs[0].down_s == exactly(5.75 - 3.3));
  CHECK(run.makespan_s == exactly(5.75 + 20 * 0.1));
}

}  // namespace batchflow::test::moving_test
