#include "core/order/position.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/order/permutation.h"
#include "core/order/position_forms.h"
#include "core/order/rehearsal.h"

namespace batchflow::order {
namespace {

using OpenLane = LanePosition::OpenLane;

// Of a mixture each sample of a slice is drawn: this bounds the work that a slice asks for.
constexpr std::uint64_t kDrawnSliceMost = 1 << 16;

// The lane's entry in `lanes.open`, or null. `Lanes`: LanePosition, const or not.
template <class Lanes>
auto* find_open(Lanes& lanes, std::uint32_t lane) {
  const auto found = std::find_if(lanes.open.begin(), lanes.open.end(),
                                  [&](const OpenLane& open) { return open.lane == lane; });
  return found == lanes.open.end() ? nullptr : &*found;
}

template <class PartBlocks>
auto find_part(PartBlocks& parts, std::uint32_t lane, std::uint32_t block) {
  return std::find_if(parts.begin(), parts.end(), [&](const Position::PartBlock& part) {
    return part.lane == lane && part.block == block;
  });
}

std::string open_lane_problem(const Position::Fields& fields, const OpenLane& open) {
  const LanePosition& lanes = fields.lanes;
  if (open.lane >= lanes.sizes.lanes()) return fmt::format("there is no lane {}", open.lane);
  if (find_open(lanes, open.lane) != &open) return fmt::format("lane {} is open twice", open.lane);
  if (lanes.had.test(open.lane)) return fmt::format("lane {} is open and finished", open.lane);
  if (lanes.passes[open.lane] != open.pass + 1) {
    return fmt::format("lane {} is open in pass {}, which is not its last", open.lane, open.pass);
  }
  if (open.had.size() != lanes.sizes.blocks_of(open.lane) || open.had.all()) {
    return fmt::format("the bitmap of open lane {} is not that of an unfinished lane", open.lane);
  }
  const bool begun =
      !open.had.none() || std::any_of(fields.part_blocks.begin(), fields.part_blocks.end(),
                                      [&](const auto& p) { return p.lane == open.lane; });
  return begun ? "" : fmt::format("lane {} is open, but nothing of it was had", open.lane);
}

std::string part_block_problem(const Position::Fields& fields, const Position::PartBlock& part) {
  const LanePosition& lanes = fields.lanes;
  const OpenLane* open = find_open(lanes, part.lane);
  if (open == nullptr || part.block >= open->had.size() || open->had.test(part.block)) {
    return fmt::format("block {} of lane {} cannot be partly used", part.block, part.lane);
  }
  if (part.used == 0 || part.used >= lanes.sizes.samples_of(part.lane, part.block)) {
    return fmt::format("{} samples are not a part of block {} of lane {}", part.used, part.block,
                       part.lane);
  }
  if (&*find_part(fields.part_blocks, part.lane, part.block) != &part) {
    return fmt::format("block {} of lane {} is partly used twice", part.block, part.lane);
  }
  return "";
}

// How many samples the lanes, open lanes and parts of blocks add up to.
std::uint64_t samples_had_in(const Position::Fields& fields) {
  const LaneSizes& sizes = fields.lanes.sizes;
  std::uint64_t sum = 0;
  fields.lanes.had.for_each(
      [&](std::size_t lane) { sum += sizes.samples_of(static_cast<std::uint32_t>(lane)); });
  for (const OpenLane& open : fields.lanes.open) {
    open.had.for_each([&](std::size_t block) {
      sum += sizes.samples_of(open.lane, static_cast<std::uint32_t>(block));
    });
  }
  for (const Position::PartBlock& part : fields.part_blocks) sum += part.used;
  return sum;
}

std::string passes_problem(const LanePosition& lanes) {
  for (std::uint32_t lane = 0; lane < lanes.passes.size(); ++lane) {
    if (lanes.passes[lane] > Position::kPassesMost)
      return fmt::format("lane {}: too many passes", lane);
    if (lanes.passes[lane] == 0 && lanes.had.test(lane)) {
      return fmt::format("lane {} is finished without a pass", lane);
    }
  }
  return "";
}

std::string generation_problem(const Position::Fields& fields) {
  const LanePosition& lanes = fields.lanes;
  if (!is_sane(lanes.sizes) || lanes.sizes.samples != fields.samples) {
    return fmt::format("blocks of {} and lanes of {} do not cut {} samples",
                       lanes.sizes.block_samples, lanes.sizes.lane_blocks, fields.samples);
  }
  if (lanes.passes.size() != lanes.sizes.lanes() || lanes.had.size() != lanes.sizes.lanes()) {
    return fmt::format("passes or finished lanes are not for {} lanes", lanes.sizes.lanes());
  }
  if (lanes.open.size() > Position::kOpenLanesMost) return "too many open lanes";
  if (fields.part_blocks.size() > Position::kPartBlocksMost) return "too many partly used blocks";
  std::string problem = passes_problem(lanes);
  for (const OpenLane& open : lanes.open) {
    if (problem.empty()) problem = open_lane_problem(fields, open);
  }
  for (const Position::PartBlock& part : fields.part_blocks) {
    if (problem.empty()) problem = part_block_problem(fields, part);
  }
  if (!problem.empty()) return problem;
  if (!lanes.consistent(Position::kPassesMost)) return "lanes that no job can be at";
  const std::uint64_t had = samples_had_in(fields);
  if (had == fields.consumed) return "";
  return fmt::format("{} samples are said to be consumed, the lanes say {}", fields.consumed, had);
}

bool has_rehearsal(Order order) {
  return may_rehearse(order) || order == Order::live;  // which counts its fills so
}

bool has_no_lanes(const Position::Fields& fields) {
  const LanePosition& lanes = fields.lanes;
  return lanes.sizes.samples == 0 && lanes.generation == 0 && lanes.passes.empty() &&
         lanes.had.size() == 0 && lanes.open.empty() && fields.part_blocks.empty();
}

// Of an order in which each epoch is a generation, block after block.
bool is_in_sequence(const Position::Fields& fields) {
  return fields.order == Order::strict || fields.order == Order::sequential || fields.chosen;
}

std::uint64_t consumed_most(const Position::Fields& fields) {
  if (fields.order == Order::live) return fields.samples - fields.first;
  if (is_drawn(fields.order)) return fields.draws;
  if (fields.order == Order::listed) return UINT64_MAX;
  if (fields.order == Order::relaxed && fields.lanes.sizes.samples == 0 && !fields.chosen) return 0;
  return fields.samples;
}

std::string left_out_problem(const Position::Fields& fields) {
  const std::vector<std::uint64_t>& left = fields.left_out;
  if (!fields.chosen) return left.empty() ? "" : "samples left out in an order that has none";
  if (fields.order != Order::relaxed) return "chosen samples in an order that has none";
  if (left.size() > Position::kLeftOutMost) return "too many samples are left out";
  if (left.size() > fields.samples - fields.consumed) {
    return fmt::format("{} samples consumed and {} left out of {}", fields.consumed, left.size(),
                       fields.samples);
  }
  // Below the last that was had there are these and those that were had, and no others.
  const std::uint64_t end = fields.consumed + left.size();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] >= end - 1 || (i > 0 && left[i] <= left[i - 1]))
      return fmt::format("index {} cannot be left out", left[i]);
  }
  return "";
}

