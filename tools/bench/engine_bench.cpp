// Cost of a decision: deliveries and blocks a second, operations a decision, the longest step.
// ./dev bench core
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "policies/registry.h"
#include "tools/bench/instant_world.h"
#include "tools/bench/process_memory.h"
#include "tools/bench/stopwatch.h"

namespace batchflow::bench {
namespace {

// Blocks of so many items, each of so many samples of 1,000 bytes, out of a million samples.
void deliveries(benchmark::State& state, std::uint32_t block, std::uint32_t item = 1) {
  const auto jobs = static_cast<std::uint32_t>(state.range(0));
  World world(1'000'000 / item, block, jobs, Bytes{block} * item * 1000 * 4096, block,
              Bytes{item} * 1000);
  for (int i = 0; i < 200; ++i) world.backend.step();
  const std::uint64_t before = world.backend.deliveries();
  const engine::EngineCounters start = world.engine.counters();
  for (auto _ : state) {
    if (!world.backend.step()) state.SkipWithError("the engine stopped");
  }
  const engine::EngineCounters end = world.engine.counters();
  const auto count = static_cast<double>(world.backend.deliveries() - before);
  state.counters["deliveries/s"] = benchmark::Counter(count, benchmark::Counter::kIsRate);
  state.counters["preparations"] =
      static_cast<double>(end.preparations - start.preparations) / std::max(count, 1.0);
  state.counters["operations"] =
      static_cast<double>(end.operations - start.operations) / std::max(count, 1.0);
}

void BM_BlockOfOneSample(benchmark::State& state) {
  deliveries(state, 1);
}
void BM_BlockOf256(benchmark::State& state) {
  deliveries(state, 256);
}
// The usual grain of simulations: all 256 samples of an item are in one place.
void BM_BlockOf256InOneItem(benchmark::State& state) {
  deliveries(state, 1, 256);
}
BENCHMARK(BM_BlockOfOneSample)->Arg(1)->Arg(16)->Arg(256)->MinTime(1);
BENCHMARK(BM_BlockOf256InOneItem)->Arg(1)->Arg(16)->Arg(256)->MinTime(1);
BENCHMARK(BM_BlockOf256)->Arg(1)->Arg(16)->Arg(256)->MinTime(1);

// A function of its own, so that a profiler can count its instructions alone.
[[gnu::noinline]] void run_to_delivery(World& world, std::uint64_t last) {
  while (world.backend.deliveries() < last) world.backend.step();
}

// One job's second epoch in blocks of 256 of a million samples, of which so many percent have room:
// the same work in every run, so that instructions of two builds can be compared.
void BM_EpochInBlocksOf256(benchmark::State& state) {
  constexpr std::uint64_t kSamples = 1'000'000;
  constexpr std::uint64_t kBlocks = (kSamples + 255) / 256;
  const Bytes kept = kSamples * 4096 * static_cast<Bytes>(state.range(0)) / 100;
  World world(kSamples, 256, 1, kept + (Bytes{64} << 20), 256);
  while (world.backend.deliveries() < kBlocks) world.backend.step();
  const engine::EngineCounters start = world.engine.counters();
  for (auto _ : state) run_to_delivery(world, 2 * kBlocks);
  const engine::EngineCounters end = world.engine.counters();
  state.counters["blocks/s"] =
      benchmark::Counter(static_cast<double>(kBlocks), benchmark::Counter::kIsRate);
  state.counters["read"] =
      static_cast<double>(end.samples_read - start.samples_read) / static_cast<double>(kSamples);
}
BENCHMARK(BM_EpochInBlocksOf256)->Arg(0)->Arg(25)->Arg(75)->Arg(110)->Iterations(1);

// One job over a dataset that is cached whole, a sample a block: the cost must not depend on the
// number of cached samples.
void BM_CachedSamples(benchmark::State& state) {
  const auto samples = static_cast<std::uint64_t>(state.range(0));
  World world(samples, 1, 1, samples * 8192 + (1 << 20), 1);
  while (world.backend.deliveries() < samples) world.backend.step();
  const std::uint64_t before = world.backend.deliveries();
  const engine::EngineCounters start = world.engine.counters();
  // A whole epoch, so that as many deliveries share its switch as in a job.
  for (auto _ : state) {
    while (world.backend.deliveries() < before + samples) world.backend.step();
  }
  const engine::EngineCounters end = world.engine.counters();
  const auto count = static_cast<double>(world.backend.deliveries() - before);
  state.counters["deliveries/s"] = benchmark::Counter(count, benchmark::Counter::kIsRate);
  state.counters["operations"] = static_cast<double>(end.operations - start.operations) / count;
  state.counters["reads"] = static_cast<double>(end.reads - start.reads) / count;
}
BENCHMARK(BM_CachedSamples)->RangeMultiplier(10)->Range(10'000, 10'000'000)->Iterations(1);

// ---------------------------------------------------------------------------------- memory ----

// What the engine holds for a cached sample, without the eviction policy's own memory: at most 24
// bytes, and 8 for each sample of the dataset. Catalogues with sizes of their own count here.
void BM_MemoryOfCachedSamples(benchmark::State& state) {
  constexpr std::uint64_t kSamples = 4'000'000;
  for (auto _ : state) {
    const double start = resident_bytes();
    const Parameters none({});
    const engine::PolicyChoice minio =
        policies::policy_list().choose(engine::PolicyKind::eviction, "minio");
    auto policy = minio.make_eviction(kSamples, kSamples, Random(1));
    for (std::uint32_t i = 0; i < kSamples; ++i)
      policy->inserted({ItemId(i), 1, engine::kUnknownUse});
    const double with_policy = resident_bytes();
    World world(kSamples, 256, 1, kSamples * 8192 + (Bytes{64} << 20), 256);
    while (world.backend.deliveries() < kSamples / 256 + 1) world.backend.step();
    const double all = resident_bytes() - with_policy;
    state.counters["policy_bytes_a_sample"] = (with_policy - start) / kSamples;
    state.counters["engine_bytes_a_sample"] = (all - (with_policy - start)) / kSamples;
  }
}
BENCHMARK(BM_MemoryOfCachedSamples)->Iterations(1)->Unit(benchmark::kMillisecond);

// ------------------------------------------------------------------------- the longest step ----

constexpr int kRounds = 5;

// From the middle of one epoch to the middle of the third, in blocks of the size for images and of
// the size for small samples.
void BM_EpochSwitchOfTenMillion(benchmark::State& state) {
  const auto block = static_cast<std::uint32_t>(state.range(0));
  const std::uint64_t blocks = 10'000'000 / block + 1;
  Stopwatch watch;
  for (auto _ : state) {
    World world(10'000'000, block, 4, Bytes{block} * 1000 * 64, block);
    while (world.backend.deliveries() < 4 * blocks / 2) world.backend.step();
    watch.begin_round();
    while (world.backend.deliveries() < 4 * blocks * 5 / 2) watch.step(world.backend);
    state.counters["longest_step_us"] = watch.longest_us();
  }
}
BENCHMARK(BM_EpochSwitchOfTenMillion)
    ->Arg(256)
    ->Arg(4096)
    ->Iterations(kRounds)
    ->Unit(benchmark::kMillisecond);

// A new policy adopts a million cached samples while jobs go on.
void BM_PolicySwap(benchmark::State& state) {
  Stopwatch watch;
  for (auto _ : state) {
    World world(1'000'000, 1, 1, Bytes{1'000'000} * 8192 + (1 << 20), 1);
    while (world.backend.deliveries() < 1'000'000) world.backend.step();
    world.backend.add(engine::PolicyChanged{"eviction=sieve"});
    watch.begin_round();
    for (int i = 0; i < 2000; ++i) watch.step(world.backend);
    state.counters["longest_step_us"] = watch.longest_us();
  }
}
BENCHMARK(BM_PolicySwap)->Iterations(kRounds)->Unit(benchmark::kMillisecond);

// A million scores, in the slices in which events come, for a weighted job.
void BM_MillionScores(benchmark::State& state) {
  Stopwatch watch;
  for (auto _ : state) {
    World world(1'000'000, 256, 0, Bytes{256} * 1000 * 64, 256);
    world.backend.join({JobId(1), Order::weighted, 256}, kNode);
    std::vector<engine::Score> scores(1'000'000);
    for (std::uint32_t i = 0; i < scores.size(); ++i) {
      scores[i] = {SampleId(mix(i) % scores.size()), static_cast<float>(i % 97)};
    }
    // A new job's first steps touch memory for the first time, which the scores do not cause.
    while (world.backend.deliveries() < 1000) world.backend.step();
    watch.begin_round();
    for (std::size_t at = 0; at < scores.size(); at += engine::kScoresMost) {
      world.backend.add(engine::ScoresReported{
          JobId(1),
          std::span(scores).subspan(at, std::min(engine::kScoresMost, scores.size() - at))});
      watch.step(world.backend);
    }
    while (world.backend.deliveries() < 3907 * 3) {
      if (!watch.step(world.backend)) break;
    }
    state.counters["longest_step_us"] = watch.longest_us();
    state.counters["deliveries"] = static_cast<double>(world.backend.deliveries());
  }
}
BENCHMARK(BM_MillionScores)->Iterations(kRounds)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace batchflow::bench
