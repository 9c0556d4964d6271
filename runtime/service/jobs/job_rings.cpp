// The records in the rings of jobs' ranks: batches out, answers in.
#include <algorithm>
#include <set>
#include <utility>

#include "core/engine/engine_config.h"
#include "core/order/index_set.h"
#include "core/order/keys.h"
#include "core/order/rehearsal.h"
#include "runtime/service/jobs/jobs.h"

namespace batchflow::service {
namespace {

// Records of one rank that are read before others have their turn: it may write as fast as its ring
// is read.
constexpr std::size_t kRecordsPerRead = 64;

// The most that a batch's record takes of a ring, with what is skipped if it does not fit at the
// end.
std::size_t ring_bytes(std::size_t slices, std::size_t indices) {
  return 2 * (protocol::batch_bytes(slices, indices) + 8);
}

bool fits_record(std::size_t slices, std::size_t indices) {
  return slices <= protocol::kSlicesMost &&
         protocol::batch_bytes(slices, indices) <= protocol::kRecordMost;
}

}  // namespace

// -------------------------------------------------------------------------------- batches out ----

void Jobs::write(RankEnd& end, std::span<const std::byte> record) {
  if (AgentEnd* const agent = end.peer->agent()) {
    agent->write(record);
  } else if (end.to_job->write(record)) {
    written_.push_back(&end);
  }
}

// An agent keeps what its rank's ring has no room for. It is little: the rank's credits bound it.
bool Jobs::has_room_for(RankEnd& end, std::size_t bytes) {
  return end.peer->agent() != nullptr || end.to_job->has_room_for(bytes);
}

// Of the batch's own samples, fillers and rehearsed ones apart.
std::vector<std::uint64_t> Jobs::chosen_indices(Job& job, const engine::Deliver& command) {
  std::vector<std::uint64_t> indices;
  if (!job.position->is_chosen()) return indices;
  if (!job.chosen_from || job.chosen_from->first != command.epoch) {
    const order::Position::Fields& at = job.position->fields();
    const std::uint64_t key = order::generation_key({at.dataset_version, at.seed}, command.epoch);
    job.chosen_from.emplace(command.epoch, order::Permutation(key, at.samples));
  }
  const order::Permutation& order = job.chosen_from->second;
  std::size_t next = 0;
  for (const order::Slice& slice : command.slices) {
    for (std::uint32_t i = slice.from; i < slice.to; ++i, ++next) {
      if (!slice.filler && !slice.rehearsed)
        indices.push_back(order.index_of(command.samples[next].value));
    }
  }
  return indices;
}

// As bytes, in `index_bytes_`. None if they are too many for a record.
void Jobs::encode_indices(std::vector<std::uint64_t>& indices) {
  index_bytes_.clear();
  if (indices.empty() || indices.size() > protocol::kChosenMost) return;
  std::sort(indices.begin(), indices.end());
  ByteWriter writer(index_bytes_);
  order::write_indices(indices, writer);
}

bool Jobs::deliver(const engine::Deliver& command, const Slot* slot, std::uint32_t slot_samples) {
  Job* job = find_job(command.job);
  RankEnd* end = job && command.rank < job->ranks.size() ? job->ranks[command.rank] : nullptr;
  if (!end || !end->is_admitted || job->is_let_go || job->ends_after) return false;
  if ((slot == nullptr) != (end->peer->agent() != nullptr)) return false;
  protocol::BatchRecord record;
  record.step = command.step;
  record.epoch = command.epoch;
  record.last_of_epoch = command.last_of_epoch;
  record.slab = slot ? slot->slab->id() : command.share.value;
  record.offset = slot ? slot->offset : command.slot.value;
  record.slot_samples = slot_samples;
  for (const order::Slice& slice : command.slices) {
    const std::uint32_t count = slice.to - slice.from;
    record.samples += count;
    if (slice.filler) record.fillers += count;
    if (slice.rehearsed) record.rehearsed += count;
  }
  if (command.in_place && !command.slices.empty()) record.from = command.slices.front().from;
  record.repeats = command.repeats;
  record.block_samples = command.block_samples;
  record.lane_blocks = command.lane_blocks;
  record.drawn_from = command.drawn_from;
  if (job->request.order == Order::weighted) record.draws = epoch_samples(*job);
  std::vector<std::uint64_t> indices = chosen_indices(*job, command);
  encode_indices(indices);
  if (!fits_record(command.slices.size(), index_bytes_.size())) index_bytes_.clear();
  const std::size_t bytes = ring_bytes(command.slices.size(), index_bytes_.size());
  if (command.slices.size() > protocol::kSlicesMost || !has_room_for(*end, end->unwritten + bytes))
    return false;
  if (slot && end->slabs.emplace(record.slab, slot->slab->charge()).second) {
    end->peer->send(protocol::encode(protocol::SlabMessage{record.slab, slot->slab->bytes()}),
                    {slot->slab->descriptor()});
  }
  TrainingStep& step = job->steps[command.step];
  step.parts.resize(job->ranks.size());
  step.parts[command.rank] = {
      record, {command.slices.begin(), command.slices.end()}, std::move(indices), bytes};
  end->unwritten += bytes;
  if (++step.come == step.parts.size()) delivered_.push_back(job);
  end->held[command.step] = {command.share, command.slot, command.in_place};
  job->sums.samples += record.samples;
  job->sums.repeats += record.repeats;
  if (!command.in_place) ++job->sums.copied;
  job->sums.epoch = command.epoch;
  return true;
}

void Jobs::epoch_ended(const engine::EpochEnded& command) {
  Job* job = find_job(command.job);
  if (!job) return;
  protocol::EpochEndedRecord record;
  record.epoch = command.epoch;
  record.samples = command.samples;
  const bool last = job->request.epochs > 0 && command.epoch + 1 >= job->request.epochs;
  for (RankEnd* end : job->ranks) {
    if (!end || !end->is_admitted) continue;
    write(*end, protocol::bytes_of(record));
    if (last) finish(*end, protocol::ServiceRecordKind::finished);
  }
  if (draining_ && !last) let_go(*job);
}

// The rank has had all that the job asked for, or the job is refused: it need not wait for more.
void Jobs::finish(RankEnd& end, protocol::ServiceRecordKind how) {
  if (std::exchange(end.finished, true)) return;
  end_wait(end);
  write(end, protocol::bytes_of(protocol::FinishedRecord{how}));
}

void Jobs::slab_gone(std::uint64_t slab) {
  for (const auto& [peer, end] : ends_) {
    if (auto handed = end->slabs.extract(slab)) {
      end->slabs_gone.insert(std::move(handed));
      end->peer->send(protocol::encode(protocol::SlabMessage{slab, 0}), {});
    }
  }
}

void Jobs::wake() {
  end_by_corrupt_samples();
  for (Job* job : std::exchange(delivered_, {})) write_steps(*job);
  // A ring that was written to twice has nothing to publish the second time.
  std::vector<RankEnd*> asleep;
  for (RankEnd* end : std::exchange(written_, {})) {
    if (end->to_job->publish()) asleep.push_back(end);
  }
  for (Job* job : std::exchange(raised_, {})) raise(*job);
  for (RankEnd* end : asleep) end->to_job->wake();
}

// All ranks may have what was written. Where they are on several nodes, each node must have it
// first: any of the nodes, and this one, may end before it hears of the others.
void Jobs::raise(Job& job) {
  if (job.held_at.size() == 1) {
    job.held_at.begin()->second = job.written;
  } else {
    ask_held(job);
  }
  settle_pace(job);
}

void Jobs::ask_held(Job& job) {
  std::set<std::uint32_t> asked;
  for (RankEnd* end : job.ranks) {
    AgentEnd* const agent = end ? end->peer->agent() : nullptr;
    const std::uint32_t node = agent ? agent->node().value : 0;
    if (!end || !asked.insert(node).second) continue;
    if (agent) {
      agent->ask_held(job.id, job.written);
    } else {
      job.held_at[node] = job.written;
    }
  }
}

void Jobs::settle_pace(Job& job) {
  std::uint64_t least = job.written;
  for (const auto& [node, steps] : job.held_at) least = std::min(least, steps);
  if (job.ends_after || least <= job.paced) return;
  job.paced = least;
  job.pace.raise(job.paced);
  for (RankEnd* end : job.ranks) {
    if (AgentEnd* const agent = end ? end->peer->agent() : nullptr) agent->raise(job.id, job.paced);
  }
}

void Jobs::held(NodeId node, JobId id, std::uint64_t steps) {
  Job* const job = find_job(id);
  if (!job) return;
  const auto found = job->held_at.find(node.value);
  if (found == job->held_at.end() || steps > job->written || steps <= found->second) return;
  found->second = steps;
  settle_pace(*job);
}

void Jobs::away(const Peer& peer) {
  RankEnd* const end = find_end(peer);
  if (!end || !end->job->is_announced || !end->is_admitted || end->job->ends_after) return;
  Job& job = *end->job;
  job.ends_after = job.paced;
  for (RankEnd* other : std::vector(job.ranks)) {
    if (other && other != end) end_if_far_enough(*other);
  }
}

// Of a job whose other rank has lost its agent.
void Jobs::end_if_far_enough(RankEnd& end) {
  if (!end.job->ends_after || end.consumed < *end.job->ends_after) return;
  end.peer->end();
}

// A step is written when all its batches are there, and every rank has been sent the slabs that
// they lie in. From then on the batches outlive this service.
void Jobs::write_steps(Job& job) {
  while (!job.steps.empty() && job.steps.begin()->second.come == job.ranks.size()) {
    const bool unsent = std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankEnd* end) {
      return end && end->peer->has_unsent();
    });
    if (unsent) {
      delivered_.push_back(&job);
      return;
    }
    write_step(job, job.steps.begin()->second);
    job.written = job.steps.begin()->first + 1;
    job.steps.erase(job.steps.begin());
    raised_.push_back(&job);
  }
}

