// A dataset that a test makes up, as an index would tell of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/sources/sample_index.h"

namespace batchflow::test {

class FakeDataset : public sources::SampleIndex {
 public:
  FakeDataset(sources::RecordKind kind, batch::BatchSpec fields, std::vector<Bytes> bytes,
              bool labelled = true)
      : kind_(kind), fields_(std::move(fields)), bytes_(std::move(bytes)) {
    if (labelled) classes_ = {"a", "b"};
  }
  const std::string& name() const override { return name_; }
  Digest version() const override { return 1; }
  sources::RecordKind kind() const override { return kind_; }
  std::uint64_t samples() const override { return bytes_.size(); }
  const batch::BatchSpec& stored_fields() const override { return fields_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  sources::Extent extent(SampleId sample) const override { return {0, 0, bytes_[sample.value]}; }
  std::optional<std::int64_t> label(SampleId) const override {
    return classes_.empty() ? std::nullopt : std::optional<std::int64_t>(1);
  }
  std::string sample_name(SampleId) const override { return "sample"; }
  std::uint32_t files() const override { return 1; }
  std::string_view path(std::uint32_t) const override { return "file"; }
  Bytes file_bytes(std::uint32_t) const override { return bytes_[0]; }
  engine::Catalogue catalogue() const override {
    return engine::Catalogue::uniform(name_, 1, bytes_.size(), bytes_[0]);
  }

 private:
  std::string name_ = "made-up";
  sources::RecordKind kind_;
  batch::BatchSpec fields_;
  std::vector<Bytes> bytes_;
  std::vector<std::string> classes_;
};

}  // namespace batchflow::test
