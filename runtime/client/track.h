// The position of a job after the batches that a loader has given, as one rank works it out.
//
// With several ranks, the record of a batch also names the slices of the other ranks in its
// training step. Where these do not fit into a record, the position is not known from then on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/order/position.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/records.h"

namespace batchflow::client {

class Track {
 public:
  // Begins where the admission says. None, with the reason in `problem`, if that is no position.
  static std::optional<Track> begin(const protocol::JoinRequest& request,
                                    const protocol::JoinAnswer& admission, std::string& problem);

  // Adds a batch; `slices` are those of its training step, and `indices` those of its samples, if a
  // policy chooses them. Answers what is wrong with it (it was given before, or is out of turn);
  // empty: nothing.
  [[nodiscard]] std::string give(const protocol::BatchRecord& batch,
                                 std::span<const order::Slice> slices,
                                 std::span<const std::uint64_t> indices = {});
  // Of a mixture: other weights, from a draw on that is to come.
  [[nodiscard]] std::string change(const order::MixtureChange& change);
  // The weights to come that `before`, which is of the same samples, does not know of.
  std::vector<order::MixtureChange> changes_beside(const Track& before) const;
  // Whether the position is known.
  bool is_known() const { return known_; }
  const order::Position& position() const { return position_; }
  // The samples given in this epoch to all ranks, without fillers.
  std::uint64_t samples_in_epoch() const { return known_ ? position_.consumed() : counted_; }
  std::uint32_t epoch() const { return known_ ? position_.epoch() : epoch_; }

 private:
  // Begins what the batch is the first of: rehearsal, draws, a generation.
  std::string begin_parts(const protocol::BatchRecord& batch, std::span<const order::Slice> slices);

  order::Position position_;
  std::uint32_t ranks_ = 1;
  bool known_ = true;  // every batch could be described
  std::uint32_t epoch_ = 0;
  std::uint64_t counted_ = 0;
};

}  // namespace batchflow::client