void Jobs::write_step(Job& job, TrainingStep& step) {
  slices_.clear();
  indices_.clear();
  std::uint32_t at = 0;
  for (Part& part : step.parts) {
    part.record.own_from = at;
    part.record.own = static_cast<std::uint32_t>(part.slices.size());
    slices_.insert(slices_.end(), part.slices.begin(), part.slices.end());
    indices_.insert(indices_.end(), part.indices.begin(), part.indices.end());
    at += part.record.own;
  }
  encode_indices(indices_);
  const bool is_named = index_bytes_.empty() == indices_.empty();
  const std::size_t index_bytes = index_bytes_.size();
  for (std::size_t rank = 0; rank < step.parts.size(); ++rank) {
    RankEnd* end = job.ranks[rank];
    Part& part = step.parts[rank];
    if (!end) continue;
    // What is not written yet has room reserved.
    end->unwritten -= part.reserved;
    const bool whole = is_named && fits_record(slices_.size(), index_bytes) &&
                       has_room_for(*end, end->unwritten + ring_bytes(slices_.size(), index_bytes));
    part.record.whole_step = whole ? 1 : 0;
    if (!whole) part.record.own_from = 0;
    protocol::write_batch(part.record, whole ? slices_ : part.slices, record_,
                          std::span(index_bytes_).first(whole ? index_bytes : 0));
    end->delivered = part.record.step + 1;
    end_wait(*end);
    write(*end, record_);
  }
}

