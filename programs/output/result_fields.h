// The fields of results, listed once, for all that writes and reads them: JSON and CSV
// (results.cpp), and the pipes between processes (packed_runs.cpp).
//
// for_each_field(value, visit) calls visit("name", field) for each field, in order. A field that is
// in results.h and not here does not compile: a structured binding needs a name for each.
#pragma once

#include <type_traits>

#include "core/engine/event_fields.h"
#include "programs/output/results.h"

namespace batchflow::output {

#define BATCHFLOW_RESULT(Type, ...)                        \
  template <class Self, class Visit>                       \
  requires std::is_same_v<std::remove_const_t<Self>, Type> \
  void for_each_field(Self& self, const Visit& visit) {    \
    auto& [__VA_ARGS__] = self;                            \
    BATCHFLOW_EACH(BATCHFLOW_VISIT, __VA_ARGS__)           \
  }

BATCHFLOW_RESULT(Waits, storage_s, drive_s, network_s, cores_s, preparation_s, delivery_s, other_s)
BATCHFLOW_RESULT(CachedBytes, encoded_dram, decoded_dram, prepared_dram, encoded_nvme, decoded_nvme,
                 decoded_gpu)
BATCHFLOW_RESULT(ClusterSizes, nodes, gpus, cores, cache_bytes, nvme_bytes, gpu_cache_bytes,
                 store_bytes_per_s, network_bytes_per_s, pcie_bytes_per_s)
BATCHFLOW_RESULT(BufferResult, exemplars, classes, class_least, class_most, age)
BATCHFLOW_RESULT(LiveResult, lag_mean_s, lag_p50_s, lag_p99_s, fill_age_s)
BATCHFLOW_RESULT(MixtureResult, changes, weight_least, weight_most, loss_mean, loss_most)
BATCHFLOW_RESULT(JobResult, name, user, dataset, state, refusal, ranks, epochs, batches, samples,
                 fillers, rehearsed, restarts, preemptions, lost_samples, repeated_samples,
                 arrived_s, started_s, ended_s, time_s, compute_s, stall_s, idle_s, down_s,
                 first_batch_s, first_step_s, samples_per_s, au, buffer, live, mixture, bottleneck,
                 waited)
BATCHFLOW_RESULT(Aggregate, samples_per_s, stall_fraction, au, hit_ratio, cached_bytes_most,
                 samples, samples_requested, samples_read, storage_bytes, storage_reads,
                 store_requests, requests_again, requests_price, store_written_bytes,
                 store_restored_bytes, nvme_bytes, nvme_written_bytes, gpu_read_bytes,
                 gpu_written_bytes, network_bytes, pcie_bytes, preparations, prepared_blocks,
                 remade_blocks, repeats, preparation_s, cancelled_read_bytes,
                 cancelled_preparation_s, failed_reads, replaced_samples, lost_samples,
                 repeated_samples, jct_s, jct_p95_s, slowdown, fairness, user_fairness, cost,
                 cost_per_million_samples, fill_ratio, thinned_ratio, lag_p50_s, lag_p99_s,
                 buffer_classes, buffer_evenness, buffer_age)
BATCHFLOW_RESULT(StepResult, pipeline, dataset, step, core_s)
BATCHFLOW_RESULT(SourceResult, dataset, made, lost, late, thinned, taken, waiting, waiting_most,
                 dropped, kept_bytes_most)
BATCHFLOW_RESULT(FaultResult, kind, target, struck, from_s, until_s, parts)
BATCHFLOW_RESULT(JobPoint, samples, stall_s)
BATCHFLOW_RESULT(SeriesPoint, time_s, samples, samples_requested, samples_read, storage_bytes,
                 nvme_bytes, network_bytes, pcie_bytes, preparations, preparation_s, busy_s,
                 compute_s, stall_s, idle_s, waited, cached, ranks, stalling, reading, preparing,
                 workers, jobs)
BATCHFLOW_RESULT(JobGain, name, time_s, speedup)
BATCHFLOW_RESULT(Gain, resource, makespan_s, samples_per_s, speedup, jobs)
BATCHFLOW_RESULT(RunResult, label, scenario, policies, settings, workload, not_measured, seed,
                 digest, interrupted, failure, remark, makespan_s, counted_from_s, wall_s, steps,
                 stale_completions, protocol_errors, refused_proposals, followed_requests,
                 followed_hits, followed_bound_hits, aggregate, cluster, jobs, sources, faults,
                 preparation_steps, bottlenecks, series)

#undef BATCHFLOW_RESULT

template <class T>
constexpr bool kHasFields = requires(T& value) {
  for_each_field(value, [](const char*, auto&) {});
};

}  // namespace batchflow::output
