#include "runtime/service/backend/spill_tier.h"

#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::service {

SpillTier::~SpillTier() {
  if (!file_) return;
  file_->put_aside([this](DatasetId dataset) -> std::optional<Digest> {
    if (!context_.datasets.knows(dataset)) return std::nullopt;
    return context_.datasets.dataset(dataset).index->version();
  });
}

std::vector<SampleId> SpillTier::kept_before(DatasetId dataset) const {
  if (!file_) return {};
  return file_->aside(context_.datasets.dataset(dataset).index->version());
}

void SpillTier::adopt(DatasetId dataset, ShareId share) {
  if (file_) file_->adopt(context_.datasets.dataset(dataset).index->version(), dataset, share);
}

std::optional<SpillTier::Read> SpillTier::read(DatasetId dataset, SampleId sample) {
  std::optional<Read> there = find(dataset, sample);
  if (!there) file_->missed();
  return there;
}

std::optional<SpillTier::Read> SpillTier::find(DatasetId dataset, SampleId sample) const {
  const auto there = file_ ? file_->find(dataset, sample) : std::nullopt;
  if (!there) return std::nullopt;
  Read read;
  read.piece.fd = file_->descriptor();
  read.piece.offset = there->offset;
  read.piece.bytes = there->bytes;
  read.sum = there->sum;
  return read;
}

bool SpillTier::is_sound(DatasetId dataset, const StagedSample& sample,
                         const storage::ReadResult& result) {
  const bool is_same = result.sum == sample.sum && !BF_FAILPOINT("service.spill.checksum");
  if (result.error == 0 && result.bytes == sample.bytes && is_same) {
    file_->was_read(sample.bytes);
    return true;
  }
  file_->failed(dataset, sample.sample, result.error);
  report_change();
  return false;
}

bool SpillTier::is_sound(DatasetId dataset, SampleId sample, const Read& read,
                         const storage::ReadResult& result) {
  StagedSample staged;
  staged.sample = sample;
  staged.bytes = read.piece.bytes;
  staged.sum = read.sum;
  const std::optional<Read> now = find(dataset, sample);
  const bool stays = now && now->piece.offset == read.piece.offset && now->sum == read.sum;
  return stays && is_sound(dataset, staged, result);
}

std::optional<SpillTier::Write> SpillTier::write(DatasetId dataset, const StagedSample& sample) {
  const auto writing = file_->begin(dataset, sample.sample, sample.bytes);
  if (!writing) {
    if (sample.bytes > 0) ++not_kept_;
    return std::nullopt;
  }
  Write write;
  write.entry = writing->entry;
  write.piece.fd = file_->descriptor();
  write.piece.write = true;
  write.piece.offset = writing->offset;
  write.piece.bytes = sample.bytes;
  return write;
}

void SpillTier::written(DatasetId dataset, const StagedSample& sample,
                        const storage::ReadResult& result, bool dropped) {
  if (dropped) file_->drop(dataset, sample.sample);
  file_->end(sample.entry, result.sum, result.error);
  report_change();
}

void SpillTier::report_change() {
  const auto change = file_->take_change();
  if (!change) return;
  context_.inbox.add(engine::CapacityChanged{{context_.node, Tier::nvme, 0}, change->capacity});
  if (!context_.say) return;
  context_.say(change->capacity == 0
                   ? fmt::format("spill: {}; the tier is given up, its samples are read from "
                                 "their source again; free or replace the disk and start anew",
                                 change->why)
                   : fmt::format("spill: {}; the tier shrinks to {} MiB; give the disk room, or "
                                 "the service less of it (--spill)",
                                 change->why, change->capacity >> 20));
}

}  // namespace batchflow::service
