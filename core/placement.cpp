#include "core/placement.h"

#include <algorithm>

#include "core/check.h"
#include "core/random.h"

namespace batchflow {

namespace {

// What remains of hash(version, sample, node) once hash(version, sample) is known.
std::uint64_t score(std::uint64_t hash_before, std::uint64_t mixed_node) {
  return mix((hash_before + kGolden) ^ mixed_node);
}

}  // namespace

Placement::Placement(std::uint64_t epoch, std::vector<NodeId> members) : epoch_(epoch) {
  std::sort(members.begin(), members.end());
  BF_CHECK(std::adjacent_find(members.begin(), members.end()) == members.end());
  for (const NodeId node : members) members_.push_back({mix(node.value + kGolden), node});
}

std::size_t Placement::owner_at(Digest dataset_version, SampleId sample) const {
  BF_CHECK(!members_.empty());
  const std::uint64_t before = hash(dataset_version, sample.value);
  std::size_t best = 0;
  std::uint64_t best_score = score(before, members_.front().mixed);
  for (std::size_t i = 1; i < members_.size(); ++i) {
    const std::uint64_t mine = score(before, members_[i].mixed);
    const bool better = mine > best_score;
    best_score = better ? mine : best_score;
    best = better ? i : best;
  }
  return best;
}

std::size_t Placement::owners(Digest dataset_version, SampleId sample,
                              std::span<NodeId> best) const {
  struct Scored {
    std::uint64_t score;
    NodeId node;
  };
  const auto before_in_order = [](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.node < b.node;
  };
  const std::uint64_t before = hash(dataset_version, sample.value);
  std::vector<Scored> scored;
  scored.reserve(members_.size());
  for (const Member& member : members_) {
    scored.push_back({score(before, member.mixed), member.node});
  }
  const std::size_t count = std::min(best.size(), scored.size());
  std::partial_sort(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(count),
                    scored.end(), before_in_order);
  for (std::size_t i = 0; i < count; ++i) best[i] = scored[i].node;
  return count;
}

}  // namespace batchflow
