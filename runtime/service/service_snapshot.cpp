// What a service reports of itself.
#include <sys/resource.h>

#include <thread>

#include "programs/config/engine_settings.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/service/control/node_memory.h"
#include "runtime/service/service_parts.h"
#include "runtime/service/service_version.h"

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

std::uint64_t delivered_samples(const Service::Parts& parts) {
  std::uint64_t all = parts.backend->counters().delivered_samples;
#ifdef BATCHFLOW_REMOTE
  if (const Cluster* const agents = parts.cluster.agents()) all += agents->delivered().samples;
#endif
  return all;
}

HistoryPoint history_point_of(const Service::Parts& parts) {
  const std::chrono::duration<double> computed(parts.jobs.wait_totals().compute_s);
  return {parts.now(), delivered_samples(parts), parts.jobs.stalls(),
          std::chrono::duration_cast<Duration>(computed)};
}

}  // namespace

void Service::Parts::note_history() {
  if (!http || !history.is_due(now())) return;
  const HistoryPoint point = history_point_of(*this);
  JobPoints points{point.at, {}};
  for (const Jobs::Status& job : jobs.status(point.at))
    points.jobs[job.id.value] = {job.samples, job.stalls.sum(), job.computed};
  history.add(point, std::move(points));
}

Snapshot snapshot_of(const Service::Parts& parts) {
  Snapshot all;
  all.version = kServiceVersion;
  if (parts.http) {
    all.page = fmt::format("http://{}:{}/", parts.config.http_address, parts.http->port());
    all.page_key = parts.page_key;
  }
  all.process = getpid();
  all.up_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - parts.began).count();
  all.storage = parts.backend->readings().storage();
  all.memory_bytes = parts.config.memory;
  all.cache_bytes = cache_bytes(parts.config);
  all.planned_bytes = planned_bytes(parts.config);
  all.used_bytes = parts.memory.used();
  all.waits_for_memory = parts.backend->waits_for_memory();
  all.item_bytes = parts.backend->kept().store().bytes();
  all.block_bytes = parts.backend->slots().memory().bytes();
  all.staged_bytes = parts.backend->readings().staging().bytes();
  all.staged_bytes_most = parts.backend->readings().staging().bytes_most();
  all.staging_bytes = parts.config.storage.staging;
  if (const Spill* spill = parts.backend->spill()) {
    all.spill_limit_bytes = spill->capacity();
    all.spill_bytes = spill->used();
    all.spill = spill->counters();
  }
  all.workers = parts.backend->preparations().workers();
  all.workers_most = parts.config.workers;
  all.cores = std::thread::hardware_concurrency();
  all.preparing_s = seconds(parts.backend->preparations().busy());
  all.connections = parts.connections.size();
  all.engine = parts.engine->counters();
  all.policies = parts.config.engine.policies;
  all.settings = config::text_of(parts.config.engine_config());
  all.preset = parts.config.engine.preset;
  all.seed = parts.config.engine.seed;
  all.steps = parts.recorder.steps();
  all.events = parts.recorder.events();
  all.digest = parts.recorder.digest();
  all.moved = parts.backend->counters();
  all.jobs = parts.jobs.status(parts.now());
  for (const Jobs::Status& job : all.jobs) {
    const ServedPipeline& served = parts.datasets.pipeline(job.pipeline_id);
    if (served.pipeline)
      all.job_steps[job.pipeline_id.value] = {served.brought, served.pipeline->step_names()};
    if (const auto* info = parts.datasets.catalogues().find(job.pipeline_id, job.pipeline_hash))
      all.job_pipelines[job.pipeline_id.value] = *info;
  }
  all.counters = history_point_of(parts);
  all.history = parts.history.points();
  all.jobs_before = parts.history.jobs_before();
  all.waited = parts.jobs.wait_totals();
  all.state = parts.config.state.string();
  all.stalls = parts.jobs.stalls();
  all.waits = parts.jobs.waits();
  all.user_labels = parts.config.user_labels;
  all.storage_busy_s = seconds(parts.stalls.storage_busy());
  all.reads_s = seconds(parts.stalls.reads_lasted());
  all.reads_now = parts.stalls.reads_now();
  all.preparing_now = parts.stalls.preparing_now();
  all.cache = parts.backend->cache();
  all.journal = parts.recorder.state();
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) all.locked_memory_most = limit.rlim_cur;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) all.files_most = limit.rlim_cur;
  all.draining = parts.draining;
#ifdef BATCHFLOW_REMOTE
  if (const Cluster* const agents = parts.cluster.agents()) {
    all.nodes = agents->status();
    all.links = parts.cluster.peers()->traffic();
    all.moved.delivered_batches += agents->delivered().batches;
    all.moved.delivered_samples += agents->delivered().samples;
  }
#endif
  for (const auto& dataset : parts.datasets.all()) {
    if (dataset->is_brought()) all.brought.insert_or_assign(dataset->name, dataset->id.value);
    if (dataset->removed || !dataset->index) continue;
    const sources::SampleIndex& index = *dataset->index;
    sources::SequenceRule sequences = dataset->asked.sequences;
    // If nothing names a packing, it is the first one.
    if (sequences.packing.empty() && dataset->tokens > 0 &&
        index.kind() == sources::RecordKind::sequence)
      sequences.packing = sources::packing_names().front();
    all.datasets.push_back(
        {dataset->name, dataset->root.string(), index.samples(),
         parts.datasets.catalogues().find(dataset->id, index.version())->total_bytes(),
         index.version(), index.classes().size(), dataset->format, dataset->tokens, sequences,
         dataset->pinned, dataset->is_brought(), std::uint64_t{1} << dataset->bundle_shift,
         dataset->asked.column, dataset->asked.label, pipelines_of(parts.datasets, dataset->id),
         parts.jobs.feeds().status(dataset->id)});
  }
  all.opening = parts.joining->openings().names();
  all.returning = parts.returning->names();
  all.steps_bytes = parts.config.steps_bytes;
  std::vector<StepTally> elsewhere;
  for (const NodeStatus& node : all.nodes)
    elsewhere.insert(elsewhere.end(), node.counters.steps.begin(), node.counters.steps.end());
  all.step_reports = report_steps(parts.datasets, elsewhere);
  if (failpoint::failpoints_on) all.failpoints = failpoint::failpoint_counts();
  return all;
}

}  // namespace batchflow::service
