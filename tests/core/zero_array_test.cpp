#include "core/base/zero_array.h"

#include <doctest/doctest.h>

#include <unordered_map>

#include "core/base/random.h"

namespace batchflow::test::zero_array_test {
namespace {

// At random entries of an array of `size`, beside a map.
void compare(std::size_t size, std::size_t dense_most = ZeroArray<std::uint32_t>::kDenseMost) {
  ZeroArray<std::uint32_t> array(size, dense_most);
  const ZeroArray<std::uint32_t>& read = array;
  std::unordered_map<std::size_t, std::uint32_t> map;
  Random random(size);
  for (std::uint32_t i = 1; i <= 20'000; ++i) {
    const auto written = static_cast<std::size_t>(random.below(size));
    array[written] = map[written] = i;
    // Neighbours, and far away.
    for (const std::size_t index : {written, (written + 1) % size, (written + 64) % size,
                                    static_cast<std::size_t>(random.below(size))}) {
      const auto found = map.find(index);
      CHECK(read[index] == (found == map.end() ? 0 : found->second));
    }
  }
  array.grow(size + size / 2);
  CHECK(array.size() == size + size / 2);
  for (const auto& [index, value] : map) CHECK(read[index] == value);
  CHECK(read[size + size / 2 - 1] == 0);
  array[size + size / 2 - 1] = 7;
  CHECK(read[size + size / 2 - 1] == 7);
}

TEST_CASE("an array of zeros holds what was written, dense and sparse") {
  compare(5000);
  compare(5000, 4999);
  compare(ZeroArray<std::uint32_t>::kDenseMost);
  compare(ZeroArray<std::uint32_t>::kDenseMost + 1);
  compare(std::size_t{1} << 32);
}

TEST_CASE("entries of a sparse array stay where they are while others come") {
  ZeroArray<std::uint64_t> array(std::size_t{1} << 30);
  std::uint64_t& first = array[12345];
  first = 3;
  for (std::size_t index = 0; index < 1 << 30; index += 9973) array[index] = index;
  CHECK(&array[12345] == &first);
  CHECK(first == 3);
  const ZeroArray<std::uint64_t> moved = std::move(array);
  CHECK(moved[12345] == 3);
  CHECK(moved[9973 * 5] == 9973 * 5);
}

}  // namespace
}  // namespace batchflow::test::zero_array_test
