// The words of BatchFlow as types: ids that cannot be mixed up, integer time, integer bytes.
//
// Everything here is a value without behaviour. Time is an integer number of nanoseconds since the
// first start of the engine. Bytes and slots are integers. No double enters an order. Where
// policies reckon with doubles, these have the same bits on every machine (core/base/rates.h).
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace batchflow {

// An integer that names a thing. Ids of different kinds do not convert into each other.
template <class Tag, class Rep>
struct Id {
  Rep value = 0;

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  static constexpr Id none() { return Id(std::numeric_limits<Rep>::max()); }
  constexpr bool is_none() const { return *this == none(); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using SampleId = Id<struct SampleTag, std::uint64_t>;  // index into a dataset
// Samples [first, first + samples) of a dataset.
struct SampleRange {
  SampleId first;
  std::uint64_t samples = 0;
  friend constexpr bool operator==(const SampleRange&, const SampleRange&) = default;
};
using ItemId = Id<struct ItemTag, std::uint32_t>;  // dense index inside one share
using DatasetId = Id<struct DatasetTag, std::uint32_t>;
using PipelineId = Id<struct PipelineTag, std::uint32_t>;
using JobId = Id<struct JobTag, std::uint32_t>;
using StreamId = Id<struct StreamTag, std::uint32_t>;
using ShareId = Id<struct ShareTag, std::uint32_t>;
using NodeId = Id<struct NodeTag, std::uint32_t>;
using WorkerId = Id<struct WorkerTag, std::uint32_t>;
using SlotId = Id<struct SlotTag, std::uint32_t>;  // index of a slot inside its share
using TimerId = Id<struct TimerTag, std::uint64_t>;
using RequestId = Id<struct RequestTag, std::uint64_t>;
using Rank = std::uint32_t;

using Bytes = std::uint64_t;
using Slots = std::uint64_t;  // what shares count in; an item takes ceil(bytes / slot bytes)

// Nanoseconds since the first start. The engine is told the time; it never reads a clock.
struct EngineClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  static constexpr bool is_steady = true;
};
using Duration = EngineClock::duration;
using Instant = std::chrono::time_point<EngineClock, Duration>;
inline constexpr Instant kNever = Instant::max();

// What a sample can be kept as. `decoded` is the state after the last step before the first random
// one; `prepared` is ready to train on, and its unit is the block.
enum class Form : std::uint8_t { encoded, decoded, prepared };
inline constexpr std::size_t kForms = 3;

// Where bytes are. The kind of a place is its tier.
enum class Tier : std::uint8_t { gpu, dram, nvme, store };
struct Place {
  NodeId node;  // none for a store that belongs to no node
  Tier tier = Tier::dram;
  std::uint16_t device = 0;
  friend constexpr auto operator<=>(const Place&, const Place&) = default;
};

// strict: the sequence depends on dataset version, seed and epoch alone. sequential: strict with
// the identity as its permutation. listed: the caller names the samples. live: records of a source
// that grows, as they come.
enum class Order : std::uint8_t { strict, sequential, relaxed, weighted, listed, mixed, live };
// Whether epochs are draws, in which a sample may come more than once, or not at all.
constexpr bool is_drawn(Order order) {
  return order == Order::weighted || order == Order::mixed || order == Order::live;
}

// The first 8 bytes, little-endian, of a content hash: names a dataset version or a pipeline.
using Digest = std::uint64_t;

}  // namespace batchflow
