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

std::uint64_t runs_of(std::uint64_t samples, std::uint8_t run_shift) {
  return ((samples - 1) >> run_shift) + 1;
}

// Whether a pass reads its lane's indices through a permutation of its own.
bool is_recut(const GenerationOrder& order, std::uint32_t pass) {
  return pass != 0 || order.run_shift > 0;
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

RunOrder::RunOrder(const Permutation& runs, std::uint64_t samples, std::uint8_t shift)
    : runs_(runs),
      shift_(shift),
      last_run_(runs.size() - 1),
      last_at_(runs.index_of(last_run_)),
      missing_((runs.size() << shift) - samples) {}

std::uint64_t RunOrder::operator()(std::uint64_t index) const {
  // Behind the last run, all indices are lower by the samples that it lacks.
  const std::uint64_t last_first = last_at_ << shift_;
  const std::uint64_t last_end = last_first + (std::uint64_t{1} << shift_) - missing_;
  if (index >= last_end) index += missing_;
  const std::uint64_t within = index & ((std::uint64_t{1} << shift_) - 1);
  return (runs_(index >> shift_) << shift_) + within;
}

std::uint64_t RunOrder::index_of(std::uint64_t sample) const {
  const std::uint64_t run_at = runs_.index_of(sample >> shift_);
  const std::uint64_t within = sample & ((std::uint64_t{1} << shift_) - 1);
  return (run_at << shift_) + within - (run_at > last_at_ ? missing_ : 0);
}

GenerationOrder GenerationOrder::from_lineage(const Lineage& lineage, std::uint64_t samples) {
  return {lineage.order,
          {lineage.dataset_version, lineage.seed},
          lineage.name.generation,
          {samples, lineage.block_samples, lineage.lane_blocks},
          lineage.run_shift};
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
          sizes.samples_of(name.lane, name.block),
          run_shift};
}

bool valid_lineage(const Lineage& lineage, std::uint64_t samples) {
  const bool cut_into_lanes = lineage.order == Order::strict || lineage.order == Order::relaxed ||
                              lineage.order == Order::sequential;
  if (!cut_into_lanes || samples == 0 || samples > kSamplesMost) return false;
  if (lineage.block_samples == 0 || lineage.lane_blocks == 0) return false;
  if (lineage.name.pass != 0 && lineage.order != Order::relaxed) return false;
  if (lineage.run_shift > kRunShiftMost) return false;
  if (lineage.run_shift != 0 && lineage.order != Order::relaxed) return false;
  const LaneSizes sizes{samples, lineage.block_samples, lineage.lane_blocks};
  if (sizes.first_block_of(lineage.name.lane) >= sizes.blocks()) return false;
  return lineage.name.block < sizes.blocks_of(lineage.name.lane) &&
         lineage.samples == sizes.samples_of(lineage.name.lane, lineage.name.block);
}

const Permutation& Expander::generation(const GenerationOrder& order) {
  return cache_.get(generation_key(order.root, order.generation),
                    runs_of(order.sizes.samples, order.run_shift));
}

void Expander::name_samples(const GenerationOrder& order, std::span<std::uint64_t> indices) {
  const Permutation& permutation = generation(order);
  if (order.run_shift == 0) {
    for (std::uint64_t& index : indices) index = permutation(index);
  } else {
    const RunOrder runs(permutation, order.sizes.samples, order.run_shift);
    for (std::uint64_t& index : indices) index = runs(index);
  }
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
  if (is_recut(order, lineage.name.pass)) {
    recut(order, lineage.name.lane, lineage.name.pass).fill(first, scratch_);
    for (std::uint64_t& index : scratch_) index += lane_first;
    name_samples(order, scratch_);
  } else {
    generation(order).fill(lane_first + first, scratch_);
  }
  std::transform(scratch_.begin(), scratch_.end(), out.begin(),
                 [](std::uint64_t id) { return SampleId(id); });
}

SampleId Expander::at(const Lineage& lineage, std::uint64_t samples, std::uint32_t index) {
  BF_CHECK(valid_lineage(lineage, samples) && index < lineage.samples);
  const GenerationOrder order = GenerationOrder::from_lineage(lineage, samples);
  std::uint64_t in_lane = std::uint64_t{lineage.name.block} * lineage.block_samples + index;
  if (is_recut(order, lineage.name.pass)) {
    in_lane = recut(order, lineage.name.lane, lineage.name.pass)(in_lane);
  }
  std::uint64_t id = first_index_of_lane(order.sizes, lineage.name.lane) + in_lane;
  if (order.order != Order::sequential) name_samples(order, {&id, 1});
  return SampleId(id);
}

std::uint64_t Expander::index_in_generation(const GenerationOrder& order, SampleId sample) {
  BF_CHECK(sample.value < order.sizes.samples);
  if (order.order == Order::sequential) return sample.value;
  const Permutation& permutation = generation(order);
  if (order.run_shift == 0) return permutation.index_of(sample.value);
  return RunOrder(permutation, order.sizes.samples, order.run_shift).index_of(sample.value);
}

Standing Expander::find(const GenerationOrder& order, std::uint32_t pass, SampleId sample) {
  BF_CHECK(pass == 0 || order.order == Order::relaxed);
  const LaneSizes& sizes = order.sizes;
  const std::uint64_t index = index_in_generation(order, sample);
  const std::uint64_t lane_most = std::uint64_t{sizes.lane_blocks} * sizes.block_samples;
  const auto lane = static_cast<std::uint32_t>(index / lane_most);
  std::uint64_t in_lane = index % lane_most;
  if (is_recut(order, pass)) in_lane = recut(order, lane, pass).index_of(in_lane);
  return {lane, static_cast<std::uint32_t>(in_lane / sizes.block_samples),
          static_cast<std::uint32_t>(in_lane % sizes.block_samples)};
}

}  // namespace batchflow::order