// --------------------------------------------------------------------------------- answers in ----

const protocol::Descriptor* Jobs::doorbell(Peer& peer) const {
  const RankEnd* end = find_end(peer);
  return end && end->from_job ? &end->files.doorbell : nullptr;
}

bool Jobs::read_ring(Peer& peer) {
  RankEnd* end = find_end(peer);
  if (!end || !end->from_job) return true;
  end->from_job->awake();
  const bool well = end->from_job->read(kRecordsPerRead, [&](std::span<const std::byte> record) {
    return take_record(*end, record);
  });
  end->from_job->free_read();
  if (end->left) finish_if_left(*end->job);
  return well;
}

bool Jobs::take_record(Peer& peer, std::span<const std::byte> record) {
  RankEnd* end = find_end(peer);
  if (!end || !end->is_admitted) return true;
  const bool well = take_record(*end, record);
  if (end->left) finish_if_left(*end->job);
  return well;
}

bool Jobs::sleep(Peer& peer) {
  RankEnd* end = find_end(peer);
  return !end || !end->from_job || end->from_job->fall_asleep();
}

// Gives back the slot of a gathered batch.
void Jobs::release(RankEnd& end, const Held& held) {
  if (held.in_place) return;
  if (AgentEnd* const agent = end.peer->agent()) {
    agent->free(held.share, held.slot);
  } else if (backend_) {
    backend_->released(held.share, held.slot);
  }
}

