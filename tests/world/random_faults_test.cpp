// Random mixtures of faults over random small clusters: each job ends, each sample comes exactly
// once an epoch, and another process gives the same commands. A failure prints the command that
// repeats it:
//
//   BATCHFLOW_SEED=17 build/release/bin/test_world -tc="random faults"
#include <array>
#include <map>

#include "tests/policies/random_seeds.h"
#include "tests/world/witness.h"

namespace batchflow::test::random_faults_test {

namespace {

// Any small cluster with all that can break in it, and up to eight faults, all of which end.
class RandomWorld {
 public:
  explicit RandomWorld(std::uint64_t seed) : random_(hash(21, seed)), seed_(seed) {}

  std::string yaml() {
    nodes_ = 1 + below(3);
    nvme_ = below(2) == 0;
    cores_ = 1 + below(3);
    const std::uint64_t block = 1u << below(4);
    std::string text = fmt::format(
        "seed: {}\ncluster:\n  links: [{{name: spine, bytes_per_s: {}mb}},"
        " {{name: rack, bytes_per_s: 50mb, up: spine}}]\n"
        "  nodes: [{{name: n, count: {}, cores: {}, gpus: 4, memory: {}kb, link: rack,\n"
        "           nic_bytes_per_s: 20mb{}}}]\n"
        "  store: {{bytes_per_s: {}mb, latency: {}us, latency_jitter: 0.5, operations_ahead: 4}}\n",
        seed_, 10 + below(50), nodes_, cores_, 200 + below(800),
        nvme_ ? ", nvme: {size: 1mb, bytes_per_s: 20mb, latency: 100us}" : "", 2 + below(20),
        100 + below(2000));
    if (nodes_ == 1) replace(text, "name: n,", "name: n-0,");
    // From a hash, so that all else of a seed's scenario is as it would be without.
    const std::uint64_t word = hash(19, seed_);
    const std::uint64_t bundle = word % 3 == 0 ? 16384u << (word / 3 % 3) : 0;
    text += fmt::format(
        "datasets: [{{name: data, samples: {}, bytes: 4096, format: jpeg, bundle: {}}}]\n"
        "pipelines: [{{name: train, cost_jitter: 0.3, steps: [{{name: decode, cost: {}us, output: "
        "2000}},\n  {{name: crop, random: true, cost: 300us, output: 500}}]}}]\njobs:\n",
        64 + below(150), bundle, 100 + below(2000));
    for (std::uint64_t i = 1 + below(3); i > 0; --i) {
      constexpr const char* kOrders[] = {"relaxed", "relaxed, node_local: true", "strict",
                                         "sequential"};
      const std::uint64_t batch = 1 + below(12);
      std::string order = kOrders[below(4)];
      if (bundle > 0 && order.starts_with("relaxed") && i % 2 == 0) order += ", runs: true";
      if (batch > 1 && below(3) == 0) {
        order += fmt::format(", rehearsal: {{samples: {}, exemplars: {}}}", 1 + below(batch - 1),
                             1 + below(64));
      }
      const std::uint64_t saves = hash(23, seed_, i);
      if (saves % 3 == 0) {
        order += fmt::format(", checkpoint: {{every: {}, bytes: {}kb, waits: {}}}",
                             1 + saves / 3 % 9, saves / 27 % 4 * 50, saves / 108 % 2 == 0);
      }
      text += fmt::format(
          "  - {{dataset: data, pipeline: train, order: {}, ranks: {}, batch: {}, step: {}ms,\n"
          "     step_jitter: 0.2, epochs: {}, arrives: {}ms, drop_last: {}}}\n",
          order, 1 + below(4), batch, 5 + below(60), 1 + below(3), below(300), below(4) == 0);
    }
    text += fmt::format(
        "grain: {{items_per_block: {}}}\n"
        "engine: {{rank_timeout: 1h, read_attempts: 20, corrupt_ratio_max: 10%, {}}}\nfaults:\n",
        block,
        std::array{"preset: default", "preset: independent", "credits: 1",
                   "policies: {dispatch: fifo, allocation: 'equal:forms=encoded'}"}[below(4)]);
    const bool moves = hash(29, seed_) % 4 == 0;
    for (std::uint64_t i = 1 + below(8); i > 0; --i) text += fault(moves);
    return text + (moves ? "after_loss: moves\n" : "");
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  static void replace(std::string& text, const std::string& what, const std::string& by) {
    text.replace(text.find(what), what.size(), by);
  }
  std::string node() { return fmt::format("n-{}", below(nodes_)); }
  std::uint64_t workers() { return 1 + below(cores_); }
  std::string times(std::uint64_t most_ms) {
    return fmt::format("at: {}us, lasts: {}us", below(1'500'000), 1 + below(1000 * most_ms));
  }
  std::string fault(bool moves) {
    const std::string drive = nvme_ && below(2) == 0 ? node() : "store";
    const std::string link = std::array<std::string, 4>{"spine", "rack", "store", node()}[below(4)];
    switch (below(9)) {
      case 0:
        return fmt::format("  - {{kind: node-lost, target: {}, {}, detected_after: {}ms}}\n",
                           node(), times(1000), below(3) * below(300) * (moves ? 0 : 1));
      case 1:
        return fmt::format(
            "  - {{kind: worker-lost, target: {}, {}, count: {}, detected_after: {}ms, "
            "quiet_after: {}ms}}\n",
            node(), times(500), workers(), below(3) * below(100), below(3) * below(100));
      case 2:
        return fmt::format("  - {{kind: drive-lost, target: {}, {}}}\n", drive, times(500));
      case 3:
        return fmt::format("  - {{kind: drive-slow, target: {}, {}, factor: 0.{}}}\n", drive,
                           times(1000), 1 + below(9));
      case 4:
        return fmt::format("  - {{kind: link-down, target: {}, {}, timeout: {}ms}}\n", link,
                           times(500), 1 + below(800));
      case 5:
        return fmt::format("  - {{kind: link-slow, target: {}, {}, factor: 0.{}}}\n",
                           link == "store" ? "rack" : link, times(1000), 1 + below(9));
      case 6:
        return fmt::format("  - {{kind: worker-slow, target: {}, {}, count: {}, factor: 0.{}}}\n",
                           node(), times(1000), workers(), 1 + below(9));
      case 7:
        return fmt::format("  - {{kind: corrupt-samples, target: data, count: {}}}\n",
                           1 + below(3));
      default:
        return fmt::format("  - {{kind: reads-failed, target: {}, {}, ratio: {}%}}\n", drive,
                           times(1500), 1 + below(30));
    }
  }

  Random random_;
  std::uint64_t seed_;
  std::uint64_t nodes_ = 1;
  std::uint64_t cores_ = 1;
  bool nvme_ = false;
};

// What all runs of a test met together.
struct Tally {
  std::map<std::string, std::uint64_t> struck;  // by kind of fault, faults that had an effect
  std::uint64_t jobs_done = 0;
  std::uint64_t jobs_refused = 0;
  std::uint64_t restarts = 0;
  std::uint64_t went_back = 0;  // of these jobs, that took steps again

