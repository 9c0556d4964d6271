#include "sim/cluster_replay/replay_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/config_error.h"
#include "core/config_value.h"
#include "sim/run_report.h"
#include "sim/sizes.h"
#include "sim/statistics.h"
#include "sim/terminal.h"
#include "traces/text_fields.h"

namespace batchflow::sim {

namespace {

using Row = std::vector<std::string>;
using Json = nlohmann::ordered_json;

double seconds_of(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}

// Runs that differ by their seed alone, in the order of their labels.
std::vector<std::vector<ReplaySummary>> by_label(std::span<const RunResult> runs) {
  std::vector<std::vector<ReplaySummary>> groups;
  for (const RunResult& run : runs) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& other) {
      return other.front().label == run.label;
    });
    if (group == groups.end()) {
      groups.push_back({summary_of(run)});
    } else {
      group->push_back(summary_of(run));
    }
  }
  return groups;
}

struct Column {
  const char* name;
  double (*value)(const ReplaySummary&);
  std::string (*text)(double);
  bool differs;  // compared with the first run, in percent
};

std::string hours_text(double hours) {
  return fmt::format("{} h", rate_text(hours));
}

constexpr Column kColumns[] = {
    {"completion", [](const ReplaySummary& s) { return s.completion_s.mean; }, time_text, true},
    {"p50", [](const ReplaySummary& s) { return s.completion_s.p50; }, time_text, false},
    {"p99", [](const ReplaySummary& s) { return s.completion_s.p99; }, time_text, false},
    {"queueing", [](const ReplaySummary& s) { return s.queueing_s.mean; }, time_text, false},
    {"GPU time lost", [](const ReplaySummary& s) { return s.gpu_h_lost; }, hours_text, true},
    {"of", [](const ReplaySummary& s) { return s.gpu_h; }, hours_text, false},
    {"fairness", [](const ReplaySummary& s) { return s.fairness; },
     [](double value) { return fmt::format("{:.3f}", value); }, false},
    {"cached", [](const ReplaySummary& s) { return s.cached_bytes_mean; },
     [](double bytes) { return size_text(static_cast<Bytes>(bytes)); }, false},
};

std::vector<double> values_of(const std::vector<ReplaySummary>& group, const Column& column) {
  std::vector<double> values;
  for (const ReplaySummary& one : group) values.push_back(column.value(one));
  return values;
}

std::string difference_text(const std::vector<double>& first, const std::vector<double>& values) {
  const Estimate base = estimate(first);
  if (base.mean == 0) return "";
  const Estimate change = paired_difference(first, values);
  const std::string text = fmt::format("{:+.1f} %", 100 * change.mean / base.mean);
  if (values.size() < 2) return text;
  return text + fmt::format(" +- {:.1f}", 100 * change.margin / base.mean);
}

std::string group_table(const std::vector<std::vector<ReplaySummary>>& groups) {
  Row head{"run"};
  for (const Column& column : kColumns) head.push_back(column.name);
  std::vector<Row> rows{head};
  for (const auto& group : groups) {
    Row row{printable(group.front().label.empty() ? "replay" : group.front().label)};
    for (const Column& column : kColumns) {
      row.push_back(column.text(estimate(values_of(group, column)).mean));
    }
    rows.push_back(std::move(row));
  }
  std::string text = aligned(rows);
  for (std::size_t i = 1; i < groups.size(); ++i) {
    text += fmt::format("{} against {}:", printable(groups[i].front().label),
                        printable(groups[0].front().label));
    for (const Column& column : kColumns) {
      if (!column.differs) continue;
      text +=
          fmt::format(" {} {};", column.name,
                      difference_text(values_of(groups[0], column), values_of(groups[i], column)));
    }
    text.back() = '\n';
  }
  return text;
}

Json json_of(const Distribution& one) {
  return {{"mean", one.mean}, {"p50", one.p50}, {"p95", one.p95}, {"p99", one.p99}};
}

Json json_of(const ReplaySummary& one) {
  return {{"label", one.label},
          {"seed", one.seed},
          {"jobs", one.jobs},
          {"jobs_done", one.jobs_done},
          {"completion_s", json_of(one.completion_s)},
          {"queueing_s", json_of(one.queueing_s)},
          {"stall_ratio", json_of(one.stall_ratio)},
          {"gpu_h", one.gpu_h},
          {"gpu_h_lost", one.gpu_h_lost},
          {"cached_bytes_mean", one.cached_bytes_mean},
          {"cached_bytes_most", one.cached_bytes_most},
          {"users", one.users},
          {"fairness", one.fairness},
          {"user_slowdown_worst", one.user_slowdown_worst}};
}

