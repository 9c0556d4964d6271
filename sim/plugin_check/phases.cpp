#include "sim/plugin_check/phases.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <utility>

#include "core/engine/share.h"
#include "nlohmann/json.hpp"
#include "policies/conformance/conformance.h"
#include "policies/conformance/random_views.h"
#include "policies/plugin/failures.h"
#include "policies/plugin/load.h"
#include "policies/registry.h"
#include "sim/plugin_check/battery.h"
#include "sim/plugin_check/confine.h"

namespace batchflow::sim {
namespace {

using nlohmann::json;

std::string name_of(const engine::PolicyChoice& choice) {
  return fmt::format("{}={}", engine::policy_kind_name(choice.entry->kind()), choice.text());
}

void report(const json& answer) {
  const std::string text = answer.dump() + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t more = write(kReportDescriptor, text.data() + done, text.size() - done);
    if (more <= 0) _exit(1);
    done += static_cast<std::size_t>(more);
  }
}

void refuse_failures() {
  for (const plugin::Failure& one : plugin::take_failures()) throw conformance::Violation(one.why);
}

// ---------------------------------------------------------------------------------------- rules --

// The rules of all its policies, at their defaults and at each parameter's ends. The digest says
// what they answered, so that another process can be compared.
json rules(const plugin::Plugin& plugin, std::uint64_t seeds) {
  constexpr int kSteps = 250;
  json policies = json::array();
  for (const engine::PolicyEntry* entry : plugin.policies()) {
    bool defaults = true;  // for which alone fairness is promised
    for (const engine::PolicyChoice& choice : conformance::variants(*entry)) {
      const bool fair = std::exchange(defaults, false) &&
                        entry->kind() == engine::PolicyKind::dispatch && !entry->may_starve;
      std::uint64_t digest = 0;
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        try {
          digest = hash(digest, conformance::use_at_random(choice, seed, kSteps));
          if (entry->kind() == engine::PolicyKind::eviction)
            conformance::check_honesty(choice, seed);
          if (fair) conformance::check_fairness(choice, seed);
          refuse_failures();
        } catch (const conformance::Violation& violation) {
          // What the plugin did comes before what came of it.
          const auto failures = plugin::take_failures();
          const std::string why = failures.empty() ? violation.what() : failures[0].why;
          return {{"problem", fmt::format("{}: {} (seed {})", name_of(choice), why, seed)}};
        }
      }
      policies.push_back({{"policy", name_of(choice)}, {"digest", fmt::format("{:016x}", digest)}});
    }
  }
  return {{"policies", policies}};
}

// ----------------------------------------------------------------------------------------- cost --

double cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Of this process, in memory.
double resident_bytes() {
  char text[128] = {};
  if (pread(kMemoryDescriptor, text, sizeof(text) - 1, 0) <= 0) return 0;
  char* end = nullptr;
  std::strtoul(text, &end, 10);  // all of its size
  return static_cast<double>(std::strtoul(end, nullptr, 10)) * 4096;
}

struct Cost {
  double mean_ns = 0;
  double slowest_us = 0;  // of several decisions at once, since a clock takes time as well
};

Cost cost_of(int rounds, int decisions, const std::function<void(int)>& decide) {
  constexpr double kEnough_s = 2;
  Cost cost;
  double all = 0;
  int counted = 0;
  for (int round = 0; round < rounds && all < kEnough_s; ++round) {
    const double begin = cpu_s();
    for (int i = 0; i < decisions; ++i) decide(round * decisions + i);
    const double took = cpu_s() - begin;
    if (round == 0) continue;  // everything is touched for the first time
    all += took;
    counted += decisions;
    cost.slowest_us = std::max(cost.slowest_us, took / decisions * 1e6);
  }
  cost.mean_ns = all / counted * 1e9;
  return cost;
}

Cost cost_of_eviction(const engine::PolicyChoice& choice, double& bytes_an_item) {
  constexpr std::size_t kItems = 200'000;
  constexpr Slots kCapacity = kItems / 10;
  const double before = resident_bytes();
  engine::Share share(kItems, kCapacity, choice.make_eviction(kItems, kCapacity, Random(1)));
  Random random(2);
  std::vector<ItemId> evicted;
  const Cost cost = cost_of(50, 20'000, [&](int) {
    evicted.clear();
    const auto item =
        static_cast<std::uint32_t>(std::min(random.below(kItems), random.below(kItems)));
    share.access({ItemId(item)}, evicted);
  });
  bytes_an_item = (resident_bytes() - before) / kItems;
  return cost;
}

