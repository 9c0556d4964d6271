// Which jobs are served: they join, leave, lose ranks and change size.
//
// A job is admitted when the memory that it was promised (core/engine/reserves.h) is there.
#pragma once

#include <vector>

#include "core/engine/charges.h"
#include "core/engine/commits.h"
#include "core/engine/delivery.h"
#include "core/engine/dispatching.h"
#include "core/engine/drawn_epochs.h"
#include "core/engine/grants.h"
#include "core/engine/mixture_weights.h"
#include "core/engine/preparation.h"
#include "core/engine/reserves.h"
#include "core/engine/state.h"
#include "core/engine/streams.h"

namespace batchflow::engine {

class Membership {
 public:
  Membership(EngineState& state, ItemShares& item_shares, Charges& charges,
             Preparation& preparation, DrawnEpochs& drawn_epochs, Grants& grants, Commits& commits,
             Delivery& delivery, Dispatching& dispatching, Streams& streams, Reserves& reserves,
             MixtureWeights& mixture_weights)
      : s_(state),
        item_shares_(item_shares),
        charges_(charges),
        preparation_(preparation),
        drawn_epochs_(drawn_epochs),
        grants_(grants),
        commits_(commits),
        delivery_(delivery),
        dispatching_(dispatching),
        streams_(streams),
        reserves_(reserves),
        mixture_weights_(mixture_weights) {}

  void joined(const JobJoined& event);
  void left(Job& job);
  void rank_lost(Job& job, Rank rank);
  void resized(Job& job, const JobResized& event);
  // A rank wants a batch. A weighted job begins when all ranks do.
  void draw_when_all_ask(Job& job);
  // Works on the mixtures of jobs that have yet to begin, for `most` samples of their sources.
  void settle_mixtures(std::uint64_t most);
  void timed_out(JobIndex job, std::uint64_t serial);
  void still_stranded(StreamId stream, std::uint64_t serial);
  void refuse_join(JobId job, Refusal why, std::uint64_t needed, std::uint64_t available);
  void refuse(Job& job, Refusal why, std::uint64_t needed, std::uint64_t available);

  // All ranks on the node are lost, and what jobs had there is gone.
  void lose_node(NodeId node);
  // If the place has become too small for its promises, the youngest are taken back.
  void capacity_changed(Place place);

  // Called when a step begins.
  void begin_step();
  // Makes promises that are due, and frees streams that no job uses. This comes before memory is
  // planned, so that it is planned once.
  bool make_way();
  // Admits jobs that have their memory by now, and frees streams that no job uses. True if
  // anything changed.
  bool settle();

 private:
  void begin(Job& job);
  void join_buffer(Job& job, const JobJoined& event, const Catalogue& catalogue);
  void move(Job& job);
  JobJoined as_joined(const Job& job) const;
  bool has_room_in(Job& job, StreamId to);
  bool reserve_resized(Job& job);
  void start_over(Job& job, bool all_ranks_gone);
  void admit(Job& job);
  void end_service(Job& job);
  void forget(Job& job);
  bool keep_promises(Place place);

  EngineState& s_;
  ItemShares& item_shares_;
  Charges& charges_;
  Preparation& preparation_;
  DrawnEpochs& drawn_epochs_;
  Grants& grants_;
  Commits& commits_;
  Delivery& delivery_;
  Dispatching& dispatching_;
  Streams& streams_;
  Reserves& reserves_;
  MixtureWeights& mixture_weights_;
  std::vector<JobIndex> joining_;
  std::vector<JobIndex> refused_;     // jobs that still have batches with their ranks
  std::vector<Place> over_promised_;  // too small for their promises
  std::size_t refusals_left_ = 0;     // in this step
};

}  // namespace batchflow::engine
