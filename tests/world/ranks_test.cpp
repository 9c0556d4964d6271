// Sanity checks of data-parallel jobs and of several nodes.
#include "tests/world/harness.h"

namespace batchflow::test::ranks_test {

namespace {

std::string cluster(const std::string& nodes, const std::string& store = "{}") {
  return fmt::format(
      "cluster:\n  nodes: [{}]\n  store: {}\n"
      "datasets: [{{name: data, samples: 4000, bytes: 1000}}]\n"
      "pipelines: [{{name: train, steps: []}}]\n",
      nodes, store);
}

}  // namespace

TEST_CASE("check 19, a step takes as long as its slowest rank") {
  // Steps of 130 ms on GPUs of speed 1.3 and one of 1: 100 ms and 130 ms. 100 steps of 4 ranks.
  const std::string text =
      cluster("{name: fast, gpus: 3, gpu_speed: 1.3, memory: 1gb}, {name: slow, memory: 1gb}") +
      "jobs: [{dataset: data, pipeline: train, ranks: 4, batch: 10, step: 130ms}]\n";
  const output::RunResult run = simulate_text(text);
  CHECK(run.makespan_s == exactly(13));
  // 9 of 52 GPU-seconds idle: 17.3 %.
  CHECK(run.jobs[0].idle_s * 4 == exactly(9));
  CHECK(run.jobs[0].compute_s * 4 == exactly(43));
  CHECK(run.jobs[0].stall_s == exactly(0));
}

TEST_CASE("check 19, with exponential steps of mean 1 a step of g ranks takes H_g") {
  for (const auto& [ranks, expected] : {std::pair{4, 2.083}, {8, 2.718}, {16, 3.381}}) {
    CAPTURE(ranks);
    const std::string text = fmt::format(
        "{}jobs: [{{dataset: data, pipeline: train, ranks: {}, batch: 1, step: 1s, "
        "step_shape: exponential, epochs: {}}}]\n",
        cluster("{name: node, gpus: 16, memory: 1gb}"), ranks, ranks);
    const output::RunResult run = simulate_text(text);
    const double steps = static_cast<double>(run.jobs[0].batches) / ranks;
    REQUIRE(steps == 4000);
    // The standard deviation of a step is at most 1.28, so of the mean 0.02.
    CHECK(run.makespan_s / steps == doctest::Approx(expected).epsilon(0.03));
  }
}

TEST_CASE("the tail of read latencies: each step waits for the slowest of its ranks' reads") {
  // A read a rank and step, exponential with a mean of 1 s, nothing ahead: H_g s a step.
  for (const auto& [ranks, expected] : {std::pair{1, 1.0}, {4, 2.083}, {8, 2.718}}) {
    CAPTURE(ranks);
    const std::string text = fmt::format(
        "{}jobs: [{{dataset: data, pipeline: train, ranks: {}, batch: 1, step: 1ms, credits: 1}}]\n"
        "grain: {{items_per_block: 1}}\n"
        "engine: {{policies: {{allocation: 'equal:forms=prepared', scaling: 'static:depth=0'}}}}\n",
        cluster("{name: node, cores: 16, gpus: 16, memory: 1gb}",
                "{latency: 1s, latency_shape: exponential}"),
        ranks);
    const output::RunResult run = simulate_text(text);
    const double steps = static_cast<double>(run.jobs[0].batches) / ranks;
    // 500 to 4000 steps; the standard deviation of a step is at most 1.28.
    CHECK(run.makespan_s / steps == doctest::Approx(expected + 0.001).epsilon(0.06));
  }
}

TEST_CASE("ranks of one job share its epoch evenly, tails included") {
  const std::string text =
      cluster("{name: node, gpus: 3, memory: 1gb}") +
      "jobs: [{dataset: data, pipeline: train, ranks: 3, batch: 64, step: 10ms}]\n";
  // 4000 = 20 steps of 192 and a tail of 160, of which the ranks get 54, 53 and 53, and 2 fillers.
  const output::RunResult run = simulate_text(text);
  CHECK(run.jobs[0].batches == 3 * 21);
  CHECK(run.jobs[0].samples == 4000);
  CHECK(run.jobs[0].fillers == 2);
}

TEST_CASE("without BatchFlow each rank has its own workers, and room for what they make ahead") {
  // Two nodes of two ranks; a batch is a block of 8 samples, and takes a core 1 s; 125 steps.
  const std::string text =
      cluster("{name: node, count: 2, cores: 16, gpus: 2, memory: 1gb, cache: 1mb}") +
      "jobs: [{dataset: data, pipeline: train, ranks: 4, batch: 8, step: 250ms}]\n"
      "grain: {items_per_block: 8}\n";
  const auto run = [&](const std::string& more) {
    return simulate_text(text, {"pipelines.0.steps=[{name: work, random: true, cost: 125ms}]",
                                "engine.preset=independent", more});
  };
  // Four workers a rank feed its GPU: it waits for the first batch alone.
  CHECK(run("engine.workers_per_rank=4").makespan_s == exactly(1 + 125 * 0.25));
  CHECK(run("engine.workers_per_rank=1").makespan_s == exactly(125 + 0.25));
  // Nothing ahead of need, but all ranks at once: each step waits for its batch.
  CHECK(run("engine.policies.scaling='static:depth=0'").makespan_s <= 125 * 1.25 + 1e-6);
}

TEST_CASE("where nodes share nothing, each keeps what it reads itself") {
  const std::string text =
      cluster("{name: node, count: 2, gpus: 1, memory: 100mb}") +
      "jobs: [{dataset: data, pipeline: train, ranks: 2, batch: 8, step: 10ms, epochs: 2}]\n"
      "grain: {items_per_block: 8}\n";
  CHECK(simulate_text(text).aggregate.samples_read == 4000);
  const output::RunResult alone =
      simulate_text(text, {"engine.preset=independent", "engine.credits=1"});
  CHECK(alone.aggregate.network_bytes == 0);
  // In the second epoch about half of a node's samples were on the other node before.
  CHECK(alone.aggregate.samples_read > 5500);
  CHECK(alone.aggregate.samples_read < 6500);
}

TEST_CASE("a job asks for its first batch when it has started up") {
  const std::string text =
      cluster("{name: node, gpus: 2, memory: 1gb}") +
      "jobs: [{dataset: data, pipeline: train, ranks: 2, batch: 10, step: 10ms, start_up: 3s}]\n";
  const output::RunResult run = simulate_text(text);
  CHECK(run.makespan_s == exactly(3 + 200 * 0.01));
  CHECK(run.jobs[0].idle_s == exactly(3));
}

TEST_CASE("a batch crosses PCIe at its bandwidth, shared by the GPUs of a node") {
  // Two ranks, batches of 10 samples of 1000 bytes, 10 kB/s for both: 2 s a step, and 1 ms.
  const std::string text =
      cluster("{name: node, gpus: 2, memory: 1gb, pcie_bytes_per_s: 10kb}") +
      "jobs: [{dataset: data, pipeline: train, ranks: 2, batch: 10, step: 1ms, credits: 1}]\n";
  const output::RunResult run = simulate_text(text);
  CHECK(run.aggregate.pcie_bytes == 4'000'000);
  CHECK(run.makespan_s == doctest::Approx(200 * 2.001).epsilon(1e-6));
}

TEST_CASE("case 2f, two nodes that cache half each: nothing from the store after the first epoch") {
  const std::string text =
      "cluster:\n"
      "  nodes: [{name: node, count: 2, cores: 2, gpus: 1, memory: 12mb, nic_bytes_per_s: 100mb}]\n"
      "datasets: [{name: data, samples: 4000, bytes: 4096}]\n"
      "pipelines: [{name: train, steps: [{name: work, random: true, output: 10}]}]\n"
      "jobs: [{dataset: data, pipeline: train, ranks: 2, batch: 16, step: 10ms, epochs: 4}]\n"
      "grain: {items_per_block: 16}\n"
      "engine: {policies: {allocation: 'proportional:forms=encoded'}}\n";
  const output::RunResult run = simulate_text(text);
  // 16.4 MB in 2 x 12 MB: each sample is read from the store once, and after that half of the
  // samples come from the other node.
  CHECK(run.aggregate.samples_read == 4000);
  const double peer_bytes = static_cast<double>(run.aggregate.network_bytes) - 4000 * 4096;
  CHECK(peer_bytes >= 3 * 4000 * 4096 * 0.45);
  CHECK(peer_bytes <= 4 * 4000 * 4096 * 0.55);
}

TEST_CASE("the network limits what comes from the store: bytes / bandwidth at least") {
  // 4000 samples of 1000 bytes over a link of 400 kB/s: 10 s, however quick store and NIC are.
  const std::string nodes =
      "{name: node, memory: 1gb, nic_bytes_per_s: 1gb, link: rack}]\n"
      "  links: [{name: rack, bytes_per_s: 400kb, latency: 1us, up: spine}, {name: spine}";
  const output::RunResult run =
      simulate_text(cluster(nodes) +
                    "jobs: [{dataset: data, pipeline: train, batch: 8, step: 1ms, order: strict}]\n"
                    "grain: {items_per_block: 8}\n");
  CHECK(run.aggregate.network_bytes == 4'000'000);
  CHECK(run.makespan_s >= 10);
  CHECK(run.makespan_s <= 10.02);
}

TEST_CASE("case 10, AU of storage-bound jobs is bandwidth over need") {
  // Eight jobs that need 105.4 MB/s each (400 samples of 114,660 B in 435 ms) on 500 MB/s: .593.
  // The batches fetched ahead when the first step ends are worth some 16 of 500 steps.
  const std::string text =
      "cluster:\n  nodes: [{name: node, cores: 32, gpus: 8, memory: 16gb}]\n"
      "  store: {bytes_per_s: 500mb}\n"
      "datasets: [{name: data, samples: 200000, bytes: 114660}]\n"
      "pipelines: [{name: train, steps: []}]\n"
      "jobs: [{dataset: data, pipeline: train, count: 8, batch: 400, step: 435ms}]\n"
      "engine: {preset: independent, policies: {allocation: 'equal:forms=prepared'}}\n"
      "grain: {samples_per_item: 100}\n";
  const output::RunResult run = simulate_text(text);
  CHECK(run.aggregate.au == doctest::Approx(500 / (8 * 105.4)).epsilon(0.03));
}

}  // namespace batchflow::test::ranks_test
