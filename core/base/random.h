// The only source of random numbers in BatchFlow: mix, hash, draw and below, as the order rules
// define them.
//
// All arithmetic is unsigned 64-bit and wraps; there is no floating point.
// tests/core/random_test.cpp has golden values. A change of any of these functions changes every
// order that was ever promised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace batchflow {

inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

constexpr std::uint64_t mix(std::uint64_t z) {
  z ^= z >> 30;
  z *= 0xbf58476d1ce4e5b9;
  z ^= z >> 27;
  z *= 0x94d049bb133111eb;
  z ^= z >> 31;
  return z;
}

// Order matters: hash(1, 2) differs from hash(2, 1).
template <class... Words>
constexpr std::uint64_t hash(Words... words) {
  std::uint64_t h = 0;
  ((h = mix((h + kGolden) ^ mix(static_cast<std::uint64_t>(words) + kGolden))), ...);
  return h;
}

constexpr std::uint64_t high_64_of_product(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}

// A counter: its k-th draw is mix(key + k * golden). Copyable; equal states give equal futures.
class Random {
 public:
  constexpr explicit Random(std::uint64_t key) : state_(key) {}

  constexpr std::uint64_t draw() {
    state_ += kGolden;
    return mix(state_);
  }
  // REQUIRES: n > 0. An integer in [0, n).
  constexpr std::uint64_t below(std::uint64_t n) { return high_64_of_product(draw(), n); }
  // In [0, 1), for estimates and tests only: never for an order.
  constexpr double unit() { return static_cast<double>(draw() >> 11) * 0x1.0p-53; }
  // Random(key()) draws what this would draw.
  constexpr std::uint64_t key() const { return state_; }
  // An independent stream of draws for a part, which has a number of its own.
  constexpr Random split(std::uint64_t part) const { return Random(hash(state_, part)); }

 private:
  std::uint64_t state_;
};

// Fisher-Yates from the end: the shuffle of the order rules.
template <class T>
constexpr void shuffle(std::span<T> values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[static_cast<std::size_t>(random.below(i))]);
  }
}

}  // namespace batchflow
