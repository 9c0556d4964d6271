// A trace as a scenario: a job computes and trains on what was recorded and assumed, at any grain,
// and each job that is left out is counted.
#include "sim/cluster_replay/replay_scenario.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/config_value.h"
#include "sim/cluster_replay/replay_report.h"
#include "tests/sim/replay_traces.h"

namespace batchflow::test::replay_scenario_test {

namespace {

std::uint64_t all_of(const sim::LeftOut& out) {
  return out.without_gpus + out.without_duration + out.without_start + out.too_large +
         out.by_window + out.by_scale;
}

// A made trace with one job for each reason not to be replayed.
traces::JobTrace faulty_trace() {
  traces::JobTrace trace = made_trace(400, 3, 32);
  trace.jobs[3].gpus_hundredths = 0;
  trace.jobs[4].duration_ns = traces::kNoTime;
  trace.jobs[5].duration_ns = 0;
  trace.jobs[6].start_ns = traces::kNoTime;
  trace.jobs[7].gpus_hundredths = 3300;  // of 32
  trace.jobs[8].gpus_hundredths = 30;
  return trace;
}

}  // namespace

TEST_CASE("at any grain a job computes as long, and trains on as much, as it is taken to have") {
  const traces::JobTrace trace = made_trace(600, 3, 32);
  const input::OverlayModel overlay = input::read_overlay(input::load_overlay("mixed"));
  const sim::Assignment assignment = sim::assign(trace, overlay, 9);
  input::Scenario base = base_of(9);
  for (input::NodeModel& node : base.cluster.nodes)
    node.cores = 1 << 20;  // so that no model is faster than the cores can feed
  for (const sim::ReplayGrain grain :
       {sim::ReplayGrain{1, 1}, sim::ReplayGrain{8, 4}, sim::ReplayGrain{},
        sim::ReplayGrain{256, 100}, sim::ReplayGrain{1000, 3000}, sim::ReplayGrain{256, 6, true}}) {
    CAPTURE(grain.items);
    CAPTURE(grain.fine);
    sim::LeftOut out;
    const input::Scenario scenario = sim::replay_scenario(base, trace, overlay, grain, {}, out);
    REQUIRE(scenario.jobs.size() + all_of(out) == trace.jobs.size());
    REQUIRE(scenario.jobs.size() == trace.jobs.size());
    CHECK(out.slowed_down == 0);
    for (std::size_t i = 0; i < scenario.jobs.size(); ++i) {
      const input::JobModel& job = scenario.jobs[i];
      const sim::AssignedJob& assigned = assignment.jobs[i];
      CAPTURE(job.name);
      const input::PipelineModel& pipeline =
          scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
      const input::DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
      const auto batches =
          static_cast<std::int64_t>(job.steps) * std::max(1u, pipeline.epochs_per_block);
      // The time of a batch is rounded to a nanosecond, by half of one at most.
      CHECK(std::abs((job.step * batches - assigned.compute).count()) <= (batches + 1) / 2);
      // Steps are whole, and there is one at least.
      const std::uint64_t batch = grain.fine ? std::uint64_t{job.batch} * job.ranks : job.batch;
      const double step = static_cast<double>(std::min<std::uint64_t>(batch, dataset.samples)) *
                          std::max(1u, pipeline.epochs_per_block);
      const double trained = step * static_cast<double>(job.steps);
      const std::uint64_t samples = assignment.datasets[assigned.dataset].samples;
      const double asked = assigned.passes * static_cast<double>(dataset.samples);
      CHECK(std::abs(trained - asked) <= step * (job.steps == 1 ? 1 : 0.5) * (1 + 1e-9));
      if (!grain.fine) {
        const double in_all = assigned.passes * static_cast<double>(samples);
        CHECK(std::abs(static_cast<double>(job.samples_in_all) - std::max(1., in_all)) <= 0.5);
        // A step has a block for each node that it needs; a block is of whole items.
        const std::uint64_t blocks =
            job.batch / scenario.samples_per_item(dataset) / pipeline.items_per_block;
        CHECK(blocks * pipeline.items_per_block * scenario.samples_per_item(dataset) == job.batch);
        CHECK(blocks <= std::bit_ceil((job.ranks + 7) / 8));
      }
      // Items are whole, and no more than a dataset may be cut into.
      CHECK(dataset.samples <= samples);
      if (!grain.fine) CHECK(scenario.items(dataset) <= std::min(grain.items, samples));
      CHECK(job.batch % scenario.samples_per_item(dataset) == 0);
      CHECK(job.ranks == assigned.gpus);
      // Its epochs last for its steps.
      const std::uint64_t an_epoch = std::max<std::uint64_t>(1, dataset.samples / batch);
      CHECK(job.epochs / std::max(1u, pipeline.epochs_per_block) * an_epoch >= job.steps);
    }
  }
}

TEST_CASE("a dataset has items for its jobs and for the caches, the same in a part of a trace") {
  const traces::JobTrace trace = made_trace(400, 3, 32);
  const auto items_of = [&](const char* dataset, const sim::ReplayWindow& window) {
    sim::LeftOut out;
    const input::Scenario scenario =
        sim::replay_scenario(base_of(1), trace, one_class("busy: 50%\n", dataset), {}, window, out);
    return scenario.items(scenario.datasets.front());
  };
  const sim::ReplayWindow later{trace.jobs[200].submit_ns, traces::kNoTime, 1};
  // Jobs make many passes: 16 items are enough. A node's cache of 32 GiB holds 32 items of a
  // dataset that fills it, and the largest dataset has 256.
  CHECK(items_of("{samples: 100, bytes: 1}", {}) == 16);
  CHECK(items_of("{samples: 100, bytes: 1}", later) == 16);
  CHECK(items_of("{samples: 102400, bytes: 600kb}", {}) == 64);
  CHECK(items_of("{samples: 102400, bytes: 600kb}", later) == 64);
  CHECK(items_of("{samples: 102400, bytes: 600mb}", {}) == 256);
  // Few jobs get through a thousandth of it.
  CHECK(items_of("{samples: 100000000000, bytes: 1}", {}) == 256);
}

TEST_CASE("no job is taken to train faster than its nodes could feed it") {
  const traces::JobTrace trace = made_trace(50, 1, 32);
  const auto replayed = [&](const char* dataset, const char* steps, sim::LeftOut& out) {
    input::Scenario base = base_of(1);
    for (input::NodeModel& node : base.cluster.nodes) node.nic_bytes_per_s = 8e9;
    const input::OverlayModel overlay = overlay_of(
        "busy: 100%\nclasses: [{name: only, samples_per_s: 1000, dataset: " + std::string(dataset) +
        ", steps: " + steps + "}]\n");
    return sim::replay_scenario(base, trace, overlay, {}, {}, out);
  };
  const auto speed_of = [&](const input::Scenario& scenario, std::size_t i) {
    return static_cast<double>(scenario.jobs[i].samples_in_all) * 1e9 /
           (static_cast<double>(trace.jobs[i].duration_ns) * scenario.jobs[i].ranks);
  };
  // One GB/s and one core for each GPU.
  for (const auto& [dataset, steps, speed, slowed] :
       {std::tuple{"{samples: 100000, bytes: 900kb}", "[]", 1000., 0u},
        std::tuple{"{samples: 100000, bytes: 2mb}", "[]", 500., 50u},
        std::tuple{"{samples: 100000, bytes: 1}", "[{name: work, cost: 900us, output: 1}]", 1000.,
                   0u},
        std::tuple{"{samples: 100000, bytes: 1}", "[{name: work, cost: 2ms, output: 1}]", 500.,
                   50u}}) {
    CAPTURE(dataset);
    CAPTURE(steps);
    sim::LeftOut out;
    const input::Scenario scenario = replayed(dataset, steps, out);
    CHECK(out.slowed_down == slowed);
    REQUIRE(scenario.jobs.size() == 50);
    for (std::size_t i = 0; i < 50; ++i) {
      CHECK(speed_of(scenario, i) == doctest::Approx(speed).epsilon(1e-3));
    }
  }
}

TEST_CASE("jobs begin when they did, from the first submission on") {
  const traces::JobTrace trace = made_trace(300, 3, 8);
  const input::OverlayModel overlay = input::read_overlay(input::load_overlay("vision"));
  sim::LeftOut out;
  const input::Scenario recorded =
      sim::replay_scenario(base_of(1, "scheduler: recorded\n"), trace, overlay, {}, {}, out);
  const input::Scenario fifo =
      sim::replay_scenario(base_of(1, "scheduler: fifo\n"), trace, overlay, {}, {}, out);
  const traces::TraceTime zero = trace.jobs.front().submit_ns;
  std::size_t waited = 0;
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const traces::JobRecord& record = trace.jobs[i];
    CHECK(recorded.jobs[i].arrives.time_since_epoch().count() == record.submit_ns - zero);
    CHECK(fifo.jobs[i].arrives == recorded.jobs[i].arrives);
    CHECK(recorded.jobs[i].not_before.time_since_epoch().count() == record.start_ns - zero);
    CHECK(fifo.jobs[i].not_before == Instant{});
    waited += record.start_ns > record.submit_ns;
  }
  CHECK(waited > 0);
}

