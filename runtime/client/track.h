// Where a job is after the batches a loader has given: core's Position, fed with what one rank
// sees.
//
// With several ranks, a batch says what the others have of its step. Where that does not fit into a
// record, the position is known no longer.
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

  // A batch is given, `slices` are those of its step. What is wrong with it (it was given before,
  // it is out of turn), or empty.
  [[nodiscard]] std::string give(const BatchRecord& batch, std::span<const Slice> slices);
  // Whether the position is that of the job.
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
