#include "runtime/service/backend/backend.h"

#include <algorithm>
#include <utility>

namespace batchflow::service {

Backend::Backend(const Options& options, CacheMemory& memory, Datasets& datasets, Inbox& inbox,
                 JobCommands& jobs, StallBook& stalls, Post post)
    : jobs_(jobs),
      troubles_(options.say),
      context_{options.node,  datasets,        inbox,       stalls,       troubles_,
               memory.budget, std::move(post), options.say, options.peers},
      kept_(context_, memory.items),
      slots_(context_, kept_, [this](std::uint64_t slab) { jobs_.slab_gone(slab); }),
      spill_(context_, memory.drive(options.spill)),
      wait_(context_),
      readings_(context_, options.storage, expander_, kept_, spill_),
      gatherings_(context_, slots_, wait_),
      preparations_(context_, options.workers_most, options.scratch, expander_, kept_, slots_,
                    readings_, wait_) {
  kept_.on_need([this](Bytes bytes) { slots_.make_room(bytes); });
}

void Backend::carry_out(std::span<const engine::Command> commands) {
  for (const engine::Command& command : commands) {
    std::visit([this](const auto& one) { on(one); }, command);
  }
  const MemoryBudget& budget = context_.budget;
  // Workers keep what they decode, and cannot give back slabs.
  slots_.make_room(budget.most() / 32);
  // A job has unmapped a slab, or something that was kept is gone.
  if (budget.needed() < needed_before_) retry_waiting();
  needed_before_ = budget.needed();
}

void Backend::report_kept(DatasetId dataset,
                          const std::function<void(const engine::SamplesKept&)>& report) const {
  const auto say = [&](engine::SamplesKept kept, std::span<const SampleId> left) {
    while (!left.empty()) {
      kept.samples = left.first(std::min(left.size(), engine::kSamplesKeptMost));
      left = left.subspan(kept.samples.size());
      report(kept);
    }
  };
  const Place memory{context_.node, Tier::dram, 0}, drive{context_.node, Tier::nvme, 0};
  for (const KeptSamples::Before& one : kept_.kept_before(dataset))
    say({memory, dataset, one.prefix, one.bytes, one.bundle_shift, {}}, one.samples);
  say({drive, dataset, 0, 0, 0, {}}, spill_.kept_before(dataset));
}

void Backend::on(const engine::Adopt& command) {
  if (!context_.datasets.knows(command.dataset)) return;
  if (command.place.tier == Tier::nvme) {
    spill_.adopt(command.dataset, command.share);
  } else {
    kept_.adopt(command.dataset, command.prefix, command.share);
  }
}

std::optional<Backend::BlockView> Backend::block(ShareId share, SlotId slot) const {
  const BlockSlots::Use* const use = slots_.use_of(share);
  const Slot* const found = slots_.find(share, slot);
  if (!use || !found) return std::nullopt;
  ServedPipeline& pipeline = context_.datasets.pipeline(use->pipeline);
  return BlockView{*found, pipeline.layout(use->samples), pipeline.spec, use->pipeline,
                   use->audience};
}

Backend::ItemsView Backend::items(DatasetId dataset, Digest prefix) const {
  if (!context_.datasets.knows(dataset)) return {};
  const ServedDataset& served = context_.datasets.dataset(dataset);
  return {kept_.shares_of(dataset, prefix), served.index,
          prefix == 0 ? served.bundle_shift : std::uint8_t{0}, spill() != nullptr};
}

void Backend::keep(const KeptItems& items) {
  if (!context_.datasets.knows(items.dataset)) return;
  const std::uint64_t samples = context_.datasets.dataset(items.dataset).index->samples();
  kept_.open(items.dataset, 0, items.share);
  for (std::size_t i = 0; i < items.samples.size(); ++i) {
    if (items.samples[i].value >= samples) continue;
    kept_.put(items.share, engine::item_of(items.samples[i], items.bundle_shift),
              {&items.parts[i], 1});
  }
}

void Backend::set_memory(Bytes bytes) {
  context_.budget.set_most(bytes);
  slots_.make_room(0);
}

void Backend::on(const engine::Deliver& command) {
  const Slot* slot = slots_.find(command.share, command.slot);
  const BlockSlots::Use* use = slots_.use_of(command.share);
  const bool well = slot && use && jobs_.deliver(command, slot, use->samples);
  context_.inbox.add(engine::DeliveryDone{command.request,
                                          well ? engine::Outcome::done : engine::Outcome::failed});
  if (!well) return;
  ++delivered_batches_;
  for (const order::Slice& slice : command.slices) delivered_samples_ += slice.to - slice.from;
}

void Backend::on(const engine::Drop& command) {
  if (command.form == Form::prepared) {
    slots_.free(command.share, command.slot);
    if (wait_.waiters() > 0) retry_waiting();
  } else if (command.place.tier == Tier::nvme) {
    spill_.drop(command.share, command.item);
  } else {
    kept_.drop(command.share, command.item);
  }
}

void Backend::on(const engine::Cancel& command) {
  if (readings_.cancel(command.request) || gatherings_.cancel(command.request)) return;
  preparations_.cancel(command.request);
}

void Backend::released(ShareId share, SlotId slot) {
  gatherings_.forget(share, slot);
  slots_.free(share, slot);
}

void Backend::retry_waiting() {
  preparations_.settle_workers();
  if (wait_.waiters() == 0) return;
  const auto now = MemoryWait::Clock::now();
  wait_.note_retry(now);
  preparations_.retry(now);
  gatherings_.retry(now);
}

void Backend::fire_timers(Instant now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    context_.inbox.add(engine::TimerFired{timers_.begin()->second});
    timers_.erase(timers_.begin());
  }
}

BackendCounters Backend::counters() const {
  BackendCounters all;
  all.read_samples = readings_.counters().samples;
  all.device_reads = readings_.counters().reads;
  all.read_bytes = readings_.counters().bytes;
  all.read_errors = readings_.counters().errors;
  all.fetched_samples = readings_.counters().fetched;
  all.fetched_bytes = readings_.counters().fetched_bytes;
  all.store_busy_ns = readings_.store_busy_ns();
  all.fetching_ns = readings_.fetching_ns();
  all.unregistered_staging = readings_.staging().unregistered();
  all.prepared_samples = preparations_.counters().samples;
  all.prepared_blocks = preparations_.counters().blocks;
  all.decoded_hits = kept_.counters().decoded_hits;
  all.encoded_hits = kept_.counters().encoded_hits;
  all.not_kept = kept_.counters().not_kept + spill_.not_kept();
  all.copied_samples = gatherings_.samples();
  all.delivered_batches = delivered_batches_;
  all.delivered_samples = delivered_samples_;
  all.no_memory = wait_.times_short();
  return all;
}

std::vector<CacheShare> Backend::cache() const {
  return report_cache(context_.datasets, kept_, spill_.file(), slots_);
}

}  // namespace batchflow::service
