// Node-local jobs and jobs that rehearse in a simulated world, checked by a witness.
#include <cmath>
#include <map>
#include <sstream>

#include "core/order/mixture.h"
#include "policies/registry.h"
#include "sim/world/world.h"
#include "tests/world/witness.h"

namespace batchflow::test::orders_test {

namespace {

// Two nodes with two ranks each; 16 blocks of two steps each.
std::string two_nodes(const std::string& job, const std::string& more = "") {
  return fmt::format(
      "cluster: {{nodes: [{{name: n, count: 2, gpus: 2, cores: 2, memory: 1gb}}], store: {{}}}}\n"
      "datasets: [{{name: data, samples: 512, bytes: 1000}}]\n"
      "pipelines: [{{name: train, steps: [{{name: work, random: true, cost: 1ms}}]}}]\n"
      "jobs: [{{dataset: data, pipeline: train, batch: 4, ranks: 4, step: 10ms, epochs: 3, {}}}]\n"
      "grain: {{items_per_block: 32}}\n"
      "engine: {{policies: {{allocation: 'proportional:forms=prepared'}}}}\n{}",
      job, more);
}

output::RunResult witnessed(const std::string& yaml) {
  const input::Scenario scenario = scenario_of(yaml);
  const Watched watched = simulate_watched(scenario);
  CHECK(watched.violation == "");
  check_conservation(scenario, watched.run);
  CHECK(watched.run.jobs.at(0).state == "done");
  return watched.run;
}

}  // namespace

TEST_CASE("a node-local job has every sample once an epoch, and no block crosses the network") {
  // Nor do reads: the store has no links here, and nothing is kept in its encoded form.
  const output::RunResult local = witnessed(two_nodes("node_local: true"));
  const output::RunResult shared = witnessed(two_nodes("node_local: false"));
  CHECK(local.aggregate.network_bytes == 0);
  // Every other sample is prepared on a node that does not want it.
  CHECK(shared.aggregate.network_bytes > 3 * 512 * 1000 / 4);
  CHECK(local.jobs[0].batches == shared.jobs[0].batches);
}

TEST_CASE("a node-local job goes on after the loss of one of its nodes, and nothing comes twice") {
  const output::RunResult run = witnessed(two_nodes(
      "node_local: true", "faults: [{kind: node-lost, target: n-1, at: 234ms, lasts: 500ms}]\n"));
  CHECK(run.jobs[0].restarts == 1);
}

TEST_CASE("a job that rehearses has every sample once an epoch, and in each batch some others") {
  // Three new samples of four: ceil(512 / 12) = 43 steps an epoch, one draw of each rank in each.
  const output::RunResult run = witnessed(two_nodes("rehearsal: {samples: 1, exemplars: 20}"));
  CHECK(run.jobs[0].samples == 3 * 512);
  CHECK(run.jobs[0].rehearsed == 3 * 43 * 4);
  CHECK(run.jobs[0].batches == 3 * 43 * 4);
  CHECK(run.jobs[0].fillers == 3 * (4 - 512 % 12 % 4) % 4);
  // The buffer is reported in parts where it is large, and rehearsed in a strict order too.
  const output::RunResult all =
      witnessed(two_nodes("order: strict, rehearsal: {samples: 2, exemplars: 512}",
                          "faults: [{kind: node-lost, target: n-1, at: 234ms, lasts: 500ms}]\n"));
  CHECK(all.jobs[0].rehearsed == 3 * 64 * 4 * 2);
}

TEST_CASE("a buffer of more than one event holds, and items of several samples are rehearsed") {
  const output::RunResult large = witnessed(
      "cluster: {nodes: [{name: n, gpus: 1, cores: 2, memory: 1gb}], store: {}}\n"
      "datasets: [{name: data, samples: 10000, bytes: 1000}]\n"
      "pipelines: [{name: train, steps: []}]\n"
      "jobs: [{dataset: data, pipeline: train, batch: 200, step: 10ms,\n"
      "        rehearsal: {samples: 100, exemplars: 5000}}]\n");
  CHECK(large.jobs[0].rehearsed == 100 * 100);
  const output::RunResult coarse = witnessed(
      "cluster: {nodes: [{name: n, gpus: 1, cores: 2, memory: 1gb}], store: {}}\n"
      "datasets: [{name: data, samples: 10000, bytes: 1000}]\n"
      "pipelines: [{name: train, steps: []}]\n"
      "jobs: [{dataset: data, pipeline: train, batch: 200, step: 10ms,\n"
      "        rehearsal: {samples: 100, exemplars: 5000}}]\n"
      "grain: {samples_per_item: 50}\n");
  CHECK(coarse.jobs[0].rehearsed == 100 * 100);
}

namespace {

// Five classes, one after the other: each is nearly all of the mixture for 400 samples, which is
// two passes of it.
std::string classes_in_turn(const std::string& policy, int nodes) {
  return fmt::format(
      "cluster: {{nodes: [{{name: n, count: {0}, gpus: 1, cores: 2, memory: 1gb}}], store: {{}}}}\n"
      "datasets: [{{name: data, samples: 1000, bytes: 1000}}]\n"
      "pipelines: [{{name: train, steps: []}}]\n"
      "jobs: [{{dataset: data, pipeline: train, batch: {1}, ranks: {0}, step: 10ms, epochs: 10,\n"
      "        mixture: {{sources: 5, skew: 16, draws: 200, change_every: 400}},\n"
      "        rehearsal: {{samples: {2}, exemplars: 50, policy: {3}}}}}]\n",
      nodes, 20 / nodes, 4 / nodes, policy);
}

output::BufferResult filled_by(const std::string& policy, int nodes = 1) {
  const output::RunResult run = simulate_text(classes_in_turn(policy, nodes));
  CHECK(run.jobs[0].state == "done");
  CHECK(run.jobs[0].rehearsed > 0);
  return run.jobs[0].buffer;
}

}  // namespace

TEST_CASE("what is in a buffer in the end, and how old it is, by policy") {
  const output::BufferResult reservoir = filled_by("reservoir");
  CHECK(reservoir.exemplars == 50);
  CHECK(reservoir.classes == 5);
  CHECK(reservoir.age > 0.35);
  CHECK(reservoir.age < 0.75);
  const output::BufferResult equal = filled_by("per-class");
  CHECK(equal.class_least == 10);
  CHECK(equal.class_most == 10);
  const output::BufferResult newest = filled_by("prioritised");
  CHECK(newest.exemplars == 50);
  CHECK(newest.classes <= 2);
  CHECK(newest.age < 0.3);
  CHECK(filled_by("random-replacement").age < reservoir.age);
}

// 10 epochs of 200 draws, and another class each 400.
TEST_CASE("weights of a simulated mixture change by what it drew, not by what it rehearsed") {
  const input::Scenario scenario = scenario_of(classes_in_turn("reservoir", 1));
  const std::string changes = in_child([&] {
    world::World world(scenario, policies::policy_list(), {});
    std::size_t count = 0;
    world.decide_by([&](Instant now, std::span<const engine::Event> events) {
      for (const engine::Event& event : events)
        count += std::holds_alternative<engine::MixtureChanged>(event) ? 1 : 0;
      return world.engine().step(now, events);
    });
    world.run();
    return std::to_string(count);
  });
  CHECK(changes == "5");
}

namespace {

// What the ranks of a job were given of its mixture, and what the rule gives with the same weights.
struct Sources {
  output::JobResult job;
  std::vector<std::uint64_t> given;  // of each source
  std::vector<std::uint64_t> due;
  std::uint64_t changes = 0;
};

// REQUIRES: one job of one epoch, and sources of one size
Sources sources_of(const input::Scenario& scenario) {
  const input::MixtureModel& mixture = scenario.jobs.at(0).mixture;
  const std::uint64_t samples = scenario.datasets.at(0).samples;
  REQUIRE(samples % mixture.sources == 0);
  std::istringstream seen(in_child([&] {
    world::World world(scenario, policies::policy_list(), {});
    std::vector<std::uint64_t> given(mixture.sources);
    std::map<std::uint64_t, std::vector<std::uint64_t>> changes;
    for (const input::MixtureModel::Scheduled& one : mixture.schedule)
      changes[one.at] = order::Mixture::parts_of(mixture.weights(0, one.skew));
    world.decide_by([&](Instant now, std::span<const engine::Event> events) {
      const auto commands = world.engine().step(now, events);
      for (const engine::Command& command : commands) {
        if (const auto* set = std::get_if<engine::MixtureSet>(&command))
          changes[set->at].assign(set->parts.begin(), set->parts.end());
        const auto* deliver = std::get_if<engine::Deliver>(&command);
        if (!deliver || deliver->request.attempt != 0) continue;
        for (const SampleId id : deliver->samples) ++given[id.value * mixture.sources / samples];
      }
      return commands;
    });
    const output::JobResult job = world.run().jobs.at(0);
    order::Mixture rule(order::Mixture::parts_of(mixture.weights(0)),
                        std::vector<std::uint32_t>(mixture.sources, 1));
    for (std::uint64_t draw = 0; draw < mixture.draws; ++draw) {
      if (const auto change = changes.find(draw); change != changes.end())
        rule.set_parts(change->second);
      rule.take(1);
    }
    std::string text =
        fmt::format("{} {} {} {}\n", job.state, job.samples, job.fillers, changes.size());
    for (std::uint32_t i = 0; i < mixture.sources; ++i)
      text += fmt::format("{} {}\n", given[i], rule.taken(i));
    return text;
  }));
  Sources made;
  seen >> made.job.state >> made.job.samples >> made.job.fillers >> made.changes;
  for (std::uint64_t given = 0, due = 0; seen >> given >> due;) {
    made.given.push_back(given);
    made.due.push_back(due);
  }
  CHECK(made.job.state == "done");
  CHECK(made.job.samples == mixture.draws);
  CHECK(made.job.fillers == 0);
  CHECK(made.given.size() == mixture.sources);
  CHECK(made.given == made.due);
  return made;
}

}  // namespace

// 100 steps of 8 ranks.
TEST_CASE("a job of several nodes is given exactly what is due of a thousand sources") {
  const auto sources = [](const std::string& more) {
    return scenario_of(fmt::format(
        "cluster: {{nodes: [{{name: n, count: 4, gpus: 2, cores: 2, memory: 1gb}}], store: {{}}}}\n"
        "datasets: [{{name: data, samples: 10000, bytes: 1000}}]\n"
        "pipelines: [{{name: train, steps: []}}]\n"
        "jobs: [{{dataset: data, pipeline: train, batch: 25, ranks: 8, step: 10ms,\n"
        "        mixture: {{sources: 1000, skew: 1, draws: 20000{}}}}}]\n",
        more));
  };
  const std::vector<std::uint64_t> given = sources_of(sources("")).given;
  // The i-th source weighs 1 / i, and each has its share, rounded up or down.
  double all = 0;
  for (int i = 1; i <= 1000; ++i) all += 1.0 / i;
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(static_cast<double>(given[i]) - 20'000 / (static_cast<double>(i + 1) * all)) <
          1.001);
  }
  const Sources planned = sources_of(sources(", schedule: [{at: 5000, skew: 0}]"));
  CHECK(planned.changes == 1);
  CHECK(planned.given.back() >= 14);  // 5,000 draws at 1 / 1000 / 7.5, and 15,000 at 1 / 1000
  CHECK(planned.given.front() < given.front() / 2);
  // A change holds from the first draw that no block has, so several may come to one draw.
  const std::uint64_t changes = sources_of(sources(", change_every: 4000")).changes;
  CHECK(changes >= 1);
  CHECK(changes <= 4);
}

