#include "sim/cluster_replay/replay_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/cluster_replay/replay_summary.h"
#include "sim/numbers.h"
#include "sim/report/chart.h"
#include "sim/report/html.h"
#include "sim/report/over_time.h"

namespace batchflow::sim {

namespace {

using Runs = std::span<const output::RunResult>;
using Groups = std::vector<ReplayGroup>;

constexpr std::size_t kPoints = 100;  // of a curve

std::string grid(const std::string& figures) {
  return "<div class=\"grid\">\n" + figures + "</div>\n";
}

// -------------------------------------------------------------------------- comparison ----

std::string comparison(const Groups& groups, const Replayed& replayed) {
  std::vector<Column> columns{{"policy", "", true}};
  for (const ReplayFigure& figure : replay_figures()) columns.push_back({figure.name, figure.help});
  columns.push_back({"users"});
  columns.push_back({"above the bound", "its end, relative to the earliest that is possible"});
  std::vector<std::vector<Cell>> rows;
  for (const ReplayGroup& group : groups) {
    std::vector<Cell> row{text_cell(name_of(group))};
    for (const ReplayFigure& figure : replay_figures()) {
      const Estimate value = estimate_of(group, figure);
      Cell cell = text_cell(figure.text(value.mean));
      if (group.size() > 1) cell.beside = "± " + figure.text(value.margin);
      row.push_back(std::move(cell));
    }
    double above = 0;
    std::uint64_t users = 0;
    for (const ReplaySummary& summary : group) {
      const double least_s = replayed.bounds.at(summary.seed).least_s();
      above += (summary.makespan_s / least_s - 1) / static_cast<double>(group.size());
      users = std::max(users, summary.users);
    }
    row.push_back(text_cell(count_text(users)));
    row.push_back(text_cell(percent(above)));
    rows.push_back(std::move(row));
  }
  std::string text = html_table(columns, rows);
  if (groups.size() < 2) return text;
  columns = {{"policy", "", true}};
  for (const ReplayFigure& figure : replay_figures()) {
    if (figure.differs) columns.push_back({figure.name, figure.help});
  }
  rows.clear();
  for (std::size_t i = 1; i < groups.size(); ++i) {
    std::vector<Cell> row{text_cell(name_of(groups[i]))};
    for (const ReplayFigure& figure : replay_figures()) {
      if (figure.differs) row.push_back(text_cell(change_text(groups[0], groups[i], figure)));
    }
    rows.push_back(std::move(row));
  }
  text += fmt::format("<h3>Against {}</h3>", escaped(name_of(groups[0])));
  text += html_table(columns, rows);
  return text + (groups[0].size() > 1
                     ? "<p>95 % intervals over seeds, paired by seed; a star is beside what is "
                       "further from zero than its interval.</p>"
                     : "<p>One seed: nothing says how much of this is chance. --seeds gives "
                       "intervals.</p>");
}

std::string bound(const Replayed& replayed) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [seed, bound] : replayed.bounds) {
    rows.push_back({text_cell(fmt::format("{}", seed)), text_cell(time_text(bound.least_s())),
                    text_cell(rate_text(bound.samples_per_s())), text_cell(time_text(bound.gpu_s)),
                    text_cell(time_text(bound.storage_s)),
                    text_cell(time_text(bound.preparation_s)),
                    text_cell(time_text(bound.arrivals_s))});
  }
  return html_table({{"seed"},
                     {"no end before"},
                     {"samples/s"},
                     {"GPUs", "all GPUs compute all the time"},
                     {"storage", "every dataset that is used is read once"},
                     {"preparation", "what can be shared or kept is prepared once"},
                     {"the last jobs", "they compute from when they may begin, and never wait"}},
                    rows);
}

// ----------------------------------------------------------------------- distributions ----

// Calls `see` for the runs of each group: runs with one label.
template <class See>
void for_each_run(Runs runs, const ReplayGroup& group, See see) {
  for (const output::RunResult& run : runs) {
    if (run.label == group.front().label) see(run);
  }
}

// Over the finished jobs of all seeds, one line a policy.
std::string cumulative(Runs runs, const Groups& groups, const char* title, const char* beside,
                       double (*value_of)(const output::JobResult&)) {
  std::vector<NamedValues> policies;
  for (const ReplayGroup& group : groups) {
    std::vector<double>& mine = policies.emplace_back(NamedValues{name_of(group), {}}).values;
    for_each_run(runs, group, [&](const output::RunResult& run) {
      for (const output::JobResult& job : run.jobs) {
        if (job.state == "done") mine.push_back(value_of(job));
      }
    });
  }
  return distribution_chart(title, beside, std::move(policies));
}