TEST_CASE("what cannot be replayed is counted by its reason, and nothing else is missing") {
  const traces::JobTrace trace = faulty_trace();
  const input::OverlayModel overlay = input::read_overlay(input::load_overlay("vision"));
  const auto replayed = [&](const char* scheduler, const sim::ReplayWindow& window,
                            sim::LeftOut& out) {
    return sim::replay_scenario(base_of(1, scheduler), trace, overlay, {}, window, out).jobs.size();
  };
  sim::LeftOut recorded;
  CHECK(replayed("scheduler: recorded\n", {}, recorded) == 395);
  CHECK(recorded.without_gpus == 1);
  CHECK(recorded.without_duration == 2);
  CHECK(recorded.without_start == 1);
  CHECK(recorded.too_large == 1);
  CHECK(all_of(recorded) == 5);
  CHECK(sim::left_out_text(trace, recorded, 395).find(" are taken to train slower ") !=
        std::string::npos);
  recorded.slowed_down = 0;
  CHECK(sim::left_out_text(trace, recorded, 395) ==
        "gen:cluster: 395 of 400 jobs are replayed; 1 use no GPU; 2 never ran, or for an "
        "unknown time; 1 have no start on record (--scheduler fifo, sjf or las gives them one); 1 "
        "need "
        "more GPUs than there are; 1 had a part of a GPU, and have a whole one here");
  sim::LeftOut fifo;
  CHECK(replayed("scheduler: fifo\n", {}, fifo) == 396);
  CHECK(fifo.without_start == 0);

  // Where no job is left, the message says why.
  traces::JobTrace unstarted = trace;
  for (traces::JobRecord& job : unstarted.jobs) job.start_ns = traces::kNoTime;
  sim::LeftOut all;
  CHECK_THROWS_WITH_AS(
      sim::replay_scenario(base_of(1, "scheduler: recorded\n"), unstarted, overlay, {}, {}, all),
      doctest::Contains("1 use no GPU, 2 never ran, or for an unknown time, 397 have no start "
                        "on record (--scheduler fifo, sjf or las gives them one)"),
      ConfigError);

  // The nodes are that share of all, rounded to the nearest number below, for every share.
  for (const auto& [scale, nodes] :
       std::map<double, std::size_t>{{.25, 1}, {.3, 1}, {.5, 2}, {.75, 3}, {.99, 3}, {1, 4}}) {
    sim::LeftOut out;
    CAPTURE(scale);
    CHECK(sim::replay_scenario(base_of(1, ""), trace, overlay, {},
                               {traces::kNoTime, traces::kNoTime, scale}, out)
              .cluster.nodes.size() == nodes);
  }
  std::string ten = "cluster: {nodes: [{name: n, count: 10, cores: 8, gpus: 8, memory: 64gb}]}\n";
  sim::LeftOut tenth;
  CHECK(sim::replay_scenario(input::read_cluster_and_engine(input::parse_yaml(ten, "ten.yaml")),
                             trace, overlay, {}, {traces::kNoTime, traces::kNoTime, .1}, tenth)
            .cluster.nodes.size() == 1);

  // Every job is in one of two windows that meet.
  const traces::TraceTime middle = trace.jobs[200].submit_ns;
  sim::LeftOut before;
  sim::LeftOut after;
  const std::size_t early = replayed("", {traces::kNoTime, middle, 1}, before);
  const std::size_t late = replayed("", {middle, traces::kNoTime, 1}, after);
  CHECK(early + late == 396);
  CHECK(early + all_of(before) == 400);
  CHECK(late + all_of(after) == 400);

  sim::LeftOut half;
  const std::size_t kept = replayed("", {traces::kNoTime, traces::kNoTime, 0.5}, half);
  CHECK(kept + all_of(half) == 400);
  CHECK(half.by_scale > 150);
  CHECK(half.by_scale < 250);
  sim::LeftOut none;
  CHECK_THROWS_AS(replayed("", {middle, middle, 1}, none), ConfigError);
}

TEST_CASE("times of windows are days, instants, or times after the first job") {
  const traces::JobTrace trace = made_trace(10, 3, 8);
  const traces::TraceTime first = trace.jobs.front().submit_ns;
  constexpr traces::TraceTime kDay = 86'400 * traces::kNanosPerSecond;
  CHECK(sim::window_time("--from", "", trace) == traces::kNoTime);
  CHECK(sim::window_time("--from", "1970-01-02", trace) == kDay);
  CHECK(sim::window_time("--from", "1970-01-01T00:00:01", trace) == traces::kNanosPerSecond);
  CHECK(sim::window_time("--from", "1970-01-01T00:01", trace) == 60 * traces::kNanosPerSecond);
  CHECK(sim::window_time("--from", "10d", trace) == first + 10 * kDay);
  CHECK(sim::window_time("--from", "0.5d", trace) == first + kDay / 2);
  CHECK(sim::window_time("--from", "36h", trace) == first + 3 * kDay / 2);
  for (const char* text : {"d", "-1d", "tomorrow", "2018-13-01", "1000000000d"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(sim::window_time("--from", text, trace), ConfigError);
  }
}

}  // namespace batchflow::test::replay_scenario_test
