#include "core/order/order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "core/order/replacement.h"

namespace batchflow::test::order_test {

namespace {

constexpr order::KeyRoot kRoot{0x1234, 42};

order::GenerationOrder generation_of(Order order, std::uint64_t generation, std::uint64_t samples,
                                     std::uint32_t block_samples, std::uint32_t lane_blocks) {
  return {order, kRoot, generation, {samples, block_samples, lane_blocks}};
}

order::Lineage lineage_of(const order::GenerationOrder& order, std::uint32_t lane,
                          std::uint32_t pass, std::uint32_t block) {
  return order.lineage({order.generation, lane, pass, block}, DatasetId(0), PipelineId(0), 0);
}

// All blocks of one pass of each lane, end to end.
std::vector<SampleId> whole_epoch(order::Expander& expander, const order::GenerationOrder& order,
                                  std::uint32_t pass) {
  std::vector<SampleId> all;
  std::vector<SampleId> block;
  for (std::uint32_t lane = 0; lane < order.sizes.lanes(); ++lane) {
    for (std::uint32_t b = 0; b < order.sizes.blocks_of(lane); ++b) {
      expander.expand(lineage_of(order, lane, pass, b), order.sizes.samples, block);
      all.insert(all.end(), block.begin(), block.end());
    }
  }
  return all;
}

std::vector<SampleId> strict_sequence(std::uint64_t epoch, std::uint64_t samples) {
  const order::Permutation permutation(order::generation_key(kRoot, epoch), samples);
  std::vector<SampleId> sequence;
  for (std::uint64_t q = 0; q < samples; ++q) sequence.emplace_back(permutation(q));
  return sequence;
}

bool is_each_once(std::vector<SampleId> ids) {
  std::sort(ids.begin(), ids.end());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != SampleId(i)) return false;
  }
  return true;
}

// Every index of the pass is found again, and single indices agree with whole blocks.
void check_inverse(order::Expander& expander, const order::GenerationOrder& order,
                   std::uint32_t pass) {
  std::vector<SampleId> block;
  for (std::uint32_t lane = 0; lane < order.sizes.lanes(); ++lane) {
    for (std::uint32_t b = 0; b < order.sizes.blocks_of(lane); ++b) {
      const order::Lineage lineage = lineage_of(order, lane, pass, b);
      expander.expand(lineage, order.sizes.samples, block);
      for (std::uint32_t index = 0; index < block.size(); ++index) {
        REQUIRE(expander.at(lineage, order.sizes.samples, index) == block[index]);
        REQUIRE(expander.find(order, pass, block[index]) == order::Standing{lane, b, index});
      }
    }
  }
}

}  // namespace

TEST_CASE("strict: ids and draws, hence bytes, are the same for any block and lane size") {
  constexpr std::uint64_t kSamples = 10'007;
  const std::vector<SampleId> expected = strict_sequence(3, kSamples);
  order::Expander expander;
  for (const std::uint32_t block_samples : {16u, 100u, 256u}) {
    for (const std::uint32_t lane_blocks : {1u, 7u, 4096u}) {
      const auto order = generation_of(Order::strict, 3, kSamples, block_samples, lane_blocks);
      CHECK(whole_epoch(expander, order, 0) == expected);
      // A worker knows nothing but the lineage: what it draws from must lead to the same key.
      for (std::uint64_t k = 0; k < order.sizes.blocks(); k += 5) {
        const order::BlockName name{3, static_cast<std::uint32_t>(k / lane_blocks), 0,
                                    static_cast<std::uint32_t>(k % lane_blocks)};
        const order::Lineage lineage = order.lineage(name, DatasetId(1), PipelineId(2), 3);
        const SampleId id = expander.at(lineage, kSamples, 0);
        const order::KeyRoot root{lineage.dataset_version, lineage.seed};
        REQUIRE(id == expected[k * block_samples]);
        REQUIRE(order::draw_key(root, lineage.name.generation, lineage.name.pass, id) ==
                hash(3, 0x1234, 42, 3, 0, expected[k * block_samples].value));
      }
    }
  }
}

