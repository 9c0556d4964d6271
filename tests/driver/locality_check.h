// The rules where each node has a sequence of its own. A block is for the ranks of one node, and
// each node has one block open at a time. Nodes take what is left of each other's blocks only when
// all blocks of the epoch are given out, or so many lanes are begun that a position holds no more.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/base/types.h"

namespace batchflow::test {

class LocalityCheck {
 public:
  explicit LocalityCheck(std::uint64_t samples) : samples_(samples) {}

  using Block = std::array<std::uint64_t, 4>;  // generation, lane, pass, block
  // The job goes on with ranks on these nodes: any rank may have what was given out and not used.
  void began(std::vector<NodeId> nodes);
  // A rank has had a sample of a step that counts, at an index of a block of that size.
  // `lane_samples`: of its lane.
  void count(std::uint32_t rank, const Block& block, std::uint32_t block_samples,
             std::uint64_t lane_samples, std::uint32_t index);
  void end_epoch();
  // Samples that went to another node than their block was given to.
  std::uint64_t cut() const { return cut_; }

 private:
  struct Given {
    std::uint32_t samples = 0;
    std::uint32_t used = 0;
    bool owned = false;
    NodeId node;
    bool is_open() const { return used < samples; }
  };
  bool has_open(NodeId node) const;
  std::uint64_t open_blocks() const;
  void check_cut(NodeId node) const;

  std::uint64_t samples_;
  std::vector<NodeId> nodes_;                     // of the ranks
  std::map<Block, Given> given_;                  // in this epoch
  std::map<std::uint64_t, std::uint64_t> begun_;  // lanes: samples left
  std::uint64_t given_samples_ = 0;
  std::uint64_t cut_ = 0;
};

}  // namespace batchflow::test
