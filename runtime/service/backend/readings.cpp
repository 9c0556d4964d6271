#include "runtime/service/backend/readings.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "core/base/check.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/sources/bundles.h"

namespace batchflow::service {
namespace {

// The tag of a piece is the index of its read and, in the lowest bits, the row of its sample in it.
// The highest bit says that the piece is written to the spill file.
constexpr unsigned kSampleBits = 24;
constexpr std::uint64_t kSpillWrite = std::uint64_t{1} << 63;

std::uint64_t tag_of(std::uint32_t index, std::size_t row) {
  return std::uint64_t{index} << kSampleBits | row;
}

std::uint32_t index_in(std::uint64_t tag) {
  return static_cast<std::uint32_t>((tag & ~kSpillWrite) >> kSampleBits);
}

std::size_t row_in(std::uint64_t tag) {
  return tag & ((std::uint64_t{1} << kSampleBits) - 1);
}

// An error that is about the sample, not the moment: its file is gone, is no file, or may not be
// read. The sample is treated as one that cannot be decoded.
bool is_lasting(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES ||
         error == EXDEV || error == EINVAL || error == EISDIR || error == EPERM;
}

// The room for a sample. A whole file gets one byte more, which shows if the file has grown. A
// record of a feed may be somewhere else when it is read again.
Bytes staged_room(const ServedDataset& dataset, const sources::Extent& extent) {
  if (dataset.is_feed) return storage::room_for(storage::kSector - 1, extent.bytes);
  const bool is_whole = dataset.index->kind() == sources::RecordKind::whole;
  return storage::room_for(extent.offset, extent.bytes + (is_whole ? 1 : 0));
}

}  // namespace

Readings::Readings(const BackendContext& context, const storage::ReadEngineOptions& options,
                   order::Expander& expander, KeptSamples& kept, SpillTier& spill)
    : context_(context),
      expander_(expander),
      kept_(kept),
      spill_(spill),
      staging_(reader_, context.budget),
      reader_(options, [this](std::span<const storage::ReadResult> results) {
        context_.post([this, copy = std::vector<storage::ReadResult>(
                                 results.begin(), results.end())] { done(copy); });
      }) {}

void Readings::read(const engine::Read& command) {
  if (const auto found = reading_of_.find(command.request.id.value); found != reading_of_.end())
    return read_rest(found->second, command);
  const ServedDataset& dataset = context_.datasets.dataset(command.dataset);
  const std::uint32_t index = free_reading();
  Reading& reading = readings_[index];
  reading.request = command.request;
  reading.dataset = command.dataset;
  reading.pipeline = command.lineage.pipeline;
  reading.keep = command.keep;
  reading.bundle_shift = command.bundle_shift;
  reading.staged = command.keep.is_none() || command.keep_at != command.to;
  reading.from_spill = command.from.tier == Tier::nvme;
  reading.to_spill = !command.keep.is_none() && command.keep_at.tier == Tier::nvme;
  if (!command.keep.is_none() && command.keep_at.node != context_.node) {
    reading.keep_at = command.keep_at.node;
    reading.keep_on_drive = std::exchange(reading.to_spill, false);
  } else if (reading.to_spill) {
    spill_.open(command.keep, command.dataset);
  } else if (command.form == Form::decoded && !command.keep.is_none()) {
    kept_.open_decoded(command.dataset, prefix_of(command), command.keep);
  } else if (!command.keep.is_none()) {
    kept_.open(command.dataset, 0, command.keep);
  }
  std::vector<SampleId> ids;
  if (command.samples.empty()) {
    expander_.expand(command.lineage, dataset.index->samples(), ids);
  } else {
    ids.assign(command.samples.begin(), command.samples.end());
  }
  if (!dataset.log_at.is_none()) {
    for (const SampleId sample : ids) reading.samples.emplace_back().sample = sample;
    reading.from_log = true;
    reading_of_[command.request.id.value] = index;
    context_.stalls.reading(reading.pipeline, 1);
    begin_timing(reading, fetching_);
    return fetch_records(index);
  }
  if (command.from.tier == Tier::dram ||
      (command.from.tier == Tier::nvme && command.from.node != context_.node)) {
    for (const SampleId sample : ids) reading.samples.emplace_back().sample = sample;
    return fetch(index, command);
  }
  reading.samples.reserve(ids.size());
  std::vector<sources::Extent> extents(1);
  for (const SampleId sample : ids) {
    if (reading.bundle_shift > 0) {
      sources::stretches(*dataset.index, reading.bundle_shift, sample, extents);
    } else {
      extents[0] = dataset.index->extent(sample);
    }
    for (const sources::Extent& extent : extents) {
      StagedSample one;
      one.sample = sample;
      one.extent = extent;
      one.bytes = extent.bytes;
      one.room = staged_room(dataset, extent);
      reading.samples.push_back(std::move(one));
    }
  }
  reading_of_[command.request.id.value] = index;
  context_.stalls.reading(reading.pipeline, 1);
  submit(index);
}

// The prefix of the pipeline that has decoded what is read. 0: it is as it was stored.
Digest Readings::prefix_of(const engine::Read& command) const {
  if (command.form != Form::decoded) return 0;
  return context_.datasets.pipeline(command.lineage.pipeline).pipeline->info().prefix_hash;
}

void Readings::take(Reading& reading, const std::optional<FetchedItems>& items) {
  reading.left = 0;
  reading.take(items);
  for (const StagedSample& sample : reading.samples) {
    if (!sample.fetched) continue;
    ++counters_.fetched;
    counters_.fetched_bytes += sample.bytes;
  }
}

// Reads from the memory of another node. A sample that the node has no more comes without bytes:
// preparation finds it broken, and then the engine has it read from the store.
void Readings::fetch(std::uint32_t index, const engine::Read& command) {
  Reading& reading = readings_[index];
  reading_of_[command.request.id.value] = index;
  context_.stalls.reading(reading.pipeline, 1);
  begin_timing(reading, fetching_);
  reading.left = 1;
  WantedItems wanted;
  wanted.dataset = command.dataset;
  wanted.bundle_shift = command.bundle_shift;
  wanted.prefix = prefix_of(command);
  for (const StagedSample& one : reading.samples) wanted.samples.push_back(one.sample);
  const auto done = [this, index](const std::optional<FetchedItems>& items) {
    Reading& one = readings_[index];
    take(one, items);
    if (one.to_spill) move_to_pages(one);
    finish(index);
  };
  if (context_.peers) return context_.peers->fetch(command.from.node, std::move(wanted), done);
  context_.post([done] { done(std::nullopt); });
}

// Reads from the log of a feed on another node. No other place has the records, so a record that
// does not come now is waited for: its node may come back.
void Readings::fetch_records(std::uint32_t index) {
  Reading& reading = readings_[index];
  reading.left = 1;
  WantedItems wanted;
  wanted.dataset = reading.dataset;
  wanted.records = true;
  for (StagedSample& one : reading.samples) {
    one.failed = false;
    wanted.samples.push_back(one.sample);
  }
  const auto done = [this, index](const std::optional<FetchedItems>& items) {
    Reading& one = readings_[index];
    if (!items && !one.cancelled) {
      unanswered_.push_back(index);
      return;
    }
    take(one, items);
    finish(index);
  };
  const NodeId from = context_.datasets.dataset(reading.dataset).log_at;
  if (context_.peers) return context_.peers->fetch(from, std::move(wanted), done);
  context_.post([done] { done(std::nullopt); });
}

void Readings::ask_again() {
  for (const std::uint32_t index : std::exchange(unanswered_, {})) {
    Reading& reading = readings_[index];
    if (!reading.cancelled) {
      fetch_records(index);
      continue;
    }
    reading.left = 0;
    finish(index);
  }
}

// Moves each sample to memory that begins with a page, as a drive needs it.
void Readings::move_to_pages(Reading& reading) {
  for (StagedSample& one : reading.samples) {
    if (!std::exchange(one.fetched, false)) continue;
    const std::byte* const from = std::exchange(one.memory, nullptr);
    one.room = storage::room_for(0, one.bytes);
    if (staging_.stage(one)) {
      std::memcpy(one.memory, from, one.bytes);
    } else {
      one.failed = true;
    }
  }
  reading.fetched.reset();
}

// Has another node keep what was read. False: nothing is to be kept elsewhere, or it is by now.
bool Readings::keep_elsewhere(std::uint32_t index) {
  Reading& reading = readings_[index];
  const NodeId at = std::exchange(reading.keep_at, NodeId::none());
  if (at.is_none() || !context_.peers) return false;
  KeptItems items = reading.kept_items();
  reading.keep = ShareId::none();
  reading.left = 1;
  context_.peers->keep(at, std::move(items), [this, index] {
    readings_[index].left = 0;
    finish(index);
  });
  return true;
}

std::uint32_t Readings::free_reading() {
  if (free_readings_.empty()) {
    readings_.emplace_back();
    return static_cast<std::uint32_t>(readings_.size() - 1);
  }
  const std::uint32_t index = free_readings_.back();
  free_readings_.pop_back();
  readings_[index] = Reading();
  return index;
}

// Reads what an earlier attempt could not read, into the same memory.
void Readings::read_rest(std::uint32_t index, const engine::Read& command) {
  Reading& reading = readings_[index];
  reading.request = command.request;
  if (reading.from_log) {
    context_.stalls.reading(reading.pipeline, 1);
    begin_timing(reading, fetching_);
    return fetch_records(index);
  }
  const ServedDataset& dataset = context_.datasets.dataset(reading.dataset);
  std::unordered_set<std::uint64_t> missing;
  for (const SampleId sample : command.samples) missing.insert(sample.value);
  pieces_.clear();
  for (std::size_t row = 0; row < reading.samples.size(); ++row) {
    StagedSample& one = reading.samples[row];
    if (!missing.empty() && !missing.contains(one.sample.value)) continue;
    one.failed = false;
    if (dataset.is_feed) {  // it may have moved
      const sources::Extent now = dataset.index->extent(one.sample);
      if (now.bytes == one.extent.bytes) one.extent = now;
    }
    pieces_.push_back(one.heals ? source_piece(index, row) : piece(index, row));
  }
  reading.left = static_cast<std::uint32_t>(pieces_.size());
  context_.stalls.reading(reading.pipeline, 1);
  begin_timing(reading, store_busy_);
  send(pieces_);
}

void Readings::begin_timing(Reading& reading, BusyTime& time) {
  if (!std::exchange(reading.timed, &time)) time.begin();
}

void Readings::submit(std::uint32_t index) {
  Reading& reading = readings_[index];
  const bool there = std::all_of(reading.samples.begin(), reading.samples.end(),
                                 [this](StagedSample& one) { return staging_.stage(one); });
  if (!there) {  // the machine has no pages: it is tried again
    context_.stalls.reading(reading.pipeline, -1);
    context_.inbox.add(engine::ReadDone{reading.request, engine::Outcome::failed, {}});
    reading_of_.erase(reading.request.id.value);
    return free_staging(index);
  }
  pieces_.clear();
  reading.left = static_cast<std::uint32_t>(reading.samples.size());
  BF_CHECK(reading.samples.size() < (std::size_t{1} << kSampleBits));
  for (std::size_t row = 0; row < reading.samples.size(); ++row)
    pieces_.push_back(piece(index, row));
  begin_timing(reading, store_busy_);
  send(pieces_);
}

void Readings::free_staging(std::uint32_t index) {
  Reading& reading = readings_[index];
  for (StagedSample& one : reading.samples) staging_.unstage(one);
  reading = Reading();
  free_readings_.push_back(index);
}

storage::ReadPiece Readings::piece(std::uint32_t index, std::size_t row) {
  return readings_[index].from_spill ? spill_piece(index, row) : source_piece(index, row);
}

// The piece of the dataset that has the sample.
storage::ReadPiece Readings::source_piece(std::uint32_t index, std::size_t row) {
  Reading& reading = readings_[index];
  const ServedDataset& dataset = context_.datasets.dataset(reading.dataset);
  StagedSample& one = reading.samples[row];
  const sources::Extent& extent = one.extent;
  one.spilled = false;
  one.lead = storage::lead(extent.offset);
  one.bytes = extent.bytes;
  storage::ReadPiece piece;
  piece.root = dataset.opened->folder.get();  // -1: of a store
  piece.guard = dataset.read_guard();
  piece.path = dataset.index->path(extent.file).data();
  piece.file = std::uint64_t{dataset.id.value} << 32 | extent.file;
  piece.cached = dataset.is_feed;
  piece.whole_file = dataset.index->kind() == sources::RecordKind::whole;
  piece.offset = extent.offset;
  piece.bytes = extent.bytes;
  piece.is_last = piece.whole_file;
  piece.to = one.memory;
  piece.tag = tag_of(index, row);
  return piece;
}

void Readings::send(std::span<const storage::ReadPiece> pieces) {
  const auto is_of_store = [](const storage::ReadPiece& one) { return one.root < 0 && one.fd < 0; };
  if (std::none_of(pieces.begin(), pieces.end(), is_of_store)) return reader_.submit(pieces);
  std::vector<objects::RangePiece> of_store;
  for (const storage::ReadPiece& one : pieces) {
    if (is_of_store(one)) {
      of_store.push_back(range_of(one));
    } else {
      reader_.submit({&one, 1});
    }
  }
  if (!ranges_)
    ranges_ = std::make_unique<objects::RangeReader>(
        objects::StoreSettings::of_environment().reads, [this](const objects::RangeResult& result) {
          context_.post([this, result] {
            const storage::ReadResult one{result.tag, result.error, result.bytes, 0};
            done({&one, 1}, result.problem);
          });
        });
  ranges_->submit(of_store);
}

objects::RangePiece Readings::range_of(const storage::ReadPiece& piece) const {
  const Reading& reading = readings_[index_in(piece.tag)];
  const ServedDataset& dataset = context_.datasets.dataset(reading.dataset);
  const sources::Extent& extent = reading.samples[row_in(piece.tag)].extent;
  objects::RangePiece range;
  range.store = dataset.opened->store;
  range.path = piece.path;
  range.mark = dataset.index->file_mark(extent.file);
  range.offset = piece.offset;
  range.to = {piece.to + storage::lead(piece.offset), piece.bytes};
  range.tag = piece.tag;
  return range;
}

// Reads from the spill file or, if the sample is not there, from the source.
storage::ReadPiece Readings::spill_piece(std::uint32_t index, std::size_t row) {
  Reading& reading = readings_[index];
  StagedSample& one = reading.samples[row];
  const auto there = spill_.read(reading.dataset, one.sample);
  if (!there) {
    one.heals = true;
    return source_piece(index, row);
  }
  one.spilled = true;
  one.lead = 0;
  one.bytes = there->piece.bytes;
  one.sum = there->sum;
  storage::ReadPiece piece = there->piece;
  piece.to = one.memory;
  piece.tag = tag_of(index, row);
  return piece;
}

void Readings::done(std::span<const storage::ReadResult> results, const std::string& problem) {
  for (const storage::ReadResult& result : results) {
    if ((result.tag & kSpillWrite) != 0) {
      spill_written(result);
      continue;
    }
    const std::uint32_t index = index_in(result.tag);
    const std::size_t row = row_in(result.tag);
    Reading& reading = readings_[index];
    StagedSample& one = reading.samples[row];
    if (one.spilled) {
      if (reads_again(index, row, result)) continue;
    } else {
      note_result(index, one, result, problem);
    }
    if (--reading.left == 0) finish(index);
  }
}

// What the source has given, or its error.
void Readings::note_result(std::uint32_t index, StagedSample& one,
                           const storage::ReadResult& result, const std::string& problem) {
  if (result.error == 0) {
    one.bytes = result.bytes;
    // As if the file had become shorter since its index was made.
    if (one.bytes > 1) one.bytes = BF_FAILPOINT_SHORT("service.read.cut", one.bytes);
    ++counters_.reads;
    counters_.bytes += one.bytes;
    if (readings_[index].bundle_shift == 0) ++counters_.samples;  // else when all of it is there
    return;
  }
  ++counters_.errors;
  const Reading& reading = readings_[index];
  const ServedDataset& dataset = context_.datasets.dataset(reading.dataset);
  // What jobs rehearse has moved where its file has gone, and is looked for again.
  const bool has_moved = dataset.is_feed && dataset.index->extent(one.sample).bytes > 0;
  one.failed = has_moved || !is_lasting(result.error);
  if (one.failed && result.error != ECANCELED) {
    context_.troubles.note(
        reading.pipeline,
        fmt::format("dataset {}: sample {} ({}){} cannot be read: {}", dataset.name,
                    one.sample.value, dataset.index->sample_name(one.sample),
                    reading.bundle_shift > 0 ? " and those after it" : "",
                    problem.empty() ? std::generic_category().message(result.error) : problem));
  }
  one.bytes = 0;
}

// A sample that is not what was written counts as missing: it is read from the source.
bool Readings::reads_again(std::uint32_t index, std::size_t row,
                           const storage::ReadResult& result) {
  Reading& reading = readings_[index];
  StagedSample& one = reading.samples[row];
  if (spill_.is_sound(reading.dataset, one, result)) return false;
  if (result.error == ECANCELED) {  // the service ends
    one.failed = true;
    return false;
  }
  one.heals = true;
  const storage::ReadPiece again = source_piece(index, row);
  send({&again, 1});
  return true;
}

// Writes what was read for the spill file, or should have been there. True: finish must be called
// again when that is done. So samples that come faster than the drive takes them wait.
bool Readings::write_spill(std::uint32_t index) {
  Reading& reading = readings_[index];
  reading.written = true;
  if (!spill_.file() || (!reading.to_spill && !reading.from_spill)) return false;
  pieces_.clear();
  for (std::size_t row = 0; row < reading.samples.size(); ++row) {
    StagedSample& one = reading.samples[row];
    if (!reading.to_spill && !one.heals) continue;
    const auto write = spill_.write(reading.dataset, one);
    if (!write) continue;
    one.entry = write->entry;
    // Whole pages: the sample begins with a page, and takes as many as the engine counts.
    if (const Bytes lead = std::exchange(one.lead, 0); lead != 0)
      std::memmove(one.memory, one.memory + lead, one.bytes);
    storage::ReadPiece piece = write->piece;
    piece.to = one.memory;
    piece.tag = kSpillWrite | tag_of(index, row);
    pieces_.push_back(piece);
  }
  reading.left = static_cast<std::uint32_t>(pieces_.size());
  if (pieces_.empty()) return false;
  send(pieces_);
  return true;
}

void Readings::spill_written(const storage::ReadResult& result) {
  const std::uint32_t index = index_in(result.tag);
  Reading& reading = readings_[index];
  spill_.written(reading.dataset, reading.samples[row_in(result.tag)], result,
                 reading.cancelled && reading.to_spill);
  if (--reading.left == 0) finish(index);
}

void Readings::finish(std::uint32_t index) {
  Reading& reading = readings_[index];
  if (BusyTime* const time = std::exchange(reading.timed, nullptr)) time->end();
  std::vector<SampleId> failed;
  bool nothing = true;
  for (const StagedSample& one : reading.samples) {
    nothing = nothing && one.failed;
    if (one.failed && (failed.empty() || failed.back() != one.sample)) failed.push_back(one.sample);
  }
  const bool well = failed.empty();
  if (well && !reading.cancelled && !reading.written && write_spill(index)) return;
  if (well && !reading.cancelled && keep_elsewhere(index)) return;
  context_.stalls.reading(reading.pipeline, -1);
  if (reading.cancelled) return free_staging(index);
  // A read that failed keeps nothing before the rest is there: the engine may give it up.
  if (well && !reading.keep.is_none() && !reading.to_spill) keep(reading);
  const engine::Request request = reading.request;
  context_.inbox.add(engine::ReadDone{
      request, well ? engine::Outcome::done : engine::Outcome::failed,
      well ? std::span<const SampleId>() : context_.inbox.keep(std::move(failed))});
  // What a failed read has brought stays for another attempt.
  const bool stays = well ? reading.staged : !nothing;
  if (!stays) {
    reading_of_.erase(request.id.value);
    free_staging(index);
  }
}

void Readings::keep(const Reading& reading) {
  const std::uint64_t in_dataset = context_.datasets.dataset(reading.dataset).index->samples();
  reading.each_item([&](SampleId first, std::span<const std::span<const std::byte>> parts) {
    const std::uint64_t samples =
        std::min(std::uint64_t{1} << reading.bundle_shift, in_dataset - first.value);
    if (reading.bundle_shift > 0) counters_.samples += samples;
    if (!reading.staged) kept_.note_fresh(reading.dataset, first, reading.bundle_shift);
    kept_.put(reading.keep, engine::item_of(first, reading.bundle_shift), parts);
  });
}

bool Readings::cancel(const engine::Request& request) {
  const auto found = reading_of_.find(request.id.value);
  if (found == reading_of_.end()) return false;
  // A read of another attempt goes on.
  if (readings_[found->second].request == request) give_up(found);
  return true;
}

void Readings::release(const engine::Release& command) {
  const auto found = reading_of_.find(command.request.id.value);
  if (found == reading_of_.end()) return;
  if (command.samples.empty()) return give_up(found);
  for (const SampleId sample : command.samples) {
    if (StagedSample* one = readings_[found->second].find(sample)) staging_.unstage(*one);
  }
}

void Readings::give_up(ByRequest::iterator found) {
  const std::uint32_t index = found->second;
  reading_of_.erase(found);
  if (readings_[index].left > 0) {
    readings_[index].cancelled = true;
  } else {
    free_staging(index);
  }
}

const Reading* Readings::find(RequestId id) const {
  const auto found = reading_of_.find(id.value);
  return found == reading_of_.end() ? nullptr : &readings_[found->second];
}

bool Readings::is_at(DatasetId dataset) const {
  return std::any_of(readings_.begin(), readings_.end(), [dataset](const Reading& one) {
    return !one.samples.empty() && one.dataset == dataset;
  });
}

bool Readings::is_at(PipelineId pipeline) const {
  return std::any_of(readings_.begin(), readings_.end(), [pipeline](const Reading& one) {
    return !one.samples.empty() && one.pipeline == pipeline;
  });
}

}  // namespace batchflow::service
