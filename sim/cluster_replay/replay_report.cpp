#include "sim/cluster_replay/replay_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/config_value.h"
#include "programs/output/terminal.h"
#include "sim/cluster_replay/replay_summary.h"
#include "sim/common_setup.h"
#include "sim/numbers.h"
#include "sim/run_report.h"
#include "traces/text_fields.h"

namespace batchflow::sim {

namespace {

using Row = std::vector<std::string>;
using Json = nlohmann::ordered_json;

std::string group_table(const std::vector<ReplayGroup>& groups) {
  Row head{"run"};
  for (const ReplayFigure& figure : replay_figures()) head.push_back(figure.name);
  std::vector<Row> rows{head};
  for (const ReplayGroup& group : groups) {
    Row row{output::printable(name_of(group))};
    for (const ReplayFigure& figure : replay_figures()) {
      row.push_back(figure.text(estimate_of(group, figure).mean));
    }
    rows.push_back(std::move(row));
  }
  std::string text = aligned(rows);
  for (std::size_t i = 1; i < groups.size(); ++i) {
    text += fmt::format("{} against {}:", output::printable(name_of(groups[i])),
                        output::printable(name_of(groups[0])));
    for (const ReplayFigure& figure : replay_figures()) {
      if (!figure.differs) continue;
      text += fmt::format(" {} {};", figure.name, change_text(groups[0], groups[i], figure));
    }
    text.back() = '\n';
  }
  return text;
}

Json json_of(const Distribution& distribution) {
  return {{"mean", distribution.mean},
          {"p50", distribution.p50},
          {"p95", distribution.p95},
          {"p99", distribution.p99}};
}

Json json_of(const ReplaySummary& summary) {
  return {{"label", summary.label},
          {"seed", summary.seed},
          {"whole", summary.whole},
          {"makespan_s", summary.makespan_s},
          {"jobs", summary.jobs},
          {"jobs_done", summary.jobs_done},
          {"completion_s", json_of(summary.completion_s)},
          {"queueing_s", json_of(summary.queueing_s)},
          {"stall_ratio", json_of(summary.stall_ratio)},
          {"gpu_h", summary.gpu_h},
          {"gpu_h_lost", summary.gpu_h_lost},
          {"cached_bytes_mean", summary.cached_bytes_mean},
          {"cached_bytes_most", summary.cached_bytes_most},
          {"users", summary.users},
          {"fairness", summary.fairness},
          {"user_slowdown_worst", summary.user_slowdown_worst}};
}

Json json_of(const FluidBound& bound) {
  return {{"gpu_s", bound.gpu_s},
          {"storage_s", bound.storage_s},
          {"preparation_s", bound.preparation_s},
          {"arrivals_s", bound.arrivals_s},
          {"samples", bound.samples},
          {"samples_per_s", bound.samples_per_s()}};
}

}  // namespace

std::string left_out_text(const traces::JobTrace& trace, const LeftOut& out, std::size_t jobs) {
  std::string text = fmt::format("{}: {} of {} jobs are replayed", trace.name, count_text(jobs),
                                 count_text(trace.jobs.size()));
  for (const auto& [why, count] : left_out_reasons(out)) {
    if (count > 0) text += fmt::format("; {} {}", count_text(count), why);
  }
  if (out.slowed_down > 0) {
    text += fmt::format(
        "; {} of them are taken to train slower than drawn, as fast as cards and cores of their "
        "nodes "
        "could have fed them",
        count_text(out.slowed_down));
  }
  if (out.parts_of_gpus > 0) {
    text += fmt::format("; {} had a part of a GPU, and have a whole one here",
                        count_text(out.parts_of_gpus));
  }
  return text;
}

std::string scheduler_text(const Replayed& replayed) {
  if (!replayed.scheduler_is_assumed) return "";
  return fmt::format(
      "the log has no start of any job: when jobs get GPUs is simulated (--scheduler {}: in the "
      "order of submission, on the first nodes with room; no job passes one that waits)",
      replayed.scheduler);
}

std::string replay_table(std::span<const output::RunResult> runs, const Replayed& replayed) {
  std::string text = run_table(runs);
  if (const std::string scheduler = scheduler_text(replayed); !scheduler.empty())
    text += scheduler + "\n";
  text += "\n" + group_table(by_label(runs));
  const FluidBound& bound = replayed.bounds.begin()->second;
  text += fmt::format(
      "no policy ends before {} ({} samples/s): GPUs {}, storage {}, preparation {}, the last jobs "
      "{}\n",
      time_text(bound.least_s()), rate_text(bound.samples_per_s()), time_text(bound.gpu_s),
      time_text(bound.storage_s), time_text(bound.preparation_s), time_text(bound.arrivals_s));
  for (const output::RunResult& run : runs) {
    if (run.steps == 0) continue;
    text += fmt::format("{}: {} steps of the engine, {:.1f} us each\n", run_name(run),
                        count_text(run.steps), run.wall_s * 1e6 / static_cast<double>(run.steps));
  }
  return text;
}

std::string replay_json(std::span<const output::RunResult> runs, const Replayed& replayed,
                        const std::string& more) {
  Json json;
  json["summaries"] = Json::array();
  for (const output::RunResult& run : runs) {
    json["summaries"].push_back(json_of(summary_of(run)));
    json["summaries"].back()["bound"] = json_of(replayed.bounds.at(run.seed));
  }
  json["bound"] = json_of(replayed.bounds.begin()->second);
  const LeftOut& out = replayed.left_out;
  json["left_out"] = {
      {"without_gpus", out.without_gpus},   {"without_duration", out.without_duration},
      {"without_start", out.without_start}, {"too_large", out.too_large},
      {"by_window", out.by_window},         {"by_scale", out.by_scale}};
  json["scheduler"] = {{"name", replayed.scheduler}, {"assumed", replayed.scheduler_is_assumed}};
  json["slowed_down"] = out.slowed_down;
  json["parts_of_gpus"] = out.parts_of_gpus;
  json.update(Json::parse(more));
  return with_common_setup(runs, json.dump());
}

std::string simulated_date(const Replayed& replayed, double simulated_s) {
  if (replayed.trace.time_base == traces::TimeBase::relative ||
      replayed.begins_ns == traces::kNoTime) {
    return fmt::format("day {:.1f}", simulated_s / 86'400);
  }
  const auto since = static_cast<std::int64_t>(simulated_s) * traces::kNanosPerSecond;
  return traces::calendar_text(replayed.begins_ns + since).substr(0, sizeof "2017-10-07 01:12" - 1);
}

std::optional<traces::TraceTime> date_of(const std::string& text) {
  for (const char* rest : {"", ":00", " 00:00:00"}) {
    if (const auto time = traces::calendar_time(text + rest)) return time->ns;
  }
  return std::nullopt;
}

traces::TraceTime window_time(const char* flag, const std::string& text,
                              const traces::JobTrace& trace) {
  if (text.empty()) return traces::kNoTime;
  if (const auto time = date_of(text)) {
    if (trace.time_base == traces::TimeBase::relative) {
      throw ConfigError(
          fmt::format("{} '{}': this log names no days; write a time after the "
                      "first job (10d, 36h)",
                      flag, output::printable(text)));
    }
    return *time;
  }
  // `10d`, which is longer than any other setting allows.
  std::optional<Duration> after = parse_duration(text);
  if (!after && text.size() > 1 && text.back() == 'd') {
    if (const auto days = traces::decimal(text.substr(0, text.size() - 1), 9)) {
      if (*days < INT64_MAX / 86400) after = Duration(*days * 86400);
    }
  }
  if (!after || after->count() < 0 || after->count() > traces::kMostTime || trace.jobs.empty()) {
    throw ConfigError(
        fmt::format("{} '{}': not a time; write a day (2017-10-03), an instant "
                    "(2017-10-03T12:00:00), or a time "
                    "after the first job (10d, 36h)",
                    flag, output::printable(text)));
  }
  return trace.jobs.front().submit_ns + after->count();
}

}  // namespace batchflow::sim