// The buffer that rank 0 came with. It counts from the first epoch on, since the engine gets it
// with the job.
void Jobs::add_exemplars(Job& job) {
  const std::vector<SampleId> all = std::exchange(job.ranks[0]->request.exemplars, {});
  job.buffer_samples = all.size();
  for (std::size_t first = 0; first < all.size(); first += engine::kExemplarsAtOnce) {
    const auto end = std::min(all.size(), first + engine::kExemplarsAtOnce);
    std::vector<SampleId> part(all.begin() + static_cast<std::ptrdiff_t>(first),
                               all.begin() + static_cast<std::ptrdiff_t>(end));
    inbox_.add(engine::ExemplarsReported{job.id, first == 0, static_cast<std::uint32_t>(first),
                                         inbox_.keep(std::move(part)), end < all.size()});
  }
}

// A part of the buffer that is to replace the one before. False: no rank of this job sends it.
bool Jobs::take_exemplars(const RankEnd& end) {
  Job& job = *end.job;
  const protocol::ExemplarsRecord& part = message_.part;
  const std::uint64_t samples = job.dataset->index->samples();
  const bool are_samples = std::all_of(message_.exemplars.begin(), message_.exemplars.end(),
                                       [&](SampleId sample) { return sample.value < samples; });
  const bool follows = part.first == 0 || part.first == job.buffer_samples;
  if (end.rank != 0 || job.request.order_options.rehearsed == 0 || !are_samples || !follows ||
      part.first + part.count > order::kExemplarsMost)
    return false;
  job.buffer_samples = part.first + part.count;
  if (job.running)
    inbox_.add(engine::ExemplarsReported{job.id, part.first == 0, part.first,
                                         inbox_.keep(std::vector(message_.exemplars)),
                                         part.more != 0});
  return true;
}

bool Jobs::take_record(RankEnd& end, std::span<const std::byte> bytes) {
  std::string problem;
  if (!protocol::read_job_record(bytes, message_, problem)) return false;
  const protocol::JobRecord& record = message_.record;
  Job& job = *end.job;
  switch (record.kind) {
    case protocol::JobRecordKind::wanted:
      if (record.credits == 0) return false;
      if (job.running && !end.left)
        inbox_.add(
            engine::BatchWanted{job.id, end.rank, std::min(record.credits, engine::kCreditsMost)});
      return true;
    case protocol::JobRecordKind::scores:
      if (job.running)
        inbox_.add(engine::ScoresReported{job.id, inbox_.keep(std::vector(message_.scores))});
      return true;
    case protocol::JobRecordKind::exemplars:
      return take_exemplars(end);
    case protocol::JobRecordKind::consumed: {
      if (record.step != end.consumed || record.step >= end.delivered) return false;
      ++end.consumed;
      end_if_far_enough(end);
      if (end.consumed - end.first_step == job.steps_left)
        finish(end, protocol::ServiceRecordKind::finished);
      // No step computes for longer than a year.
      const auto bounded = [](std::uint64_t nanoseconds) {
        return std::min(
            Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(nanoseconds, INT64_MAX))),
            engine::kDurationMost);
      };
      const Duration waited = bounded(record.wait_ns);
      job.sums.waited += waited;
      job.sums.waits_for_batches.add(waited);
      waits_.add(waited);
      // A wait beyond what was measured here was for the batch on its way.
      StageTimes on_the_way;
      on_the_way[Stage::delivery] =
          std::max(Duration(0), waited - std::exchange(end.waited_here, Duration(0)));
      add_stall(job, on_the_way);
      if (end.delivered <= end.consumed) begin_wait(end);
      const Duration computed = bounded(record.compute_ns);
      job.sums.computed += computed;
      const double computed_s = std::chrono::duration<double>(computed).count();
      job.sums.compute_squares_s2 += computed_s * computed_s;
      ++job.sums.consumed;
      wait_totals_.wait_s += std::chrono::duration<double>(waited).count();
      wait_totals_.compute_s += computed_s;
      job.sums.steps = std::max(job.sums.steps, end.consumed);
      if (job.running)
        inbox_.add(
            engine::BatchConsumed{job.id, end.rank, record.step, bounded(record.compute_ns)});
      return true;
    }
    case protocol::JobRecordKind::unmapped:
      if (end.slabs_gone.erase(record.step) + end.slabs.erase(record.step) == 0) return false;
      if (backend_) backend_->retry_waiting();
      return true;
    case protocol::JobRecordKind::released: {
      const auto found = end.held.find(record.step);
      if (found == end.held.end()) return false;
      release(end, found->second);
      end.held.erase(found);
      inbox_.add(engine::SlotReleased{job.id, end.rank, record.step});
      return true;
    }
  }
  return false;
}

}  // namespace batchflow::service
