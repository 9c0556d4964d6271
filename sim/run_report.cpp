#include "sim/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "programs/output/terminal.h"
#include "sim/common_setup.h"
#include "sim/figures.h"
#include "sim/numbers.h"

namespace batchflow::sim {

namespace {

using Row = std::vector<std::string>;

std::string runs_table(std::span<const output::RunResult> runs) {
  const bool compared = runs.size() > 1;
  Row head{compared ? "run" : "scenario", "makespan", "samples/s"};
  if (compared) head.push_back("x");
  head.insert(head.end(), {"stall", "AU", "hits", "from storage", "prepared", "repeats"});
  std::vector<Row> rows{head};
  for (const output::RunResult& run : runs) {
    const output::Aggregate& sum = run.aggregate;
    Row row{run_name(run), time_text(run.makespan_s), rate_text(sum.samples_per_s)};
    if (compared) {
      const double first = runs.front().aggregate.samples_per_s;
      row.push_back(first > 0 ? fmt::format("{:.2f}", sum.samples_per_s / first) : "-");
    }
    row.insert(row.end(), {percent(sum.stall_fraction), percent(sum.au), percent(sum.hit_ratio),
                           size_text(sum.storage_bytes), count_text(sum.preparations),
                           count_text(sum.repeats)});
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

// How jobs fared as wholes, and what it cost.
std::string completions_table(std::span<const output::RunResult> runs) {
  std::vector<const Figure*> shown = figures_in(runs);
  std::erase_if(shown, [](const Figure* figure) {
    constexpr std::string_view kFields[] = {"jct_s",
                                            "jct_p95_s",
                                            "slowdown",
                                            "fairness",
                                            "user_fairness",
                                            "cost",
                                            "cost_per_million_samples",
                                            "fill_ratio",
                                            "thinned_ratio",
                                            "lag_p50_s",
                                            "lag_p99_s",
                                            "buffer_classes",
                                            "buffer_evenness",
                                            "buffer_age"};
    return std::find(std::begin(kFields), std::end(kFields), figure->field) == std::end(kFields);
  });
  std::vector<Row> rows{{runs.size() > 1 ? "run" : "scenario"}};
  for (const Figure* figure : shown) rows.front().emplace_back(figure->name);
  for (const output::RunResult& run : runs) {
    Row& row = rows.emplace_back(Row{run_name(run)});
    for (const Figure* figure : shown)
      row.push_back(is_known(run, *figure) ? figure->text(figure->value(run)) : "-");
  }
  return aligned(rows);
}

std::string jobs_table(const output::RunResult& run) {
  constexpr std::size_t kJobsMost = 40;
  std::vector<Row> rows{{"job", "state", "ranks", "epochs", "samples", "time", "compute", "stall",
                         "idle", "samples/s", "AU"}};
  for (const output::JobResult& job : run.jobs) {
    if (rows.size() > kJobsMost) break;
    rows.push_back({output::printable(job.name), job.state, count_text(job.ranks),
                    count_text(job.epochs), count_text(job.samples), time_text(job.time_s),
                    time_text(job.compute_s), time_text(job.stall_s), time_text(job.idle_s),
                    rate_text(job.samples_per_s), percent(job.au)});
  }
  std::string text = aligned(rows);
  if (run.jobs.size() > kJobsMost) {
    text += fmt::format("... and {} more; --json and --jobs-csv list all\n",
                        run.jobs.size() - kJobsMost);
  }
  return text;
}

std::string faults_table(const output::RunResult& run) {
  std::vector<Row> rows{{"fault", "of", "from", "until", "met"}};
  for (const output::FaultResult& fault : run.faults) {
    Row row{fault.kind, output::printable(fault.target)};
    if (fault.struck) {
      row.insert(row.end(), {time_text(*fault.from_s), time_text(*fault.until_s)});
    } else {
      row.insert(row.end(), {"did not strike", "-"});
    }
    row.push_back(count_text(fault.parts));
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

// What became of records, and how long jobs wait for them.
std::string sources_tables(const output::RunResult& run) {
  std::vector<Row> sources{{"source", "made", "lost", "late", "thinned", "taken", "waiting",
                            "waited at most", "log at most"}};
  std::vector<Row> readers{
      {"reader", "records", "fills", "lag p50", "lag p99", "mean lag", "age of fills"}};
  for (const output::SourceResult& source : run.sources) {
    sources.push_back({output::printable(source.dataset), count_text(source.made),
                       count_text(source.lost), count_text(source.late), count_text(source.thinned),
                       count_text(source.taken), count_text(source.waiting),
                       count_text(source.waiting_most), size_text(source.kept_bytes_most)});
    for (const output::JobResult& job : run.jobs) {
      if (job.dataset != source.dataset || job.samples == 0) continue;
      readers.push_back({output::printable(job.name), count_text(job.samples),
                         count_text(job.rehearsed), time_text(job.live.lag_p50_s),
                         time_text(job.live.lag_p99_s), time_text(job.live.lag_mean_s),
                         job.rehearsed > 0 ? time_text(job.live.fill_age_s) : "-"});
    }
  }
  return aligned(sources) + "\n" + aligned(readers);
}

// What jobs may rehearse from in the end.
std::string buffers_table(const output::RunResult& run) {
  std::vector<Row> rows{{"buffer of", "exemplars", "classes", "of a class", "age"}};
  for (const output::JobResult& job : run.jobs) {
    const output::BufferResult& buffer = job.buffer;
    if (buffer.exemplars == 0) continue;
    rows.push_back(
        {output::printable(job.name), count_text(buffer.exemplars), count_text(buffer.classes),
         fmt::format("{} to {}", count_text(buffer.class_least), count_text(buffer.class_most)),
         fmt::format("{:.3f}", buffer.age)});
  }
  return rows.size() > 1 ? "\n" + aligned(rows) : "";
}

// What policies have made of the weights of mixtures in the end.
std::string mixtures_table(const output::RunResult& run) {
  std::vector<Row> rows{{"mixture of", "changes", "weights", "mean loss", "highest"}};
  for (const output::JobResult& job : run.jobs) {
    const output::MixtureResult& mixture = job.mixture;
    if (mixture.weight_most == 0) continue;
    rows.push_back({output::printable(job.name), count_text(mixture.changes),
                    fmt::format("{:.4f} to {:.4f}", mixture.weight_least, mixture.weight_most),
                    fmt::format("{:.3f}", mixture.loss_mean),
                    fmt::format("{:.3f}", mixture.loss_most)});
  }
  return rows.size() > 1 ? "\n" + aligned(rows) : "";
}

constexpr std::size_t kRefusedShown = 10;

std::string remarks(const output::RunResult& run) {
  const std::string name = run_name(run);
  std::string text;
  if (run.interrupted) {
    text +=
        fmt::format("{}: interrupted after {} of simulated time; these are its results so far\n",
                    name, time_text(run.makespan_s));
  }
  if (!run.failure.empty())
    text += fmt::format("{}: failed: {}\n", name, output::printable(run.failure));
  if (!run.remark.empty()) text += fmt::format("{}: {}\n", name, output::printable(run.remark));
  std::size_t refused = 0;
  for (const output::JobResult& job : run.jobs) {
    if (job.refusal.empty() || ++refused > kRefusedShown) continue;
    text +=
        fmt::format("{}: job {} was refused: {}\n", name, output::printable(job.name), job.refusal);
  }
  if (refused > kRefusedShown) {
    text += fmt::format("{}: {} more jobs were refused; --json and --jobs-csv say why\n", name,
                        refused - kRefusedShown);
  }
  if (run.aggregate.repeated_samples > 0) {
    text += fmt::format("{}: {} samples were trained on again, from the last checkpoints on\n",
                        name, count_text(run.aggregate.repeated_samples));
  }
  if (run.protocol_errors > 0 || run.refused_proposals > 0) {
    text += fmt::format("{}: {} protocol errors, {} proposals of policies refused\n", name,
                        run.protocol_errors, run.refused_proposals);
  }
  return text;
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) {
      line += fmt::format("  {:>{}}", row[i], widths[i]);
    }
    text += line + "\n";
  }
  return text;
}

std::string run_name(const output::RunResult& run) {
  return output::printable(run.label.empty() ? run.scenario : run.label);
}

std::string run_table(std::span<const output::RunResult> runs) {
  std::string text = runs_table(runs) + "\n" + completions_table(runs);
  if (runs.size() == 1) {
    text += "\n" + jobs_table(runs.front());
    if (!runs.front().sources.empty()) text += "\n" + sources_tables(runs.front());
    text += buffers_table(runs.front());
    text += mixtures_table(runs.front());
    if (!runs.front().faults.empty()) text += "\n" + faults_table(runs.front());
  }
  text += "\n" + common_lines(runs);
  for (const output::RunResult& run : runs) text += remarks(run);
  for (const output::RunResult& run : runs) {
    text += fmt::format("{}: seed {}, digest {}, simulated in {}\n", run_name(run), run.seed,
                        run.digest, time_text(run.wall_s));
  }
  return text;
}

}  // namespace batchflow::sim
