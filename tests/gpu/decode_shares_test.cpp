// Batches on simulated ways of decoding, with given rates and slow pictures. What a batch
// takes at least is worked out by hand: all its work at the rate of all lanes together.
#include "runtime/gpu/decode_shares.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace batchflow::gpu {
namespace {

constexpr JpegWays kAll = 15;

struct TrueWay {
  unsigned lanes = 0;
  double ns_each_unit = 1;
  double slow_part = 0;  // of its pictures
  double slow_times = 1;
};

// Decodes one batch after another: lanes take the pictures of their way in order.
class Decoding {
 public:
  Decoding(const std::array<TrueWay, kJpegWays>& ways, DecodeShares& shares)
      : ways_(ways), shares_(shares) {}

  // What the batch took.
  double batch(const std::vector<std::uint64_t>& pictures, JpegWays allowed = kAll) {
    struct Done {
      DecodeShares::Choice choice;
      std::uint64_t units;
      double at;
    };
    std::vector<Done> done;
    std::array<std::vector<double>, kJpegWays> free_at;
    for (std::size_t i = 0; i < kJpegWays; ++i) free_at[i].assign(ways_[i].lanes, 0.0);
    for (const std::uint64_t units : pictures) {
      const auto choice = shares_.choose(units, allowed);
      const auto way = static_cast<std::size_t>(choice.way);
      REQUIRE(ways_[way].lanes > 0);
      auto& lanes = free_at[way];
      const auto lane = std::min_element(lanes.begin(), lanes.end());
      double busy = static_cast<double>(units) * ways_[way].ns_each_unit;
      if (chance_(random_) < ways_[way].slow_part) busy *= ways_[way].slow_times;
      served_.push_back({choice, units, busy});
      *lane += busy;
      done.push_back({choice, units, *lane});
      ++count[way];
    }
    std::sort(done.begin(), done.end(), [](const Done& a, const Done& b) { return a.at < b.at; });
    for (const Served& one : served_)
      shares_.served(one.choice.way, 1, one.units, static_cast<std::int64_t>(one.busy));
    served_.clear();
    for (const Done& one : done)
      shares_.finished(one.choice, one.units, static_cast<std::int64_t>(one.at));
    return done.back().at;
  }

  std::array<int, kJpegWays> count{};

 private:
  struct Served {
    DecodeShares::Choice choice;
    std::uint64_t units;
    double busy;
  };
  std::array<TrueWay, kJpegWays> ways_;
  DecodeShares& shares_;
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> chance_{0, 1};
  std::vector<Served> served_;
};

std::array<DecodeShares::Way, kJpegWays> guesses(const std::array<TrueWay, kJpegWays>& ways,
                                                 double wrong_by = 1) {
  std::array<DecodeShares::Way, kJpegWays> guesses;
  for (std::size_t i = 0; i < kJpegWays; ++i)
    guesses[i] = {ways[i].lanes, ways[i].ns_each_unit * (i % 2 ? wrong_by : 1 / wrong_by)};
  return guesses;
}

std::vector<std::uint64_t> pictures(std::size_t count) {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> units;
  for (std::size_t i = 0; i < count; ++i) units.push_back(100'000 + random() % 400'000);
  return units;
}

double least_ns(const std::array<TrueWay, kJpegWays>& ways, const std::vector<std::uint64_t>& all) {
  double units = 0, rate = 0;
  for (const std::uint64_t one : all) units += static_cast<double>(one);
  for (const TrueWay& way : ways) rate += way.lanes / way.ns_each_unit;
  return units / rate;
}

double percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * part)];
}

TEST_CASE("all ways end a batch together, though the first guesses are wrong by ten times") {
  const std::array<TrueWay, kJpegWays> ways{{{2, 12}, {8, 5}, {1, 0.7}, {2, 0.8}}};
  DecodeShares shares(guesses(ways, 10));
  Decoding decoding(ways, shares);
  const auto batch = pictures(256);
  const double least = least_ns(ways, batch);
  // No way may be later than the least time and one picture of the slowest.
  const double one = 500'000 * 12.0;
  std::vector<double> took;
  for (int i = 0; i < 200; ++i) took.push_back(decoding.batch(batch));
  const std::vector<double> later(took.begin() + 20, took.end());
  CHECK(percentile(later, 0.5) >= least);
  CHECK(percentile(later, 0.5) <= 1.1 * least);
  CHECK(percentile(later, 1.0) <= 1.2 * least + one);
}

