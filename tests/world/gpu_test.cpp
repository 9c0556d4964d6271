// What GPUs keep, and how bytes come to them: times and bytes worked out by hand.
#include "tests/config_error.h"
#include "tests/world/harness.h"

namespace batchflow::test::gpu_test {

namespace {

// Eight samples that take 4 MB decoded, a second each to decode, in blocks of one; memory is too
// small for any of them.
Small decoded(const std::string& gpus, int epochs) {
  Small small;
  small.samples = 8;
  small.node = "cores: 1, memory: 100kb, " + gpus;
  small.steps = "[{name: decode, cost: 1s, output: 4mb}, {name: crop, random: true, output: 100}]";
  small.jobs = {fmt::format("batch: 1, step: 1ms, order: sequential, epochs: {}", epochs)};
  small.more =
      "grain: {items_per_block: 1}\n"
      "engine: {policies: {allocation: 'proportional:forms=decoded', eviction: {gpu: minio}}}\n";
  return small;
}

}  // namespace

TEST_CASE("what GPUs keep is decoded once, and crosses PCIe when it is kept and when it is read") {
  // Two samples on each of two GPUs. The others are read and decoded in each epoch.
  const output::RunResult run =
      simulate_small(decoded("gpus: 2, gpu: {cache: 8mb, pcie_bytes_per_s: 1gb}", 3));
  CHECK(run.cluster.gpu_cache_bytes == 16'000'000);
  CHECK(run.aggregate.gpu_written_bytes == 4 * 4'000'000);
  CHECK(run.aggregate.gpu_read_bytes == 2 * 4 * 4'000'000);
  CHECK(run.aggregate.pcie_bytes == 3 * 4 * 4'000'000 + 3 * 8 * 100);
  CHECK(run.aggregate.samples_read == 8 + 2 * 4);
  CHECK(run.series.back().cached.decoded_gpu == 4 * 4'000'000);
  CHECK(run.series.back().cached.decoded_dram == 0);
  // The only core decodes for 8 + 4 + 4 s; what a GPU has is copied meanwhile.
  CHECK(run.makespan_s == doctest::Approx(16).epsilon(0.002));
  // 0 is no cache.
  const output::RunResult without = simulate_small(decoded("gpus: 2, gpu: {cache: 0}", 3));
  CHECK(without.aggregate.gpu_written_bytes == 0);
  CHECK(without.aggregate.samples_read == 24);
}

TEST_CASE("samples are kept in memory before they are kept on GPUs") {
  Small small = decoded("gpus: 1, gpu: {cache: 8mb}", 2);
  small.node = "cores: 1, memory: 21mb, gpus: 1, gpu: {cache: 8mb}";
  const output::RunResult run = simulate_small(small);
  // Five in memory, two on the GPU, and one nowhere.
  CHECK(run.series.back().cached.decoded_dram == 5 * 4'000'000);
  CHECK(run.series.back().cached.decoded_gpu == 2 * 4'000'000);
  CHECK(run.aggregate.gpu_read_bytes == 2 * 4'000'000);
  CHECK(run.aggregate.samples_read == 8 + 1);
}

TEST_CASE("a batch crosses the link of its own GPU, at its bandwidth") {
  // Two ranks, batches of 10 samples of 1000 bytes, 10 kB/s for each: 1 s a step, and 1 ms.
  Small small;
  small.samples = 200;
  small.node = "gpus: 2, memory: 1gb, gpu: {pcie_bytes_per_s: 10kb}";
  small.jobs = {"ranks: 2, batch: 10, step: 1ms, credits: 1"};
  const output::RunResult run = simulate_small(small);
  CHECK(run.aggregate.pcie_bytes == 200'000);
  CHECK(run.makespan_s == doctest::Approx(10 * 1.001).epsilon(1e-6));
  // Two jobs of one rank have a GPU each, too.
  small.jobs = {"batch: 10, step: 1ms, credits: 1", "batch: 10, step: 1ms, credits: 1"};
  const output::RunResult two = simulate_small(small);
  CHECK(two.makespan_s == doctest::Approx(20 * 1.001).epsilon(1e-6));
  // What all GPUs have together limits as before.
  small.node = "gpus: 2, memory: 1gb, pcie_bytes_per_s: 10kb, gpu: {pcie_bytes_per_s: 10kb}";
  CHECK(simulate_small(small).makespan_s == doctest::Approx(20 * 2.001).epsilon(1e-6));
}

TEST_CASE("copies beyond the engines of a GPU wait their turn") {
  // Two batches of 10 kB are asked for at once. At 10 kB/s they end together after 2 s, or the
  // first after 1 s, if there is one engine.
  const auto first_batch_s = [](int engines) {
    Small small;
    small.samples = 20;
    small.node = fmt::format(
        "gpus: 1, memory: 1gb, gpu: {{pcie_bytes_per_s: 10kb, copy_engines: {}}}", engines);
    small.jobs = {"batch: 10, step: 1ms, credits: 2"};
    return simulate_small(small).jobs[0].first_batch_s;
  };
  CHECK(first_batch_s(1) == doctest::Approx(1).epsilon(1e-6));
  CHECK(first_batch_s(2) == doctest::Approx(2).epsilon(1e-6));
}

TEST_CASE("what a GPU keeps is not there for batches") {
  Small small;
  small.samples = 20;
  small.node = "gpus: 1, memory: 1gb, gpu_memory: 100kb, gpu: {cache: 50%}";
  small.jobs = {"batch: 10, step: 1ms, gpu_bytes: 40kb"};
  CHECK(simulate_small(small).jobs[0].state == "done");
  small.jobs = {"batch: 10, step: 1ms, gpu_bytes: 45kb"};
  CHECK(simulate_small(small).jobs[0].state == "refused");
}

TEST_CASE("what a scenario says of GPUs must make sense") {
  const auto problem = [](const std::string& node) {
    Small small;
    small.node = "memory: 1gb, " + node;
    small.jobs = {"batch: 1, step: 1ms"};
    return config_error([&] { scenario_of(small.yaml()); });
  };
  CHECK(problem("gpus: 0, gpu: {cache: 1mb}").find("the node has no GPU") != std::string::npos);
  CHECK(problem("gpus: 65, gpu: {cache: 1mb}").find("at most 64 GPUs") != std::string::npos);
  CHECK(problem("gpu: {cache: 10%}").find("write bytes, or gpu_memory") != std::string::npos);
  CHECK(problem("gpu_memory: 1mb, gpu: {cache: 2mb}").find("more than the 1000000 bytes") !=
        std::string::npos);
  CHECK(problem("gpu: {copy_engines: 0}").find("from 1 to 64") != std::string::npos);
  CHECK(problem("gpu: {chache: 1mb}").find("cache") != std::string::npos);
}

}  // namespace batchflow::test::gpu_test
