#include "core/order/position.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/order/permutation.h"
#include "core/order/position_problem.h"
#include "core/order/rehearsal.h"

namespace batchflow::order {
namespace {

using OpenLane = LanePosition::OpenLane;

// Of a mixture each sample of a slice is drawn: this bounds the work that a slice asks for.
constexpr std::uint64_t kDrawnSliceMost = 1 << 16;

// Of an order in which each epoch is a generation, block after block.
bool is_in_sequence(const Position::Fields& fields) {
  return fields.order == Order::strict || fields.order == Order::sequential || fields.chosen;
}

// Why a slice is not of a block of the generation; empty if it is.
std::string name_problem(const LanePosition& lanes, const Slice& slice) {
  const BlockName& name = slice.name;
  if (name.generation != lanes.generation) {
    return fmt::format("a slice of generation {} in generation {}", name.generation,
                       lanes.generation);
  }
  if (name.lane < lanes.had.size() && name.block < lanes.sizes.blocks_of(name.lane) &&
      slice.to <= lanes.sizes.samples_of(name.lane, name.block)) {
    return "";
  }
  return fmt::format("block {} of lane {} does not have samples up to {}", name.block, name.lane,
                     slice.to);
}

// Why a block of this pass cannot be used: an epoch has each lane in one fresh pass. Empty if it
// can.
std::string pass_problem(const LanePosition& lanes, const BlockName& name) {
  if (lanes.had.test(name.lane)) return fmt::format("lane {} was had already", name.lane);
  if (const OpenLane* open = lanes.find_open(name.lane)) {
    if (open->pass == name.pass && !open->had.test(name.block)) return "";
    return fmt::format("block {} of pass {} of lane {} is not what is open", name.block, name.pass,
                       name.lane);
  }
  if (name.pass < lanes.passes[name.lane] || name.pass >= Position::kPassesMost) {
    return fmt::format("pass {} of lane {} is not fresh", name.pass, name.lane);
  }
  return lanes.open.size() == Position::kOpenLanesMost ? "too many open lanes" : "";
}

// Why it is not the turn of these samples: the parts of a block are used from its first on.
std::string turn_problem(const Position::Fields& fields, const Slice& slice) {
  const BlockName& name = slice.name;
  const Position::PartBlock* part = fields.find_part(name.lane, name.block);
  if (slice.from != (part != nullptr ? part->used : 0)) {
    return fmt::format("samples of block {} of lane {} are out of turn", name.block, name.lane);
  }
  const bool whole = slice.to == fields.lanes.sizes.samples_of(name.lane, name.block);
  const bool full = fields.part_blocks.size() == Position::kPartBlocksMost;
  return !whole && part == nullptr && full ? "too many partly used blocks" : "";
}

void finish_block(LanePosition& lanes, OpenLane& open, std::uint32_t block) {
  open.had.set(block);
  // Most lanes are used nearly in turn: as long as the last bit is missing, the others need no
  // count.
  if (open.had.test(open.had.size() - 1) && open.had.all()) {
    lanes.had.set(open.lane);
    lanes.open.erase(lanes.open.begin() + (&open - lanes.open.data()));
  }
}

// The usual case: all of a block of an open lane, while no block is used in part. False: it is
// another case, or not in order, and nothing was changed.
bool use_whole(Position::Fields& fields, const Slice& slice) {
  LanePosition& lanes = fields.lanes;
  const BlockName& name = slice.name;
  OpenLane* open = lanes.find_open(name.lane);
  if (open == nullptr || !fields.part_blocks.empty() || name.generation != lanes.generation ||
      name.pass != open->pass || name.block >= open->had.size() || open->had.test(name.block) ||
      slice.from != 0 || slice.to != lanes.sizes.samples_of(name.lane, name.block)) {
    return false;
  }
  finish_block(lanes, *open, name.block);
  return true;
}

}  // namespace

Position::Position(Order order, Digest dataset_version, std::uint64_t samples, std::uint64_t seed,
                   std::uint32_t epoch) {
  BF_CHECK(samples <= kSamplesMost);
  fields_.order = order;
  fields_.dataset_version = dataset_version;
  fields_.samples = samples;
  fields_.seed = seed;
  fields_.epoch = epoch;
}

Position Position::chosen(Digest dataset_version, std::uint64_t samples, std::uint64_t seed,
                          std::uint32_t epoch) {
  Position position(Order::relaxed, dataset_version, samples, seed, epoch);
  position.fields_.chosen = true;
  return position;
}

Position Position::mixed(Mixing mixing, Digest dataset_version, std::uint64_t samples,
                         std::uint64_t seed, std::uint64_t draws) {
  BF_CHECK(draws > 0 && draws <= kSamplesMost);
  Position position(Order::mixed, dataset_version, samples, seed);
  position.fields_.draws = draws;
  position.fields_.mixing = std::move(mixing);
  return position;
}

Position Position::live(Digest dataset_version, std::uint64_t samples, std::uint64_t seed,
                        std::uint64_t first) {
  BF_CHECK(first <= samples);
  Position position(Order::live, dataset_version, samples, seed);
  position.fields_.first = first;
  return position;
}

std::optional<Position> Position::from(Fields fields, std::string& problem) {
  problem = position_problem(fields);
  if (!problem.empty()) return std::nullopt;
  Position position;
  position.fields_ = std::move(fields);
  return position;
}

std::uint64_t Position::Fields::consumed_most() const {
  if (order == Order::live) return samples - first;
  if (is_drawn(order)) return draws;
  if (order == Order::listed) return UINT64_MAX;
  if (order == Order::relaxed && lanes.sizes.samples == 0 && !chosen) return 0;
  return samples;
}

const Position::PartBlock* Position::Fields::find_part(std::uint32_t lane,
                                                       std::uint32_t block) const {
  const auto found =
      std::find_if(part_blocks.begin(), part_blocks.end(),
                   [&](const PartBlock& part) { return part.lane == lane && part.block == block; });
  return found == part_blocks.end() ? nullptr : &*found;
}

std::uint64_t Position::epoch_samples() const {
  if (fields_.order == Order::live) return fields_.samples - fields_.first;
  return is_drawn(fields_.order) ? fields_.draws : fields_.samples;
}

std::uint32_t Position::samples_had(std::uint32_t lane, std::uint32_t block) const {
  const LanePosition& lanes = fields_.lanes;
  BF_CHECK(lane < lanes.had.size() && block < lanes.sizes.blocks_of(lane));
  const std::uint32_t whole = lanes.sizes.samples_of(lane, block);
  if (lanes.had.test(lane)) return whole;
  const OpenLane* open = lanes.find_open(lane);
  if (open == nullptr) return 0;
  if (open->had.test(block)) return whole;
  const PartBlock* part = fields_.find_part(lane, block);
  return part == nullptr ? 0 : part->used;
}

std::uint32_t Position::repeats(const Slice& slice, const LaneSizes& sizes) const {
  if (slice.filler || slice.rehearsed) return 0;
  const std::uint32_t count = slice.to - slice.from;
  const BlockName& name = slice.name;
  // How many of `had` samples lie in the slice, which begins at `from`.
  const auto within = [&](std::uint64_t had, std::uint64_t from) {
    return had <= from ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(had - from, count));
  };
  if (is_in_sequence(fields_)) {
    if (name.generation != fields_.epoch) return name.generation < fields_.epoch ? count : 0;
    const std::uint64_t block = sizes.first_block_of(name.lane) + name.block;
    return within(fields_.consumed, block * sizes.block_samples + slice.from);
  }
  const LanePosition& lanes = fields_.lanes;
  if (fields_.order != Order::relaxed || !has_generation()) return 0;
  if (name.generation != lanes.generation) return name.generation < lanes.generation ? count : 0;
  if (name.lane >= lanes.passes.size() || name.pass >= lanes.passes[name.lane]) return 0;
  const OpenLane* open = lanes.find_open(name.lane);
  if (open == nullptr || open->pass != name.pass) return count;
  return name.block < open->had.size() ? within(samples_had(name.lane, name.block), slice.from) : 0;
}

