#include "core/engine/assembly.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/grants.h"

namespace batchflow::engine {

void Assembly::pump(Job& job) {
  job.waits = Job::Waits::for_nothing;
  if (job.state != Job::State::running || job.order == Order::listed) return;
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
    // A rank gets its batches in the order of its steps; `advance` adds and removes none.
    bool in_turn = true;
    for (std::size_t i = 0; i < job.ranks[rank].batches.size(); ++i) {
      const BatchIndex index = job.ranks[rank].batches[i];
      const Batch& batch = batches_[index];
      if (batch.state != Batch::State::assembling) continue;
      advance(job, grants_.run_of(job, batch.step), index, in_turn);
      in_turn = in_turn && batch.state != Batch::State::assembling;
    }
    while (job.ranks[rank].credits > 0 && begin(job, rank)) {
    }
  }
}

// Begins the rank's next batch. It is gathered into a slot of the rank's own as its blocks are
// granted and come, so that no block has to be kept for the others.
bool Assembly::begin(Job& job, Rank rank_index) {
  RankState& rank = job.ranks[rank_index];
  // Ranks of a job run at most `credits` steps apart.
  if (rank.next_step >= job.committed_step + job.credits) return false;
  if (!grants_.has_step(job, rank.next_step)) return false;
  const BatchIndex index = batches_.make();
  Batch& batch = batches_[index];
  batch.job = job.index;
  batch.rank = rank_index;
  batch.step = rank.next_step++;
  batch.node = rank.node;
  batch.numbering = job.numbering;
  --rank.credits;
  rank.batches.push_back(index);
  EpochRun& run = grants_.run_of(job, batch.step);
  batch.epoch = run.epoch;
  batch.last_of_epoch =
      batch.step + 1 == run.first_step + run.steps && (!job.live || DrawnEpochs::is_at_end(job));
  batch.uncut = run.plan.plain.batch(batch.step - run.first_step, rank_index).own;
  batch.rehearsal = run.rehearsal;
  const std::size_t before = rank.batches.size() - 1;
  const bool in_turn =
      before == 0 || batches_[rank.batches[before - 1]].state != Batch::State::assembling;
  advance(job, run, index, in_turn);
  return true;
}

// Cuts what is granted by now into pieces. True: the batch is whole.
bool Assembly::cut(Job& job, EpochRun& run, Batch& batch) {
  if (batch.all_cut) return true;
  const std::uint64_t step = batch.step - run.first_step;
  const order::RankBatch indices = run.plan.plain.batch(step, batch.rank);
  const bool covered = grants_.cover(job, run, Grants::batch_end(run, step, indices));
  const std::uint64_t have = run.plain.end();
  const order::IndexRange now{batch.uncut.from,
                              std::min(batch.uncut.to, std::max(have, batch.uncut.from))};
  add_pieces(run.plain, batch, now, false);
  batch.uncut.from = now.to;
  if (!covered) {
    job.wait(Job::Waits::to_take);
    return false;
  }
  for (const order::IndexRange& filler : indices.fillers)
    add_pieces(run.plain, batch, filler, true);
  const order::IndexRange draws = run.plan.buffer_draws(step, batch.rank);
  grants_.rehearse(job, run, draws.to);
  add_pieces(run.rehearsed, batch, draws, false);
  batch.all_cut = true;
  return true;
}

void Assembly::add_pieces(Sequence& sequence, Batch& batch, order::IndexRange indices,
                          bool filler) {
  sequence.for_each_slice(indices,
                          [&](std::uint64_t at, const Grant& grant, const order::Slice& slice) {
                            Piece piece;
                            piece.index = at;
                            piece.offset = batch.samples;
                            piece.slice = slice;
                            piece.slice.filler = filler;
                            batch.samples += slice.to - slice.from;
                            batch.pieces.push_back(piece);
                            (slice.rehearsed ? batch.rehearsed_sizes : batch.sizes) = grant.sizes;
                          });
}

ShareId Assembly::batch_share(const Job& job, NodeId node) const {
  if (job.batch_shares.empty()) {
    for (const StreamNode& part : s_.streams[job.stream].nodes) {
      if (part.node == node) return part.share;
    }
  }
  for (const ShareId share : job.batch_shares) {
    if (s_.memory[share].spec.place.node == node) return share;
  }
  return ShareId::none();
}

// REQUIRES: the batch is being assembled.
void Assembly::advance(Job& job, EpochRun& run, BatchIndex index, bool in_turn) {
  Batch& batch = batches_[index];
  const bool whole = cut(job, run, batch);
  if (batch.pieces.empty()) return;
  if (Grant* grant = whole ? grant_in_place(job, run, batch) : nullptr) {
    // Out of turn it waits where it is.
    if (in_turn && list_draws(job, batch)) deliver_in_place(job, *grant, index);
    return;
  }
  if (gather(job, run, index) && whole && in_turn && list_draws(job, batch)) {
    send_delivery(job, index);
  }
}

