#include "kernels/rows.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

namespace batchflow {
namespace {

using namespace kernels;

struct Two {
  std::uint16_t first[3] = {1, 2, 65535};
  std::uint16_t second[2] = {7, 8};
  const void* starts[3] = {first, nullptr, second};
  std::int64_t offsets[4] = {0, 3, 3, 5};
  Sequences sequences() const { return {Token::u16, starts, offsets, 3}; }
};

TEST_CASE("rows come in the order of the index, as often as it says") {
  const char cache[] = "aabbcc";
  const std::uint64_t index[] = {2, 0, 2};
  char out[7] = {};
  on_cpu::gather_rows(
      {reinterpret_cast<const std::byte*>(cache), 2, index, 3, reinterpret_cast<std::byte*>(out)});
  CHECK(std::strcmp(out, "ccaacc") == 0);
}

TEST_CASE("sequences are packed one behind the other") {
  const Two two;
  std::int64_t out[5] = {};
  on_cpu::pack_tokens({two.sequences(), Token::i64, out});
  const std::int64_t expected[] = {1, 2, 65535, 7, 8};
  CHECK(std::memcmp(out, expected, sizeof out) == 0);
}

TEST_CASE("sequences are cut, or padded") {
  const Two two;
  std::int32_t out[6] = {};
  on_cpu::fit_tokens({two.sequences(), Token::i32, 2, -1, out});
  const std::int32_t expected[] = {1, 2, -1, -1, 7, 8};
  CHECK(std::memcmp(out, expected, sizeof out) == 0);
}

}  // namespace
}  // namespace batchflow
