// Sanity checks of caches: hits in closed form, over random and repeated orders.
#include <cmath>

#include "tests/world/harness.h"

namespace batchflow::test::cache_test {

namespace {

// One node with a cache that holds exactly `cached` of `samples` samples, in their encoded form.
// They take one slot of 4096 bytes each, and the promises to jobs come on top: for each job and
// node, two batches of 10 bytes and the block in preparation.
struct Cached {
  std::uint64_t samples = 1000;
  std::uint64_t cached = 350;
  std::string eviction = "minio";
  std::string order = "relaxed";
  int epochs = 10;
  int jobs = 1;
  bool share = true;
  std::uint32_t block = 8;

  output::RunResult run() const {
    Small small;
    small.samples = samples;
    small.bytes = "4096";
    const std::uint64_t streams = share ? 1 : static_cast<std::uint64_t>(jobs);
    const std::uint64_t promised = (2 * static_cast<std::uint64_t>(jobs) + streams) * block;
    small.node =
        fmt::format("cores: {}, gpus: {}, memory: {}", jobs, jobs, cached * 4096 + promised);
    small.steps = "[{name: work, random: true, output: 1}]";
    small.jobs = {fmt::format("count: {}, batch: {}, step: 1ms, order: {}, epochs: {}", jobs, block,
                              order, epochs)};
    small.more = fmt::format(
        "grain: {{items_per_block: {}}}\n"
        "engine:\n  credits: 2\n  share_streams: {}\n  policies:\n"
        "    allocation: proportional:forms=encoded\n    eviction: {{encoded: {}}}\n"
        "    scaling: static:depth=1\n",
        block, share, eviction);
    return simulate_small(small);
  }
  // Of the requests after the first `warm` epochs.
  double steady_miss_ratio(int warm) const {
    Cached first = *this;
    first.epochs = warm;
    const output::RunResult all = run();
    const output::RunResult early = first.run();
    return static_cast<double>(all.aggregate.samples_read - early.aggregate.samples_read) /
           static_cast<double>(all.aggregate.samples_requested - early.aggregate.samples_requested);
  }
};

double lru_miss(double c) {
  return 1 - c - (1 - c) * std::log(1 - c);
}

// m solves 1 - m = ((1 - exp(-a)) / a)^2 with a = m / c.
double random_miss(double c) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < 60; ++i) {
    const double m = (low + high) / 2;
    const double a = m / c;
    const double hits = (1 - std::exp(-a)) / a;
    (1 - m > hits * hits ? low : high) = m;
  }
  return low;
}

}  // namespace

TEST_CASE("check 17, MinIO: N + (E - 1)(N - C) reads, for any order") {
  for (const char* order : {"relaxed", "strict", "sequential"}) {
    CAPTURE(order);
    Cached cached;
    cached.order = order;
    CHECK(cached.run().aggregate.samples_read == 1000 + 9 * 650);
  }
}

TEST_CASE("check 18, LRU on a repeated scan never hits") {
  Cached cached;
  cached.eviction = "lru";
  cached.order = "sequential";
  cached.cached = 900;
  CHECK(cached.run().aggregate.samples_read == 10 * 1000);
  cached.cached = 1000;
  CHECK(cached.run().aggregate.samples_read == 1000);
}

TEST_SUITE("figures") {
  TEST_CASE("check 18, LRU over permutations misses 1 - c - (1 - c) ln(1 - c)") {
    for (const double c : {0.35, 0.5, 0.65}) {
      CAPTURE(c);
      Cached cached{4000, static_cast<std::uint64_t>(4000 * c), "lru", "strict", 12};
      CHECK(cached.steady_miss_ratio(2) == doctest::Approx(lru_miss(c)).epsilon(0.01));
    }
  }

  TEST_CASE("case 2a, random replacement over permutations misses as its closed form says") {
    CHECK(random_miss(0.35) == doctest::Approx(0.862).epsilon(0.001));
    CHECK(random_miss(0.65) == doctest::Approx(0.537).epsilon(0.001));
    for (const double c : {0.35, 0.5, 0.65}) {
      CAPTURE(c);
      Cached cached{4000, static_cast<std::uint64_t>(4000 * c), "random", "strict", 14};
      CHECK(cached.steady_miss_ratio(4) == doctest::Approx(random_miss(c)).epsilon(0.015));
    }
  }

  TEST_CASE("case 2a, random replacement on a repeated scan misses 1 - exp(-m/c)") {
    for (const auto& [c, miss] : {std::pair{0.35, 0.930}, {0.5, 0.797}, {0.65, 0.607}}) {
      CAPTURE(c);
      Cached cached{4000, static_cast<std::uint64_t>(4000 * c), "random", "sequential", 14};
      CHECK(cached.steady_miss_ratio(4) == doctest::Approx(miss).epsilon(0.015));
    }
  }
}

