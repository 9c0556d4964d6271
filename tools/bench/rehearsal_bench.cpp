// What rehearsal costs: a draw from a buffer, and the decision whether a sample comes in. The
// second argument of draws is 1 where exemplars have weights.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/engine/buffers.h"
#include "core/order/rehearsal.h"
#include "policies/registry.h"

namespace batchflow::bench {

namespace {

void BM_RehearsalDraws(benchmark::State& state) {
  constexpr std::uint64_t kBlock = 256;
  std::vector<SampleId> samples;
  std::vector<std::uint32_t> weights;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    samples.emplace_back(static_cast<std::uint64_t>(i) * 17);
    if (state.range(1) != 0) weights.push_back(static_cast<std::uint32_t>(1 + i % 1000));
  }
  const order::Rehearsal rehearsal(order::Exemplars::make(samples, weights), {1, 2}, 3);
  order::PermutationCache permutations;
  std::vector<order::Draw> draws(kBlock);
  std::uint64_t at = 0;
  for (auto _ : state) {
    rehearsal.fill(at, draws, permutations);
    benchmark::DoNotOptimize(draws.data());
    at += kBlock;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kBlock));
}
BENCHMARK(BM_RehearsalDraws)->Args({200, 0})->Args({65536, 0})->Args({200, 1})->Args({65536, 1});

// A step of 256 samples of a large dataset after the other, of 100 classes.
void BM_RehearsalShow(benchmark::State& state, const std::string& policy) {
  constexpr std::uint64_t kSamples = 1'000'000, kStep = 256;
  engine::Catalogue::Parts parts;
  parts.name = "d";
  parts.version = 7;
  parts.samples = kSamples;
  parts.uniform_bytes = 100;
  parts.classes = 100;
  for (std::uint64_t i = 0; i < kSamples; ++i)
    parts.labels.push_back(static_cast<std::uint32_t>(i % 100));
  std::string problem;
  const auto catalogue = engine::Catalogue::from(std::move(parts), problem);
  BF_CHECK_MSG(catalogue.has_value(), problem.c_str());
  engine::Buffer buffer({1, 7}, static_cast<std::uint32_t>(state.range(0)), policy,
                        policies::policy_list());
  std::vector<SampleId> samples(kStep);
  std::vector<engine::KeptExemplar> kept;
  std::uint64_t at = 0;
  for (auto _ : state) {
    for (SampleId& sample : samples) sample = SampleId(at++ * 7919 % kSamples);
    kept.clear();
    buffer.show(*catalogue, samples, kept);
    benchmark::DoNotOptimize(kept.data());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kStep));
}

const bool kRegistered = [] {
  for (const engine::PolicyEntry* entry :
       policies::policy_list().of_kind(engine::PolicyKind::rehearsal)) {
    const std::string name(entry->name);
    benchmark::RegisterBenchmark(("BM_RehearsalShow/" + name).c_str(),
                                 [name](benchmark::State& state) { BM_RehearsalShow(state, name); })
        ->Arg(2000)
        ->Arg(65536);
  }
  return true;
}();

}  // namespace
}  // namespace batchflow::bench
