#include "sim/trace_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "programs/output/terminal.h"
#include "sim/numbers.h"
#include "sim/run_report.h"
#include "traces/text_fields.h"

namespace batchflow::sim {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Json = nlohmann::ordered_json;

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// 200000 as `2 d 7 h`: seconds do not matter in a time of days.
std::string span_text(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour;
  if (seconds < kDay) return time_text(seconds);
  const auto hours = static_cast<std::uint64_t>(seconds / kHour + 0.5);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string instant_text(const traces::JobTrace& trace, traces::TraceTime time) {
  if (trace.time_base != traces::TimeBase::relative) return traces::calendar_text(time);
  return span_text(static_cast<double>(time) / static_cast<double>(traces::kNanosPerSecond));
}

std::string base_text(traces::TimeBase base) {
  if (base == traces::TimeBase::utc) return " UTC";
  return base == traces::TimeBase::local ? " (in a zone that is not named)"
                                         : " (since a beginning that is not named)";
}

std::string counts_text(const traces::JobTrace& trace, const traces::JobStatistics& s) {
  std::string text = fmt::format("{}: {}, {} jobs", output::printable(trace.name), trace.format,
                                 count_text(s.jobs));
  if (s.jobs == 0) return text + "\n";
  const auto note = [&](std::uint64_t count, std::string_view what) {
    if (count > 0) text += fmt::format(", {} {}", count_text(count), what);
  };
  note(s.gpu_jobs, "with GPUs");
  note(s.fractional_jobs, "with part of one");
  note(s.jobs_tried_again, "tried more than once");
  note(s.users, "users");
  note(s.queues, "queues");
  if (s.users > 0) {
    text += fmt::format("\nthe busiest user submitted {} of the jobs",
                        percent(s.jobs_of_busiest_user_share));
  }
  if (s.distinct_ids > 0 && s.distinct_ids < s.jobs) {
    text += fmt::format("\nonly {} ids are distinct", count_text(s.distinct_ids));
  }
  text += fmt::format("\nsubmitted from {} to {}{}, {}\n", instant_text(trace, s.first_submit_ns),
                      instant_text(trace, s.last_submit_ns), base_text(trace.time_base),
                      span_text(static_cast<double>(s.last_submit_ns - s.first_submit_ns) /
                                static_cast<double>(traces::kNanosPerSecond)));
  text +=
      fmt::format("{} GPU hours, at most {:g} GPUs at once{}\n",
                  count_text(static_cast<std::uint64_t>(s.gpu_hours + 0.5)), s.gpus_at_once_most,
                  s.jobs_with_start == 0 ? ", if each started when it was submitted" : "");
  return text;
}

std::string class_text(const traces::GpuClass& gpu_class) {
  if (gpu_class.most == 0) return "no GPU";
  if (gpu_class.most < 1) return "part of one";
  return gpu_class.least == gpu_class.most
             ? fmt::format("{:g}", gpu_class.most)
             : fmt::format("{:g} to {:g}", gpu_class.least, gpu_class.most);
}

std::string gpu_table(const traces::JobStatistics& s) {
  Rows rows = {{"GPUs", "jobs", "share", "GPU hours", "share"}};
  for (const traces::GpuClass& gpu_class : s.gpu_classes) {
    const double hours = s.gpu_hours == 0 ? 0 : gpu_class.gpu_hours / s.gpu_hours;
    rows.push_back(
        {class_text(gpu_class), count_text(gpu_class.jobs), percent(share(gpu_class.jobs, s.jobs)),
         count_text(static_cast<std::uint64_t>(gpu_class.gpu_hours + 0.5)), percent(hours)});
  }
  return aligned(rows);
}

std::string time_table(const traces::JobStatistics& s) {
  Rows rows = {{"", "jobs", "10 %", "median", "90 %", "99 %", "most", "mean"}};
  const auto add = [&](const char* name, const traces::Quantiles& q) {
    if (q.count == 0) return;
    std::vector<std::string> row = {name, count_text(q.count)};
    for (double value : {q.p10, q.p50, q.p90, q.p99, q.most, q.mean})
      row.push_back(span_text(value));
    rows.push_back(row);
  };
  add("duration (with GPUs)", s.duration_s);
  add("waited for the start", s.wait_s);
  add("since the job before", s.interarrival_s);
  return rows.size() == 1 ? "" : aligned(rows);
}

std::string status_table(const traces::JobStatistics& s) {
  Rows rows = {{"status", "jobs", "share"}};
  for (std::size_t i = 0; i < traces::kJobStatuses; ++i) {
    if (s.statuses[i] == 0) continue;
    rows.push_back({std::string(traces::name_of(static_cast<traces::JobStatus>(i))),
                    count_text(s.statuses[i]), percent(share(s.statuses[i], s.jobs))});
  }
  return aligned(rows);
}

Json json_of(const traces::Quantiles& q) {
  return {{"count", q.count}, {"min", q.least}, {"p10", q.p10}, {"p25", q.p25},  {"p50", q.p50},
          {"p75", q.p75},     {"p90", q.p90},   {"p99", q.p99}, {"max", q.most}, {"mean", q.mean}};
}

Json seconds_json(traces::TraceTime ns) {
  if (ns == traces::kNoTime) return nullptr;
  return static_cast<double>(ns) / static_cast<double>(traces::kNanosPerSecond);
}

}  // namespace

std::string problems_text(const traces::JobTrace& trace) {
  std::string text;
  for (std::size_t i = 0; i < traces::kProblems; ++i) {
    const traces::ProblemCount& count = trace.problems[i];
    if (count.rows == 0) continue;
    const traces::ProblemKind& kind = traces::kind_of(static_cast<traces::Problem>(i));
    text += fmt::format("{} of {} rows {} (first: line {}{}): {}\n", count_text(count.rows),
                        count_text(trace.rows), kind.what, count.first_line,
                        count.first_text.empty() ? "" : ", " + output::printable(count.first_text),
                        kind.remedy);
  }
  return text;
}

std::string trace_table(const traces::JobTrace& trace, const traces::JobStatistics& s) {
  std::string text = counts_text(trace, s);
  if (s.jobs > 0) {
    text += "\n" + gpu_table(s) + "\n";
    if (const std::string times = time_table(s); !times.empty()) text += times + "\n";
    text += status_table(s);
  }
  if (const std::string problems = problems_text(trace); !problems.empty()) text += "\n" + problems;
  return text;
}

std::string trace_json(const traces::JobTrace& trace, const traces::JobStatistics& s) {
  Json json;
  json["command"] = "trace info";
  json["version"] = BATCHFLOW_VERSION;
  json["trace"] = {{"name", trace.name},
                   {"format", trace.format},
                   {"time_base", traces::name_of(trace.time_base)},
                   {"rows", trace.rows}};
  json["jobs"] = s.jobs;
  json["gpu_jobs"] = s.gpu_jobs;
  json["fractional_gpu_jobs"] = s.fractional_jobs;
  json["jobs_with_start"] = s.jobs_with_start;
  json["jobs_with_duration"] = s.jobs_with_duration;
  json["jobs_tried_again"] = s.jobs_tried_again;
  json["users"] = s.users;
  json["queues"] = s.queues;
  json["distinct_ids"] = s.distinct_ids;
  json["busiest_user_jobs_ratio"] = s.jobs_of_busiest_user_share;
  json["first_submit_s"] = seconds_json(s.first_submit_ns);
  json["last_submit_s"] = seconds_json(s.last_submit_ns);
  json["last_end_s"] = seconds_json(s.last_end_ns);
  json["gpu_hours"] = s.gpu_hours;
  json["gpus_at_once_max"] = s.gpus_at_once_most;
  json["gpus"] = json_of(s.gpus);
  json["duration_s"] = json_of(s.duration_s);
  json["wait_s"] = json_of(s.wait_s);
  json["interarrival_s"] = json_of(s.interarrival_s);
  json["gpu_histogram"] = Json::array();
  for (const traces::GpuClass& gpu_class : s.gpu_classes) {
    json["gpu_histogram"].push_back({{"gpus_min", gpu_class.least},
                                     {"gpus_max", gpu_class.most},
                                     {"jobs", gpu_class.jobs},
                                     {"gpu_hours", gpu_class.gpu_hours}});
  }
  json["statuses"] = Json::object();
  for (std::size_t i = 0; i < traces::kJobStatuses; ++i) {
    if (s.statuses[i] > 0)
      json["statuses"][traces::name_of(static_cast<traces::JobStatus>(i))] = s.statuses[i];
  }
  json["problems"] = Json::array();
  for (std::size_t i = 0; i < traces::kProblems; ++i) {
    const traces::ProblemCount& count = trace.problems[i];
    if (count.rows == 0) continue;
    const traces::ProblemKind& kind = traces::kind_of(static_cast<traces::Problem>(i));
    Json problem = {{"kind", kind.name},
                    {"rows", count.rows},
                    {"first_line", count.first_line},
                    {"remedy", kind.remedy}};
    if (!count.first_text.empty()) problem["first_text"] = count.first_text;
    json["problems"].push_back(problem);
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace batchflow::sim