Cost cost_of_decision(const engine::PolicyChoice& choice) {
  Random random(1);
  switch (choice.entry->kind()) {
    case engine::PolicyKind::allocation: {
      const auto policy = choice.make<engine::MakeAllocation>(Random(1));
      const auto shares = conformance::random_shares(random, 100);
      std::vector<Slots> slots(shares.size());
      const engine::PlaceView place{{NodeId(1), Tier::dram, 0}, Bytes{1} << 40, shares};
      return cost_of(20, 20, [&](int) { policy->allocate(place, slots); });
    }
    case engine::PolicyKind::selection: {
      const auto policy = choice.make<engine::MakeSelection>(Random(1));
      const auto candidates = conformance::random_selection(random, 64);
      return cost_of(20, 1000, [&](int) {
        policy->choose({JobId(1), Order::relaxed, candidates});
      });
    }
    case engine::PolicyKind::dispatch: {
      const auto policy = choice.make<engine::MakeDispatch>(Random(1));
      const auto work = conformance::random_work(random, 256);
      return cost_of(20, 1000, [&](int i) { policy->next({Instant(Duration(i)), work}); });
    }
    case engine::PolicyKind::scaling: {
      const auto policy = choice.make<engine::MakeScaling>(Random(1));
      const engine::NodeView node = conformance::random_node(random);
      const engine::JobView job = conformance::random_job(random);
      return cost_of(20, 1000, [&](int) {
        policy->workers(node);
        policy->depth(job);
      });
    }
    case engine::PolicyKind::rehearsal: {
      constexpr std::size_t kExemplars = 1000;
      const auto policy = choice.make_rehearsal(kExemplars);
      std::size_t kept = 0;
      return cost_of(20, 1000, [&](int i) {
        const engine::Exemplar exemplar{SampleId(static_cast<std::uint64_t>(i)),
                                        static_cast<std::uint32_t>(i % 10), false, 0,
                                        static_cast<std::uint64_t>(i)};
        const engine::RehearsalView view{exemplar, random.draw(), {}};
        const std::size_t index = policy->choose(view, Random(random.draw()));
        if (index > kept || index >= kExemplars) return;
        kept = std::max(kept, index + 1);
        policy->put(index, view);
      });
    }
    case engine::PolicyKind::mixture: {
      std::vector<engine::SourceView> sources(64);
      const auto policy = choice.make_mixture(sources.size());
      std::vector<double> weights(sources.size());
      return cost_of(20, 100, [&](int i) {
        for (engine::SourceView& source : sources)
          source = {1000, static_cast<std::uint64_t>(i), 1.0 / 64, true, random.unit(), 1};
        std::fill(weights.begin(), weights.end(), 1.0 / 64);
        policy->weigh({JobId(1), static_cast<std::uint64_t>(i), sources}, weights);
      });
    }
    case engine::PolicyKind::eviction:
      break;
  }
  return {};
}

// How much memory stays when a policy has been made, used and ended so many times.
double leak_of(const engine::PolicyChoice& choice) {
  constexpr int kRounds = 300;
  double settled = 0;
  for (int round = 0; round < 2 * kRounds; ++round) {
    conformance::use_at_random(choice, static_cast<std::uint64_t>(round % 7), 30);
    if (round == kRounds - 1) settled = resident_bytes();
  }
  return (resident_bytes() - settled) / kRounds;
}

json cost(const plugin::Plugin& plugin) {
  json policies = json::array();
  for (const engine::PolicyEntry* entry : plugin.policies()) {
    const engine::PolicyChoice choice{entry, Parameters(entry->parameters)};
    double bytes_an_item = 0;
    const double leak = leak_of(choice);
    const Cost cost = entry->kind() == engine::PolicyKind::eviction
                          ? cost_of_eviction(choice, bytes_an_item)
                          : cost_of_decision(choice);
    policies.push_back({{"policy", name_of(choice)},
                        {"mean_ns", cost.mean_ns},
                        {"slowest_us", cost.slowest_us},
                        {"bytes_an_item", bytes_an_item},
                        {"leaked_bytes", leak}});
  }
  return {{"policies", policies}};
}

}  // namespace

int run_phase(const PhaseOptions& options) {
  try {
    if (options.phase == "battery") {
      const plugin::Plugin& plugin = plugin::load(options.plugin);
      report(battery(plugin, options.seeds));
      return 0;
    }
    const plugin::Plugin plugin(std::make_shared<const plugin::PluginFile>(options.plugin));
    const bool costs = options.phase == "cost";
    const bool confined = confine_policy(kReportDescriptor, costs);
    json answer = costs ? cost(plugin) : rules(plugin, options.seeds);
    answer["confined"] = confined;
    report(answer);
    _exit(0);  // a plugin's destructors may do what they like; nothing is left to be written
  } catch (const std::exception& error) {
    report({{"problem", error.what()}});
    _exit(1);
  }
}

}  // namespace batchflow::sim
