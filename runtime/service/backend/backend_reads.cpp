// The backend's part in reads: from the storage engine into staging memory, and from there to what
// is kept.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <unordered_set>

#include "core/base/check.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/backend_tags.h"

namespace batchflow::service {
namespace {

// An error that is about the sample, not the moment: its file is gone, is no file, or may not be
// read. The sample is treated as one that cannot be decoded.
bool is_lasting(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES ||
         error == EXDEV || error == EINVAL || error == EISDIR || error == EPERM;
}

// The room for a sample. A whole file gets one byte more, which shows if the file has grown.
Bytes staged_room(const sources::SampleIndex& index, const sources::Extent& extent) {
  return storage::room_for(extent.offset,
                           extent.bytes + (index.kind() == sources::RecordKind::whole ? 1 : 0));
}

}  // namespace

void Backend::on(const engine::Read& order) {
  if (const auto found = reading_of_.find(order.request.id.value); found != reading_of_.end())
    return read_rest(found->second, order);
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
    const sources::Extent extent = dataset.index->extent(sample);
    Staged one;
    one.sample = sample;
    one.bytes = extent.bytes;
    one.room = staged_room(*dataset.index, extent);
    reading.samples.push_back(std::move(one));
  }
  reading_of_[order.request.id.value] = index;
  stalls_.reading(reading.pipeline, 1);
  submit(index);
}

// Reads what an earlier attempt could not read, into the same memory.
void Backend::read_rest(std::uint32_t index, const engine::Read& order) {
  Reading& reading = readings_[index];
  reading.request = order.request;
  std::unordered_set<std::uint64_t> missing;
  for (const SampleId sample : order.samples) missing.insert(sample.value);
  pieces_.clear();
  for (std::size_t place = 0; place < reading.samples.size(); ++place) {
    Staged& one = reading.samples[place];
    if (!missing.empty() && !missing.contains(one.sample.value)) continue;
    one.failed = false;
    const bool is_kept = reading.from_spill && !one.heals;
    pieces_.push_back(is_kept ? spill_piece(index, place) : source_piece(index, place));
  }
  reading.left = static_cast<std::uint32_t>(pieces_.size());
  stalls_.reading(reading.pipeline, 1);
  reader_->submit(pieces_);
}

void Backend::submit(std::uint32_t index) {
  Reading& reading = readings_[index];
  const bool there = std::all_of(reading.samples.begin(), reading.samples.end(),
                                 [this](Staged& one) { return stage(one); });
  if (!there) {  // the machine has no pages: it is tried again
    stalls_.reading(reading.pipeline, -1);
    inbox_.add(engine::ReadDone{reading.request, engine::Outcome::failed, {}});
    reading_of_.erase(reading.request.id.value);
    return free_staging(index);
  }
  pieces_.clear();
  reading.left = static_cast<std::uint32_t>(reading.samples.size());
  BF_CHECK(reading.samples.size() < (std::size_t{1} << kSampleBits));
  for (std::size_t i = 0; i < reading.samples.size(); ++i) {
    pieces_.push_back(reading.from_spill ? spill_piece(index, i) : source_piece(index, i));
  }
  reader_->submit(pieces_);
}

// Each sample has memory of its own, so that it can be released alone. The engine has counted it.
// If the staging memory has no run of its length, it gets pages of its own: waiting for other
// samples could be for ever, since these may wait for this one.
bool Backend::stage(Staged& one) {
  one.memory = one.room <= reader_->staging_bytes() ? reader_->stage(one.room) : nullptr;
  if (!one.memory) {
    ++counters_.unregistered_staging;
    one.own = OwnPages(budget_, std::max(one.room, storage::kSector));
    one.memory = one.own.memory();
  }
  if (!one.memory) return false;
  staged_bytes_ += one.room;
  staged_bytes_most_ = std::max(staged_bytes_most_, staged_bytes_);
  return true;
}

void Backend::unstage(Staged& one) {
  if (!one.memory) return;
  staged_bytes_ -= one.room;
  if (!one.own.memory()) reader_->unstage(one.memory);
  one.own = {};
  one.memory = nullptr;
}

