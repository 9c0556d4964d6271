// The backend's part in batches: they are gathered from blocks, handed over, and released.
#include <algorithm>
#include <utility>

#include "runtime/service/backend/backend.h"

namespace batchflow::service {

void Backend::gather(const engine::Transfer& order, Clock::time_point since) {
  const auto from = shares_.find(order.from_share.value);
  const Slot* source = slots_.find(order.from_share, order.from_slot);
  if (from == shares_.end() || !source) {
    inbox_.add(engine::TransferDone{order.request, engine::Outcome::failed});
    return;
  }
  const Copying entry{order, from->second.pipeline, since};
  const std::optional<Slot> target = slot_of(order.to_share, order.to_slot, entry.pipeline,
                                             order.slot_samples, from->second.audience);
  if (!target) {
    note_short();
    ungathered_.push_back({entry, {stalls_, entry.pipeline}});
    return;
  }
  ServedPipeline& pipeline = datasets_.pipeline(entry.pipeline);
  CopyOrder copy;
  copy.request = order.request;
  copy.from = *source;
  copy.from_layout = pipeline.layout(from->second.slot_samples);
  copy.to = *target;
  copy.to_layout = pipeline.layout(order.slot_samples);
  copy.first = order.slice.from;
  copy.last = order.slice.to;
  copy.at = order.offset_samples;
  copy.marks = static_cast<std::uint8_t>((order.slice.filler ? batch::kFiller : 0) |
                                         (order.slice.rehearsed ? batch::kRehearsed : 0));
  const bool ragged = std::any_of(copy.to_layout->fields.begin(), copy.to_layout->fields.end(),
                                  [](const auto& field) { return field.ragged; });
  if (copying_.insert_or_assign(order.request.id.value, entry).second)
    stalls_.gathering(entry.pipeline, 1);
  if (ragged) {
    const std::pair key{order.to_share.value, order.to_slot.value};
    copy_to_[order.request.id.value] = key;
    Gathering& gathering = gathering_[key];
    if (copy.at == 0) gathering.next = 0;
    if (copy.at > gathering.next) {
      gathering.waiting.push_back(std::move(copy));
      return;
    }
  }
  copier_->copy(std::move(copy));
}

void Backend::copied(engine::Request request, engine::Outcome outcome) {
  const auto found = copying_.find(request.id.value);
  if (found == copying_.end() || found->second.order.request != request) return;
  const Copying entry = found->second;
  stalls_.gathering(entry.pipeline, -1);
  copying_.erase(found);
  const auto to = copy_to_.extract(request.id.value);
  if (outcome != engine::Outcome::done) {  // no pages for it
    note_short();
    ungathered_.push_back({entry, {stalls_, entry.pipeline}});
    return;
  }
  short_since_ = Clock::now();
  const order::Slice& slice = entry.order.slice;
  counters_.copied_samples += slice.to - slice.from;
  inbox_.add(engine::TransferDone{request, outcome});
  if (!to) return;
  Gathering& gathering = gathering_[to.mapped()];
  gathering.next = std::max(gathering.next, entry.order.offset_samples +
                                                static_cast<std::uint32_t>(slice.to - slice.from));
  for (std::size_t i = 0; i < gathering.waiting.size(); ++i) {
    if (gathering.waiting[i].at > gathering.next) continue;
    copier_->copy(std::move(gathering.waiting[i]));
    gathering.waiting.erase(gathering.waiting.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
}

void Backend::on(const engine::Deliver& order) {
  const Slot* slot = slots_.find(order.share, order.slot);
  const auto share = shares_.find(order.share.value);
  const bool well =
      slot && share != shares_.end() && customer_.deliver(order, *slot, share->second.slot_samples);
  inbox_.add(
      engine::DeliveryDone{order.request, well ? engine::Outcome::done : engine::Outcome::failed});
  if (!well) return;
  ++counters_.delivered_batches;
  for (const order::Slice& slice : order.slices)
    counters_.delivered_samples += slice.to - slice.from;
}

void Backend::released(ShareId share, SlotId slot) {
  gathering_.erase({share.value, slot.value});
  slots_.free(share, slot);
}

}  // namespace batchflow::service
