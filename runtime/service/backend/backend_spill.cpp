// The backend's part in the second tier: samples that are read from the spill file, and samples
// that are written to it after they were read for it.
#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/backend_tags.h"

namespace batchflow::service {

// Reads from the spill file or, if the sample is not there, from the source.
storage::ReadPiece Backend::spill_piece(std::uint32_t index, std::size_t place) {
  Reading& reading = readings_[index];
  Staged& one = reading.samples[place];
  const auto there = spill_->find(reading.dataset, one.sample);
  if (!there) {
    ++spill_->counters().missed;
    one.heals = true;
    return source_piece(index, place);
  }
  one.spilled = true;
  one.lead = 0;
  one.bytes = there->bytes;
  one.sum = there->sum;
  storage::ReadPiece piece;
  piece.fd = spill_->descriptor();
  piece.offset = there->offset;
  piece.bytes = there->bytes;
  piece.to = one.memory;
  piece.tag = std::uint64_t{index} << kSampleBits | place;
  return piece;
}

// A sample that is not what was written counts as missing: it is read from the source.
bool Backend::reads_again(std::uint32_t index, std::size_t place,
                          const storage::ReadResult& result) {
  Reading& reading = readings_[index];
  Staged& one = reading.samples[place];
  SpillCounters& counters = spill_->counters();
  const bool is_same = result.sum == one.sum && !BF_FAILPOINT("service.spill.checksum");
  if (result.error == 0 && result.bytes == one.bytes && is_same) {
    ++counters.read_samples;
    counters.read_bytes += one.bytes;
    return false;
  }
  ++counters.missed;
  spill_->failed(reading.dataset, one.sample, result.error);
  tell_spill();
  if (result.error == ECANCELED) {  // the service ends
    one.failed = true;
    return false;
  }
  one.heals = true;
  const storage::ReadPiece again = source_piece(index, place);
  reader_->submit({&again, 1});
  return true;
}

// Writes what was read for the spill file, or should have been there. True: finish_read must be
// called again when that is done. So samples that come faster than the drive takes them wait.
bool Backend::write_spill(std::uint32_t index) {
  Reading& reading = readings_[index];
  reading.written = true;
  if (!spill_ || (!reading.to_spill && !reading.from_spill)) return false;
  pieces_.clear();
  for (std::size_t place = 0; place < reading.samples.size(); ++place) {
    Staged& one = reading.samples[place];
    if (!reading.to_spill && !one.heals) continue;
    const auto writing = spill_->begin(reading.dataset, one.sample, one.bytes);
    if (!writing) {
      if (one.bytes > 0) ++counters_.not_kept;
      continue;
    }
    one.record = writing->record;
    // Whole pages: the sample begins with a page, and takes as many as the engine counts.
    if (const Bytes lead = std::exchange(one.lead, 0); lead != 0)
      std::memmove(one.memory, one.memory + lead, one.bytes);
    storage::ReadPiece piece;
    piece.fd = spill_->descriptor();
    piece.write = true;
    piece.offset = writing->offset;
    piece.bytes = one.bytes;
    piece.to = one.memory;
    piece.tag = kSpillWrite | std::uint64_t{index} << kSampleBits | place;
    pieces_.push_back(piece);
  }
  reading.left = static_cast<std::uint32_t>(pieces_.size());
  if (pieces_.empty()) return false;
  reader_->submit(pieces_);
  return true;
}

void Backend::spill_written(const storage::ReadResult& result) {
  const auto index = static_cast<std::uint32_t>((result.tag & ~kSpillWrite) >> kSampleBits);
  Reading& reading = readings_[index];
  const Staged& one = reading.samples[result.tag & ((std::uint64_t{1} << kSampleBits) - 1)];
  if (reading.cancelled && reading.to_spill) spill_->drop(reading.dataset, one.sample);
  spill_->end(one.record, result.sum, result.error);
  tell_spill();
  if (--reading.left == 0) finish_read(index);
}

void Backend::tell_spill() {
  const auto change = spill_->take_change();
  if (!change) return;
  inbox_.add(engine::CapacityChanged{{options_.node, Tier::nvme, 0}, change->capacity});
  if (!options_.say) return;
  options_.say(change->capacity == 0
                   ? fmt::format("spill: {}; the tier is given up, its samples are read from "
                                 "their source again; free or replace the disk and start anew",
                                 change->why)
                   : fmt::format("spill: {}; the tier shrinks to {} MiB; give the disk room, or "
                                 "the service less of it (--spill)",
                                 change->why, change->capacity >> 20));
}

}  // namespace batchflow::service