double cached_bytes(const CachedBytes& cached) {
  return static_cast<double>(cached.encoded_dram + cached.decoded_dram + cached.prepared_dram +
                             cached.encoded_nvme + cached.decoded_nvme);
}

}  // namespace

Distribution distribution(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  for (const double value : values) result.mean += value;
  result.mean /= static_cast<double>(values.size());
  // The least value that so large a share is not above.
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[std::min(values.size(), static_cast<std::size_t>(std::max(1., rank))) - 1];
  };
  result.p50 = at(0.5);
  result.p95 = at(0.95);
  result.p99 = at(0.99);
  return result;
}

ReplaySummary summary_of(const RunResult& run) {
  ReplaySummary sum;
  sum.label = run.label;
  sum.seed = run.seed;
  sum.jobs = run.jobs.size();
  std::vector<double> completion;
  std::vector<double> queueing;
  std::vector<double> stalls;
  struct Served {
    double time_s = 0;
    double compute_s = 0;
  };
  std::map<std::string, Served> users;
  for (const JobResult& job : run.jobs) {
    const double gpu_h = job.time_s * static_cast<double>(job.ranks) / 3600;
    sum.gpu_h += gpu_h;
    sum.gpu_h_lost += (job.stall_s + job.idle_s) * static_cast<double>(job.ranks) / 3600;
    if (job.state != "done") continue;
    ++sum.jobs_done;
    completion.push_back(job.ended_s - job.arrived_s);
    queueing.push_back(job.started_s - job.arrived_s);
    if (job.time_s > 0) stalls.push_back((job.stall_s + job.idle_s) / job.time_s);
    Served& user = users[job.user];
    user.time_s += job.time_s;
    user.compute_s += job.compute_s;
  }
  sum.completion_s = distribution(std::move(completion));
  sum.queueing_s = distribution(std::move(queueing));
  sum.stall_ratio = distribution(std::move(stalls));
  double speeds = 0;
  double squares = 0;
  for (const auto& [name, user] : users) {
    if (user.time_s <= 0 || user.compute_s <= 0) continue;
    ++sum.users;
    const double speed = user.compute_s / user.time_s;
    speeds += speed;
    squares += speed * speed;
    sum.user_slowdown_worst = std::max(sum.user_slowdown_worst, 1 / speed);
  }
  if (squares > 0) sum.fairness = speeds * speeds / (static_cast<double>(sum.users) * squares);
  double area = 0;
  for (std::size_t i = 0; i < run.series.size(); ++i) {
    const double bytes = cached_bytes(run.series[i].cached);
    sum.cached_bytes_most = std::max(sum.cached_bytes_most, bytes);
    if (i > 0) area += bytes * (run.series[i].time_s - run.series[i - 1].time_s);
  }
  if (!run.series.empty() && run.series.back().time_s > 0) {
    sum.cached_bytes_mean = area / run.series.back().time_s;
  }
  return sum;
}

// ---------------------------------------------------------------------------------- bounds ----

double FluidBound::least_s() const {
  return std::max({gpu_s, storage_s, preparation_s, arrivals_s});
}

FluidBound fluid_bound(const Scenario& scenario) {
  FluidBound bound;
  double gpu_s = 0;
  double storage_bytes = 0;
  double core_s = 0;
  // Of a data set prepared in one way: the most passes that one job makes over it.
  struct Use {
    double samples = 0;  // of the job that takes most
    const JobModel* job = nullptr;
  };
  std::map<std::pair<int, std::string>, Use> uses;
  std::vector<double> touched(scenario.datasets.size(), 0);  // samples that must be read
  for (const JobModel& job : scenario.jobs) {
    const auto index = static_cast<std::size_t>(job.dataset);
    const DatasetModel& dataset = scenario.datasets[index];
    const PipelineModel& pipeline = scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
    const double epochs = std::max(1u, pipeline.epochs_per_block);
    const double step_samples =
        std::min(static_cast<double>(job.batch) * job.ranks, static_cast<double>(dataset.samples));
    const double samples = step_samples * static_cast<double>(job.steps) * epochs;
    const double compute_s = seconds_of(job.step) * static_cast<double>(job.steps) * epochs;
    bound.samples += samples;
    gpu_s += compute_s * job.ranks;
    const Instant begins = std::max(job.arrives, job.not_before);
    bound.arrivals_s = std::max(bound.arrivals_s, seconds_of(begins - Instant{}) + compute_s);
    touched[index] =
        std::max(touched[index], std::min(samples, static_cast<double>(dataset.samples)));
    Use& use = uses[{job.dataset, pipeline.name.substr(0, pipeline.name.find(' '))}];
    if (samples > use.samples) use = {samples, &job};
  }
  for (std::size_t i = 0; i < touched.size(); ++i) {
    const DatasetModel& dataset = scenario.datasets[i];
    if (!dataset.compute_only) storage_bytes += touched[i] * static_cast<double>(dataset.bytes);
  }
  for (const auto& [name, use] : uses) {
    const DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(use.job->dataset)];
    const PipelineInfo info =
        scenario.pipelines[static_cast<std::size_t>(use.job->pipeline)].info(dataset.bytes);
    const double once = std::min(use.samples, static_cast<double>(dataset.samples));
    core_s += use.samples * seconds_of(info.augment_cost) + once * seconds_of(info.decode_cost);
  }
  double gpus = 0;
  double cores = 0;
  for (const NodeModel& node : scenario.cluster.nodes) {
    gpus += node.gpus * node.gpu_speed;
    cores += node.cores * node.core_speed;
  }
  double rate = 0;
  for (const Curve::Point& point : scenario.cluster.store.bytes_per_s.points) {
    rate = std::max(rate, point.y);
  }
  bound.gpu_s = gpu_s / gpus;
  bound.preparation_s = core_s / cores;
  if (rate > 0) bound.storage_s = storage_bytes / rate;
  return bound;
}

