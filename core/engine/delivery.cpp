#include "core/engine/delivery.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/engine/books.h"
#include "core/engine/reserves.h"

namespace batchflow::engine {

// ---------------------------------------------------------------------- what comes in ----

void Delivery::wanted(Job& job, const BatchWanted& event) {
  if (event.rank >= job.ranks.size() || event.credits == 0) return s_.protocol_error();
  RankState& rank = job.ranks[event.rank];
  if (job.state != Job::State::running && !job.moves)
    return s_.stale();  // asked before it heard of a loss
  const std::size_t held = rank.batches.size() + rank.credits;
  if (held + event.credits > job.credits) return s_.protocol_error();
  rank.credits += event.credits;
  // A keyed job waits for what it has asked for alone (DrawnEpochs::ask).
  if (!job.keyed) rank.stall.wanted(s_.now, event.credits);
  stall_changed(rank);
  s_.look_at(job.index);
}

void Delivery::stall_changed(const RankState& rank) {
  const NodeIndex node = s_.node_of.find(rank.node);
  if (!node.is_none()) s_.changed_on(node);
}

void Delivery::delivered(const DeliveryDone& event) {
  const Requests::OpenRequest* record = s_.requests.find(event.request, RequestKind::deliver);
  if (!record) return s_.stale();
  const BatchIndex index(record->subject);
  Batch& batch = batches_[index];
  Job& job = s_.jobs[batch.job];
  if (event.outcome != Outcome::done) {
    // The step is void: the rank never had the batch, and need not get it.
    if (batch.held) return free_held(job, index);
    // The batch is still there: hand it over again, until the rank is reported as lost.
    if (++batch.attempts < s_.config.delivery_attempts) return assembly_.send_delivery(job, index);
    return;
  }
  s_.requests.close(event.request.id);
  batch.request = RequestId::none();
  batch.state = Batch::State::delivered;
  if (batch.held) return;
  job.ranks[batch.rank].stall.delivered(s_.now);
  free_if_over(job, index);
}

void Delivery::consumed(Job& job, const BatchConsumed& event) {
  if (event.rank >= job.ranks.size()) return s_.protocol_error();
  if (job.state != Job::State::running) return s_.stale();  // of a step that is void by now
  RankState& rank = job.ranks[event.rank];
  // Ranks train on their batches in order.
  if (event.step != rank.consumed_steps || event.step >= rank.next_step) return s_.protocol_error();
  const auto is_of_step = [&](BatchIndex index) { return batches_[index].step == event.step; };
  const auto batch = std::find_if(rank.batches.begin(), rank.batches.end(), is_of_step);
  const bool is_there = batch != rank.batches.end();
  if (is_there && batches_[*batch].state == Batch::State::assembling) return s_.protocol_error();
  ++rank.consumed_steps;
  rank.stall.consumed(s_.now, event.compute);
  stall_changed(rank);
  if (event.compute.count() > 0) smooth(job.step_s, seconds(event.compute));
  if (is_there) {
    batches_[*batch].consumed = true;
    free_if_over(job, *batch);
  }
  commits_.commit(job);
  s_.look_at(job.index);
}

void Delivery::released(Job& job, const SlotReleased& event) {
  if (release_held(job, event)) return;
  if (event.rank >= job.ranks.size()) return s_.protocol_error();
  RankState& rank = job.ranks[event.rank];
  for (const BatchIndex index : rank.batches) {
    Batch& batch = batches_[index];
    if (batch.step != event.step) continue;
    if (batch.state == Batch::State::assembling || batch.released) return s_.protocol_error();
    believe_released(job, batch);
    free_if_over(job, index);
    s_.look_at(job.index);
    return;
  }
  s_.protocol_error();
}

// A batch that a rank has released was delivered, even if that has not been reported yet.
void Delivery::believe_released(Job& job, Batch& batch) {
  batch.released = true;
  if (batch.state == Batch::State::delivered) return;
  batch.state = Batch::State::delivered;
  s_.requests.close(batch.request);
  batch.request = RequestId::none();
  if (!batch.held) job.ranks[batch.rank].stall.delivered(s_.now);
}

// A batch is forgotten when the device no longer uses its memory, even if it was not trained on.
void Delivery::free_if_over(Job& job, BatchIndex index) {
  Batch& batch = batches_[index];
  if (!batch.released || batch.state != Batch::State::delivered) return;
  take_back(index);
  std::erase(job.ranks[batch.rank].batches, index);
  batches_.release(index);
}

// Gives up the memory that the batch holds.
void Delivery::take_back(BatchIndex index) {
  Batch& batch = batches_[index];
  for (Piece& piece : batch.pieces) {
    if (Block* block = s_.at(piece.block)) {
      if (piece.state == Piece::State::copying) --block->transfers;
      unpin(s_, block->share, block->item);
    }
    piece.block = {};
    leave_link(s_, piece.on_way, false);
    if (piece.request.is_none()) continue;
    s_.emit(Cancel{s_.requests.latest(piece.request)});
    s_.requests.close(piece.request);
    piece.request = RequestId::none();
  }
  Reserves::uncover(s_, batch);
  for (const ItemPin& pin : batch.pins) s_.memory[pin.share].share->unpin(pin.item);
  batch.pins.clear();
  if (!batch.reads.reads.empty()) reads_.leave_listed(batch, index);
  if (!batch.share.is_none()) {
    const SharePart& part = s_.memory[batch.share];
    if (batch.written && !s_.is_lost(batch.node)) {
      s_.emit(Drop{batch.share, part.spec.place, Form::prepared, batch.item, batch.slot});
    }
    // If nothing could leave before, something can begin now.
    if (part.share->evictable() == 0) s_.room_on(batch.node);
    s_.memory.give_back(batch.share, batch.item);
    batch.share = ShareId::none();
  }
}

// What was trained on was delivered, even if that has not been reported yet.
void Delivery::hold(Job& job) {
  for (RankState& rank : job.ranks) {
    for (const BatchIndex index : rank.batches) {
      if (batches_[index].state != Batch::State::delivered) rank.stall.delivered(s_.now);
      batches_[index].held = true;
      job.held.push_back(index);
    }
    rank.batches.clear();
  }
}

// Steps that are not committed are void. A batch that a rank may still read keeps its memory until
// it is released; the rest is free.
void Delivery::abandon(Job& job, bool all_ranks_gone) {
  for (RankState& rank : job.ranks) {
    for (const BatchIndex index : rank.batches) {
      Batch& batch = batches_[index];
      const bool out = batch.state != Batch::State::assembling;
      if (out && !rank.lost && !all_ranks_gone) {
        // What is on its way may be read before it could be called back.
        batch.held = true;
        job.held.push_back(index);
      } else {
        close_delivery(batch);
        take_back(index);
        batches_.release(index);
      }
    }
    rank.batches.clear();
    rank.credits = 0;
    rank.stall = StallMeter();
  }
  if (!all_ranks_gone) return;
  for (const BatchIndex index : job.held) {
    close_delivery(batches_[index]);
    take_back(index);
    batches_.release(index);
  }
  job.held.clear();
}

// A dead rank reads nothing any more.
void Delivery::abandon_rank(Job& job, Rank rank) {
  std::erase_if(job.held, [&](BatchIndex index) {
    const Batch& batch = batches_[index];
    if (batch.rank != rank || batch.numbering != job.numbering) return false;
    close_delivery(batches_[index]);
    take_back(index);
    batches_.release(index);
    return true;
  });
}

// The batches of ranks on the node are gone with it.
void Delivery::abandon_node(Job& job, NodeId node) {
  std::erase_if(job.held, [&](BatchIndex index) {
    if (batches_[index].node != node) return false;
    close_delivery(batches_[index]);
    take_back(index);
    batches_.release(index);
    return true;
  });
}

void Delivery::close_delivery(Batch& batch) {
  if (batch.request.is_none()) return;
  s_.emit(Cancel{s_.requests.latest(batch.request)});
  s_.requests.close(batch.request);
  batch.request = RequestId::none();
}

// A batch of a void step, which its rank has only now released.
bool Delivery::release_held(Job& job, const SlotReleased& event) {
  const auto found = std::find_if(job.held.begin(), job.held.end(), [&](BatchIndex index) {
    return batches_[index].rank == event.rank && batches_[index].step == event.step;
  });
  if (found == job.held.end()) return false;
  Batch& batch = batches_[*found];
  believe_released(job, batch);
  free_held(job, *found);
  return true;
}

void Delivery::free_held(Job& job, BatchIndex index) {
  const ShareId share = batches_[index].share;
  if (!batches_[index].request.is_none()) {
    s_.requests.close(batches_[index].request);
    batches_[index].request = RequestId::none();
  }
  take_back(index);
  batches_.release(index);
  std::erase(job.held, index);
  Reserves::free_retired(s_, job, share);
  s_.look_at(job.index);
}

}  // namespace batchflow::engine
