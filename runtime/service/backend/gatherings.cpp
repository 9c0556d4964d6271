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

void Gatherings::gather(const engine::Transfer& command, Time since) {
  const BlockSlots::Use* const from = slots_.use_of(command.from_share);
  const Slot* source = slots_.find(command.from_share, command.from_slot);
  if (!from || !source) {
    context_.inbox.add(engine::TransferDone{command.request, engine::Outcome::failed});
    return;
  }
  const Copying entry{command, from->pipeline, since};
  const std::optional<Slot> target = slots_.take(
      command.to_share, command.to_slot, {entry.pipeline, command.slot_samples, from->audience});
  if (!target) return wait_for_memory(entry);
  ServedPipeline& pipeline = context_.datasets.pipeline(entry.pipeline);
  CopyTask copy;
  copy.request = command.request;
  copy.from = *source;
  copy.from_layout = pipeline.layout(from->samples);
  copy.to = *target;
  copy.to_layout = pipeline.layout(command.slot_samples);
  copy.first = command.slice.from;
  copy.last = command.slice.to;
  copy.at = command.offset_samples;
  copy.marks = marks_of(command.slice);
  if (copying_.insert_or_assign(command.request.id.value, entry).second)
    context_.stalls.gathering(entry.pipeline, 1);
  begin(std::move(copy), {command.to_share.value, command.to_slot.value});
}

// A piece of a ragged batch waits for the pieces before it.
void Gatherings::begin(CopyTask&& copy, SlotKey to) {
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
  if (found == copying_.end() || found->second.command.request != request) return;
  const Copying entry = found->second;
  context_.stalls.gathering(entry.pipeline, -1);
  copying_.erase(found);
  const auto to = copy_to_.extract(request.id.value);
  if (outcome != engine::Outcome::done) return wait_for_memory(entry);  // no pages for it
  wait_.note_progress();
  const order::Slice& slice = entry.command.slice;
  const auto copied = static_cast<std::uint32_t>(slice.to - slice.from);
  samples_ += copied;
  context_.inbox.add(engine::TransferDone{request, outcome});
  if (to) copy_next(batches_[to.mapped()], entry.command.offset_samples + copied);
}

// The batch has samples up to `end`.
void Gatherings::copy_next(Batch& batch, std::uint32_t end) {
  batch.next = std::max(batch.next, end);
  const auto next = std::find_if(batch.waiting.begin(), batch.waiting.end(),
                                 [&](const CopyTask& one) { return one.at <= batch.next; });
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
      context_.inbox.add(engine::TransferDone{one.entry.command.request, engine::Outcome::failed});
    } else {
      gather(one.entry.command, one.entry.since);
    }
  }
}

bool Gatherings::cancel(const engine::Request& request) {
  const auto copy = copying_.find(request.id.value);
  if (copy == copying_.end()) {
    std::erase_if(waiting_,
                  [&](const Waiting& one) { return one.entry.command.request == request; });
    return false;
  }
  // A copy of another attempt goes on.
  if (copy->second.command.request != request) return true;
  copier_.cancel(request);
  context_.stalls.gathering(copy->second.pipeline, -1);
  copying_.erase(copy);
  if (const auto to = copy_to_.find(request.id.value); to != copy_to_.end()) {
    std::erase_if(batches_[to->second].waiting,
                  [&](const CopyTask& one) { return one.request == request; });
    copy_to_.erase(to);
  }
  return true;
}

}  // namespace batchflow::service
