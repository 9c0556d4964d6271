// Which node keeps which sample. All nodes compute the same answer without messages, by weighted
// rendezvous hashing.
//
// Each member of the present membership epoch has a score for a sample, hash(dataset version,
// sample, node), and a weight: how much it can hold. A score is read as a random u in (0, 1). The
// sample belongs to the member with the least -log(u) / weight, so that each member has its
// weight's part of all samples. With equal weights that is the member with the highest hash. If a
// member leaves, only its samples move. A new member takes its part from all others alike. If a
// member's weight grows, it takes what it gains from all others alike, and gives nothing away. If
// it falls, it gives away the difference, and takes nothing. The epoch names the list of members
// and is not part of any score.
//
// All of it is in whole numbers: every machine finds the same owner.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/types.h"

namespace batchflow::engine {

class Placement {
 public:
  struct NodeWeight {
    NodeId node;
    std::uint64_t weight = 1;  // 0: it owns nothing while there are others
  };
  // `members` come in any order, each once.
  Placement(std::uint64_t epoch, std::span<const NodeWeight> members);
  // All members have the same weight.
  Placement(std::uint64_t epoch, std::span<const NodeId> members);

  std::uint64_t epoch() const { return epoch_; }
  std::size_t members() const { return members_.size(); }
  NodeId member(std::size_t index) const { return members_[index].node; }

  // REQUIRES: there are members.
  NodeId owner(Digest dataset_version, SampleId sample) const {
    return member(owner_at(dataset_version, sample));
  }
  // The owner's index among the members.
  std::size_t owner_at(Digest dataset_version, SampleId sample) const;
  // Fills `best` with the best owners, the best one first, as far as there are members; returns
  // their number. The first is owner(). A copy on each of the first k survives the loss of k - 1.
  std::size_t owners(Digest dataset_version, SampleId sample, std::span<NodeId> best) const;

 private:
  struct Member {
    std::uint64_t mixed;  // the node's word of the hash
    NodeId node;
    std::uint64_t weight;
  };
  std::size_t highest(std::uint64_t hash_before) const;

  std::uint64_t epoch_;
  std::vector<Member> members_;  // by node
  bool all_alike_ = true;
};

}  // namespace batchflow::engine
