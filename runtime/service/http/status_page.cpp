#include <algorithm>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "runtime/service/http/page_parts.h"
#include "runtime/service/http/snapshot.h"

namespace batchflow::service {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>BatchFlow</title>
<link rel="stylesheet" href="page.css"><script src="page.js" defer></script>
</head><body>
<noscript><p>This is how it was when the page was loaded: without JavaScript it does not change.
Reload it to see what is new.</p></noscript>
<p id="told" role="status"></p>
<main>
)";

constexpr std::string_view kFoot =
    "<p>Also: <a href=\"/metrics\">/metrics</a>, <a href=\"/status.json\">/status.json</a></p>\n"
    "</main></body></html>\n";

std::string small(std::string_view text) {
  return text.empty() ? std::string() : fmt::format("<small>{}</small>", text);
}

// What a job has waited for since it began.
std::vector<double> stalled_shares(const Jobs::Status& job) {
  const double whole_s = seconds(job.stalls.sum() + job.computed);
  std::vector<double> shares;
  for (std::size_t i = 0; i < kStages; ++i)
    shares.push_back(share_of(seconds(job.stalls[static_cast<Stage>(i)]), whole_s));
  return shares;
}

// What the job did in the last seconds.
std::string recent(const Jobs::Status& job, const Snapshot& now) {
  const auto before = now.jobs_before.jobs.find(job.id.value);
  const double lasted_s = seconds(now.counters.at - now.jobs_before.at);
  if (before == now.jobs_before.jobs.end() || lasted_s <= 0) return "-";
  const JobPoint& then = before->second;
  const double stalled_s = std::max(0.0, seconds(job.stalls.sum() - then.stalled));
  const double computed_s = seconds(job.computed - then.computed);
  return fmt::format(
      "{}{}", rate_text(static_cast<double>(job.samples - then.samples) / lasted_s),
      small(fmt::format("{:.0f} % stalled", 100 * share_of(stalled_s, stalled_s + computed_s))));
}

std::string epoch_of(const Jobs::Status& job) {
  if (!job.running) return "waits for ranks";
  const std::string epoch = std::to_string(job.epoch);
  if (job.waiting == 0 || job.waits < std::chrono::seconds(1)) return epoch;
  return epoch + small(fmt::format("waits for {}, {:.0f} s", stage_name(job.waits_for),
                                   seconds(job.waits)));
}

// A pipeline that a job has brought is named by a hash, which tells people nothing.
std::string pipeline_of(const Jobs::Status& job, const Snapshot& now) {
  const auto found = now.job_steps.find(job.pipeline_id.value);
  if (found == now.job_steps.end()) return escaped(job.pipeline);
  std::string steps;
  for (const std::string& name : found->second.names) steps += (steps.empty() ? "" : ", ") + name;
  return (found->second.brought ? "brought by the job" : escaped(job.pipeline)) +
         small(steps.empty() ? "samples as stored" : escaped(steps));
}

std::string jobs_table(const Snapshot& now) {
  if (now.jobs.empty()) return "<p>No jobs.</p>\n";
  Table table({"job", "dataset", "pipeline", "ranks", "batch", "epoch", "samples", "samples/s now",
               "stalled since it began"});
  for (const Jobs::Status& job : now.jobs) {
    const std::vector<double> stalled = stalled_shares(job);
    double all = 0;
    for (const double one : stalled) all += one;
    table.add(
        {escaped(job.name), escaped(job.dataset), pipeline_of(job, now),
         std::to_string(job.world_size), std::to_string(job.batch_samples), epoch_of(job),
         std::to_string(job.samples), recent(job, now),
         fmt::format("{:.1f} %{}{}", 100 * all, stage_bar(stalled), small(stage_text(stalled)))});
  }
  return std::move(table).take() + stage_legend();
}

Table nodes_head() {
  return Table(
      {"node", "ranks", "workers", "read", "fetched", "prepared", "ms each", "memory", "in use"});
}

void add_node(Table& table, const NodeStatus& one) {
  const NodeCounters& count = one.counters;
  const auto samples = static_cast<double>(count.prepared_samples);
  const double preparing_s = static_cast<double>(count.preparing_ns) / 1e9;
  table.add(
      {escaped(one.name) + (one.ready ? "" : " (opens datasets)"), std::to_string(one.ranks),
       std::to_string(count.workers), bytes_text(count.read_bytes), bytes_text(count.fetched_bytes),
       std::to_string(count.prepared_samples),
       samples > 0 ? fmt::format("{:.2f}", 1000 * preparing_s / samples) : "-",
       bytes_text(one.memory),
       use_bar(share_of(static_cast<double>(count.used_bytes), static_cast<double>(one.memory)))});
}

// Empty for a service that has one node.
std::string nodes_table(const Snapshot& now) {
  if (now.nodes.empty()) return {};
  NodeStatus own;
  own.name = "this one";
  own.ranks = now.connections;
  own.ready = true;
  own.memory = now.planned_bytes;
  own.counters.workers = now.workers;
  own.counters.read_bytes = now.moved.read_bytes;
  own.counters.fetched_bytes = now.moved.fetched_bytes;
  own.counters.prepared_samples = now.moved.prepared_samples;
  own.counters.preparing_ns = static_cast<std::uint64_t>(now.preparing_s * 1e9);
  own.counters.used_bytes = now.used_bytes;
  Table table = nodes_head();
  add_node(table, own);
  for (const NodeStatus& one : now.nodes) add_node(table, one);
  return "<h2>Nodes</h2>\n" + std::move(table).take();
}

