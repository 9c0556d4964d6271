#include "runtime/service/jobs/step_writer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/order/index_set.h"
#include "core/order/keys.h"

namespace batchflow::service {

namespace {

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

void StepWriter::write(RankEnd& end, std::span<const std::byte> record) {
  if (AgentEnd* const agent = end.peer->agent()) {
    agent->write(record);
  } else if (end.to_job->write(record)) {
    written_.push_back(&end);
  }
}

// An agent keeps what its rank's ring has no room for. It is little: the rank's credits bound it.
bool StepWriter::has_room_for(RankEnd& end, std::size_t bytes) {
  return end.peer->agent() != nullptr || end.to_job->has_room_for(bytes);
}

// Of the batch's own samples, fillers and rehearsed ones apart.
std::vector<std::uint64_t> StepWriter::chosen_indices(ServedJob& job,
                                                      const engine::Deliver& command) {
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
void StepWriter::encode_indices(std::vector<std::uint64_t>& indices) {
  index_bytes_.clear();
  if (indices.empty() || indices.size() > protocol::kChosenMost) return;
  std::sort(indices.begin(), indices.end());
  ByteWriter writer(index_bytes_);
  order::write_indices(indices, writer);
}

bool StepWriter::deliver(ServedJob& job, const engine::Deliver& command, const Slot* slot,
                         std::uint32_t slot_samples) {
  RankEnd* const end = job.rank(command.rank);
  if (!end || !end->is_admitted || job.is_let_go || job.ends_after) return false;
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
  if (job.request.order == Order::weighted) record.draws = job.epoch_samples();
  std::vector<std::uint64_t> indices = chosen_indices(job, command);
  encode_indices(indices);
  if (!fits_record(command.slices.size(), index_bytes_.size())) index_bytes_.clear();
  const std::size_t bytes = ring_bytes(command.slices.size(), index_bytes_.size());
  if (command.slices.size() > protocol::kSlicesMost || !has_room_for(*end, end->unwritten + bytes))
    return false;
  if (slot && end->slabs.emplace(record.slab, slot->slab->charge()).second) {
    end->peer->send(protocol::encode(protocol::SlabMessage{record.slab, slot->slab->bytes()}),
                    {slot->slab->descriptor()});
  }
  TrainingStep& step = job.steps[command.step];
  step.parts.resize(job.ranks.size());
  step.parts[command.rank] = {
      record, {command.slices.begin(), command.slices.end()}, std::move(indices), bytes};
  end->unwritten += bytes;
  if (++step.come == step.parts.size()) delivered_.push_back(&job);
  end->held[command.step] = {command.share, command.slot, command.in_place};
  job.sums.samples += record.samples;
  job.sums.repeats += record.repeats;
  if (!command.in_place) ++job.sums.copied;
  job.sums.epoch = command.epoch;
  return true;
}

void StepWriter::change(ServedJob& job, const engine::MixtureSet& command) {
  std::vector<std::byte> record;
  protocol::write_mixture(protocol::ServiceRecordKind::mixture,
                          {command.at, {command.parts.begin(), command.parts.end()}, command.soon},
                          record);
  for (RankEnd* end : job.ranks) {
    if (end && end->is_admitted) end->changes.push_back(record);
  }
}

void StepWriter::change(ServedJob& job, const engine::ExemplarsSet& command) {
  job.buffer_samples = command.samples.size();
  job.buffer_records = protocol::buffer_records(command.samples, command.weights);
  for (RankEnd* end : job.ranks) {
    if (end && end->is_admitted) tell_buffer(*end);
  }
}

void StepWriter::tell_buffer(RankEnd& end) {
  for (const std::vector<std::byte>& record : end.job->buffer_records)
    end.changes.push_back(record);
}

// False: there is no room for all of them yet.
bool StepWriter::write_changes(RankEnd& end) {
  for (; !end.changes.empty(); end.changes.pop_front()) {
    const std::vector<std::byte>& record = end.changes.front();
    if (!has_room_for(end, end.unwritten + 2 * (record.size() + 8))) return false;
    write(end, record);
  }
  return true;
}

bool StepWriter::absent(RankEnd& end, std::uint64_t number) {
  protocol::AbsentRecord record;
  record.number = number;
  if (!has_room_for(end, end.unwritten + 2 * (sizeof record + 8))) return false;
  write(end, protocol::bytes_of(record));
  return true;
}

void StepWriter::finish(RankEnd& end, protocol::ServiceRecordKind how) {
  if (std::exchange(end.finished, true)) return;
  waits_.end(end);
  write(end, protocol::bytes_of(protocol::FinishedRecord{how}));
}

void StepWriter::flush() {
  for (ServedJob* job : std::exchange(delivered_, {})) write_steps(*job);
  // A ring that was written to twice has nothing to publish the second time.
  std::vector<RankEnd*> asleep;
  for (RankEnd* end : std::exchange(written_, {})) {
    if (end->to_job->publish()) asleep.push_back(end);
  }
  for (ServedJob* job : std::exchange(raised_, {})) raise(*job);
  for (RankEnd* end : asleep) end->to_job->wake();
}

// All ranks may have what was written. Where they are on several nodes, each node must have it
// first: any of the nodes, and this one, may end before it hears of the others.
void StepWriter::raise(ServedJob& job) {
  if (job.held_at.size() == 1) {
    job.held_at.begin()->second = job.written;
  } else {
    ask_held(job);
  }
  settle_pace(job);
}

void StepWriter::ask_held(ServedJob& job) {
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

void StepWriter::settle_pace(ServedJob& job) {
  std::uint64_t least = job.written;
  for (const auto& [node, steps] : job.held_at) least = std::min(least, steps);
  if (job.ends_after || least <= job.paced) return;
  job.paced = least;
  job.pace.raise(job.paced);
  for (RankEnd* end : job.ranks) {
    if (AgentEnd* const agent = end ? end->peer->agent() : nullptr) agent->raise(job.id, job.paced);
  }
}

void StepWriter::held(ServedJob& job, NodeId node, std::uint64_t steps) {
  const auto found = job.held_at.find(node.value);
  if (found == job.held_at.end() || steps > job.written || steps <= found->second) return;
  found->second = steps;
  settle_pace(job);
}

// A step is written when all its batches are there, and every rank has been sent the slabs that
// they lie in. From then on the batches outlive this service.
void StepWriter::write_steps(ServedJob& job) {
  while (!job.steps.empty() && job.steps.begin()->second.come == job.ranks.size()) {
    const bool unsent = std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankEnd* end) {
      return end && end->peer->has_unsent();
    });
    // What a rank must know before the step goes out first. When it has read more, there is room.
    const bool behind = std::any_of(job.ranks.begin(), job.ranks.end(),
                                    [&](RankEnd* end) { return end && !write_changes(*end); });
    if (unsent || behind) {
      delivered_.push_back(&job);
      return;
    }
    write_step(job, job.steps.begin()->second);
    job.written = job.steps.begin()->first + 1;
    job.steps.erase(job.steps.begin());
    raised_.push_back(&job);
  }
}

// The batch that ends an epoch is given once: a loop ends with it.
void StepWriter::write_ideal(ServedJob& job, const TrainingStep& step) {
  if (job.ideal.waiting() == 0 || step.parts.front().record.last_of_epoch != 0) return;
  const bool fits = std::all_of(job.ranks.begin(), job.ranks.end(), [](RankEnd* end) {
    return end && has_room_for(*end, end->unwritten + 2 * (sizeof(protocol::IdealRecord) + 8));
  });
  if (!fits) return;
  protocol::IdealRecord record;
  record.steps = job.ideal.waiting();
  for (RankEnd* end : job.ranks) write(*end, protocol::bytes_of(record));
  job.ideal.begun(job.ranks.size());
}

void StepWriter::write_step(ServedJob& job, TrainingStep& step) {
  write_ideal(job, step);
  slices_.clear();
  indices_.clear();
  std::uint32_t at = 0;
  for (StepPart& part : step.parts) {
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
    StepPart& part = step.parts[rank];
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
    waits_.end(*end);
    write(*end, record_);
  }
}

void StepWriter::forget(RankEnd& end) {
  std::erase(written_, &end);
}

void StepWriter::forget(ServedJob& job) {
  std::erase(delivered_, &job);
  std::erase(raised_, &job);
}

}  // namespace batchflow::service
