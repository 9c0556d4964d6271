// Sources that grow, against theory: queues, losses, and what becomes of every record.
#include <cmath>
#include <numeric>
#include <set>

#include "policies/registry.h"
#include "sim/world/chance.h"
#include "sim/world/world.h"
#include "tests/temporary_folder.h"
#include "tests/world/harness.h"

namespace batchflow::test::live_world_test {

namespace {

using Fate = world::LiveSource::Fate;

std::string yaml(const std::string& live, const std::vector<std::string>& jobs,
                 const std::string& samples = "1000000", const std::string& more = "") {
  std::string text = fmt::format(
      "cluster: {{nodes: [{{name: n, cores: 4, gpus: 8, memory: 4gb}}], store: {{}}}}\n"
      "datasets: [{{name: clicks, samples: {}, bytes: 1000, live: {{{}}}}}]\n"
      "pipelines: [{{name: train, steps: []}}]\njobs:\n",
      samples, live);
  for (const std::string& job : jobs)
    text += fmt::format("  - {{dataset: clicks, pipeline: train, {}}}\n", job);
  return text + more;
}

// A run, and what a test asks of its world when it is over.
struct Seen {
  output::RunResult run;
  std::string told;
};
Seen simulate_live(const std::string& text,
                   const std::function<std::string(const world::World&)>& ask = {}) {
  const input::Scenario scenario = scenario_of(text);
  const std::string both = in_child([&] {
    world::World world(scenario, policies::policy_list(), {});
    const output::RunResult run = world.run();
    return output::encode_run(run) + "\n" + (ask ? ask(world) : "");
  });
  const std::size_t cut = both.find('\n');
  Seen seen{output::decode_run(both.substr(0, cut)), both.substr(cut + 1)};
  CHECK(seen.run.failure.empty());
  CHECK(seen.run.protocol_errors == 0);
  CHECK(seen.run.aggregate.repeats == 0);
  REQUIRE(seen.run.sources.size() == 1);
  return seen;
}

}  // namespace

namespace {

// In nanoseconds, by Lindley's recursion over the times at which records were made.
double mean_wait(const world::LiveSource& source, Duration step) {
  double sum = 0;
  Duration wait{0};
  for (std::uint64_t i = 0; i < source.end(); ++i) {
    if (i > 0) {
      const Duration apart = source.made_at(SampleId(i)) - source.made_at(SampleId(i - 1));
      wait = std::max(Duration(0), wait + step - apart);
    }
    sum += static_cast<double>(wait.count());
  }
  return sum / static_cast<double>(source.end());
}

}  // namespace

// One rank with batches of one record is a server that takes `step` for each. With arrivals that do
// not depend on one another the mean wait is rho * step / (2 * (1 - rho)), rho = rate * step
// (Pollaczek and Khinchine). Waits of a queue are correlated: over n records their mean deviates by
// about wait * sqrt(2 * (1 + rho) / (n * (1 - rho)^2)) (Daley 1968, to first order); five of these
// are allowed.
TEST_CASE("records that come by chance wait for a job as in an M/D/1 queue") {
  for (const double rho : {0.3, 0.6, 0.8}) {
    CAPTURE(rho);
    const double step_s = 0.01;
    const std::uint64_t records = 20'000;
    const Seen seen =
        simulate_live(yaml(fmt::format("per_s: {}, sync: 0s", rho / step_s),
                           {"batch: 1, step: 10ms, live: {fill: none}"}, std::to_string(records)),
                      [](const world::World& world) {
                        const world::LiveSource& source = *world.live().find(DatasetId(1));
                        return std::to_string(mean_wait(source, std::chrono::milliseconds(10)));
                      });
    const output::RunResult& run = seen.run;
    CHECK(run.jobs[0].live.lag_mean_s * 1e9 == doctest::Approx(std::stod(seen.told)).epsilon(1e-9));
    CHECK(run.jobs[0].state == "done");
    CHECK(run.jobs[0].samples == records);
    CHECK(run.jobs[0].rehearsed == 0);
    const double wait_s = rho * step_s / (2 * (1 - rho));
    const double deviation =
        wait_s * std::sqrt(2 * (1 + rho) / (static_cast<double>(records) * (1 - rho) * (1 - rho)));
    CHECK(std::abs(run.jobs[0].live.lag_mean_s - wait_s) < 5 * deviation);
    // It computes for rho of the time, and waits for records otherwise.
    CHECK(run.jobs[0].compute_s == doctest::Approx(static_cast<double>(records) * step_s));
    CHECK(run.jobs[0].compute_s / run.jobs[0].time_s == doctest::Approx(rho).epsilon(0.03));
  }
}

TEST_CASE("the arrivals of each process come at their rate") {
  const auto made = [](const std::string& live) {
    return static_cast<double>(
        simulate_live(yaml(live + ", ends_after: 100s", {"batch: 100, step: 1ms"}))
            .run.sources[0]
            .made);
  };
  CHECK(made("arrivals: even, per_s: 100") == 10'000);
  CHECK(std::abs(made("per_s: 100") - 10'000) < 5 * std::sqrt(10'000.));
  // About 100 bursts: their number and their lengths vary, each by as much as it is itself.
  const double bursts = made("arrivals: bursts, per_s: 200, burst: 500ms, pause: 500ms");
  CHECK(std::abs(bursts - 10'000) < 5 * 10'000 * std::sqrt(0.5 / 100));
}

TEST_CASE("rates come from a file, and an end of it is the end of the source") {
  const TemporaryFolder folder;
  const std::string file =
      folder.file("rates.csv", "# time, records a second\n0,100\n10,0\n20,300\n30,0\n");
  const output::RunResult run =
      simulate_live(yaml(fmt::format("arrivals: recorded, recorded: {}", file),
                         {"batch: 10, step: 1ms, live: {fill: none}"}))
          .run;
  CHECK(run.jobs[0].state == "done");
  CHECK(run.makespan_s > 29);
  CHECK(run.makespan_s < 30.1);
  CHECK(std::abs(static_cast<double>(run.sources[0].made) - 4000) < 5 * std::sqrt(4000.));
}

TEST_CASE("just the records are lost that chance says, and no other") {
  constexpr double kLost = 0.07;
  constexpr std::uint64_t kRecords = 20'000;
  const Seen seen = simulate_live(
      yaml("per_s: 5000, lost: 7%, lag: 3ms, lag_jitter: 1", {"batch: 16, step: 1ms"},
           std::to_string(kRecords)),
      [](const world::World& world) {
        std::uint64_t wrong = 0;
        const std::vector<Fate>& fates = world.live().find(DatasetId(1))->fates();
        for (std::uint32_t key = 0; key < fates.size(); ++key) {
          const bool lost = world::chance_of(1, world::Chance::record_lost, 1u, key).unit() < kLost;
          wrong += lost != (fates[key] == Fate::lost);
        }
        return std::to_string(wrong);
      });
  CHECK(seen.told == "0");
  const output::SourceResult& source = seen.run.sources[0];
  CHECK(source.made == kRecords);
  CHECK(source.taken == kRecords - source.lost);
  CHECK(std::abs(static_cast<double>(source.lost) - kLost * kRecords) <
        5 * std::sqrt(kRecords * kLost * (1 - kLost)));
  CHECK(seen.run.jobs[0].samples == source.taken);
}

namespace {

// Each record that was made is lost, late, thinned or waiting, or has a number in the log of its
// own. A job has each number from where it begins to where it ends once. Empty, or what is wrong.
std::string audit(const world::LiveSource& source, const std::vector<std::vector<SampleId>>& had,
                  std::uint64_t& waiting) {
  std::set<std::uint32_t> taken;
  for (const std::uint32_t key : source.keys()) {
    if (!taken.insert(key).second) return fmt::format("key {} was taken twice", key);
    if (source.fates()[key] != Fate::taken) return fmt::format("key {} was not taken", key);
  }
  std::uint64_t others = 0;
  for (std::uint32_t key = 0; key < source.fates().size(); ++key) {
    const Fate fate = source.fates()[key];
    if ((fate == Fate::taken) != (taken.count(key) == 1)) return fmt::format("key {} is gone", key);
    if (fate != Fate::taken) ++others;
  }
  if (others + taken.size() != source.fates().size()) return "records are not all there";
  waiting = 0;
  for (const std::vector<SampleId>& records : had) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (records[i].value != records.front().value + i)
        return fmt::format("record {} came as number {}", records[i].value, i);
    }
    waiting += source.keys().size() - (records.empty() ? 0 : records.back().value + 1);
  }
  return "";
}

}  // namespace

TEST_CASE("what is made is delivered, thinned, lost, late or waiting, record by record") {
  const char* kSources[] = {
      "per_s: 3000, ends_after: 10s",
      "per_s: 3000, ends_after: 10s, lost: 10%, lag: 20ms, lag_jitter: 2, late_after: 100ms",
      "per_s: 3000, ends_after: 10s, lost: 1%, keep: 4mb, can_wait: false",
      "arrivals: bursts, per_s: 9000, burst: 300ms, pause: 600ms, ends_after: 10s, keep: 4mb",
  };
  for (const char* live : kSources) {
    CAPTURE(live);
    // Records that each job has trained on, of batches in the order of their steps.
    std::map<std::uint32_t, std::vector<SampleId>> had;
    const std::string text =
        yaml(live,
             {"name: quick, batch: 16, ranks: 2, step: 4ms, live: {wait: 20ms}",
              "name: slow, batch: 20, step: 10ms, live: {fill: none}",
              "name: late, batch: 8, step: 2ms, arrives: 3s, live: {begin: newest}"},
             "1000000", "ends_after: 12s\n");
    const input::Scenario scenario = scenario_of(text);
    const std::string told = in_child([&]() -> std::string {
      world::World world(scenario, policies::policy_list(), {});
      std::map<std::pair<std::uint32_t, std::uint64_t>, std::map<Rank, std::vector<SampleId>>>
          steps;
      world.decide_by([&](Instant now, std::span<const engine::Event> events) {
        const auto commands = world.engine().step(now, events);
        for (const engine::Command& command : commands) {
          const auto* deliver = std::get_if<engine::Deliver>(&command);
          if (deliver == nullptr) continue;
          std::vector<SampleId>& mine = steps[{deliver->job.value, deliver->step}][deliver->rank];
          mine.clear();
          std::size_t at = 0;
          for (const order::Slice& slice : deliver->slices) {
            for (std::uint32_t i = slice.from; i < slice.to; ++i, ++at) {
              if (!slice.rehearsed && !slice.filler) mine.push_back(deliver->samples[at]);
            }
          }
        }
        return commands;
      });
      const output::RunResult run = world.run();
      std::vector<std::vector<SampleId>> all(3);
      for (const auto& [at, ranks] : steps) {
        std::vector<SampleId>& mine = all[at.first];
        for (const auto& [rank, records] : ranks)
          mine.insert(mine.end(), records.begin(), records.end());
      }
      std::uint64_t waiting = 0;
      const std::string problem = audit(*world.live().find(DatasetId(1)), all, waiting);
      if (!problem.empty()) return problem;
      const output::SourceResult& source = run.sources[0];
      if (source.made != source.lost + source.late + source.thinned + source.taken + source.waiting)
        return "counts do not add up";
      for (std::size_t i = 0; i < 2; ++i) {
        if (all[i].empty() || all[i].front().value != 0)
          return "a job does not begin with record 0";
        if (run.jobs[i].samples > all[i].size()) return "a job has more than it was handed";
      }
      return output::encode_run(run);
    });
    REQUIRE_MESSAGE(told.starts_with("{"), told);
    const output::RunResult run = output::decode_run(told);
    const output::SourceResult& source = run.sources[0];
    const std::string_view what = live;
    CHECK((source.lost > 0) == (what.find("lost") != std::string_view::npos));
    CHECK((source.late > 0) == (what.find("late_after") != std::string_view::npos));
    CHECK((source.thinned > 0) == (what.find("can_wait: false") != std::string_view::npos));
    CHECK((source.waiting_most > 0) == (what.find("bursts") != std::string_view::npos));
  }
}

TEST_CASE(
    "a slow source holds a job up no longer than it asked for, and fills are from its window") {
  const output::RunResult run =
      simulate_live(
          yaml("arrivals: even, per_s: 100, ends_after: 20s, classes: 4, class_every: 500",
               {"batch: 10, step: 10ms, live: {wait: 30ms, window: 200}"}))
          .run;
  const output::JobResult& job = run.jobs[0];
  CHECK(job.samples == 2000);
  // A batch has what came in 40 ms, four records; the others fill it.
  CHECK(static_cast<double>(job.rehearsed) ==
        doctest::Approx(1.5 * static_cast<double>(job.samples)).epsilon(0.01));
  CHECK(job.stall_s / job.time_s == doctest::Approx(0.75).epsilon(0.01));
  CHECK(job.live.lag_p99_s < 0.0415);
  // The last 200 records are of the last class, and took two seconds to come.
  CHECK(job.buffer.exemplars == 200);
  CHECK(job.buffer.classes == 1);
  CHECK(job.buffer.age == doctest::Approx(0.05).epsilon(0.01));
  CHECK(job.live.fill_age_s == doctest::Approx(1.0).epsilon(0.06));
}

// The first step has 10 records, and each later one 6; 4 are left for the last.
TEST_CASE("a job that rehearses has so many fills in each batch, however fast its source is") {
  for (const char* per_s : {"100000", "500"}) {
    CAPTURE(per_s);
    const output::RunResult run =
        simulate_live(yaml(fmt::format("arrivals: even, per_s: {}", per_s),
                           {"batch: 10, step: 5ms, live: {wait: 1s, rehearsed: 4}"}, "2000"))
            .run;
    CHECK(run.jobs[0].samples == 2000);
    CHECK(run.jobs[0].rehearsed == 331 * 4);
  }
}

// The log has room for fewer than all: those that it has dropped are among the exemplars, too.
TEST_CASE("a job may rehearse from a uniform choice of all that it has had") {
  const output::RunResult run =
      simulate_live(yaml("arrivals: even, per_s: 2000, keep: 2mb",
                         {"batch: 10, step: 5ms, live: {wait: 1s, rehearsed: 4, exemplars: 400}"},
                         "20000"))
          .run;
  CHECK(run.jobs[0].samples == 20'000);
  CHECK(run.jobs[0].rehearsed == 3331 * 4);
  CHECK(run.jobs[0].buffer.exemplars == 400);
  // Evenly old, with a deviation of 0.29 / sqrt(400).
  CHECK(run.jobs[0].buffer.age == doctest::Approx(0.5).epsilon(0.12));
  // A record of 1,045 bytes, and the head of a file of 97, come when the log is nearly full.
  CHECK(run.sources[0].kept_bytes_most < 2'000'000 + 1'045 + 97);
}

// 4 MB / 4 / (1000 + 64) records.
TEST_CASE("a job fills steps from no more records than take a quarter of the log") {
  const Seen seen =
      simulate_live(yaml("per_s: 1000, ends_after: 10s, keep: 4mb, can_wait: false",
                         {"batch: 16, step: 4ms, live: {wait: 4ms, window: 100000}"}));
  CHECK(seen.run.jobs[0].buffer.exemplars == 939);
  CHECK(seen.run.sources[0].thinned == 0);
  CHECK(seen.run.sources[0].kept_bytes_most < 3'000'000);
}

TEST_CASE("the same seed gives the same commands, and another seed others") {
  const auto digest = [](const char* seed) {
    return simulate_live(
               yaml("arrivals: bursts, per_s: 2000, burst: 100ms, pause: 100ms, lost: 2%, "
                    "lag: 5ms, lag_jitter: 1, keep: 1mb, can_wait: false",
                    {"batch: 16, step: 10ms, live: {wait: 20ms}"}, "5000",
                    fmt::format("seed: {}\n", seed)))
        .run.digest;
  };
  const std::string first = digest("1");
  CHECK(digest("1") == first);
  CHECK(digest("2") != first);
}

TEST_CASE("a job of a live source goes on after the loss of its node, and has every record once") {
  const output::RunResult run =
      simulate_live(
          "cluster: {nodes: [{name: n, count: 2, cores: 2, gpus: 1, memory: 1gb}], store: {}}\n"
          "datasets: [{name: clicks, samples: 4000, bytes: 1000, live: {per_s: 1000}}]\n"
          "pipelines: [{name: train, steps: []}]\n"
          "jobs: [{dataset: clicks, pipeline: train, ranks: 2, batch: 8, step: 5ms}]\n"
          "faults: [{kind: node-lost, target: n-1, at: 1s, lasts: 500ms}]\n")
          .run;
  CHECK(run.jobs[0].restarts == 1);
  CHECK(run.jobs[0].state == "done");
  CHECK(run.jobs[0].samples == 4000);
}

// It comes when 1,000 records are there, and goes on behind its last step, not at the newest.
TEST_CASE("a job that began with the newest record goes on where it was after a loss") {
  const output::RunResult run =
      simulate_live(
          "cluster: {nodes: [{name: n, count: 2, cores: 2, gpus: 1, memory: 1gb}], store: {}}\n"
          "datasets: [{name: clicks, samples: 4000, bytes: 1000, "
          "live: {arrivals: even, per_s: 1000, sync: 0s}}]\n"
          "pipelines: [{name: train, steps: []}]\n"
          "jobs: [{dataset: clicks, pipeline: train, ranks: 2, batch: 8, step: 5ms, "
          "arrives: 1000500us, live: {begin: newest}}]\n"
          "faults: [{kind: node-lost, target: n-1, at: 2s, lasts: 500ms}]\n")
          .run;
  CHECK(run.jobs[0].restarts == 1);
  CHECK(run.jobs[0].state == "done");
  CHECK(run.jobs[0].samples == 3000);
}

}  // namespace batchflow::test::live_world_test
