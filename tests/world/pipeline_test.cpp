// Sanity checks of one job and one pipeline: reads of r seconds, preparations of p, steps of g, and
// n batches. All times are exact.
#include "tests/world/harness.h"

namespace batchflow::test::pipeline_test {

namespace {

// One sample a batch, a block and a read; one worker unless said; enough memory for any look-ahead.
struct Line {
  int n = 100;
  std::string read = "0s";
  std::string prepare = "0s";
  std::string step = "1s";
  int workers = 1;
  int credits = 2;
  int depth = 16;
  std::string scaling = "";  // in place of a scaling policy of that depth

  output::RunResult run() const {
    Small small;
    small.samples = static_cast<std::uint64_t>(n);
    small.node = fmt::format("cores: {}, gpus: 1, memory: 1gb", workers);
    small.store = fmt::format("{{latency: {}}}", read);
    small.steps = fmt::format("[{{name: work, random: true, cost: {}}}]", prepare);
    small.jobs = {fmt::format("batch: 1, step: {}, credits: {}, order: sequential", step, credits)};
    small.more = fmt::format(
        "grain: {{items_per_block: 1}}\n"
        "engine: {{policies: {{scaling: '{}'}}}}\n",
        scaling.empty() ? fmt::format("static:depth={}", depth) : scaling);
    return simulate_small(small);
  }
};

}  // namespace

TEST_CASE("check 1, serial loading: nothing overlaps, T = n (r + p + g)") {
  Line line{100, "200ms", "300ms", "500ms"};
  line.credits = 1;
  line.depth = 0;
  const output::RunResult run = line.run();
  CHECK(run.makespan_s == exactly(100));
  CHECK(run.jobs[0].stall_s == exactly(50));
}

TEST_CASE("check 2, GPU-bound pipeline: T = r + p + g + (n - 1) max, and the fill is the stall") {
  const output::RunResult run = Line{100, "200ms", "300ms", "500ms"}.run();
  CHECK(run.makespan_s == exactly(50.5));
  CHECK(run.jobs[0].stall_s == exactly(0.5));
  CHECK(run.jobs[0].compute_s == exactly(50));
  // The first step, fill included, does not count: AU is whole.
  CHECK(run.jobs[0].au == exactly(1));
}

TEST_CASE("check 3, preparation-bound pipeline: T = r + n p + g") {
  const output::RunResult run = Line{100, "200ms", "800ms", "500ms"}.run();
  CHECK(run.makespan_s == exactly(80.7));
  CHECK(run.jobs[0].stall_s == exactly(30.7));
}

TEST_CASE("check 4, any depth of buffer serves a D/D/1 queue equally") {
  for (const int depth : {1, 2, 7}) {
    for (const int credits : {2, 3}) {
      CAPTURE(depth);
      CAPTURE(credits);
      const output::RunResult slow_consumer = Line{100, "0s", "2s", "3s", 1, credits, depth}.run();
      CHECK(slow_consumer.makespan_s == exactly(302));
      CHECK(slow_consumer.jobs[0].stall_s == exactly(2));
      const output::RunResult slow_producer = Line{100, "0s", "3s", "2s", 1, credits, depth}.run();
      CHECK(slow_producer.makespan_s == exactly(302));
      CHECK(slow_producer.jobs[0].stall_s == exactly(102));
    }
  }
}

TEST_CASE("check 5, w workers of p = 1 s feed a GPU of g = 0.25 s from w = p/g = 4 on") {
  // w = 3: the last of 100 batches is begun in round 34 and done at 34 s; it trains 0.25 s.
  CHECK(Line{100, "0s", "1s", "250ms", 3}.run().makespan_s == exactly(34.25));
  CHECK(Line{100, "0s", "1s", "250ms", 3}.run().jobs[0].stall_s == exactly(9.25));
  CHECK(Line{100, "0s", "1s", "250ms", 4}.run().makespan_s == exactly(26));
  CHECK(Line{100, "0s", "1s", "250ms", 4}.run().jobs[0].stall_s == exactly(1));
  CHECK(Line{100, "0s", "1s", "250ms", 5}.run().makespan_s == exactly(26));
}

TEST_CASE("check 6, eight workers of a slower pipeline come in rounds: T = 125 p + 8 g") {
  const output::RunResult run = Line{1000, "0s", "554240us", "62500us", 8}.run();
  CHECK(run.makespan_s == exactly(125 * 0.55424 + 8 * 0.0625));  // 69.78
  CHECK(run.jobs[0].stall_s == exactly(7.28));
}

TEST_CASE("all workers prepare for a job that trains in no time, from the first step on") {
  // Before anything is measured four are made ahead; then eight at a time: 1 + 96 / 8 rounds.
  Line line{100, "0s", "1s", "0s", 8};
  line.scaling = "look-ahead";
  CHECK(line.run().makespan_s == exactly(13));
  CHECK(line.run().jobs[0].compute_s == 0);
}

TEST_CASE("check 25, blocks of B samples: T = B (r + p + g) + (n - B) max") {
  for (const auto& [block, expected_s] : {std::pair{1, 512.5}, {32, 528.0}, {1024, 1024.0}}) {
    CAPTURE(block);
    Small small;
    small.samples = 1024;
    small.store = "{latency: 200ms}";
    small.steps = "[{name: work, random: true, cost: 300ms}]";
    small.jobs = {fmt::format("batch: {}, step: {}ms, order: sequential", block, 500 * block)};
    small.more = fmt::format("grain: {{items_per_block: {}}}\n", block);
    CHECK(simulate_small(small).makespan_s == exactly(expected_s));
  }
}

TEST_CASE("a GPU-bound job takes its steps and no more; a second epoch has no fill") {
  Small small;
  small.samples = 64;
  small.steps = "[{name: work, random: true, cost: 1ms}]";
  small.jobs = {"batch: 8, step: 100ms, epochs: 5"};
  small.more = "grain: {items_per_block: 8}\n";
  const output::RunResult run = simulate_small(small);
  CHECK(run.makespan_s == exactly(0.008 + 5 * 8 * 0.1));
  CHECK(run.aggregate.storage_bytes == run.aggregate.samples_read * 1000);
}

TEST_CASE("what is kept on a drive is written at the drive's rate, beside what is read") {
  // Two samples of 4 MB one after the other at 10 MB/s of the store: 0.8 s; written at 1 MB/s: 8 s;
  // the second is then trained on for 1 ms.
  const auto run = [](const std::string& drive, int epochs) {
    Small small;
    small.samples = 2;
    small.bytes = "4mb";
    small.node = fmt::format("gpus: 1, memory: 100kb, nvme: {{size: 10mb{}}}", drive);
    small.store = "{bytes_per_s: 10mb}";
    small.steps = "[{name: work, random: true, output: 100}]";
    small.jobs = {fmt::format("batch: 1, step: 1ms, order: sequential, epochs: {}", epochs)};
    small.more =
        "grain: {items_per_block: 1}\n"
        "engine: {policies: {allocation: 'proportional:forms=encoded'}}\n";
    return simulate_small(small);
  };
  const output::RunResult free = run("", 1);
  CHECK(free.aggregate.nvme_written_bytes == 8'000'000);
  CHECK(free.makespan_s == exactly(0.801));
  CHECK(run(", write_bytes_per_s: 1mb", 1).makespan_s == exactly(8.001));
  // The second epoch is read from the drive, and nothing is written any more.
  const output::RunResult second = run(", write_bytes_per_s: 1mb, bytes_per_s: 2mb", 2);
  CHECK(second.aggregate.nvme_written_bytes == 8'000'000);
  CHECK(second.aggregate.nvme_bytes == 8'000'000);
  CHECK(second.aggregate.samples_read == 2);
}

TEST_CASE("the time of each step of a pipeline is reported under its name") {
  // 400 samples: decode 2 ms, resize 1 us for each of 1000 bytes, crop 0.5 ms, on cores of speed 2.
  const auto run = [](const char* allocation, int epochs) {
    Small small;
    small.samples = 400;
    small.node = "cores: 4, core_speed: 2, gpus: 1, memory: 1gb";
    small.steps =
        "[{name: decode, cost: 2ms, output: 1000}, {name: resize, ns_per_byte: 1000, output: "
        "300},\n"
        "   {name: crop, random: true, cost: 500us}]";
    small.jobs = {fmt::format("batch: 8, step: 1ms, epochs: {}", epochs)};
    small.more = fmt::format(
        "grain: {{items_per_block: 8}}\nengine: {{policies: {{allocation: '{}'}}}}\n", allocation);
    return simulate_small(small);
  };
  const output::RunResult once = run("equal:forms=prepared", 1);
  REQUIRE(once.preparation_steps.size() == 3);
  const std::pair<const char*, double> expected[] = {
      {"decode", 0.4}, {"resize", 0.2}, {"crop", 0.1}};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(once.preparation_steps[i].pipeline == "train");
    CHECK(once.preparation_steps[i].dataset == "data");
    CHECK(once.preparation_steps[i].step == expected[i].first);
    CHECK(once.preparation_steps[i].core_s == doctest::Approx(expected[i].second).epsilon(1e-9));
  }
  // A sample that is decoded once is cropped in each epoch.
  const output::RunResult thrice = run("proportional:forms=decoded", 3);
  CHECK(thrice.preparation_steps[0].core_s == doctest::Approx(0.4).epsilon(1e-9));
  CHECK(thrice.preparation_steps[2].core_s == doctest::Approx(0.3).epsilon(1e-9));
  CHECK(thrice.aggregate.preparation_s == doctest::Approx(0.4 + 0.2 + 0.3).epsilon(1e-9));
}

