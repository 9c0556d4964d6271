#include "core/order/position_problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/order/permutation.h"
#include "core/order/rehearsal.h"

namespace batchflow::order {
namespace {

using OpenLane = LanePosition::OpenLane;

std::string open_lane_problem(const Position::Fields& fields, const OpenLane& open) {
  const LanePosition& lanes = fields.lanes;
  if (open.lane >= lanes.sizes.lanes()) return fmt::format("there is no lane {}", open.lane);
  if (lanes.find_open(open.lane) != &open) return fmt::format("lane {} is open twice", open.lane);
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
  const OpenLane* open = lanes.find_open(part.lane);
  if (open == nullptr || part.block >= open->had.size() || open->had.test(part.block)) {
    return fmt::format("block {} of lane {} cannot be partly used", part.block, part.lane);
  }
  if (part.used == 0 || part.used >= lanes.sizes.samples_of(part.lane, part.block)) {
    return fmt::format("{} samples are not a part of block {} of lane {}", part.used, part.block,
                       part.lane);
  }
  if (fields.find_part(part.lane, part.block) != &part) {
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

bool has_no_lanes(const Position::Fields& fields) {
  const LanePosition& lanes = fields.lanes;
  return lanes.sizes.samples == 0 && lanes.generation == 0 && lanes.passes.empty() &&
         lanes.had.size() == 0 && lanes.open.empty() && fields.part_blocks.empty();
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

}  // namespace

std::string position_problem(const Position::Fields& fields) {
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
  // Jobs of live sources count their fills so.
  const bool counts = may_rehearse(fields.order) || fields.order == Order::live;
  if (rehearses && !counts) return "rehearsal in an order that has none";
  if (fields.rehearsed > kSamplesMost) {
    return fmt::format("{} samples are said to be rehearsed", fields.rehearsed);
  }
  if (fields.consumed > fields.consumed_most()) {
    return fmt::format("{} samples consumed of {}", fields.consumed, fields.consumed_most());
  }
  if (std::string problem = left_out_problem(fields); !problem.empty()) return problem;
  if (has_no_lanes(fields)) return "";
  if (fields.chosen) return "lanes of samples that are chosen";
  return fields.order == Order::relaxed ? generation_problem(fields)
                                        : "lanes in an order that has none";
}

}  // namespace batchflow::order
