// The numbers of a snapshot, each once: in `batchflowctl status --json`, and of many a metric.
#pragma once

#include <string_view>

#include "runtime/service/http/snapshot.h"

namespace batchflow::service {

// What Prometheus gets. A name that ends in `_total` is a counter, any other a gauge. Users'
// dashboards are built on names and units: a change of any is a change of the interface
// (configs/grafana/, docs/operations.md).
struct Metric {
  std::string_view name = {};  // without `batchflow_`; empty: the number is no metric
  std::string_view help = {};
  std::string_view type() const { return name.ends_with("_total") ? "counter" : "gauge"; }
};

// visit("name", number, Metric) for each of the service's numbers.
template <class Visit>
void visit_figures(const Snapshot& now, Visit&& visit) {
  visit("up_s", now.up_s, {"uptime_seconds", "Since the service was started."});
  visit("batches", now.moved.delivered_batches,
        {"batches_delivered_total", "Batches handed to ranks."});
  visit("samples", now.moved.delivered_samples, {"samples_delivered_total", "Samples in these."});
  visit("copied_samples", now.moved.copied_samples,
        {"samples_copied_total", "Samples gathered into batches that cross blocks."});
  visit("prepared_samples", now.moved.prepared_samples,
        {"samples_prepared_total", "Samples decoded or augmented."});
  visit("prepared_blocks", now.moved.prepared_blocks,
        {"blocks_prepared_total", "Blocks prepared."});
  visit("remakes", now.engine.remakes,
        {"blocks_remade_total", "Of these, blocks that had been prepared before."});
  visit("repeats", now.engine.repeats,
        {"repeats_total", "Deliveries of a sample with the same random draws to the same job."});
  visit("preparing_s", now.preparing_s, {"prepare_seconds_total", "Time workers spent preparing."});
  visit("storage_busy_s", now.storage_busy_s,
        {"storage_busy_seconds_total", "Time in which anything was being read."});
  visit("reads_s", now.reads_s,
        {"storage_block_read_seconds_total", "Time blocks were being read, each on its own."});
  visit("reads_now", now.reads_now, {"storage_block_reads", "Blocks that are being read."});
  visit("preparing_now", now.preparing_now, {"preparing_blocks", "Blocks that workers have."});
  visit("read_bytes", now.moved.read_bytes,
        {"storage_read_bytes_total", "Read from the datasets' storage."});
  visit(
      "device_reads", now.moved.device_reads,
      {"storage_reads_total", "Reads of storage. One brings a sample, or a bundle of small ones."});
  visit("read_samples", now.moved.read_samples,
        {"storage_samples_total", "Samples that these have brought."});
  visit("read_errors", now.moved.read_errors, {"storage_errors_total", "Reads that failed."});
  visit("used_bytes", now.used_bytes,
        {"cache_used_bytes", "Memory in use, with what jobs have not yet unmapped."});
  visit("staged_bytes", now.staged_bytes,
        {"staged_bytes", "Memory of samples that are read and not yet prepared or kept."});
  visit("staging_bytes", now.staging_bytes,
        {"staging_limit_bytes", "What is set apart for these."});
  visit("not_kept", now.moved.not_kept,
        {"cache_refusals_total", "Samples that were to be kept, and found no room."});
  visit("no_memory", now.moved.no_memory,
        {"memory_waits_total", "Blocks and batches that found no memory at once."});
  visit("spill_read_bytes", now.spill.read_bytes,
        {"spill_read_bytes_total", "Read back from the spill file."});
  visit("spill_read_samples", now.spill.read_samples,
        {"spill_reads_total", "Samples read back from the spill file."});
  visit("spill_written_bytes", now.spill.written_bytes,
        {"spill_written_bytes_total", "Written to the spill file."});
  visit("spill_missed", now.spill.missed,
        {"spill_missed_total",
         "Samples that should have been in the spill file, and were read from their source."});
  visit("spill_mismatched", now.spill.mismatched,
        {"spill_mismatched_total", "Of these, samples that had changed there."});
  visit("spill_errors", now.spill.errors,
        {"spill_errors_total", "Reads and writes of the spill file that failed."});
  visit("workers", now.workers, {"workers", "Threads that prepare."});
  visit("workers_most", now.workers_most, {"workers_limit", "What these may be at most."});
  visit("connections", now.connections, {"connections", "Open connections."});
  visit("corrupt_samples", now.engine.corrupt_samples,
        {"corrupt_samples_total", "Samples that could not be decoded."});
  visit("refused_proposals", now.engine.refused_proposals,
        {"policy_refusals_total", "Proposals of policies that broke a rule."});
  visit("followed_requests", now.engine.followed_requests,
        {"followed_requests_total",
         "Requests of samples that are followed to see what caches miss."});
  visit("followed_hits", now.engine.followed_hits,
        {"followed_hits_total", "How many of these hit."});
  visit("followed_bound_hits", now.engine.followed_bound_hits,
        {"followed_bound_hits_total",
         "How many would hit in caches as large that knew all next uses."});
  visit("pid", now.process, {});
  visit("memory_bytes", now.memory_bytes, {});
  visit("cache_bytes", now.cache_bytes, {});
  visit("planned_bytes", now.planned_bytes, {});
  visit("item_bytes", now.item_bytes, {});
  visit("block_bytes", now.block_bytes, {});
  visit("staged_bytes_most", now.staged_bytes_most, {});
  visit("spill_limit_bytes", now.spill_limit_bytes, {});
  visit("spill_bytes", now.spill_bytes, {});
  visit("spill_written_samples", now.spill.written_samples, {});
  visit("waits_for_memory", now.waits_for_memory, {});
  visit("cores", now.cores, {});
  visit("decoded_hits", now.moved.decoded_hits, {});
  visit("encoded_hits", now.moved.encoded_hits, {});
  visit("protocol_errors", now.engine.protocol_errors, {});
  visit("unregistered_staging", now.moved.unregistered_staging, {});
  visit("steps_bytes", now.steps_bytes, {});
  visit("reads", now.engine.reads, {});
  visit("failed_reads", now.engine.failed_reads, {});
  visit("stale_completions", now.engine.stale_completions, {});
  visit("steps", now.steps, {});
  visit("events", now.events, {});
  visit("locked_memory_most", now.locked_memory_most, {});
  visit("files_most", now.files_most, {});
  visit("wait_s", now.waited.wait_s, {});
  visit("compute_s", now.waited.compute_s, {});
  visit("fetched_samples", now.moved.fetched_samples, {});
  visit("fetched_bytes", now.moved.fetched_bytes, {});
  visit("store_busy_ns", now.moved.store_busy_ns, {});
  visit("fetching_ns", now.moved.fetching_ns, {});
}

// The same of a job.
template <class Visit>
void visit_figures(const Jobs::Status& job, Visit&& visit) {
  visit("wait_s", seconds(job.waited),
        {"job_stall_seconds_total", "Time ranks waited for batches."});
  visit("compute_s", seconds(job.computed),
        {"job_compute_seconds_total", "Time ranks spent with batches."});
  visit("samples", job.samples, {"job_samples_total", "Samples handed to the job."});
  visit("steps", job.steps, {"job_steps_total", "Steps the job has trained."});
  visit("epoch", job.epoch, {"job_epoch", "The epoch the job is in, from 0."});
  visit("held_batches", job.held, {"job_held_batches", "Batches the job has not released."});
  visit("batch_samples", job.batch_samples, {});
  visit("ranks", job.world_size, {});
  visit("copied_batches", job.copied, {});
  visit("repeats", job.repeats, {});
  visit("ranks_here", job.ranks_here, {});
  visit("remote_ranks", job.remote_ranks, {});
  visit("waiting_ranks", job.waiting, {});
  visit("waits_s", seconds(job.waits), {});
  visit("waits_to_begin_s", seconds(job.waits_to_begin), {});
  visit("consumed_batches", job.consumed, {});
  visit("ideal_steps", job.ideal.steps_all,
        {"job_ideal_steps_total", "Steps on a batch that was given again (doctor --ideal)."});
  visit("ideal_allowed", job.ideal.are_allowed ? 1 : 0, {});
  visit("ideal_asked", job.ideal.asked, {});
  visit("ideal_ranks_done", job.ideal.ranks_done, {});
  visit("ideal_step_s", seconds(job.ideal.step_time), {});
}

}  // namespace batchflow::service
