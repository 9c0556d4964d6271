#include "core/base/zero_array.h"

#include <doctest/doctest.h>

#include <unordered_map>

#include "core/base/random.h"
#include "core/base/sparse_zeros.h"

namespace batchflow::test::zero_array_test {
namespace {

std::uint32_t& entry(ZeroArray<std::uint32_t>& array, std::size_t index) {
  return array[index];
}
std::uint32_t read(const ZeroArray<std::uint32_t>& array, std::size_t index) {
  return array[index];
}
std::uint32_t& entry(SparseZeros<std::uint32_t>& array, std::size_t index) {
  return array.at(index);
}
std::uint32_t read(const SparseZeros<std::uint32_t>& array, std::size_t index) {
  return array.at(index);
}

// At random entries of the first `size`, beside a map. What was written is returned.
template <class Array>
std::unordered_map<std::size_t, std::uint32_t> compare(Array& array, std::size_t size) {
  std::unordered_map<std::size_t, std::uint32_t> map;
  Random random(size);
  for (std::uint32_t i = 1; i <= 20'000; ++i) {
    const auto written = static_cast<std::size_t>(random.below(size));
    entry(array, written) = map[written] = i;
    // Neighbours, and far away.
    for (const std::size_t index : {written, (written + 1) % size, (written + 64) % size,
                                    static_cast<std::size_t>(random.below(size))}) {
      const auto found = map.find(index);
      CHECK(read(array, index) == (found == map.end() ? 0 : found->second));
    }
  }
  return map;
}

}  // namespace

TEST_CASE("an array of zeros holds what was written, also after it has grown") {
  for (const std::size_t size : {std::size_t{5000}, std::size_t{1} << 24}) {
    ZeroArray<std::uint32_t> array(size);
    const auto map = compare(array, size);
    array.grow(size + size / 2);
    CHECK(array.size() == size + size / 2);
    for (const auto& [index, value] : map) CHECK(array[index] == value);
    CHECK(array[size + size / 2 - 1] == 0);
    array[size + size / 2 - 1] = 7;
    CHECK(array[size + size / 2 - 1] == 7);
  }
}

TEST_CASE("a sparse array holds what was written") {
  for (const std::size_t size : {std::size_t{5000}, std::size_t{1} << 32}) {
    SparseZeros<std::uint32_t> array;
    compare(array, size);
  }
}

TEST_CASE("entries of a sparse array stay where they are while others come") {
  SparseZeros<std::uint64_t> array;
  std::uint64_t& first = array.at(12345);
  first = 3;
  for (std::size_t index = 0; index < 1 << 30; index += 9973) array.at(index) = index;
  CHECK(&array.at(12345) == &first);
  CHECK(first == 3);
  const SparseZeros<std::uint64_t> moved = std::move(array);
  CHECK(moved.at(12345) == 3);
  CHECK(moved.at(9973 * 5) == 9973 * 5);
}

}  // namespace batchflow::test::zero_array_test
