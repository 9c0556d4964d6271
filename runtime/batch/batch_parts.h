// Lists the memory pieces of some samples of a block, in order, so that a socket can send them as a
// block without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "runtime/batch/batch_spec.h"

namespace batchflow::batch {

class BatchParts {
 public:
  // The pieces of samples [from, to) of `slot`, which outlives this. `to_layout` is the layout of
  // `to - from` samples. Together they are what copy_samples makes in memory of zeros.
  BatchParts(const BlockLayout& layout, const std::byte* slot, std::uint32_t from, std::uint32_t to,
             const BlockLayout& to_layout);
  BatchParts(const BatchParts&) = delete;

  std::span<const std::span<const std::byte>> parts() const { return parts_; }

 private:
  using Piece = std::span<const std::byte>;

  void add_field(const BlockLayout::FieldLayout& source, const BlockLayout::FieldLayout& target);
  // Adds zeros up to `at`, and then the bytes.
  void add(Bytes at, Piece bytes);
  void add_zeros(Bytes end);

  const std::byte* const slot_;
  const std::uint32_t from_, to_;
  std::vector<Piece> parts_;
  std::deque<std::vector<std::byte>> made_;  // offsets, which begin anew
  Bytes end_ = 0;                            // of what is there so far
};

}  // namespace batchflow::batch
