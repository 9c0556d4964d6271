// A random order of 0, 1, ... n - 1 that needs no memory: index -> value and back, O(1) each way.
//
// Up to kTableMost values it is a Fisher-Yates table, because small Feistel networks are visibly
// biased. Above, it is an alternating Feistel network of eight rounds over a grid of about sqrt(n)
// by sqrt(n), with cycle walking over the few cells beyond n. Six rounds fail a statistical test
// that eight pass (tests/core/order_statistics_test.cpp). So any worker can compute any part of an
// epoch alone, a resume costs nothing, and the inverse tells when a sample comes next.
//
// It is immutable, so many threads may read it. Costs above the table size: about 30 ns an index,
// or 14 ns in a range, and a dozen hashes for construction. Below: 1 ns an index, and less than a
// millisecond for construction.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/random.h"

namespace batchflow::order {

// The most samples a dataset may have: all arithmetic of orders is exact up to here.
inline constexpr std::uint64_t kSamplesMost = 1'000'000'000'000;

class Permutation {
 public:
  static constexpr std::uint64_t kTableMost = 65'536;

  // REQUIRES: n <= kSamplesMost
  Permutation(std::uint64_t key, std::uint64_t n);
  // Each value stands at its own index: the order of sequential jobs.
  static Permutation identity(std::uint64_t n);

  std::uint64_t size() const { return size_; }
  std::size_t table_bytes() const { return 2 * (table_.size() + inverse_.size()); }

  // What stands at index `at`. REQUIRES: at < size()
  std::uint64_t operator()(std::uint64_t at) const;
  // The index at which `value` stands: the inverse. REQUIRES: value < size()
  std::uint64_t index_of(std::uint64_t value) const;
  // What stands at indices first, first + 1, ... REQUIRES: first + out.size() <= size()
  void fill(std::uint64_t first, std::span<std::uint64_t> out) const;

 private:
  enum class Kind : std::uint8_t { identity, table, network };
  static constexpr std::size_t kRounds = 8;
  static constexpr std::size_t kAtOnce = 8;  // of a range of indices
  // A cell of the grid: index = row * columns_ + column.
  struct Cell {
    std::uint64_t column;
    std::uint64_t row;
  };

  Permutation() = default;
  void build_table(std::uint64_t key);
  void build_network(std::uint64_t key);
  Cell cell(std::uint64_t index) const { return {index % columns_, index / columns_}; }
  std::uint64_t index(Cell cell) const { return cell.row * columns_ + cell.column; }
  template <std::size_t n>
  void encrypt(std::array<Cell, n>& cells) const;
  Cell decrypt(Cell cell) const;
  std::uint64_t walk(Cell cell) const;

  Kind kind_ = Kind::identity;
  std::uint64_t size_ = 0;
  std::uint64_t columns_ = 1;
  std::uint64_t rows_ = 1;
  std::array<std::uint64_t, kRounds> round_keys_{};
  std::vector<std::uint16_t> table_;    // values by index
  std::vector<std::uint16_t> inverse_;  // indices by value
};

}  // namespace batchflow::order
