// Which node keeps which sample, agreed by all without a word: weighted rendezvous hashing.
//
// Each member of the current membership epoch has a score for a sample, hash(dataset version,
// sample, node), and a weight: what it can hold. A hash is a chance u of (0, 1); the sample belongs
// to the member of the least -log(u) / weight, so each has its weight's part of all samples. Where
// all weights are equal that is the highest hash. A member that leaves gives away what it had and
// nothing else moves; a newcomer takes its share from all alike. A member whose weight grows takes
// from all alike what it has more, and gives nothing away; one whose weight falls gives away what
// it has less, and takes nothing. The epoch names the list of members and is not part of any score.
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
  struct Weighed {
    NodeId node;
    std::uint64_t weight = 1;  // 0: it owns nothing while there are others
  };
  // `members` in any order, each once.
  Placement(std::uint64_t epoch, std::span<const Weighed> members);
  // All alike.
  Placement(std::uint64_t epoch, std::span<const NodeId> members);

  std::uint64_t epoch() const { return epoch_; }
  std::size_t members() const { return members_.size(); }
  NodeId member(std::size_t index) const { return members_[index].node; }

  // REQUIRES: there are members.
  NodeId owner(Digest dataset_version, SampleId sample) const {
    return member(owner_at(dataset_version, sample));
  }
  // Its index among the members.
  std::size_t owner_at(Digest dataset_version, SampleId sample) const;
  // Fills `best` with the owners, the best first, as many as there are; returns their number. The
  // first is owner(); a copy on each of the first k survives the loss of k - 1.
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
