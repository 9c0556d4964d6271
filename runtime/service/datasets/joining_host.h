// What Joining and its parts need of the service around them.
#pragma once

#include <functional>
#include <string>

#include "core/base/types.h"
#include "runtime/memory/scratch.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/log/service_log.h"

namespace batchflow::service {

struct JoiningHost {
  Say say;
  Post post;
  std::function<Instant()> now;
  // Sets this much memory apart for each worker's processes of steps. Throws ConfigError.
  std::function<void(Bytes)> set_apart;
  // Gives back the memory of steps that are given up.
  std::function<void(Bytes)> give_back;
  // The same for the tables of datasets that jobs bring. Throws ConfigError.
  std::function<void(Bytes)> set_apart_for_data;
  std::function<void(Bytes)> give_back_of_data;
  memory::ScratchLimits scratch;  // of what pipelines make
  // What the agents of other nodes do about a new dataset or pipeline: they open it, too. `then` is
  // called when all have, or with why one cannot. Null: there are no agents.
  std::function<void(const ServedDataset&)> dataset_added = nullptr;
  std::function<void(const ServedPipeline&)> pipeline_added = nullptr;
  std::function<void(PipelineId)> pipeline_gone = nullptr;
  std::function<bool(ServedId, std::function<void(const std::string& problem)> then)>
      waits_for_agents = nullptr;
  // Whether something uses it now other than a job of a user.
  std::function<bool(DatasetId)> reads;
  std::function<bool(PipelineId)> uses;
};

// Whether what a job has brought may be let go: none has used it for `kept`. What belongs to a
// removed dataset goes as soon as no job uses it. Notes in `used` that it is used now.
inline bool is_idle(Instant& used, Instant now, bool is_removed, bool is_used, Duration kept) {
  if (is_used) used = now;
  return !is_used && (is_removed || now - used >= kept);
}

// The most pipelines, and the most folders, that one user's jobs have brought and that are not let
// go.
inline constexpr std::size_t kBroughtMost = 256;

}  // namespace batchflow::service
