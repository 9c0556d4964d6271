// What jobs are promised of each place when they join, and what becomes of these promises.
//
// A job's minimum must fit beside all other promises: on each node a batch for each of its ranks
// there, and one block in preparation. It gets as many credits as its reserve can cover. From then
// on nothing takes that memory away.
#pragma once

#include <map>
#include <utility>

#include "core/engine/state.h"
#include "core/engine/streams.h"

namespace batchflow::engine {

class Reserves {
 public:
  Reserves(EngineState& state, Streams& streams)
      : s_(state), batches_(state.batches.writable_for(this)), streams_(streams) {}

  // Finds with how many credits, at most `credits_wanted`, the job fits. False: not even with one;
  // then `needed` and `available` say why.
  bool reserve(Job& job, std::uint32_t credits_wanted, std::uint64_t& needed,
               std::uint64_t& available);
  // Promises the job what it reserved.
  void take(Job& job);
  // Takes the promises back. What its ranks still read stays covered until they have released it.
  void give_up(Job& job);
  // The job is gone.
  void forget(Job& job);
  // The node is gone, with what the job had there.
  void forget_node(Job& job, NodeId node);

  // A batch of a void step is released: nothing need be promised for it any more.
  static void uncover(EngineState& s, Batch& batch);
  // Such a batch may have been the last one in a share of an earlier size of the job.
  static void free_retired(EngineState& s, Job& job, ShareId share);

  // What the job was promised of the place.
  Bytes promised_to(const Job& job, Place place) const;
  // Of the jobs with memory promised on the node, the job that joined last; none: there is none.
  JobIndex youngest_on(NodeId node) const;

 private:
  bool fits(const Job& job, std::uint32_t credits, std::uint64_t& needed,
            std::uint64_t& available) const;
  Bytes listed_bytes(const Job& job, NodeId node, std::uint32_t credits) const;
  bool fits_listed(const Job& job, std::uint32_t credits, std::uint64_t& needed,
                   std::uint64_t& available) const;
  bool can_be_made(const Job& job, std::uint64_t& needed, std::uint64_t& available) const;
  void take_listed(Job& job);
  void give_up_listed(Job& job);
  void cover_held(const Job& job, Stream& stream);

  EngineState& s_;
  IndexedPool<Batch, BatchIndex>& batches_;
  Streams& streams_;
  // Jobs with memory promised on a node, by their serials; the youngest is last.
  std::map<std::pair<NodeId, std::uint64_t>, JobIndex> holders_;
};

}  // namespace batchflow::engine
