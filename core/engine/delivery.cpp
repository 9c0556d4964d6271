#include "core/engine/delivery.h"

#include <algorithm>

#include "core/check.h"
#include "core/engine/books.h"
#include "core/engine/grants.h"

namespace batchflow {

// ------------------------------------------------------------------------------- what comes in
// ----

void Delivery::wanted(Job& job, const BatchWanted& event) {
  if (event.rank >= job.ranks.size() || event.credits == 0) return s_.protocol_error();
  RankState& rank = job.ranks[event.rank];
  if (job.state != Job::State::running) return s_.stale();  // asked before it heard of a loss
  const std::size_t held = rank.batches.size() + rank.credits;
  if (held + event.credits > job.credits) return s_.protocol_error();
  rank.credits += event.credits;
  rank.stall.wanted(s_.now, event.credits);
  s_.touch(job.index);
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
    serve(job, batch, piece);
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
    // Of a void step: the rank never had it, and need not get it.
    if (batch.held) return free_held(job, index);
    // The batch is still there: hand it over again, until the rank is said to be lost.
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
  for (const std::uint32_t index : rank.batches) {
    if (s_.batches[index].step == event.step &&
        s_.batches[index].state == Batch::State::assembling) {
      return s_.protocol_error();
    }
  }
  ++rank.consumed_steps;
  rank.stall.consumed(s_.now, event.compute);
  if (event.compute.count() > 0) smooth(job.step_s, seconds(event.compute));
  for (const std::uint32_t index : rank.batches) {
    if (s_.batches[index].step != event.step) continue;
    s_.batches[index].consumed = true;
    free_if_over(job, index);
    break;
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

// What a rank has let go of was delivered, whether or not that has been reported yet.
void Delivery::believe_released(Job& job, Batch& batch) {
  batch.released = true;
  if (batch.state == Batch::State::delivered) return;
  batch.state = Batch::State::delivered;
  s_.requests.close(batch.request);
  batch.request = RequestId::none();
  if (!batch.held) job.ranks[batch.rank].stall.delivered(s_.now);
}

// A batch is forgotten when the device is done with its memory, whether or not it was trained on.
void Delivery::free_if_over(Job& job, std::uint32_t index) {
  Batch& batch = s_.batches[index];
  if (!batch.released || batch.state != Batch::State::delivered) return;
  unhand(index);
  std::erase(job.ranks[batch.rank].batches, index);
  s_.batches.release(index);
}

// The memory the batch holds.
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
  if (batch.reserved != kNone) {
    for (StreamNode& part : s_.streams[s_.jobs[batch.job].stream].nodes) {
      if (part.share != batch.reserved) continue;
      --part.reserve;
      keep_promise(s_, part);
    }
    batch.reserved = kNone;
  }
  for (const ItemPin& pin : batch.pins) s_.memory[pin.share].share->unpin(pin.item);
  batch.pins.clear();
  if (!batch.reads.empty()) reads_.leave_listed(batch, index);
  if (batch.share != kNone) {
    const SharePart& part = s_.memory[batch.share];
    if (batch.written && !s_.is_lost(batch.node)) {
      s_.order(Drop{part.id, part.spec.place, Form::prepared, batch.item, batch.slot});
    }
    s_.memory.give_back(batch.share, batch.item);
    batch.share = kNone;
  }
}

// Steps that are not committed are void. What a live rank may still read keeps its memory until it
// is released; the rest is free.
void Delivery::abandon(Job& job, bool all_ranks_gone) {
  for (RankState& rank : job.ranks) {
    for (const std::uint32_t index : rank.batches) {
      Batch& batch = s_.batches[index];
      const bool out = batch.state != Batch::State::assembling;
      if (out && !rank.lost && !all_ranks_gone) {
        // What is on its way may be read by the time it could be called back.
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

// What ranks on it had is gone with it.
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

// A batch of steps that are void, which its rank has only now let go of.
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
  const auto retired = std::find(job.retired_shares.begin(), job.retired_shares.end(), share);
  if (retired != job.retired_shares.end() && s_.memory[share].share->used() == 0) {
    s_.memory.remove_share(share);
    job.retired_shares.erase(retired);
  }
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

// ------------------------------------------------------------------------------ what goes out ----

void Delivery::pump(Job& job) {
  job.waits = job.waits_to_take = false;
  if (job.state != Job::State::running || job.order == Order::listed) return;
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
    // A rank gets its batches in the order of its steps; `advance` adds and removes none.
    bool in_turn = true;
    for (std::size_t i = 0; i < job.ranks[rank].batches.size(); ++i) {
      const std::uint32_t index = job.ranks[rank].batches[i];
      advance(job, index, in_turn);
      in_turn = in_turn && s_.batches[index].state != Batch::State::assembling;
    }
    while (job.ranks[rank].credits > 0 && begin(job, rank)) {
    }
  }
}

// Begins the rank's next batch. It is gathered as its blocks are granted and come, so that none of
// them has to be kept for the others: the slot it is gathered in is the rank's own.
bool Delivery::begin(Job& job, Rank rank_index) {
  RankState& rank = job.ranks[rank_index];
  // Ranks of a job run at most `credits` steps apart.
  if (rank.next_step >= job.committed_step + job.credits) return false;
  if (!grants_.has_step(job, rank.next_step)) return false;
  const std::uint32_t index = s_.batches.make();
  Batch& batch = s_.batches[index];
  batch.job = job.index;
  batch.rank = rank_index;
  batch.step = rank.next_step++;
  batch.node = rank.node;
  batch.numbering = job.numbering;
  --rank.credits;
  rank.batches.push_back(index);
  const EpochRun& run = grants_.run_of(job, batch.step);
  batch.epoch = run.epoch;
  batch.last_of_epoch = batch.step + 1 == run.first_step + run.steps;
  batch.uncut = run.plan.batch(batch.step - run.first_step, rank_index).own;
  const std::size_t before = rank.batches.size() - 1;
  const bool in_turn =
      before == 0 || s_.batches[rank.batches[before - 1]].state != Batch::State::assembling;
  advance(job, index, in_turn);
  return true;
}

// Cuts what is granted by now into pieces. True: that is the whole batch.
bool Delivery::cut(Job& job, Batch& batch) {
  if (batch.uncut.count() == 0 && batch.fillers_cut) return true;
  EpochRun& run = grants_.run_of(job, batch.step);
  const bool covered = grants_.cover(job, run, grants_.batch_end(run, batch));
  const std::uint64_t have = run.plan.consumed + run.granted;
  const Places now{batch.uncut.from, std::min(batch.uncut.to, std::max(have, batch.uncut.from))};
  add_pieces(run, batch, now, false);
  batch.uncut.from = now.to;
  if (!covered) {
    job.waits = job.waits_to_take = true;
    return false;
  }
  const RankBatch places = run.plan.batch(batch.step - run.first_step, batch.rank);
  for (const Places& filler : places.fillers) add_pieces(run, batch, filler, true);
  batch.fillers_cut = true;
  return true;
}

void Delivery::add_pieces(EpochRun& run, Batch& batch, Places places, bool filler) {
  for (std::uint64_t at = places.from; at < places.to;) {
    const Grant& grant = grants_.grant_at(run, at);
    const std::uint64_t end = std::min(places.to, grant.start + grant.count);
    Piece piece;
    piece.place = at;
    piece.offset = batch.samples;
    piece.slice.name = grant.name;
    piece.slice.from = grant.from + static_cast<std::uint32_t>(at - grant.start);
    piece.slice.to = grant.from + static_cast<std::uint32_t>(end - grant.start);
    piece.slice.filler = filler;
    batch.samples += piece.slice.to - piece.slice.from;
    batch.pieces.push_back(piece);
    batch.sizes = grant.sizes;
    at = end;
  }
}

std::uint32_t Delivery::batch_share(const Job& job, NodeId node) const {
  if (job.batch_shares.empty()) {
    for (const StreamNode& part : s_.streams[job.stream].nodes) {
      if (part.node == node) return part.share;
    }
  }
  for (const std::uint32_t share : job.batch_shares) {
    if (s_.memory[share].spec.place.node == node) return share;
  }
  return kNone;
}

void Delivery::advance(Job& job, std::uint32_t index, bool in_turn) {
  Batch& batch = s_.batches[index];
  if (batch.state != Batch::State::assembling) return;
  const bool whole = cut(job, batch);
  if (batch.pieces.empty()) return;
  if (whole && batch.share == kNone && may_be_in_place(job, batch)) {
    // Out of turn it waits where it is.
    if (in_turn) deliver_in_place(job, index);
    return;
  }
  if (gather(job, index) && whole && in_turn) order_delivery(job, index);
}

// The batch lies in one block on its rank's node.
bool Delivery::may_be_in_place(Job& job, const Batch& batch) {
  if (batch.pieces.size() != 1 || batch.share != kNone || !job.batch_shares.empty()) return false;
  const Grant& grant =
      grants_.grant_at(grants_.run_of(job, batch.step), batch.pieces.front().place);
  const Block* block = s_.at(grant.block);
  return block && block->resident && block->node == batch.node;
}

void Delivery::deliver_in_place(Job& job, std::uint32_t index) {
  Batch& batch = s_.batches[index];
  Piece& piece = batch.pieces.front();
  Grant& grant = grants_.grant_at(grants_.run_of(job, batch.step), piece.place);
  Block& block = *s_.at(grant.block);
  piece.block = grant.block;
  piece.state = Piece::State::there;
  s_.memory[block.share].share->pin(block.item);
  batch.in_place = true;
  order_delivery(job, index);
  serve(job, batch, piece);
}

void Delivery::want_again(Job& job, Grant& grant) {
  job.waits = true;
  if (s_.at(grant.block)) return;  // it is in the making again
  grant.wanted = true;
  job.lost_grants = true;
}

// Copies what is resident into the batch's own slot; asks for what is gone. True: it is complete.
bool Delivery::gather(Job& job, std::uint32_t index) {
  Batch& batch = s_.batches[index];
  EpochRun& run = grants_.run_of(job, batch.step);
  bool all = true;
  for (std::uint32_t i = 0; i < batch.pieces.size(); ++i) {
    Piece& piece = batch.pieces[i];
    if (piece.state != Piece::State::there) all = false;
    if (piece.state != Piece::State::missing) continue;
    Grant& grant = grants_.grant_at(run, piece.place);
    Block* block = s_.at(grant.block);
    if (!block || !block->resident) {
      want_again(job, grant);
      continue;
    }
    if (batch.share == kNone) {
      const std::uint32_t share = batch_share(job, batch.node);
      const auto taken = s_.memory.take(share, kNone, s_.evicted);
      if (!taken) {
        s_.short_of_memory = true;
        job.waits = true;
        return false;
      }
      batch.share = share;
      batch.item = taken->item;
      batch.slot = taken->slot;
      drop_evicted(s_);
      block = s_.at(grant.block);  // it may just have been evicted for this very slot
      if (!block) {
        want_again(job, grant);
        continue;
      }
    }
    piece.state = Piece::State::copying;
    piece.block = grant.block;
    ++block->transfers;
    s_.memory[block->share].share->pin(block->item);
    const Request request = s_.requests.open(RequestKind::transfer, index, i);
    piece.request = request.id;
    batch.written = true;
    s_.order(Transfer{request, s_.memory[block->share].spec.place,
                      s_.memory[batch.share].spec.place, s_.memory[block->share].id, block->slot,
                      s_.memory[batch.share].id, batch.slot, piece.slice, piece.offset});
    // The piece may have been copied before, and come to nothing.
    const std::uint32_t end = piece.offset + (piece.slice.to - piece.slice.from);
    std::erase_if(batch.replacements, [&](const Replacement& old) {
      return old.place >= piece.offset && old.place < end;
    });
    for (const Replacement& replacement : block->replacements) {
      if (replacement.place < piece.slice.from || replacement.place >= piece.slice.to) continue;
      Replacement moved = replacement;
      moved.place = replacement.place - piece.slice.from + piece.offset;
      batch.replacements.push_back(moved);
    }
  }
  return all;
}

// The piece is in the batch: the job is done with that part of the block.
void Delivery::serve(Job& job, Batch& batch, Piece& piece) {
  EpochRun& run = grants_.run_of(job, batch.step);
  Grant& grant = grants_.grant_at(run, piece.place);
  if (Block* block = s_.at(grant.block)) block->served = true;
  grants_.served(job, grant, piece.slice.to - piece.slice.from);
}

// A weighted epoch cannot be expanded from names: the batch carries its ids.
std::span<const SampleId> Delivery::drawn_samples(const Job& job, const Batch& batch) {
  auto ids = s_.arena.make<SampleId>(batch.samples);
  std::vector<Draw> draws;
  std::size_t at = 0;
  for (const Piece& piece : batch.pieces) {
    draws.resize(piece.slice.to - piece.slice.from);
    job.drawn->fill(piece.place, draws);
    for (const Draw& draw : draws) ids[at++] = draw.sample;
  }
  return ids;
}

void Delivery::order_delivery(Job& job, std::uint32_t index) {
  Batch& batch = s_.batches[index];
  Deliver order;
  order.request = batch.request.is_none() ? s_.requests.open(RequestKind::deliver, index)
                                          : s_.requests.again(batch.request);
  order.job = job.id;
  order.rank = batch.rank;
  order.step = batch.step;
  order.epoch = batch.epoch;
  order.last_of_epoch = batch.last_of_epoch;
  order.in_place = batch.in_place;
  order.block_samples = batch.sizes.block_samples;
  order.lane_blocks = batch.sizes.lane_blocks;
  order.ingredients = s_.arena.copy(batch.ingredients);
  if (job.drawn) order.samples = drawn_samples(job, batch);
  auto slices = s_.arena.make<Slice>(batch.pieces.size());
  for (std::size_t i = 0; i < slices.size(); ++i) slices[i] = batch.pieces[i].slice;
  order.slices = slices;
  if (job.order == Order::listed) {
    order.place = {batch.node, Tier::dram, 0};
  } else if (batch.in_place) {
    const Block& block = *s_.at(batch.pieces.front().block);
    order.place = s_.memory[block.share].spec.place;
    order.share = s_.memory[block.share].id;
    order.slot = block.slot;
    const Slice& slice = batch.pieces.front().slice;
    std::vector<Replacement> within;
    for (Replacement replacement : block.replacements) {
      if (replacement.place < slice.from || replacement.place >= slice.to) continue;
      replacement.place -= slice.from;
      within.push_back(replacement);
    }
    order.replacements = s_.arena.copy(within);
  } else {
    order.place = s_.memory[batch.share].spec.place;
    order.share = s_.memory[batch.share].id;
    order.slot = batch.slot;
    order.replacements = s_.arena.copy(batch.replacements);
  }
  batch.request = order.request.id;
  batch.state = Batch::State::delivering;
  s_.order(order);
  if (order.request.attempt == 0) {
    ++s_.counters.batches;
    s_.counters.samples += batch.samples;
    if (!batch.in_place) ++s_.counters.copied_batches;
  }
}

// --------------------------------------------------------------------------------------- commit
// ----

void Delivery::apply(Job& job, const EpochRun& run) {
  if (job.order == Order::relaxed && !s_.slices.empty()) {
    const std::uint64_t generation = s_.slices.front().name.generation;
    if (!job.committed.has_generation() || job.committed.lanes().generation != generation) {
      const LaneSizes& sizes = run.grants.front().sizes;
      job.committed.begin_generation(generation, sizes.block_samples, sizes.lane_blocks);
    }
  }
  const std::string problem = job.committed.apply(s_.slices);
  BF_CHECK_MSG(problem.empty(), problem.c_str());
}

void Delivery::commit(Job& job) {
  std::uint64_t all = UINT64_MAX;
  for (const RankState& rank : job.ranks) all = std::min(all, rank.consumed_steps);
  if (job.order == Order::listed) {
    job.committed_step = all;
    return;
  }
  while (job.committed_step < all) {
    const std::uint64_t step = job.committed_step;
    EpochRun& run = grants_.run_of(job, step);
    const Places places = run.plan.step(step - run.first_step);
    s_.slices.clear();
    for (std::uint64_t at = places.from; at < places.to;) {
      const Grant& grant = grants_.grant_at(run, at);
      const std::uint64_t end = std::min(places.to, grant.start + grant.count);
      s_.slices.push_back({grant.name, grant.from + static_cast<std::uint32_t>(at - grant.start),
                           grant.from + static_cast<std::uint32_t>(end - grant.start), false});
      at = end;
    }
    apply(job, run);
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
    s_.order(EpochEnded{job.id, run.epoch, run.plan.consumed + run.acknowledged});
    job.committed.finish_epoch();
    s_.promise_epoch_finished(job, run.epoch);
  }
}

}  // namespace batchflow
