// Sanity checks of several jobs: what they share, and what they pay when they do not share.
#include "tests/world/harness.h"
#include "tests/world/witness.h"

namespace batchflow::test::sharing_test {

namespace {

// Jobs of one speed or several on one node, blocks and batches of 8 of `n` samples.
struct Crowd {
  int n = 800;
  std::string steps = "[{name: work, random: true, cost: 1ms}]";
  std::vector<std::string> jobs = {};
  std::string store = "{}";
  std::string cores = "8";
  std::vector<std::string> set = {};
  std::string memory = "1gb";

  output::RunResult run() const {
    Small small;
    small.samples = static_cast<std::uint64_t>(n);
    small.node = fmt::format("cores: {}, gpus: 16, memory: {}", cores, memory);
    small.store = store;
    small.steps = steps;
    small.jobs = jobs;
    small.more = "grain: {items_per_block: 8}\nengine: {preset: default}\n";
    small.set = set;
    return simulate_small(small);
  }
};

std::vector<std::string> equal_jobs(int count, const std::string& job) {
  return {fmt::format("count: {}, {}", count, job)};
}

}  // namespace

TEST_CASE("check 13, single flight: N jobs on a cold dataset read and prepare it once") {
  for (const int jobs : {1, 2, 5, 8}) {
    CAPTURE(jobs);
    Crowd crowd;
    crowd.store = "{latency: 1ms, operations_ahead: 4}";
    crowd.jobs = equal_jobs(jobs, "batch: 8, step: 20ms");
    const output::RunResult run = crowd.run();
    CHECK(run.aggregate.samples_read == 800);
    CHECK(run.aggregate.preparations == 800);
  }
}

TEST_CASE("check 13, without sharing: N jobs prepare N times, and read N times without a cache") {
  for (const int jobs : {1, 3}) {
    CAPTURE(jobs);
    Crowd crowd;
    crowd.store = "{latency: 1ms, operations_ahead: 4}";
    crowd.jobs = equal_jobs(jobs, "batch: 8, step: 20ms");
    crowd.set = {"engine.preset=independent",
                 "engine.policies={allocation: 'equal:forms=prepared'}"};
    const output::RunResult run = crowd.run();
    const auto times = static_cast<std::uint64_t>(jobs);
    CHECK(run.aggregate.preparations == times * 800);
    // Each job shuffles for itself; a sample that two jobs have under way at once is read once.
    CHECK(run.aggregate.samples_read <= times * 800);
    CHECK(run.aggregate.samples_read >= times * 800 - 800 * (times - 1) / 5);
  }
}

TEST_CASE("check 15, coordinated preparation: T = n max(g, p/w), uncoordinated n max(g, J p/w)") {
  // n = 1000 blocks, p = 0.4 s, g = 0.1 s, J = 4; the fill is one preparation and no more.
  for (const auto& [workers, together_s, alone_s] :
       {std::tuple{4, 100.0, 400.0}, {8, 100.0, 200.0}}) {
    CAPTURE(workers);
    Crowd crowd;
    crowd.n = 8000;
    crowd.cores = fmt::format("{}", workers);
    crowd.steps = "[{name: work, random: true, cost: 50ms}]";
    crowd.jobs = equal_jobs(4, "batch: 8, step: 100ms, order: strict, shuffle_seed: 1");
    crowd.set = {
        "engine.policies={scaling: 'static:depth=16', allocation: 'equal:forms=prepared'}"};
    const output::RunResult together = crowd.run();
    CHECK(together.aggregate.preparations == 8000);
    CHECK(together.makespan_s >= together_s);
    CHECK(together.makespan_s <= together_s + 0.4 + 0.1);
    crowd.set.push_back("engine.share_streams=false");
    const output::RunResult alone = crowd.run();
    CHECK(alone.aggregate.preparations == 4 * 8000);
    CHECK(alone.makespan_s >= alone_s);
    CHECK(alone.makespan_s <= alone_s * 1.01 + 0.5);
  }
}

TEST_CASE("check 16, J jobs on W cores get W / (J P) batches a second each") {
  // P = 80 ms a batch, W = 4 cores, J = 5 jobs that would train 100 batches a second each.
  Crowd crowd;
  crowd.cores = "4";
  crowd.steps = "[{name: work, random: true, cost: 10ms}]";
  crowd.jobs = equal_jobs(5, "batch: 8, step: 10ms");
  crowd.set = {"engine.share_streams=false"};
  const output::RunResult run = crowd.run();
  for (const output::JobResult& job : run.jobs) {
    CHECK(static_cast<double>(job.batches) / job.time_s ==
          doctest::Approx(4 / (5 * 0.08)).epsilon(0.02));
  }
}

TEST_CASE("check 14, bounded lag: the fast job is held to the slow one's pace after the window") {
  // t_f = 0.10 s, t_s = 0.33 s, lag of W batches: the fast job ends batch k at (k - W) t_s + t_f
  // once k > (W t_s - t_f) / (t_s - t_f); its stall after n is n (t_s - t_f) - W t_s + t_f.
  for (const auto& [n, window, end_s, stall_s] :
       {std::tuple{100, 10, 29.8, 19.8}, {1000, 32, 319.54, 219.54}, {100, 80, 10.0, 0.0}}) {
    CAPTURE(window);
    Crowd crowd;
    crowd.n = 8 * n;
    crowd.steps = "[]";
    // With one credit a rank has been granted only the batch that it trains on: the slow job is one
    // batch ahead of what it has ended, so that a lag of W - 1 there is a lag of W here.
    crowd.jobs = {"batch: 8, step: 100ms, order: sequential, credits: 1",
                  "batch: 8, step: 330ms, order: sequential, credits: 1"};
    crowd.set = {
        fmt::format("engine.policies={{dispatch: 'bounded-lag:blocks={}', "
                    "scaling: 'static:depth=1'}}",
                    window - 1)};
    const output::RunResult run = crowd.run();
    CHECK(run.jobs[0].ended_s == exactly(end_s));
    CHECK(run.jobs[0].stall_s == exactly(stall_s));
    CHECK(run.jobs[1].ended_s == exactly(0.33 * n));  // the slow one never waits
  }
}

TEST_CASE("check 23, more bandwidth, workers or window never lengthen a run under FIFO") {
  // More cache: cache_test.cpp. Jobs that share blocks may take them in another order when there is
  // more of a resource, and end a little later for it: by less than one step.
  for (const auto& [second, slack_s] : {std::pair{"", 0.0}, {"batch: 16, step: 50ms", 0.05}}) {
    CAPTURE(second);
    Crowd crowd;
    crowd.n = 1600;
    crowd.steps = "[{name: work, random: true, cost: 5ms}]";
    crowd.jobs = {"batch: 8, step: 20ms, epochs: 2"};
    if (*second != '\0') crowd.jobs.push_back(fmt::format("{}, epochs: 2", second));
    crowd.set = {"engine.policies={dispatch: fifo}"};
    const auto never_longer = [&, slack = slack_s](std::string& part,
                                                   const std::vector<std::string>& growing) {
      double before = 1e9;
      for (const std::string& value : growing) {
        CAPTURE(value);
        part = value;
        const double makespan_s = crowd.run().makespan_s;
        CHECK(makespan_s <= before + slack);
        before = makespan_s;
      }
    };
    never_longer(crowd.store, {"{bytes_per_s: 50kb}", "{bytes_per_s: 100kb}",
                               "{bytes_per_s: 200kb}", "{bytes_per_s: 1mb}"});
    // Without a store to share. With room for more, more is read at once, and the first of it comes
    // later.
    crowd.store = "{}";
    never_longer(crowd.cores, {"1", "2", "4", "8"});
    crowd.cores = "1";
    never_longer(crowd.memory, {"72kb", "100kb", "300kb", "5mb"});
  }
}

TEST_CASE("check 22, in the middle of a run nothing is lost either, and no cache is overfull") {
  // Memory for 20 of 100 blocks; the run is cut at arbitrary times. Memory over its limits would be
  // a BF_CHECK of the engine's consistency check, which runs after each step.
  for (const char* cut : {"", "ends_after: 300ms\n", "ends_after: 1234567us\n"}) {
    CAPTURE(cut);
    Small small;
    small.samples = 800;
    small.node = "cores: 2, gpus: 2, memory: 160kb";
    small.store = "{bytes_per_s: 1mb}";
    small.steps = "[{name: work, random: true, cost: 1ms}]";
    small.jobs = {"batch: 8, step: 20ms, epochs: 2", "batch: 12, step: 30ms, epochs: 2"};
    small.more = fmt::format("grain: {{items_per_block: 8}}\n{}", cut);
    const input::Scenario scenario = scenario_of(small.yaml());
    const Watched watched = simulate_watched(scenario);
    CHECK(watched.violation == "");
    check_conservation(scenario, watched.run);
    const output::Aggregate& sum = watched.run.aggregate;
    CHECK(sum.storage_bytes == sum.samples_read * 1000);  // bytes read = misses x size
    if (*cut == '\0') CHECK(sum.samples == 2 * 2 * 800);
  }
}

TEST_CASE("jobs of different speeds are not held back where cores suffice") {
  Crowd crowd;
  crowd.n = 4096;
  crowd.jobs = {"name: a, batch: 8, step: 62500us, epochs: 2", "name: b, batch: 8, step: 104ms",
                "name: c, batch: 8, step: 339ms", "name: d, batch: 8, step: 515ms"};
  const output::RunResult run = crowd.run();
  for (const output::JobResult& job : run.jobs) {
    CAPTURE(job.name);
    CHECK(job.compute_s / job.time_s >= 0.95);  // of its ideal
  }
}

TEST_CASE("a job that leaves early takes nothing with it, and the others end as they would") {
  Crowd crowd;
  crowd.jobs = {"name: stays, batch: 8, step: 20ms, epochs: 2",
                "name: leaves, batch: 8, step: 20ms, epochs: 50, leaves_after: 1s"};
  const output::RunResult run = crowd.run();
  CHECK(run.jobs[0].state == "done");
  CHECK(run.jobs[1].state == "left");
  CHECK(run.jobs[1].time_s == exactly(1));
  // Its first batch comes after 8 ms of preparation; then it has time for 49.6 steps, and takes 49.
  CHECK(run.jobs[1].batches == 49);
}

TEST_CASE("nothing is prepared for epochs that a job will not have, however far it looks ahead") {
  for (const char* order : {"strict", "sequential", "relaxed"}) {
    for (const int epochs : {1, 2, 5}) {
      CAPTURE(order);
      CAPTURE(epochs);
      Crowd crowd;
      crowd.n = 32;
      crowd.jobs = {fmt::format("batch: 8, step: 20ms, order: {}, epochs: {}", order, epochs)};
      crowd.set = {"engine.policies.scaling='static:depth=64'"};
      CHECK(crowd.run().aggregate.preparations == 32 * static_cast<std::uint64_t>(epochs));
    }
  }
}

TEST_CASE("jobs wait for GPUs in the order they came") {
  Crowd crowd;
  crowd.jobs = {"name: a, ranks: 16, batch: 8, step: 100ms",
                "name: b, ranks: 1, batch: 8, step: 100ms",
                "name: c, ranks: 16, batch: 8, step: 100ms"};
  const output::RunResult run = crowd.run();
  CHECK(run.jobs[0].started_s == 0);
  CHECK(run.jobs[1].started_s == exactly(run.jobs[0].ended_s));
  CHECK(run.jobs[2].started_s == exactly(run.jobs[1].ended_s));
}

TEST_CASE("a job for which there is no room is refused with the figures") {
  Crowd crowd;
  crowd.memory = "10kb";
  crowd.jobs = {"batch: 8, step: 100ms"};
  const output::RunResult run = crowd.run();
  CHECK(run.jobs[0].state == "refused");
  CHECK(run.jobs[0].refusal == "it needs 16000 bytes of the cache and 10000 are free");
}

// One worker makes a block in 80 ms, and two jobs of their own seeds ask for one each 100 ms.
TEST_CASE("a job that may wait lets others go first where preparation is short") {
  const auto stalls = [](const std::string& target) {
    Crowd crowd;
    crowd.cores = "1";
    crowd.steps = "[{name: work, random: true, cost: 10ms}]";
    const std::string job = "batch: 8, step: 100ms, order: strict, epochs: 2, ";
    crowd.jobs = {job + "shuffle_seed: 1", job + "shuffle_seed: 2, latency_target: " + target};
    crowd.set = {"engine.policies.dispatch=batchflow"};
    const output::RunResult run = crowd.run();
    return std::pair(run.jobs[0].stall_s / run.jobs[0].time_s,
                     run.jobs[1].stall_s / run.jobs[1].time_s);
  };
  const auto [first, second] = stalls("0s");
  CHECK(first == doctest::Approx(second).epsilon(0.1));
  const auto [served, waits] = stalls("1s");
  CHECK(served < first / 2);
  CHECK(waits > second);
}

}  // namespace batchflow::test::sharing_test
