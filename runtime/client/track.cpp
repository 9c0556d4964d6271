#include "runtime/client/track.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/order/permutation.h"
#include "core/order/position_json.h"

namespace batchflow::client {

std::optional<Track> Track::begin(const protocol::JoinRequest& request,
                                  const protocol::JoinAnswer& admission, std::string& problem) {
  Track track;
  track.ranks_ = request.world_size;
  if (admission.dataset_samples > order::kSamplesMost) {
    problem = fmt::format("a dataset of {} samples is too large", admission.dataset_samples);
    return std::nullopt;
  }
  track.position_ = order::Position(request.order, admission.dataset_version,
                                    admission.dataset_samples, admission.seed);
  const std::string& state = admission.state.empty() ? request.state : admission.state;
  if (!state.empty()) {
    auto position = order::position_from_json(state, problem);
    if (!position) return std::nullopt;
    problem =
        position->mismatch(admission.dataset_version, admission.dataset_samples, admission.seed);
    if (problem.empty() && position->order() != request.order)
      problem = "the state is of another order than the job";
    if (!problem.empty()) return std::nullopt;
    track.position_ = std::move(*position);
  }
  return track;
}

std::string Track::begin_parts(const protocol::BatchRecord& batch,
                               std::span<const order::Slice> slices) {
  if (!position_.rehearse(batch.rehearsed != 0 ? batch.drawn_from : 0))
    return "rehearsed samples in an order that has none";
  const auto own = std::find_if(slices.begin(), slices.end(), [](const order::Slice& slice) {
    return !slice.filler && !slice.rehearsed;
  });
  if (own == slices.end()) return "";
  if (position_.order() == Order::weighted) {
    if (batch.draws == 0 || batch.draws > order::kSamplesMost)
      return fmt::format("an epoch of {} draws", batch.draws);
    position_.begin_draws(batch.drawn_from, batch.draws);
  }
  if (position_.consumed() != 0) return "";
  if (position_.order() != Order::relaxed || position_.is_chosen()) return "";
  const std::uint64_t generation = own->name.generation;
  if (position_.has_generation() && generation <= position_.lanes().generation) return "";
  if (!order::is_sane({position_.fields().samples, batch.block_samples, batch.lane_blocks}))
    return fmt::format("blocks of {} and lanes of {}", batch.block_samples, batch.lane_blocks);
  position_.begin_generation(generation, batch.block_samples, batch.lane_blocks);
  return "";
}

std::string Track::give(const protocol::BatchRecord& batch, std::span<const order::Slice> slices,
                        std::span<const std::uint64_t> indices) {
  if (batch.epoch != epoch()) {
    return fmt::format("a batch of epoch {} came in epoch {}", batch.epoch, epoch());
  }
  if (known_ && batch.whole_step == 0) {
    known_ = false;
    epoch_ = position_.epoch();
    counted_ = position_.consumed();
  }
  if (known_) {
    std::string problem = begin_parts(batch, slices);
    if (problem.empty()) problem = position_.apply(slices, indices);
    if (problem.empty() && batch.last_of_epoch != 0) position_.finish_epoch();
    return problem;
  }
  counted_ += std::uint64_t{batch.samples - batch.fillers - batch.rehearsed} * ranks_;
  if (batch.last_of_epoch != 0) {
    counted_ = 0;
    ++epoch_;
  }
  return "";
}

std::string Track::change(const order::MixtureChange& change) {
  return known_ ? position_.change(change) : "";
}

std::vector<order::MixtureChange> Track::changes_beside(const Track& before) const {
  const auto& now = position_.fields().mixing;
  const auto& then = before.position_.fields().mixing;
  std::vector<order::MixtureChange> added;
  if (!now || !then) return added;
  const std::vector<order::MixtureChange> known = then->fields().changes;
  auto next = known.begin();
  for (const order::MixtureChange& change : now->fields().changes) {
    if (next != known.end() && next->at == change.at && next->parts == change.parts) {
      ++next;
    } else {
      added.push_back(change);
    }
  }
  return added;
}

}  // namespace batchflow::client
