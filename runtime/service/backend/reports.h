// What the caches hold, and how well plugins work: for people who ask, never for decisions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/block_slots.h"
#include "runtime/service/backend/kept_samples.h"
#include "runtime/service/backend/spill.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/step/step_plugin.h"

namespace batchflow::service {

// What a cache holds of one share.
struct CacheShare {
  ShareId share;
  Form form = Form::encoded;
  Tier tier = Tier::dram;
  std::string dataset;
  std::string pipeline;     // of prepared blocks alone: decoded samples serve all that begin alike
  std::uint64_t items = 0;  // samples, or blocks and gathered batches
  std::uint64_t room = 0;   // blocks that fit into memory that is there; 0: not counted
  Bytes bytes = 0;
};

std::vector<CacheShare> report_cache(const Datasets& datasets, const KeptSamples& kept,
                                     const Spill* spill, const BlockSlots& slots);

// How well a plugin works in one pipeline.
struct StepReport {
  std::string pipeline;
  std::string dataset;
  std::string step;
  std::string version;
  std::string file;
  bool random = false;  // it draws
  bool broken = false;  // it is not tried for a while
  step::StepCounters counters;
  std::string folder_problem;  // why its processes have no temporary folder, if they should
};

// What a step of users has done on another node.
struct StepTally {
  PipelineId pipeline;
  std::uint32_t step = 0;  // of those in the pipeline
  bool broken = false;
  step::StepCounters counters;
};

// Of this node, and of others (`elsewhere`).
std::vector<StepReport> report_steps(const Datasets& datasets,
                                     std::span<const StepTally> elsewhere);
std::vector<StepTally> tally_steps(const Datasets& datasets);

}  // namespace batchflow::service
