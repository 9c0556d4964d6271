// What it costs to draw from a mixture: from which source the next sample comes, and which one it
// is. The second argument says after how many draws the weights change.
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/order/mixed_epoch.h"

namespace batchflow::bench {

namespace {

order::Mixing mixing_of(std::uint64_t sources, std::uint64_t samples) {
  std::vector<SampleRange> ranges;
  std::vector<double> weights;
  for (std::uint64_t i = 0; i < sources; ++i) {
    ranges.push_back({SampleId(i * samples), samples});
    weights.push_back(1 / static_cast<double>(i + 1));
  }
  order::Mixing::Fields fields =
      order::Mixing::beginning(std::move(ranges), order::Mixture::parts_of(weights));
  fields.may_change = true;
  std::string problem;
  auto mixing = order::Mixing::from(std::move(fields), sources * samples, problem);
  BF_CHECK_MSG(mixing.has_value(), problem.c_str());
  return *std::move(mixing);
}

void BM_MixtureDraws(benchmark::State& state) {
  const auto sources = static_cast<std::uint64_t>(state.range(0));
  const auto change_every = static_cast<std::uint64_t>(state.range(1));
  constexpr std::uint64_t kBlock = 256;
  order::MixedEpoch epoch(mixing_of(sources, 1'000'000), {1, 2}, 0, std::uint64_t{1} << 40);
  std::vector<order::Draw> draws(kBlock);
  std::vector<std::uint64_t> parts(sources, order::Mixture::kWhole / sources);
  parts.front() += order::Mixture::kWhole % sources;
  std::uint64_t at = 0;
  for (auto _ : state) {
    if (change_every > 0 && at % change_every == 0) epoch.change({epoch.soonest(), parts});
    epoch.fill(at, draws);
    epoch.forget(at);
    benchmark::DoNotOptimize(draws.data());
    at += kBlock;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kBlock));
}
BENCHMARK(BM_MixtureDraws)->Args({3, 0})->Args({1000, 0})->Args({4096, 0})->Args({1000, 1 << 16});

// The bytes of a source in a position, which a state has and each commit advances.
void BM_MixturePosition(benchmark::State& state) {
  const auto sources = static_cast<std::uint64_t>(state.range(0));
  order::Mixing mixing = mixing_of(sources, 1'000'000);
  for (int i = 0; i < 1'000'000; ++i) mixing.take();
  std::vector<std::byte> bytes;
  for (auto _ : state) {
    bytes.clear();
    encode(mixing, bytes);
    benchmark::DoNotOptimize(bytes.data());
  }
  state.counters["bytes_a_source"] =
      static_cast<double>(bytes.size()) / static_cast<double>(sources);
}
BENCHMARK(BM_MixturePosition)->Arg(3)->Arg(1000);

}  // namespace

}  // namespace batchflow::bench