std::string mixing_problem(const Position::Fields& fields) {
  if (fields.order != Order::mixed) return fields.mixing ? "a mixture in another order" : "";
  if (!fields.mixing || fields.draws == 0) return "a mixed order without a mixture, or draws";
  if (fields.mixing->drawn() < fields.consumed)
    return fmt::format("{} samples consumed of {} that were drawn", fields.consumed,
                       fields.mixing->drawn());
  for (const SampleRange& source : fields.mixing->sources()) {
    if (source.first.value + source.samples > fields.samples)
      return fmt::format("a source ends behind the {} samples of the dataset", fields.samples);
  }
  return "";
}

std::string fields_problem(const Position::Fields& fields) {
  if (fields.samples > kSamplesMost || fields.draws > kSamplesMost) {
    return fmt::format("more than {} samples or draws", kSamplesMost);
  }
  if ((fields.order != Order::weighted && fields.weights != 0) ||
      ((!is_drawn(fields.order) || fields.order == Order::live) && fields.draws != 0)) {
    return "weights in an order that has none";
  }
  if (fields.first > (fields.order == Order::live ? fields.samples : 0))
    return fmt::format("an epoch that begins with record {}", fields.first);
  if (std::string problem = mixing_problem(fields); !problem.empty()) return problem;
  if (fields.order == Order::live && fields.buffer != 0) return "a buffer in a live order";
  const bool rehearses = fields.buffer != 0 || fields.rehearsed != 0;
  if (rehearses && !has_rehearsal(fields.order)) return "rehearsal in an order that has none";
  if (fields.rehearsed > kSamplesMost) {
    return fmt::format("{} samples are said to be rehearsed", fields.rehearsed);
  }
  if (fields.consumed > consumed_most(fields)) {
    return fmt::format("{} samples consumed of {}", fields.consumed, consumed_most(fields));
  }
  if (std::string problem = left_out_problem(fields); !problem.empty()) return problem;
  if (has_no_lanes(fields)) return "";
  if (fields.chosen) return "lanes of samples that are chosen";
  return fields.order == Order::relaxed ? generation_problem(fields)
                                        : "lanes in an order that has none";
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
  if (const OpenLane* open = find_open(lanes, name.lane)) {
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
  const auto part = find_part(fields.part_blocks, name.lane, name.block);
  const bool is_part = part != fields.part_blocks.end();
  if (slice.from != (is_part ? part->used : 0)) {
    return fmt::format("samples of block {} of lane {} are out of turn", name.block, name.lane);
  }
  const bool whole = slice.to == fields.lanes.sizes.samples_of(name.lane, name.block);
  const bool full = fields.part_blocks.size() == Position::kPartBlocksMost;
  return !whole && !is_part && full ? "too many partly used blocks" : "";
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
  OpenLane* open = find_open(lanes, name.lane);
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
  problem = fields_problem(fields);
  if (!problem.empty()) return std::nullopt;
  Position position;
  position.fields_ = std::move(fields);
  return position;
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
  const OpenLane* open = find_open(lanes, lane);
  if (open == nullptr) return 0;
  if (open->had.test(block)) return whole;
  const auto part = find_part(fields_.part_blocks, lane, block);
  return part == fields_.part_blocks.end() ? 0 : part->used;
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
  const OpenLane* open = find_open(lanes, name.lane);
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
  if (count > consumed_most(fields_) - fields_.consumed) {
    return fmt::format("{} samples more than the epoch has left",
                       count - (consumed_most(fields_) - fields_.consumed));
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
  OpenLane* open = find_open(lanes, name.lane);
  if (open == nullptr) {
    lanes.passes[name.lane] = static_cast<std::uint8_t>(name.pass + 1);
    lanes.open.push_back({name.lane, name.pass, Bitmap(lanes.sizes.blocks_of(name.lane))});
    open = &lanes.open.back();
  }
  auto& parts = fields_.part_blocks;
  const auto part = find_part(parts, name.lane, name.block);
  if (slice.to < lanes.sizes.samples_of(name.lane, name.block)) {
    if (part == parts.end()) {
      parts.push_back({name.lane, name.block, slice.to});
    } else {
      part->used = slice.to;
    }
    return;
  }
  if (part != parts.end()) parts.erase(part);
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