TEST_SUITE("long") {
  TEST_CASE("a job of 512 nodes is given exactly what is due of a thousand sources") {
    const Sources given =
        sources_of(input::read_scenario(input::load_scenario("thousand-sources")));
    CHECK(given.given.size() == 1000);
    CHECK(given.changes >= 1);
    CHECK(given.changes <= 3);
  }
}

TEST_CASE("a buffer is filled the same over several nodes") {
  const output::BufferResult alone = filled_by("reservoir");
  for (const int nodes : {2, 4}) {
    const output::BufferResult spread = filled_by("reservoir", nodes);
    CHECK(spread.exemplars == alone.exemplars);
    CHECK(spread.class_least == alone.class_least);
    CHECK(spread.class_most == alone.class_most);
    CHECK(spread.age == doctest::Approx(alone.age).epsilon(0.02));
  }
}

TEST_CASE("weights by the losses of a simulated job, by policy") {
  const auto run_of = [](const std::string& mixture, const std::string& more = "") {
    const output::RunResult run = simulate_text(fmt::format(
        "cluster: {{nodes: [{{name: n, count: 2, gpus: 1, cores: 2, memory: 1gb}}], store: {{}}}}\n"
        "datasets: [{{name: data, samples: 1000, bytes: 1000}}]\n"
        "pipelines: [{{name: train, steps: []}}]\n"
        "jobs: [{{dataset: data, pipeline: train, batch: 10, ranks: 2, step: 10ms, epochs: 20,\n"
        "        mixture: {{sources: 4, draws: 1000, {}}}}}]\n{}",
        mixture, more));
    CHECK(run.protocol_errors == 0);
    CHECK(run.jobs[0].samples == 20 * 1000);
    return run.jobs[0];
  };
  // No source is learned: all lose the same, so all keep a quarter.
  const output::MixtureResult even =
      run_of("policy: 'softmax:every=1000', losses: {from: 2, to: 2}").mixture;
  CHECK(even.changes == 0);
  CHECK(even.weight_least == 0.25);
  CHECK(even.weight_most == 0.25);
  CHECK(even.loss_mean == 2);
  // Half of what is above 0 is gone after 5,000 samples of each source, which all have had.
  const output::MixtureResult alike =
      run_of("policy: 'softmax:every=1000', losses: {from: 2, to: 0, half_after: 5000}").mixture;
  CHECK(alike.loss_mean == doctest::Approx(1).epsilon(0.001));
  // The fourth source is 64 times as slow as the first; so it comes to weigh most.
  const std::string slow = ", losses: {from: 4, to: 0, half_after: 1000, spread: 3}";
  for (const char* policy : {"excess-loss", "softmax", "ucb"}) {
    CAPTURE(policy);
    const output::MixtureResult made =
        run_of(fmt::format("policy: '{}:every=500:least=0.02'{}", policy, slow)).mixture;
    CHECK(made.changes > 4);
    CHECK(made.changes <= 40);
    CHECK(made.weight_most > 0.35);  // a change more than the quarter that it had
    CHECK(made.weight_least >= 0.02 - 1e-6);
    // It loses 4 * 2^(-n / 64000) after n samples; of a quarter of 20,000 that is more.
    CHECK(made.loss_most < 4 * std::exp2(-5000.0 / 64'000));
  }
  // A node is lost while epochs end, as they begin, and between.
  for (const char* at : {"1s", "1.5s", "3s", "2.99s", "3.01s", "3.2s"}) {
    CAPTURE(at);
    const output::JobResult lost = run_of(
        "policy: 'excess-loss:every=500'" + slow,
        fmt::format("faults: [{{kind: node-lost, target: n-1, at: {}, lasts: 500ms}}]\n", at));
    CHECK(lost.restarts == 1);
    CHECK(lost.mixture.changes > 4);
  }
  CHECK(run_of("skew: 0").mixture.weight_most == 0);
}

TEST_CASE("simulated jobs of one mixture share its blocks, until the weights of one change") {
  const auto run_of = [](const std::string& first, const std::string& second,
                         const std::string& more = "") {
    const output::RunResult run = simulate_text(fmt::format(
        "cluster: {{nodes: [{{name: n, count: 2, gpus: 2, cores: 2, memory: 1gb}}], store: {{}}}}\n"
        "datasets: [{{name: data, samples: 512, bytes: 1000}}]\n"
        "pipelines: [{{name: train, steps: [{{name: work, random: true, cost: 1ms}}]}}]\n"
        "jobs:\n"
        "  - {{dataset: data, pipeline: train, batch: 4, ranks: 2, step: 10ms, epochs: 2,\n"
        "     mixture: {{sources: 20, skew: 1, draws: 1000{}}}}}\n"
        "  - {{dataset: data, pipeline: train, batch: 4, ranks: 2, step: 10ms, epochs: 2,\n"
        "     mixture: {{sources: 20, skew: 1, draws: 1000{}}}}}\n"
        "grain: {{items_per_block: 32}}\n"
        "engine: {{policies: {{allocation: 'proportional:forms=prepared'}}}}\n{}",
        first, second, more));
    for (const output::JobResult& job : run.jobs) {
      CHECK(job.state == "done");
      CHECK(job.samples == 2 * 1000);
    }
    return run;
  };
  const auto prepared = [](const output::RunResult& run) { return run.aggregate.preparations; };
  CHECK(prepared(run_of("", "")) == 2000);
  CHECK(prepared(run_of("", ", change_every: 300")) == 4000);
  CHECK(prepared(run_of(", change_every: 300", ", change_every: 300")) == 4000);
  // A schedule is known before, so jobs with the same one share their blocks.
  const std::string schedule = ", schedule: [{at: 300, skew: 0}, {at: 1500, skew: 2}]";
  CHECK(prepared(run_of(schedule, schedule)) == 2000);
  CHECK(prepared(run_of("", schedule)) == 4000);
  const output::RunResult lost =
      run_of("", ", change_every: 300",
             "faults: [{kind: node-lost, target: n-1, at: 234ms, lasts: 500ms}]\n");
  CHECK(lost.jobs[0].restarts + lost.jobs[1].restarts > 0);
}

TEST_CASE("the witness notices a draw that comes twice, and one that is of no buffer") {
  const input::Scenario scenario = scenario_of(two_nodes("rehearsal: {samples: 1, exemplars: 20}"));
  const auto spoilt = [&](const std::function<void(order::Slice&, SampleId&)>& change) {
    std::uint64_t deliveries = 0;
    std::vector<order::Slice> slices;
    std::vector<SampleId> samples;
    return simulate_watched(scenario,
                            [&](engine::Deliver& order) {
                              slices.assign(order.slices.begin(), order.slices.end());
                              samples.assign(order.samples.begin(), order.samples.end());
                              if (++deliveries == 9) change(slices.back(), samples.back());
                              order.slices = slices;
                              order.samples = samples;
                            })
        .violation;
  };
  CHECK(spoilt([](order::Slice&, SampleId&) {}) == "");
  CHECK(spoilt([](order::Slice&, SampleId& id) { id = SampleId((id.value + 1) % 512); }) ==
        "violation: draws that are not those of any buffer the epoch may have begun with");
  CHECK(spoilt([](order::Slice& slice, SampleId&) { slice.rehearsed = false; }) != "");
}

// 4,096 samples in 256 bundles, and memory for about half of them.
TEST_CASE("a job that shuffles runs has every sample once an epoch, and reads whole bundles") {
  const auto run = [](const char* order) {
    return witnessed(fmt::format(
        "cluster:\n  nodes: [{{name: n, cores: 2, gpus: 1, memory: 640kb}}]\n"
        "  store: {{bytes_per_s: 1gb, latency: 100us}}\n"
        "datasets: [{{name: rows, samples: 4096, bytes: 256, bundle: 4096}}]\n"
        "pipelines: [{{name: train, steps: [{{name: scale, random: true, cost: 1us, output: "
        "64}}]}}]\n"
        "jobs: [{{name: j, dataset: rows, pipeline: train, batch: 16, step: 1ms, epochs: 4, {}}}]\n"
        "grain: {{items_per_block: 64}}\n"
        "engine: {{staging_bytes: 64kb, policies: {{allocation: "
        "'encoded-first:forms=encoded'}}}}\n",
        order));
  };
  const output::RunResult runs = run("runs: true");
  const output::RunResult shuffled = run("runs: false");
  CHECK(runs.jobs[0].samples == 4 * 4096);
  CHECK(shuffled.jobs[0].samples == 4 * 4096);
  // Each bundle at most once an epoch, and where a lane's end cuts it, twice.
  CHECK(runs.aggregate.storage_reads <= 4 * (256 + 16));
  CHECK(runs.aggregate.storage_bytes <= 4 * (256 + 16) * 4096);
  CHECK(shuffled.aggregate.samples_read > 3 * runs.aggregate.storage_reads);
}

}  // namespace batchflow::test::orders_test
