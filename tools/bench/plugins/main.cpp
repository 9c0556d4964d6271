// How fast policies of plugins decide, beside the same policies built in: in turn, in one run.
//
//   bench_plugins [--small]
//
// Prints millions of requests or decisions a second of each, and the ratio of the two: its median
// over the rounds, its least and its most.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "policies/conformance/random_views.h"
#include "policies/plugin/load.h"
#include "policies/registry.h"
#include "tools/bench/eviction_replay.h"
#include "tools/bench/process_cost.h"
#include "tools/bench/spread.h"
#include "traces/generator.h"

namespace batchflow::bench {
namespace {

struct Both {
  Both(const std::string& file, std::string_view text)
      : plugin(std::make_shared<const plugin::PluginFile>(std::string(BATCHFLOW_TEST_PLUGINS) +
                                                          "/" + file + ".so")),
        built_in(policies::policy_list().choose(text)),
        hosted{plugin.policies().at(0), Parameters(plugin.policies().at(0)->parameters)} {}
  plugin::Plugin plugin;
  engine::PolicyChoice built_in;
  engine::PolicyChoice hosted;
};

std::uint64_t decide(const engine::PolicyChoice& choice,
                     const std::vector<std::vector<engine::WorkCandidate>>& views, int asks) {
  const auto policy = choice.make<engine::MakeDispatch>(Random(1));
  std::uint64_t sum = 0;
  for (int i = 0; i < asks; ++i) {
    sum = hash(sum, policy->next(
                        {Instant(Duration(i)), views[static_cast<std::size_t>(i) % views.size()]}));
  }
  return sum;
}

double seconds_of(const std::function<std::uint64_t()>& work, std::uint64_t& answer) {
  const double begin = cpu_s();
  answer = work();
  return cpu_s() - begin;
}

// False: they decide differently.
bool compare(const std::string& name, double operations, int rounds,
             const std::function<std::uint64_t(bool hosted)>& work) {
  std::vector<double> ratios, hosted, built_in;
  for (int round = -1; round < rounds; ++round) {
    std::uint64_t a = 0, b = 0;
    // Each goes first in every second round.
    const bool hosted_first = round % 2 == 0;
    const double first = seconds_of([&] { return work(hosted_first); }, a);
    const double second = seconds_of([&] { return work(!hosted_first); }, b);
    if (a != b) {
      fmt::print("{}: the plugin decides otherwise\n", name);
      return false;
    }
    if (round < 0) continue;  // both are warm now
    hosted.push_back(operations / (hosted_first ? first : second) / 1e6);
    built_in.push_back(operations / (hosted_first ? second : first) / 1e6);
    ratios.push_back(hosted.back() / built_in.back());
  }
  const Spread ratio = spread_of(ratios);
  fmt::print("{:38} {:9.2f} {:9.2f}   {:.3f} ({:.3f} to {:.3f})\n", name,
             spread_of(built_in).middle, spread_of(hosted).middle, ratio.middle, ratio.least,
             ratio.most);
  return true;
}

int run(bool small) {
  const int rounds = small ? 1 : 15;
  bool same = true;
  fmt::print("{:38} {:>9} {:>9}   ratio (least to most)\n", "millions a second", "built in",
             "plugin");
  const std::string items = small ? "1000" : "100000";
  for (const std::string& spec :
       {"gen:perm,n=" + items + ",epochs=20", "gen:zipf,n=" + items + ",requests=" + items + "0"}) {
    const traces::AccessTrace trace = traces::generate_access_trace(spec);
    // The last by the C interface alone.
    for (const auto& [file, policy] :
         {std::pair("eviction_lru", "lru"), std::pair("eviction_s3fifo", "s3fifo"),
          std::pair("eviction_gdsf", "gdsf"), std::pair("in_c", "fifo")}) {
      const Both both(file, std::string("eviction=") + policy);
      same &= compare(fmt::format("eviction {} ({}), {}", policy, file, spec.substr(4, 4)),
                      static_cast<double>(trace.requests()), rounds, [&](bool hosted) {
                        return misses_of(hosted ? both.hosted : both.built_in, trace);
                      });
    }
  }
  Random random(1);
  for (const std::size_t candidates : {1u, 16u, 256u}) {
    std::vector<std::vector<engine::WorkCandidate>> views;
    for (int i = 0; i < 64; ++i) views.push_back(conformance::random_work(random, candidates));
    for (const char* policy : {"round-robin", "earliest-deadline"}) {
      std::string file = std::string("dispatch_") + policy;
      std::replace(file.begin(), file.end(), '-', '_');
      const Both both(file, std::string("dispatch=") + policy);
      const int asks = static_cast<int>((small ? 1000 : 2'000'000) / candidates);
      same &= compare(
          fmt::format("dispatch {}, {} candidates", policy, candidates), asks, rounds,
          [&](bool hosted) { return decide(hosted ? both.hosted : both.built_in, views, asks); });
    }
  }
  return same ? 0 : 1;
}

}  // namespace
}  // namespace batchflow::bench

int main(int argc, char** argv) {
  return batchflow::bench::run(argc > 1 && std::strcmp(argv[1], "--small") == 0);
}
