// Which fields the samples of a dataset have, where nothing says so beforehand: in tars and
// TFRecords, each sample has the parts that it has. Learned while they are indexed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/batch/batch_spec.h"

namespace batchflow {

class FieldsSeen {
 public:
  // Of the next sample, its parts in turn. Of several of one name, the first is the value.
  void begin_sample() { ++samples_; }
  void add(std::string_view name, ElementType type, std::uint64_t elements);

  // In ascending order of names: a field each, dense where all samples have it, and as many of it;
  // else ragged, with no rows where a sample has none. Empty, and `problem` says why, where samples
  // have parts that are no fields of one batch.
  BatchSpec fields(std::string& problem) const;

 private:
  struct Seen {
    ElementType type = ElementType::u8;
    std::uint64_t least = UINT64_MAX;
    std::uint64_t most = 0;
    std::uint64_t samples = 0;
    std::uint64_t last = 0;  // that had it, counted from 1
  };
  std::map<std::string, Seen, std::less<>> names_;
  std::uint64_t samples_ = 0;
  std::string problem_;
};

}  // namespace batchflow
