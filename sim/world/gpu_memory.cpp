#include "sim/world/gpu_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace batchflow::world {

namespace {

Bytes least_gpu_memory(const input::ClusterModel& cluster, const Job& job) {
  Bytes least = UINT64_MAX;
  for (const NodeId node : job.gpus) {
    const input::NodeModel& model = cluster.nodes[node.value];
    if (model.gpu_memory > 0) least = std::min(least, model.gpu_memory - model.gpu.cache);
  }
  return least;
}

Bytes batch_bytes(const Job& job) {
  return job.rank_batch() * job.preparation->moved_bytes;
}

}  // namespace

std::uint32_t batches_on_gpu(const input::ClusterModel& cluster, const Job& job) {
  const Bytes memory = least_gpu_memory(cluster, job);
  if (memory == UINT64_MAX) return UINT32_MAX;
  if (memory <= job.model->gpu_bytes) return 0;
  return static_cast<std::uint32_t>(std::min<Bytes>(
      UINT32_MAX, (memory - job.model->gpu_bytes) / std::max<Bytes>(1, batch_bytes(job))));
}

std::string no_room_on_gpus(const input::ClusterModel& cluster, const Job& job) {
  if (batches_on_gpu(cluster, job) > 0) return "";
  return fmt::format("a batch of {} bytes does not fit a GPU of {} beside the {} of training",
                     batch_bytes(job), least_gpu_memory(cluster, job), job.model->gpu_bytes);
}

}  // namespace batchflow::world
