// What a promise log says of a job that joined.
#pragma once

#include <utility>
#include <vector>

#include "core/engine/promise.h"

namespace batchflow::test {

inline engine::Promise joined(std::uint32_t job, const order::Position& position,
                              std::vector<NodeId> ranks) {
  engine::Promise promise;
  promise.kind = engine::Promise::Kind::joined;
  promise.job = JobId(job);
  engine::JobJoined& join = promise.join.join;
  join.job = JobId(job);
  join.dataset = DatasetId(1);
  join.pipeline = PipelineId(2);
  join.order = position.order();
  join.batch_samples = 4;
  promise.join.ranks = std::move(ranks);
  promise.join.position = position;
  return promise;
}

}  // namespace batchflow::test