std::string Position::apply(std::span<const Slice> slices, std::span<const std::uint64_t> indices) {
  if (fields_.chosen || !indices.empty()) {
    if (std::string problem = take(slices, indices); !problem.empty()) return problem;
  }
  for (const Slice& slice : slices) {
    if (slice.filler) continue;
    if (std::string problem = apply_one(slice); !problem.empty()) return problem;
  }
  return "";
}

std::string Position::apply_one(const Slice& slice) {
  if (slice.from >= slice.to) return "a slice without samples";
  if (slice.rehearsed) return apply_rehearsed(slice);
  const std::uint64_t count = slice.to - slice.from;
  if (count > fields_.consumed_most() - fields_.consumed) {
    return fmt::format("{} samples more than the epoch has left",
                       count - (fields_.consumed_most() - fields_.consumed));
  }
  if (fields_.mixing && count > kDrawnSliceMost) return "a slice that is longer than any block";
  if (is_in_sequence(fields_) && slice.name.generation != fields_.epoch) {
    return fmt::format("a slice of epoch {} in epoch {}", slice.name.generation, fields_.epoch);
  }
  if (fields_.order == Order::relaxed && !fields_.chosen) {
    if (std::string problem = apply_relaxed(slice); !problem.empty()) return problem;
  }
  fields_.consumed += count;
  for (std::uint64_t i = 0; fields_.mixing && i < count; ++i) fields_.mixing->take();
  return "";
}

