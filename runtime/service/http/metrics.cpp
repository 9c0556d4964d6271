// The metrics for Prometheus: those of figures.h, and those that have labels.
#include <string>
#include <string_view>

#include "core/base/names.h"
#include "fmt/format.h"
#include "runtime/service/http/figures.h"
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

void add_steps(Text& text, const Snapshot& now) {
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
}

// The other nodes of a cluster, or an agent's own.
void add_nodes(Text& text, const std::vector<NodeStatus>& nodes) {
  const auto of_nodes = [&](std::string_view name, std::string_view type, std::string_view help,
                            auto value) {
    text.head(name, type, help);
    for (const NodeStatus& one : nodes) text.value(name, label("node", one.name), value(one));
  };
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
  of_nodes("node_spill_used_bytes", "gauge", "In use on the drive there.",
           [](const NodeStatus& one) { return number(one.counters.spill_bytes); });
  of_nodes("node_spill_limit_bytes", "gauge", "What this may be at most.",
           [](const NodeStatus& one) { return number(one.drive); });
  of_nodes("node_spill_read_bytes_total", "counter", "Read back from the drive there.",
           [](const NodeStatus& one) { return number(one.counters.spill_read_bytes); });
  of_nodes("node_spill_missed_total", "counter",
           "Samples that should have been on the drive there, and were read from their source.",
           [](const NodeStatus& one) { return number(one.counters.spill_missed); });
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
}

void add_jobs(Text& text, const Snapshot& now) {
  // Of each metric, the values of all jobs stand together.
  visit_figures(Jobs::Status{}, [&](std::string_view name, auto, const Metric& metric) {
    if (metric.name.empty()) return;
    text.head(metric.name, metric.type(), metric.help);
    for (const Jobs::Status& job : now.jobs)
      visit_figures(job, [&](std::string_view other, auto value, const Metric&) {
        if (other == name) text.value(metric.name, labels_of(job, now), static_cast<double>(value));
      });
  });
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
}

}  // namespace

std::string metrics_text(const Snapshot& now) {
  Text text;
  text.head("build_info", "gauge", "The version that runs; always 1.");
  text.value("build_info", label("version", now.version), 1);
  visit_figures(now, [&](const char*, auto value, const Metric& metric) {
    if (metric.name.empty()) return;
    text.head(metric.name, metric.type(), metric.help);
    text.value(metric.name, {}, static_cast<double>(value));
  });
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
  text.head("cache_hits_total", "counter", "Samples prepared from what was kept, by its form.");
  text.value("cache_hits_total", label("form", "decoded"), number(now.moved.decoded_hits));
  text.value("cache_hits_total", label("form", "encoded"), number(now.moved.encoded_hits));
  text.head("cache_bytes", "gauge", "What is kept takes so much, by form and tier.");
  const std::vector<Kept> kept = kept_by_form(now.cache);
  for (const Kept& one : kept) text.value("cache_bytes", one.labels, number(one.bytes));
  text.head("cache_items", "gauge", "Samples, or blocks and batches, that are kept.");
  for (const Kept& one : kept) text.value("cache_items", one.labels, number(one.items));
  text.head("cache_limit_bytes", "gauge", "What these may take together.");
  text.value("cache_limit_bytes", label("tier", "dram"), number(now.cache_bytes));
  text.value("cache_limit_bytes", label("tier", "nvme"), number(now.spill_limit_bytes));
  std::uint32_t remote = 0, all = 0;
  for (const Jobs::Status& job : now.jobs) {
    remote += job.remote_ranks;
    all += job.ranks_here;
  }
  text.head("ranks", "gauge", "Ranks of jobs that are connected, by where they are.");
  text.value("ranks", label("where", "local"), all - remote);
  text.value("ranks", label("where", "remote"), remote);
  add_steps(text, now);
  add_nodes(text, now.nodes);
  add_jobs(text, now);
  return text.take();
}

std::string metrics_text(const AgentSnapshot& now) {
  Text text;
  text.head("build_info", "gauge", "The version that runs; always 1.");
  text.value("build_info", label("version", now.version), 1);
  text.head("uptime_seconds", "gauge", "Since the agent was started.");
  text.value("uptime_seconds", {}, now.up_s);
  text.head("agent_has_coordinator", "gauge", "0: the agent looks for its coordinator.");
  text.value("agent_has_coordinator", {}, now.coordinator.empty() ? 0 : 1);
  text.head("connections", "gauge", "Open connections.");
  text.value("connections", {}, number(now.connections));
  add_nodes(text, {now.node});
  return text.take();
}

}  // namespace batchflow::service