TEST_CASE("check 17, Belady on permuted epochs hits at most C an epoch") {
  Cached cached;
  cached.eviction = "belady";
  cached.epochs = 4;
  const output::RunResult run = cached.run();
  CHECK(run.aggregate.samples_requested - run.aggregate.samples_read <= 3 * 350);
}

TEST_CASE(
    "check 26, the first epoch of jobs in step: N misses shared, about 5.55 N with MinIO alone") {
  Cached cached{1000, 350, "minio", "relaxed", 1, 8};
  CHECK(cached.run().aggregate.samples_read == 1000);
  cached.share = false;
  const double times = static_cast<double>(cached.run().aggregate.samples_read) / 1000;
  CHECK(times == doctest::Approx(5.55).epsilon(0.03));
}

TEST_SUITE("figures") {
  TEST_CASE("case 2c, eight loaders in step over one page cache: 5.2 to 5.5 datasets an epoch") {
    for (const auto& [eviction, times] :
         {std::pair{"minio", 5.20}, {"random", 5.42}, {"lru", 5.48}}) {
      CAPTURE(eviction);
      Cached cached{2000, 700, eviction, "relaxed", 8, 8, false};
      CHECK(8 * cached.steady_miss_ratio(2) == doctest::Approx(times).epsilon(0.02));
    }
    // Coordinated, after the first epoch: exactly the samples that are not cached.
    Cached together{2000, 700, "minio", "relaxed", 8, 8, true};
    CHECK(together.run().aggregate.samples_read == 2000 + 7 * 1300);
  }
}

TEST_CASE("check 23, more cache never reads more under MinIO") {
  std::uint64_t before = UINT64_MAX;
  for (const std::uint64_t size : {0, 100, 350, 700, 1000}) {
    CAPTURE(size);
    Cached cached;
    cached.cached = size;
    cached.epochs = 3;
    const std::uint64_t reads = cached.run().aggregate.samples_read;
    CHECK(reads == 1000 + 2 * (1000 - size));
    CHECK(reads <= before);
    before = reads;
  }
}

TEST_SUITE("figures") {
  TEST_CASE(
      "few large items hit as many small ones do: within a point from 64 items a dataset on") {
    for (const std::uint64_t items : {64, 256}) {
      for (const double c : {0.25, 0.5, 0.75}) {
        CAPTURE(items);
        CAPTURE(c);
        const auto cached = static_cast<std::uint64_t>(static_cast<double>(items) * c);
        const auto miss = [&](const char* eviction) {
          return Cached{items, cached, eviction, "strict", 200, 1, true, 1}.steady_miss_ratio(20);
        };
        CHECK(miss("minio") == 1 - c);
        CHECK(std::abs(miss("lru") - lru_miss(c)) < 0.01);
        CHECK(std::abs(miss("random") - random_miss(c)) < 0.01);
      }
    }
  }
}

TEST_CASE("case 2d, a cached share x of the bytes leaves (1 - x) D / S of storage time an epoch") {
  // 1000 samples of 4096 bytes at 409.6 kB/s: 10 s; with 650 of them cached, 3.5 s.
  Small small;
  small.samples = 1000;
  small.bytes = "4096";
  small.node = fmt::format("cores: 1, gpus: 1, memory: {}", 650 * 4096 + 24);
  small.store = "{bytes_per_s: 409600}";
  small.steps = "[{name: work, random: true, output: 1}]";
  small.jobs = {"batch: 8, step: 1ms, order: strict, epochs: 11"};
  small.more =
      "grain: {items_per_block: 8}\n"
      "engine: {credits: 2, policies: {allocation: 'proportional:forms=encoded', eviction: "
      "{encoded: "
      "minio}}}\n";
  const output::RunResult run = simulate_small(small);
  CHECK(run.makespan_s == doctest::Approx(10 + 10 * 3.5).epsilon(0.002));
}

}  // namespace batchflow::test::cache_test
