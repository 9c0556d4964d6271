#include "runtime/service/backend/gatherings.h"

#include <algorithm>
#include <utility>

namespace batchflow::service {
namespace {

std::uint8_t marks_of(const order::Slice& slice) {
  return static_cast<std::uint8_t>((slice.filler ? batch::kFiller : 0) |
                                   (slice.rehearsed ? batch::kRehearsed : 0));
}

}  // namespace

Gatherings::Gatherings(const BackendContext& context, BlockSlots& slots, MemoryWait& wait)
    : context_(context),
      slots_(slots),
      wait_(wait),
      copier_([this](engine::Request request, engine::Outcome outcome) {
        context_.post([this, request, outcome] { copied(request, outcome); });
      }) {}

void Gatherings::gather(const engine::Transfer& order, Time since) {
  const BlockSlots::Use* const from = slots_.use_of(order.from_share);
  const Slot* source = slots_.find(order.from_share, order.from_slot);
  if (!from || !source) {
    context_.inbox.add(engine::TransferDone{order.request, engine::Outcome::failed});
    return;
  }
  const Copying entry{order, from->pipeline, since};
  const std::optional<Slot> target = slots_.take(
      order.to_share, order.to_slot, {entry.pipeline, order.slot_samples, from->audience});
  if (!target) return wait_for_memory(entry);
  ServedPipeline& pipeline = context_.datasets.pipeline(entry.pipeline);
  CopyOrder copy;
  copy.request = order.request;
  copy.from = *source;
  copy.from_layout = pipeline.layout(from->samples);
  copy.to = *target;
  copy.to_layout = pipeline.layout(order.slot_samples);
  copy.first = order.slice.from;
  copy.last = order.slice.to;
  copy.at = order.offset_samples;
  copy.marks = marks_of(order.slice);
  if (copying_.insert_or_assign(order.request.id.value, entry).second)
    context_.stalls.gathering(entry.pipeline, 1);
  begin(std::move(copy), {order.to_share.value, order.to_slot.value});
}

// A piece of a ragged batch waits for the pieces before it.
void Gatherings::begin(CopyOrder&& copy, SlotKey to) {
  const auto& fields = copy.to_layout->fields;
  if (std::any_of(fields.begin(), fields.end(), [](const auto& one) { return one.ragged; })) {
    copy_to_[copy.request.id.value] = to;
    Batch& batch = batches_[to];
    if (copy.at == 0) batch.next = 0;
    if (copy.at > batch.next) {
      batch.waiting.push_back(std::move(copy));
      return;
    }
  }
  copier_.copy(std::move(copy));
}

void Gatherings::copied(engine::Request request, engine::Outcome outcome) {
  const auto found = copying_.find(request.id.value);
  if (found == copying_.end() || found->second.order.request != request) return;
  const Copying entry = found->second;
  context_.stalls.gathering(entry.pipeline, -1);
  copying_.erase(found);
  const auto to = copy_to_.extract(request.id.value);
  if (outcome != engine::Outcome::done) return wait_for_memory(entry);  // no pages for it
  wait_.note_progress();
  const order::Slice& slice = entry.order.slice;
  const auto copied = static_cast<std::uint32_t>(slice.to - slice.from);
  samples_ += copied;
  context_.inbox.add(engine::TransferDone{request, outcome});
  if (to) copy_next(batches_[to.mapped()], entry.order.offset_samples + copied);
}

// The batch has samples up to `end`.
void Gatherings::copy_next(Batch& batch, std::uint32_t end) {
  batch.next = std::max(batch.next, end);
  const auto next = std::find_if(batch.waiting.begin(), batch.waiting.end(),
                                 [&](const CopyOrder& one) { return one.at <= batch.next; });
  if (next == batch.waiting.end()) return;
  copier_.copy(std::move(*next));
  batch.waiting.erase(next);
}

void Gatherings::wait_for_memory(const Copying& entry) {
  wait_.note_short();
  waiting_.push_back({entry, {wait_, entry.pipeline}});
}

void Gatherings::retry(Time now) {
  for (const Waiting& one : std::exchange(waiting_, {})) {
    if (wait_.is_over(one.entry.since, now)) {
      context_.inbox.add(engine::TransferDone{one.entry.order.request, engine::Outcome::failed});
    } else {
      gather(one.entry.order, one.entry.since);
    }
  }
}

bool Gatherings::cancel(const engine::Request& request) {
  const auto copy = copying_.find(request.id.value);
  if (copy == copying_.end()) {
    std::erase_if(waiting_, [&](const Waiting& one) { return one.entry.order.request == request; });
    return false;
  }
  // A copy of another attempt goes on.
  if (copy->second.order.request != request) return true;
  copier_.cancel(request);
  context_.stalls.gathering(copy->second.pipeline, -1);
  copying_.erase(copy);
  if (const auto to = copy_to_.find(request.id.value); to != copy_to_.end()) {
    std::erase_if(batches_[to->second].waiting,
                  [&](const CopyOrder& one) { return one.request == request; });
    copy_to_.erase(to);
  }
  return true;
}

}  // namespace batchflow::service