  void add(const output::RunResult& run) {
    for (const output::FaultResult& fault : run.faults) {
      if (fault.struck && fault.parts > 0) ++struck[fault.kind];
    }
    for (const output::JobResult& job : run.jobs) {
      ++(job.state == "done" ? jobs_done : jobs_refused);
      restarts += job.restarts;
      went_back += job.repeated_samples > 0 ? 1 : 0;
    }
  }
};

// Empty, or what went wrong with the seed.
std::string problem_with(std::uint64_t seed, Tally& tally) {
  const std::string yaml = RandomWorld(seed).yaml();
  const input::Scenario scenario = scenario_of(yaml);
  const Watched watched = simulate_watched(scenario);
  const output::RunResult& run = watched.run;
  std::string problem = watched.violation + run.failure;
  if (problem.empty()) {
    for (const output::JobResult& job : run.jobs) {
      // A job for which no memory suffices is refused at once, with faults or without.
      const bool no_room = job.refusal.find("of the cache") != std::string::npos;
      // Too large a step for an epoch that leaves out its tail.
      const bool no_sense = job.refusal.find("no sense") != std::string::npos;
      if (job.state == "done" || no_room || no_sense) continue;
      problem += fmt::format("{} is {} {}; ", job.name, job.state, job.refusal);
    }
    if (run.protocol_errors > 0) problem += fmt::format("{} protocol errors", run.protocol_errors);
  }
  if (problem.empty()) check_conservation(scenario, run);
  // Without a witness, and in another process.
  if (problem.empty()) {
    const output::RunResult again = output::decode_run(
        in_child([&] { return output::encode_run(sim::simulate(scenario, {})); }));
    if (again.digest != run.digest) problem = "another process orders otherwise";
  }
  tally.add(run);
  if (problem.empty()) return "";
  return fmt::format("{}\n{}", problem, yaml);
}

void run_seeds(std::uint64_t first, std::uint64_t seeds) {
  Tally tally;
  const auto problem_of = [&](std::uint64_t seed) { return problem_with(seed, tally); };
  const std::uint64_t count =
      batchflow::test::for_problems("test_world", "random faults", first, seeds, problem_of);
  if (count < 50) return;
  // A mixture in which nothing happens would prove nothing.
  for (const char* kind : {"node-lost", "worker-lost", "drive-lost", "drive-slow", "link-down",
                           "link-slow", "worker-slow", "corrupt-samples", "reads-failed"}) {
    CAPTURE(kind);
    CHECK(tally.struck[kind] >= count / 20);
  }
  CHECK(tally.jobs_done >= 9 * tally.jobs_refused);
  CHECK(tally.restarts >= count / 10);
  CHECK(tally.went_back >= count / 20);
}

}  // namespace

TEST_CASE("random faults") {
  run_seeds(1, 60);
}

TEST_SUITE("long") {
  TEST_CASE("two thousand random mixtures of faults") {
    run_seeds(1000, 2000);
  }
}

}  // namespace batchflow::test::random_faults_test