std::string Position::apply_rehearsed(const Slice& slice) {
  if (fields_.buffer == 0 && fields_.order != Order::live)
    return "a rehearsed slice, and no buffer";
  const std::uint32_t count = slice.to - slice.from;
  if (count > kSamplesMost - fields_.rehearsed) return "more is rehearsed than can be";
  fields_.rehearsed += count;
  return "";
}

// Nothing is changed if one of the indices was had, or cannot be.
std::string Position::take(std::span<const Slice> slices, std::span<const std::uint64_t> indices) {
  if (!fields_.chosen) return "chosen samples in an order that has none";
  std::uint64_t samples = 0;
  for (const Slice& slice : slices) {
    if (!slice.filler && !slice.rehearsed && slice.from < slice.to)
      samples += slice.to - slice.from;
  }
  if (samples != indices.size())
    return fmt::format("{} samples are said to be chosen, of {}", indices.size(), samples);
  const std::vector<std::uint64_t>& before = fields_.left_out;
  std::vector<std::uint64_t> left;
  std::size_t at = 0;                                    // of those left out before
  std::uint64_t end = fields_.consumed + before.size();  // behind the last that was had
  std::uint64_t least = 0;
  for (const std::uint64_t index : indices) {
    if (index >= fields_.samples || index < least)
      return fmt::format("index {} is not one of {} in ascending order", index, fields_.samples);
    least = index + 1;
    for (; at < before.size() && before[at] < index; ++at) left.push_back(before[at]);
    if (index < end) {
      if (at == before.size() || before[at] != index)
        return fmt::format("the sample at index {} was had already", index);
      ++at;
      continue;
    }
    if (index - end > kLeftOutMost || left.size() + (index - end) > kLeftOutMost)
      return "too many samples are left out";
    for (; end < index; ++end) left.push_back(end);
    end = index + 1;
  }
  left.insert(left.end(), before.begin() + static_cast<std::ptrdiff_t>(at), before.end());
  fields_.left_out = std::move(left);
  return "";
}