std::string memory_table(const Snapshot& now) {
  Table table({"what", "in use", "of all", ""});
  const auto line = [&](const char* what, Bytes bytes, Bytes all) {
    const double part = share_of(static_cast<double>(bytes), static_cast<double>(all));
    table.add({what, bytes_text(bytes), fmt::format("{:.1f} %", 100 * part), use_bar(part)});
  };
  line("blocks ready to train on", now.block_bytes, now.cache_bytes);
  line("samples, as stored or decoded", now.item_bytes, now.cache_bytes);
  line("what is read and not yet prepared or kept", now.staged_bytes, now.staging_bytes);
  line("all of it, with what jobs still map", now.used_bytes, now.cache_bytes);
  if (now.spill_limit_bytes > 0)
    line("samples as stored, on the local drive", now.spill_bytes, now.spill_limit_bytes);
  return std::move(table).take();
}

// The query of a URL may let its reader in.
std::string path_of(const Snapshot::Dataset& dataset) {
  if (dataset.path.empty()) return "only for its user";
  return escaped(objects::is_url(dataset.path) ? dataset.path.substr(0, dataset.path.find('?'))
                                               : dataset.path);
}

std::string datasets_table(const Snapshot& now) {
  Table table({"dataset", "path", "samples", "stored", "classes"});
  bool has_numbers = false;
  for (const Snapshot::Dataset& one : now.datasets) {
    has_numbers = has_numbers || (one.brought && one.path.empty());
    table.add({escaped(one.name), path_of(one), one.feed ? "no end" : std::to_string(one.samples),
               bytes_text(one.feed ? one.feed->state.kept : one.bytes),
               std::to_string(one.classes)});
  }
  for (const std::string& name : now.opening)
    table.add({escaped(name), "its index is being made", "", "", ""});
  std::string out = std::move(table).take();
  if (has_numbers)
    out +=
        "<p>A folder that a job has named by its path has a number here, because every user of "
        "this machine can read this page. <code>batchflowctl status</code> shows the path to the "
        "job's user and to the service's.</p>\n";
  return out;
}

std::string throughput(const Snapshot& now) {
  std::vector<HistoryPoint> points = now.history;
  points.push_back(now.counters);
  return history_graphs(points);
}

Pace pace_now(const Snapshot& now) {
  if (now.history.empty()) return pace_between(now.counters, now.counters);
  const std::size_t back = std::min(now.history.size(), History::kRecent);
  return pace_between(now.history[now.history.size() - back], now.counters);
}

}  // namespace

std::string status_page(const Snapshot& now) {
  std::uint64_t prepared_samples = now.moved.prepared_samples;
  std::uint64_t workers = now.workers, workers_most = now.workers_most;
  Bytes read_bytes = now.moved.read_bytes;
  for (const NodeStatus& one : now.nodes) {
    prepared_samples += one.counters.prepared_samples;
    read_bytes += one.counters.read_bytes;
    workers += one.counters.workers;
    workers_most += one.cores;
  }
  const auto prepared = static_cast<double>(prepared_samples);
  const auto delivered = static_cast<double>(now.moved.delivered_samples);
  const Pace pace = pace_now(now);
  double stalled = 0;
  for (const double one : pace.stalled) stalled += one;
  std::string out(kHead);
  out += fmt::format("<h1>BatchFlow {}</h1><p>process {}, up {:.0f} s, {}</p>\n",
                     escaped(now.version), now.process, now.up_s, escaped(now.storage));
  out += "<div class=\"tiles\">\n";
  out += tile(rate_text(pace.samples_per_s), "samples/s now");
  out += tile(fmt::format("{:.0f} %", 100 * stalled), "stalled now");
  out += tile(fmt::format("{:.0f}", delivered), "samples delivered");
  out += tile(fmt::format("{:.0f}", prepared), "samples prepared");
  out += tile(prepared > 0 ? fmt::format("{:.2f}", delivered / prepared) : "-",
              "deliveries of each prepared sample");
  out += tile(bytes_text(read_bytes), "read from storage");
  out += tile(fmt::format("{} of {}", workers, workers_most), "workers");
  out += tile(std::to_string(now.engine.corrupt_samples), "corrupt samples");
  out += "</div>\n<h2>Jobs</h2>\n" + jobs_table(now) + "<h2>The last minutes</h2>\n" +
         throughput(now) + nodes_table(now) +
         (now.nodes.empty() ? "<h2>Memory</h2>\n" : "<h2>Memory of this node</h2>\n") +
         memory_table(now) + "<h2>Datasets</h2>\n" + datasets_table(now);
  return out += kFoot;
}

std::string status_page(const AgentSnapshot& now) {
  std::string out(kHead);
  out += fmt::format("<h1>BatchFlow {}</h1><p>process {}, up {:.0f} s; an agent {}</p>\n",
                     escaped(now.version), now.process, now.up_s,
                     now.coordinator.empty() ? "that looks for its coordinator"
                                             : "of " + escaped(now.coordinator));
  Table table = nodes_head();
  add_node(table, now.node);
  out += "<h2>Nodes</h2>\n" + std::move(table).take() + "<h2>The last minutes</h2>\n" +
         node_graphs(now.delivered, now.prepared);
  if (now.node.drive > 0)
    out += fmt::format("<p>{} of {} are kept on the drive.</p>\n",
                       bytes_text(now.node.counters.spill_bytes), bytes_text(now.node.drive));
  if (!now.page.empty())
    out += fmt::format(
        "<p>Jobs, datasets and the other nodes: <a href=\"{0}\">{0}</a>, the coordinator's "
        "page</p>\n",
        escaped(now.page));
  return out += kFoot;
}

}  // namespace batchflow::service
