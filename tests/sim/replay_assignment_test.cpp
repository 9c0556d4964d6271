// What jobs are taken to have trained on: by the shares and chances of the overlay, the same for
// the same seed, and with the same sizes in any part of a trace.
#include "sim/cluster_replay/assignment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/sim/replay_traces.h"

namespace batchflow::test::replay_assignment_test {

namespace {

// The chance that at least `hits` of n draws are hits, each with chance p (or at most, if these are
// fewer than expected).
double tail(std::uint64_t n, double p, std::uint64_t hits) {
  const auto chance_of = [&](std::uint64_t k) {
    const auto count = static_cast<double>(n);
    const auto many = static_cast<double>(k);
    return std::exp(std::lgamma(count + 1) - std::lgamma(many + 1) - std::lgamma(count - many + 1) +
                    many * std::log(p) + (count - many) * std::log1p(-p));
  };
  const bool above = static_cast<double>(hits) > p * static_cast<double>(n);
  double sum = 0;
  for (std::uint64_t k = above ? hits : 0; k <= (above ? n : hits); ++k) sum += chance_of(k);
  return sum;
}

// A count beyond this is not chance.
constexpr double kUnlikely = 1e-6;

void check_chance(std::uint64_t n, double p, std::uint64_t hits) {
  CAPTURE(n);
  CAPTURE(hits);
  CHECK(tail(n, p, hits) > kUnlikely);
}

bool same(const sim::AssignedJob& a, const sim::AssignedJob& b) {
  return a.gpus == b.gpus && a.variant == b.variant && a.compute == b.compute &&
         a.samples_per_s == b.samples_per_s;
}

const char* kShares =
    "reuse: 0\npopularity: 1\nsame_pipeline: 25%\nclasses:\n"
    "  - {name: a, share: 3, samples_per_s: 10, dataset: {count: 4, samples: 1000, bytes: 1kb}}\n"
    "  - {name: b, share: 1, samples_per_s: 20, dataset: {count: 1, samples: 9000, bytes: 1kb}}\n";

}  // namespace

TEST_CASE("the bounds notice a chance that is a little off") {
  CHECK(tail(10, 0.5, 10) == doctest::Approx(std::pow(0.5, 10)));
  CHECK(tail(10, 0.5, 0) == doctest::Approx(std::pow(0.5, 10)));
  CHECK(tail(20'000, 0.75, 15'000) > 0.4);
  CHECK(tail(20'000, 0.75, 15'400) < kUnlikely);
}

// Logs without names of users or jobs have many jobs of the same second.
TEST_CASE("jobs without ids and users are drawn independently, and repeat no other job") {
  const input::OverlayModel overlay = input::read_overlay(input::load_overlay("mixed"));
  traces::JobTrace trace;
  trace.name = "nameless";
  for (int i = 0; i < 2000; ++i) {
    traces::JobRecord job;
    job.submit_ns = job.start_ns = 0;
    job.duration_ns = 3600 * traces::kNanosPerSecond;
    job.gpus_hundredths = 100;
    trace.jobs.push_back(job);
  }
  const sim::Assignment all = sim::assign(trace, overlay, 1);
  std::uint64_t repeated = 0, alike = 0;
  for (std::size_t i = 1; i < all.jobs.size(); ++i) {
    repeated += all.jobs[i].dataset == all.jobs[i - 1].dataset;
    alike += all.jobs[i].samples_per_s == all.jobs[i - 1].samples_per_s;
  }
  CHECK(alike == 0);
  CHECK(repeated < 300);  // by popularity alone; with reuse it would be 1,400
}

TEST_CASE("one seed, one assignment; another seed, another") {
  const traces::JobTrace trace = made_trace(2000, 7, 64);
  const input::OverlayModel overlay = input::read_overlay(input::load_overlay("mixed"));
  const sim::Assignment first = sim::assign(trace, overlay, 7);
  const sim::Assignment again = sim::assign(trace, overlay, 7);
  const sim::Assignment other = sim::assign(trace, overlay, 8);
  REQUIRE(first.jobs.size() == trace.jobs.size());
  std::size_t changed = 0;
  for (std::size_t i = 0; i < first.jobs.size(); ++i) {
    CHECK(same(first.jobs[i], again.jobs[i]));
    CHECK(first.jobs[i].dataset == again.jobs[i].dataset);
    CHECK(first.jobs[i].record == i);
    changed += !same(first.jobs[i], other.jobs[i]);
  }
  CHECK(changed > 1900);
  // What is not drawn: GPUs as recorded, and their time without the time in which they are taken to
  // have waited.
  for (const sim::AssignedJob& job : first.jobs) {
    const traces::JobRecord& record = trace.jobs[job.record];
    CHECK(job.gpus == std::max(1u, (record.gpus_hundredths + 99) / 100));
    CHECK(job.compute.count() ==
          std::llround(static_cast<double>(record.duration_ns) * overlay.busy));
    CHECK(job.passes * static_cast<double>(first.datasets[job.dataset].samples) ==
          doctest::Approx(job.samples_per_s * job.gpus * static_cast<double>(job.compute.count()) *
                          1e-9));
  }
}

TEST_CASE("classes, datasets and ways of preparing come as often as the overlay says") {
  const traces::JobTrace trace = made_trace(20'000, 30, 256);
  const input::OverlayModel overlay = overlay_of(kShares);
  for (const std::uint64_t seed : {1, 2, 3}) {
    const sim::Assignment assignment = sim::assign(trace, overlay, seed);
    std::uint64_t of_a = 0;
    std::uint64_t first_of_a = 0;
    std::uint64_t alike = 0;
    for (const sim::AssignedJob& job : assignment.jobs) {
      const sim::AssignedDataset& dataset = assignment.datasets[job.dataset];
      of_a += dataset.class_index == 0;
      first_of_a += dataset.class_index == 0 && dataset.number == 0;
      alike += job.variant == 0;
    }
    check_chance(assignment.jobs.size(), 0.75, of_a);
    check_chance(of_a, 1 / (1 + 1 / 2. + 1 / 3. + 1 / 4.), first_of_a);  // Zipf
    check_chance(assignment.jobs.size(), 0.25, alike);
    CHECK(assignment.datasets.size() == 5);
  }
}

TEST_CASE("a user trains on the same data again as often as the overlay says") {
  constexpr double kDatasets = 1000;
  const traces::JobTrace trace = made_trace(20'000, 30, 256);
  for (const double reuse : {0.2, 0.8}) {
    const input::OverlayModel overlay =
        one_class("popularity: 0\nreuse: " + std::to_string(reuse) + "\n",
                  "{count: 1000, samples: 1000, bytes: 1kb}");
    const sim::Assignment assignment = sim::assign(trace, overlay, 5);
    std::map<std::string, std::uint32_t> last;
    std::uint64_t later = 0;  // jobs of a user beside the first
    std::uint64_t again = 0;
    for (const sim::AssignedJob& job : assignment.jobs) {
      const std::string user(trace.text(trace.jobs[job.record].user));
      const auto [known, is_first] = last.emplace(user, job.dataset);
      later += !is_first;
      again += !is_first && known->second == job.dataset;
      known->second = job.dataset;
    }
    check_chance(later, reuse + (1 - reuse) / kDatasets, again);
  }
}

TEST_CASE("rules say which jobs a class takes") {
  const traces::JobTrace trace = made_trace(5000, 7, 256);
  const input::OverlayModel overlay = overlay_of(
      "reuse: 50%\nclasses:\n"
      "  - {name: large, share: 1000, when: {gpus_least: 4, gpus_most: 8}, samples_per_s: 1,\n"
      "     dataset: {samples: 10, bytes: 1}}\n"
      "  - {name: long, share: 1000, when: {lasts_least: 1h}, samples_per_s: 1,\n"
      "     dataset: {samples: 10, bytes: 1}}\n"
      "  - {name: of-one, share: 1000, when: {users: [user1]}, samples_per_s: 1,\n"
      "     dataset: {samples: 10, bytes: 1}}\n"
      "  - {name: rest, samples_per_s: 1, dataset: {samples: 10, bytes: 1}}\n");
  const sim::Assignment assignment = sim::assign(trace, overlay, 1);
  std::map<std::string, int> seen;
  for (const sim::AssignedJob& job : assignment.jobs) {
    const traces::JobRecord& record = trace.jobs[job.record];
    const std::string& name = overlay.classes[assignment.datasets[job.dataset].class_index].name;
    ++seen[name];
    if (name == "large") CHECK((record.gpus() >= 4 && record.gpus() <= 8));
    if (name == "long") CHECK(record.duration_ns >= 3600 * traces::kNanosPerSecond);
    if (name == "of-one") CHECK(trace.text(record.user) == "user1");
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("a dataset is as large in any part of a trace") {
  const traces::JobTrace whole = made_trace(3000, 14, 128);
  const input::OverlayModel overlay = input::read_overlay(input::load_overlay("vision"));
  const auto sizes = [&](const traces::JobTrace& trace) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> by_name;
    for (const sim::AssignedDataset& one : sim::assign(trace, overlay, 3).datasets) {
      by_name[{one.class_index, one.number}] = one.samples;
    }
    return by_name;
  };
  const auto of_whole = sizes(whole);
  CHECK(of_whole.size() > 20);
  for (const auto& [from, to] : {std::pair(0, 500), std::pair(1000, 1200), std::pair(2500, 3000)}) {
    traces::JobTrace part = whole;
    part.jobs.assign(whole.jobs.begin() + from, whole.jobs.begin() + to);
    // A user whose last job is cut off comes anew, and may pick what no other user did.
    std::size_t in_both = 0;
    for (const auto& [name, samples] : sizes(part)) {
      const auto known = of_whole.find(name);
      if (known == of_whole.end()) continue;
      CHECK(known->second == samples);
      ++in_both;
    }
    CHECK(in_both > 10);
  }
}

}  // namespace batchflow::test::replay_assignment_test
