// Which jobs are served: jobs that join, leave, lose ranks and change size, and the memory that is
// promised to them.
//
// A job is admitted only when its minimum fits beside all other promises: on each node a batch for
// each of its ranks there, and one block in preparation. It gets as many credits as its reserve can
// cover. From then on nothing takes that memory away.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "core/engine/delivery.h"
#include "core/engine/dispatching.h"
#include "core/engine/grants.h"
#include "core/engine/preparation.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Membership {
 public:
  Membership(EngineState& state, Items& items, Preparation& preparation, Grants& grants,
             Delivery& delivery, Dispatching& dispatching)
      : s_(state),
        items_(items),
        preparation_(preparation),
        grants_(grants),
        delivery_(delivery),
        dispatching_(dispatching) {}

  void joined(const JobJoined& event);
  void left(Job& job);
  void rank_lost(Job& job, Rank rank);
  void resized(Job& job, const JobResized& event);
  // A rank wants a batch. The first draws of a weighted job wait until all ranks have asked.
  void asked(Job& job);
  void timed_out(std::uint32_t job, std::uint64_t serial);
  void still_stranded(std::uint32_t stream, std::uint64_t serial);
  void refuse_join(JobId job, Refusal why, std::uint64_t needed, std::uint64_t available);
  void refuse(Job& job, Refusal why, std::uint64_t needed, std::uint64_t available);

  void node_joined(const NodeJoined& event);
  void node_quiesced(const NodeQuiesced& event);
  void node_lost(const NodeLost& event);
  void worker_joined(NodeId node);
  void worker_gone() { stranded_due_ = true; }
  void capacity_changed(const CapacityChanged& event);

  // Called when a step begins.
  void begin_step();
  // Makes promises that are due, and frees streams that no job uses. This comes before memory is
  // planned, so that it is planned once.
  bool make_way();
  // Admits jobs whose memory is there by now, and frees streams that no job uses. True if anything
  // changed.
  bool settle();

 private:
  std::uint32_t slot_for_node();
  void begin(Job& job);
  std::uint64_t seed_group(const JobJoined& event) const;
  void forget_node(Job& job, NodeId node);
  std::optional<Refusal> objection(const JobJoined& event) const;
  std::uint32_t stream_for(const JobJoined& event, const order::Position& position);
  std::uint32_t make_stream(const JobJoined& event, std::uint64_t seed, std::uint64_t key,
                            std::uint32_t block_samples);
  Bytes sample_bytes(const JobJoined& event) const;
  std::uint32_t block_samples(const JobJoined& event, const order::Position& position) const;
  void cover_nodes(Stream& stream, std::span<const NodeId> ranks);
  template <class Enough>
  std::vector<NodeId> nodes_for(std::uint32_t dataset, bool to_prepare, Enough enough);
  const std::vector<std::uint32_t>& ranked(std::uint32_t dataset);
  bool add_helpers(Stream& stream);
  // True: some are new, and then the caches of its dataset must be settled.
  bool open_homes(Stream& stream, std::span<const NodeId> ranks);
  bool add_node(Stream& stream, NodeId node);
  void size_lanes(Stream& stream);
  bool reserve(Job& job, std::uint32_t credits_wanted, std::uint64_t& needed,
               std::uint64_t& available);
  bool fits(const Job& job, std::uint32_t credits, std::uint64_t& needed,
            std::uint64_t& available) const;
  Bytes listed_bytes(const Job& job, NodeId node, std::uint32_t credits) const;
  bool fits_listed(const Job& job, std::uint32_t credits, std::uint64_t& needed,
                   std::uint64_t& available) const;
  void take_listed(Job& job);
  void give_up_listed(Job& job);
  bool can_be_made(const Job& job, std::uint64_t& needed, std::uint64_t& available) const;
  bool reserve_resized(Job& job);
  void take_reserve(Job& job);
  void promise(const StreamNode& part);
  bool stand_by();
  bool stand_by(const Node& node);
  void find_stranded();
  void give_up_reserve(Job& job);
  void start_over(Job& job, bool all_ranks_gone);
  void admit(Job& job);
  void end_service(Job& job);
  void forget(Job& job);
  bool keep_promises(Place place);
  Bytes promised_to(const Job& job, Place place) const;
  void give_up_standby(Place place);
  void close_if_empty(std::uint32_t stream);
  bool try_free(std::uint32_t stream);
  void drop_unused(Stream& stream, const StreamNode& part);
  void lose_blocks(Stream& stream, NodeId node);
  void drop_block(Stream& stream, std::uint32_t block);

  EngineState& s_;
  Items& items_;
  Preparation& preparation_;
  Grants& grants_;
  Delivery& delivery_;
  Dispatching& dispatching_;
  std::vector<std::uint32_t> joining_;
  // These streams, or any at all, may have lost, or found, the workers that prepare for them.
  std::vector<std::uint32_t> maybe_stranded_;
  bool stranded_due_ = false;
  // Nodes on which streams may be promised a slot that were not before.
  std::vector<std::uint32_t> standby_nodes_;
  bool helpers_due_ = false;            // a node can prepare that could not before
  std::vector<std::uint32_t> refused_;  // jobs whose ranks still have batches
  std::vector<std::uint32_t> closing_;  // streams without jobs
  // Jobs with memory promised on a node, by their serials; the youngest is last.
  std::map<std::pair<NodeId, std::uint64_t>, std::uint32_t> holders_;
  std::vector<Place> over_promised_;  // too small for their promises
  // How much one step does at most.
  std::size_t drops_left_ = 0;
  std::size_t refusals_left_ = 0;
  // For each dataset: all nodes by their scores for it, brought up to date when they are asked for.
  struct Ranked {
    std::uint64_t as_of = 0;  // EngineState::nodes_changed
    std::vector<std::uint32_t> nodes;
  };
  std::vector<Ranked> ranked_;
};

}  // namespace batchflow::engine
