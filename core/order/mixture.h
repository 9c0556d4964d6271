// From which source the next item of a mixture comes (docs/order.md, "Mixtures").
//
// Time is what has been taken of all sources together, in units: items, or tokens where items are
// documents of any length. A source's due is the sum, over time, of its part of the weights then in
// force. A source may give the next item if that puts it ahead of its due by less than a whole
// item. Of several that may, the item comes from the source that would be behind first. With items
// of one unit and weights that stay, each source has its due, rounded up or down, at any time.
//
// An item costs O(log K) with K sources, new weights O(K).
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

namespace batchflow::order {

class Mixture {
 public:
  // The parts of all sources together.
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;
  static constexpr std::uint32_t kLengthMost = std::uint32_t{1} << 30;
  static constexpr std::size_t kSourcesMost = 1 << 16;

  // The parts of these weights, each off by less than 1. REQUIRES: none is negative, not all are
  // zero
  static std::vector<std::uint64_t> parts_of(std::span<const double> weights);

  // REQUIRES: the sum of parts is kWhole; a length, from 1 to kLengthMost, for each source
  Mixture(std::span<const std::uint64_t> parts, std::span<const std::uint32_t> lengths);

  // What each source was given, and is due, at one time.
  struct State {
    std::uint64_t part = 0;
    std::uint64_t taken = 0;
    __int128 behind = 0;  // in units of 1 / kWhole
    friend constexpr bool operator==(const State&, const State&) = default;
  };
  // Goes on from there as if it had never stopped. All items have one unit. REQUIRES: the sum of
  // parts is kWhole
  explicit Mixture(std::span<const State> states);

  // The source of the next item.
  std::uint32_t next() const { return ready_.top().source; }
  // Takes that item. `length` is that of the item behind it in its source.
  void take(std::uint32_t length);
  // From the next item on. REQUIRES: as for the constructor
  void set_parts(std::span<const std::uint64_t> parts);

  std::uint64_t now() const { return now_; }
  std::uint32_t sources() const { return static_cast<std::uint32_t>(sources_.size()); }
  std::uint64_t taken(std::uint32_t source) const { return sources_[source].taken; }
  std::uint64_t part(std::uint32_t source) const { return sources_[source].part; }
  // What is due, less what was taken, in units of 1 / kWhole.
  __int128 behind(std::uint32_t source) const;

 private:
  struct Source {
    std::uint64_t part = 0;
    std::uint32_t length = 1;  // of its next item
    std::uint64_t taken = 0;
    __int128 behind = 0;  // at the time `as_of`
    std::uint64_t as_of = 0;
  };
  struct Due {
    std::uint64_t at = 0;
    std::uint32_t source = 0;
    friend constexpr bool operator>(const Due& a, const Due& b) {
      return a.at != b.at ? a.at > b.at : a.source > b.source;
    }
  };
  using Queue = std::priority_queue<Due, std::vector<Due>, std::greater<>>;

  void bring_up_to_date(Source& source);
  void enqueue(std::uint32_t number);
  void admit();

  std::vector<Source> sources_;
  std::uint64_t now_ = 0;
  Queue ready_;    // by when they are behind
  Queue waiting_;  // by when they are not ahead
};

}  // namespace batchflow::order
