#include "core/order/order.h"

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::order {
namespace {

std::uint64_t first_index_of_lane(const LaneSizes& sizes, std::uint32_t lane) {
  return sizes.first_block_of(lane) * sizes.block_samples;
}

std::uint64_t samples_of_lane(const LaneSizes& sizes, std::uint32_t lane) {
  return std::min(std::uint64_t{sizes.lane_blocks} * sizes.block_samples,
                  sizes.samples - first_index_of_lane(sizes, lane));
}

}  // namespace

const Permutation& PermutationCache::get(std::uint64_t key, std::uint64_t n) {
  const std::pair name(key, n);
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().permutation;
  }
  entries_.push_front({name, Permutation(key, n)});
  by_name_[name] = entries_.begin();
  bytes_ += bytes_of(entries_.front());
  if (entries_.front().permutation.table_bytes() > 0) entries_made_ += n;
  while (bytes_ > bytes_most_ && entries_.size() > 2) {
    bytes_ -= bytes_of(entries_.back());
    by_name_.erase(entries_.back().name);
    entries_.pop_back();
  }
  return entries_.front().permutation;
}

GenerationOrder GenerationOrder::from_lineage(const Lineage& lineage, std::uint64_t samples) {
  return {lineage.order,
          {lineage.dataset_version, lineage.seed},
          lineage.name.generation,
          {samples, lineage.block_samples, lineage.lane_blocks}};
}

Lineage GenerationOrder::lineage(const BlockName& name, DatasetId dataset, PipelineId pipeline,
                                 Digest pipeline_hash) const {
  return {dataset,
          root.dataset_version,
          pipeline,
          pipeline_hash,
          order,
          root.seed,
          sizes.block_samples,
          sizes.lane_blocks,
          name,
          sizes.samples_of(name.lane, name.block)};
}

bool valid_lineage(const Lineage& lineage, std::uint64_t samples) {
  const bool cut_into_lanes = lineage.order == Order::strict || lineage.order == Order::relaxed ||
                              lineage.order == Order::sequential;
  if (!cut_into_lanes || samples == 0 || samples > kSamplesMost) return false;
  if (lineage.block_samples == 0 || lineage.lane_blocks == 0) return false;
  if (lineage.name.pass != 0 && lineage.order != Order::relaxed) return false;
  const LaneSizes sizes{samples, lineage.block_samples, lineage.lane_blocks};
  if (sizes.first_block_of(lineage.name.lane) >= sizes.blocks()) return false;
  return lineage.name.block < sizes.blocks_of(lineage.name.lane) &&
         lineage.samples == sizes.samples_of(lineage.name.lane, lineage.name.block);
}

const Permutation& Expander::generation(const GenerationOrder& order) {
  return cache_.get(generation_key(order.root, order.generation), order.sizes.samples);
}

const Permutation& Expander::recut(const GenerationOrder& order, std::uint32_t lane,
                                   std::uint32_t pass) {
  return cache_.get(recut_key(order.root, order.generation, lane, pass),
                    samples_of_lane(order.sizes, lane));
}

void Expander::expand(const Lineage& lineage, std::uint64_t samples, std::vector<SampleId>& out) {
  expand(lineage, samples, 0, lineage.samples, out);
}

void Expander::expand(const Lineage& lineage, std::uint64_t samples, std::uint32_t from,
                      std::uint32_t to, std::vector<SampleId>& out) {
  BF_CHECK(valid_lineage(lineage, samples) && from <= to && to <= lineage.samples);
  const GenerationOrder order = GenerationOrder::from_lineage(lineage, samples);
  const std::uint64_t lane_first = first_index_of_lane(order.sizes, lineage.name.lane);
  const std::uint64_t first = std::uint64_t{lineage.name.block} * lineage.block_samples + from;
  out.resize(to - from);
  if (order.order == Order::sequential) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = SampleId(lane_first + first + i);
    return;
  }
  scratch_.resize(out.size());
  const Permutation& of_generation = generation(order);
  if (lineage.name.pass == 0) {
    of_generation.fill(lane_first + first, scratch_);
  } else {
    recut(order, lineage.name.lane, lineage.name.pass).fill(first, scratch_);
    for (std::uint64_t& index : scratch_) index = of_generation(lane_first + index);
  }
  std::transform(scratch_.begin(), scratch_.end(), out.begin(),
                 [](std::uint64_t id) { return SampleId(id); });
}

SampleId Expander::at(const Lineage& lineage, std::uint64_t samples, std::uint32_t index) {
  BF_CHECK(valid_lineage(lineage, samples) && index < lineage.samples);
  const GenerationOrder order = GenerationOrder::from_lineage(lineage, samples);
  std::uint64_t in_lane = std::uint64_t{lineage.name.block} * lineage.block_samples + index;
  if (lineage.name.pass != 0) in_lane = recut(order, lineage.name.lane, lineage.name.pass)(in_lane);
  const std::uint64_t in_generation = first_index_of_lane(order.sizes, lineage.name.lane) + in_lane;
  return SampleId(order.order == Order::sequential ? in_generation
                                                   : generation(order)(in_generation));
}

std::uint64_t Expander::index_in_generation(const GenerationOrder& order, SampleId sample) {
  BF_CHECK(sample.value < order.sizes.samples);
  if (order.order == Order::sequential) return sample.value;
  return generation(order).index_of(sample.value);
}

Standing Expander::find(const GenerationOrder& order, std::uint32_t pass, SampleId sample) {
  BF_CHECK(pass == 0 || order.order == Order::relaxed);
  const LaneSizes& sizes = order.sizes;
  const std::uint64_t index = index_in_generation(order, sample);
  const std::uint64_t lane_most = std::uint64_t{sizes.lane_blocks} * sizes.block_samples;
  const auto lane = static_cast<std::uint32_t>(index / lane_most);
  std::uint64_t in_lane = index % lane_most;
  if (pass != 0) in_lane = recut(order, lane, pass).index_of(in_lane);
  return {lane, static_cast<std::uint32_t>(in_lane / sizes.block_samples),
          static_cast<std::uint32_t>(in_lane % sizes.block_samples)};
}

}  // namespace batchflow::order
