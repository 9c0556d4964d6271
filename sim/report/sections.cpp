#include "sim/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/numbers.h"
#include "sim/report/chart.h"
#include "sim/report/html.h"
#include "sim/report/over_time.h"
#include "sim/run_report.h"

namespace batchflow::sim {

namespace {

constexpr std::size_t kJobsListed = 200;  // of one run

// How busy a resource was while the job waited; no number when the job never waited or nothing was
// measured.
double busy_while_waiting(const output::RunResult& run, std::size_t job, const Resource& resource) {
  const double most = resource.most(run);
  if (most <= 0 || run.series.empty() || job >= run.series.front().jobs.size()) return NAN;
  double waited_s = 0;
  double busy_s = 0;
  for (std::size_t i = 1; i < run.series.size(); ++i) {
    const output::SeriesPoint& from = run.series[i - 1];
    const output::SeriesPoint& to = run.series[i];
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

std::vector<Cell> job_row(const output::RunResult& run, std::size_t index) {
  const output::JobResult& job = run.jobs[index];
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

}  // namespace

std::string jobs_html(std::span<const output::RunResult> runs) {
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
      {"store", "part of its time in which it waited for a read from the store"},
      {"drive", "the same for a drive of a node"},
      {"network", "for bytes on links"},
      {"worker", "all preparation workers were busy"},
      {"preparation", "a worker prepared its block"},
      {"delivery", "for gathering and the copy to its GPU"},
      {"order", "no command was given although a worker was free: memory, or a policy"},
      {"cores busy", "while it waited: part of all cores"},
      {"store busy", "while it waited: part of the store's rate"},
      {"network busy", "while it waited"},
      {"PCIe busy", "while it waited"}};
  std::string text;
  for (const output::RunResult& run : runs) {
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
  return html_section("jobs", "Jobs", "", text);
}

namespace {

constexpr std::size_t kJobsOfBottleneck = 200;

Cell speedup_cell(const std::string& resource, double speedup, double best) {
  Cell cell = figure_cell(fmt::format("{:.2f}x", speedup), "speedup " + resource, speedup);
  cell.best = speedup > 1.005 && speedup == best;
  return cell;
}

std::string table_of(const output::RunResult& run) {
  std::vector<Column> columns{{"job", "", true}, {"time"}};
  std::vector<Cell> all{text_cell("all jobs"), text_cell(time_text(run.makespan_s))};
  double best = 0;
  for (const output::Gain& gain : run.bottlenecks) best = std::max(best, gain.speedup);
  for (const output::Gain& gain : run.bottlenecks) {
    columns.push_back({gain.resource, "samples a second with twice as much of it, over now"});
    all.push_back(speedup_cell(gain.resource, gain.speedup, best));
  }
  std::vector<std::vector<Cell>> rows{std::move(all)};
  for (std::size_t j = 0; j < std::min(run.jobs.size(), kJobsOfBottleneck); ++j) {
    std::vector<Cell> row{text_cell(run.jobs[j].name), text_cell(time_text(run.jobs[j].time_s))};
    best = 0;
    for (const output::Gain& gain : run.bottlenecks) best = std::max(best, gain.jobs.at(j).speedup);
    for (const output::Gain& gain : run.bottlenecks) {
      row.push_back(speedup_cell(gain.resource, gain.jobs.at(j).speedup, best));
    }
    rows.push_back(std::move(row));
  }
  return html_table(columns, rows);
}

}  // namespace

std::string bottlenecks_html(std::span<const output::RunResult> runs) {
  std::string text;
  for (const output::RunResult& run : runs) {
    if (run.bottlenecks.empty()) continue;
    if (runs.size() > 1) text += fmt::format("<h3>{}</h3>", escaped(run_name(run)));
    text += table_of(run);
  }
  return html_section(
      "bottlenecks", "What twice as much of something would gain",
      "Found by running each again with twice as much of it; a star marks the greatest "
      "gain. What has no limit is left out.",
      text);
}

namespace {

std::string struck_table(const output::RunResult& run) {
  const std::vector<Column> columns{
      {"fault", "", true},
      {"of", "", true},
      {"from"},
      {"until", "the end of the run, if it was not over by then"},
      {"met", "nodes, workers, commands held, reads failed, corrupt samples"}};
  std::vector<std::vector<Cell>> rows;
  for (const output::FaultResult& fault : run.faults) {
    std::vector<Cell> row{text_cell(fault.kind), text_cell(fault.target)};
    if (fault.struck) {
      row.push_back(figure_cell(time_text(*fault.from_s), "from_s", *fault.from_s));
      row.push_back(figure_cell(time_text(*fault.until_s), "until_s", *fault.until_s));
    } else {
      row.push_back(text_cell("did not strike"));
      row.push_back(text_cell("-"));
    }
    row.push_back({count_text(fault.parts), "parts", fmt::format("{}", fault.parts)});
    rows.push_back(std::move(row));
  }
  return html_table(columns, rows);
}

std::string cost_table(std::span<const output::RunResult> runs) {
  const std::vector<Column> columns{
      {"run", "", true},
      {"jobs down", "time that jobs waited for lost nodes, over all jobs"},
      {"restarts", "of jobs"},
      {"trained in vain", "samples of steps that were never completed"},
      {"trained again", "samples of steps since the last checkpoint"},
      {"read in vain", "bytes of reads that were begun and came to nothing"},
      {"prepared in vain", "core time of preparations that came to nothing"},
      {"failed reads"},
      {"made again", "blocks"},
      {"replaced", "corrupt samples, by others"}};
  std::vector<std::vector<Cell>> rows;
  for (const output::RunResult& run : runs) {
    const output::Aggregate& sum = run.aggregate;
    double down_s = 0;
    std::uint64_t restarts = 0;
    for (const output::JobResult& job : run.jobs) {
      down_s += job.down_s;
      restarts += job.restarts;
    }
    const auto whole = [](const char* field, std::uint64_t value) {
      return Cell{count_text(value), field, fmt::format("{}", value)};
    };
    rows.push_back({text_cell(run_name(run)),
                    figure_cell(time_text(down_s), "down_s", down_s),
                    whole("restarts", restarts),
                    whole("lost_samples", sum.lost_samples),
                    whole("repeated_samples", sum.repeated_samples),
                    {size_text(sum.cancelled_read_bytes), "cancelled_read_bytes",
                     fmt::format("{}", sum.cancelled_read_bytes)},
                    figure_cell(time_text(sum.cancelled_preparation_s), "cancelled_preparation_s",
                                sum.cancelled_preparation_s),
                    whole("failed_reads", sum.failed_reads),
                    whole("remade_blocks", sum.remade_blocks),
                    whole("replaced_samples", sum.replaced_samples)});
  }
  return html_table(columns, rows);
}

}  // namespace

std::string faults_html(std::span<const output::RunResult> runs) {
  const bool any = std::any_of(runs.begin(), runs.end(),
                               [](const output::RunResult& run) { return !run.faults.empty(); });
  if (!any) return "";
  std::string text = cost_table(runs);
  for (const output::RunResult& run : runs) {
    if (runs.size() > 1) text += fmt::format("<h3>{}</h3>", escaped(run_name(run)));
    text += struck_table(run);
  }
  return html_section("faults", "Faults, and what recovery cost",
                      "What they cost in time is the difference to the same run without them.",
                      text);
}

// ------------------------------------------------------------------------------- jobs' times ----

std::string job_times_html(std::span<const output::RunResult> runs) {
  constexpr std::size_t kJobsLeast = 8;  // fewer are told apart better in the table of jobs
  std::vector<NamedValues> completion;
  std::vector<NamedValues> waiting;
  for (const output::RunResult& run : runs.first(std::min(runs.size(), kColors))) {
    if (run.jobs.size() < kJobsLeast) continue;
    completion.push_back({run_name(run), {}});
    waiting.push_back({run_name(run), {}});
    for (const output::JobResult& job : run.jobs) {
      if (job.state != "done") continue;
      completion.back().values.push_back(job.ended_s - job.arrived_s);
      waiting.back().values.push_back(job.stall_s);
    }
  }
  if (completion.empty()) return "";
  return html_section(
      "job-times", "How long jobs took",
      "The part of the finished jobs that took, or waited, no longer.",
      "<div class=\"grid\">\n" +
          distribution_chart("Completion", "from arrival to end", std::move(completion)) +
          distribution_chart("Waiting", "for data, the mean of a job's ranks", std::move(waiting)) +
          "</div>\n");
}

}  // namespace batchflow::sim
