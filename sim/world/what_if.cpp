// A run that is halted and changed: each process that goes on from there may have another policy,
// store, number of cores or cache.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "policies/registry.h"
#include "sim/simulate.h"
#include "sim/world/world.h"

namespace batchflow::world {

namespace {

class WhatIf final : public sim::Simulation {
 public:
  WhatIf(const input::Scenario& scenario, const sim::SimulateOptions& options)
      : scenario_(scenario), world_(scenario_, policies::policy_list(), options) {}

  bool run_until(Instant when) override { return world_.run_until(when); }
  output::RunResult run() override { return world_.run(); }

  void change_to(const input::Scenario& to) override {
    change_policies(to.engine.policies);
    change_settings(to.engine);
    change_nodes(to.cluster.nodes);
    change_store(to.cluster.store.bytes_per_s);
    if (!world_.reports().empty()) world_.kernel().after(Duration(0), [] {});
  }

 private:
  void change_policies(const engine::PolicyTexts& to) {
    std::vector<std::string> wanted;
    engine::visit_policies(
        to, [&](std::string_view, const std::string& text) { wanted.push_back(text); });
    std::size_t at = 0;
    engine::visit_policies(scenario_.engine.policies,
                           [&](std::string_view name, std::string& mine) {
                             const std::string& other = wanted[at++];
                             if (mine == other) return;
                             mine = other;
                             texts_.push_back(fmt::format("{}={}", name, other));
                             world_.reports().fact(engine::PolicyChanged{texts_.back()});
                           });
  }

  void change_settings(const engine::EngineConfig& to) {
    engine::EngineConfig& now = scenario_.engine;
    const auto change = [&](const char* key, auto& mine, const auto& other, const auto& text) {
      if (mine == other) return;
      mine = other;
      texts_.push_back(fmt::format("{}={}", key, text));
      world_.reports().fact(engine::ConfigurationChanged{texts_.back()});
    };
    change("credits", now.credits, to.credits, to.credits);
    change("read_attempts", now.read_attempts, to.read_attempts, to.read_attempts);
    change("retry_wait", now.retry_wait, to.retry_wait, fmt::format("{}ns", to.retry_wait.count()));
    change("rank_timeout", now.rank_timeout, to.rank_timeout,
           fmt::format("{}ns", to.rank_timeout.count()));
  }

  void change_nodes(const std::vector<input::NodeModel>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      input::NodeModel& now = scenario_.cluster.nodes[i];
      const NodeId id(static_cast<std::uint32_t>(i));
      if (now.cache != to[i].cache) {
        now.cache = to[i].cache;
        world_.reports().fact(engine::CapacityChanged{{id, Tier::dram, 0}, now.cache});
      }
      if (now.cores != to[i].cores) {
        const auto more = static_cast<std::int64_t>(to[i].cores) - now.cores;
        now.cores = to[i].cores;
        world_.backend().change_cores(id, more);
      }
    }
  }

  void change_store(const input::Curve& to) {
    input::Curve& now = scenario_.cluster.store.bytes_per_s;
    const bool same =
        std::equal(now.points.begin(), now.points.end(), to.points.begin(), to.points.end(),
                   [](const input::Curve::Point& a, const input::Curve::Point& b) {
                     return a.x == b.x && a.y == b.y;
                   });
    if (same) return;
    now = to;
    world_.platform().store_changed();
  }

  input::Scenario scenario_;  // the world refers to it
  World world_;
  std::deque<std::string> texts_;  // events refer to them
};

}  // namespace

}  // namespace batchflow::world

namespace batchflow::sim {

std::unique_ptr<Simulation> start_simulation(const input::Scenario& scenario,
                                             const SimulateOptions& options) {
  return std::make_unique<world::WhatIf>(scenario, options);
}

}  // namespace batchflow::sim