// Users, ordered from the shortest wait to the longest; of the first seed.
std::string users(Runs runs, const Groups& groups) {
  Chart chart;
  chart.title = "Users, by how much they wait";
  chart.beside = "time lost for each hour computed; across: part of the users";
  chart.y = Axis::ratio;
  chart.x_axis = Axis::ratio;
  for (std::size_t i = 0; i <= kPoints; ++i) {
    chart.x.push_back(static_cast<double>(i) / static_cast<double>(kPoints));
  }
  for (const ReplayGroup& group : groups) {
    std::vector<double> slowdowns;
    for_each_run(runs, group, [&](const output::RunResult& run) {
      if (slowdowns.empty()) slowdowns = output::user_slowdowns(run.jobs);
    });
    if (slowdowns.empty()) continue;
    Series series{name_of(group), color_of(chart.series.size()), {}};
    for (const double x : chart.x) {
      const auto rank = static_cast<std::size_t>(x * static_cast<double>(slowdowns.size()));
      series.values.push_back(slowdowns[std::min(rank, slowdowns.size() - 1)] - 1);
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

// ------------------------------------------------------------------------------- stalls ----

// The mean over seeds.
std::string lost(Runs runs, const Groups& groups) {
  Bars bars{
      "GPU time lost to stalls", "by what was under way for the late batch", Axis::seconds, {}};
  for (const ReplayGroup& group : groups) {
    output::Waits waited;
    double idle_s = 0;
    for_each_run(runs, group, [&](const output::RunResult& run) {
      for (const output::JobResult& job : run.jobs) {
        const double weight = static_cast<double>(job.ranks) / static_cast<double>(group.size());
        idle_s += job.idle_s * weight;
        for (const TimePart& part : kTimeParts) {
          if (part.wait != nullptr) waited.*part.wait += job.waited.*part.wait * weight;
        }
      }
    });
    bars.rows.emplace_back(name_of(group), parts_of(0, waited, idle_s));
  }
  return bar_chart(bars);
}

// ---------------------------------------------------------------------------- over time ----

// The first seed of each policy.
std::string over_time(Runs runs, const Groups& groups, Chart chart,
                      std::vector<double> (*values_of)(const output::RunResult&, const Spans&)) {
  double longest = 0;
  for (const output::RunResult& run : runs) longest = std::max(longest, run.makespan_s);
  const Spans spans(longest, kPoints);
  chart.x = spans.middles();
  for (const ReplayGroup& group : groups) {
    bool is_first = true;
    for_each_run(runs, group, [&](const output::RunResult& run) {
      if (!std::exchange(is_first, false)) return;
      chart.series.push_back(
          {name_of(group), color_of(chart.series.size()), values_of(run, spans)});
    });
  }
  return line_chart(chart);
}

std::string traffic(Runs runs, const Groups& groups) {
  Chart read;
  read.title = "Read from the store";
  read.beside = "bytes a second";
  read.y = Axis::bytes;
  Chart kept;
  kept.title = "Kept in caches";
  kept.beside = "all forms, memory and drives";
  kept.y = Axis::bytes;
  return over_time(runs, groups, read,
                   [](const output::RunResult& run, const Spans& spans) {
                     return rates(run, spans, [](const output::SeriesPoint& point) {
                       return static_cast<double>(point.storage_bytes);
                     });
                   }) +
         over_time(runs, groups, kept, [](const output::RunResult& run, const Spans& spans) {
           return levels(run, spans, [](const output::SeriesPoint& point) {
             return cached_bytes(point.cached);
           });
         });
}

}  // namespace

std::string replay_html(Runs runs, const Replayed& replayed, const std::string& more) {
  const Groups groups = by_label(runs);
  const std::string scheduler = scheduler_text(replayed);
  std::string body = html_section("replay", "Policies side by side",
                                  left_out_text(replayed.trace, replayed.left_out, replayed.jobs) +
                                      ". Cluster: " + replayed.cluster +
                                      ". What the jobs trained on is assumed, see below." +
                                      (scheduler.empty() ? "" : " Beside it, " + scheduler + "."),
                                  comparison(groups, replayed));
  body += html_section(
      "jobs-times", "How long jobs took, and queued",
      "The part of the finished jobs that took no longer; all seeds of a policy together.",
      grid(cumulative(runs, groups, "Completion", "from submission to end",
                      [](const output::JobResult& job) { return job.ended_s - job.arrived_s; }) +
           cumulative(runs, groups, "Queueing", "from submission to GPUs",
                      [](const output::JobResult& job) { return job.started_s - job.arrived_s; })));
  body += html_section("lost", "What stalls cost, and which users",
                       "A user's time is that of all the user's jobs while they had GPUs.",
                       grid(lost(runs, groups) + users(runs, groups)));
  body += html_section("traffic", "Storage and caches over time", "The first seed of each policy.",
                       grid(traffic(runs, groups)));
  body += html_section("bound", "What no policy can beat",
                       "Each resource for itself, with perfect caches and sharing. The greatest of "
                       "the four is the bound.",
                       bound(replayed));
  return body + more + assumed_html(replayed);
}

}  // namespace batchflow::sim
