#include "runtime/service/backend.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "core/check.h"
#include "core/keys.h"
#include "runtime/service/backend_tags.h"

namespace batchflow {
namespace {

constexpr std::size_t kCorruptKept = 1000;

// An error that says something of the sample, not of the moment: its file is gone, is none, or may
// not be read. The sample is treated as one that cannot be decoded.
bool is_lasting(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES ||
         error == EXDEV || error == EINVAL || error == EISDIR || error == EPERM;
}

}  // namespace

Backend::Backend(const Options& options, Datasets& datasets, Inbox& inbox, Customer& customer,
                 StallBook& stalls, Post post)
    : options_(options),
      datasets_(datasets),
      inbox_(inbox),
      customer_(customer),
      stalls_(stalls),
      post_(std::move(post)),
      budget_(options.memory),
      slots_(budget_, [this](std::uint64_t slab) { customer_.slab_gone(slab); }),
      items_(budget_) {
  if (!options.spill.path.empty()) spill_ = std::make_unique<Spill>(options.spill, budget_);
  reader_ = make_read_engine(options.storage, [this](std::span<const ReadResult> results) {
    post_([this, copy = std::vector<ReadResult>(results.begin(), results.end())] {
      read_done(copy);
    });
  });
  copier_ = std::make_unique<Copier>([this](Request request, Outcome outcome) {
    post_([this, request, outcome] { copied(request, outcome); });
  });
  workers_ = std::make_unique<WorkerPool>(
      items_,
      [this](PreparationReport report) {
        post_([this, shared = std::make_shared<PreparationReport>(std::move(report))] {
          prepared(*shared);
        });
      },
      [this](WorkerId worker) { post_([this, worker] { inbox_.add(WorkerQuiesced{worker}); }); });
}

Backend::~Backend() {
  reader_.reset();
  copier_.reset();
  workers_.reset();
}

void Backend::carry_out(std::span<const Command> commands) {
  for (const Command& command : commands) {
    std::visit([this](const auto& order) { on(order); }, command);
  }
  // What is decoded is kept by workers, who cannot give back slabs.
  slots_.make_room(budget_.most() / 32);
}

// ----------------------------------------------------------------------------------- reads ----

void Backend::on(const Read& order) {
  const ServedDataset& dataset = datasets_.dataset(order.dataset);
  std::uint32_t index;
  if (free_readings_.empty()) {
    index = static_cast<std::uint32_t>(readings_.size());
    readings_.emplace_back();
  } else {
    index = free_readings_.back();
    free_readings_.pop_back();
    readings_[index] = Reading();
  }
  Reading& reading = readings_[index];
  reading.request = order.request;
  reading.dataset = order.dataset;
  reading.pipeline = order.lineage.pipeline;
  reading.keep = order.keep;
  reading.staged = order.keep.is_none() || order.keep_at != order.to;
  reading.from_spill = order.from.tier == Tier::nvme;
  reading.to_spill = !order.keep.is_none() && order.keep_at.tier == Tier::nvme;
  if (reading.to_spill) {
    spill_->open(order.keep, order.dataset);
  } else if (!order.keep.is_none()) {
    note_kept(order.dataset, 0, order.keep);
  }
  std::vector<SampleId> ids;
  if (order.samples.empty()) {
    expander_.expand(order.lineage, dataset.index->samples(), ids);
  } else {
    ids.assign(order.samples.begin(), order.samples.end());
  }
  reading.samples.reserve(ids.size());
  for (const SampleId sample : ids) {
    const Extent extent = dataset.index->extent(sample);
    Staged one;
    one.sample = sample;
    one.bytes = extent.bytes;
    reading.samples.push_back(one);
    reading.area_bytes += room_for(extent.offset, extent.bytes);
  }
  reading_of_[order.request.id.value] = index;
  stalls_.reading(reading.pipeline, 1);
  submit(index);
}

void Backend::submit(std::uint32_t index) {
  Reading& reading = readings_[index];
  const ServedDataset& dataset = datasets_.dataset(reading.dataset);
  if (reading.area_bytes <= reader_->staging_bytes())
    reading.area = reader_->stage(reading.area_bytes);
  std::byte* memory = reading.area;
  if (!memory) {
    // Rather than wait for others, which may wait for this one: the engine bounds how many blocks
    // are in the making.
    ++counters_.unregistered_staging;
    reading.own_charge = MemoryCharge(budget_, reading.area_bytes);
    reading.own_area = std::make_unique_for_overwrite<std::byte[]>(reading.area_bytes + kSector);
    void* aligned = reading.own_area.get();
    std::size_t space = reading.area_bytes + kSector;
    memory = static_cast<std::byte*>(std::align(kSector, reading.area_bytes, aligned, space));
  }
  reading.pieces.resize(reading.samples.size());
  reading.left = static_cast<std::uint32_t>(reading.samples.size());
  BF_CHECK(reading.samples.size() < (std::size_t{1} << kSampleBits));
  for (std::size_t i = 0; i < reading.samples.size(); ++i) {
    Staged& one = reading.samples[i];
    const Extent extent = dataset.index->extent(one.sample);
    one.memory = memory;
    reading.pieces[i] = reading.from_spill ? spill_piece(index, i) : source_piece(index, i);
    memory += room_for(extent.offset, extent.bytes);
  }
  reader_->submit(reading.pieces);
}

// From where the dataset has it.
ReadPiece Backend::source_piece(std::uint32_t index, std::size_t place) {
  Reading& reading = readings_[index];
  const ServedDataset& dataset = datasets_.dataset(reading.dataset);
  Staged& one = reading.samples[place];
  const Extent extent = dataset.index->extent(one.sample);
  one.spilled = false;
  one.lead = lead(extent.offset);
  one.bytes = extent.bytes;
  ReadPiece piece;
  piece.root = dataset.root_descriptor;
  piece.path = dataset.paths[extent.file].c_str();
  piece.file = std::uint64_t{dataset.id.value} << 32 | extent.file;
  piece.whole_file = dataset.index->kind() == RecordKind::whole;
  piece.offset = extent.offset;
  piece.bytes = extent.bytes;
  piece.to = one.memory;
  piece.tag = std::uint64_t{index} << kSampleBits | place;
  return piece;
}

void Backend::read_done(std::span<const ReadResult> results) {
  for (const ReadResult& result : results) {
    if ((result.tag & kSpillWrite) != 0) {
      spill_written(result);
      continue;
    }
    const auto index = static_cast<std::uint32_t>(result.tag >> kSampleBits);
    Reading& reading = readings_[index];
    const std::size_t place = result.tag & ((std::uint64_t{1} << kSampleBits) - 1);
    Staged& one = reading.samples[place];
    if (one.spilled) {
      if (reads_again(index, place, result)) continue;
    } else if (result.error != 0) {
      ++counters_.read_errors;
      one.failed = !is_lasting(result.error);
      one.bytes = 0;
    } else {
      one.bytes = std::min(one.bytes, result.bytes);
      ++counters_.read_samples;
      counters_.read_bytes += one.bytes;
    }
    if (--reading.left == 0) finish_read(index);
  }
}

void Backend::finish_read(std::uint32_t index) {
  Reading& reading = readings_[index];
  std::vector<SampleId> failed;
  for (const Staged& one : reading.samples) {
    if (one.failed) failed.push_back(one.sample);
  }
  const bool well = failed.empty();
  if (well && !reading.cancelled && !reading.written && write_spill(index)) return;
  stalls_.reading(reading.pipeline, -1);
  if (reading.cancelled) return free_staging(index);
  // Nothing is kept of a read that failed: the engine may give it up.
  for (const Staged& one : reading.samples) {
    if (!well || reading.keep.is_none() || reading.to_spill) break;
    if (!reading.staged)
      fresh_.insert(std::uint64_t{reading.dataset.value} << 32 | one.sample.value);
    if (!items_.put(reading.keep, ItemId(static_cast<std::uint32_t>(one.sample.value)),
                    std::span<const std::byte>(one.memory + one.lead, one.bytes)))
      ++counters_.not_kept;
  }
  const Request request = reading.request;
  inbox_.add(ReadDone{request, well ? Outcome::done : Outcome::failed,
                      well ? std::span<const SampleId>() : inbox_.keep(std::move(failed))});
  // A failed one is ordered anew, as another attempt.
  if (!reading.staged || !well) {
    reading_of_.erase(request.id.value);
    free_staging(index);
  }
}

void Backend::free_staging(std::uint32_t index) {
  Reading& reading = readings_[index];
  if (reading.area) reader_->unstage(reading.area);
  reading = Reading();
  free_readings_.push_back(index);
}

void Backend::on(const Release& order) {
  const auto found = reading_of_.find(order.request.id.value);
  if (found == reading_of_.end()) return;
  const std::uint32_t index = found->second;
  reading_of_.erase(found);
  if (readings_[index].left > 0) {
    readings_[index].cancelled = true;
  } else {
    free_staging(index);
  }
}

const Backend::Staged* Backend::staged(Reading& reading, SampleId sample) {
  const std::size_t count = reading.samples.size();
  for (std::size_t tried = 0; tried < count; ++tried) {
    const std::size_t at = (reading.found_last + tried) % count;
    if (reading.samples[at].sample != sample) continue;
    reading.found_last = at;
    return &reading.samples[at];
  }
  return nullptr;
}

// ---------------------------------------------------------------------------- preparation ----

std::optional<Slot> Backend::slot_of(ShareId share, SlotId slot, PipelineId pipeline,
                                     std::uint32_t samples, std::uint64_t audience) {
  shares_[share.value] = {pipeline, samples, audience};
  return slots_.take(share, slot, datasets_.pipeline(pipeline).layout(samples)->bytes, audience);
}

void Backend::on(const Prepare& order) {
  const ServedDataset& dataset = datasets_.dataset(order.lineage.dataset);
  ServedPipeline& pipeline = datasets_.pipeline(order.lineage.pipeline);
  // Strict jobs and relaxed ones of one seed group share blocks.
  const Order family = order.lineage.order == Order::strict ? Order::relaxed : order.lineage.order;
  const std::uint64_t audience = hash(order.lineage.dataset.value, order.lineage.pipeline.value,
                                      order.lineage.seed, static_cast<std::uint64_t>(family));
  const std::optional<Slot> slot = slot_of(order.share, order.slot, order.lineage.pipeline,
                                           order.lineage.block_samples, audience);
  PreparationOrder out;
  out.request = order.request;
  out.worker = order.worker;
  out.pipeline = pipeline.pipeline.get();
  out.layout = pipeline.layout(order.lineage.block_samples);
  out.decoded_share = order.decoded_share;
  const Digest prefix = pipeline.pipeline->info().prefix_hash;
  if (!order.decoded_share.is_none()) note_kept(order.lineage.dataset, prefix, order.decoded_share);
  const auto reading_of = [this](RequestId id) -> Reading* {
    const auto found = reading_of_.find(id.value);
    return found == reading_of_.end() ? nullptr : &readings_[found->second];
  };
  std::vector<SampleId> ids;
  if (order.lineage.order != Order::weighted)
    expander_.expand(order.lineage, dataset.index->samples(), ids);
  if (order.ingredients.empty()) {
    Reading* reading = reading_of(order.staging);
    for (std::uint32_t place = 0; place < ids.size(); ++place)
      add_sample(out, order, dataset, place, ids[place], ids[place], 0, Form::encoded, prefix,
                 reading);
  } else {
    out.anew = order.ingredients.size() == order.lineage.samples;
    for (const Ingredient& one : order.ingredients) {
      Reading* reading = one.staging.is_none() ? nullptr : reading_of(one.staging);
      SampleId wanted = one.sample;
      for (const Replacement& replacement : order.replacements) {
        if (replacement.place == one.place) wanted = replacement.corrupt;
      }
      add_sample(out, order, dataset, one.place, one.sample, wanted, one.occurrence, one.form,
                 prefix, reading);
      out.samples.back().keep_decoded = one.keep_decoded;
    }
  }
  const Preparing entry{order.request, order.lineage.dataset, order.lineage.pipeline};
  if (slot) {
    out.slot = *slot;
    return hand_to_worker(std::move(out), entry);
  }
  ++counters_.no_memory;
  unplaced_.push_back({std::move(out), entry, order.share, order.slot, order.lineage.block_samples,
                       audience, std::chrono::steady_clock::now()});
}

void Backend::hand_to_worker(PreparationOrder&& order, const Preparing& entry) {
  if (preparing_.insert_or_assign(entry.request.id.value, entry).second)
    stalls_.preparing(entry.pipeline, 1);
  workers_->prepare(std::move(order));
}

// A sample whose bytes are not where they should be is given none, and so turns out corrupt: the
// engine then reads it anew.
void Backend::add_sample(PreparationOrder& out, const Prepare& order, const ServedDataset& dataset,
                         std::uint32_t place, SampleId used, SampleId wanted,
                         std::uint32_t occurrence, Form form, Digest prefix, Reading* reading) {
  const KeyRoot root{order.lineage.dataset_version, order.lineage.seed};
  PreparationOrder::Sample sample;
  sample.place = place;
  sample.wanted = wanted;
  sample.input.sample = used;
  sample.input.decoded = form == Form::decoded;
  sample.input.label = dataset.index->label(used).value_or(-1);
  sample.input.draw_key =
      order.lineage.order == Order::weighted
          ? occurrence_draw_key(root, order.lineage.name.generation, wanted, occurrence)
          : draw_key(root, order.lineage.name.generation, order.lineage.name.pass, wanted);
  if (reading) {
    const Staged* one = staged(*reading, used);
    if (one) sample.input.bytes = {one->memory + one->lead, one->bytes};
  } else {
    sample.kept = kept(order.lineage.dataset, form == Form::decoded ? prefix : 0, used);
    if (sample.kept) sample.input.bytes = ItemStore::bytes_of(sample.kept);
    // What was read for this very block is no hit.
    const bool fresh =
        form == Form::encoded &&
        fresh_.erase(std::uint64_t{order.lineage.dataset.value} << 32 | used.value) > 0;
    if (!fresh) ++(form == Form::decoded ? counters_.decoded_hits : counters_.encoded_hits);
  }
  out.samples.push_back(std::move(sample));
}

void Backend::note_kept(DatasetId dataset, Digest prefix, ShareId share) {
  std::vector<ShareId>& shares = kept_in_[{dataset.value, prefix}];
  if (std::find(shares.begin(), shares.end(), share) != shares.end()) return;
  // The number may have been another's before.
  for (auto& [of, others] : kept_in_) std::erase(others, share);
  items_.drop_all(share);
  shares.push_back(share);
}

ItemStore::Item Backend::kept(DatasetId dataset, Digest prefix, SampleId sample) const {
  const auto shares = kept_in_.find({dataset.value, prefix});
  if (shares == kept_in_.end()) return nullptr;
  for (const ShareId share : shares->second) {
    if (ItemStore::Item item = items_.find(share, ItemId(static_cast<std::uint32_t>(sample.value))))
      return item;
  }
  return nullptr;
}

void Backend::prepared(const PreparationReport& report) {
  const auto found = preparing_.find(report.request.id.value);
  if (found == preparing_.end() || found->second.request != report.request) return;
  for (std::size_t i = 0; i < report.corrupt.size(); ++i) {
    corrupt_.push_back({found->second.dataset, report.corrupt[i], report.problems[i]});
    if (corrupt_.size() > kCorruptKept) corrupt_.pop_front();
  }
  stalls_.preparing(found->second.pipeline, -1);
  preparing_.erase(found);
  counters_.not_kept += report.not_kept;
  counters_.no_memory += report.no_memory ? 1 : 0;
  counters_.prepared_samples += report.samples;
  ++counters_.prepared_blocks;
  inbox_.add(
      PreparationDone{report.request, report.outcome, inbox_.keep(std::vector(report.corrupt))});
}

void Backend::on(const SetWorkers& order) {
  workers_wanted_ = order.workers;
  settle_workers();
}

void Backend::set_memory(Bytes bytes) {
  budget_.set_most(bytes);
  slots_.make_room(0);
}

void Backend::set_workers_most(std::uint32_t workers) {
  options_.workers_most = workers;
  settle_workers();
}

void Backend::settle_workers() {
  const std::uint32_t wanted = std::min(workers_wanted_, options_.workers_most);
  while (working_.size() < wanted) {
    const WorkerId worker(next_worker_++);
    working_.push_back(worker);
    workers_->start(worker);
    inbox_.add(WorkerJoined{worker, options_.node});
  }
  while (working_.size() > wanted) {
    fail_waiting(working_.back());
    workers_->retire(working_.back());
    working_.pop_back();
  }
  workers_there_ = static_cast<std::uint32_t>(working_.size());
  stalls_.set_workers(workers_there_);
}

// --------------------------------------------------------------------------------- batches ----

void Backend::on(const Transfer& order) {
  const auto from = shares_.find(order.from_share.value);
  const Slot* source = slots_.find(order.from_share, order.from_slot);
  std::optional<Slot> target;
  if (from != shares_.end() && source)
    target = slot_of(order.to_share, order.to_slot, from->second.pipeline, order.slot_samples,
                     from->second.audience);
  if (!target) {
    ++counters_.no_memory;
    inbox_.add(TransferDone{order.request, Outcome::failed});
    return;
  }
  ServedPipeline& pipeline = datasets_.pipeline(from->second.pipeline);
  CopyOrder copy;
  copy.request = order.request;
  copy.from = *source;
  copy.from_layout = pipeline.layout(from->second.slot_samples);
  copy.to = *target;
  copy.to_layout = pipeline.layout(order.slot_samples);
  copy.first = order.slice.from;
  copy.last = order.slice.to;
  copy.at = order.offset_samples;
  copy.marks = static_cast<std::uint8_t>((order.slice.filler ? kFiller : 0) |
                                         (order.slice.rehearsed ? kRehearsed : 0));
  const bool ragged = std::any_of(copy.to_layout->fields.begin(), copy.to_layout->fields.end(),
                                  [](const auto& field) { return field.ragged; });
  counters_.copied_samples += copy.last - copy.first;
  const Copying entry{copy, from->second.pipeline};
  if (copying_.insert_or_assign(order.request.id.value, entry).second)
    stalls_.gathering(from->second.pipeline, 1);
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

void Backend::copied(Request request, Outcome outcome) {
  const auto found = copying_.find(request.id.value);
  if (found == copying_.end() || found->second.order.request != request) return;
  const CopyOrder done = std::move(found->second.order);
  stalls_.gathering(found->second.pipeline, -1);
  copying_.erase(found);
  inbox_.add(TransferDone{request, outcome});
  const auto to = copy_to_.find(request.id.value);
  if (to == copy_to_.end()) return;
  Gathering& gathering = gathering_[to->second];
  copy_to_.erase(to);
  if (outcome != Outcome::done) return;
  gathering.next = std::max(gathering.next, done.at + (done.last - done.first));
  for (std::size_t i = 0; i < gathering.waiting.size(); ++i) {
    if (gathering.waiting[i].at > gathering.next) continue;
    copier_->copy(std::move(gathering.waiting[i]));
    gathering.waiting.erase(gathering.waiting.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
}

void Backend::on(const Deliver& order) {
  const Slot* slot = slots_.find(order.share, order.slot);
  const auto share = shares_.find(order.share.value);
  const bool well =
      slot && share != shares_.end() && customer_.deliver(order, *slot, share->second.slot_samples);
  inbox_.add(DeliveryDone{order.request, well ? Outcome::done : Outcome::failed});
  if (!well) return;
  ++counters_.delivered_batches;
  for (const Slice& slice : order.slices) counters_.delivered_samples += slice.to - slice.from;
}

void Backend::released(ShareId share, SlotId slot) {
  gathering_.erase({share.value, slot.value});
  slots_.free(share, slot);
}

void Backend::on(const Drop& order) {
  if (order.form == Form::prepared) {
    slots_.free(order.share, order.slot);
    if (!unplaced_.empty()) retry_waiting();
  } else if (order.place.tier == Tier::nvme) {
    spill_->drop(order.share, order.item);
  } else {
    items_.drop(order.share, order.item);
  }
}

void Backend::on(const Cancel& order) {
  const std::uint64_t id = order.request.id.value;
  if (const auto read = reading_of_.find(id); read != reading_of_.end()) {
    const std::uint32_t index = read->second;
    if (readings_[index].request != order.request) return;
    reading_of_.erase(read);
    if (readings_[index].left > 0) {
      readings_[index].cancelled = true;
    } else {
      free_staging(index);
    }
    return;
  }
  if (const auto copy = copying_.find(id); copy != copying_.end()) {
    if (copy->second.order.request != order.request) return;
    copier_->cancel(order.request);
    stalls_.gathering(copy->second.pipeline, -1);
    copying_.erase(copy);
    if (const auto to = copy_to_.find(id); to != copy_to_.end()) {
      std::erase_if(gathering_[to->second].waiting,
                    [&](const CopyOrder& one) { return one.request == order.request; });
      copy_to_.erase(to);
    }
    return;
  }
  std::erase_if(unplaced_, [&](const Unplaced& one) { return one.entry.request.id.value == id; });
  if (const auto found = preparing_.find(id); found != preparing_.end()) {
    stalls_.preparing(found->second.pipeline, -1);
    preparing_.erase(found);
  }
}

// ---------------------------------------------------------------------------------- timers ----

void Backend::on(const SetTimer& order) {
  timers_.emplace(order.at, order.timer);
}

void Backend::fire_timers(Instant now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    inbox_.add(TimerFired{timers_.begin()->second});
    timers_.erase(timers_.begin());
  }
}

}  // namespace batchflow