TEST_CASE("relaxed: pass 0 is the strict epoch; later passes cut each lane anew") {
  order::Expander expander;
  const auto relaxed = generation_of(Order::relaxed, 5, 9999, 16, 40);
  const std::vector<SampleId> strict = strict_sequence(5, 9999);
  CHECK(whole_epoch(expander, relaxed, 0) == strict);

  const std::uint64_t lane_samples = 16 * 40;
  std::vector<SampleId> before = strict;
  for (std::uint32_t pass = 1; pass < 4; ++pass) {
    std::vector<SampleId> now = whole_epoch(expander, relaxed, pass);
    CHECK(now != before);
    CHECK(is_each_once(now));
    before = now;
    for (std::size_t first = 0; first < now.size(); first += lane_samples) {
      const std::size_t last = std::min<std::size_t>(now.size(), first + lane_samples);
      std::vector<SampleId> lane(now.begin() + static_cast<std::ptrdiff_t>(first),
                                 now.begin() + static_cast<std::ptrdiff_t>(last));
      std::vector<SampleId> of_strict(strict.begin() + static_cast<std::ptrdiff_t>(first),
                                      strict.begin() + static_cast<std::ptrdiff_t>(last));
      std::sort(lane.begin(), lane.end());
      std::sort(of_strict.begin(), of_strict.end());
      REQUIRE(lane == of_strict);
    }
  }
}

TEST_CASE("sequential is the identity, whatever the epoch") {
  order::Expander expander;
  const auto order = generation_of(Order::sequential, 9, 1000, 64, 3);
  const std::vector<SampleId> ids = whole_epoch(expander, order, 0);
  for (std::size_t i = 0; i < ids.size(); ++i) REQUIRE(ids[i] == SampleId(i));
  check_inverse(expander, order, 0);
}

