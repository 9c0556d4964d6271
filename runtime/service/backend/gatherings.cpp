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

void Gatherings::gather(const engine::Transfer& command) {
  if (command.from.node != context_.node) return fetch(command);
  const BlockSlots::Use* const from = slots_.use_of(command.from_share);
  const Slot* const slot = slots_.find(command.from_share, command.from_slot);
  if (!from || !slot) {
    context_.inbox.add(engine::TransferDone{command.request, engine::Outcome::failed});
    return;
  }
  gather({command,
          {slot->memory(), slot->slab, from->pipeline, from->audience, from->samples,
           command.slice.from},
          MemoryWait::Clock::now()});
}

void Gatherings::fetch(const engine::Transfer& command) {
  const engine::Request request = command.request;
  if (!context_.peers) {
    context_.inbox.add(engine::TransferDone{request, engine::Outcome::failed});
    return;
  }
  fetching_[request.id.value] = request.attempt;
  context_.peers->fetch(
      command.from.node,
      WantedSlice{command.from_share, command.from_slot, command.slice.from, command.slice.to},
      [this, command](std::optional<FetchedSlice> fetched) {
        const auto found = fetching_.find(command.request.id.value);
        if (found == fetching_.end() || found->second != command.request.attempt) return;
        fetching_.erase(found);
        const std::uint32_t samples = command.slice.to - command.slice.from;
        if (!fetched || !context_.datasets.knows(fetched->pipeline) ||
            fetched->slot.bytes !=
                context_.datasets.pipeline(fetched->pipeline).layout(samples)->bytes) {
          context_.inbox.add(engine::TransferDone{command.request, engine::Outcome::failed});
          return;
        }
        const auto& memory = fetched->slot.memory;
        gather({command,
                {memory.get(), memory, fetched->pipeline, fetched->audience, samples, 0},
                MemoryWait::Clock::now()});
      });
}

void Gatherings::gather(const Copying& entry) {
  const engine::Transfer& command = entry.command;
  const Source& source = entry.source;
  const std::optional<Slot> target = slots_.take(
      command.to_share, command.to_slot, {source.pipeline, command.slot_samples, source.audience});
  if (!target) return wait_for_memory(entry);
  ServedPipeline& pipeline = context_.datasets.pipeline(source.pipeline);
  CopyTask copy;
  copy.request = command.request;
  copy.from = source.memory;
  copy.holds = source.holds;
  copy.from_layout = pipeline.layout(source.samples);
  copy.to = *target;
  copy.to_layout = pipeline.layout(command.slot_samples);
  copy.first = source.first;
  copy.last = source.first + command.slice.to - command.slice.from;
  copy.at = command.offset_samples;
  copy.marks = marks_of(command.slice);
  if (copying_.insert_or_assign(command.request.id.value, entry).second)
    context_.stalls.gathering(source.pipeline, 1);
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
  context_.stalls.gathering(entry.source.pipeline, -1);
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
  waiting_.push_back({entry, {wait_, entry.source.pipeline}});
}

void Gatherings::retry(Time now) {
  for (const Waiting& one : std::exchange(waiting_, {})) {
    if (wait_.is_over(one.entry.since, now)) {
      context_.inbox.add(engine::TransferDone{one.entry.command.request, engine::Outcome::failed});
    } else {
      gather(one.entry);
    }
  }
}

bool Gatherings::cancel(const engine::Request& request) {
  if (const auto found = fetching_.find(request.id.value);
      found != fetching_.end() && found->second == request.attempt) {
    fetching_.erase(found);
    return true;
  }
  const auto copy = copying_.find(request.id.value);
  if (copy == copying_.end()) {
    std::erase_if(waiting_,
                  [&](const Waiting& one) { return one.entry.command.request == request; });
    return false;
  }
  // A copy of another attempt goes on.
  if (copy->second.command.request != request) return true;
  copier_.cancel(request);
  context_.stalls.gathering(copy->second.source.pipeline, -1);
  copying_.erase(copy);
  if (const auto to = copy_to_.find(request.id.value); to != copy_to_.end()) {
    std::erase_if(batches_[to->second].waiting,
                  [&](const CopyTask& one) { return one.request == request; });
    copy_to_.erase(to);
  }
  return true;
}

}  // namespace batchflow::service
