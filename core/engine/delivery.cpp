#include "core/engine/delivery.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/engine/books.h"
#include "core/engine/grants.h"
#include "core/engine/reserves.h"

namespace batchflow::engine {

// ---------------------------------------------------------------------- what comes in ----

void Delivery::wanted(Job& job, const BatchWanted& event) {
  if (event.rank >= job.ranks.size() || event.credits == 0) return s_.protocol_error();
  RankState& rank = job.ranks[event.rank];
  if (job.state != Job::State::running) return s_.stale();  // asked before it heard of a loss
  const std::size_t held = rank.batches.size() + rank.credits;
  if (held + event.credits > job.credits) return s_.protocol_error();
  rank.credits += event.credits;
  rank.stall.wanted(s_.now, event.credits);
  stall_changed(rank);
  s_.touch(job.index);
}

void Delivery::stall_changed(const RankState& rank) {
  const std::uint32_t node = s_.node_of.find(rank.node.value);
  if (node != kNone) s_.changed_on(node);
}

void Delivery::transferred(const TransferDone& event) {
  const Requests::Record* record = s_.requests.find(event.request, RequestKind::transfer);
  if (!record) return s_.stale();
  const std::uint32_t index = record->subject;
  Batch& batch = s_.batches[index];
  Piece& piece = batch.pieces[record->part];
  s_.requests.close(event.request.id);
  piece.request = RequestId::none();
  Block* block = s_.at(piece.block);
  if (block) {
    BF_CHECK(block->transfers > 0);
    --block->transfers;
    unpin(s_, block->share, block->item);
  }
  piece.block = {};
  Job& job = s_.jobs[batch.job];
  if (event.outcome == Outcome::done) {
    piece.state = Piece::State::there;
    serve(job, Grants::grant_of(grants_.run_of(job, batch.step), piece), piece);
  } else {
    piece.state = Piece::State::missing;
  }
  s_.touch(job.index);
}

void Delivery::delivered(const DeliveryDone& event) {
  const Requests::Record* record = s_.requests.find(event.request, RequestKind::deliver);
  if (!record) return s_.stale();
  const std::uint32_t index = record->subject;
  Batch& batch = s_.batches[index];
  Job& job = s_.jobs[batch.job];
  if (event.outcome != Outcome::done) {
    // The step is void: the rank never had the batch, and need not get it.
    if (batch.held) return free_held(job, index);
    // The batch is still there: hand it over again, until the rank is reported as lost.
    if (++batch.attempts < s_.config.delivery_attempts) return order_delivery(job, index);
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
  const auto is_of_step = [&](std::uint32_t index) { return s_.batches[index].step == event.step; };
  const auto batch = std::find_if(rank.batches.begin(), rank.batches.end(), is_of_step);
  const bool is_there = batch != rank.batches.end();
  if (is_there && s_.batches[*batch].state == Batch::State::assembling) return s_.protocol_error();
  ++rank.consumed_steps;
  rank.stall.consumed(s_.now, event.compute);
  stall_changed(rank);
  if (event.compute.count() > 0) smooth(job.step_s, seconds(event.compute));
  if (is_there) {
    s_.batches[*batch].consumed = true;
    free_if_over(job, *batch);
  }
  commit(job);
  s_.touch(job.index);
}

void Delivery::released(Job& job, const SlotReleased& event) {
  if (release_held(job, event)) return;
  if (event.rank >= job.ranks.size()) return s_.protocol_error();
  RankState& rank = job.ranks[event.rank];
  for (const std::uint32_t index : rank.batches) {
    Batch& batch = s_.batches[index];
    if (batch.step != event.step) continue;
    if (batch.state == Batch::State::assembling || batch.released) return s_.protocol_error();
    believe_released(job, batch);
    free_if_over(job, index);
    s_.touch(job.index);
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
void Delivery::free_if_over(Job& job, std::uint32_t index) {
  Batch& batch = s_.batches[index];
  if (!batch.released || batch.state != Batch::State::delivered) return;
  unhand(index);
  std::erase(job.ranks[batch.rank].batches, index);
  s_.batches.release(index);
}

// Gives up the memory that the batch holds.
void Delivery::unhand(std::uint32_t index) {
  Batch& batch = s_.batches[index];
  for (Piece& piece : batch.pieces) {
    if (Block* block = s_.at(piece.block)) {
      if (piece.state == Piece::State::copying) --block->transfers;
      unpin(s_, block->share, block->item);
    }
    piece.block = {};
    if (piece.request.is_none()) continue;
    s_.order(Cancel{s_.requests.latest(piece.request)});
    s_.requests.close(piece.request);
    piece.request = RequestId::none();
  }
  Reserves::uncover(s_, batch);
  for (const ItemPin& pin : batch.pins) s_.memory[pin.share].share->unpin(pin.item);
  batch.pins.clear();
  if (!batch.reads.reads.empty()) reads_.leave_listed(batch, index);
  if (batch.share != kNone) {
    const SharePart& part = s_.memory[batch.share];
    if (batch.written && !s_.is_lost(batch.node)) {
      s_.order(Drop{part.id, part.spec.place, Form::prepared, batch.item, batch.slot});
    }
    // If nothing could leave before, something can begin now.
    if (part.share->evictable() == 0) s_.room_on(batch.node);
    s_.memory.give_back(batch.share, batch.item);
    batch.share = kNone;
  }
}

// Steps that are not committed are void. A batch that a live rank may still read keeps its memory
// until it is released; the rest is free.
void Delivery::abandon(Job& job, bool all_ranks_gone) {
  for (RankState& rank : job.ranks) {
    for (const std::uint32_t index : rank.batches) {
      Batch& batch = s_.batches[index];
      const bool out = batch.state != Batch::State::assembling;
      if (out && !rank.lost && !all_ranks_gone) {
        // What is on its way may be read before it could be called back.
        batch.held = true;
        job.held.push_back(index);
      } else {
        close_delivery(batch);
        unhand(index);
        s_.batches.release(index);
      }
    }
    rank.batches.clear();
    rank.credits = 0;
    rank.stall = StallMeter();
  }
  if (!all_ranks_gone) return;
  for (const std::uint32_t index : job.held) {
    close_delivery(s_.batches[index]);
    unhand(index);
    s_.batches.release(index);
  }
  job.held.clear();
}

// A dead rank reads nothing any more.
void Delivery::abandon_rank(Job& job, Rank rank) {
  std::erase_if(job.held, [&](std::uint32_t index) {
    const Batch& batch = s_.batches[index];
    if (batch.rank != rank || batch.numbering != job.numbering) return false;
    close_delivery(s_.batches[index]);
    unhand(index);
    s_.batches.release(index);
    return true;
  });
}

// The batches of ranks on the node are gone with it.
void Delivery::abandon_node(Job& job, NodeId node) {
  std::erase_if(job.held, [&](std::uint32_t index) {
    if (s_.batches[index].node != node) return false;
    close_delivery(s_.batches[index]);
    unhand(index);
    s_.batches.release(index);
    return true;
  });
}

void Delivery::close_delivery(Batch& batch) {
  if (batch.request.is_none()) return;
  s_.order(Cancel{s_.requests.latest(batch.request)});
  s_.requests.close(batch.request);
  batch.request = RequestId::none();
}

// A batch of a void step, which its rank has only now released.
bool Delivery::release_held(Job& job, const SlotReleased& event) {
  const auto found = std::find_if(job.held.begin(), job.held.end(), [&](std::uint32_t index) {
    return s_.batches[index].rank == event.rank && s_.batches[index].step == event.step;
  });
  if (found == job.held.end()) return false;
  Batch& batch = s_.batches[*found];
  believe_released(job, batch);
  free_held(job, *found);
  return true;
}

void Delivery::free_held(Job& job, std::uint32_t index) {
  const std::uint32_t share = s_.batches[index].share;
  if (!s_.batches[index].request.is_none()) {
    s_.requests.close(s_.batches[index].request);
    s_.batches[index].request = RequestId::none();
  }
  unhand(index);
  s_.batches.release(index);
  std::erase(job.held, index);
  Reserves::free_retired(s_, job, share);
  s_.touch(job.index);
}

void Delivery::lost_block(Handle handle) {
  const std::uint32_t stream = s_.blocks[handle.index].stream;
  for (const std::uint32_t job : s_.streams[stream].jobs) {
    for (RankState& rank : s_.jobs[job].ranks) {
      for (const std::uint32_t index : rank.batches) {
        for (Piece& piece : s_.batches[index].pieces) {
          if (piece.block.index != handle.index || piece.block.serial != handle.serial) continue;
          piece.block = {};
          if (piece.state != Piece::State::copying) continue;
          piece.state = Piece::State::missing;
          s_.order(Cancel{s_.requests.latest(piece.request)});
          s_.requests.close(piece.request);
          piece.request = RequestId::none();
          s_.touch(job);
        }
      }
    }
  }
}

// ----------------------------------------------------------------------------- commit ----

// False: no job can be at the position that this job came with, and it is served no longer.
bool Delivery::apply(Job& job, const EpochRun& run) {
  // What an epoch that is over was rehearsed from no longer matters.
  if (!job.committed.rehearse(run.rehearsal ? run.rehearsal->buffer() : 0)) {
    check_failed("who rehearses has an order that can", __FILE__, __LINE__, "");
  }
  if (job.order == Order::relaxed && !s_.slices.empty()) {
    const std::uint64_t generation = s_.slices.front().name.generation;
    if (!job.committed.has_generation() || job.committed.lanes().generation != generation) {
      const order::LaneSizes& sizes = run.plain.grants.front().sizes;
      job.committed.begin_generation(generation, sizes.block_samples, sizes.lane_blocks);
    }
  }
  if (job.committed.apply(s_.slices).empty()) return true;
  job.to_refuse = Refusal::bad_position;
  s_.contradicting_jobs.push_back(job.index);
  return false;
}

void Delivery::commit(Job& job) {
  std::uint64_t all = UINT64_MAX;
  for (const RankState& rank : job.ranks) all = std::min(all, rank.consumed_steps);
  if (job.order == Order::listed) {
    job.committed_step = all;
    return;
  }
  while (job.committed_step < all && !job.to_refuse) {
    const std::uint64_t step = job.committed_step;
    EpochRun& run = grants_.run_of(job, step);
    const order::Places places = run.plan.plain.step(step - run.first_step);
    s_.slices.clear();
    const auto keep = [&](std::uint64_t /*at*/, const Grant& /*grant*/, const order::Slice& slice) {
      s_.slices.push_back(slice);
    };
    run.plain.for_each_slice(places, keep);
    run.rehearsed.for_each_slice(run.plan.buffer_draws(step - run.first_step), keep);
    if (!apply(job, run)) return;
    s_.promise_committed(job, step, run.epoch, s_.slices);
    run.acknowledged += places.count();
    ++job.committed_step;
    end_epochs(job);
  }
  grants_.forget_committed(job);
}

void Delivery::end_epochs(Job& job) {
  for (EpochRun& run : job.runs) {
    if (job.committed_step < run.first_step + run.steps) return;
    if (run.ended) continue;
    run.ended = true;
    s_.order(EpochEnded{job.id, run.epoch, run.plan.plain.consumed + run.acknowledged});
    job.committed.finish_epoch();
    s_.promise_epoch_finished(job, run.epoch);
  }
}

}  // namespace batchflow::engine
