// Where a job is after the batches a loader has given: core's Position, fed with what one rank
// sees.
//
// With several ranks, all are given equal counts, so that in the strict and sequential orders one
// rank knows what the others had. In the others it does not, and the job's state is the service's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/position.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/records.h"

namespace batchflow {

class Track {
 public:
  // Begins where the admission says. Leaves the reason in `problem` if nobody can be there.
  static std::optional<Track> begin(const JoinRequest& request, const JoinAnswer& admission,
                                    std::string& problem);

  // A batch is given. What is wrong with it (it was given before, it is out of turn), or empty.
  [[nodiscard]] std::string give(const BatchRecord& batch, std::span<const Slice> slices);
  // Whether one rank knows the job's position.
  bool is_known() const { return known_; }
  const Position& position() const { return position_; }
  // In this epoch, all ranks, fillers apart.
  std::uint64_t samples_in_epoch() const { return known_ ? position_.consumed() : counted_; }
  std::uint32_t epoch() const { return known_ ? position_.epoch() : epoch_; }

 private:
  std::string begin_what_is_new(const BatchRecord& batch, std::span<const Slice> slices);

  Position position_;
  std::uint32_t ranks_ = 1;
  bool known_ = true;
  std::uint32_t epoch_ = 0;
  std::uint64_t counted_ = 0;
};

}  // namespace batchflow