// All checks come before the first change.
std::string Position::apply_relaxed(const Slice& slice) {
  if (use_whole(fields_, slice)) return "";
  std::string problem = name_problem(fields_.lanes, slice);
  if (problem.empty()) problem = pass_problem(fields_.lanes, slice.name);
  if (problem.empty()) problem = turn_problem(fields_, slice);
  if (problem.empty()) use(slice);
  return problem;
}

void Position::use(const Slice& slice) {
  LanePosition& lanes = fields_.lanes;
  const BlockName& name = slice.name;
  OpenLane* open = lanes.find_open(name.lane);
  if (open == nullptr) {
    lanes.passes[name.lane] = static_cast<std::uint8_t>(name.pass + 1);
    lanes.open.push_back({name.lane, name.pass, Bitmap(lanes.sizes.blocks_of(name.lane))});
    open = &lanes.open.back();
  }
  auto& parts = fields_.part_blocks;
  PartBlock* part = fields_.find_part(name.lane, name.block);
  if (slice.to < lanes.sizes.samples_of(name.lane, name.block)) {
    if (part == nullptr) {
      parts.push_back({name.lane, name.block, slice.to});
    } else {
      part->used = slice.to;
    }
    return;
  }
  if (part != nullptr) parts.erase(parts.begin() + (part - parts.data()));
  finish_block(lanes, *open, name.block);
}

void Position::finish_epoch() {
  ++fields_.epoch;
  if (fields_.order == Order::live) fields_.first += fields_.consumed;
  fields_.consumed = 0;
  fields_.lanes.had = Bitmap(fields_.lanes.had.size());
  fields_.lanes.open.clear();
  fields_.part_blocks.clear();
  fields_.left_out.clear();
  fields_.weights = 0;
  if (fields_.order != Order::mixed) fields_.draws = 0;
  fields_.buffer = 0;
  fields_.rehearsed = 0;
}

bool Position::rehearse(Digest buffer) {
  if (buffer != 0 && !may_rehearse(fields_.order)) return false;
  fields_.buffer = buffer;
  return true;
}

void Position::begin_generation(std::uint64_t generation, std::uint32_t block_samples,
                                std::uint32_t lane_blocks) {
  const LaneSizes sizes{fields_.samples, block_samples, lane_blocks};
  BF_CHECK(fields_.order == Order::relaxed && fields_.consumed == 0 && is_sane(sizes));
  BF_CHECK(!has_generation() || generation > fields_.lanes.generation);
  fields_.lanes.generation = generation;
  fields_.lanes.sizes = sizes;
  fields_.lanes.passes.assign(sizes.lanes(), 0);
  fields_.lanes.had = Bitmap(sizes.lanes());
}

void Position::begin_draws(Digest weights, std::uint64_t draws) {
  BF_CHECK(fields_.order == Order::weighted && draws <= kSamplesMost);
  if (fields_.weights == weights && fields_.draws == draws) return;
  *this = Position(fields_.order, fields_.dataset_version, fields_.samples, fields_.seed,
                   fields_.epoch);
  fields_.weights = weights;
  fields_.draws = draws;
}

std::string Position::change(MixtureChange change) {
  if (!fields_.mixing) return "weights of sources in an order that has none";
  std::string problem = fields_.mixing->problem_of(change);
  if (problem.empty()) fields_.mixing->change(std::move(change));
  return problem;
}

std::string Position::mismatch(Digest dataset_version, std::uint64_t samples,
                               std::uint64_t seed) const {
  if (fields_.dataset_version != dataset_version) {
    return fmt::format("the position is of dataset version {:016x}, the job reads {:016x}",
                       fields_.dataset_version, dataset_version);
  }
  if (fields_.samples != samples) {
    return fmt::format("the position is of {} samples, the job reads {}", fields_.samples, samples);
  }
  if (fields_.seed != seed) {
    return fmt::format(
        "the position is of seed {}, the job has seed {}: they follow from shuffle_seed, from the "
        "user, and from whether runs are shuffled",
        fields_.seed, seed);
  }
  return "";
}

}  // namespace batchflow::order
