// How fast policies of plugins decide, beside the same policies built in: in turn, in one run.
//
//   bench_plugins [--small]
//
// Prints millions of requests or decisions a second of each, and the ratio of the two: its median
// over the rounds, its least and its most. Then blocks of 256 samples a second of an engine, with
// the same policies built in and in a process of their own, and what a block costs more there.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "policies/conformance/random_views.h"
#include "policies/plugin/load.h"
#include "policies/registry.h"
#include "tools/bench/eviction_replay.h"
#include "tools/bench/instant_world.h"
#include "tools/bench/process_cost.h"
#include "tools/bench/spread.h"
#include "traces/generator.h"
#ifdef BATCHFLOW_APART
#include "policies/apart/described.h"
#include "runtime/child/policy_process.h"
#endif

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

#ifdef BATCHFLOW_APART

// A plugin that runs apart, under the name that it has in the list of policies.
class RunsApart final : public apart::Answering {
 public:
  explicit RunsApart(const std::string& file)
      : file_(std::string(BATCHFLOW_TEST_PLUGINS) + "/" + file + ".so"),
        process_(file_),
        description_(process_.begin()),
        described_(description_, *this) {
    // In the place of the built-in one, which has the same name.
    const engine::PolicyEntry& mine = *described_.policies()[0];
    std::vector<const engine::PolicyEntry*> entries{&mine};
    for (const engine::PolicyEntry* one : policies::policy_list().entries()) {
      if (one->kind() != mine.kind() || one->name != mine.name) entries.push_back(one);
    }
    list.emplace(entries);
  }
  std::uint32_t new_instance() override { return ++instances_; }
  void tell(std::span<const std::byte> call) override { process_.tell(call); }
  std::optional<std::span<const std::byte>> ask(std::span<const std::byte> call, bool) override {
    ++asked;
    const auto answer = process_.ask(call);
    if (!answer) throw std::runtime_error(process_.failure()->why);
    return answer;
  }
  void reject(std::string_view why) override { throw std::runtime_error(std::string(why)); }
  std::uint64_t asked = 0;
  std::optional<engine::PolicyList> list;

 private:
  plugin::PluginFile file_;
  child::PolicyProcess process_;
  std::vector<std::byte> description_;
  apart::Described described_;
  std::uint32_t instances_ = 0;
};

// Blocks a second by the clock: a process of its own has a processor of its own.
double blocks_per_s(const engine::PolicyTexts& policies, const engine::PolicyList& list,
                    std::uint64_t blocks) {
  World world(100'000, 256, 4, Bytes{60} << 20, 256, 1000, policies, list);
  const auto run_to = [&](std::uint64_t deliveries) {
    while (world.backend.deliveries() < deliveries) {
      if (!world.backend.step()) throw std::runtime_error("the engine stopped");
    }
  };
  run_to(blocks / 4);
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t before = world.backend.deliveries();
  run_to(before + blocks);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(world.backend.deliveries() - before) / took.count();
}

void compare_apart(bool small) {
  const std::uint64_t blocks = small ? 4000 : 40'000;
  const int rounds = small ? 1 : 9;
  fmt::print("\n{:38} {:>9} {:>9}   ratio (least to most)   us more a block, questions a block\n",
             "blocks of 256 a second", "built in", "apart");
  for (const auto& [file, kind, name] :
       {std::tuple("eviction_lru", "eviction.encoded", "lru"),
        std::tuple("eviction_s3fifo", "eviction.encoded", "s3fifo"),
        std::tuple("eviction_gdsf", "eviction.encoded", "gdsf"),
        std::tuple("dispatch_earliest_deadline", "dispatch", "earliest-deadline")}) {
    engine::PolicyTexts policies = engine::EngineConfig().policies;
    engine::set_policy(policies, kind, name);
    RunsApart runs(file);
    std::vector<double> ratios, more, of_built_in, of_apart;
    for (int round = 0; round < rounds; ++round) {
      const bool apart_first = round % 2 == 0;
      const auto measured = [&](bool apart) {
        return blocks_per_s(policies, apart ? *runs.list : policies::policy_list(), blocks);
      };
      const double first = measured(apart_first);
      const double second = measured(!apart_first);
      of_apart.push_back(apart_first ? first : second);
      of_built_in.push_back(apart_first ? second : first);
      ratios.push_back(of_apart.back() / of_built_in.back());
      more.push_back(1e6 / of_apart.back() - 1e6 / of_built_in.back());
    }
    const Spread ratio = spread_of(ratios);
    fmt::print(
        "{:38} {:9.0f} {:9.0f}   {:.3f} ({:.3f} to {:.3f})   {:.1f}, {:.2f}\n",
        fmt::format("{}={}", kind, name), spread_of(of_built_in).middle, spread_of(of_apart).middle,
        ratio.middle, ratio.least, ratio.most, spread_of(more).middle,
        static_cast<double>(runs.asked) / static_cast<double>(rounds * (blocks + blocks / 4)));
  }
}

#else
void compare_apart(bool) {}
#endif

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
  compare_apart(small);
  return same ? 0 : 1;
}

}  // namespace
}  // namespace batchflow::bench

int main(int argc, char** argv) {
  return batchflow::bench::run(argc > 1 && std::strcmp(argv[1], "--small") == 0);
}
