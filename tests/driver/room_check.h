// What jobs are promised of each node's memory, worked out from what they ask for: by it a refusal
// for want of room is right or wrong, and so is an admission. It never sees the engine's numbers.
//
// A job needs a slot for each credit of each of its ranks: a block of its stream, or its batch
// where that is larger; and each stream needs a block more on each node where it has ranks, to
// prepare in. A node that helps a stream may be promised one block for it. Each node reads into
// staging memory, a sample at least, as large as the largest of the datasets that are read there.
// A job of a listed order has no blocks: what its batches hold is as it is stored. The check cannot
// know in which order the engine took the events of one step: whatever may have counted for a
// refusal counts here.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/engine/engine_config.h"
#include "tests/driver/scenario.h"

namespace batchflow::test {

// B of the order rules, Sizes: the power of two nearest to block / sample, from 1 to 4096.
std::uint32_t block_samples_of(const engine::EngineConfig& config, Bytes sample,
                               std::uint64_t samples);

class RoomCheck {
 public:
  // What a job asks for.
  struct Asked {
    JobId job;
    std::vector<NodeId> ranks;
    std::vector<std::uint64_t> stream;  // what its stream has in common
    Bytes sample = 0;                   // prepared
    Bytes block = 0;                    // of its stream
    Bytes batch = 0;                    // as it is stored, if the job prepares nothing
    Bytes staged = 0;           // the largest sample as it is stored, where reads are counted
    std::uint32_t credits = 1;  // the most; once it is admitted those it was given
    bool prepares = true;       // false: samples are handed out as they are stored
    bool admitted = false;
    bool in_before = false;  // it was known before this step
    bool gone = false;       // it leaves, or asks for something else, in this step
    // What each batch of a rank takes.
    Bytes slot() const { return prepares ? std::max(block, batch) : batch; }
  };
  // A batch of a step that counts no more, which its rank still reads.
  struct Leftover {
    NodeId node;
    Bytes bytes = 0;
  };

  void set_capacity(NodeId node, Bytes bytes);
  void lose_node(NodeId node) { lost_.push_back(node); }
  void asks(Asked asked);
  void leaves(JobId job);
  void clear();
  // The step is over: what was gone in it is forgotten.
  void stepped();

  void check_admission(JobId job, std::uint32_t credits);
  // `preparing`: nodes that have workers. `helpers`: how many of them may help a stream.
  void check_refusal(JobId job, const std::vector<Leftover>& leftovers,
                     const std::vector<NodeId>& preparing, std::uint32_t helpers) const;
  // Whether the job could ever be let in, with all memory of all nodes for itself.
  bool fits_alone(JobId job, const std::vector<NodeId>& preparing) const;

 private:
  struct Capacity {
    Bytes now = 0;
    Bytes least = 0;  // in this step
    bool changed = false;
  };
  const Asked& asked(JobId job) const;
  Bytes capacity(NodeId node) const;
  unsigned __int128 promised_most(NodeId node, const Asked& beside,
                                  const std::vector<Leftover>& leftovers) const;
  bool fits(const Asked& job, NodeId node, const std::vector<Leftover>& leftovers) const;
  bool is_taken_back(const Asked& job, NodeId node, const std::vector<Leftover>& leftovers) const;
  bool cannot_be_made(const Asked& job, const std::vector<Leftover>& leftovers,
                      const std::vector<NodeId>& preparing, std::uint32_t helpers) const;

  std::vector<Asked> asked_;
  std::vector<NodeId> lost_;
  std::map<NodeId, Capacity> capacity_;
};

}  // namespace batchflow::test
