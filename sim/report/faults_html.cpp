#include "sim/report/faults_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/html.h"
#include "sim/run_report.h"
#include "sim/sizes.h"

namespace batchflow::sim {

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

}  // namespace batchflow::sim