TEST_CASE("a storage-bound job takes its bytes over the bandwidth") {
  // 125 blocks of 8 samples of 100 kB at 10 MB/s: 10 s, and the last batch trains 10 ms.
  Small small;
  small.samples = 1000;
  small.bytes = "100kb";
  small.store = "{bytes_per_s: 10mb}";
  small.jobs = {"batch: 8, step: 10ms, order: sequential"};
  small.more = "grain: {items_per_block: 8}\n";
  const output::RunResult run = simulate_small(small);
  CHECK(run.aggregate.storage_bytes == 100'000'000);
  CHECK(run.makespan_s >= 10);  // bytes / bandwidth at least
  CHECK(run.makespan_s == doctest::Approx(10.01).epsilon(1e-8));
}

TEST_CASE("the speed is that of the slowest of storage, preparation and GPU") {
  // Batches of 8 take 80 ms of storage, 8 x cost / 2 cores of preparation, and a step.
  const auto batch_s = [](const char* cost, const char* step) {
    Small small;
    small.samples = 1600;
    small.bytes = "100kb";
    small.node = "cores: 2, gpus: 1, memory: 1gb";
    small.store = "{bytes_per_s: 10mb}";
    small.steps = fmt::format("[{{name: work, random: true, cost: {}}}]", cost);
    small.jobs = {fmt::format("batch: 8, step: {}, order: sequential", step)};
    small.more = "grain: {items_per_block: 8}\n";
    return simulate_small(small).makespan_s / 200;
  };
  CHECK(batch_s("10ms", "70ms") == doctest::Approx(0.08).epsilon(0.01));  // storage
  CHECK(batch_s("30ms", "70ms") == doctest::Approx(0.12).epsilon(0.01));  // 240 ms on 2 cores
  CHECK(batch_s("10ms", "200ms") == doctest::Approx(0.2).epsilon(0.01));  // GPU
}

