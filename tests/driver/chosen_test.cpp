// Jobs of which a policy chooses the samples of each block. The checker counts that each sample
// comes once an epoch, with draws of its own; here stands what is made, read and refused.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "policies/registry.h"
#include "tests/driver/canaries.h"
#include "tests/driver/driver.h"

namespace batchflow::test::chosen_test {

namespace {

// 64 samples in blocks of 8, batches of 4.
JobPlan relaxed(std::uint32_t epochs) {
  JobPlan job;
  job.order = Order::relaxed;
  job.ranks = {NodeId(1)};
  job.epochs = epochs;
  return job;
}

Scenario scenario_of(std::vector<JobPlan> jobs, std::string selection) {
  Scenario scenario = small_scenario();
  scenario.config.policies.selection = std::move(selection);
  scenario.jobs = std::move(jobs);
  return scenario;
}

// Picks what it likes: the newest candidates, backwards; or what no policy may.
class Odd final : public engine::SelectionPolicy {
 public:
  explicit Odd(const engine::PolicyContext& context) : random_(context.random) {}
  std::size_t choose(const engine::SelectionView& view) override {
    return view.candidates.front().ready ? 0 : engine::kNoChoice;
  }
  std::uint32_t blocks_to_choose_from() const override { return 3; }
  void choose_samples(const engine::SamplesView& view, std::span<std::uint32_t> picks) override {
    for (std::size_t i = 0; i < picks.size(); ++i)
      picks[i] = static_cast<std::uint32_t>(view.candidates.size() - 1 - i);
    if (random_.below(3) == 0)
      picks[picks.size() / 2] = picks[0] + (random_.below(2) == 0 ? 0 : 1000);
  }

 private:
  Random random_;
};
const engine::PolicyEntry kOdd{
    .name = "odd", .help = "", .make = &make_canary<engine::SelectionPolicy, Odd>};

}  // namespace

TEST_CASE("each sample comes once an epoch, whatever the policy prefers") {
  for (const char* selection : {"quiver", "seneca", "deepio", "deepio:chance=1:blocks=1"}) {
    CAPTURE(selection);
    for (const Bytes dram : {Bytes{64 * 512}, Bytes{128 * 512}}) {
      Scenario scenario = scenario_of({relaxed(5), relaxed(3), relaxed(4)}, selection);
      scenario.jobs[1].drop_last = true;
      scenario.jobs[1].batch_samples = 5;
      scenario.jobs[2].ranks = {NodeId(1), NodeId(1), NodeId(1)};
      scenario.nodes[0].dram = dram;
      const Outcomes out = Driver(scenario, policies::policy_list()).run();
      CHECK(out.engine.refused_proposals == 0);
      CHECK(out.refusals == 0);
      CHECK(out.jobs_done == 3);
      CHECK(out.engine.preparations >= (5 + 3 + 4) * 8);
    }
  }
}

TEST_CASE("what a policy may not pick is counted, and costs no sample") {
  const Canaries canaries{&kOdd};
  Scenario scenario = scenario_of({relaxed(6), relaxed(6)}, "odd");
  const Outcomes out = Driver(scenario, canaries.list()).run();
  CHECK(out.engine.refused_proposals > 0);
  CHECK(out.jobs_done == 2);
}

TEST_CASE("ranks that are lost and come back go on where the job was") {
  for (int at = 2; at < 40; at += 3) {
    Scenario scenario = scenario_of({relaxed(4)}, "quiver");
    scenario.jobs[0].ranks = {NodeId(1), NodeId(1)};
    scenario.faults = {{Fault::Kind::rank_lost, ms(at), 0, ms(3), 4, {NodeId(1)}, 0, {}}};
    const Outcomes out = Driver(scenario, policies::policy_list()).run();
    CHECK(out.jobs_done == 1);
  }
}

TEST_CASE("a strict job is served as ever, and an order for each node is refused") {
  JobPlan strict = relaxed(3);
  strict.order = Order::strict;
  JobPlan local = relaxed(3);
  local.node_local = true;
  const Outcomes out =
      Driver(scenario_of({strict, relaxed(2)}, "quiver"), policies::policy_list()).run();
  CHECK(out.jobs_done == 2);
  std::optional<engine::Refusal> why;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    if (const auto* refuse = std::get_if<engine::Refuse>(&command)) why = refuse->why;
  };
  Driver(scenario_of({local}, "quiver"), policies::policy_list(), hooks).run();
  CHECK(why == engine::Refusal::wrong_order);
}

}  // namespace batchflow::test::chosen_test
