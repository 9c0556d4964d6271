// Reads every sample of a dataset and finds those that are not what they should be: checksums that
// do not fit, records that cannot be taken apart, JPEG and PNG pictures that do not decode.
//
// What cannot be read is told apart from what is damaged: the one may be there again tomorrow, the
// other is not. Memory is bounded whatever the dataset holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/ctl/dataset_place.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::ctl {

struct VerifyOptions {
  unsigned threads = 1;
  std::size_t findings_most = 10'000;  // that are told; all are counted
  std::function<bool()> stop;          // asked ten times a second
  IndexProgress progress;
};

struct Finding {
  enum class What : std::uint8_t { corrupt, unreadable };
  std::uint64_t key = 0;
  What what = What::corrupt;
  std::string name;
  std::string why;
};

struct VerifyReport {
  std::uint64_t samples = 0;  // looked at
  Bytes bytes = 0;
  std::uint64_t checksums = 0;  // samples with one that fits
  std::uint64_t pictures = 0;   // decoded
  std::uint64_t corrupt = 0;
  std::uint64_t unreadable = 0;
  std::vector<Finding> findings;  // those with the smallest keys, in ascending order
  bool stopped = false;
  bool sound() const { return corrupt == 0 && unreadable == 0 && !stopped; }
};

// `root` is the dataset's folder, open. A read that fails is tried three times.
VerifyReport verify_dataset(const SampleIndex& index, int root, const VerifyOptions& options);
// The same for somebody who waits for it: with a bar of progress. Throws Interrupted.
VerifyReport verify_dataset(const OpenedDataset& data, const std::string& called,
                            VerifyOptions options);

}  // namespace batchflow::ctl
