// What every simulated world promises: it decides nothing, repeats itself, and is recorded.
#include "sim/world/world.h"
#include "programs/config/replay_journal.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "policies/registry.h"
#include "tests/driver/shrinking.h"
#include "tests/world/harness.h"

namespace batchflow::test::world_test {

namespace {

std::string varied() {
  return "cluster:\n"
         "  nodes: [{name: node, count: 2, cores: 4, gpus: 4, memory: 64mb, nic_bytes_per_s: 1gb,\n"
         "           pcie_bytes_per_s: 2gb, nvme: {size: 20mb, bytes_per_s: 1gb, latency: 80us}}]\n"
         "  store: {bytes_per_s: 100mb, latency: 2ms, latency_jitter: 0.8, operations_ahead: 4}\n"
         "datasets: [{name: data, samples: 3000, bytes: 20kb, bytes_jitter: 0.5, format: jpeg}]\n"
         "pipelines:\n  - name: train\n    cost_jitter: 0.3\n    steps:\n"
         "      - {name: decode, cost: 1ms, output: 60kb}\n"
         "      - {name: crop, random: true, cost: 300us, output: 15kb}\n"
         "jobs:\n"
         "  - {name: a, dataset: data, pipeline: train, ranks: 3, batch: 16, step: 20ms,\n"
         "     step_jitter: 0.2, epochs: 2}\n"
         "  - {name: b, dataset: data, pipeline: train, batch: 48, step: 30ms, arrives: 500ms,\n"
         "     epochs: 2}\n"
         "  - {name: c, dataset: data, pipeline: train, order: strict, batch: 32, step: 15ms,\n"
         "     count: 2, every: 700ms, leaves_after: 1s}\n"
         "engine: {block_bytes: 480kb}\n";
}

}  // namespace

TEST_CASE("an engine that returns no commands moves no byte") {
  const input::Scenario scenario = scenario_of(varied());
  const output::RunResult run = output::decode_run(in_child([&] {
    world::World world(scenario, policies::policy_list(), {});
    world.decide_by(
        [](Instant, std::span<const engine::Event>) { return std::span<const engine::Command>(); });
    return output::encode_run(world.run());
  }));
  CHECK(run.aggregate.storage_bytes == 0);
  CHECK(run.aggregate.nvme_bytes == 0);
  CHECK(run.aggregate.network_bytes == 0);
  CHECK(run.aggregate.pcie_bytes == 0);
  CHECK(run.aggregate.samples_requested == 0);
  CHECK(run.aggregate.samples == 0);
  // Jobs that are never served wait, and the result says so.
  CHECK(run.failure.find("jobs wait") != std::string::npos);
}

TEST_CASE("load that comes again and again does not keep a run going in which jobs wait for ever") {
  const input::Scenario scenario =
      scenario_of(varied(), {"cluster.store.load=[{at: 0s, part: 10%}, {at: 1s, part: 20%}]",
                             "cluster.store.load_period=2s"});
  const output::RunResult run = output::decode_run(in_child([&] {
    world::World world(scenario, policies::policy_list(), {});
    world.decide_by(
        [](Instant, std::span<const engine::Event>) { return std::span<const engine::Command>(); });
    return output::encode_run(world.run());
  }));
  CHECK(run.failure.find("jobs wait") != std::string::npos);
}

TEST_CASE("the same scenario gives the same orders in every process, another seed gives others") {
  const output::RunResult one = simulate_text(varied());
  const output::RunResult other = simulate_text(varied());
  CHECK(one.digest == other.digest);
  CHECK(one.makespan_s == other.makespan_s);
  CHECK(one.steps == other.steps);
  CHECK(simulate_text(varied(), {"seed=2"}).digest != one.digest);
}

TEST_CASE("every preset and dispatch policy serves a varied world to its end") {
  for (const std::string set :
       {"engine.preset=default", "engine.preset=fixed", "engine.preset=independent",
        "engine.preset=nopfs", "engine.policies={dispatch: fifo}",
        "engine.policies={dispatch: round-robin}", "engine.policies={dispatch: coordinated}",
        "engine.policies={dispatch: bounded-lag}", "engine.policies={selection: strict}",
        "engine.policies={allocation: equal}",
        "engine.policies={eviction: {encoded: lru, decoded: sieve}}", "engine.credits=1",
        "engine.credits=4"}) {
    CAPTURE(set);
    const output::RunResult run = simulate_text(varied(), {set});
    for (const output::JobResult& job : run.jobs) {
      CHECK(job.state == (job.name == "a" || job.name == "b" ? "done" : "left"));
    }
  }
}

TEST_CASE("workers that go finish what they have, and say so before they are gone") {
  const batchflow::test::Canaries policies{&batchflow::test::kShrinks};
  input::Scenario scenario = scenario_of(varied());
  scenario.ends_after = {};
  scenario.engine.policies.scaling = "shrinks";
  const auto world_of = [&] {
    return std::make_unique<world::World>(scenario, policies.list(), sim::SimulateOptions{});
  };
  const output::RunResult run =
      output::decode_run(in_child([&] { return output::encode_run(world_of()->run()); }));
  check_conservation(scenario, run);
  // The first word that a worker is gone never stands before what it has done.
  const std::string told = in_child([&] {
    std::uint64_t gone = 0;
    std::uint64_t overtaken = 0;
    auto world = world_of();
    engine::Engine& engine = world->engine();
    std::map<RequestId, WorkerId> made_by;
    world->decide_by([&](Instant now, std::span<const engine::Event> events) {
      std::set<WorkerId> quiet;
      for (const engine::Event& event : events) {
        if (const auto* one = std::get_if<engine::WorkerQuiesced>(&event))
          quiet.insert(one->worker);
        const auto* done = std::get_if<engine::PreparationDone>(&event);
        if (done == nullptr) continue;
        const auto by = made_by.find(done->request.id);
        overtaken += by != made_by.end() && quiet.count(by->second) != 0 ? 1 : 0;
      }
      gone += quiet.size();
      const auto commands = engine.step(now, events);
      for (const engine::Command& command : commands) {
        const auto* order = std::get_if<engine::Prepare>(&command);
        if (order != nullptr) made_by[order->request.id] = order->worker;
      }
      return commands;
    });
    world->run();
    return fmt::format("{} {}", gone > 10 ? "some" : "none", overtaken);
  });
  CHECK(told == "some 0");
}

TEST_CASE("chance does not depend on policies: a job computes equally long under each") {
  const output::RunResult one = simulate_text(varied());
  const output::RunResult other = simulate_text(varied(), {"engine.preset=independent"});
  CHECK(one.digest != other.digest);
  CHECK(one.jobs[0].compute_s == exactly(other.jobs[0].compute_s));
}

TEST_CASE("a journal of a run, replayed into another engine, gives the same orders") {
  // The journal of a run with faults holds the events of the faults, and a replay needs no faults.
  for (const std::string faults :
       {"",
        "faults: [{kind: node-lost, target: node-1, at: 300ms, lasts: 200ms},\n"
        "  {kind: worker-lost, target: node-0, at: 200ms, lasts: 100ms},\n"
        "  {kind: reads-failed, target: store, ratio: 5%}]\n"}) {
    CAPTURE(faults);
    const std::string path =
        (std::filesystem::temp_directory_path() / fmt::format("world-{}.journal", ::getpid()))
            .string();
    const input::Scenario scenario = scenario_of(varied() + faults);
    sim::SimulateOptions options;
    options.journal = path;
    const output::RunResult run = output::decode_run(
        in_child([&] { return output::encode_run(sim::simulate(scenario, options)); }));
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                  std::istreambuf_iterator<char>());
    std::filesystem::remove(path);
    log::JournalReader reader(std::as_bytes(std::span(bytes)), path);
    const log::ReplayResult replayed = config::replay_journal(reader, policies::policy_list());
    CHECK(replayed.same());
    CHECK(replayed.steps == run.steps);
    CHECK(fmt::format("{:016x}", replayed.digest) == run.digest);
    for (const output::FaultResult& fault : run.faults) CHECK(fault.parts > 0);
  }
}