// The grant of the block that the batch lies in, if that is one block on the rank's node; else
// null.
Grant* Assembly::grant_in_place(const Job& job, EpochRun& run, const Batch& batch) {
  if (batch.pieces.size() != 1 || !batch.share.is_none() || !job.batch_shares.empty())
    return nullptr;
  Grant& grant = Grants::grant_of(run, batch.pieces.front());
  const Block* block = s_.at(grant.block);
  return block && block->resident && block->node == batch.node ? &grant : nullptr;
}

void Assembly::deliver_in_place(Job& job, Grant& grant, BatchIndex index) {
  Batch& batch = batches_[index];
  Piece& piece = batch.pieces.front();
  Block& block = *s_.at(grant.block);
  piece.block = grant.block;
  piece.state = Piece::State::there;
  s_.memory[block.share].share->pin(block.item);
  batch.in_place = true;
  send_delivery(job, index);
  serve(job, grant, piece);
}

void Assembly::want_again(Job& job, Grant& grant) {
  job.wait(Job::Waits::for_memory);
  if (s_.at(grant.block)) return;  // it is in the making again
  grant.wanted = true;
  job.lost_grants = true;
}

// Copies what is resident into the batch's own slot, and asks for what is gone. True: it is
// complete.
bool Assembly::gather(Job& job, EpochRun& run, BatchIndex index) {
  Batch& batch = batches_[index];
  bool all = true;
  for (std::uint32_t i = 0; i < batch.pieces.size(); ++i) {
    Piece& piece = batch.pieces[i];
    if (piece.state != Piece::State::there) all = false;
    if (piece.state != Piece::State::missing) continue;
    Grant& grant = Grants::grant_of(run, piece);
    Block* block = s_.at(grant.block);
    if (!block || !block->resident) {
      want_again(job, grant);
      continue;
    }
    if (batch.share.is_none()) {
      const ShareId share = batch_share(job, batch.node);
      const auto taken = s_.memory.take(share, BlockIndex::none(), s_.evicted);
      if (!taken) {
        s_.short_of_memory = true;
        job.wait(Job::Waits::for_memory);
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
    const Request request = s_.requests.open(RequestKind::transfer, index.value, i);
    piece.request = request.id;
    batch.written = true;
    const Place from = s_.memory[block->share].spec.place;
    const Place to = s_.memory[batch.share].spec.place;
    set_out(
        s_, piece.on_way, from, to,
        saturating_product(piece.slice.to - piece.slice.from, s_.streams[job.stream].sample_bytes));
    s_.emit(Transfer{request, from, to, block->share, block->slot, batch.share, batch.slot,
                     piece.slice, piece.offset,
                     std::max(job.batch_samples, s_.streams[job.stream].block_samples)});
    // The piece may have been copied before, and have come to nothing.
    const std::uint32_t end = piece.offset + (piece.slice.to - piece.slice.from);
    std::erase_if(batch.replacements, [&](const order::Replacement& old) {
      return old.index >= piece.offset && old.index < end;
    });
    for (const order::Replacement& replacement : block->replacements) {
      if (replacement.index < piece.slice.from || replacement.index >= piece.slice.to) continue;
      order::Replacement moved = replacement;
      moved.index = replacement.index - piece.slice.from + piece.offset;
      batch.replacements.push_back(moved);
    }
  }
  return all;
}

// The piece is in the batch: the job no longer needs that part of the block.
void Assembly::serve(Job& job, Grant& grant, const Piece& piece) {
  grants_.served(job, grant, piece.slice.to - piece.slice.from);
}

// Finds the samples of the batch's draws, as many as a step may. True when all are listed; else the
// next step goes on.
bool Assembly::list_draws(const Job& job, Batch& batch) {
  if (!job.drawn && !job.chosen && !batch.rehearsal) return true;
  if (!batch.drawn) {
    batch.drawn = std::make_shared<std::vector<SampleId>>();
    batch.drawn->reserve(batch.samples);
  }
  while (batch.drawn_pieces < batch.pieces.size()) {
    const Piece& piece = batch.pieces[batch.drawn_pieces];
    const bool listed = job.drawn || job.chosen || piece.slice.rehearsed;
    const std::size_t left =
        listed ? piece.slice.to - piece.slice.from - batch.drawn_within : std::size_t{0};
    if (left == 0) {
      ++batch.drawn_pieces;
      batch.drawn_within = 0;
      continue;
    }
    if (s_.draws_left == 0) {
      s_.alarms.set(s_.now, {AlarmKind::look_at_job, job.index.value, job.serial});
      return false;
    }
    draws_.resize(std::min(left, s_.draws_left));
    s_.draws_left -= draws_.size();
    const std::uint64_t first = piece.index + batch.drawn_within;
    if (piece.slice.rehearsed) {
      batch.rehearsal->fill(first, draws_, s_.rehearsed);
    } else if (job.chosen) {
      const auto& epochs = job.chosen_epochs;
      std::find_if(epochs.begin(), epochs.end(), [&](const order::ChosenEpoch& epoch) {
        return epoch.epoch() == batch.epoch;
      })->fill(first, draws_);
    } else {
      job.drawn->fill(first, draws_);
    }
    for (const order::Draw& draw : draws_) batch.drawn->push_back(draw.sample);
    batch.drawn_within += static_cast<std::uint32_t>(draws_.size());
  }
  return true;
}

// Counted from the draws and from what is committed, whatever the order was meant to give. It is 0
// unless a user asks for re-use.
std::uint32_t Assembly::repeats(const Job& job, const Batch& batch) const {
  if (!s_.streams[job.stream].pipeline->has_random) return 0;
  std::uint32_t count = 0;
  for (const Piece& piece : batch.pieces) count += job.committed.repeats(piece.slice, batch.sizes);
  return count;
}

void Assembly::send_delivery(const Job& job, BatchIndex index) {
  Batch& batch = batches_[index];
  Deliver& command = s_.emit(Deliver());
  command.request = batch.request.is_none() ? s_.requests.open(RequestKind::deliver, index.value)
                                            : s_.requests.again(batch.request);
  command.job = job.id;
  command.rank = batch.rank;
  command.step = batch.step;
  command.epoch = batch.epoch;
  command.last_of_epoch = batch.last_of_epoch;
  command.in_place = batch.in_place;
  command.block_samples = batch.sizes.block_samples;
  command.lane_blocks = batch.sizes.lane_blocks;
  command.ingredients = s_.arena.copy(batch.ingredients);
  if (job.weights) command.drawn_from = job.weights->frozen().digest();
  if (batch.rehearsal) {
    command.drawn_from = batch.rehearsal->buffer();
    command.rehearsed_block_samples = batch.rehearsed_sizes.block_samples;
  }
  if (batch.drawn) {
    command.samples = *batch.drawn;
    s_.lent.push_back(batch.drawn);
  }
  if (job.live && batch.handed.empty()) {
    for (const Piece& piece : batch.pieces) job.live->split(piece.index, piece.slice, batch.handed);
  }
  slices_.clear();
  for (const Piece& piece : batch.pieces) slices_.push_back(piece.slice);
  command.slices = s_.arena.copy(job.live ? batch.handed : slices_);
  command.repeats = repeats(job, batch);
  if (job.order == Order::listed) {
    command.place = {batch.node, Tier::dram, 0};
  } else if (batch.in_place) {
    const Block& block = *s_.at(batch.pieces.front().block);
    command.place = s_.memory[block.share].spec.place;
    command.share = block.share;
    command.slot = block.slot;
    const order::Slice& slice = batch.pieces.front().slice;
    auto within = s_.arena.make<order::Replacement>(block.replacements.size());
    std::size_t count = 0;
    for (order::Replacement replacement : block.replacements) {
      if (replacement.index < slice.from || replacement.index >= slice.to) continue;
      replacement.index -= slice.from;
      within[count++] = replacement;
    }
    command.replacements = within.first(count);
  } else {
    command.place = s_.memory[batch.share].spec.place;
    command.share = batch.share;
    command.slot = batch.slot;
    command.replacements = s_.arena.copy(batch.replacements);
  }
  batch.request = command.request.id;
  batch.state = Batch::State::delivering;
  if (command.request.attempt == 0) {
    ++s_.counters.batches;
    s_.counters.samples += batch.samples;
    s_.counters.repeats += command.repeats;
    if (!batch.in_place) ++s_.counters.copied_batches;
  }
}

void Assembly::transferred(const TransferDone& event) {
  const Requests::OpenRequest* record = s_.requests.find(event.request, RequestKind::transfer);
  if (!record) return s_.stale();
  const BatchIndex index(record->subject);
  Batch& batch = batches_[index];
  Piece& piece = batch.pieces[record->part];
  s_.requests.close(event.request.id);
  piece.request = RequestId::none();
  leave_link(s_, piece.on_way, event.outcome == Outcome::done);
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
  s_.look_at(job.index);
}

void Assembly::lost_block(Handle handle) {
  const StreamId stream = s_.blocks[handle.index].stream;
  for (const JobIndex job : s_.streams[stream].jobs) {
    for (RankState& rank : s_.jobs[job].ranks) {
      for (const BatchIndex index : rank.batches) {
        for (Piece& piece : batches_[index].pieces) {
          if (piece.block.index != handle.index || piece.block.serial != handle.serial) continue;
          piece.block = {};
          if (piece.state != Piece::State::copying) continue;
          piece.state = Piece::State::missing;
          s_.emit(Cancel{s_.requests.latest(piece.request)});
          s_.requests.close(piece.request);
          piece.request = RequestId::none();
          leave_link(s_, piece.on_way, false);
          s_.look_at(job);
        }
      }
    }
  }
}

}  // namespace batchflow::engine
