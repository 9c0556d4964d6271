#include "core/order/position.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/order/position_bytes.h"
#include "core/order/position_forms.h"
#include "core/order/position_json.h"

namespace batchflow::test::position_test {

namespace {

std::vector<std::byte> bytes_of_position(const order::Position& position) {
  std::vector<std::byte> bytes;
  order::encode(position, bytes);
  return bytes;
}

// Both forms give the position back, to the last bit.
void check_round_trip(const order::Position& position) {
  const std::vector<std::byte> bytes = bytes_of_position(position);
  std::string problem;
  const auto from_bytes = order::decode_position(bytes, problem);
  REQUIRE_MESSAGE(from_bytes.has_value(), problem);
  REQUIRE(bytes_of_position(*from_bytes) == bytes);
  const std::string json = order::to_json(position);
  const auto from_json = order::position_from_json(json, problem);
  REQUIRE_MESSAGE(from_json.has_value(), problem << " in " << json);
  REQUIRE(bytes_of_position(*from_json) == bytes);
  REQUIRE(order::to_json(*from_json) == json);
}

std::string apply(order::Position& position, const order::BlockName& name, std::uint32_t from,
                  std::uint32_t to) {
  const order::Slice slice{name, from, to};
  return position.apply({&slice, 1});
}

order::Position relaxed_position(std::uint64_t samples, std::uint32_t block_samples,
                                 std::uint32_t lane_blocks) {
  order::Position position(Order::relaxed, 0xfedcba9876543210, samples, 42);
  position.begin_generation(0, block_samples, lane_blocks);
  return position;
}

// A job that has taken blocks of some lanes and uses several of them at once, in a random order.
class RandomJob {
 public:
  explicit RandomJob(std::uint64_t seed)
      : random_(hash(13, seed)),
        position_(relaxed_position(1 + random_.below(3000), size(60), size(12))) {}

  const order::Position& position() const { return position_; }

  void begin_epoch() {
    const order::LaneSizes& sizes = position_.lanes().sizes;
    if (position_.epoch() > 0 && random_.below(3) == 0) {
      const std::uint64_t next = position_.lanes().generation + 1 + random_.below(3);
      position_.begin_generation(next, size(60), size(12));
    }
    lanes_.resize(sizes.lanes());
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) lanes_[lane] = lane;
    shuffle(std::span(lanes_), random_);
  }

  // Uses some samples of a random block at hand; false when the epoch is done.
  bool use_some() {
    while (at_hand_.empty() || (!lanes_.empty() && open_ < 6 && random_.below(8) == 0)) {
      if (lanes_.empty()) return false;
      open_lane();
    }
    const std::size_t chosen = random_.below(at_hand_.size());
    Taken& block = at_hand_[chosen];
    const auto& sizes = position_.lanes().sizes;
    const std::uint32_t whole = sizes.samples_of(block.name.lane, block.name.block);
    const auto count = static_cast<std::uint32_t>(1 + random_.below(whole - block.used));
    REQUIRE(position_.samples_had(block.name.lane, block.name.block) == block.used);
    const order::Slice slices[2] = {{block.name, block.used, block.used + count, false},
                                    {block.name, 0, 1, true}};
    REQUIRE(position_.apply(slices) == "");
    used_ += count;
    REQUIRE(position_.consumed() == used_);
    block.used += count;
    if (block.used == whole) retire(chosen);
    return true;
  }

  void finish_epoch() {
    REQUIRE(position_.consumed() == position_.epoch_samples());
    REQUIRE(position_.lanes().epoch_done());
    REQUIRE(position_.part_blocks().empty());
    position_.finish_epoch();
    used_ = 0;
  }

 private:
  struct Taken {
    order::BlockName name;
    std::uint32_t used;
  };

  std::uint32_t size(std::uint32_t most) {
    return static_cast<std::uint32_t>(1 + random_.below(most));
  }
  void open_lane() {
    const std::uint32_t lane = lanes_.back();
    lanes_.pop_back();
    const order::LanePosition& lanes = position_.lanes();
    const auto pass = static_cast<std::uint32_t>(lanes.passes[lane] + random_.below(3));
    for (std::uint32_t b = 0; b < lanes.sizes.blocks_of(lane); ++b) {
      at_hand_.push_back({{lanes.generation, lane, pass, b}, 0});
    }
    ++open_;
  }
  void retire(std::size_t chosen) {
    const std::uint32_t lane = at_hand_[chosen].name.lane;
    at_hand_.erase(at_hand_.begin() + static_cast<std::ptrdiff_t>(chosen));
    const bool done = std::none_of(at_hand_.begin(), at_hand_.end(),
                                   [&](const Taken& t) { return t.name.lane == lane; });
    REQUIRE(position_.lanes().had.test(lane) == done);
    if (done) --open_;
  }

