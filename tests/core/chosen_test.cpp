// Epochs of which a policy chooses the samples, and the positions that name what it passed over.
#include "core/order/chosen.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/order/index_set.h"
#include "core/order/position_bytes.h"
#include "core/order/position_json.h"

namespace batchflow::test::chosen_test {

namespace {

using Indices = std::vector<std::uint64_t>;

constexpr order::KeyRoot kRoot{7, 42};

std::vector<std::byte> bytes_of(const Indices& indices) {
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  order::write_indices(indices, writer);
  return bytes;
}

std::vector<std::byte> bytes_of(const order::Position& position) {
  std::vector<std::byte> bytes;
  order::encode(position, bytes);
  return bytes;
}

void check_round_trip(const order::Position& position) {
  std::string problem;
  const auto from_bytes = order::decode_position(bytes_of(position), problem);
  REQUIRE_MESSAGE(from_bytes, problem);
  REQUIRE(bytes_of(*from_bytes) == bytes_of(position));
  const std::string json = order::to_json(position);
  const auto from_json = order::position_from_json(json, problem);
  REQUIRE_MESSAGE(from_json, problem << " in " << json);
  REQUIRE(bytes_of(*from_json) == bytes_of(position));
  REQUIRE(order::to_json(*from_json) == json);
}

std::string apply(order::Position& position, const Indices& indices, std::uint32_t samples) {
  const order::Slice slice{{position.epoch(), 0, 0, 0}, 0, samples};
  return position.apply({&slice, 1}, indices);
}

// A job of blocks of B samples and steps of G, and a policy that picks at random, which passes some
// samples over for as long as it can. What is held ahead differs from step to step.
class RandomJob {
 public:
  explicit RandomJob(std::uint64_t seed)
      : random_(hash(41, seed)),
        samples_(1 + random_.below(seed % 8 == 0 ? 70'000 : 2000)),
        block_(1 + random_.below(60)),
        position_(order::Position::chosen(7, samples_, 42, 3)) {
    begin();
  }

  // False: the epoch is over.
  bool step() {
    const std::uint64_t count =
        std::min<std::uint64_t>(1 + random_.below(200), samples_ - position_.consumed());
    if (count == 0) return false;
    const std::uint64_t to = position_.consumed() + count;
    while (epoch_->taken() < to) choose();
    Indices indices;
    epoch_->add_indices(position_.consumed(), to, indices);
    std::vector<order::Draw> drawn(count);
    epoch_->fill(position_.consumed(), drawn);
    const order::Permutation order(order::generation_key(kRoot, 3), samples_);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(drawn[i].sample.value == order(indices[i]));
      REQUIRE(had_.insert(drawn[i].sample.value).second);
    }
    std::sort(indices.begin(), indices.end());
    REQUIRE(apply(position_, indices, static_cast<std::uint32_t>(count)) == "");
    most_left_out_ = std::max(most_left_out_, position_.fields().left_out.size());
    return true;
  }
  // Another service goes on, in blocks of another size.
  void resume() {
    std::string problem;
    position_ = *order::position_from_json(order::to_json(position_), problem);
    block_ = 1 + random_.below(60);
    begin();
  }
  const order::Position& position() const { return position_; }
  std::uint64_t samples() const { return samples_; }
  std::uint64_t had() const { return had_.size(); }
  std::size_t most_left_out() const { return most_left_out_; }
  std::uint64_t below(std::uint64_t most) { return random_.below(most); }

 private:
  void begin() {
    epoch_.emplace(kRoot, 3, samples_, position_.consumed(), position_.fields().left_out,
                   position_.consumed() % block_);
    REQUIRE(epoch_->taken() == position_.consumed());
  }
  void choose() {
    const std::uint64_t count =
        std::min(block_ - epoch_->taken() % block_, samples_ - epoch_->taken());
    const auto shown = epoch_->candidates(std::max<std::size_t>(count, 1 + random_.below(3000)));
    std::vector<std::uint32_t> all(shown.size());
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t i = 0; i < count; ++i)
      std::swap(all[i], all[i + (i == 0 ? 0 : random_.below(all.size() - i))]);
    const std::size_t offered = shown.size();
    // Mostly the newest: then many are left out.
    if (random_.below(3) > 0) std::reverse(all.begin(), all.end());
    all.resize(count);
    epoch_->take(all, offered);
  }

  Random random_;
  std::uint64_t samples_;
  std::uint64_t block_;
  order::Position position_;
  std::optional<order::ChosenEpoch> epoch_;
  std::set<std::uint64_t> had_;
  std::size_t most_left_out_ = 0;
};

}  // namespace

TEST_CASE("a set of indices in bytes and back, one text for each set") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(hash(43, seed));
    Indices indices;
    std::uint64_t at = random.below(2) == 0 ? 0 : random.below(1u << 30);
    for (std::uint64_t left = random.below(60); left > 0; --left) {
      at += random.below(3) == 0 ? 2 + random.below(1u << random.below(20)) : 1;
      indices.push_back(at);
    }
    const std::vector<std::byte> bytes = bytes_of(indices);
    CHECK(bytes.size() <= 2 + 7 * indices.size());
    const auto read = [&](std::span<const std::byte> from, std::uint64_t most, std::uint64_t end) {
      ByteReader reader(from);
      const Indices again = order::read_indices(reader, most, end);
      return reader.ok() && reader.at_end() ? again : Indices{UINT64_MAX};
    };
    CHECK(read(bytes, indices.size(), at + 1) == indices);
    if (!indices.empty()) {
      CHECK(read(bytes, indices.size() - 1, at + 1) == Indices{UINT64_MAX});
      CHECK(read(bytes, indices.size(), at) == Indices{UINT64_MAX});
    }
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK(read(std::span(bytes).first(size), 1000, UINT64_MAX) == Indices{UINT64_MAX});
    std::vector<std::byte> changed = bytes;
    changed[random.below(changed.size())] ^= std::byte(1 + random.below(255));
    const Indices other = read(changed, 1000, UINT64_MAX);
    if (other != Indices{UINT64_MAX}) CHECK(bytes_of(other) == changed);
  }
}

