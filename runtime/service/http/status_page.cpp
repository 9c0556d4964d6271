#include <algorithm>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "runtime/service/http/snapshot.h"

namespace batchflow::service {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>BatchFlow</title><style>
:root{color-scheme:light dark;--line:#8884;--soft:#8882;--bar:#3b7dd8;--stall:#d9822b}
body{font:15px/1.45 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.8rem 0 .5rem}p{margin:.2rem 0;opacity:.75}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.8rem;margin-top:1rem}
.tile{border:1px solid var(--line);border-radius:.5rem;padding:.7rem .9rem}
.tile b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}.tile span{opacity:.7}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.35rem .6rem;border-bottom:1px solid var(--line)}
th{font-weight:600;opacity:.7}th:first-child,td:first-child{text-align:left}
.bar{display:block;height:.55rem;min-width:8rem;background:var(--soft);border-radius:.3rem;overflow:hidden}
.bar i{display:block;height:100%;background:var(--bar)}.bar i.stall{background:var(--stall)}
.scroll{overflow-x:auto}
</style></head><body>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string bytes_text(Bytes bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string tile(std::string_view value, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", value, what);
}

std::string bar(double share, bool stall) {
  return fmt::format("<span class=\"bar\"><i{} style=\"width:{:.1f}%\"></i></span>",
                     stall ? " class=\"stall\"" : "", 100 * std::clamp(share, 0.0, 1.0));
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

std::string jobs_table(const Snapshot& now) {
  if (now.jobs.empty()) return "<p>No jobs.</p>\n";
  std::string out =
      "<div class=\"scroll\"><table><tr><th>job</th><th>dataset</th><th>pipeline</th><th>ranks</th>"
      "<th>batch</th><th>epoch</th><th>samples</th><th>stalled</th><th></th></tr>\n";
  for (const Jobs::Status& job : now.jobs) {
    const double stalled = share(seconds(job.waited), seconds(job.waited) + seconds(job.computed));
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{:.1f} %</td><td>{}</td></tr>\n",
        escaped(job.name), escaped(job.dataset), escaped(job.pipeline), job.world_size,
        job.batch_samples, job.running ? std::to_string(job.epoch) : "waits for ranks", job.samples,
        100 * stalled, bar(stalled, true));
  }
  return out + "</table></div>\n";
}

constexpr std::string_view kNodesHead =
    "<h2>Nodes</h2>\n<div class=\"scroll\"><table><tr><th>node</th><th>ranks</th>"
    "<th>workers</th><th>read</th><th>fetched</th><th>prepared</th><th>ms each</th>"
    "<th>memory</th><th></th></tr>\n";

std::string node_line(const NodeStatus& one) {
  const NodeCounters& count = one.counters;
  const auto samples = static_cast<double>(count.prepared_samples);
  const double preparing_s = static_cast<double>(count.preparing_ns) / 1e9;
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
      "<td>{}</td><td>{}</td></tr>\n",
      escaped(one.name) + (one.ready ? "" : " (opens datasets)"), one.ranks, count.workers,
      bytes_text(count.read_bytes), bytes_text(count.fetched_bytes), count.prepared_samples,
      samples > 0 ? fmt::format("{:.2f}", 1000 * preparing_s / samples) : "-",
      bytes_text(one.memory),
      bar(share(static_cast<double>(count.used_bytes), static_cast<double>(one.memory)), false));
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
  std::string out = std::string(kNodesHead) + node_line(own);
  for (const NodeStatus& one : now.nodes) out += node_line(one);
  return out + "</table></div>\n";
}

std::string memory_table(const Snapshot& now) {
  std::string out = "<table><tr><th>what</th><th>in use</th><th>of all</th><th></th></tr>\n";
  const auto line = [&](std::string_view what, Bytes bytes, Bytes all) {
    const double part = share(static_cast<double>(bytes), static_cast<double>(all));
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{}</td></tr>\n", what,
                       bytes_text(bytes), 100 * part, bar(part, false));
  };
  line("blocks ready to train on", now.block_bytes, now.cache_bytes);
  line("samples, as stored or decoded", now.item_bytes, now.cache_bytes);
  line("what is read and not yet prepared or kept", now.staged_bytes, now.staging_bytes);
  line("all of it, with what jobs still map", now.used_bytes, now.cache_bytes);
  if (now.spill_limit_bytes > 0)
    line("samples as stored, on the local drive", now.spill_bytes, now.spill_limit_bytes);
  return out + "</table>\n";
}

std::string datasets_table(const Snapshot& now) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>dataset</th><th>samples</th><th>stored</th>"
      "<th>classes</th><th>version</th></tr>\n";
  for (const Snapshot::Dataset& one : now.datasets) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:016x}</td></tr>\n",
                       escaped(one.name), one.feed ? "no end" : std::to_string(one.samples),
                       bytes_text(one.feed ? one.feed->state.kept : one.bytes), one.classes,
                       one.version);
  }
  for (const std::string& name : now.opening)
    out += fmt::format("<tr><td>{}</td><td colspan=\"4\">its index is being made</td></tr>\n",
                       escaped(name));
  return out + "</table></div>\n";
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
  std::string out(kHead);
  out += fmt::format("<h1>BatchFlow {}</h1><p>process {}, up {:.0f} s, {}</p>\n",
                     escaped(now.version), now.process, now.up_s, escaped(now.storage));
  out += "<div class=\"tiles\">\n";
  out += tile(fmt::format("{:.0f}", delivered), "samples delivered");
  out += tile(fmt::format("{:.0f}", prepared), "samples prepared");
  out += tile(prepared > 0 ? fmt::format("{:.2f}", delivered / prepared) : "-",
              "deliveries of each prepared sample");
  out += tile(bytes_text(read_bytes), "read from storage");
  out += tile(fmt::format("{} of {}", workers, workers_most), "workers");
  out += tile(std::to_string(now.engine.corrupt_samples), "corrupt samples");
  out +=
      "</div>\n<h2>Jobs</h2>\n" + jobs_table(now) + nodes_table(now) +
      (now.nodes.empty() ? "<h2>Memory</h2>\n" : "<h2>Memory of this node</h2>\n") +
      memory_table(now) + "<h2>Datasets</h2>\n" + datasets_table(now) +
      "<p>Also: <a href=\"/metrics\">/metrics</a>, <a href=\"/status.json\">/status.json</a></p>\n"
      "</body></html>\n";
  return out;
}

std::string status_page(const AgentSnapshot& now) {
  std::string out(kHead);
  out += fmt::format("<h1>BatchFlow {}</h1><p>process {}, up {:.0f} s; an agent {}</p>\n",
                     escaped(now.version), now.process, now.up_s,
                     now.coordinator.empty() ? "that looks for its coordinator"
                                             : "of " + escaped(now.coordinator));
  out += std::string(kNodesHead) + node_line(now.node) + "</table></div>\n";
  if (now.node.drive > 0)
    out += fmt::format("<p>{} of {} are kept on the drive.</p>\n",
                       bytes_text(now.node.counters.spill_bytes), bytes_text(now.node.drive));
  if (!now.page.empty())
    out += fmt::format(
        "<p>Jobs, datasets and the other nodes: <a href=\"{0}\">{0}</a>, the coordinator's "
        "page</p>\n",
        escaped(now.page));
  out +=
      "<p>Also: <a href=\"/metrics\">/metrics</a>, <a href=\"/status.json\">/status.json</a></p>\n"
      "</body></html>\n";
  return out;
}

}  // namespace batchflow::service