TEST_CASE("a run that is ended while it is set up leaves no journal, and an older one as it was") {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("ended-{}.journal", ::getpid()))
          .string();
  sim::SimulateOptions options;
  options.journal = path;
  options.goes_on = [](const sim::RunProgress&) { return false; };
  const auto end = [&] {
    return output::decode_run(in_child(
        [&] { return output::encode_run(sim::simulate(scenario_of(varied()), options)); }));
  };
  CHECK(end().interrupted);
  CHECK(!std::filesystem::exists(path));
  std::ofstream(path) << "older";
  CHECK(end().steps == 0);
  CHECK(std::filesystem::file_size(path) == 5);
  std::filesystem::remove(path);
}

TEST_CASE("a run that is stopped gives its results so far") {
  const input::Scenario scenario =
      scenario_of(varied(), {"jobs.0.epochs=200", "jobs.1.epochs=200"});
  const output::RunResult run = output::decode_run(in_child([&] {
    sim::SimulateOptions options;
    options.goes_on = [](const sim::RunProgress& progress) { return progress.done < 0.1; };
    return output::encode_run(sim::simulate(scenario, options));
  }));
  CHECK(run.interrupted);
  CHECK(run.failure.empty());
  CHECK(run.aggregate.samples > 0);
  CHECK(run.jobs[0].state == "unfinished");
}

TEST_CASE("a run can be cut at a simulated time") {
  const output::RunResult run = output::decode_run(in_child([&] {
    return output::encode_run(sim::simulate(scenario_of(varied(), {"ends_after=1s"}), {}));
  }));
  CHECK(run.makespan_s == exactly(1));
  CHECK(run.failure.empty());
  CHECK(run.jobs[0].state == "unfinished");
}

TEST_CASE("the recorder keeps a bounded number of points, and the last is near the end") {
  const std::string result = in_child([] {
    const input::Scenario scenario = scenario_of(varied());
    world::World world(scenario, policies::policy_list(), {});
    const output::RunResult run = world.run();
    const auto& points = world.recorder().points();
    const double last_s = points.back().time_s;
    bool grows = true;
    for (std::size_t i = 1; i < points.size(); ++i) {
      grows = grows && points[i].time_s > points[i - 1].time_s &&
              points[i].storage_bytes >= points[i - 1].storage_bytes;
    }
    return fmt::format("{} {} {}", points.size() > 100 && points.size() <= 512,
                       last_s == run.makespan_s, grows);
  });
  CHECK(result == "true true true");
}

}  // namespace batchflow::test::world_test
