#include "sim/cluster_replay/fluid_bound.h"

#include <algorithm>
#include <map>

#include "core/base/seconds.h"

namespace batchflow::sim {

FluidBound fluid_bound(const input::Scenario& scenario) {
  FluidBound bound;
  double gpu_s = 0;
  double storage_bytes = 0;
  double core_s = 0;
  // A dataset prepared in one way, and the most passes that one job makes over it.
  struct Use {
    double samples = 0;  // of the job that takes most
    const input::JobModel* job = nullptr;
  };
  std::map<std::pair<int, std::string>, Use> uses;
  std::vector<double> touched(scenario.datasets.size(), 0);  // samples that must be read
  for (const input::JobModel& job : scenario.jobs) {
    const auto index = static_cast<std::size_t>(job.dataset);
    const input::DatasetModel& dataset = scenario.datasets[index];
    const input::PipelineModel& pipeline =
        scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
    const double epochs = std::max(1u, pipeline.epochs_per_block);
    const double ranks = pipeline.items_per_block > 0 ? 1 : job.ranks;
    const double step_samples = std::min(job.batch * ranks, static_cast<double>(dataset.samples));
    const double samples = step_samples * static_cast<double>(job.steps) * epochs;
    const double compute_s = seconds(job.step) * static_cast<double>(job.steps) * epochs;
    bound.samples += job.samples_in_all > 0 ? static_cast<double>(job.samples_in_all) : samples;
    gpu_s += compute_s * job.ranks;
    const Instant begins = std::max(job.arrives, job.not_before);
    bound.arrivals_s = std::max(bound.arrivals_s, seconds(begins - Instant{}) + compute_s);
    touched[index] =
        std::max(touched[index], std::min(samples, static_cast<double>(dataset.samples)));
    Use& use = uses[{job.dataset, pipeline.name.substr(0, pipeline.name.find(' '))}];
    if (samples > use.samples) use = {samples, &job};
  }
  for (std::size_t i = 0; i < touched.size(); ++i) {
    const input::DatasetModel& dataset = scenario.datasets[i];
    if (!dataset.compute_only) storage_bytes += touched[i] * static_cast<double>(dataset.bytes);
  }
  for (const auto& [name, use] : uses) {
    const input::DatasetModel& dataset =
        scenario.datasets[static_cast<std::size_t>(use.job->dataset)];
    const engine::PipelineInfo info =
        scenario.pipelines[static_cast<std::size_t>(use.job->pipeline)].info(dataset.bytes);
    const double once = std::min(use.samples, static_cast<double>(dataset.samples));
    core_s += use.samples * seconds(info.augment_cost) + once * seconds(info.decode_cost);
  }
  double gpus = 0;
  double cores = 0;
  for (const input::NodeModel& node : scenario.cluster.nodes) {
    gpus += node.gpus * node.gpu_speed;
    cores += node.cores * node.core_speed;
  }
  double rate = 0;
  for (const input::Curve::Point& point : scenario.cluster.store.bytes_per_s.points) {
    rate = std::max(rate, point.y);
  }
  bound.gpu_s = gpu_s / gpus;
  bound.preparation_s = core_s / cores;
  if (rate > 0) bound.storage_s = storage_bytes / rate;
  return bound;
}

}  // namespace batchflow::sim
