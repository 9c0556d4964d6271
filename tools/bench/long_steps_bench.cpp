// The longest step in cases that were long once, each with a number that grows: the longest step
// must not grow with it. ./dev bench core --benchmark_filter=Step
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/order/position.h"
#include "policies/registry.h"
#include "tools/bench/instant_backend.h"
#include "tools/bench/process_memory.h"
#include "tools/bench/stopwatch.h"

namespace batchflow::bench {
namespace {

constexpr DatasetId kDataset{1};
constexpr PipelineId kPipeline{1};
constexpr NodeId kNode{1};
constexpr Place kMemory{kNode, Tier::dram, 0};
constexpr Digest kVersion = 7;
constexpr std::uint64_t kSeedGroup = hash(1, 5);  // of jobs with shuffle_seed 5
constexpr Bytes kGigabyte = 1'000'000'000;

struct Setting {
  std::uint64_t samples = 1'000'000;
  Bytes sample_bytes = 1000;
  std::uint32_t block_samples = 256;
  Bytes dram = kGigabyte;
  std::uint32_t workers = 16;
  const char* eviction = "minio";  // of samples
  const char* allocation = "encoded-first";
};

class World {
 public:
  explicit World(const Setting& setting)
      : engine(config(setting), policies::policy_list(), fill(setting)),
        backend(engine, kDataset, kVersion, kPipeline, 9) {
    backend.node(kNode, setting.workers, setting.dram);
  }

 private:
  static engine::EngineConfig config(const Setting& setting) {
    engine::EngineConfig config;
    config.block_bytes = setting.block_samples * setting.sample_bytes;
    config.policies.allocation = setting.allocation;
    config.policies.eviction[static_cast<std::size_t>(Form::encoded)] = setting.eviction;
    return config;
  }
  const engine::Catalogues& fill(const Setting& setting) {
    catalogues_.add(kDataset, engine::Catalogue::uniform("bench", kVersion, setting.samples,
                                                         setting.sample_bytes));
    engine::PipelineInfo pipeline;
    pipeline.hash = 9;
    pipeline.has_random = true;
    pipeline.prepared_bytes = setting.sample_bytes;
    catalogues_.add(kPipeline, pipeline);
    return catalogues_;
  }

  engine::Catalogues catalogues_;

 public:
  engine::Engine engine;
  InstantBackend backend;
};

void run(World& world, Stopwatch& watch, int steps) {
  for (int i = 0; i < steps; ++i) watch.step(world.backend);
}

void report(benchmark::State& state, const Stopwatch& watch) {
  state.counters["longest_step_us"] = watch.longest_us();
}

// Four jobs of eight ranks with samples that do not all fit; so many workers hold their
// ingredients. A fifth job comes, and the share of samples makes room for it.
void pinned_samples(benchmark::State& state, const char* eviction) {
  Stopwatch watch;
  const auto workers = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    World world({.dram = 5 * kGigabyte / 2, .workers = workers, .eviction = eviction});
    world.backend.prepare_for(workers);
    for (std::uint32_t i = 0; i < 4; ++i) {
      world.backend.join({JobId(i), Order::relaxed, 256, 8, 2, i + 1}, kNode);
    }
    while (world.backend.deliveries() < 4'000) world.backend.step();
    watch.begin_round();
    run(world, watch, 300);
    const std::vector<NodeId> ranks(8, kNode);
    const InstantBackend::Job late{JobId(4), Order::relaxed, 4096, 8, 2, 5};
    world.backend.add_join(late, ranks);
    run(world, watch, 1);
    world.backend.ask(late);
    run(world, watch, 1000);
    report(state, watch);
  }
}
void BM_StepPinnedMinIo(benchmark::State& state) {
  pinned_samples(state, "minio");
}
void BM_StepPinnedLru(benchmark::State& state) {
  pinned_samples(state, "lru");
}
void BM_StepPinnedMru(benchmark::State& state) {
  pinned_samples(state, "mru");
}
void BM_StepPinnedLfu(benchmark::State& state) {
  pinned_samples(state, "lfu");
}
void BM_StepPinnedBelady(benchmark::State& state) {
  pinned_samples(state, "belady");
}

// A relaxed job goes on in a generation of so many lanes of one block.
void BM_StepLanes(benchmark::State& state) {
  Stopwatch watch;
  const auto lanes = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    World world({.samples = lanes, .block_samples = 1});
    order::Position::Fields fields;
    fields.order = Order::relaxed;
    fields.dataset_version = kVersion;
    fields.samples = lanes;
    fields.seed = kSeedGroup;
    fields.consumed = 1;
    fields.lanes.generation = 1;
    fields.lanes.sizes = {lanes, 1, 1};
    fields.lanes.passes.assign(lanes, 0);
    fields.lanes.passes[0] = 1;
    fields.lanes.had = Bitmap(lanes);
    fields.lanes.had.set(0);
    std::string problem;
    const auto position = order::Position::from(fields, problem);
    state.counters["refused"] = position ? 0 : 1;
    if (!position) continue;
    watch.begin_round();
    const std::vector<NodeId> ranks(1, kNode);
    const InstantBackend::Job job{JobId(1), Order::relaxed, 1, 1, 2, 5, &*position};
    world.backend.add_join(job, ranks);
    run(world, watch, 1);
    world.backend.ask(job);
    run(world, watch, 100);
    state.counters["refused"] = static_cast<double>(world.backend.refusals());
    report(state, watch);
  }
}

// Blocks of so many draws.
void BM_StepWeightedBlock(benchmark::State& state) {
  Stopwatch watch;
  const auto block = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    World world({.block_samples = block, .dram = 8 * kGigabyte});
    watch.begin_round();
    world.backend.join({JobId(1), Order::weighted, block}, kNode);
    for (int i = 0; i < 100; ++i) world.backend.step();
    run(world, watch, 400);
    report(state, watch);
  }
}

