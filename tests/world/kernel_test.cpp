// Sanity checks of shared resources alone, with the ends of flows worked out by hand.
#include "sim/world/kernel.h"

#include <sstream>

#include "sim/world/platform.h"
#include "sim/world/simgrid_api.h"
#include "sim/world/tasks.h"
#include "tests/world/harness.h"

namespace batchflow::test::kernel_test {

namespace {

constexpr double kGB = 1e9;

struct Flow {
  double start_s;
  double work;
  double bound;
  double weight = 1;
};

// When each flow ends, on a host of this speed.
std::vector<double> ends(double speed, const std::vector<Flow>& flows) {
  std::istringstream text(in_child([&] {
    world::Kernel kernel;
    auto* host = world::simgrid_api::add_host(kernel.zone(), "shared", speed);
    std::vector<double> end(flows.size());
    for (std::size_t i = 0; i < flows.size(); ++i) {
      kernel.at(Instant(Duration(static_cast<std::int64_t>(flows[i].start_s * 1e9))), [&, i] {
        kernel.start_work(*host, {flows[i].work, flows[i].bound, flows[i].weight}, [&, i] {
          end[i] = std::chrono::duration<double>(kernel.now().time_since_epoch()).count();
        });
      });
    }
    kernel.run();
    std::string all;
    for (const double s : end) all += fmt::format("{} ", s);
    return all;
  }));
  std::vector<double> result;
  for (double s; text >> s;) result.push_back(s);
  return result;
}

// How long tasks of so many operations take on a drive, all begun at once.
std::vector<double> read_times(const std::string& store,
                               const std::vector<world::Platform::Amount>& amounts) {
  Small small;
  small.store = store;
  small.jobs = {"step: 1s"};
  const input::Scenario scenario = scenario_of(small.yaml());
  std::istringstream text(in_child([&] {
    world::Kernel kernel;
    world::Tasks tasks(kernel);
    world::Counters counters;
    world::Platform platform(kernel, tasks, counters, scenario.cluster);
    std::vector<double> end(amounts.size());
    kernel.after(Duration(0), [&] {
      for (std::size_t i = 0; i < amounts.size(); ++i) {
        const world::TaskId task = tasks.begin([&, i] {
          end[i] = std::chrono::duration<double>(kernel.now().time_since_epoch()).count();
        });
        platform.read_store(task, 0, amounts[i], Random(i));
        tasks.go(task);
      }
    });
    kernel.run();
    std::string all;
    for (const double s : end) all += fmt::format("{} ", s);
    return all;
  }));
  std::vector<double> result;
  for (double s; text >> s;) result.push_back(s);
  return result;
}

}  // namespace

TEST_CASE("check 7, fair sharing: 1, 2 and 3 GB at 1 GB/s end at 3, 5 and 6 s") {
  const auto end = ends(kGB, {{0, 1 * kGB, 0}, {0, 2 * kGB, 0}, {0, 3 * kGB, 0}});
  CHECK(end[0] == exactly(3));
  CHECK(end[1] == exactly(5));
  CHECK(end[2] == exactly(6));
  for (const double s : ends(kGB, std::vector<Flow>(10, {0, kGB, 0}))) CHECK(s == exactly(10));
}

TEST_CASE("check 8, arrivals: 10 GB at 0 and 2 GB at 4 s end at 12 and 8 s") {
  const auto end = ends(kGB, {{0, 10 * kGB, 0}, {4, 2 * kGB, 0}});
  CHECK(end[0] == exactly(12));
  CHECK(end[1] == exactly(8));
}

TEST_CASE("check 9, weights 1:3 of 3 GB each at 1 GB/s end at 6 and 4 s") {
  const auto end = ends(kGB, {{0, 3 * kGB, 0, 1}, {0, 3 * kGB, 0, 3}});
  CHECK(end[0] == exactly(6));
  CHECK(end[1] == exactly(4));
  // The same for two nodes that read one sample of 3 GB each, of datasets of their own: one that
  // both want is read once.
  const output::RunResult run = simulate_text(
      "cluster: {nodes: [{name: a, memory: 8gb}, {name: b, memory: 8gb, store_weight: 3}],\n"
      "          store: {bytes_per_s: 1gb}}\n"
      "datasets: [{name: of_a, samples: 1, bytes: 3gb}, {name: of_b, samples: 1, bytes: 3gb}]\n"
      "pipelines: [{name: train, steps: [{name: work, random: true, output: 1000}]}]\n"
      "jobs: [{dataset: of_a, pipeline: train, step: 1s, nodes: [a]},\n"
      "       {dataset: of_b, pipeline: train, step: 1s, nodes: [b]}]\n"
      "engine: {share_streams: false}\n");
  CHECK(run.jobs[0].ended_s == exactly(6 + 1));
  CHECK(run.jobs[1].ended_s == exactly(4 + 1));
}

TEST_CASE("check 10, max-min with caps .1, .4 and none of .9 GB/s: 10, 2.5 and 2.5 s") {
  const auto end = ends(0.9 * kGB, {{0, kGB, 0.1 * kGB}, {0, kGB, 0.4 * kGB}, {0, kGB, 0}});
  CHECK(end[0] == exactly(10));
  CHECK(end[1] == exactly(2.5));
  CHECK(end[2] == exactly(2.5));
}

TEST_CASE("check 11, a curve over the number of readers") {
  const std::string curve =
      "{curve: [{readers: 1, bytes_per_s: 330mb}, {readers: 2, bytes_per_s: 730mb}, "
      "{readers: 3, bytes_per_s: 1135mb}, {readers: 4, bytes_per_s: 1540mb}]}";
  const world::Platform::Amount gigabyte{1, 1'000'000'000};
  for (const double s : read_times(curve, {gigabyte, gigabyte, gigabyte, gigabyte})) {
    CHECK(s == doctest::Approx(4000.0 / 1540).epsilon(1e-8));  // 2.5974
  }
  // Half a gigabyte each at 365 MB/s, then the rest of the other alone at 330.
  const auto two = read_times(curve, {{1, 500'000'000}, gigabyte});
  CHECK(two[0] == doctest::Approx(500.0 / 365).epsilon(1e-8));
  CHECK(two[1] == doctest::Approx(500.0 / 365 + 500.0 / 330).epsilon(1e-8));
  const std::string lassen =
      "{curve: [{readers: 1, bytes_per_s: 512mb}, {readers: 4, bytes_per_s: 512mb}, "
      "{readers: 8, bytes_per_s: 1024mb}, {readers: 16, bytes_per_s: 2048mb}]}";
  for (const double s :
       read_times(lassen, std::vector<world::Platform::Amount>(8, {1, 1'024'000'000}))) {
    CHECK(s == doctest::Approx(8).epsilon(1e-8));
  }
}

TEST_CASE("check 12, latency-bound reads: k / (L + s/b) a second") {
  const auto one = read_times("{latency: 5ms, operations_ahead: 8, reader_bytes_per_s: 1gb}",
                              {{1000, 114'660'000}});
  CHECK(1000 / one[0] == doctest::Approx(1564.1).epsilon(1e-4));
  // One operation takes its latency and its bytes, however many might be under way.
  const auto single =
      read_times("{latency: 5ms, operations_ahead: 8, reader_bytes_per_s: 1gb}", {{1, 1'000'000}});
  CHECK(single[0] == exactly(0.006));
}

TEST_CASE(
    "a cap for one reader holds where there are few, and the store's rate where there are many") {
  const std::string store = "{bytes_per_s: 900mb, reader_bytes_per_s: 100mb}";
  CHECK(read_times(store, {{1, 1'000'000'000}})[0] == exactly(10));
  for (const double s :
       read_times(store, std::vector<world::Platform::Amount>(18, {1, 100'000'000}))) {
    CHECK(s == exactly(2));
  }
}

TEST_CASE("bytes of a peer come after the latencies on the way, at the narrowest of its links") {
  Small small;
  small.jobs = {"step: 1s"};
  const input::Scenario scenario = scenario_of(
      "cluster:\n  links: [{name: rack, bytes_per_s: 2mb, latency: 10ms}]\n"
      "  nodes: [{name: a, memory: 1gb, nic_bytes_per_s: 1mb, nic_latency: 1ms, link: rack},\n"
      "          {name: b, memory: 1gb, nic_bytes_per_s: 4mb, nic_latency: 2ms},\n"
      "          {name: c, memory: 1gb, nic_bytes_per_s: 1mb, nic_latency: 1ms, link: rack}]\n"
      "datasets: [{name: data, samples: 1, bytes: 1}]\n"
      "pipelines: [{name: train}]\njobs: [{dataset: data, pipeline: train, step: 1s}]\n");
  const std::string result = in_child([&] {
    world::Kernel kernel;
    world::Tasks tasks(kernel);
    world::Counters counters;
    world::Platform platform(kernel, tasks, counters, scenario.cluster);
    std::string all;
    const auto copy = [&](std::size_t from, std::size_t to, int at_s) {
      kernel.after(std::chrono::seconds(at_s), [&, from, to, at_s] {
        const world::TaskId task = tasks.begin([&, at_s] {
          all += fmt::format("{} ", (kernel.now() - Instant(std::chrono::seconds(at_s))).count());
        });
        platform.copy(task, from, to, 1'000'000);
        tasks.go(task);
      });
    };
    copy(0, 1, 0);   // over its card, the rack's link and the other's card
    copy(0, 2, 10);  // within the rack
    copy(1, 0, 20);  // two over the one link of the rack: 1 MB/s each, as their cards have
    copy(1, 2, 20);
    copy(0, 1, 30);  // two out of one card: the one that arrives later is 11 ms behind
    copy(0, 2, 30);
    kernel.run();
    return all;
  });
  CHECK(result == "1013000000 1002000000 1013000000 1013000000 1991000000 2002000000 ");
}

TEST_CASE("check 20, two tiers side by side take the longer of both, one after the other the sum") {
  // 60 GB of an NVMe drive at 10 GB/s and 40 GB of a store at 1 GB/s: 40 s and 46 s.
  Small small;
  small.node = "gpus: 1, memory: 1gb, nvme: {size: 1tb, bytes_per_s: 10gb}";
  small.store = "{bytes_per_s: 1gb}";
  small.jobs = {"step: 1s"};
  const input::Scenario scenario = scenario_of(small.yaml());
  const std::string result = in_child([&] {
    world::Kernel kernel;
    world::Tasks tasks(kernel);
    world::Counters counters;
    world::Platform platform(kernel, tasks, counters, scenario.cluster);
    std::string all;
    const auto say = [&](const char* what) {
      all += fmt::format("{} {} ", what, kernel.now().time_since_epoch().count());
    };
    const world::Platform::Amount near{1, 60'000'000'000};
    const world::Platform::Amount far{1, 40'000'000'000};
    kernel.after(Duration(0), [&] {
      const world::TaskId both = tasks.begin([&] {
        say("both");
        const world::TaskId first = tasks.begin([&] {
          const world::TaskId second = tasks.begin([&] { say("in turn"); });
          platform.read_store(second, 0, far, Random(1));
          tasks.go(second);
        });
        platform.read_nvme(first, 0, near, Random(1));
        tasks.go(first);
      });
      platform.read_nvme(both, 0, near, Random(1));
      platform.read_store(both, 0, far, Random(1));
      tasks.go(both);
    });
    kernel.run();
    return all;
  });
  CHECK(result == "both 40000000000 in turn 86000000000 ");
}

TEST_CASE("metadata operations and small reads cost what they are said to") {
  // 1000 operations at 500 a second, beside 1 MB that takes no time to speak of.
  CHECK(read_times("{operations_per_s: 500, bytes_per_s: 1gb}", {{1000, 1'000'000}})[0] ==
        exactly(2));
  // Reads of 4 kB at a fifth of 100 MB/s, of 1 MB at all of it.
  const std::string small =
      "{bytes_per_s: 100mb, efficiency: [{bytes: 4kb, efficiency: 0.2}, {bytes: 1mb, efficiency: "
      "1}]}";
  CHECK(read_times(small, {{5000, 20'000'000}})[0] == exactly(1));
  CHECK(read_times(small, {{100, 100'000'000}})[0] == exactly(1));
}

TEST_CASE("what is held up now and then costs its share of the operations") {
  // 4000 reads one after another, of 1 ms each; a hundredth takes 100 ms more: 8 s in the mean,
  // with a standard deviation of .63 s.
  const Small paused{.samples = 4000,
                     .store = "{latency: 1ms, pause: 100ms, pause_share: 0.01}",
                     .jobs = {"batch: 8, step: 1us, credits: 1"},
                     .more =
                         "engine: {policies: {scaling: 'static:depth=0'}}\n"
                         "grain: {items_per_block: 8}\n"};
  CHECK(simulate_small(paused).makespan_s == doctest::Approx(8).epsilon(0.3));
  Small never = paused;
  never.set = {"cluster.store.pause_share=0"};
  CHECK(simulate_small(never).makespan_s == doctest::Approx(4).epsilon(0.001));
  Small always = paused;
  always.set = {"cluster.store.pause_share=1"};
  CHECK(simulate_small(always).makespan_s == doctest::Approx(404).epsilon(0.001));
}

TEST_CASE("more flows than a server carries at once wait for their turn, and none is lost") {
  // 2000 tasks of 1 MB at 1 GB/s: 2 s of bytes, and never less.
  const auto ends =
      read_times("{bytes_per_s: 1gb}", std::vector<world::Platform::Amount>(2000, {1, 1'000'000}));
  double last = 0;
  for (const double s : ends) last = std::max(last, s);
  CHECK(last == doctest::Approx(2).epsilon(1e-7));
}

TEST_CASE("timers keep their nanosecond, one instant is one round, a cancelled flow is silent") {
  const std::string result = in_child([] {
    world::Kernel kernel;
    auto* host = world::simgrid_api::add_host(kernel.zone(), "shared", 1e9);
    std::string all;
    kernel.each_instant(
        [&] { all += fmt::format("|{}", kernel.now().time_since_epoch().count()); });
    world::FlowId cancelled = 0;
    kernel.after(Duration(0), [&] {
      kernel.start_work(*host, {1.5e9}, [&] { all += " flow"; });
      cancelled = kernel.start_work(*host, {9e9}, [&] { all += " never"; });
    });
    // Both flows have half of the speed: the first ends at 3 s, as the timer does.
    kernel.after(std::chrono::seconds(3), [&] { all += " timer"; });
    kernel.after(std::chrono::seconds(3) + Duration(1), [&] {
      all += " cancel";
      kernel.cancel(cancelled);
    });
    kernel.after(std::chrono::hours(24 * 75) + Duration(7), [&] { all += " late"; });
    kernel.run();
    return all;
  });
  CHECK(result == "|0 flow timer|3000000000 cancel|3000000001 late|6480000000000007");
}

}  // namespace batchflow::test::kernel_test
