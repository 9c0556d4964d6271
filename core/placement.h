// Which node keeps which sample, agreed by all without a word: rendezvous hashing.
//
// Each member of the current membership epoch has a score for a sample, hash(dataset version,
// sample, node); the sample belongs to the highest. A member that leaves gives away what it had and
// nothing else moves; a newcomer takes its share from all alike. The epoch names the list of
// members and is not part of any score.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/types.h"

namespace batchflow {

class Placement {
 public:
  // `members` in any order, each once.
  Placement(std::uint64_t epoch, std::vector<NodeId> members);

  std::uint64_t epoch() const { return epoch_; }
  std::size_t members() const { return members_.size(); }
  NodeId member(std::size_t index) const { return members_[index].node; }

  // REQUIRES: there are members.
  NodeId owner(Digest dataset_version, SampleId sample) const {
    return member(owner_at(dataset_version, sample));
  }
  // Its index among the members.
  std::size_t owner_at(Digest dataset_version, SampleId sample) const;
  // Fills `best` with the owners in falling score, as many as there are; returns their number. The
  // first is owner(); a copy on each of the first k survives the loss of k - 1.
  std::size_t owners(Digest dataset_version, SampleId sample, std::span<NodeId> best) const;

 private:
  struct Member {
    std::uint64_t mixed;  // the node's word of the hash
    NodeId node;
  };
  std::uint64_t epoch_;
  std::vector<Member> members_;  // by node
};

}  // namespace batchflow