TEST_CASE("check 24, scaling: sizes and bandwidths by k change nothing, times by k scale by k") {
  const auto run = [](int sizes, int times) {
    Small small;
    small.samples = 200;
    small.bytes = fmt::format("{}", 50'000 * sizes);
    small.node = fmt::format("cores: 2, gpus: 2, memory: {}mb, cache: {}mb", 8 * sizes, 8 * sizes);
    small.store =
        fmt::format("{{bytes_per_s: {}, latency: {}us}}", 10'000'000 * sizes / times, 400 * times);
    small.steps = fmt::format("[{{name: work, random: true, cost: {}us, output: {}}}]", 700 * times,
                              20'000 * sizes);
    // A shuffle depends on the dataset's version, and that on its sizes.
    small.jobs = {fmt::format("batch: 10, step: {}us, epochs: 2, order: sequential", 3100 * times),
                  fmt::format("batch: 5, step: {}us, arrives: {}us, order: sequential",
                              2300 * times, 10'000 * times)};
    // A look-ahead that is measured may round differently when a nanosecond does.
    small.more = fmt::format(
        "engine: {{item_slot_bytes: {}, policies: {{scaling: static}}}}\n"
        "grain: {{items_per_block: 8}}\n",
        1000 * sizes);
    return simulate_small(small);
  };
  const output::RunResult plain = run(1, 1);
  const output::RunResult larger = run(4, 1);
  // Events that happen to be at one instant may be a nanosecond apart: a nanosecond an event.
  CHECK(larger.makespan_s == doctest::Approx(plain.makespan_s).epsilon(1e-6));
  CHECK(larger.aggregate.storage_reads == plain.aggregate.storage_reads);
  CHECK(larger.aggregate.storage_bytes == 4 * plain.aggregate.storage_bytes);
  CHECK(run(1, 2).makespan_s == doctest::Approx(2 * plain.makespan_s).epsilon(1e-6));
}

}  // namespace batchflow::test::pipeline_test