// A rank's batch of so many draws.
void BM_StepWeightedBatch(benchmark::State& state) {
  Stopwatch watch;
  const auto batch = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    World world({.sample_bytes = 100, .block_samples = 4096});
    world.backend.join({JobId(1), Order::weighted, batch, 1, 1}, kNode);
    // The first epochs touch memory for the first time, which the batch does not cause.
    while (world.backend.deliveries() < 2'000'000 / batch) world.backend.step();
    watch.begin_round();
    const std::uint64_t before = world.backend.deliveries();
    while (world.backend.deliveries() < before + 2) watch.step(world.backend);
    state.counters["deliveries"] = static_cast<double>(world.backend.deliveries());
    report(state, watch);
  }
}

// A job joins a dataset of so many samples.
void BM_StepJoinOfLargeDataset(benchmark::State& state) {
  Stopwatch watch;
  const auto samples = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    World world({.samples = samples, .dram = 100 * kGigabyte});
    const double before = resident_bytes();
    watch.begin_round();
    const std::vector<NodeId> ranks(1, kNode);
    const InstantBackend::Job job{JobId(1), Order::relaxed, 256};
    world.backend.add_join(job, ranks);
    run(world, watch, 1);
    state.counters["MB"] = (resident_bytes() - before) / 1e6;
    report(state, watch);
  }
}

// The last job of a stream leaves a window of so many blocks.
void BM_StepWindowDropped(benchmark::State& state) {
  Stopwatch watch;
  const auto window = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    World world({.samples = 4 * window,
                 .block_samples = 1,
                 .dram = 2 * window * 1000,
                 .allocation = "equal"});
    const InstantBackend::Job job{JobId(1), Order::relaxed, 1};
    world.backend.join(job, kNode);
    while (world.backend.deliveries() < 2 * window) world.backend.step();
    const std::uint64_t before = world.backend.drops();
    watch.begin_round();
    world.backend.add(engine::JobLeft{job.id});
    run(world, watch, 1000);
    state.counters["drops"] = static_cast<double>(world.backend.drops() - before);
    report(state, watch);
  }
}

// So many strict jobs of one stream, each in an epoch of its own.
void BM_StepStrictEpochs(benchmark::State& state) {
  Stopwatch watch;
  const auto jobs = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    World world({.samples = 4096, .block_samples = 16, .dram = 4 * kGigabyte});
    std::vector<order::Position> positions;
    positions.reserve(jobs);
    watch.begin_round();
    const std::vector<NodeId> ranks(1, kNode);
    for (std::uint32_t i = 0; i < jobs; ++i) {
      positions.emplace_back(Order::strict, kVersion, 4096, kSeedGroup, i);
      const InstantBackend::Job job{JobId(i), Order::strict, 16, 1, 2, 5, &positions.back()};
      world.backend.add_join(job, ranks);
      run(world, watch, 1);
      world.backend.ask(job);
      run(world, watch, 1);
    }
    for (int i = 0; i < 3000; ++i) watch.step(world.backend);
    state.counters["deliveries"] = static_cast<double>(world.backend.deliveries());
    report(state, watch);
  }
}

