// What goes through the rings of jobs' ranks: batches out, answers in.
#include <algorithm>
#include <utility>

#include "core/engine_config.h"
#include "runtime/service/jobs.h"

namespace batchflow {

// -------------------------------------------------------------------------------- batches out ----

void Jobs::write(RankEnd& end, std::span<const std::byte> record) {
  if (end.down->write(record)) written_.push_back(&end);
}

bool Jobs::deliver(const Deliver& order, const Slot& slot, std::uint32_t slot_samples) {
  Job* job = of(order.job);
  RankEnd* end = job && order.rank < job->ranks.size() ? job->ranks[order.rank] : nullptr;
  if (!end || !end->down) return false;
  BatchRecord record;
  record.step = order.step;
  record.epoch = order.epoch;
  record.last_of_epoch = order.last_of_epoch;
  record.slab = slot.slab->id();
  record.offset = slot.offset;
  record.slot_samples = slot_samples;
  for (const Slice& slice : order.slices) {
    const std::uint32_t count = slice.to - slice.from;
    record.samples += count;
    if (slice.filler) record.fillers += count;
    if (slice.rehearsed) record.rehearsed += count;
  }
  if (order.in_place && !order.slices.empty()) record.from = order.slices.front().from;
  record.repeats = order.repeats;
  record.block_samples = order.block_samples;
  record.lane_blocks = order.lane_blocks;
  record.drawn_from = order.drawn_from;
  if (order.slices.size() > kSlicesMost) return false;
  write_batch(record, order.slices, record_);
  if (end->slabs.insert(record.slab).second) {
    end->peer->send(encode(SlabMessage{record.slab, slot.slab->bytes()}),
                    {slot.slab->descriptor()});
  }
  if (!end->down->write(record_)) return false;
  written_.push_back(end);
  end->held[order.step] = {order.share, order.slot, order.in_place};
  end->delivered = order.step + 1;
  job->sums.samples += record.samples;
  job->sums.repeats += record.repeats;
  if (!order.in_place) ++job->sums.copied;
  job->sums.epoch = order.epoch;
  return true;
}

void Jobs::epoch_ended(const EpochEnded& order) {
  Job* job = of(order.job);
  if (!job) return;
  EpochEndedRecord record;
  record.epoch = order.epoch;
  record.samples = order.samples;
  const bool last = job->request.epochs > 0 && order.epoch + 1 >= job->request.epochs;
  for (RankEnd* end : job->ranks) {
    if (!end || !end->down) continue;
    write(*end, bytes_of(record));
    if (last) finish(*end);
  }
}

// What the job asked for has been had: the rank need not wait for more.
void Jobs::finish(RankEnd& end) {
  if (std::exchange(end.finished, true)) return;
  write(end, bytes_of(FinishedRecord{}));
}

void Jobs::slab_gone(std::uint64_t slab) {
  for (const auto& [peer, end] : ends_) {
    if (end->slabs.erase(slab) > 0) end->peer->send(encode(SlabMessage{slab, 0}), {});
  }
}

void Jobs::wake() {
  // One that was written to twice has nothing to publish the second time.
  for (RankEnd* end : std::exchange(written_, {})) {
    if (end->down->publish()) end->down->wake();
  }
}

// --------------------------------------------------------------------------------- answers in ----

const Descriptor* Jobs::doorbell(Peer& peer) const {
  const RankEnd* end = of(peer);
  return end && end->up ? &end->files.doorbell : nullptr;
}

bool Jobs::read_ring(Peer& peer) {
  RankEnd* end = of(peer);
  if (!end || !end->up) return true;
  end->up->awake();
  bool well = true;
  while (const auto record = end->up->next()) {
    if (!up(*end, *record)) {
      well = false;
      break;
    }
  }
  end->up->free_read();
  if (end->left) finish_if_left(*end->job);
  return well && !end->up->broken();
}

bool Jobs::sleep(Peer& peer) {
  RankEnd* end = of(peer);
  return !end || !end->up || end->up->fall_asleep();
}

bool Jobs::up(RankEnd& end, std::span<const std::byte> bytes) {
  std::string problem;
  if (!read_up(bytes, message_, problem)) return false;
  const UpRecord& record = message_.up;
  Job& job = *end.job;
  switch (record.kind) {
    case UpKind::wanted:
      if (record.credits == 0) return false;
      if (job.running && !end.left)
        inbox_.add(BatchWanted{job.id, end.rank, std::min(record.credits, kCreditsMost)});
      return true;
    case UpKind::scores:
      if (job.running)
        inbox_.add(ScoresReported{job.id, inbox_.keep(std::vector(message_.scores))});
      return true;
    case UpKind::consumed: {
      if (record.step != end.consumed || record.step >= end.delivered) return false;
      ++end.consumed;
      if (end.consumed - end.first_step == job.steps_left) finish(end);
      // Nobody computes for longer than a year.
      const auto bounded = [](std::uint64_t nanoseconds) {
        return std::min(
            Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(nanoseconds, INT64_MAX))),
            kDurationMost);
      };
      job.sums.waited += bounded(record.wait_ns);
      job.sums.computed += bounded(record.compute_ns);
      job.sums.steps = std::max(job.sums.steps, end.consumed);
      if (job.running)
        inbox_.add(BatchConsumed{job.id, end.rank, record.step, bounded(record.compute_ns)});
      return true;
    }
    case UpKind::released: {
      const auto found = end.held.find(record.step);
      if (found == end.held.end()) return false;
      if (!found->second.in_place && backend_)
        backend_->released(found->second.share, found->second.slot);
      end.held.erase(found);
      inbox_.add(SlotReleased{job.id, end.rank, record.step});
      return true;
    }
  }
  return false;
}

}  // namespace batchflow
