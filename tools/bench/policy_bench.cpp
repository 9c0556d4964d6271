// Cost of a policy's answer: nanoseconds a decision, for every registered policy of the kinds
// allocation, selection, dispatch and scaling, over 1, 16 and 256 shares or candidates.
// ./dev bench core --benchmark_filter=policy
#include <benchmark/benchmark.h>

#include <string>

#include "policies/conformance/random_views.h"
#include "policies/registry.h"

namespace batchflow::bench {
namespace {

constexpr int kViews = 64;  // asked in turn, so that no branch predictor learns an answer by heart

template <class Make>
auto make(const engine::PolicyEntry& entry) {
  return engine::PolicyChoice{&entry, Parameters(entry.parameters)}.make<Make>(Random(1));
}

void allocation(benchmark::State& state, const engine::PolicyEntry* entry) {
  const auto policy = make<engine::MakeAllocation>(*entry);
  const auto count = static_cast<std::size_t>(state.range(0));
  Random random(1);
  std::vector<std::vector<engine::ShareView>> shares;
  for (int i = 0; i < kViews; ++i) shares.push_back(conformance::random_shares(random, count));
  std::vector<Slots> slots(count);
  for (std::size_t i = 0; auto _ : state) {
    policy->allocate({{NodeId(1), Tier::dram, 0}, Bytes{1} << 40, shares[i++ % kViews]}, slots);
    benchmark::DoNotOptimize(slots.data());
  }
}

void selection(benchmark::State& state, const engine::PolicyEntry* entry) {
  const auto policy = make<engine::MakeSelection>(*entry);
  Random random(1);
  std::vector<std::vector<engine::SelectionCandidate>> candidates;
  for (int i = 0; i < kViews; ++i) {
    candidates.push_back(
        conformance::random_selection(random, static_cast<std::size_t>(state.range(0))));
  }
  for (std::size_t i = 0; auto _ : state) {
    benchmark::DoNotOptimize(policy->choose({JobId(1), Order::relaxed, candidates[i++ % kViews]}));
  }
}

void dispatch(benchmark::State& state, const engine::PolicyEntry* entry) {
  const auto policy = make<engine::MakeDispatch>(*entry);
  Random random(1);
  std::vector<std::vector<engine::WorkCandidate>> candidates;
  for (int i = 0; i < kViews; ++i) {
    candidates.push_back(
        conformance::random_work(random, static_cast<std::size_t>(state.range(0))));
  }
  for (std::size_t i = 0; auto _ : state) {
    benchmark::DoNotOptimize(policy->next({Instant{}, candidates[i++ % kViews]}));
  }
}

// It is asked about one node and one job; the number is how many of each an iteration asks about.
void scaling(benchmark::State& state, const engine::PolicyEntry* entry) {
  const auto policy = make<engine::MakeScaling>(*entry);
  Random random(1);
  std::vector<engine::NodeView> nodes;
  std::vector<engine::JobView> jobs;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    nodes.push_back(conformance::random_node(random));
    jobs.push_back(conformance::random_job(random));
  }
  for (auto _ : state) {
    for (const engine::NodeView& node : nodes) benchmark::DoNotOptimize(policy->workers(node));
    for (const engine::JobView& job : jobs) benchmark::DoNotOptimize(policy->depth(job));
  }
}

const bool kRegistered = [] {
  for (const engine::PolicyEntry* entry : policies::policy_list().entries()) {
    using Bench = void (*)(benchmark::State&, const engine::PolicyEntry*);
    constexpr Bench kBenches[engine::kPolicyKinds] = {allocation, nullptr, selection, dispatch,
                                                      scaling,    nullptr, nullptr};
    const Bench bench = kBenches[static_cast<std::size_t>(entry->kind())];
    // Eviction is measured by requests of a trace, rehearsal and mixtures with what they serve.
    if (bench == nullptr) continue;
    const std::string name = "policy/" + std::string(engine::policy_kind_name(entry->kind())) +
                             "/" + std::string(entry->name);
    benchmark::RegisterBenchmark(name.c_str(), bench, entry)->Arg(1)->Arg(16)->Arg(256);
  }
  return true;
}();

}  // namespace
}  // namespace batchflow::bench