// So many jobs join at once, each with a seed of its own.
void BM_StepSeedsAtOnce(benchmark::State& state) {
  Stopwatch watch;
  const auto seeds = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    World world({.samples = 65'536, .block_samples = 16, .dram = 4 * kGigabyte});
    watch.begin_round();
    const std::vector<NodeId> ranks(1, kNode);
    for (std::uint32_t i = 0; i < seeds; ++i) {
      world.backend.add_join({JobId(i), Order::relaxed, 64, 1, 2, i + 1}, ranks);
    }
    run(world, watch, 1);
    for (std::uint32_t i = 0; i < seeds; ++i) world.backend.ask({JobId(i)});
    run(world, watch, 3000);
    state.counters["deliveries"] = static_cast<double>(world.backend.deliveries());
    report(state, watch);
  }
}

// So many jobs, and then memory for a tenth of them.
void BM_StepLessMemory(benchmark::State& state) {
  Stopwatch watch;
  const auto jobs = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    World world({.samples = 100'000, .dram = jobs * Bytes{2'000'000}});
    for (std::uint32_t i = 0; i < jobs; ++i) {
      world.backend.join({JobId(i), Order::relaxed, 256, 1, 2, i % 100 + 1}, kNode);
    }
    for (int i = 0; i < 50; ++i) world.backend.step();
    watch.begin_round();
    world.backend.add(engine::CapacityChanged{kMemory, jobs * Bytes{60'000}});
    run(world, watch, 1000);
    state.counters["refused"] = static_cast<double>(world.backend.refusals());
    report(state, watch);
  }
}

// So many nodes have come and gone, each with a worker: the cost of the next one.
void BM_StepNodesThatWere(benchmark::State& state) {
  Stopwatch watch;
  const auto nodes = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    World world({.samples = 100'000});
    world.backend.join({JobId(1), Order::relaxed, 256}, kNode);
    const double before = resident_bytes();
    watch.begin_round();
    for (std::uint32_t i = 0; i < nodes; ++i) {
      const NodeId node(100 + i);
      world.backend.add(engine::NodeJoined{node, 1});
      world.backend.add(engine::CapacityChanged{{node, Tier::dram, 0}, kGigabyte});
      world.backend.add(engine::WorkerJoined{WorkerId(100 + i), node});
      const bool last = i + 10 >= nodes;
      last ? watch.step(world.backend) : world.backend.step();
      world.backend.add(engine::NodeLost{node});
      last ? watch.step(world.backend) : world.backend.step();
    }
    state.counters["bytes_a_node"] = (resident_bytes() - before) / nodes;
    report(state, watch);
  }
}

// So many streams of strict jobs, each over sixteen epochs of 65,536 samples.
void BM_StepStrictTables(benchmark::State& state) {
  Stopwatch watch;
  const auto streams = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    World world({.samples = 65'536, .block_samples = 4096, .dram = 8 * kGigabyte});
    const double before = resident_bytes();
    watch.begin_round();
    for (std::uint32_t i = 0; i < streams; ++i) {
      world.backend.join({JobId(i), Order::strict, 4096, 1, 2, i + 1}, kNode);
    }
    while (world.backend.deliveries() < std::uint64_t{16} * 16 * streams) {
      watch.step(world.backend);
    }
    state.counters["MB_a_stream"] = (resident_bytes() - before) / 1e6 / streams;
    report(state, watch);
  }
}

constexpr int kRounds = 2;

void grow(benchmark::internal::Benchmark* bench, std::int64_t most) {
  bench->Arg(most / 16)->Arg(most / 4)->Arg(most);
  bench->Iterations(kRounds)->Unit(benchmark::kMillisecond);
}

const bool kAdded = [] {
  const auto add = [](const char* name, benchmark::internal::Function* body, std::int64_t most) {
    grow(benchmark::RegisterBenchmark(name, body), most);
  };
  add("StepPinned/minio", BM_StepPinnedMinIo, 64);
  add("StepPinned/lru", BM_StepPinnedLru, 64);
  add("StepPinned/mru", BM_StepPinnedMru, 64);
  add("StepPinned/lfu", BM_StepPinnedLfu, 64);
  add("StepPinned/belady", BM_StepPinnedBelady, 64);
  add("StepLanes", BM_StepLanes, 4096);
  add("StepWeightedBlock", BM_StepWeightedBlock, 4096);
  add("StepWeightedBatch", BM_StepWeightedBatch, 1'000'000);
  add("StepJoinOfLargeDataset", BM_StepJoinOfLargeDataset, 1'000'000'000);
  add("StepWindowDropped", BM_StepWindowDropped, 48'000);
  add("StepStrictEpochs", BM_StepStrictEpochs, 1000);
  add("StepSeedsAtOnce", BM_StepSeedsAtOnce, 300);
  add("StepLessMemory", BM_StepLessMemory, 3000);
  add("StepNodesThatWere", BM_StepNodesThatWere, 16'000);
  add("StepStrictTables", BM_StepStrictTables, 64);
  return true;
}();

}  // namespace
}  // namespace batchflow::bench