TEST_CASE("whatever is picked, and wherever a job goes on, each sample comes once") {
  std::size_t most_left_out = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    RandomJob job(seed);
    while (job.step()) {
      check_round_trip(job.position());
      if (job.below(4) == 0) job.resume();
    }
    CHECK(job.had() == job.samples());
    CHECK(job.position().fields().left_out.empty());
    most_left_out = std::max(most_left_out, job.most_left_out());
    order::Position position = job.position();
    position.finish_epoch();
    check_round_trip(position);
    CHECK(position.epoch() == 4);
    CHECK(position.is_chosen());
  }
  CHECK(most_left_out > 1000);
  CHECK(most_left_out <= order::Position::kLeftOutMost);
}

TEST_CASE("chosen samples that a job cannot have had are refused, and change nothing") {
  order::Position position = order::Position::chosen(7, 20'000, 42);
  REQUIRE(apply(position, {0, 1, 4, 7}, 4) == "");
  CHECK(position.fields().left_out == Indices{2, 3, 5, 6});
  check_round_trip(position);
  const std::vector<std::byte> before = bytes_of(position);
  const auto refused = [&](const Indices& indices, std::uint32_t samples) {
    return apply(position, indices, samples) != "" && bytes_of(position) == before;
  };
  CHECK(refused({1}, 1));
  CHECK(refused({2, 7}, 2));
  CHECK(refused({3, 2}, 2));
  CHECK(refused({2, 2}, 2));
  CHECK(refused({2}, 2));
  CHECK(refused({2, 3}, 1));
  CHECK(refused({}, 1));
  CHECK(refused({20'000}, 1));
  CHECK(refused({UINT64_MAX}, 1));
  CHECK(refused({8 + 8189}, 1));  // so many would be left out
  CHECK(position.apply({}, Indices{2}) != "");
  const order::Slice other_epoch{{1, 0, 0, 0}, 0, 1};
  CHECK(position.apply({&other_epoch, 1}, Indices{2}) != "");
  order::Position again = order::Position::chosen(7, 20'000, 42);
  REQUIRE(apply(again, {0, 1, 4, 7}, 4) == "");
  CHECK(apply(again, {8 + 8188}, 1) == "");
  CHECK(again.fields().left_out.size() == 8192);
  check_round_trip(again);
  order::Position strict(Order::strict, 7, 20'000, 42);
  CHECK(apply(strict, {0}, 1) == "chosen samples in an order that has none");
  CHECK(apply(strict, {}, 1) == "");
}

TEST_CASE("what was passed over is checked where a position comes from outside") {
  const auto problem_with = [](auto change) {
    order::Position::Fields fields = order::Position::chosen(7, 100, 42).fields();
    fields.consumed = 4;
    fields.left_out = {2, 3, 5, 6};
    change(fields);
    std::string problem;
    return order::Position::from(fields, problem) ? std::string() : problem;
  };
  CHECK(problem_with([](auto&) {}) == "");
  CHECK(problem_with([](auto& f) { f.consumed = 3; }) == "index 6 cannot be left out");
  CHECK(problem_with([](auto& f) { f.consumed = 97; }) ==
        "97 samples consumed and 4 left out of 100");
  CHECK(problem_with([](auto& f) { f.left_out = {3, 2}; }) == "index 2 cannot be left out");
  CHECK(problem_with([](auto& f) { f.left_out = {2, 2}; }) == "index 2 cannot be left out");
  CHECK(problem_with([](auto& f) { f.left_out = {UINT64_MAX}; }) != "");
  CHECK(problem_with([](auto& f) { f.chosen = false; }) != "");
  CHECK(problem_with([](auto& f) {
          f.chosen = false;
          f.consumed = 0;
        }) == "samples left out in an order that has none");
  CHECK(problem_with([](auto& f) { f.order = Order::strict; }) ==
        "chosen samples in an order that has none");
  CHECK(problem_with([](auto& f) {
          f.lanes.sizes = {100, 10, 2};
        }) == "lanes of samples that are chosen");
  CHECK(problem_with([](auto& f) {
          f.samples = 20'000;
          f.left_out.resize(8193);
          std::iota(f.left_out.begin(), f.left_out.end(), 0);
        }) == "too many samples are left out");
}

TEST_CASE("hostile states of chosen samples: truncated everywhere, changed at random") {
  std::uint64_t taken = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomJob job(seed);
    for (int steps = 0; steps < 4; ++steps) job.step();
    std::string problem;
    const std::string json = order::to_json(job.position());
    const std::vector<std::byte> bytes = bytes_of(job.position());
    for (std::size_t size = 0; size < json.size(); ++size)
      CHECK_FALSE(order::position_from_json(std::string_view(json).substr(0, size), problem));
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(order::decode_position(std::span(bytes).first(size), problem));
    for (int change = 0; change < 3000; ++change) {
      std::string text = json;
      text[job.below(text.size())] = static_cast<char>(32 + job.below(95));
      if (const auto position = order::position_from_json(text, problem)) {
        check_round_trip(*position);
        ++taken;
      }
      std::vector<std::byte> other = bytes;
      other[job.below(other.size())] ^= std::byte(1 + job.below(255));
      if (const auto position = order::decode_position(other, problem)) {
        check_round_trip(*position);
        ++taken;
      }
    }
  }
  CHECK(taken > 100);
}

}  // namespace batchflow::test::chosen_test
