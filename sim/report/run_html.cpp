#include "sim/report/run_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/figures.h"
#include "sim/report/chart.h"
#include "sim/report/html.h"
#include "sim/report/over_time.h"
#include "sim/run_report.h"
#include "sim/sizes.h"

namespace batchflow::sim {

namespace {

using Runs = std::span<const RunResult>;

constexpr std::size_t kSpans = 80;
constexpr std::size_t kRunsPlotted = kColors;
constexpr std::size_t kJobsPlotted = kColors;
constexpr std::size_t kJobsListed = 200;  // of one run

Runs plotted(Runs runs) {
  return runs.first(std::min(runs.size(), kRunsPlotted));
}

std::string grid(const std::string& figures) {
  return "<div class=\"grid\">\n" + figures + "</div>\n";
}

// -------------------------------------------------------------------------------- summary ----

bool counts(const RunResult& run) {
  return run.failure.empty() && !run.interrupted;
}

// Of those that ran to their end; no number when nobody could tell them apart, or there is one.
double best_of(Runs runs, const Figure& figure) {
  double least = INFINITY;
  double most = -INFINITY;
  for (const RunResult& run : runs) {
    if (!counts(run)) continue;
    least = std::min(least, figure.value(run));
    most = std::max(most, figure.value(run));
  }
  if (!(most > least + 1e-3 * std::abs(least)) || figure.better == Better::none) return NAN;
  return figure.better == Better::more ? most : least;
}

std::string summary(Runs runs) {
  std::vector<Column> columns{{"run", "", true}};
  for (const Figure& figure : figures()) columns.push_back({figure.name, figure.help});
  columns.push_back({"seed"});
  std::vector<std::vector<Cell>> rows;
  for (const RunResult& run : runs) {
    std::vector<Cell> row{text_cell(run_name(run))};
    for (const Figure& figure : figures()) {
      const double value = figure.value(run);
      const double first = figure.value(runs.front());
      Cell cell = figure_cell(figure.text(value), figure.field, value);
      if (&run != &runs.front() && first > 0) cell.beside = fmt::format("{:.2f}x", value / first);
      cell.best = counts(run) && value == best_of(runs, figure);
      row.push_back(std::move(cell));
    }
    row.push_back({fmt::format("{}", run.seed), "seed", fmt::format("{}", run.seed)});
    rows.push_back(std::move(row));
  }
  std::string text = html_table(columns, rows);
  for (const RunResult& run : runs) {
    if (run.interrupted) {
      text += fmt::format("<p>{} was interrupted: these are its results so far.</p>",
                          escaped(run_name(run)));
    }
    if (!run.failure.empty()) {
      text += fmt::format("<p>{} failed: {}</p>", escaped(run_name(run)), escaped(run.failure));
    }
  }
  return text;
}

// ----------------------------------------------------------------------------- where it goes ----

std::vector<Part> parts_of(double compute_s, const Waits& waited, double idle_s) {
  std::vector<Part> parts;
  for (const TimePart& part : kTimeParts) {
    const double value = part.wait != nullptr                 ? waited.*part.wait
                         : part.color == std::string("train") ? compute_s
                                                              : idle_s;
    parts.push_back({part.name, part.color, value});
  }
  return parts;
}

Waits waits_of_all(const RunResult& run) {
  Waits sum;
  for (const JobResult& job : run.jobs) {
    for (const TimePart& part : kTimeParts) {
      if (part.wait != nullptr) {
        sum.*part.wait += job.waited.*part.wait * static_cast<double>(job.ranks);
      }
    }
  }
  return sum;
}

std::string where_time_goes(Runs runs) {
  Bars bars{"GPU time of all jobs", "GPU hours and what they went to", Axis::seconds, {}};
  for (const RunResult& run : runs) {
    double compute_s = 0;
    double idle_s = 0;
    for (const JobResult& job : run.jobs) {
      compute_s += job.compute_s * static_cast<double>(job.ranks);
      idle_s += job.idle_s * static_cast<double>(job.ranks);
    }
    bars.rows.emplace_back(run_name(run), parts_of(compute_s, waits_of_all(run), idle_s));
  }
  bars.beside = "sum over ranks";
  std::string figures = bar_chart(bars);
  for (const RunResult& run : plotted(runs)) {
    const Spans spans(run.makespan_s, kSpans);
    Chart chart;
    chart.title = run_name(run);
    chart.beside = "ranks";
    chart.x = spans.middles();
    chart.stacked = true;
    if (run.cluster.gpus > 0) chart.limit = static_cast<double>(run.cluster.gpus);
    const auto parts = time_parts(run, spans);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const bool any =
          std::any_of(parts[p].begin(), parts[p].end(), [](double v) { return v > 0; });
      if (any) chart.series.push_back({kTimeParts[p].name, kTimeParts[p].color, parts[p]});
    }
    figures += line_chart(chart);
  }
  return grid(figures);
}

// ---------------------------------------------------------------------------------- plots ----

double longest(Runs runs) {
  double longest = 0;
  for (const RunResult& run : runs) longest = std::max(longest, run.makespan_s);
  return longest;
}

// One line a run.
std::string compared(Runs runs, Chart chart,
                     const std::function<std::vector<double>(const RunResult&, const Spans&)>& of) {
  const Spans spans(longest(plotted(runs)), kSpans);
  chart.x = spans.middles();
  for (const RunResult& run : plotted(runs)) {
    chart.series.push_back({run_name(run), color_of(chart.series.size()), of(run, spans)});
  }
  return line_chart(chart);
}

std::string throughput(Runs runs) {
  Chart all;
  all.title = "All jobs";
  all.beside = "samples trained on a second";
  std::string figures = compared(runs, all, [](const RunResult& run, const Spans& spans) {
    return rates(run, spans,
                 [](const SeriesPoint& point) { return static_cast<double>(point.samples); });
  });
  for (const RunResult& run : plotted(runs)) {
    if (run.series.empty() || run.series.front().jobs.size() < 2) continue;
    const Spans spans(run.makespan_s, kSpans);
    Chart chart;
    chart.title = "By job: " + run_name(run);
    const std::size_t jobs = std::min(run.series.front().jobs.size(), kJobsPlotted);
    chart.beside = jobs < run.jobs.size()
                       ? fmt::format("samples/s, the first {} of {} jobs", jobs, run.jobs.size())
                       : "samples/s";
    chart.x = spans.middles();
    for (std::size_t j = 0; j < jobs; ++j) {
      chart.series.push_back(
          {run.jobs[j].name, color_of(j), rates(run, spans, [j](const SeriesPoint& point) {
             return static_cast<double>(point.jobs[j].samples);
           })});
    }
    figures += line_chart(chart);
  }
  return grid(figures);
}

std::string cache(Runs runs) {
  Chart hits;
  hits.title = "Hit ratio";
  hits.beside = "of samples asked for, those not read from the store";
  hits.y = Axis::ratio;
  hits.top = 1;
  std::string figures = compared(runs, hits, [](const RunResult& run, const Spans& spans) {
    const auto asked = rates(run, spans, [](const SeriesPoint& point) {
      return static_cast<double>(point.samples_requested);
    });
    auto read = rates(run, spans, [](const SeriesPoint& point) {
      return static_cast<double>(point.samples_read);
    });
    // What is read ahead is asked for a little later.
    for (std::size_t i = 0; i < read.size(); ++i) {
      read[i] = asked[i] > 0 ? std::max(0.0, 1 - read[i] / asked[i]) : NAN;
    }
    return read;
  });
  struct Kept {
    const char* name;
    const char* color;
    std::uint64_t CachedBytes::*bytes;
  };
  const Kept kept[] = {{"encoded, memory", "c0", &CachedBytes::encoded_dram},
                       {"decoded, memory", "c4", &CachedBytes::decoded_dram},
                       {"prepared, memory", "c2", &CachedBytes::prepared_dram},
                       {"encoded, drives", "c5", &CachedBytes::encoded_nvme},
                       {"decoded, drives", "c3", &CachedBytes::decoded_nvme}};
  for (const RunResult& run : plotted(runs)) {
    const Spans spans(run.makespan_s, kSpans);
    Chart chart;
    chart.title = "Kept: " + run_name(run);
    chart.beside = "bytes; dotted: all there is";
    chart.y = Axis::bytes;
    chart.x = spans.middles();
    chart.stacked = true;
    chart.limit = static_cast<double>(run.cluster.cache_bytes + run.cluster.nvme_bytes);
    for (const Kept& form : kept) {
      auto values = levels(run, spans, [&](const SeriesPoint& point) {
        return static_cast<double>(point.cached.*form.bytes);
      });
      const bool any = std::any_of(values.begin(), values.end(), [](double v) { return v > 0; });
      if (any) chart.series.push_back({form.name, form.color, std::move(values)});
    }
    figures += line_chart(chart);
  }
  return grid(figures);
}

// What can be busy, and what it has done.
struct Resource {
  const char* name;
  const char* color;
  double (*done)(const SeriesPoint&);
  double (*most)(const RunResult&);  // a second; 0: no limit
};
const Resource kResources[] = {
    {"GPUs", "c2", [](const SeriesPoint& point) { return point.compute_s; },
     [](const RunResult& run) { return static_cast<double>(run.cluster.gpus); }},
    {"cores", "c1", [](const SeriesPoint& point) { return point.busy_s; },
     [](const RunResult& run) { return static_cast<double>(run.cluster.cores); }},
    {"store", "c0",
     [](const SeriesPoint& point) { return static_cast<double>(point.storage_bytes); },
     [](const RunResult& run) { return run.cluster.store_bytes_per_s; }},
    {"network", "c3",
     [](const SeriesPoint& point) { return static_cast<double>(point.network_bytes); },
     [](const RunResult& run) { return run.cluster.network_bytes_per_s; }},
    {"PCIe", "c4", [](const SeriesPoint& point) { return static_cast<double>(point.pcie_bytes); },
     [](const RunResult& run) { return run.cluster.pcie_bytes_per_s; }}};

std::string utilisation(Runs runs) {
  std::string figures;
  for (const RunResult& run : plotted(runs)) {
    const Spans spans(run.makespan_s, kSpans);
    Chart chart;
    chart.title = run_name(run);
    chart.beside = "share of what there is";
    chart.y = Axis::ratio;
    chart.top = 1;
    chart.x = spans.middles();
    for (const Resource& resource : kResources) {
      const double most = resource.most(run);
      if (most <= 0) continue;
      auto values = rates(run, spans, resource.done);
      for (double& value : values) value = std::min(1.0, value / most);
      chart.series.push_back({resource.name, resource.color, std::move(values)});
    }
    figures += line_chart(chart);
  }
  return grid(figures);
}

// ----------------------------------------------------------------------------------- jobs ----

// How busy a resource was while the job waited; no number when it never did, or nobody looked.
double busy_while_waiting(const RunResult& run, std::size_t job, const Resource& resource) {
  const double most = resource.most(run);
  if (most <= 0 || run.series.empty() || job >= run.series.front().jobs.size()) return NAN;
  double waited_s = 0;
  double busy_s = 0;
  for (std::size_t i = 1; i < run.series.size(); ++i) {
    const SeriesPoint& from = run.series[i - 1];
    const SeriesPoint& to = run.series[i];
    const double stall_s = to.jobs[job].stall_s - from.jobs[job].stall_s;
    const double rate = (resource.done(to) - resource.done(from)) / (to.time_s - from.time_s);
    waited_s += stall_s;
    busy_s += stall_s * std::min(1.0, rate / most);
  }
  return waited_s > 0 ? busy_s / waited_s : NAN;
}

std::string bottleneck_text(const std::string& bottleneck) {
  if (bottleneck == "gpu") return "its GPUs";
  if (bottleneck == "ranks") return "its slowest rank";
  if (bottleneck == "cores") return "workers";
  if (bottleneck == "storage") return "the store";
  if (bottleneck == "other") return "orders (memory, policy)";
  return bottleneck;
}

std::vector<Cell> job_row(const RunResult& run, std::size_t index) {
  const JobResult& job = run.jobs[index];
  const auto whole = [](const char* field, std::uint64_t value) {
    return Cell{count_text(value), field, fmt::format("{}", value)};
  };
  std::vector<Cell> row{
      text_cell(job.name),
      text_cell(job.state),
      text_cell(bottleneck_text(job.bottleneck)),
      whole("ranks", job.ranks),
      whole("samples", job.samples),
      figure_cell(time_text(job.time_s), "time_s", job.time_s),
      figure_cell(rate_text(job.samples_per_s), "samples_per_s", job.samples_per_s),
      figure_cell(percent(job.au), "au", job.au),
      figure_cell(time_text(job.compute_s), "compute_s", job.compute_s),
      figure_cell(time_text(job.stall_s), "stall_s", job.stall_s),
      figure_cell(time_text(job.idle_s), "idle_s", job.idle_s)};
  const auto parts = parts_of(job.compute_s, job.waited, job.idle_s);
  std::string about;
  for (const Part& part : parts) {
    if (part.value <= 0) continue;
    about += fmt::format("{}{} {}", about.empty() ? "" : ", ", part.name, time_text(part.value));
  }
  Cell bar;
  bar.html = part_bar(parts, about);
  row.push_back(std::move(bar));
  for (const TimePart& part : kTimeParts) {
    if (part.wait == nullptr) continue;
    const double value = job.waited.*part.wait;
    row.push_back(figure_cell(value > 0 ? percent(value / job.time_s) : "0", part.color, value));
  }
  for (const Resource& resource : kResources) {
    if (resource.name == std::string("GPUs")) continue;
    const double busy = busy_while_waiting(run, index, resource);
    row.push_back(text_cell(std::isnan(busy) ? "-" : fmt::format("{:.0f} %", 100 * busy)));
  }
  return row;
}

std::string jobs(Runs runs) {
  std::vector<Column> columns{
      {"job", "", true},
      {"state", "", true},
      {"bounded by",
       "its GPUs, if it waits for less than 2 % of its time; "
       "else what it waits for most",
       true},
      {"ranks"},
      {"samples"},
      {"time", "from when it got its GPUs to its end"},
      {"samples/s"},
      {"AU"},
      {"compute", "in the mean of its ranks, as all times here"},
      {"stall", "waited for a batch"},
      {"idle", "waited for its slowest rank"},
      {"time went to", "", true},
      {"store", "share of its time in which it waited for a read from the store"},
      {"drive", "the same for a drive of a node"},
      {"network", "for bytes on links"},
      {"worker", "all preparation workers were busy"},
      {"preparation", "a worker prepared its block"},
      {"delivery", "for gathering and the copy to its GPU"},
      {"order", "nothing was ordered although a worker was free: memory, or a policy"},
      {"cores busy", "while it waited: share of all cores"},
      {"store busy", "while it waited: share of the store's rate"},
      {"network busy", "while it waited"},
      {"PCIe busy", "while it waited"}};
  std::string text;
  for (const RunResult& run : runs) {
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < std::min(run.jobs.size(), kJobsListed); ++i) {
      rows.push_back(job_row(run, i));
    }
    if (runs.size() > 1) text += fmt::format("<h3>{}</h3>", escaped(run_name(run)));
    text += html_table(columns, rows);
    if (run.jobs.size() > kJobsListed) {
      text += fmt::format("<p>The first {} of {} jobs; --jobs-csv has all.</p>", kJobsListed,
                          run.jobs.size());
    }
  }
  return text;
}

