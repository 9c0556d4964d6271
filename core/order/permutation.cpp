#include "core/order/permutation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/check.h"

namespace batchflow::order {
namespace {

// The least s with s * s >= n. The floating-point square root is only a guess.
std::uint64_t ceil_sqrt(std::uint64_t n) {
  auto s = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (s * s >= n) --s;
  while (s * s < n) ++s;
  return s;
}

// (a + b) mod n and (a - b) mod n for a, b < n, without a branch: the wrong one wraps to be huge.
std::uint64_t add_mod(std::uint64_t a, std::uint64_t b, std::uint64_t n) {
  return std::min(a + b, a + b - n);
}
std::uint64_t subtract_mod(std::uint64_t a, std::uint64_t b, std::uint64_t n) {
  return std::min(a - b, a - b + n);
}

std::uint64_t round_value(std::uint64_t half, std::uint64_t round_key, std::uint64_t n) {
  return high_64_of_product(mix(half ^ round_key), n);
}

}  // namespace

Permutation::Permutation(std::uint64_t key, std::uint64_t n) : size_(n) {
  BF_CHECK(n <= kSamplesMost);
  if (n <= kTableMost) {
    build_table(key);
  } else {
    build_network(key);
  }
}

Permutation Permutation::identity(std::uint64_t n) {
  BF_CHECK(n <= kSamplesMost);
  Permutation result;
  result.size_ = n;
  return result;
}

void Permutation::build_table(std::uint64_t key) {
  kind_ = Kind::table;
  table_.resize(size_);
  std::iota(table_.begin(), table_.end(), std::uint16_t{0});
  Random random(key);
  shuffle(std::span(table_), random);
  inverse_.resize(size_);
  for (std::size_t at = 0; at < size_; ++at) {
    inverse_[table_[at]] = static_cast<std::uint16_t>(at);
  }
}

void Permutation::build_network(std::uint64_t key) {
  kind_ = Kind::network;
  const std::uint64_t root = ceil_sqrt(size_);
  columns_ = root + root % 2;
  rows_ = (size_ + columns_ - 1) / columns_;
  for (std::size_t i = 0; i < kRounds; ++i) round_keys_[i] = hash(key, i);
}

template <std::size_t n>
void Permutation::encrypt(std::array<Cell, n>& cells) const {
  for (std::size_t i = 0; i < kRounds; i += 2) {
    for (auto& [column, row] : cells)
      column = add_mod(column, round_value(row, round_keys_[i], columns_), columns_);
    for (auto& [column, row] : cells)
      row = add_mod(row, round_value(column, round_keys_[i + 1], rows_), rows_);
  }
}

Permutation::Cell Permutation::decrypt(Cell cell) const {
  auto [column, row] = cell;
  for (std::size_t i = kRounds; i > 0; i -= 2) {
    row = subtract_mod(row, round_value(column, round_keys_[i - 1], rows_), rows_);
    column = subtract_mod(column, round_value(row, round_keys_[i - 2], columns_), columns_);
  }
  return {column, row};
}

// Repeats the rounds on cells beyond the last index until it is back inside. This is still a
// bijection, since the cells form cycles. It is rare: less than one row in `rows_` lies beyond.
std::uint64_t Permutation::walk(Cell from) const {
  std::array<Cell, 1> cell{from};
  std::uint64_t result;
  do {
    encrypt(cell);
    result = index(cell[0]);
  } while (result >= size_);
  return result;
}

std::uint64_t Permutation::operator()(std::uint64_t at) const {
  if (kind_ == Kind::table) return table_[at];
  if (kind_ == Kind::identity) return at;
  return walk(cell(at));
}

std::uint64_t Permutation::index_of(std::uint64_t value) const {
  if (kind_ == Kind::table) return inverse_[value];
  if (kind_ == Kind::identity) return value;
  Cell cell = this->cell(value);
  std::uint64_t result;
  do {
    cell = decrypt(cell);
    result = index(cell);
  } while (result >= size_);
  return result;
}

void Permutation::fill(std::uint64_t first, std::span<std::uint64_t> out) const {
  BF_CHECK(first <= size_ && out.size() <= size_ - first);
  if (kind_ == Kind::identity) {
    std::iota(out.begin(), out.end(), first);
  } else if (kind_ == Kind::table) {
    std::copy_n(table_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
  } else {
    // The rounds of one index wait for each other; those of several do not.
    Cell at = cell(first);
    std::array<Cell, kAtOnce> cells;
    for (std::size_t done = 0; done < out.size(); done += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, out.size() - done);
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        cells[i] = at;
        if (++at.column == columns_) at = {0, at.row + 1};
      }
      encrypt(cells);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t value = index(cells[i]);
        out[done + i] = value < size_ ? value : walk(cells[i]);
      }
    }
  }
}

}  // namespace batchflow::order
