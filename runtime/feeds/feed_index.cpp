#include "runtime/feeds/feed_index.h"

#include <fmt/format.h>

#include <utility>

#include "core/order/live_epoch.h"

namespace batchflow::feeds {

FeedIndex::FeedIndex(std::string name, std::shared_ptr<FeedLog> log)
    : name_(std::move(name)), settings_(log->settings()), log_(std::move(log)) {
  add_fields();
}

FeedIndex::FeedIndex(std::string name, FeedSettings settings)
    : name_(std::move(name)), settings_(std::move(settings)) {
  add_fields();
}

void FeedIndex::add_fields() {
  fields_ = fields_of(settings_);
  // A value of any bytes is a ragged field of one dimension, as in a table.
  if (fields_.fields.empty())
    fields_.fields.push_back({"value", batch::ElementType::u8, {settings_.record_bytes}, true});
}

Digest FeedIndex::version() const {
  return version_of(settings_);
}

std::uint64_t FeedIndex::samples() const {
  return order::kLiveRecordsMost;
}

sources::Extent FeedIndex::extent(SampleId sample) const {
  if (!log_) return {0, 0, settings_.record_bytes};
  const auto place = log_->find(sample.value);
  if (!place) return {};
  return {place->file, place->offset, place->bytes};
}

std::optional<std::int64_t> FeedIndex::label(SampleId sample) const {
  if (!log_) return std::nullopt;
  const auto place = log_->find(sample.value);
  if (!place || place->label < 0) return std::nullopt;
  return place->label;
}

std::string FeedIndex::sample_name(SampleId sample) const {
  return fmt::format("record {}", sample.value);
}

engine::Catalogue FeedIndex::catalogue() const {
  return engine::Catalogue::uniform(name_, version(), samples(), settings_.record_bytes);
}

std::vector<std::string> FeedIndex::notes() const {
  std::vector<std::string> notes;
  if (log_ && log_->cut() > 0)
    notes.push_back(fmt::format(
        "{} bytes of records that were not acknowledged were cut from the end", log_->cut()));
  if (log_ && log_->has_forgotten())
    notes.emplace_back(
        "records that jobs rehearse were forgotten, since files of records have gone without them");
  return notes;
}

std::optional<sources::IndexSums> FeedIndex::known_sums() const {
  sources::IndexSums sums;
  sums.largest = settings_.record_bytes;
  sums.total = sums.largest * samples();
  sums.labelled = settings_.labelled ? samples() : 0;
  return sums;
}

std::shared_ptr<FeedIndex> open_feed(std::string name, const std::string& folder) {
  return std::make_shared<FeedIndex>(std::move(name),
                                     std::make_shared<FeedLog>(folder, read_settings(folder)));
}

}  // namespace batchflow::feeds