std::string settings(Runs runs) {
  std::vector<Column> columns{{"run", "", true}};
  for (const auto& [kind, policy] : runs.front().policies) columns.push_back({kind, "", true});
  columns.push_back({"digest of orders", "", true});
  std::vector<std::vector<Cell>> rows;
  for (const RunResult& run : runs) {
    std::vector<Cell> row{text_cell(run_name(run))};
    for (const auto& [kind, policy] : run.policies) row.push_back(text_cell(policy));
    row.resize(columns.size() - 1);  // a run that failed has none
    row.push_back({run.digest, "digest", run.digest});
    rows.push_back(std::move(row));
  }
  return html_table(columns, rows);
}

}  // namespace

std::string run_html(Runs runs, const std::string& more) {
  const std::string scenario = runs.front().scenario;
  std::string body =
      fmt::format("<h1>{}</h1>\n<p>{}</p>\n", escaped(scenario),
                  runs.size() == 1 ? "One simulated run."
                                   : fmt::format("{} simulated runs side by side.", runs.size()));
  body +=
      html_section("summary", "Summary",
                   runs.size() == 1 ? ""
                                    : "Small figures are relative to the first run; a star marks "
                                      "the best.",
                   summary(runs));
  body += more;
  const std::string first =
      runs.size() > kRunsPlotted
          ? fmt::format(" Of {} runs, the first {} are drawn.", runs.size(), kRunsPlotted)
          : "";
  body += html_section("throughput", "Throughput over time", first, throughput(runs));
  body += html_section("time", "What GPUs do",
                       "They compute, wait for a batch (by what was under way for it), or wait for "
                       "the other ranks of their job. Dotted: all GPUs of the cluster.",
                       where_time_goes(runs));
  body += html_section("cache", "What is kept", "", cache(runs));
  body += html_section("utilisation", "How busy things are",
                       "Rates without a limit are left out. A core is busy while its worker "
                       "prepares, or is held by a read.",
                       utilisation(runs));
  body += html_section("jobs", "Jobs", "", jobs(runs));
  body += html_section("settings", "Policies", "", settings(runs));
  return html_page(scenario + " - batchflow-sim", body);
}

}  // namespace batchflow::sim
