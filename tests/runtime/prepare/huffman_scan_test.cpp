#include "runtime/prepare/huffman_scan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"

namespace batchflow::test::huffman_scan_test {
namespace {

using Result = prepare::HuffmanScan::Result;

// Of `lengths` there are as many codes as symbols, in order.
prepare::HuffmanCode code(std::vector<int> lengths, std::vector<int> symbols) {
  prepare::HuffmanCode made;
  for (const int length : lengths) ++made.lengths[static_cast<std::size_t>(length)];
  for (std::size_t i = 0; i < symbols.size(); ++i)
    made.symbols[i] = static_cast<std::uint8_t>(symbols[i]);
  return made;
}

// Ones and zeros, then ones up to a whole byte, with zeros stuffed.
std::vector<std::uint8_t> bytes(std::string_view bits) {
  std::string all;
  for (const char bit : bits)
    if (bit != ' ') all += bit;
  while (all.size() % 8 != 0) all += '1';
  std::vector<std::uint8_t> made;
  for (std::size_t i = 0; i < all.size(); i += 8) {
    made.push_back(static_cast<std::uint8_t>(std::stoi(all.substr(i, 8), nullptr, 2)));
    if (made.back() == 0xff) made.push_back(0);
  }
  return made;
}

struct Fixture {
  prepare::HuffmanScan scan;
  std::vector<std::uint8_t> data;
  std::int16_t block[64];
  prepare::HuffmanScan::Block* blocks[1] = {&block};

