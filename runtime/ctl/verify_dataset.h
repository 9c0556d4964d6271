// Reads every sample of a dataset and finds corrupt ones: checksums that do not fit, records
// without their parts, pictures and sounds that cannot be decoded; and what a pipeline cannot
// prepare, such as masks and boxes of its fields.
//
// A sample that cannot be read is not called corrupt, since it may be readable later. Memory is
// bounded, whatever the dataset holds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/ctl/dataset_path.h"
#include "runtime/prepare/picture_kinds.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::ctl {

struct VerifyOptions {
  unsigned threads = 1;
  std::size_t findings_most = 10'000;  // that are listed; all are counted
  std::function<bool()> stop;          // called ten times a second
  sources::IndexProgress progress;
  std::span<const prepare::PictureKind> kinds = prepare::picture_kinds();  // that are decoded
  const prepare::Pipeline* pipeline = nullptr;  // by which each sample is prepared, too
};

struct Finding {
  enum class What : std::uint8_t { corrupt, unreadable };
  std::uint64_t key = 0;
  What what = What::corrupt;
  std::string name;
  std::string why;
};

struct VerifyReport {
  std::uint64_t samples = 0;  // that were read
  Bytes bytes = 0;
  std::uint64_t checksums = 0;  // samples with a checksum that fits
  std::uint64_t pictures = 0;   // decoded
  std::uint64_t sounds = 0;     // decoded
  std::uint64_t prepared = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t unreadable = 0;
  std::vector<Finding> findings;  // those with the smallest keys, in ascending order
  bool stopped = false;           // not all samples were looked at
  bool sound() const { return corrupt == 0 && unreadable == 0 && !stopped; }
};

// `root`: where the files of the index are. A read that fails is tried three times.
VerifyReport verify_dataset(const sources::SampleIndex& index, const sources::DataRoot& root,
                            const VerifyOptions& options);
// The same for a person who waits for it, with a bar of progress. Throws Interrupted.
VerifyReport verify_dataset(const OpenedDataset& data, const std::string& called,
                            VerifyOptions options);

}  // namespace batchflow::ctl