TEST_CASE(
    "where a sample stands is the inverse of what stands where, also in the last, short lane") {
  order::Expander expander;
  for (const std::uint64_t samples : {1u, 5u, 16u, 17u, 1000u, 1023u, 1024u, 1025u, 70'001u}) {
    for (const std::uint32_t block_samples : {1u, 16u, 100u}) {
      if (samples > 2000 && block_samples == 1) continue;
      const auto order = generation_of(Order::relaxed, 2, samples, block_samples, 8);
      INFO("samples = " << samples << " block = " << block_samples);
      check_inverse(expander, order, 0);
      check_inverse(expander, order, 3);
      CHECK(is_each_once(whole_epoch(expander, order, 3)));
    }
  }
}

TEST_CASE("a part of a block is that part of the whole") {
  order::Expander expander;
  const auto order = generation_of(Order::relaxed, 2, 100'000, 256, 30);
  for (const std::uint32_t pass : {0u, 1u}) {
    const order::Lineage lineage = lineage_of(order, 3, pass, 7);
    std::vector<SampleId> whole;
    std::vector<SampleId> part;
    expander.expand(lineage, 100'000, whole);
    expander.expand(lineage, 100'000, 17, 99, part);
    CHECK(part == std::vector<SampleId>(whole.begin() + 17, whole.begin() + 99));
  }
}

TEST_CASE("golden values of a relaxed block: a change here changes every relaxed order") {
  order::Expander expander;
  const order::GenerationOrder order{Order::relaxed, {1, 2}, 3, {1281167, 256, 40}};
  std::vector<SampleId> ids;
  expander.expand(lineage_of(order, 0, 0, 0), 1281167, 0, 1, ids);
  const order::Permutation generation(hash(1, 1, 2, 3), 1281167);
  CHECK(ids[0] == SampleId(generation(0)));
  expander.expand(lineage_of(order, 125, 2, 4), 1281167, 5, 6, ids);
  // Lane 125 is the last: 5005 blocks, 5 of them in it, 1281167 - 125 * 40 * 256 = 1167 samples.
  const order::Permutation recut(hash(2, 1, 2, 3, 125, 2), 1167);
  CHECK(ids[0] == SampleId(generation(125 * 40 * 256 + recut(4 * 256 + 5))));
}

TEST_CASE("lineages of no block are refused") {
  const auto order = generation_of(Order::relaxed, 0, 1000, 16, 8);  // 63 blocks, 8 lanes
  const order::Lineage last = lineage_of(order, 7, 0, 6);
  CHECK(last.samples == 8);
  CHECK(order::valid_lineage(last, 1000));
  const auto refused = [](order::Lineage lineage, auto change) {
    change(lineage);
    return !order::valid_lineage(lineage, 1000);
  };
  CHECK(refused(last, [](order::Lineage& l) { l.name.block = 7; }));
  CHECK(refused(last, [](order::Lineage& l) { l.name.lane = 8; }));
  CHECK(refused(last, [](order::Lineage& l) { l.name.lane = UINT32_MAX; }));
  CHECK(refused(last, [](order::Lineage& l) { l.samples = 16; }));
  CHECK(refused(last, [](order::Lineage& l) { l.block_samples = 0; }));
  CHECK(refused(last, [](order::Lineage& l) { l.lane_blocks = 0; }));
  CHECK(refused(last, [](order::Lineage& l) { l.order = Order::listed; }));
  CHECK(refused(last, [](order::Lineage& l) {
    l.order = Order::strict;
    l.name.pass = 1;
  }));
  CHECK(!order::valid_lineage(last, 0));
  CHECK(!order::valid_lineage(last, UINT64_MAX));
}

TEST_CASE("draws: fresh for each generation, pass, sample and step; nothing else matters") {
  const std::uint64_t key = order::draw_key(kRoot, 1, 2, SampleId(3));
  CHECK(key != order::draw_key(kRoot, 2, 2, SampleId(3)));
  CHECK(key != order::draw_key(kRoot, 1, 3, SampleId(3)));
  CHECK(key != order::draw_key(kRoot, 1, 2, SampleId(4)));
  CHECK(order::step_seed(key, 0) == hash(key, 0));
}

TEST_CASE("replacements: the first good candidate, the same for everyone; 64 bad ones end it") {
  const auto candidate = [](std::uint32_t k) {
    return order::replacement_candidate(kRoot, 1, 0, SampleId(7), k, {SampleId(0), 1000});
  };
  CHECK(candidate(0) == SampleId(high_64_of_product(hash(5, 0x1234, 42, 1, 0, 7, 0), 1000)));
  const auto find = [](auto is_corrupt) {
    return order::replacement(kRoot, 1, 0, SampleId(7), {SampleId(0), 1000}, is_corrupt);
  };
  CHECK(find([](SampleId) { return false; }) == candidate(0));
  CHECK(find([&](SampleId s) { return s == candidate(0); }) == candidate(1));
  CHECK(!find([](SampleId) { return true; }));
}

TEST_CASE("replacements: 1 % corrupt costs 1.01 tries, and no good sample is used often") {
  // 20 epochs of 1000 corrupt of 100,000: tries are geometric with mean 1 / 0.99.
  std::uint64_t tries = 0;
  std::vector<int> used(100'000);
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    for (std::uint64_t s = 0; s < 1000; ++s) {
      const auto is_corrupt = [&](SampleId id) {
        ++tries;
        return id.value < 1000;
      };
      const auto good =
          order::replacement(kRoot, epoch, 0, SampleId(s), {SampleId(0), 100'000}, is_corrupt);
      REQUIRE(good.has_value());
      ++used[good->value];
    }
  }
  CHECK(static_cast<double>(tries) / 20'000 == doctest::Approx(1 / 0.99).epsilon(0.004));
  CHECK(*std::max_element(used.begin(), used.end()) <= 6);
}

TEST_CASE("the cache of permutations forgets the one unused for longest and stays right") {
  order::PermutationCache cache(1);  // less than one: the last two stay
  const order::Permutation& first = cache.get(1, 100);
  cache.get(2, 100);
  CHECK(&cache.get(1, 100) == &first);
  cache.get(3, 100);  // takes the place of key 2
  CHECK(&cache.get(1, 100) == &first);
  CHECK(cache.get(2, 100)(0) == order::Permutation(2, 100)(0));
  CHECK(cache.get(2, 101).size() == 101);
}

TEST_CASE("the cache of permutations is bounded in bytes, whatever is asked of it") {
  constexpr std::size_t kTable =
      4 * order::Permutation::kTableMost;  // both directions, two bytes each
  order::PermutationCache cache(3 * kTable);
  for (std::uint64_t key = 0; key < 16; ++key) {
    cache.get(key, order::Permutation::kTableMost);
    CHECK(cache.bytes() <= 3 * kTable);
  }
  CHECK(cache.bytes() >= 2 * kTable);
  CHECK(cache.entries_made() == 16 * order::Permutation::kTableMost);
  // Networks have no table, and small tables are many.
  cache.get(1, order::Permutation::kTableMost + 1);
  CHECK(cache.entries_made() == 16 * order::Permutation::kTableMost);
  for (std::uint64_t key = 0; key < 10'000; ++key) {
    cache.get(key, 100);
    CHECK(cache.bytes() <= 3 * kTable);
  }
}

// ---------------------------------------------------------------------------------- runs ----

namespace {

order::GenerationOrder runs_of(std::uint64_t generation, order::LaneSizes sizes,
                               std::uint8_t shift) {
  order::GenerationOrder order{Order::relaxed, kRoot, generation, sizes};
  order.run_shift = shift;
  return order;
}

// The rule as it is written, without a word of how it is computed: the runs in the order of their
// permutation, end to end, cut into lanes, and each lane in the order of its own permutation.
std::vector<SampleId> runs_by_the_rule(const order::GenerationOrder& order, std::uint32_t pass) {
  const order::LaneSizes& sizes = order.sizes;
  const std::uint64_t run = std::uint64_t{1} << order.run_shift;
  const std::uint64_t runs = (sizes.samples + run - 1) / run;
  const order::Permutation of_runs(order::generation_key(kRoot, order.generation), runs);
  std::vector<SampleId> end_to_end;
  for (std::uint64_t at = 0; at < runs; ++at) {
    for (std::uint64_t s = of_runs(at) * run; s < (of_runs(at) + 1) * run; ++s)
      if (s < sizes.samples) end_to_end.emplace_back(s);
  }
  std::vector<SampleId> all;
  const std::uint64_t lane_most = std::uint64_t{sizes.lane_blocks} * sizes.block_samples;
  for (std::uint32_t lane = 0; lane < sizes.lanes(); ++lane) {
    const std::uint64_t first = lane * lane_most;
    const std::uint64_t n = std::min(lane_most, sizes.samples - first);
    const order::Permutation recut(order::recut_key(kRoot, order.generation, lane, pass), n);
    for (std::uint64_t i = 0; i < n; ++i) all.push_back(end_to_end[first + recut(i)]);
  }
  return all;
}

}  // namespace

TEST_CASE("runs: each sample once in each pass, as the rule says, and found again") {
  order::Expander expander;
  for (const std::uint64_t samples : {1, 7, 8, 9, 1000, 1001, 1023, 4096}) {
    for (const std::uint8_t shift : std::initializer_list<std::uint8_t>{1, 3, 5, 12}) {
      for (const order::LaneSizes sizes :
           {order::LaneSizes{samples, 16, 4}, order::LaneSizes{samples, 7, 3},
            order::LaneSizes{samples, 1, 1}}) {
        for (std::uint32_t pass = 0; pass < 3; ++pass) {
          const auto order = runs_of(pass, sizes, shift);
          const std::vector<SampleId> all = whole_epoch(expander, order, pass);
          CHECK(is_each_once(all));
          CHECK(all == runs_by_the_rule(order, pass));
          check_inverse(expander, order, pass);
        }
      }
    }
  }
}

TEST_CASE("runs: the samples of a run stay in one lane, but for a lane's first and last run") {
  order::Expander expander;
  const auto order = runs_of(5, {100'003, 64, 40}, 6);
  std::vector<SampleId> block;
  std::vector<std::set<std::uint64_t>> lanes_of(100'003 / 64 + 1);
  for (std::uint32_t lane = 0; lane < order.sizes.lanes(); ++lane) {
    for (std::uint32_t b = 0; b < order.sizes.blocks_of(lane); ++b) {
      expander.expand(lineage_of(order, lane, 0, b), order.sizes.samples, block);
      for (const SampleId sample : block) lanes_of[sample.value >> 6].insert(lane);
    }
  }
  std::uint64_t visits = 0;
  for (const auto& lanes : lanes_of) visits += lanes.size();
  // What a memory of one lane reads: each run once, and again where a lane's end cuts it. Lanes
  // hold whole runs, so only those behind the short last run are cut.
  CHECK(visits >= lanes_of.size());
  CHECK(visits < lanes_of.size() + order.sizes.lanes());
}

TEST_CASE("runs: blocks of runs are relaxed, and those of other orders have none") {
  order::Lineage lineage = lineage_of(runs_of(0, {1000, 16, 4}, 3), 0, 0, 0);
  CHECK(order::valid_lineage(lineage, 1000));
  lineage.order = Order::strict;
  CHECK_FALSE(order::valid_lineage(lineage, 1000));
  lineage.order = Order::sequential;
  CHECK_FALSE(order::valid_lineage(lineage, 1000));
  lineage.order = Order::relaxed;
  lineage.run_shift = 32;
  CHECK_FALSE(order::valid_lineage(lineage, 1000));
}

// What planners of caches count on: of the ranks that share an epoch, one has a sample in each
// epoch with the same chance, whatever it had before.
TEST_CASE("how often a rank has a sample in some epochs is binomial") {
  const auto times_of = [](std::uint64_t samples, std::uint64_t epochs, std::uint64_t ranks) {
    std::vector<std::uint32_t> times(samples);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      const std::vector<SampleId> sequence = strict_sequence(epoch, samples);
      for (std::uint64_t q = 0; q < samples; q += ranks) ++times[sequence[q].value];
    }
    return times;
  };
  const auto near = [](std::uint64_t count, std::uint64_t of, double part) {
    const double deviation = std::sqrt(static_cast<double>(of) * part * (1 - part));
    return std::abs(static_cast<double>(count) - static_cast<double>(of) * part) < 5 * deviation;
  };
  constexpr std::uint64_t kSamples = 20'000;
  const std::vector<std::uint32_t> five = times_of(kSamples, 5, 4);
  constexpr double kParts[] = {.2373, .3955, .2637, .0879, .0146, .0010};
  for (std::uint32_t times = 0; times <= 5; ++times) {
    CAPTURE(times);
    const auto count = std::count(five.begin(), five.end(), times);
    CHECK(near(static_cast<std::uint64_t>(count), kSamples, kParts[times]));
  }
  // Of ImageNet's 1,281,167 samples one of 16 ranks has 31,635 more than ten times in 90 epochs.
  const std::vector<std::uint32_t> ninety = times_of(kSamples, 90, 16);
  const auto often =
      std::count_if(ninety.begin(), ninety.end(), [](std::uint32_t times) { return times > 10; });
  CHECK(near(static_cast<std::uint64_t>(often), kSamples, 31'635.0 / 1'281'167));
}

}  // namespace batchflow::test::order_test