  Fixture() {
    // 0: no number; 10: two bits; 110: four; 1110: eleven.
    REQUIRE(scan.dc(0).set(code({1, 2, 3, 4}, {0, 2, 4, 11})));
    // 0: the end; 10: one bit at once; 110: two after one zero; 1110: sixteen zeros; 14 bits: ten
    // after fourteen zeros; 16 bits: fifteen at once.
    REQUIRE(scan.ac(0).set(code({1, 2, 3, 4, 14, 16}, {0x00, 0x01, 0x12, 0xf0, 0xea, 0x0f})));
  }
  void begin(std::vector<std::uint8_t> with, std::size_t restart_every = 0, std::size_t mcus = 20) {
    data = std::move(with);
    const prepare::HuffmanScan::BlockCodes codes{0, 0, 0};
    scan.begin(data, {&codes, 1}, mcus, restart_every);
  }
  Result next() {
    std::fill(std::begin(block), std::end(block), std::int16_t{0});
    return scan.next(blocks);
  }
};

TEST_CASE_FIXTURE(Fixture, "a scan worked out by hand") {
  begin(
      bytes("10 11  10 1  10 0  110 01  0"  // 3: 1, -1, then at the fourth place -2
            "110 0000  0"                   // 3 - 15
            "0  1110 1110 1110  10 1 10 1 10 1 10 1 10 1 10 1 10 1 10 1 10 1 10 1 10 1 10 1"
            " 10 1 10 1 10 0"  // nothing; from the 49th on fourteen ones, -1
            "1110 11111111111  11110000000000 1111111111  1111000000000100 000000000000000 0"));
  REQUIRE(next() == Result::done);
  // In rows: the second in the first row, the first two in the next ones.
  CHECK(block[0] == 3);
  CHECK(block[1] == 1);
  CHECK(block[8] == -1);
  CHECK(block[9] == -2);  // the fourth of the diagonals: row 1, column 1
  REQUIRE(next() == Result::done);
  CHECK(block[0] == -12);
  CHECK(std::count(std::begin(block), std::end(block), 0) == 63);
  REQUIRE(next() == Result::done);
  CHECK(block[0] == -12);
  CHECK(std::count(std::begin(block), std::end(block), 1) == 14);
  CHECK(block[63] == -1);
  CHECK(std::count(std::begin(block), std::end(block), 0) == 48);
  REQUIRE(next() == Result::done);
  CHECK(block[0] == -12 + 2047);
  CHECK(block[40] == 0);
  CHECK(std::count(std::begin(block), std::end(block), 1023) == 1);
  CHECK(std::count(std::begin(block), std::end(block), -32767) == 1);
  CHECK(scan.rest().empty());
  CHECK(next() != Result::done);
}

TEST_CASE_FIXTURE(Fixture, "what the data of a scan may not be") {
  begin(bytes("10 11  1111 1111 1111 1111"));
  CHECK(next() == Result::bad_code);
  begin(bytes("1111"));
  CHECK(next() == Result::bad_code);
  begin({});
  CHECK(next() == Result::no_more_data);
  begin({0xff});
  CHECK(next() == Result::no_more_data);
  begin({0xbf, 0xff, 0x00});  // 3, and twelve ones: no such code
  CHECK(next() == Result::bad_code);
  begin({0xbf, 0xff, 0xff, 0x00});
  CHECK(next() != Result::done);
  CHECK(scan.rest().size() == 3);
  prepare::HuffmanTable table;
  CHECK_FALSE(table.set(code({1, 1, 1}, {0, 1, 2})));  // two codes of one bit are all
  CHECK_FALSE(table.is_set());
  prepare::HuffmanCode many;
  many.lengths[9] = many.lengths[10] = 200;
  CHECK_FALSE(table.set(many));
}

// What follows the last MCU is looked through for a marker, and not kept.
TEST_CASE_FIXTURE(Fixture, "more data than its MCUs can take costs a scan no memory") {
  auto long_one = bytes("10 11 0");
  long_one.resize(1 << 20, 0x55);
  long_one.insert(long_one.end(), {0xff, 0x00, 0x55, 0xff, 0xd9});
  begin(long_one, 0, 1);
  CHECK(scan.kept_bytes() < 1024);
  CHECK(next() == Result::done);
  CHECK(block[0] == 3);
  CHECK(scan.rest().size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "a scan begins anew at a restart") {
  const auto joined = [](std::vector<std::vector<std::uint8_t>> parts) {
    std::vector<std::uint8_t> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const auto three = bytes("10 11 0");
  // Bytes too many, and fill bytes before a marker, are passed over.
  begin(joined({three, {0xff, 0xd0}, three, {0x00, 0x12}, {0xff, 0xff, 0xd1}, three, {0xff, 0xd9}}),
        1);
  for (int i = 0; i < 3; ++i) {
    CHECK(next() == Result::done);
    CHECK(block[0] == 3);
  }
  REQUIRE(scan.rest().size() == 2);
  CHECK(scan.rest()[1] == 0xd9);
  CHECK(next() == Result::wrong_restart);
  begin(joined({three, {0xff, 0xd1}, three}), 1);
  CHECK(next() == Result::done);
  CHECK(next() == Result::wrong_restart);
  begin(joined({three, three}), 1);
  CHECK(next() == Result::done);
  CHECK(next() == Result::no_more_data);
}

// Two codes at once, at most twenty-five bits a step, and blocks that are passed over: whatever
// comes, blocks are those of a decoder that goes bit by bit.
TEST_CASE_FIXTURE(Fixture, "random scans are what they are bit by bit") {
  std::size_t blocks_seen = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    std::string text;
    const auto add_number = [&](unsigned size) {
      int value = 0;
      for (unsigned i = 0; i < size; ++i) {
        const bool bit = random.below(2) == 1;
        text += bit ? '1' : '0';
        value = 2 * value + bit;
      }
      return size > 0 && value < 1 << (size - 1) ? value + 1 - (1 << size) : value;
    };
    struct Way {
      const char* code;
      unsigned zeros, size;
    };
    constexpr Way kDc[] = {{"0", 0, 0}, {"10", 0, 2}, {"110", 0, 4}, {"1110", 0, 11}};
    constexpr Way kAc[] = {{"0", 0, 0},
                           {"10", 0, 1},
                           {"110", 1, 2},
                           {"1110", 15, 0},
                           {"11110000000000", 14, 10},
                           {"1111000000000100", 0, 15}};
    std::vector<std::array<std::int16_t, 64>> expected(1 + random.below(20));
    int dc = 0;
    for (auto& coefficients : expected) {
      coefficients.fill(0);
      const Way& first = kDc[random.below(4)];
      text += first.code;
      coefficients[0] = static_cast<std::int16_t>(dc += add_number(first.size));
      for (std::size_t at = 1; at < 64;) {
        const Way& way = kAc[random.below(random.below(8) == 0 ? 6 : 5)];
        const bool ends = way.zeros == 0 && way.size == 0;
        if (ends && random.below(4) != 0) continue;
        if (!ends && at + way.zeros > 63) continue;
        text += way.code;
        if (ends) break;
        at += way.zeros;
        coefficients[at++] = static_cast<std::int16_t>(add_number(way.size));
      }
    }
    begin(bytes(text));
    for (const auto& coefficients : expected) {
      if (random.below(3) == 0) {
        REQUIRE(scan.next(nullptr) == Result::done);
        continue;
      }
      REQUIRE(next() == Result::done);
      std::array<std::int16_t, 64> in_order{};
      for (int diagonal = 0, at = 0; diagonal < 15; ++diagonal)
        for (int i = 0; i <= diagonal; ++i) {
          const int row = diagonal % 2 == 0 ? diagonal - i : i, column = diagonal - row;
          if (row < 8 && column < 8)
            in_order[static_cast<std::size_t>(at++)] = block[8 * row + column];
        }
      INFO("seed ", seed);
      REQUIRE(in_order == coefficients);
      ++blocks_seen;
    }
  }
  MESSAGE(blocks_seen, " blocks");
}

}  // namespace
}  // namespace batchflow::test::huffman_scan_test
