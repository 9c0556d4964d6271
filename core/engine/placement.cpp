#include "core/engine/placement.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/base/check.h"
#include "core/base/random.h"

namespace batchflow::engine {

namespace {

// What remains of hash(version, sample, node) once hash(version, sample) is known.
std::uint64_t score(std::uint64_t hash_before, std::uint64_t mixed_node) {
  return mix((hash_before + kGolden) ^ mixed_node);
}

// ---- -log2 of a chance, in units of 2^-32

constexpr int kFraction = 32;
constexpr int kSteps = 10;  // of an octave: 2^10

// log2(1 + i / 2^10) bit by bit: a number squared has twice its logarithm.
constexpr std::uint64_t log2_of_step(std::uint64_t i) {
  constexpr int kOne = 62;
  unsigned __int128 x = ((std::uint64_t{1} << kSteps) + i) << (kOne - kSteps);
  std::uint64_t log = 0;
  for (int bit = 0; bit < kFraction; ++bit) {
    x = (x * x) >> kOne;
    const bool above = x >> (kOne + 1) != 0;
    log = 2 * log + (above ? 1 : 0);
    if (above) x >>= 1;
  }
  return log;
}

constexpr auto kLog2 = [] {
  std::array<std::uint64_t, (1 << kSteps) + 1> table{};
  for (std::uint64_t i = 0; i < 1 << kSteps; ++i) table[i] = log2_of_step(i);
  table[1 << kSteps] = std::uint64_t{1} << kFraction;
  return table;
}();

// 64 - log2(hash), linear between the steps. It is never 0, and never more for a higher hash.
std::uint64_t cost(std::uint64_t hash) {
  const int zeros = std::countl_zero(hash | 1);
  const std::uint64_t fraction = (hash | 1) << zeros << 1;  // behind its first one
  const std::uint64_t step = fraction >> (64 - kSteps);
  const std::uint64_t rest = fraction << kSteps >> 32;
  const std::uint64_t log = kLog2[step] + (((kLog2[step + 1] - kLog2[step]) * rest) >> 32);
  return (static_cast<std::uint64_t>(zeros + 1) << kFraction) - log;
}

struct Bid {
  std::uint64_t score;
  std::uint64_t cost;
  std::uint64_t weight;
};

Bid bid(std::uint64_t score, std::uint64_t weight) {
  return {score, cost(score), weight};
}

std::vector<Placement::NodeWeight> alike(std::span<const NodeId> nodes) {
  std::vector<Placement::NodeWeight> members;
  for (const NodeId node : nodes) members.push_back({node, 1});
  return members;
}

bool wins(const Bid& a, const Bid& b) {
  const auto mine = static_cast<unsigned __int128>(a.cost) * b.weight;
  const auto other = static_cast<unsigned __int128>(b.cost) * a.weight;
  return mine != other ? mine < other : a.score > b.score;
}

}  // namespace

Placement::Placement(std::uint64_t epoch, std::span<const NodeWeight> members) : epoch_(epoch) {
  for (const NodeWeight& one : members) {
    members_.push_back({mix(one.node.value + kGolden), one.node, one.weight});
  }
  std::sort(members_.begin(), members_.end(),
            [](const Member& a, const Member& b) { return a.node < b.node; });
  const auto same = [](const Member& a, const Member& b) { return a.node == b.node; };
  BF_CHECK(std::adjacent_find(members_.begin(), members_.end(), same) == members_.end());
  all_alike_ = std::all_of(members_.begin(), members_.end(), [&](const Member& one) {
    return one.weight == members_.front().weight;
  });
}

Placement::Placement(std::uint64_t epoch, std::span<const NodeId> members)
    : Placement(epoch, alike(members)) {}

std::size_t Placement::owner_at(Digest dataset_version, SampleId sample) const {
  BF_CHECK(!members_.empty());
  const std::uint64_t before = hash(dataset_version, sample.value);
  if (all_alike_) return highest(before);
  std::size_t best = 0;
  Bid best_bid = bid(score(before, members_.front().mixed), members_.front().weight);
  for (std::size_t i = 1; i < members_.size(); ++i) {
    const Bid mine = bid(score(before, members_[i].mixed), members_[i].weight);
    if (!wins(mine, best_bid)) continue;
    best_bid = mine;
    best = i;
  }
  return best;
}

// The same for equal weights, at less cost.
std::size_t Placement::highest(std::uint64_t hash_before) const {
  std::size_t best = 0;
  std::uint64_t best_score = score(hash_before, members_.front().mixed);
  for (std::size_t i = 1; i < members_.size(); ++i) {
    const std::uint64_t mine = score(hash_before, members_[i].mixed);
    const bool better = mine > best_score;
    best_score = better ? mine : best_score;
    best = better ? i : best;
  }
  return best;
}

std::size_t Placement::owners(Digest dataset_version, SampleId sample,
                              std::span<NodeId> best) const {
  struct Scored {
    Bid bid;
    NodeId node;
  };
  const auto before_in_order = [](const Scored& a, const Scored& b) {
    if (wins(a.bid, b.bid)) return true;
    return !wins(b.bid, a.bid) && a.node < b.node;
  };
  const std::uint64_t before = hash(dataset_version, sample.value);
  std::vector<Scored> scored;
  scored.reserve(members_.size());
  for (const Member& member : members_) {
    scored.push_back({bid(score(before, member.mixed), member.weight), member.node});
  }
  const std::size_t count = std::min(best.size(), scored.size());
  std::partial_sort(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(count),
                    scored.end(), before_in_order);
  for (std::size_t i = 0; i < count; ++i) best[i] = scored[i].node;
  return count;
}

}  // namespace batchflow::engine
