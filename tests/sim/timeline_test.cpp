// The timeline of a run, read as a viewer reads it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::timeline_test {

namespace {

using nlohmann::json;
using sim::can_simulate;
using TrackId = std::pair<int, int>;  // process, thread

// Two nodes and ranks on both, batches that cross blocks, and a store behind links.
std::string scenario() {
  return "name: two nodes\n"
         "cluster:\n"
         "  nodes: [{name: node, count: 2, cores: 2, gpus: 3, memory: 1gb, nic_bytes_per_s: 10mb,"
         " pcie_bytes_per_s: 20mb}]\n"
         "  store: {bytes_per_s: 5mb, latency: 1ms}\n"
         "datasets: [{name: data, samples: 960, bytes: 10kb}]\n"
         "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]\n"
         "jobs:\n"
         "- {name: 'a \"b\"', dataset: data, pipeline: train, batch: 24, step: 20ms, ranks: 2,"
         " epochs: 2, nodes: [node-0, node-1], step_jitter: 0.2}\n"
         "- {name: c, dataset: data, pipeline: train, batch: 16, step: 15ms, epochs: 2}\n"
         "- {name: leaves, dataset: data, pipeline: train, batch: 16, step: 15ms, arrives: 100ms,"
         " leaves_after: 307ms}\n"
         "grain: {items_per_block: 16}\n";
}

// Nanoseconds, exactly: the file has three digits after the point.
std::int64_t ns(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

struct Slice {
  std::int64_t from;
  std::int64_t to;
  std::string name;
};

struct Timeline {
  json whole;
  std::map<TrackId, std::string> threads;
  std::map<int, std::string> processes;
  std::map<TrackId, std::vector<Slice>> slices;
  std::map<int, std::vector<json>> flows;
  std::size_t counters = 0;
  std::size_t marks = 0;
  std::size_t events = 0;  // slices and points of flows
};

Timeline read(const std::string& text) {
  Timeline timeline;
  timeline.whole = json::parse(text);
  for (const json& event : timeline.whole.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const int process = event.at("pid");
    const TrackId track{process, event.value("tid", -1)};
    if (phase == "M") {
      const std::string name = event.at("args").at("name");
      if (event.at("name") == "process_name") timeline.processes[process] = name;
      if (event.at("name") == "thread_name") timeline.threads[track] = name;
    } else if (phase == "X") {
      const std::int64_t from = ns(event.at("ts"));
      timeline.slices[track].push_back({from, from + ns(event.at("dur")), event.at("name")});
      ++timeline.events;
    } else if (phase == "C") {
      ++timeline.counters;
    } else if (phase == "i") {
      ++timeline.marks;
    } else {
      timeline.flows[event.at("id")].push_back(event);
      ++timeline.events;
    }
  }
  for (auto& [track, slices] : timeline.slices) {
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
  }
  return timeline;
}

bool begins_a_slice(const Timeline& timeline, const json& point) {
  const auto found = timeline.slices.find({point.at("pid"), point.at("tid")});
  if (found == timeline.slices.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](const Slice& slice) { return slice.from == ns(point.at("ts")); });
}

// Nothing overlaps on a track (there are no async events, which would have to be paired), every
// track has a name, and flows are whole and lead from slice to slice.
void check_sound(const Timeline& timeline) {
  for (const auto& [track, slices] : timeline.slices) {
    CHECK(timeline.threads.contains(track));
    CHECK(timeline.processes.contains(track.first));
    for (std::size_t i = 0; i < slices.size(); ++i) {
      CHECK(slices[i].from <= slices[i].to);
      if (i > 0) CHECK(slices[i - 1].to <= slices[i].from);
    }
  }
  for (const auto& [id, points] : timeline.flows) {
    REQUIRE(points.size() >= 2);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const char* phase = i == 0 ? "s" : i + 1 == points.size() ? "f" : "t";
      CHECK(points[i].at("ph") == phase);
      CHECK(begins_a_slice(timeline, points[i]));
      // A viewer binds events that agree in all three.
      CHECK(points[i].at("cat") == points[0].at("cat"));
      CHECK(points[i].at("name") == points[0].at("name"));
      if (i > 0) CHECK(ns(points[i - 1].at("ts")) <= ns(points[i].at("ts")));
    }
    CHECK(timeline.threads.at({points.back().at("pid"), points.back().at("tid")})
              .starts_with("rank "));
  }
}

}  // namespace

TEST_CASE("a timeline: nothing overlaps, flows are whole, and training adds up to compute time") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", scenario());
  const std::string file = folder.name("t.json");
  const Outcome outcome = run({"run", path, "--json", "--timeline", file});
  REQUIRE(outcome.code == 0);
  const json result = json::parse(outcome.out)["runs"][0];
  const Timeline timeline = read(content(file));
  check_sound(timeline);
  CHECK(timeline.whole["otherData"]["complete"] == true);
  CHECK(timeline.marks == 0);
  CHECK(timeline.counters > 100);

  std::size_t batches = 0;
  for (const json& job : result["jobs"]) {
    std::int64_t train = 0;
    std::int64_t stall = 0;
    std::int64_t idle = 0;
    for (const auto& [track, slices] : timeline.slices) {
      if (timeline.processes.at(track.first) != "job " + job["name"].get<std::string>()) continue;
      for (const Slice& slice : slices) {
        auto& sum = slice.name.starts_with("train") ? train
                    : slice.name.starts_with("st")  ? stall
                                                    : idle;
        sum += slice.to - slice.from;
      }
    }
    const double ranks = job["ranks"];
    const auto all = [&](const char* key) {
      return std::llround(job[key].get<double>() * ranks * 1e9);
    };
    CAPTURE(job["name"]);
    CHECK(train == all("compute_s"));
    CHECK(stall == all("stall_s"));
    CHECK(idle == all("idle_s"));
    batches += job["batches"].get<std::size_t>();
  }
  // Also of a batch with a job that left in the middle.
  CHECK(timeline.flows.size() >= batches);
  CHECK(timeline.flows.size() <= batches + 1);
  // Reads, preparations, gathering (batches cross blocks and nodes) and deliveries are all on the
  // path.
  const bool any_long = std::any_of(timeline.flows.begin(), timeline.flows.end(),
                                    [](const auto& flow) { return flow.second.size() == 5; });
  CHECK(any_long);
}

TEST_CASE("a timeline is bounded, says so, and is sound as far as it goes") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", scenario());
  const std::string file = folder.name("t.json");
  const Outcome plain = run({"run", path, "--json"});
  for (const std::size_t most : {std::size_t{1}, std::size_t{100}, std::size_t{1001}}) {
    const Outcome outcome =
        run({"run", path, "--json", "--timeline", file, "--timeline-events", std::to_string(most)});
    CHECK(outcome.code == 0);
    CHECK(outcome.err.find("the timeline ends early") != std::string::npos);
    const Timeline timeline = read(content(file));
    check_sound(timeline);
    CHECK(timeline.events <= most);
    CHECK(timeline.events + 6 > most);
    CHECK(timeline.marks == 1);
    CHECK(timeline.whole["otherData"]["complete"] == false);
    CHECK(json::parse(outcome.out)["runs"][0]["digest"] ==
          json::parse(plain.out)["runs"][0]["digest"]);
  }
}

TEST_CASE("a timeline is of one run, in a place that can be written") {
  CHECK(run({"run", "four-jobs", "--timeline", "/nowhere/t.json"}).code == 2);
  CHECK(run({"run", "four-jobs", "--timeline", "t.json", "--policy", "dispatch=fifo,round-robin"})
            .code == 2);
}

}  // namespace batchflow::test::timeline_test
