#include "sim/report/bottleneck_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/html.h"
#include "sim/run_report.h"

namespace batchflow::sim {

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
    columns.push_back({gain.resource, "samples a second with twice of it, over now"});
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
  return html_section("bottlenecks", "What twice of something would gain",
                      "Found by running each again with twice of it; a star marks the greatest "
                      "gain. What has no limit is left out.",
                      text);
}

}  // namespace batchflow::sim
