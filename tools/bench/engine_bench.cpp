// What a decision costs: deliveries and blocks a second, operations a decision, the longest step.
// ./dev bench core
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "core/engine.h"
#include "policies/registry.h"
#include "tools/bench/instant_backend.h"

namespace batchflow {
namespace {

constexpr DatasetId kDataset{1};
constexpr PipelineId kPipeline{1};
constexpr NodeId kNode{1};

struct World {
  World(std::uint64_t samples, std::uint32_t block_samples, std::uint32_t jobs, Bytes dram,
        std::uint32_t batch)
      : engine(config(block_samples), policy_list(), fill(catalogues, samples)),
        backend(engine, kDataset, 7, kPipeline, 9) {
    backend.node(kNode, 16, dram);
    for (std::uint32_t i = 0; i < jobs; ++i) {
      backend.join({JobId(i), Order::relaxed, batch}, kNode);
    }
  }

  static EngineConfig config(std::uint32_t block_samples) {
    EngineConfig config;
    config.block_bytes = Bytes{block_samples} * 1000;
    return config;
  }
  static const Catalogues& fill(Catalogues& catalogues, std::uint64_t samples) {
    catalogues.add(kDataset, Catalogue::uniform("bench", 7, samples, 1000));
    PipelineInfo pipeline;
    pipeline.hash = 9;
    pipeline.has_random = true;
    pipeline.prepared_bytes = 1000;
    catalogues.add(kPipeline, pipeline);
    return catalogues;
  }

  Catalogues catalogues;
  Engine engine;
  InstantBackend backend;
};

void deliveries(benchmark::State& state, std::uint32_t block) {
  const auto jobs = static_cast<std::uint32_t>(state.range(0));
  World world(1'000'000, block, jobs, Bytes{block} * 1000 * 4096, block);
  for (int i = 0; i < 200; ++i) world.backend.step();
  const std::uint64_t before = world.backend.deliveries();
  const EngineCounters start = world.engine.counters();
  for (auto _ : state) {
    if (!world.backend.step()) state.SkipWithError("the engine stopped");
  }
  const EngineCounters end = world.engine.counters();
  const auto count = static_cast<double>(world.backend.deliveries() - before);
  state.counters["deliveries/s"] = benchmark::Counter(count, benchmark::Counter::kIsRate);
  state.counters["preparations"] =
      static_cast<double>(end.preparations - start.preparations) / std::max(count, 1.0);
  state.counters["operations"] =
      static_cast<double>(end.operations - start.operations) / std::max(count, 1.0);
}

void BM_BlockOfOneSample(benchmark::State& state) { deliveries(state, 1); }
void BM_BlockOf256(benchmark::State& state) { deliveries(state, 256); }
BENCHMARK(BM_BlockOfOneSample)->Arg(1)->Arg(16)->Arg(256)->MinTime(1);
BENCHMARK(BM_BlockOf256)->Arg(1)->Arg(16)->Arg(256)->MinTime(1);

}  // namespace
}  // namespace batchflow
