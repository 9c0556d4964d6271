// Requests per second of every registered eviction policy, through Share, on one core, with the
// trace in memory; and lru beside a bare list at 10^5 and 10^7 items.
//
// Two kinds of request: permuted epochs (nearly all miss: every request evicts) and Zipf (most
// hit). The cache holds a tenth of the items.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "policies/registry.h"
#include "tools/bench/eviction_replay.h"
#include "traces/generator.h"

namespace batchflow::bench {
namespace {

const traces::AccessTrace& trace_of(const std::string& spec) {
  static std::map<std::string, traces::AccessTrace> traces;
  const auto known = traces.find(spec);
  return known != traces.end()
             ? known->second
             : traces.emplace(spec, traces::generate_access_trace(spec)).first->second;
}

void report(benchmark::State& state, const traces::AccessTrace& trace, std::uint64_t misses) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(trace.requests()));
  state.counters["miss_ratio"] =
      static_cast<double>(misses) / static_cast<double>(trace.requests());
}

void run_policy(benchmark::State& state, const engine::PolicyEntry& entry,
                const std::string& spec) {
  const traces::AccessTrace& trace = trace_of(spec);
  const engine::PolicyChoice choice{&entry, Parameters(entry.parameters)};
  std::uint64_t misses = 0;
  for (auto _ : state) misses = misses_of(choice, trace);
  report(state, trace, misses);
}

// The least that an LRU can do: two links and a flag an item, no share and no virtual call.
std::uint64_t misses_of_bare_lru(const traces::AccessTrace& trace) {
  struct Node {
    std::uint32_t newer, older;
  };
  constexpr std::uint32_t kOut = UINT32_MAX;
  const std::size_t capacity = trace.distinct_items() / 10;
  std::vector<Node> nodes(trace.distinct_items() + 1, {kOut, kOut});
  nodes[0] = {0, 0};  // the ends of the list
  std::size_t residents = 0;
  std::uint64_t misses = 0;
  const auto take = [&](std::uint32_t i) {
    nodes[nodes[i].newer].older = nodes[i].older;
    nodes[nodes[i].older].newer = nodes[i].newer;
  };
  for (std::uint32_t item : trace.items) {
    const std::uint32_t i = item + 1;
    if (nodes[i].newer != kOut) {
      take(i);
    } else {
      ++misses;
      if (residents == capacity) {
        const std::uint32_t oldest = nodes[0].newer;
        take(oldest);
        nodes[oldest].newer = kOut;
      } else {
        ++residents;
      }
    }
    nodes[i] = {0, nodes[0].older};
    nodes[nodes[0].older].newer = i;
    nodes[0].older = i;
  }
  benchmark::DoNotOptimize(nodes.data());
  return misses;
}

void run_bare_lru(benchmark::State& state, const std::string& spec) {
  const traces::AccessTrace& trace = trace_of(spec);
  std::uint64_t misses = 0;
  for (auto _ : state) misses = misses_of_bare_lru(trace);
  report(state, trace, misses);
}

// In turn, so that a machine that is slow for a while is slow for both. Reports the rate as a share
// of the bare list's: the middle, the least and the most.
void run_beside_bare_lru(benchmark::State& state, const engine::PolicyEntry& entry,
                         const std::string& spec) {
  constexpr int kTurns = 7;
  const traces::AccessTrace& trace = trace_of(spec);
  const engine::PolicyChoice choice{&entry, Parameters(entry.parameters)};
  std::vector<double> ratios;
  const auto seconds = [](const auto& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (auto _ : state) {
    for (int turn = 0; turn < kTurns; ++turn) {
      std::uint64_t misses = 0;
      const double bare = seconds([&] { misses = misses_of_bare_lru(trace); });
      const double through_share = seconds([&] { misses -= misses_of(choice, trace); });
      if (misses != 0) state.SkipWithError("the two do not agree");
      ratios.push_back(bare / through_share);
    }
  }
  std::sort(ratios.begin(), ratios.end());
  state.counters["of_bare"] = ratios[ratios.size() / 2];
  state.counters["least"] = ratios.front();
  state.counters["most"] = ratios.back();
}

void add_all() {
  const std::pair<const char*, const char*> traces[] = {
      {"perm_1e5", "gen:perm,n=100000,epochs=20"},
      {"zipf_1e5", "gen:zipf,n=100000,requests=2000000"}};
  const auto add = [](const std::string& name, auto body) {
    benchmark::RegisterBenchmark(name.c_str(), body)->Unit(benchmark::kMillisecond);
  };
  for (const auto& [name, spec] : traces) {
    for (const engine::PolicyEntry* entry :
         policies::policy_list().of_kind(engine::PolicyKind::eviction)) {
      add(fmt::format("eviction/{}/{}", name, entry->name),
          [entry, text = std::string(spec)](benchmark::State& s) { run_policy(s, *entry, text); });
    }
    add(fmt::format("eviction/{}/bare_lru", name),
        [text = std::string(spec)](benchmark::State& s) { run_bare_lru(s, text); });
  }
  for (const engine::PolicyEntry* entry :
       policies::policy_list().of_kind(engine::PolicyKind::eviction)) {
    if (entry->name != "lru") continue;
    benchmark::RegisterBenchmark("eviction/perm_1e7/lru_beside_bare",
                                 [entry](benchmark::State& s) {
                                   run_beside_bare_lru(s, *entry, "gen:perm,n=10000000,epochs=2");
                                 })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  }
}

const bool added = (add_all(), true);

}  // namespace
}  // namespace batchflow::bench
