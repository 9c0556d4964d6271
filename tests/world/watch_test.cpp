// The causes of ranks' waits: scenarios in which one resource alone is slow, worked out by hand.
#include <doctest/doctest.h>

#include "sim/world/residency.h"
#include "tests/world/harness.h"

namespace batchflow::test::watch_test {

namespace {

double sum(const output::Waits& waits) {
  return waits.storage_s + waits.drive_s + waits.network_s + waits.cores_s + waits.preparation_s +
         waits.delivery_s + waits.other_s;
}

// Ten blocks of sixteen samples, each a batch.
Small ten_blocks() {
  Small small;
  small.more = "grain: {items_per_block: 16}\n";
  small.samples = 160;
  small.jobs = {"batch: 16, step: 20ms"};
  return small;
}

void check_sums(const output::RunResult& run) {
  output::Waits all;
  for (const output::JobResult& job : run.jobs) {
    CHECK(sum(job.waited) == doctest::Approx(job.stall_s).epsilon(1e-9));
    all.other_s += sum(job.waited) * static_cast<double>(job.ranks);
  }
  CHECK(sum(run.series.back().waited) == doctest::Approx(all.other_s).epsilon(1e-9));
}

}  // namespace

TEST_CASE("a rank that waits for preparation") {
  Small small = ten_blocks();
  small.steps = "[{name: crop, random: true, cost: 10ms}]";  // 160 ms a block
  const output::RunResult run = simulate_small(small);
  // The first block; then each takes 160 ms, of which the GPU computes 20.
  CHECK(run.jobs[0].stall_s == exactly(0.160 + 9 * 0.140));
  CHECK(run.jobs[0].waited.preparation_s == exactly(0.160 + 9 * 0.140));
  CHECK(run.jobs[0].bottleneck == "preparation");
  check_sums(run);
}

TEST_CASE("a rank that waits for the store, or for the link to it") {
  Small small = ten_blocks();
  small.store = "{bytes_per_s: 100kb}";
  const output::RunResult store = simulate_small(small);
  CHECK(store.jobs[0].waited.storage_s == exactly(store.jobs[0].stall_s));
  CHECK(store.jobs[0].bottleneck == "storage");
  check_sums(store);
  small.store = "{bytes_per_s: 200kb, nic_bytes_per_s: 100kb}";
  const output::RunResult link = simulate_small(small);
  CHECK(link.jobs[0].waited.network_s == exactly(link.jobs[0].stall_s));
  CHECK(link.jobs[0].bottleneck == "network");
  CHECK(link.cluster.store_bytes_per_s == 100e3);
  check_sums(link);
}

TEST_CASE("a rank that waits for the copy to its GPU") {
  Small small = ten_blocks();
  small.node = "cores: 1, gpus: 1, memory: 1gb, pcie_bytes_per_s: 160kb";  // 100 ms a batch
  const output::RunResult run = simulate_small(small);
  CHECK(run.jobs[0].waited.delivery_s == exactly(run.jobs[0].stall_s));
  CHECK(run.jobs[0].bottleneck == "delivery");
  CHECK(run.jobs[0].stall_s > 0.5);
  check_sums(run);
}

TEST_CASE("a rank that waits for a worker that another job keeps busy") {
  Small small = ten_blocks();
  small.steps = "[{name: crop, random: true, cost: 10ms}]";
  small.jobs = {"batch: 16, step: 1ms, shuffle_seed: 1", "batch: 16, step: 1ms, shuffle_seed: 2"};
  const output::RunResult run = simulate_small(small);
  check_sums(run);
  for (const output::JobResult& job : run.jobs) CHECK(job.waited.other_s == exactly(0));
  // All twenty blocks go through one worker: while a block of one job is made, the other job waits
  // for it.
  CHECK(run.jobs[0].waited.cores_s + run.jobs[1].waited.cores_s > 1);
}

TEST_CASE("a job with busy GPUs is bounded by them, and a job with a slow rank by that rank") {
  Small small = ten_blocks();
  small.jobs = {"batch: 16, step: 1s", "batch: 16, step: 1s, step_jitter: 0.5, ranks: 5"};
  const output::RunResult run = simulate_small(small);
  CHECK(run.jobs[0].bottleneck == "gpu");
  CHECK(run.jobs[1].bottleneck == "ranks");
  check_sums(run);
}

TEST_CASE(
    "what is kept never exceeds what there is, and workers are no busier than they are many") {
  Small small = ten_blocks();
  small.samples = 1600;
  small.node = "cores: 2, gpus: 4, memory: 1gb, cache: 1500kb, nvme: {size: 400kb, cache: 100%}";
  small.steps = "[{name: decode, cost: 1ms, output: 2000}, {name: crop, random: true, cost: 1ms}]";
  small.jobs = {"batch: 16, step: 20ms, epochs: 4", "batch: 32, step: 9ms, epochs: 3, ranks: 2"};
  small.set = {"engine.policies.allocation=proportional"};
  const output::RunResult run = simulate_small(small);
  check_sums(run);
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < run.series.size(); ++i) {
    const output::SeriesPoint& point = run.series[i];
    const output::CachedBytes& cached = point.cached;
    const std::uint64_t memory = cached.encoded_dram + cached.decoded_dram + cached.prepared_dram;
    CHECK(memory <= run.cluster.cache_bytes);
    CHECK(cached.encoded_nvme + cached.decoded_nvme <= run.cluster.nvme_bytes);
    most = std::max(most, memory);
    CHECK(point.preparing <= point.workers);
    CHECK(point.stalling <= point.ranks);
    if (i == 0) continue;
    const double span_s = point.time_s - run.series[i - 1].time_s;
    CHECK(point.busy_s - run.series[i - 1].busy_s <= 2 * span_s * (1 + 1e-9));
  }
  CHECK(most > 700'000);
  CHECK(run.aggregate.cached_bytes_most >= most);
  CHECK(run.aggregate.cached_bytes_most <= run.cluster.cache_bytes + run.cluster.nvme_bytes);
  CHECK(run.series.back().busy_s == doctest::Approx(run.aggregate.preparation_s));
}

TEST_CASE("the most that was kept is exact, however short the moment") {
  // All hundred samples in their encoded form, the block that is wanted, and the block trained on
  // before it, which leaves when the next is sent.
  Small small;
  small.more = "grain: {items_per_block: 1}\n";
  small.steps = "[{name: crop, random: true, cost: 1ms, output: 300}]";
  small.jobs = {"batch: 1, step: 10ms, credits: 1, epochs: 2"};
  small.set = {"engine.policies.scaling=static:depth=0",
               "engine.policies.allocation=proportional:forms=encoded"};
  CHECK(simulate_small(small).aggregate.cached_bytes_most == 100 * 1000 + 2 * 300);
}

TEST_CASE("what is lost with a node is not kept, and what comes back counts anew") {
  world::Residency residency(2);
  const Place drive{NodeId(0), Tier::nvme, 0};
  residency.add(drive, Form::encoded, 500);
  residency.put(ShareId(1), SlotId(0), {NodeId(0), Tier::dram, 0}, 70);
  residency.put(ShareId(2), SlotId(0), {NodeId(1), Tier::dram, 0}, 9);
  CHECK(residency.most() == 579);
  residency.lose(NodeId(0));
  residency.drop(ShareId(1), SlotId(0));
  CHECK(residency.sum().encoded_nvme == 0);
  CHECK(residency.sum().prepared_dram == 9);
  residency.add(drive, Form::decoded, 570);
  CHECK(residency.most() == 579);
  residency.put(ShareId(2), SlotId(0), {NodeId(1), Tier::dram, 0}, 10);
  CHECK(residency.most() == 580);
}

}  // namespace batchflow::test::watch_test