// The piece of the dataset that has the sample.
storage::ReadPiece Backend::source_piece(std::uint32_t index, std::size_t place) {
  Reading& reading = readings_[index];
  const ServedDataset& dataset = datasets_.dataset(reading.dataset);
  Staged& one = reading.samples[place];
  const sources::Extent extent = dataset.index->extent(one.sample);
  one.spilled = false;
  one.lead = storage::lead(extent.offset);
  one.bytes = extent.bytes;
  storage::ReadPiece piece;
  piece.root = dataset.opened->folder.get();
  piece.guard = dataset.read_guard();
  piece.path = dataset.index->path(extent.file).data();
  piece.file = std::uint64_t{dataset.id.value} << 32 | extent.file;
  piece.whole_file = dataset.index->kind() == sources::RecordKind::whole;
  piece.offset = extent.offset;
  piece.bytes = extent.bytes;
  piece.is_last = piece.whole_file;
  piece.to = one.memory;
  piece.tag = std::uint64_t{index} << kSampleBits | place;
  return piece;
}

void Backend::read_done(std::span<const storage::ReadResult> results) {
  for (const storage::ReadResult& result : results) {
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
      if (one.failed && result.error != ECANCELED) {
        const ServedDataset& dataset = datasets_.dataset(reading.dataset);
        troubles_.note(reading.pipeline,
                       fmt::format("dataset {}: sample {} ({}) cannot be read: {}", dataset.name,
                                   one.sample.value, dataset.index->sample_name(one.sample),
                                   std::generic_category().message(result.error)));
      }
      one.bytes = 0;
    } else {
      one.bytes = result.bytes;
      // As if the file had become shorter since its index was made.
      if (one.bytes > 1) one.bytes = BF_FAILPOINT_SHORT("service.read.cut", one.bytes);
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
  const bool nothing = failed.size() == reading.samples.size();
  if (well && !reading.cancelled && !reading.written && write_spill(index)) return;
  stalls_.reading(reading.pipeline, -1);
  if (reading.cancelled) return free_staging(index);
  // A read that failed keeps nothing before the rest is there: the engine may give it up.
  for (const Staged& one : reading.samples) {
    if (!well || reading.keep.is_none() || reading.to_spill) break;
    if (!reading.staged)
      fresh_.insert(std::uint64_t{reading.dataset.value} << 32 | one.sample.value);
    if (!items_.put(reading.keep, ItemId(static_cast<std::uint32_t>(one.sample.value)),
                    std::span<const std::byte>(one.memory + one.lead, one.bytes)))
      ++counters_.not_kept;
  }
  const engine::Request request = reading.request;
  inbox_.add(engine::ReadDone{request, well ? engine::Outcome::done : engine::Outcome::failed,
                              well ? std::span<const SampleId>() : inbox_.keep(std::move(failed))});
  // What a failed read has brought stays for another attempt.
  const bool stays = well ? reading.staged : !nothing;
  if (!stays) {
    reading_of_.erase(request.id.value);
    free_staging(index);
  }
}

void Backend::free_staging(std::uint32_t index) {
  Reading& reading = readings_[index];
  for (Staged& one : reading.samples) unstage(one);
  reading = Reading();
  free_readings_.push_back(index);
}

void Backend::on(const engine::Release& order) {
  const auto found = reading_of_.find(order.request.id.value);
  if (found == reading_of_.end()) return;
  const std::uint32_t index = found->second;
  if (!order.samples.empty()) {
    for (const SampleId sample : order.samples) {
      if (Staged* one = staged(readings_[index], sample)) unstage(*one);
    }
    return;
  }
  reading_of_.erase(found);
  if (readings_[index].left > 0) {
    readings_[index].cancelled = true;
  } else {
    free_staging(index);
  }
}

Backend::Staged* Backend::staged(Reading& reading, SampleId sample) {
  const std::size_t count = reading.samples.size();
  for (std::size_t tried = 0; tried < count; ++tried) {
    const std::size_t at = (reading.found_last + tried) % count;
    if (reading.samples[at].sample != sample) continue;
    reading.found_last = at;
    return &reading.samples[at];
  }
  return nullptr;
}

}  // namespace batchflow::service
