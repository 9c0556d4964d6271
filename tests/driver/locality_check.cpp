#include "tests/driver/locality_check.h"

#include <algorithm>
#include <utility>

#include "tests/driver/machine.h"

namespace batchflow::test {

namespace {

// What a position holds, by the order rules; and blocks used in part.
constexpr std::size_t kLanesMost = 64;
constexpr std::uint64_t kBlocksMost = 1024;

}  // namespace

void LocalityCheck::began(std::vector<NodeId> nodes) {
  nodes_ = std::move(nodes);
  for (auto& [block, given] : given_) given.owned = false;
}

bool LocalityCheck::has_open(NodeId node) const {
  return std::any_of(given_.begin(), given_.end(), [&](const auto& entry) {
    return entry.second.owned && entry.second.node == node && entry.second.is_open();
  });
}

void LocalityCheck::count(std::uint32_t rank, const Block& block, std::uint32_t block_samples,
                          std::uint64_t lane_samples, std::uint32_t index) {
  const NodeId node = nodes_.at(rank);
  const auto [at, fresh] = given_.try_emplace(block);
  Given& given = at->second;
  if (fresh) {
    given.samples = block_samples;
    given_samples_ += block_samples;
  }
  if (index != given.used) violated("the samples of a block are had out of turn");
  if (!given.owned) {
    if (has_open(node)) violated("a node opens a block while it has another");
    given.owned = true;
    given.node = node;
  } else if (given.node != node) {
    check_cut(node);
    ++cut_;
  }
  ++given.used;
  const auto lane = begun_.try_emplace(block[1], lane_samples).first;
  if (begun_.size() > kLanesMost) violated("more lanes are begun than a position holds");
  if (--lane->second == 0) begun_.erase(lane);
}

std::uint64_t LocalityCheck::open_blocks() const {
  return static_cast<std::uint64_t>(std::count_if(
      given_.begin(), given_.end(), [](const auto& entry) { return entry.second.is_open(); }));
}

void LocalityCheck::check_cut(NodeId node) const {
  if (begun_.size() >= kLanesMost || open_blocks() >= kBlocksMost) return;
  if (given_samples_ < samples_) violated("a block of another node, though blocks are left");
  if (has_open(node)) violated("a block of another node, though it has one of its own");
  const bool rest = std::any_of(given_.begin(), given_.end(), [](const auto& entry) {
    return !entry.second.owned && entry.second.is_open();
  });
  if (rest) violated("a block of another node, though one is of no node");
}

void LocalityCheck::end_epoch() {
  given_.clear();
  begun_.clear();
  given_samples_ = 0;
}

}  // namespace batchflow::test
