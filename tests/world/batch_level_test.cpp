// The predecessor's batch-level simulator with one stored run, an exact golden (case 8 of the
// validation book), and what the engine does with the same four jobs.
//
// Its rules are few, and differ from the engine's: a miss makes the batch visible to all at once
// and costs the job that missed it a penalty on top of its step, so there is no single flight. So
// these rules are only here, and the engine's own counts are compared with their closed forms only.
#include <algorithm>
#include <array>
#include <list>
#include <map>

#include "tests/world/harness.h"

namespace batchflow::test::batch_level_test {

namespace {

constexpr std::size_t kJobs = 4;
// Seconds a batch of 128: resnet18, resnet50, vgg16, shufflenetv2.
constexpr std::array<double, kJobs> kSteps = {0.104419951, 0.33947309, 0.514980298, 0.062516984};

struct Stored {
  std::array<int, kJobs> hits{};
  std::array<double, kJobs> last_s{};
  int misses = 0;
  std::size_t held_most = 0;
};

// Each job takes batches 0, 1, ... one after another; `room` 0: as much as it takes.
Stored replay(int batches, std::size_t room) {
  Stored run;
  std::map<int, std::list<int>::iterator> held;
  std::list<int> recent;            // of these, the least recently used first
  std::map<int, unsigned> readers;  // of each batch, whether held or not
  std::array<double, kJobs> next = kSteps;
  std::array<int, kJobs> at{};
  const auto leave = [&](int batch) {
    recent.erase(held.at(batch));
    held.erase(batch);
  };
  for (;;) {
    std::size_t job = kJobs;
    for (std::size_t i = 0; i < kJobs; ++i) {
      if (at[i] < batches && (job == kJobs || next[i] < next[job])) job = i;
    }
    if (job == kJobs) return run;
    const int batch = at[job]++;
    run.last_s[job] = next[job];
    const bool hit = held.contains(batch);
    if (hit) {
      ++run.hits[job];
      recent.splice(recent.end(), recent, held.at(batch));
    } else {
      ++run.misses;
      if (room > 0 && held.size() == room) leave(recent.front());
      recent.push_back(batch);
      held[batch] = std::prev(recent.end());
    }
    next[job] += kSteps[job] + (hit ? 0 : 0.2);
    run.held_most = std::max(run.held_most, held.size());
    readers[batch] |= 1u << job;
    if (readers[batch] == (1u << kJobs) - 1) leave(batch);
  }
}

}  // namespace

TEST_CASE("case 8, the stored run of the batch-level simulator, to the last digit it prints") {
  const Stored run = replay(1000, 0);
  CHECK(run.hits == std::array<int, kJobs>{605, 1000, 1000, 395});
  CHECK(run.misses == 1000);
  CHECK(run.held_most == 645);  // 1000 - floor(183.317 / .51498)
  constexpr std::array<double, kJobs> kLast = {183.420, 339.473, 514.980, 183.317};
  for (std::size_t i = 0; i < kJobs; ++i) {
    CHECK(run.last_s[i] == doctest::Approx(kLast[i]).epsilon(1e-5));
  }
}

TEST_CASE("case 8, the same with room for 255 batches and plain LRU") {
  const Stored run = replay(1000, 255);
  int hits = 0;
  for (const int count : run.hits) hits += count;
  CHECK(hits == 2152);
  CHECK(run.misses == 1848);
  CHECK(*std::max_element(run.last_s.begin(), run.last_s.end()) ==
        doctest::Approx(551.980).epsilon(1e-5));
}

TEST_CASE("case 8, the engine with the same jobs prepares each batch once, and none waits") {
  // Room for all; one of eight workers makes a batch in .2 s.
  std::string jobs;
  for (const double step : kSteps) {
    jobs += fmt::format(
        "  - {{dataset: data, pipeline: train, batch: 8, step: {}us, "
        "order: strict, shuffle_seed: 1}}\n",
        std::llround(step * 1e6));
  }
  const output::RunResult run = simulate_text(
      "cluster: {nodes: [{name: node, cores: 8, gpus: 4, memory: 1gb}]}\n"
      "datasets: [{name: data, samples: 8000, bytes: 1000}]\n"
      "pipelines: [{name: train, steps: [{name: work, random: true, cost: 25ms, output: 1000}]}]\n"
      "jobs:\n" +
      jobs +
      "grain: {items_per_block: 8}\n"
      "engine: {policies: {allocation: 'equal:forms=prepared', scaling: 'static:depth=16'}}\n");
  CHECK(run.aggregate.preparations == 8000);
  CHECK(run.makespan_s == doctest::Approx(0.2 + 514.980).epsilon(1e-3));
  for (std::size_t i = 0; i < kJobs; ++i) {
    CHECK(run.jobs[i].stall_s == doctest::Approx(0.2).epsilon(0.01));
  }
}

}  // namespace batchflow::test::batch_level_test