TEST_CASE("each way has the part that its rate is of all rates") {
  const std::array<TrueWay, kJpegWays> ways{{{1, 10}, {1, 5}, {}, {1, 2}}};
  DecodeShares shares(guesses(ways));
  Decoding decoding(ways, shares);
  for (int i = 0; i < 100; ++i) decoding.batch(std::vector<std::uint64_t>(800, 100'000));
  // Rates are as 0.1 : 0.2 : 0.5.
  CHECK(decoding.count[0] == doctest::Approx(80'000 / 8.0).epsilon(0.05));
  CHECK(decoding.count[1] == doctest::Approx(80'000 / 4.0).epsilon(0.05));
  CHECK(decoding.count[2] == 0);
  CHECK(decoding.count[3] == doctest::Approx(80'000 * 5 / 8.0).epsilon(0.05));
}

TEST_CASE("a way with slow pictures has a smaller share, and late batches are less late") {
  // The mean of the second way with its slow pictures is that of the first, nearly; so by their
  // rates each has half of a batch, and the second has a slow picture of 18 ms at the end of most.
  std::array<TrueWay, kJpegWays> ways{{{}, {4, 4}, {}, {4, 2, 0.03, 30}}};
  const auto batch = pictures(256);
  DecodeShares shares(guesses(ways));
  Decoding decoding(ways, shares);
  std::vector<double> took;
  for (int i = 0; i < 1000; ++i) took.push_back(decoding.batch(batch));
  CHECK(shares.late_ns(JpegWay::hardware) > 5e6);
  CHECK(shares.late_ns(JpegWay::host_huffman) < 1e6);
  CHECK(decoding.count[3] < 0.8 * decoding.count[1]);
  // Half of the work takes 0.5 * 76.8e6 / (4 / 4) = 38 ms; two slow pictures more are 74 ms. All of
  // it in the first way takes 77 ms.
  CHECK(percentile(took, 0.99) < 66e6);

  // Once its pictures are no longer slow it has its share again.
  ways[3].slow_part = 0;
  Decoding healed(ways, shares);
  for (int i = 0; i < 100; ++i) healed.batch(batch);
  CHECK(shares.late_ns(JpegWay::hardware) < 1e6);
  CHECK(healed.batch(batch) <= 1.05 * least_ns(ways, batch));
}

TEST_CASE("a picture goes only where it may") {
  const std::array<TrueWay, kJpegWays> ways{{{1, 100}, {1, 5}, {1, 1}, {1, 1}}};
  DecodeShares shares(guesses(ways));
  Decoding decoding(ways, shares);
  decoding.batch(pictures(100), only(JpegWay::cpu) | only(JpegWay::host_huffman));
  CHECK(decoding.count[2] == 0);
  CHECK(decoding.count[3] == 0);
  decoding.count = {};
  decoding.batch(pictures(10), only(JpegWay::cpu));
  CHECK(decoding.count[0] == 10);
}

TEST_CASE("a share that is set is kept, whatever is measured") {
  const std::array<TrueWay, kJpegWays> ways{{{1, 100}, {1, 5}, {}, {1, 1000}}};
  for (const double share : {0.0, 0.25, 0.75, 1.0}) {
    DecodeShares shares(guesses(ways), share);
    Decoding decoding(ways, shares);
    for (int i = 0; i < 4; ++i) decoding.batch(pictures(100));
    CHECK(decoding.count[3] == static_cast<int>(400 * share));
  }
}

TEST_CASE("a picture that moves to another way waits there, and no longer here") {
  std::array<DecodeShares::Way, kJpegWays> ways{};
  ways[0] = {1, 2.0};
  ways[3] = {1, 1.0};
  DecodeShares shares(ways);
  const auto first = shares.choose(1000, kAll);
  CHECK(first.way == JpegWay::hardware);
  CHECK(first.expected_ns == 1000);
  CHECK(shares.waiting_ns(JpegWay::hardware) == 1000);
  const auto moved = shares.move(first, JpegWay::cpu, 1000);
  CHECK(moved.way == JpegWay::cpu);
  CHECK(shares.waiting_ns(JpegWay::hardware) == 0);
  CHECK(shares.waiting_ns(JpegWay::cpu) == 2000);
  shares.failed(moved, 1000);
  CHECK(shares.waiting_ns(JpegWay::cpu) == 0);
}

}  // namespace
}  // namespace batchflow::gpu