  Random random_;
  order::Position position_;
  std::vector<std::uint32_t> lanes_;  // not begun
  std::vector<Taken> at_hand_;
  std::uint32_t open_ = 0;
  std::uint64_t used_ = 0;
};

// A position in the middle of an epoch, with open lanes and parts of blocks.
order::Position busy_position(std::uint64_t seed) {
  RandomJob job(seed);
  job.begin_epoch();
  for (int i = 0; i < 40 && job.use_some(); ++i) {
  }
  return job.position();
}

// Whatever is accepted must be a position that can be written and read again.
template <class Decode, class Input>
void check_hostile(Decode decode, const Input& input) {
  std::string problem;
  const auto position = decode(input, problem);
  if (position) {
    check_round_trip(*position);
  } else {
    REQUIRE(!problem.empty());
  }
}

void fuzz_bytes(const order::Position& position, std::uint64_t seed, int flips) {
  const std::vector<std::byte> bytes = bytes_of_position(position);
  std::string problem;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    REQUIRE(!order::decode_position(std::span(bytes).first(size), problem));
    REQUIRE(!problem.empty());
  }
  Random random(seed);
  for (int i = 0; i < flips; ++i) {
    std::vector<std::byte> changed = bytes;
    for (std::uint64_t k = random.below(3) + 1; k > 0; --k) {
      changed[random.below(changed.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
    check_hostile(order::decode_position, changed);
  }
}

void fuzz_json(const order::Position& position, std::uint64_t seed, int flips) {
  const std::string text = order::to_json(position);
  std::string problem;
  for (std::size_t size = 0; size < text.size(); ++size) {
    REQUIRE(!order::position_from_json(text.substr(0, size), problem));
    REQUIRE(!problem.empty());
  }
  Random random(seed);
  for (int i = 0; i < flips; ++i) {
    std::string changed = text;
    for (std::uint64_t k = random.below(3) + 1; k > 0; --k) {
      changed[random.below(changed.size())] = static_cast<char>(random.below(256));
    }
    if (random.below(4) == 0) changed.erase(random.below(changed.size()), random.below(9));
    check_hostile(order::position_from_json, changed);
  }
}

bool refused(std::string_view json) {
  std::string problem;
  return !order::position_from_json(json, problem) && !problem.empty();
}

}  // namespace

TEST_CASE("strict: a state is small and counts samples") {
  order::Position position(Order::strict, 0x0123456789abcdef, 1'281'167, 42, 90);
  CHECK(apply(position, {90, 3, 0, 4}, 10, 16) == "");
  CHECK(position.consumed() == 6);
  CHECK(order::to_json(position) ==
        R"({"v":1,"order":"strict","dataset":"0123456789abcdef","samples":1281167,"seed":42,)"
        R"("epoch":90,"consumed":6})");
  CHECK(order::to_json(position).size() <= 127);
  CHECK(apply(position, {91, 0, 0, 0}, 0, 1) != "");
  check_round_trip(position);
  position.finish_epoch();
  CHECK(position.epoch() == 91);
  CHECK(position.consumed() == 0);
}

TEST_CASE("every order has a state, and the greatest numbers survive") {
  for (const Order order :
       {Order::strict, Order::sequential, Order::relaxed, Order::weighted, Order::listed}) {
    check_round_trip(order::Position(order, UINT64_MAX, 1'000'000'000'000, UINT64_MAX, UINT32_MAX));
  }
  order::Position weighted(Order::weighted, 1, 1000, 2);
  CHECK(apply(weighted, {}, 0, 1) != "");  // no draws yet
  weighted.begin_draws(77, 500);
  CHECK(apply(weighted, {}, 0, 256) == "");
  CHECK(apply(weighted, {}, 0, 245) != "");
  CHECK(apply(weighted, {}, 0, 244) == "");
  check_round_trip(weighted);
}

TEST_CASE("relaxed: the state of ImageNet with three open lanes is below half a kilobyte") {
  order::Position position = relaxed_position(1'281'167, 256, 40);
  for (const std::uint32_t lane : {7u, 19u, 101u}) {
    for (const std::uint32_t block : {0u, 3u, 9u}) {
      REQUIRE(apply(position, {0, lane, 0, block}, 0, 256) == "");
    }
  }
  REQUIRE(apply(position, {0, 7, 0, 1}, 0, 100) == "");
  const std::string json = order::to_json(position);
  CHECK(json.find(R"("open":[[7,0,"CQIAAAA="],[19,0,"CQIAAAA="],[101,0,"CQIAAAA="]])") !=
        json.npos);
  CHECK(json.find(R"("cursor":[[7,1,100]])") != json.npos);
  CHECK(json.size() < 500);
  CHECK(bytes_of_position(position).size() < 220);
  check_round_trip(position);
}

TEST_CASE("relaxed: what a job cannot have had is refused, and changes nothing") {
  order::Position position = relaxed_position(1000, 16, 8);  // 63 blocks, 8 lanes, the last of 7
  REQUIRE(apply(position, {0, 2, 1, 3}, 0, 10) == "");
  const auto before = bytes_of_position(position);
  const auto is_refused = [&](const order::BlockName& name, std::uint32_t from, std::uint32_t to) {
    return apply(position, name, from, to) != "" && bytes_of_position(position) == before;
  };
  CHECK(is_refused({0, 2, 1, 3}, 9, 12));   // had already
  CHECK(is_refused({0, 2, 1, 3}, 11, 12));  // a gap
  CHECK(is_refused({0, 2, 1, 3}, 10, 10));  // nothing
  CHECK(is_refused({0, 2, 1, 3}, 10, 17));  // beyond the block
  CHECK(is_refused({0, 2, 0, 4}, 0, 1));    // another pass of an open lane
  CHECK(is_refused({1, 3, 0, 4}, 0, 1));    // another generation
  CHECK(is_refused({0, 8, 0, 0}, 0, 1));    // no such lane
  CHECK(is_refused({0, 7, 0, 7}, 0, 1));    // no such block
  CHECK(is_refused({0, 7, 0, 6}, 0, 9));    // the last block has 8
  CHECK(is_refused({0, 3, 254, 0}, 0, 1));  // no such pass
  REQUIRE(apply(position, {0, 2, 1, 3}, 10, 16) == "");
  CHECK(apply(position, {0, 2, 1, 3}, 0, 1) != "");  // the whole block was had
}

TEST_CASE("relaxed: a later epoch of a generation takes greater passes only") {
  order::Position position = relaxed_position(64, 16, 2);
  const auto have_epoch = [&](std::uint32_t pass) {
    std::string problem;
    for (std::uint32_t lane = 0; lane < 2; ++lane) {
      for (std::uint32_t block = 0; block < 2; ++block) {
        problem += apply(position, {0, lane, pass, block}, 0, 16);
      }
    }
    if (problem.empty()) position.finish_epoch();
    return problem;
  };
  CHECK(have_epoch(3) == "");
  CHECK(have_epoch(3) != "");
  CHECK(have_epoch(2) != "");
  CHECK(have_epoch(253) == "");
  CHECK(have_epoch(254) != "");  // only a new generation helps
  position.begin_generation(4, 16, 2);
  CHECK(apply(position, {4, 0, 0, 0}, 0, 16) == "");
}

TEST_CASE("relaxed: an epoch with its tail left out ends all the same") {
  order::Position position = relaxed_position(100, 16, 2);
  REQUIRE(apply(position, {0, 1, 0, 1}, 0, 5) == "");
  position.finish_epoch();
  CHECK(position.lanes().open.empty());
  CHECK(position.part_blocks().empty());
  CHECK(apply(position, {0, 1, 0, 0}, 0, 5) != "");  // its draws may have been seen
  CHECK(apply(position, {0, 1, 1, 0}, 0, 5) == "");
  check_round_trip(position);
}

TEST_CASE("relaxed: limits hold") {
  order::Position lanes = relaxed_position(1000, 1, 10);
  for (std::uint32_t lane = 0; lane < 64; ++lane) {
    REQUIRE(apply(lanes, {0, lane, 0, 0}, 0, 1) == "");
  }
  CHECK(apply(lanes, {0, 64, 0, 0}, 0, 1) != "");
  check_round_trip(lanes);
  order::Position parts = relaxed_position(10'000, 2, 4096);
  for (std::uint32_t block = 0; block < 1024; ++block) {
    REQUIRE(apply(parts, {0, 0, 0, block}, 0, 1) == "");
  }
  CHECK(apply(parts, {0, 0, 0, 1024}, 0, 1) != "");
  CHECK(apply(parts, {0, 0, 0, 1024}, 0, 2) == "");
  CHECK(apply(parts, {0, 0, 0, 3}, 1, 2) == "");
  check_round_trip(parts);
}

TEST_CASE("relaxed: a position of more lanes than a generation is cut into is none") {
  const auto with_lanes = [](std::uint64_t lanes) {
    order::Position::Fields fields;
    fields.order = Order::relaxed;
    fields.dataset_version = 7;
    fields.samples = lanes;
    fields.lanes.sizes = {lanes, 1, 1};
    fields.lanes.passes.assign(lanes, 0);
    fields.lanes.had = Bitmap(lanes);
    std::string problem;
    return order::Position::from(fields, problem).has_value();
  };
  CHECK(with_lanes(4096));
  CHECK(!with_lanes(4097));
  CHECK(!with_lanes(650'000));
}

TEST_CASE("relaxed: random orders of use, both forms exact at each step") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    INFO("seed = " << seed);
    RandomJob job(seed);
    check_round_trip(job.position());
    for (int epoch = 0; epoch < 4; ++epoch) {
      job.begin_epoch();
      for (int step = 0; job.use_some(); ++step) {
        if (seed < 20 || step % 16 == 0) check_round_trip(job.position());
      }
      job.finish_epoch();
      check_round_trip(job.position());
    }
  }
}

TEST_CASE("another dataset, number of samples or seed is refused with both values") {
  const order::Position position(Order::strict, 0xabc, 1000, 5);
  CHECK(position.mismatch(0xabc, 1000, 5) == "");
  CHECK(position.mismatch(0xabd, 1000, 5).find("0000000000000abd") != std::string::npos);
  CHECK(position.mismatch(0xabc, 1001, 5) == "the position is of 1000 samples, the job reads 1001");
  CHECK(position.mismatch(0xabc, 1000, 6).find("seed 5") != std::string::npos);
}

TEST_CASE("JSON: spaces and any order of fields are taken, anything else is not") {
  std::string problem;
  const auto position = order::position_from_json(
      " { \"consumed\" : 5,\n\"epoch\": 0, \"v\":1, \"seed\":7,\t\"samples\":10, "
      "\"order\":\"sequential\", \"dataset\":\"00000000000000ff\" } ",
      problem);
  REQUIRE_MESSAGE(position.has_value(), problem);
  CHECK(position->consumed() == 5);
  const std::string good = order::to_json(*position);
  CHECK(!refused(good));
  const auto with = [&](std::string_view old_text, std::string_view new_text) {
    std::string changed = good;
    return changed.replace(changed.find(old_text), old_text.size(), new_text);
  };
  CHECK(refused(""));
  CHECK(refused("{}"));
  CHECK(refused("[]"));
  CHECK(refused("null"));
  CHECK(refused(good + "x"));
  CHECK(refused(with("\"v\":1", "\"v\":2")));
  CHECK(refused(with("\"seed\":7", "\"seed\":07")));
  CHECK(refused(with("\"seed\":7", "\"seed\":-7")));
  CHECK(refused(with("\"seed\":7", "\"seed\":7.0")));
  CHECK(refused(with("\"seed\":7", "\"seed\":18446744073709551616")));
  CHECK(refused(with("\"seed\":7", "\"seed\":\"7\"")));
  CHECK(refused(with("\"seed\":7", "\"seed\":7,\"seed\":7")));
  CHECK(refused(with("\"seed\":7", "\"sead\":7")));
  CHECK(refused(with("\"seed\":7", "\"seed\":7,")));
  CHECK(refused(with("\"seed\":7,", "")));
  CHECK(refused(with("consumed\":5", "consumed\":11")));
  CHECK(refused(with("epoch\":0", "epoch\":4294967296")));
  CHECK(refused(with("00ff", "00fg")));
  CHECK(refused(with("00ff", "0ff")));
  CHECK(refused(with("sequential", "sequentia\\u006c")));
  CHECK(refused(with("sequential", "random")));
  CHECK(refused(with("\"seed\":7", "\"seed\":7,\"draws\":5,\"weights\":\"00000000000000ff\"")));
  CHECK(refused(with("\"samples\":10", "\"samples\":1000000000001")));
}

TEST_CASE("JSON: a relaxed state that contradicts itself is refused") {
  order::Position position = relaxed_position(1000, 16, 8);
  REQUIRE(apply(position, {0, 2, 1, 3}, 0, 16) == "");
  REQUIRE(apply(position, {0, 2, 1, 5}, 0, 9) == "");
  const std::string good = order::to_json(position);
  REQUIRE(!refused(good));
  const auto with = [&](std::string_view old_text, std::string_view new_text) {
    std::string changed = good;
    REQUIRE(changed.find(old_text) != changed.npos);
    return changed.replace(changed.find(old_text), old_text.size(), new_text);
  };
  CHECK(refused(with("consumed\":25", "consumed\":26")));
  CHECK(refused(with("[2,1,", "[3,1,")));
  CHECK(refused(with("[2,1,", "[2,0,")));
  CHECK(refused(with("[2,5,9]", "[2,3,9]")));
  CHECK(refused(with("[2,5,9]", "[2,5,16]")));
  CHECK(refused(with("[2,5,9]", "[2,5,9],[2,5,9]")));
  CHECK(refused(with("\"had\":\"AA==\"", "\"had\":\"BA==\"")));
  CHECK(refused(with("\"had\":\"AA==\"", "\"had\":\"AAA=\"")));
  CHECK(refused(with("\"had\":\"AA==\"", "\"had\":\"AB==\"")));
  CHECK(refused(with("\"lane\":8", "\"lane\":4097")));
  CHECK(refused(with("\"lane\":8", "\"lane\":0")));
  CHECK(refused(with("\"block\":16", "\"block\":0")));
  CHECK(refused(with("\"block\":16,", "")));
  CHECK(refused(with("relaxed", "strict")));
  // A claim of 10^12 lanes costs nothing.
  CHECK(refused(with("\"samples\":1000,", "\"samples\":1000000000000,")));
}

TEST_CASE("base64 and back, one text for each sequence of bytes") {
  CHECK(order::base64_of(std::vector<std::uint8_t>{}) == "");
  CHECK(order::base64_of(std::vector<std::uint8_t>{'f', 'o', 'o', 'b'}) == "Zm9vYg==");
  CHECK(order::base64_of(std::vector<std::uint8_t>{'f', 'o', 'o', 'b', 'a'}) == "Zm9vYmE=");
  CHECK(order::bytes_of_base64("Zm9vYmE=") == std::vector<std::uint8_t>{'f', 'o', 'o', 'b', 'a'});
  for (const char* bad :
       {"Zm9vYmF=", "Zm9vYmE", "Zm9v===", "====", "=AAA", "A===", "Zm9v YmE", "AB=="}) {
    INFO(bad);
    CHECK(!order::bytes_of_base64(bad));
  }
}

TEST_CASE("hostile bytes and texts: truncated everywhere, changed at random") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    INFO("seed = " << seed);
    const order::Position position = busy_position(seed);
    fuzz_bytes(position, seed, 2000);
    fuzz_json(position, seed, 2000);
  }
  fuzz_bytes(order::Position(Order::strict, 1, 2, 3), 1, 2000);
  fuzz_json(order::Position(Order::strict, 1, 2, 3), 1, 2000);
}

TEST_SUITE("long") {
  TEST_CASE("hostile bytes and texts, many") {
    for (std::uint64_t seed = 100; seed < 300; ++seed) {
      INFO("seed = " << seed);
      fuzz_bytes(busy_position(seed), seed, 5000);
      fuzz_json(busy_position(seed), seed, 5000);
    }
  }
}

TEST_CASE("a position counts what was rehearsed in its epoch, of whatever buffer") {
  order::Position position(Order::strict, 0x0123456789abcdef, 100, 42);
  CHECK(apply(position, {0, 0, 0, 0}, 0, 4) == "");
  const order::Slice slice{{77, 0, 0, 0}, 0, 3, false, true};
  CHECK(position.apply({&slice, 1}) == "a rehearsed slice, and no buffer");
  REQUIRE(position.rehearse(0xff));
  CHECK(position.apply({&slice, 1}) == "");
  CHECK(position.consumed() == 4);
  CHECK(position.fields().rehearsed == 3);
  check_round_trip(position);
  CHECK(order::to_json(position) ==
        R"({"v":1,"order":"strict","dataset":"0123456789abcdef","samples":100,"seed":42,"epoch":0,)"
        R"("consumed":4,"buffer":"00000000000000ff","rehearsed":3})");
  REQUIRE(position.rehearse(0));
  check_round_trip(position);
  REQUIRE(position.rehearse(0xfe));
  CHECK(position.apply({&slice, 1}) == "");
  CHECK(position.fields().rehearsed == 6);
  position.finish_epoch();
  CHECK(position.fields().rehearsed == 0);
  order::Position drawn(Order::weighted, 1, 100, 42);
  CHECK_FALSE(drawn.rehearse(1));
  CHECK(drawn.rehearse(0));
  std::string problem;
  CHECK_FALSE(order::position_from_json(
      R"({"v":1,"order":"strict","dataset":"0123456789abcdef","samples":100,"seed":42,"epoch":0,)"
      R"("consumed":4,"rehearsed":3})",
      problem));
  CHECK(problem == "a position lacks buffer");
}

TEST_CASE("repeats are counted from draws: of the pass, the part and the epoch that was had") {
  // Blocks of 10, lanes of 2 blocks.
  const order::LaneSizes sizes{100, 10, 2};
  order::Position position = relaxed_position(100, 10, 2);
  const auto repeats = [&](const order::BlockName& name, std::uint32_t from, std::uint32_t to) {
    return position.repeats({name, from, to}, sizes);
  };
  CHECK(repeats({0, 3, 0, 0}, 0, 10) == 0);
  REQUIRE(apply(position, {0, 3, 0, 0}, 0, 10).empty());
  REQUIRE(apply(position, {0, 3, 0, 1}, 0, 4).empty());
  REQUIRE(apply(position, {0, 1, 2, 1}, 0, 10).empty());
  REQUIRE(apply(position, {0, 1, 2, 0}, 0, 10).empty());
  CHECK(repeats({0, 3, 0, 0}, 0, 10) == 10);
  CHECK(repeats({0, 3, 0, 0}, 7, 9) == 2);
  CHECK(repeats({0, 3, 0, 1}, 0, 10) == 4);
  CHECK(repeats({0, 3, 0, 1}, 3, 6) == 1);
  CHECK(repeats({0, 3, 0, 1}, 4, 10) == 0);   // the rest of it
  CHECK(repeats({0, 3, 1, 0}, 0, 10) == 0);   // another pass
  CHECK(repeats({0, 1, 2, 0}, 0, 10) == 10);  // a lane that is finished
  CHECK(repeats({0, 1, 1, 0}, 0, 10) == 10);  // a pass that others had before it
  CHECK(repeats({0, 2, 0, 0}, 0, 10) == 0);
  CHECK(repeats({1, 3, 0, 0}, 0, 10) == 0);
  CHECK(position.repeats({{0, 3, 0, 0}, 0, 10, true}, sizes) == 0);
  CHECK(position.repeats({{0, 3, 0, 0}, 0, 10, false, true}, sizes) == 0);
  CHECK(repeats({0, 99, 0, 0}, 0, 10) == 0);  // there is no such lane
  // In the next epoch of the generation, and after it.
  position.finish_epoch();
  CHECK(repeats({0, 3, 0, 1}, 4, 10) == 6);
  CHECK(repeats({0, 3, 1, 1}, 4, 10) == 0);
  position.begin_generation(5, 10, 2);
  CHECK(repeats({0, 3, 7, 1}, 0, 10) == 10);
  CHECK(repeats({5, 3, 0, 1}, 0, 10) == 0);
}

TEST_CASE("repeats of a strict order: places that were had, whatever cuts them into blocks") {
  const order::LaneSizes sizes{100, 10, 2};
  order::Position position(Order::strict, 1, 100, 2, 1);
  CHECK(position.repeats({{0, 0, 0, 0}, 0, 10}, sizes) == 10);  // the epoch before
  CHECK(position.repeats({{1, 0, 0, 0}, 0, 10}, sizes) == 0);
  REQUIRE(apply(position, {1, 0, 0, 0}, 0, 10).empty());
  REQUIRE(apply(position, {1, 0, 0, 1}, 0, 5).empty());
  CHECK(position.repeats({{1, 0, 0, 1}, 0, 10}, sizes) == 5);
  CHECK(position.repeats({{1, 0, 0, 1}, 5, 10}, sizes) == 0);
  CHECK(position.repeats({{1, 0, 0, 0}, 0, 10}, sizes) == 10);
  CHECK(position.repeats({{1, 0, 0, 0}, 10, 20}, {100, 20, 1}) == 5);
  CHECK(position.repeats({{2, 0, 0, 0}, 0, 10}, sizes) == 0);
}

}  // namespace batchflow::test::position_test