// ------------------------------------------------------------------------------------ text ----

std::string left_out_text(const JobTrace& trace, const LeftOut& out, std::size_t jobs) {
  std::string text = fmt::format("{}: {} of {} jobs are replayed", trace.name, count_text(jobs),
                                 count_text(trace.jobs.size()));
  const auto add = [&](std::uint64_t count, const char* why) {
    if (count > 0) text += fmt::format("; {} {}", count_text(count), why);
  };
  add(out.without_gpus, "use no GPU");
  add(out.without_duration, "never ran, or nobody knows for how long");
  add(out.without_start, "have no start on record");
  add(out.too_large, "need more GPUs than there are");
  add(out.by_window, "were submitted outside of the window");
  add(out.by_scale, "are left out by --scale-gpus");
  return text;
}

std::string replay_table(std::span<const RunResult> runs, const FluidBound& bound) {
  std::string text = run_table(runs);
  text += "\n" + group_table(by_label(runs));
  text += fmt::format(
      "no policy ends before {} ({} samples/s): GPUs {}, storage {}, preparation {}, the last jobs "
      "{}\n",
      time_text(bound.least_s()), rate_text(bound.samples_per_s()), time_text(bound.gpu_s),
      time_text(bound.storage_s), time_text(bound.preparation_s), time_text(bound.arrivals_s));
  for (const RunResult& run : runs) {
    if (run.steps == 0) continue;
    text += fmt::format("{}: {} steps of the engine, {:.1f} us each\n", run_name(run),
                        count_text(run.steps), run.wall_s * 1e6 / static_cast<double>(run.steps));
  }
  return text;
}

std::string replay_json(std::span<const RunResult> runs, const FluidBound& bound,
                        const LeftOut& out) {
  Json json;
  json["summaries"] = Json::array();
  for (const RunResult& run : runs) json["summaries"].push_back(json_of(summary_of(run)));
  json["bound"] = {{"gpu_s", bound.gpu_s},
                   {"storage_s", bound.storage_s},
                   {"preparation_s", bound.preparation_s},
                   {"arrivals_s", bound.arrivals_s},
                   {"samples", bound.samples},
                   {"samples_per_s", bound.samples_per_s()}};
  json["left_out"] = {
      {"without_gpus", out.without_gpus},   {"without_duration", out.without_duration},
      {"without_start", out.without_start}, {"too_large", out.too_large},
      {"by_window", out.by_window},         {"by_scale", out.by_scale}};
  return json.dump();
}

TraceTime window_time(const char* flag, const std::string& text, const JobTrace& trace) {
  if (text.empty()) return kNoTime;
  if (const auto time = calendar_time(text)) return time->ns;
  if (const auto time = calendar_time(text + " 00:00:00")) return time->ns;
  // `10d`, which no other setting is long enough to want.
  std::optional<Duration> after = parse_duration(text);
  if (!after && text.size() > 1 && text.back() == 'd') {
    if (const auto days = decimal(text.substr(0, text.size() - 1), 9)) {
      if (*days < INT64_MAX / 86400) after = Duration(*days * 86400);
    }
  }
  if (!after || after->count() < 0 || after->count() > kMostTime || trace.jobs.empty()) {
    throw ConfigError(fmt::format(
        "{} '{}': no time; write a day (2017-10-03), an instant (2017-10-03T12:00:00), or a time "
        "after the first job (10d, 36h)",
        flag, printable(text)));
  }
  return trace.jobs.front().submit_ns + after->count();
}

}  // namespace batchflow::sim
