#include "sim/report/run_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/common_setup.h"
#include "sim/figures.h"
#include "sim/report/chart.h"
#include "sim/report/html.h"
#include "sim/report/over_time.h"
#include "sim/report/sections.h"
#include "sim/run_report.h"

namespace batchflow::sim {

namespace {

using Runs = std::span<const output::RunResult>;

constexpr std::size_t kSpans = 80;
constexpr std::size_t kRunsPlotted = kColors;
constexpr std::size_t kJobsPlotted = kColors;

Runs plotted(Runs runs) {
  return runs.first(std::min(runs.size(), kRunsPlotted));
}

std::string grid(const std::string& figures) {
  return "<div class=\"grid\">\n" + figures + "</div>\n";
}

// -------------------------------------------------------------------------------- summary ----

bool counts(const output::RunResult& run) {
  return run.failure.empty() && !run.interrupted;
}

// Of the runs that ended; no number when all runs have the same value, or there is one run.
double best_of(Runs runs, const Figure& figure) {
  double least = INFINITY;
  double most = -INFINITY;
  for (const output::RunResult& run : runs) {
    if (!counts(run)) continue;
    least = std::min(least, figure.value(run));
    most = std::max(most, figure.value(run));
  }
  if (!(most > least + 1e-3 * std::abs(least)) || figure.better == Better::none) return NAN;
  return figure.better == Better::more ? most : least;
}

std::string summary(Runs runs) {
  std::vector<Column> columns{{"run", "", true}};
  const std::vector<const Figure*> shown = figures_in(runs);
  for (const Figure* figure : shown) columns.push_back({figure->name, figure->help});
  columns.push_back({"seed"});
  std::vector<std::vector<Cell>> rows;
  for (const output::RunResult& run : runs) {
    std::vector<Cell> row{text_cell(run_name(run))};
    for (const Figure* one : shown) {
      const Figure& figure = *one;
      if (!is_known(run, figure)) {
        row.push_back(text_cell("-"));
        continue;
      }
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
  for (const output::RunResult& run : runs) {
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

output::Waits waits_of_all(const output::RunResult& run) {
  output::Waits sum;
  for (const output::JobResult& job : run.jobs) {
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
  for (const output::RunResult& run : runs) {
    double compute_s = 0;
    double idle_s = 0;
    for (const output::JobResult& job : run.jobs) {
      compute_s += job.compute_s * static_cast<double>(job.ranks);
      idle_s += job.idle_s * static_cast<double>(job.ranks);
    }
    bars.rows.emplace_back(run_name(run), parts_of(compute_s, waits_of_all(run), idle_s));
  }
  bars.beside = "sum over ranks";
  std::string figures = bar_chart(bars);
  for (const output::RunResult& run : plotted(runs)) {
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
  for (const output::RunResult& run : runs) longest = std::max(longest, run.makespan_s);
  return longest;
}

// One line a run.
std::string compared(
    Runs runs, Chart chart,
    const std::function<std::vector<double>(const output::RunResult&, const Spans&)>& values_of) {
  const Spans spans(longest(plotted(runs)), kSpans);
  chart.x = spans.middles();
  for (const output::RunResult& run : plotted(runs)) {
    chart.series.push_back({run_name(run), color_of(chart.series.size()), values_of(run, spans)});
  }
  return line_chart(chart);
}

std::string throughput(Runs runs) {
  Chart all;
  all.title = "All jobs";
  all.beside = "samples trained on a second";
  std::string figures = compared(runs, all, [](const output::RunResult& run, const Spans& spans) {
    return rates(run, spans, [](const output::SeriesPoint& point) {
      return static_cast<double>(point.samples);
    });
  });
  for (const output::RunResult& run : plotted(runs)) {
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
          {run.jobs[j].name, color_of(j), rates(run, spans, [j](const output::SeriesPoint& point) {
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
  std::string figures = compared(runs, hits, [](const output::RunResult& run, const Spans& spans) {
    const auto asked = rates(run, spans, [](const output::SeriesPoint& point) {
      return static_cast<double>(point.samples_requested);
    });
    auto read = rates(run, spans, [](const output::SeriesPoint& point) {
      return static_cast<double>(point.samples_read);
    });
    // A sample that is read ahead is asked for a little later.
    for (std::size_t i = 0; i < read.size(); ++i) {
      read[i] = asked[i] > 0 ? std::max(0.0, 1 - read[i] / asked[i]) : NAN;
    }
    return read;
  });
  struct Kept {
    const char* name;
    const char* color;
    std::uint64_t output::CachedBytes::*bytes;
  };
  const Kept kept[] = {{"encoded, memory", "c0", &output::CachedBytes::encoded_dram},
                       {"decoded, memory", "c4", &output::CachedBytes::decoded_dram},
                       {"prepared, memory", "c2", &output::CachedBytes::prepared_dram},
                       {"encoded, drives", "c5", &output::CachedBytes::encoded_nvme},
                       {"decoded, drives", "c3", &output::CachedBytes::decoded_nvme},
                       {"decoded, GPUs", "c1", &output::CachedBytes::decoded_gpu}};
  for (const output::RunResult& run : plotted(runs)) {
    const Spans spans(run.makespan_s, kSpans);
    Chart chart;
    chart.title = "Kept: " + run_name(run);
    chart.beside = "bytes; dotted: all there is";
    chart.y = Axis::bytes;
    chart.x = spans.middles();
    chart.stacked = true;
    chart.limit = static_cast<double>(run.cluster.cache_bytes + run.cluster.nvme_bytes +
                                      run.cluster.gpu_cache_bytes);
    for (const Kept& form : kept) {
      auto values = levels(run, spans, [&](const output::SeriesPoint& point) {
        return static_cast<double>(point.cached.*form.bytes);
      });
      const bool any = std::any_of(values.begin(), values.end(), [](double v) { return v > 0; });
      if (any) chart.series.push_back({form.name, form.color, std::move(values)});
    }
    figures += line_chart(chart);
  }
  return grid(figures);
}

std::string utilisation(Runs runs) {
  std::string figures;
  for (const output::RunResult& run : plotted(runs)) {
    const Spans spans(run.makespan_s, kSpans);
    Chart chart;
    chart.title = run_name(run);
    chart.beside = "part of what there is";
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

// -------------------------------------------------------------------------------- policies ----

std::string settings(Runs runs) {
  std::vector<Column> columns{{"run", "", true}};
  for (const auto& [kind, policy] : runs.front().policies) columns.push_back({kind, "", true});
  columns.push_back({"digest of commands", "", true});
  std::vector<std::vector<Cell>> rows;
  for (const output::RunResult& run : runs) {
    std::vector<Cell> row{text_cell(run_name(run))};
    for (const auto& [kind, policy] : run.policies) row.push_back(text_cell(policy));
    row.resize(columns.size() - 1);  // a failed run has none
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
  body += jobs_html(runs);
  body += faults_html(runs);
  body += common_html(runs);
  body += html_section("settings", "Policies", "", settings(runs));
  return html_page(scenario + " - batchflow-sim", body);
}

}  // namespace batchflow::sim
