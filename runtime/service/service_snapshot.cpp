// What a service reports of itself.
#include <sys/resource.h>

#include <thread>

#include "programs/config/engine_settings.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/service/service_parts.h"

namespace batchflow::service {
namespace {

std::vector<Snapshot::Pipeline> pipelines_of(const Datasets& datasets, DatasetId dataset) {
  std::vector<Snapshot::Pipeline> all;
  for (const auto& one : datasets.pipelines()) {
    if (one->dataset != dataset || one->brought) continue;
    if (const engine::PipelineInfo* info = datasets.catalogues().find(one->id, one->hash))
      all.push_back({one->name, info->decoded_bytes, info->prepared_bytes});
  }
  return all;
}

}  // namespace

Snapshot Service::Parts::snapshot() const {
  Snapshot all;
  all.version = BATCHFLOW_VERSION;
  all.process = getpid();
  all.up_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  all.storage = backend->readings().storage();
  all.memory_bytes = config.memory;
  all.cache_bytes = config.cache_bytes();
  all.planned_bytes = config.planned_bytes();
  all.used_bytes = memory.used();
  all.waits_for_memory = backend->waits_for_memory();
  all.item_bytes = backend->kept().store().bytes();
  all.block_bytes = backend->slots().memory().bytes();
  all.staged_bytes = backend->readings().staged_bytes();
  all.staged_bytes_most = backend->readings().staged_bytes_most();
  all.staging_bytes = config.storage.staging;
  if (const Spill* spill = backend->spill()) {
    all.spill_limit_bytes = spill->capacity();
    all.spill_bytes = spill->used();
    all.spill = spill->counters();
  }
  all.workers = backend->preparations().workers();
  all.workers_most = config.workers;
  all.cores = std::thread::hardware_concurrency();
  all.preparing_s = seconds(backend->preparations().busy());
  all.connections = connections.size();
  all.engine = engine->counters();
  all.policies = config.engine.policies;
  all.settings = config::text_of(config.engine_config());
  all.preset = config.engine.preset;
  all.seed = config.engine.seed;
  all.steps = recorder.steps();
  all.events = recorder.events();
  all.digest = recorder.digest();
  all.moved = backend->counters();
  all.jobs = jobs.status(now());
  for (const Jobs::Status& job : all.jobs)
    if (const auto* info = datasets.catalogues().find(job.pipeline_id, job.pipeline_hash))
      all.job_pipelines[job.pipeline_id.value] = *info;
  all.waited = jobs.wait_totals();
  all.state = config.state.string();
  all.stalls = jobs.stalls();
  all.waits = jobs.waits();
  all.user_labels = config.user_labels;
  all.storage_busy_s = seconds(stalls.storage_busy());
  all.reads_s = seconds(stalls.reads_lasted());
  all.reads_now = stalls.reads_now();
  all.preparing_now = stalls.preparing_now();
  all.cache = backend->cache();
  all.journal = recorder.state();
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) all.locked_memory_most = limit.rlim_cur;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) all.files_most = limit.rlim_cur;
  all.draining = draining;
#ifdef BATCHFLOW_REMOTE
  if (cluster) {
    all.nodes = cluster->status();
    all.links = peers->traffic();
    all.moved.delivered_batches += cluster->delivered().batches;
    all.moved.delivered_samples += cluster->delivered().samples;
  }
#endif
  for (const auto& dataset : datasets.all()) {
    if (dataset->is_brought()) all.brought.insert_or_assign(dataset->name, dataset->id.value);
    if (dataset->removed || !dataset->index) continue;
    const sources::SampleIndex& index = *dataset->index;
    all.datasets.push_back({dataset->name, dataset->root.string(), index.samples(),
                            datasets.catalogues().find(dataset->id, index.version())->total_bytes(),
                            index.version(), index.classes().size(), dataset->format,
                            dataset->tokens, dataset->pinned, dataset->is_brought(),
                            std::uint64_t{1} << dataset->bundle_shift,
                            pipelines_of(datasets, dataset->id)});
  }
  all.opening = joining->opening();
  all.returning = returning->names();
  all.steps_bytes = config.steps_bytes;
  all.step_reports = report_steps(datasets);
  if (failpoint::failpoints_on) all.failpoints = failpoint::failpoint_counts();
  return all;
}

}  // namespace batchflow::service
