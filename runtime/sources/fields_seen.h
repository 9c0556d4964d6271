// Finds out which fields the samples of a dataset have, while it is indexed. Tars and TFRecords do
// not say it beforehand, and each of their samples may have other parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/batch/batch_spec.h"

namespace batchflow::sources {

class FieldsSeen {
 public:
  // Call begin_sample() for each sample, then add() for each of its parts. Of several parts of one
  // name the first counts.
  void begin_sample() { ++samples_; }
  void add(std::string_view name, batch::ElementType type, std::uint64_t elements);

  // A field for each name, in ascending order of names. It is dense where all samples have the part
  // with the same number of elements; else it is ragged, with no rows in a sample without the part.
  // Empty, with the reason in `problem`, where the parts cannot be fields of one batch.
  batch::BatchSpec fields(std::string& problem) const;

 private:
  struct Seen {
    batch::ElementType type = batch::ElementType::u8;
    std::uint64_t least = UINT64_MAX;
    std::uint64_t most = 0;
    std::uint64_t samples = 0;
    std::uint64_t last = 0;  // the last sample that had it, counted from 1
  };
  std::map<std::string, Seen, std::less<>> names_;
  std::uint64_t samples_ = 0;
  std::string problem_;
};

}  // namespace batchflow::sources
