// A feed as a dataset: record n is sample n. The index grows while it is used.
//
// It has as many samples as a feed may ever have. The engine asks only for those that have come.
// Where the log is on another node, a record counts as large as it may be, and has no class, until
// that node has sent it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/feeds/feed_log.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::feeds {

class FeedIndex final : public sources::SampleIndex {
 public:
  FeedIndex(std::string name, std::shared_ptr<FeedLog> log);
  // The index of a feed with its log on another node.
  FeedIndex(std::string name, FeedSettings settings);

  // Null: it is on another node.
  const std::shared_ptr<FeedLog>& log() const { return log_; }
  const FeedSettings& settings() const { return settings_; }

  const std::string& name() const override { return name_; }
  Digest version() const override;
  sources::RecordKind kind() const override { return sources::RecordKind::value; }
  std::uint64_t samples() const override;
  const batch::BatchSpec& stored_fields() const override { return fields_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  // A record that is gone has no bytes, and cannot be read.
  sources::Extent extent(SampleId sample) const override;
  std::optional<std::int64_t> label(SampleId sample) const override;
  std::string sample_name(SampleId sample) const override;
  std::uint32_t files() const override { return UINT32_MAX; }
  std::string_view path(std::uint32_t file) const override {
    return log_ ? log_->file_name(file) : std::string_view("");
  }
  Bytes file_bytes(std::uint32_t file) const override { return log_ ? log_->file_bytes(file) : 0; }
  engine::Catalogue catalogue() const override;
  std::vector<std::string> notes() const override;

 protected:
  std::optional<sources::IndexSums> known_sums() const override;

 private:
  void add_fields();

  const std::string name_;
  const FeedSettings settings_;
  const std::shared_ptr<FeedLog> log_;
  batch::BatchSpec fields_;
  std::vector<std::string> classes_;
};

// The feed in the folder, with its log opened. Throws FeedError.
std::shared_ptr<FeedIndex> open_feed(std::string name, const std::string& folder);

}  // namespace batchflow::feeds
