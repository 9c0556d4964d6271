// A fixed number of bits in 64-bit words, with the scans that lanes need.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchflow {

class Bitmap {
 public:
  static constexpr std::size_t kWordBits = 64;
  static constexpr std::size_t kNone = SIZE_MAX;

  Bitmap() = default;
  explicit Bitmap(std::size_t size, bool value = false)
      : size_(size), words_((size + kWordBits - 1) / kWordBits, value ? ~std::uint64_t{0} : 0) {
    if (value) clear_excess();
  }

  std::size_t size() const { return size_; }
  bool test(std::size_t i) const { return (words_[i / kWordBits] >> (i % kWordBits) & 1) != 0; }
  void set(std::size_t i) { words_[i / kWordBits] |= std::uint64_t{1} << (i % kWordBits); }
  void reset(std::size_t i) { words_[i / kWordBits] &= ~(std::uint64_t{1} << (i % kWordBits)); }

  std::size_t words() const { return words_.size(); }
  std::uint64_t word(std::size_t w) const { return words_[w]; }

  std::size_t count() const {
    std::size_t bits = 0;
    for (const std::uint64_t word : words_) bits += static_cast<std::size_t>(std::popcount(word));
    return bits;
  }
  bool none() const {
    for (const std::uint64_t word : words_)
      if (word != 0) return false;
    return true;
  }
  bool all() const { return count() == size_; }

  // The first bit set here and not in `except` (of the same size), or kNone. Words before
  // `first_word` are known to have none.
  std::size_t first_without(const Bitmap& except, std::size_t first_word = 0) const {
    for (std::size_t w = first_word; w < words_.size(); ++w) {
      if (const std::uint64_t left = words_[w] & ~except.words_[w]; left != 0)
        return w * kWordBits + static_cast<std::size_t>(std::countr_zero(left));
    }
    return kNone;
  }
  // Calls visit(i) for each set bit in rising order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::uint64_t left = words_[w]; left != 0; left &= left - 1)
        visit(w * kWordBits + static_cast<std::size_t>(std::countr_zero(left)));
  }

  friend bool operator==(const Bitmap&, const Bitmap&) = default;

 private:
  void clear_excess() {
    if (size_ % kWordBits != 0) words_.back() &= (std::uint64_t{1} << (size_ % kWordBits)) - 1;
  }

  std::size_t size_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace batchflow
