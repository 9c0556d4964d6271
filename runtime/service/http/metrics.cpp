// The metrics for Prometheus. Users' dashboards are built on their names and units: a change of any
// is a change of the interface (configs/grafana/, docs/operations.md).
#include <string>
#include <string_view>

#include "core/base/names.h"
#include "fmt/format.h"
#include "runtime/service/http/snapshot.h"
#include "runtime/service/jobs/users.h"

namespace batchflow::service {
namespace {

class Text {
 public:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    out_ += fmt::format("# HELP batchflow_{} {}\n# TYPE batchflow_{} {}\n", name, help, name, type);
  }
  void value(std::string_view name, std::string_view labels, double value) {
    out_ += labels.empty() ? fmt::format("batchflow_{} {}\n", name, value)
                           : fmt::format("batchflow_{}{{{}}} {}\n", name, labels, value);
  }
  void metric(std::string_view name, std::string_view type, std::string_view help, double what) {
    head(name, type, help);
    value(name, {}, what);
  }
  // One of the histograms that `head` has announced.
  void histogram(std::string_view name, const std::string& labels, const WaitHistogram& waits) {
    const std::string before = labels.empty() ? "" : labels + ",";
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < waits.counts.size(); ++i) {
      count += waits.counts[i];
      const std::string bound = i < WaitHistogram::kBounds.size()
                                    ? fmt::format("{}", seconds(WaitHistogram::kBounds[i]))
                                    : "+Inf";
      value(fmt::format("{}_bucket", name), fmt::format("{}le=\"{}\"", before, bound),
            static_cast<double>(count));
    }
    value(fmt::format("{}_sum", name), labels, seconds(waits.sum));
    value(fmt::format("{}_count", name), labels, static_cast<double>(count));
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string label(std::string_view name, std::string_view value) {
  std::string out = fmt::format("{}=\"", name);
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

double number(std::uint64_t count) {
  return static_cast<double>(count);
}

std::string labels_of(const Jobs::Status& job, const Snapshot& now) {
  const std::string labels = label("job", job.name) + "," + label("dataset", job.dataset);
  return now.user_labels ? labels + "," + label("user", user_name(job.user)) : labels;
}

struct Kept {
  std::string labels;
  std::uint64_t items = 0;
  Bytes bytes = 0;
};

// Every form in every tier that it can be in, even if nothing is there.
std::vector<Kept> kept_by_form(const std::vector<CacheShare>& cache) {
  constexpr std::pair<Form, Tier> kPlaces[] = {{Form::encoded, Tier::dram},
                                               {Form::decoded, Tier::dram},
                                               {Form::prepared, Tier::dram},
                                               {Form::encoded, Tier::nvme}};
  std::vector<Kept> all;
  for (const auto& [form, tier] : kPlaces) {
    Kept kept;
    kept.labels = label("form", name_of(form)) + "," + label("tier", name_of(tier));
    for (const CacheShare& one : cache) {
      if (one.form != form || one.tier != tier) continue;
      kept.items += one.items;
      kept.bytes += one.bytes;
    }
    all.push_back(std::move(kept));
  }
  return all;
}

}  // namespace

std::string metrics_text(const Snapshot& now) {
  Text text;
  text.head("build_info", "gauge", "The version that runs; always 1.");
  text.value("build_info", label("version", now.version), 1);
  text.metric("uptime_seconds", "gauge", "Since the service was started.", now.up_s);
  text.metric("batches_delivered_total", "counter", "Batches handed to ranks.",
              number(now.moved.delivered_batches));
  text.metric("samples_delivered_total", "counter", "Samples in these.",
              number(now.moved.delivered_samples));
  text.metric("samples_copied_total", "counter", "Samples gathered into batches that cross blocks.",
              number(now.moved.copied_samples));
  text.metric("samples_prepared_total", "counter", "Samples decoded or augmented.",
              number(now.moved.prepared_samples));
  text.metric("blocks_prepared_total", "counter", "Blocks prepared.",
              number(now.moved.prepared_blocks));
  text.metric("blocks_remade_total", "counter", "Of these, blocks that had been prepared before.",
              number(now.engine.remakes));
  text.metric("repeats_total", "counter",
              "Deliveries of a sample with the same random draws to the same job.",
              number(now.engine.repeats));
  text.metric("prepare_seconds_total", "counter", "Time workers spent preparing.", now.preparing_s);
  text.head("stall_seconds_total", "counter",
            "Time ranks had no batch, of all jobs there ever were, by the stage it was in.");
  for (std::size_t i = 0; i < kStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    text.value("stall_seconds_total", label("stage", stage_name(stage)),
               seconds(now.stalls[stage]));
  }
  text.head("wait_seconds", "histogram",
            "How long ranks waited for each batch, of all jobs there ever were.");
  text.histogram("wait_seconds", {}, now.waits);
  text.metric("storage_busy_seconds_total", "counter", "Time in which anything was being read.",
              now.storage_busy_s);
  text.metric("storage_block_read_seconds_total", "counter",
              "Time blocks were being read, each on its own.", now.reads_s);
  text.metric("storage_block_reads", "gauge", "Blocks that are being read.", now.reads_now);
  text.metric("preparing_blocks", "gauge", "Blocks that workers have.", now.preparing_now);
  text.metric("storage_read_bytes_total", "counter", "Read from the datasets' storage.",
              number(now.moved.read_bytes));
  text.metric("storage_reads_total", "counter",
              "Reads of storage. One brings a sample, or a bundle of small ones.",
              number(now.moved.device_reads));
  text.metric("storage_samples_total", "counter", "Samples that these have brought.",
              number(now.moved.read_samples));
  text.metric("storage_errors_total", "counter", "Reads that failed.",
              number(now.moved.read_errors));
  text.head("cache_hits_total", "counter", "Samples prepared from what was kept, by its form.");
  text.value("cache_hits_total", label("form", "decoded"), number(now.moved.decoded_hits));
  text.value("cache_hits_total", label("form", "encoded"), number(now.moved.encoded_hits));
  text.head("cache_bytes", "gauge", "What is kept takes so much, by form and tier.");
  const std::vector<Kept> kept = kept_by_form(now.cache);
  for (const Kept& one : kept) text.value("cache_bytes", one.labels, number(one.bytes));
  text.head("cache_items", "gauge", "Samples, or blocks and batches, that are kept.");
  for (const Kept& one : kept) text.value("cache_items", one.labels, number(one.items));
  text.metric("cache_used_bytes", "gauge", "Memory in use, with what jobs have not yet unmapped.",
              number(now.used_bytes));
  text.metric("staged_bytes", "gauge",
              "Memory of samples that are read and not yet prepared or kept.",
              number(now.staged_bytes));
  text.metric("staging_limit_bytes", "gauge", "What is set apart for these.",
              number(now.staging_bytes));
  text.head("cache_limit_bytes", "gauge", "What these may take together.");
  text.value("cache_limit_bytes", label("tier", "dram"), number(now.cache_bytes));
  text.value("cache_limit_bytes", label("tier", "nvme"), number(now.spill_limit_bytes));
  text.metric("cache_refusals_total", "counter", "Samples that were to be kept, and found no room.",
              number(now.moved.not_kept));
  text.metric("memory_waits_total", "counter", "Blocks and batches that found no memory at once.",
              number(now.moved.no_memory));
  text.metric("spill_read_bytes_total", "counter", "Read back from the spill file.",
              number(now.spill.read_bytes));
  text.metric("spill_reads_total", "counter", "Samples read back from the spill file.",
              number(now.spill.read_samples));
  text.metric("spill_written_bytes_total", "counter", "Written to the spill file.",
              number(now.spill.written_bytes));
  text.metric("spill_missed_total", "counter",
              "Samples that should have been in the spill file, and were read from their source.",
              number(now.spill.missed));
  text.metric("spill_mismatched_total", "counter", "Of these, samples that had changed there.",
              number(now.spill.mismatched));
  text.metric("spill_errors_total", "counter", "Reads and writes of the spill file that failed.",
              number(now.spill.errors));
  text.metric("workers", "gauge", "Threads that prepare.", now.workers);
  text.metric("workers_limit", "gauge", "What these may be at most.", now.workers_most);
  std::uint32_t remote = 0, all = 0;
  for (const Jobs::Status& job : now.jobs) {
    remote += job.remote_ranks;
    all += job.ranks_here;
  }
  text.head("ranks", "gauge", "Ranks of jobs that are connected, by where they are.");
  text.value("ranks", label("where", "local"), all - remote);
  text.value("ranks", label("where", "remote"), remote);
  text.metric("connections", "gauge", "Open connections.", number(now.connections));
  text.metric("corrupt_samples_total", "counter", "Samples that could not be decoded.",
              number(now.engine.corrupt_samples));
  text.metric("policy_refusals_total", "counter", "Proposals of policies that broke a rule.",
              number(now.engine.refused_proposals));
  text.metric("followed_requests_total", "counter",
              "Requests of samples that are followed to see what caches miss.",
              number(now.engine.followed_requests));
  text.metric("followed_hits_total", "counter", "How many of these hit.",
              number(now.engine.followed_hits));
  text.metric("followed_bound_hits_total", "counter",
              "How many would hit in caches as large that knew all next uses.",
              number(now.engine.followed_bound_hits));

  const auto of_steps = [&](std::string_view name, std::string_view help, auto value) {
    text.head(name, "counter", help);
    for (const StepReport& one : now.step_reports)
      text.value(name,
                 label("pipeline", one.pipeline) + "," + label("dataset", one.dataset) + "," +
                     label("step", one.step),
                 value(one.counters));
  };
  of_steps("step_samples_total", "Samples made by a step that is a plugin.",
           [](const step::StepCounters& one) { return number(one.samples); });
  of_steps("step_seconds_total", "Time its processes took for these and for corrupt ones.",
           [](const step::StepCounters& one) { return seconds(one.busy); });
  of_steps("step_corrupt_total", "Samples that it said are corrupt.",
           [](const step::StepCounters& one) { return number(one.corrupt); });
  of_steps("step_starts_total", "Processes that were started for it.",
           [](const step::StepCounters& one) { return number(one.starts); });
  of_steps("step_crashes_total", "Processes that ended in mid-sample.",
           [](const step::StepCounters& one) { return number(one.crashes); });
  of_steps("step_timeouts_total", "Processes that were ended, as they did not answer in time.",
           [](const step::StepCounters& one) { return number(one.late); });

  const auto of_nodes = [&](std::string_view name, std::string_view type, std::string_view help,
                            auto value) {
    text.head(name, type, help);
    for (const NodeStatus& one : now.nodes) text.value(name, label("node", one.name), value(one));
  };
  // The other nodes of a cluster.
  of_nodes("node_ready", "gauge", "1: the agent has opened all datasets.",
           [](const NodeStatus& one) { return one.ready ? 1.0 : 0.0; });
  of_nodes("node_ranks", "gauge", "Ranks of jobs that are connected there.",
           [](const NodeStatus& one) { return number(one.ranks); });
  of_nodes("node_workers", "gauge", "Threads that prepare there.",
           [](const NodeStatus& one) { return number(one.counters.workers); });
  of_nodes("node_used_bytes", "gauge", "Memory in use there.",
           [](const NodeStatus& one) { return number(one.counters.used_bytes); });
  of_nodes("node_memory_bytes", "gauge", "What this may be at most.",
           [](const NodeStatus& one) { return number(one.memory); });
  of_nodes("node_storage_read_bytes_total", "counter", "Read there from the datasets' storage.",
           [](const NodeStatus& one) { return number(one.counters.read_bytes); });
  of_nodes("node_storage_busy_seconds_total", "counter", "Time in which anything was read so.",
           [](const NodeStatus& one) { return number(one.counters.store_busy_ns) / 1e9; });
  of_nodes("node_storage_errors_total", "counter", "Reads that failed there.",
           [](const NodeStatus& one) { return number(one.counters.read_errors); });
  of_nodes("node_fetched_bytes_total", "counter", "Fetched there from the memory of other nodes.",
           [](const NodeStatus& one) { return number(one.counters.fetched_bytes); });
  of_nodes("node_fetching_seconds_total", "counter", "Time in which anything was fetched so.",
           [](const NodeStatus& one) { return number(one.counters.fetching_ns) / 1e9; });
  of_nodes("node_samples_prepared_total", "counter", "Samples decoded or augmented there.",
           [](const NodeStatus& one) { return number(one.counters.prepared_samples); });
  of_nodes("node_prepare_seconds_total", "counter", "Time workers spent preparing there.",
           [](const NodeStatus& one) { return number(one.counters.preparing_ns) / 1e9; });

  const auto of_jobs = [&](std::string_view name, std::string_view type, std::string_view help,
                           auto value) {
    text.head(name, type, help);
    for (const Jobs::Status& job : now.jobs) text.value(name, labels_of(job, now), value(job));
  };
  of_jobs("job_stall_seconds_total", "counter", "Time ranks waited for batches.",
          [&](const Jobs::Status& job) { return seconds(job.waited); });
  text.head("job_stage_stall_seconds_total", "counter",
            "Time ranks had no batch, by the stage it was in.");
  for (const Jobs::Status& job : now.jobs) {
    for (std::size_t i = 0; i < kStages; ++i) {
      const auto stage = static_cast<Stage>(i);
      text.value("job_stage_stall_seconds_total",
                 labels_of(job, now) + "," + label("stage", stage_name(stage)),
                 seconds(job.stalls[stage]));
    }
  }
  text.head("job_wait_seconds", "histogram", "How long the job's ranks waited for each batch.");
  for (const Jobs::Status& job : now.jobs)
    text.histogram("job_wait_seconds", labels_of(job, now), job.waits_for_batches);
  of_jobs("job_compute_seconds_total", "counter", "Time ranks spent with batches.",
          [&](const Jobs::Status& job) { return seconds(job.computed); });
  of_jobs("job_samples_total", "counter", "Samples handed to the job.",
          [](const Jobs::Status& job) { return number(job.samples); });
  of_jobs("job_steps_total", "counter", "Steps the job has trained.",
          [](const Jobs::Status& job) { return number(job.steps); });
  of_jobs("job_epoch", "gauge", "The epoch the job is in, from 0.",
          [](const Jobs::Status& job) { return number(job.epoch); });
  of_jobs("job_held_batches", "gauge", "Batches the job has not released.",
          [](const Jobs::Status& job) { return number(job.held); });
  return text.take();
}

}  // namespace batchflow::service
