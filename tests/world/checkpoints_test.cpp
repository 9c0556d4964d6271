// Jobs that lose a node go back to their last checkpoint: what they train on again, and how long it
// takes, worked out by hand. The witness sees each sample exactly once an epoch in each life.
#include "tests/world/witness.h"

namespace batchflow::test::checkpoints_test {

namespace {

// One job of 40 steps of 100 ms, of one sample each, which are there at once.
std::string forty_steps(const std::string& job, const std::string& faults,
                        const std::string& store = "") {
  return fmt::format(
      "cluster: {{nodes: [{{name: node, gpus: 1, cores: 1, memory: 1gb}}], store: {{{}}}}}\n"
      "datasets: [{{name: data, samples: 40, compute_only: true}}]\n"
      "pipelines: [{{name: train, steps: []}}]\n"
      "jobs: [{{dataset: data, pipeline: train, batch: 1, step: 100ms, order: strict, {}}}]\n"
      "faults: [{}]\n",
      store, job, faults);
}

// The node is away for a second from then on.
std::string lost(const std::string& at, const std::string& node = "node") {
  return fmt::format("{{kind: node-lost, target: {}, at: {}, lasts: 1s}}", node, at);
}

output::RunResult watch(const std::string& yaml) {
  const input::Scenario scenario = scenario_of(yaml);
  const Watched watched = simulate_watched(scenario);
  CHECK(watched.violation == "");
  check_conservation(scenario, watched.run);
  std::uint64_t repeated = 0;
  for (const output::JobResult& job : watched.run.jobs) repeated += job.repeated_samples;
  CHECK(watched.run.aggregate.repeated_samples == repeated);
  return watched.run;
}

}  // namespace

TEST_CASE("a job that loses its node takes the steps since its last checkpoint again") {
  // 17 steps are done at 1.7 s, and the checkpoint is of 10. A checkpoint of no bytes takes no
  // time.
  output::RunResult run = watch(forty_steps("checkpoint: {every: 10}", lost("1750ms")));
  const output::JobResult& job = run.jobs[0];
  CHECK(job.state == "done");
  CHECK(job.restarts == 1);
  CHECK(job.samples == 40);
  CHECK(job.batches == 40);
  CHECK(job.repeated_samples == 7);
  CHECK(job.lost_samples == 0);
  CHECK(run.makespan_s == exactly(1.75 + 1 + 30 * 0.1));
  CHECK(job.compute_s == exactly(1.75 + 30 * 0.1));
  CHECK(job.down_s == exactly(1));
  CHECK(run.aggregate.samples == 40);
  CHECK(run.aggregate.store_restored_bytes == 0);
  // A job without checkpoints goes on from its last step.
  run = watch(forty_steps("", lost("1750ms")));
  CHECK(run.jobs[0].repeated_samples == 0);
  CHECK(run.makespan_s == exactly(1.75 + 1 + 23 * 0.1));
  // Its processes start anew.
  run = watch(forty_steps("checkpoint: {every: 10}, start_up: 300ms", lost("2050ms")));
  CHECK(run.jobs[0].repeated_samples == 7);
  CHECK(run.jobs[0].down_s == exactly(1.3));
  CHECK(run.makespan_s == exactly(2.05 + 1.3 + 30 * 0.1));
  // So many steps in all, which the witness does not know of.
  const input::Scenario steps =
      scenario_of(forty_steps("checkpoint: {every: 10}, steps: 25", lost("1750ms")));
  run = output::decode_run(in_child([&] { return output::encode_run(sim::simulate(steps, {})); }));
  CHECK(run.jobs[0].state == "done");
  CHECK(run.jobs[0].samples == 25);
  CHECK(run.jobs[0].repeated_samples == 7);
  CHECK(run.makespan_s == exactly(1.75 + 1 + 15 * 0.1));
}

TEST_CASE("a loss right after a checkpoint repeats nothing, and one before the first all") {
  output::RunResult run = watch(forty_steps("checkpoint: {every: 10}", lost("1050ms")));
  CHECK(run.jobs[0].repeated_samples == 0);
  CHECK(run.makespan_s == exactly(1.05 + 1 + 30 * 0.1));
  run = watch(forty_steps("checkpoint: {every: 10}", lost("750ms")));
  CHECK(run.jobs[0].repeated_samples == 7);
  CHECK(run.makespan_s == exactly(0.75 + 1 + 40 * 0.1));
  // Just when a checkpoint begins: it is not written yet. And just when a step ends.
  run = watch(forty_steps("checkpoint: {every: 10}", lost("1s")));
  CHECK(run.jobs[0].repeated_samples == 10);
  run = watch(forty_steps("checkpoint: {every: 10}", lost("1700ms")));
  CHECK(run.jobs[0].repeated_samples == 7);
  run = watch(forty_steps("checkpoint: {every: 10}", lost("50ms")));
  CHECK(run.jobs[0].repeated_samples == 0);
  CHECK(run.makespan_s == exactly(0.05 + 1 + 40 * 0.1));
}

TEST_CASE("a checkpoint is read back before the job goes on") {
  // 10 MB are written in 0.1 s, for which the job waits, and read in 0.2 s. Step 17 ends at 1.8 s.
  // Later come the checkpoints of 20 and 30, and that of 40, for which nothing waits.
  const std::string store = "bytes_per_s: 50mb, write_bytes_per_s: 100mb";
  const std::string job = "checkpoint: {every: 10, bytes: 10mb}";
  output::RunResult run = watch(forty_steps(job, lost("1850ms"), store));
  CHECK(run.jobs[0].repeated_samples == 7);
  CHECK(run.jobs[0].down_s == doctest::Approx(1.2).epsilon(1e-6));
  CHECK(run.jobs[0].idle_s == doctest::Approx(0.3).epsilon(1e-6));
  CHECK(run.makespan_s == doctest::Approx(1.85 + 1.2 + 30 * 0.1 + 0.2).epsilon(1e-6));
  CHECK(run.aggregate.store_written_bytes == 40'000'000);
  CHECK(run.aggregate.store_restored_bytes == 10'000'000);
  CHECK(run.aggregate.storage_bytes == 0);  // none of these are samples
  // Without one there is nothing to read.
  run = watch(forty_steps(job, lost("750ms"), store));
  CHECK(run.aggregate.store_restored_bytes == 0);
  CHECK(run.jobs[0].down_s == exactly(1));
  // The node is lost again while it is read, which begins anew.
  run = watch(forty_steps(job, lost("1850ms") + ", " + lost("2950ms"), store));
  CHECK(run.jobs[0].restarts == 2);
  CHECK(run.jobs[0].repeated_samples == 7);
  CHECK(run.jobs[0].down_s == doctest::Approx(1 + 0.1 + 1 + 0.2).epsilon(1e-6));
  CHECK(run.aggregate.store_restored_bytes == 20'000'000);
  CHECK(run.makespan_s == doctest::Approx(3.95 + 0.2 + 30 * 0.1 + 0.2).epsilon(1e-6));
}

TEST_CASE("a checkpoint that is not written as a whole does not count") {
  // The job does not wait while 10 MB are written at 10 MB/s: that of step 10 from 1 to 2 s, that
  // of step 20 from 2 to 3 s.
  const std::string store = "write_bytes_per_s: 10mb";
  const std::string job = "checkpoint: {every: 10, bytes: 10mb, waits: false}";
  output::RunResult run = watch(forty_steps(job, lost("1750ms"), store));
  CHECK(run.jobs[0].repeated_samples == 17);
  CHECK(run.makespan_s == exactly(1.75 + 1 + 40 * 0.1));
  CHECK(run.aggregate.store_restored_bytes == 0);
  run = watch(forty_steps(job, lost("2550ms"), store));
  CHECK(run.jobs[0].repeated_samples == 15);
  CHECK(run.makespan_s == doctest::Approx(2.55 + 1 + 30 * 0.1).epsilon(1e-6));
  CHECK(run.aggregate.store_restored_bytes == 10'000'000);
  run = watch(forty_steps(job, lost("3050ms"), store));
  CHECK(run.jobs[0].repeated_samples == 10);
  CHECK(run.makespan_s == doctest::Approx(3.05 + 1 + 20 * 0.1).epsilon(1e-6));
}

TEST_CASE("a job may go back again, to the same checkpoint or a later one") {
  // From 2.75 s on it takes steps 11 to 15 again, then 11 to 17.
  output::RunResult run =
      watch(forty_steps("checkpoint: {every: 10}", lost("1750ms") + ", " + lost("3300ms")));
  CHECK(run.jobs[0].restarts == 2);
  CHECK(run.jobs[0].repeated_samples == 5 + 7);
  CHECK(run.makespan_s == exactly(3.3 + 1 + 30 * 0.1));
  // Steps 11 to 17, and 21 to 25.
  run = watch(forty_steps("checkpoint: {every: 10}", lost("1750ms") + ", " + lost("4300ms")));
  CHECK(run.jobs[0].repeated_samples == 7 + 5);
  CHECK(run.makespan_s == exactly(4.3 + 1 + 20 * 0.1));
}

TEST_CASE("a job on several nodes goes back as a whole, and others go on") {
  // Ten samples a rank: 20 a step. Each node writes and reads 5 MB, together at 50 MB/s. Step 17
  // ends at 1.9 s.
  const output::RunResult run = watch(
      "cluster: {nodes: [{name: n, count: 3, gpus: 1, cores: 1, memory: 1gb}],\n"
      "          store: {bytes_per_s: 50mb}}\n"
      "datasets: [{name: data, samples: 800, compute_only: true}]\n"
      "pipelines: [{name: train, steps: []}]\n"
      "jobs: [{name: a, dataset: data, pipeline: train, batch: 10, ranks: 2, nodes: [n-0, n-1],\n"
      "        step: 100ms, checkpoint: {every: 10, bytes: 10mb}},\n"
      "       {name: b, dataset: data, pipeline: train, batch: 20, nodes: [n-2], step: 100ms}]\n"
      "faults: [" +
      lost("1950ms", "n-1") + "]\n");
  const output::JobResult& job = run.jobs[0];
  CHECK(job.repeated_samples == 7 * 20);
  CHECK(job.samples == 800);
  CHECK(job.batches == 80);
  CHECK(job.down_s == doctest::Approx(1.2).epsilon(1e-6));
  CHECK(job.time_s == doctest::Approx(1.95 + 1.2 + 30 * 0.1 + 2 * 0.2).epsilon(1e-6));
  CHECK(run.aggregate.store_restored_bytes == 10'000'000);
  CHECK(run.jobs[1].time_s == exactly(4));
  CHECK(run.jobs[1].repeated_samples == 0);
}

TEST_CASE("a job goes back over the end of an epoch, and its validation is not repeated") {
  // Epochs of 10 steps, each followed by 10 of 10 ms. Steps 11 and 12 end at 1.3 s; the job goes
  // back to step 7, and trains on five steps again.
  const auto yaml = [](const std::string& checkpoint, const std::string& at) {
    return "cluster: {nodes: [{name: node, gpus: 1, cores: 1, memory: 1gb}],\n"
           "          store: {write_bytes_per_s: 100mb}}\n"
           "datasets: [{name: data, samples: 10, compute_only: true}]\n"
           "pipelines: [{name: train, steps: []}]\n"
           "jobs: [{name: a, dataset: data, pipeline: train, batch: 1, step: 100ms, epochs: 3,\n"
           "        order: strict, checkpoint: " +
           checkpoint +
           ",\n        validation: {dataset: data, pipeline: train, batch: 1, step: 10ms}}]\n"
           "faults: [" +
           lost(at) + "]\n";
  };
  output::RunResult run = watch(yaml("{every: 7}", "1350ms"));
  REQUIRE(run.jobs.size() == 2);
  CHECK(run.jobs[0].repeated_samples == 5);
  CHECK(run.jobs[0].epochs == 3);
  CHECK(run.jobs[0].ended_s == exactly(1.35 + 1 + 23 * 0.1 + 0.1));
  CHECK(run.jobs[1].samples == 30);
  CHECK(run.makespan_s == exactly(4.85));
  // Lost while it validates and writes: the validation is finished first, and what was not written
  // as a whole holds nothing up.
  run = watch(yaml("{every: 10, bytes: 10mb}", "1055ms"));
  CHECK(run.jobs[0].repeated_samples == 10);
  CHECK(run.jobs[1].samples == 30);
  // The validation has 5 steps left; checkpoints and validations take 0.1 s at the same time.
  CHECK(run.jobs[0].ended_s == doctest::Approx(2.055 + 0.05 + 3 * 1 + 2 * 0.1).epsilon(1e-6));
}

TEST_CASE("a job is refused if its node stays away, checkpoint or not") {
  const output::RunResult run =
      watch(forty_steps("checkpoint: {every: 10}", "{kind: node-lost, target: node, at: 1750ms}") +
            "engine: {rank_timeout: 10s}\n");
  CHECK(run.jobs[0].state == "refused");
  CHECK(run.jobs[0].ended_s == exactly(11.75));
  CHECK(run.jobs[0].samples == 17);
  CHECK(run.jobs[0].repeated_samples == 0);  // none was trained on again
}

TEST_CASE("jobs of all orders go back, alone and beside others that share their blocks") {
  for (const std::string order :
       {"order: relaxed", "order: relaxed, node_local: true", "order: strict", "order: sequential",
        "order: relaxed, rehearsal: {samples: 2, exemplars: 20}"}) {
    for (const std::string preset : {"default", "independent"}) {
      CAPTURE(order);
      CAPTURE(preset);
      const output::RunResult run = watch(fmt::format(
          "cluster: {{nodes: [{{name: n, count: 3, gpus: 2, cores: 2, memory: 2mb}}],\n"
          "          store: {{bytes_per_s: 20mb}}}}\n"
          "datasets: [{{name: data, samples: 301, bytes: 10kb}}]\n"
          "pipelines: [{{name: train, steps: [{{name: crop, random: true, cost: 1ms}}]}}]\n"
          "jobs: [{{dataset: data, pipeline: train, batch: 8, ranks: 2, nodes: [n-0, n-1],\n"
          "         step: 20ms, epochs: 3, {}, checkpoint: {{every: 5, bytes: 200kb}}}},\n"
          "       {{dataset: data, pipeline: train, batch: 16, nodes: [n-2], step: 15ms,\n"
          "         epochs: 3, {}}}]\n"
          "grain: {{items_per_block: 16}}\nengine: {{preset: {}}}\n"
          "faults: [{{kind: node-lost, target: n-0, at: 333ms, lasts: 200ms}},\n"
          "         {{kind: node-lost, target: n-1, at: 1111ms, lasts: 100ms}}]\n",
          order, order, preset));
      CHECK(run.jobs[0].state == "done");
      CHECK(run.jobs[0].restarts == 2);
      CHECK(run.jobs[0].repeated_samples > 0);
      CHECK(run.jobs[1].state == "done");
      CHECK(run.jobs[1].repeated_samples == 0);
    }
  }
}

// The witness cannot name the samples of these.
TEST_CASE("a job goes back where samples are drawn by their scores, or chosen by a policy") {
  // A weighted job goes back to the beginning of the epoch, since the scores are lost.
  const std::string weighted = forty_steps(
      "checkpoint: {every: 10}, epochs: 2, order: weighted, importance: {spread: 2}", "");
  for (const bool second : {false, true}) {
    CAPTURE(second);
    std::string yaml = weighted;
    const std::string strict = "order: strict, ";
    yaml.replace(yaml.find(strict), strict.size(), "");
    const std::string none = "faults: []";
    const double at = second ? 5.75 : 1.75;
    yaml.replace(yaml.find(none), none.size(),
                 "faults: [" + lost(second ? "5750ms" : "1750ms") + "]");
    const output::RunResult run = simulate_text(yaml);
    CHECK(run.jobs[0].state == "done");
    CHECK(run.jobs[0].repeated_samples == 17);
    CHECK(run.makespan_s == doctest::Approx(at + 1 + (second ? 4 : 8)).epsilon(1e-6));
  }
  const output::RunResult run = simulate_text(
      "cluster: {nodes: [{name: node, gpus: 2, cores: 2, memory: 2mb}]}\n"
      "datasets: [{name: data, samples: 400, bytes: 10kb}]\n"
      "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]\n"
      "jobs: [{dataset: data, pipeline: train, batch: 10, step: 100ms, epochs: 2, count: 2,\n"
      "        checkpoint: {every: 10}}]\n"
      "engine: {preset: seneca}\n"
      "faults: [" +
      lost("5750ms") + "]\n");
  for (const output::JobResult& job : run.jobs) {
    CHECK(job.state == "done");
    CHECK(job.samples == 800);
    CHECK(job.repeated_samples > 0);
    CHECK(job.repeated_samples < 100);
  }
}

}  // namespace batchflow::test::checkpoints_test
