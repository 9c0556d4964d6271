#include "traces/job_trace_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/config_value.h"
#include "traces/text_fields.h"

namespace batchflow::traces {

bool is_missing(std::string_view text) {
  if (text.empty()) return true;
  if (is_digit(text.front()) || text.size() > 7) return false;
  constexpr std::string_view kWords[] = {"none", "null", "nan", "nat", "unknown", "n/a", "-"};
  return std::find(std::begin(kWords), std::end(kWords), lower(text)) != std::end(kWords);
}

JobTraceBuilder::JobTraceBuilder(std::string name, std::string_view format, double corrupt_limit)
    : corrupt_limit_(corrupt_limit) {
  trace_.name = std::move(name);
  trace_.format = format;
}

bool JobTraceBuilder::read_time(std::string_view text, TraceTime& time) {
  time = kNoTime;
  if (is_missing(text)) return true;
  TimeBase base = numbers_;
  if (const auto calendar = calendar_time(text)) {
    base = calendar->has_zone ? TimeBase::utc : TimeBase::local;
    time = calendar->ns;
  } else if (const auto number = decimal(text, 9);
             number && *number <= kMostTime && *number >= -kMostTime) {
    time = *number;
  } else {
    return false;
  }
  if (!has_base_) set_time_base(base);
  return base == trace_.time_base;
}

void JobTraceBuilder::set_time_base(TimeBase base) {
  numbers_ = trace_.time_base = base;
  has_base_ = true;
}

void JobDraft::set_status(std::string_view text) {
  record.status = job_status(text);
  knows_status = record.status != JobStatus::unknown || is_missing(text);
}

void JobTraceBuilder::note(Problem problem, std::uint64_t line, std::uint64_t rows) {
  ProblemCount& count = trace_.problems[static_cast<std::size_t>(problem)];
  if (count.rows == 0) {
    count.first_line = line;
    count.first_file = file_;
  }
  count.rows += rows;
}

void JobTraceBuilder::corrupt(std::uint64_t line, const std::string& what, std::uint64_t rows) {
  constexpr std::uint64_t kLeastRows = 1000;  // with fewer rows a share means nothing yet
  ProblemCount& count = trace_.problems[static_cast<std::size_t>(Problem::corrupt_line)];
  if (count.rows == 0) count.first_text = what;
  trace_.rows += rows;
  note(Problem::corrupt_line, line, rows);
  check_limit(kLeastRows);
}

void JobTraceBuilder::check_limit(std::uint64_t least_rows) const {
  const ProblemCount& corrupt = trace_.problems[static_cast<std::size_t>(Problem::corrupt_line)];
  const auto rows = static_cast<double>(trace_.rows);
  if (trace_.rows < least_rows || static_cast<double>(corrupt.rows) <= corrupt_limit_ * rows)
    return;
  throw ConfigError(fmt::format(
      "{}:{}: {} ({} of {} lines cannot be read as {}, more than {:g} %; choose "
      "another --format, or "
      "allow more with --corrupt-limit)",
      corrupt.first_file.empty() ? trace_.name : corrupt.first_file, corrupt.first_line,
      corrupt.first_text, corrupt.rows, trace_.rows, trace_.format, 100 * corrupt_limit_));
}

void JobTraceBuilder::part_of_job(std::uint64_t line) {
  ++trace_.rows;
  note(Problem::part_of_job, line);
}

void JobTraceBuilder::add(const JobDraft& given, std::uint64_t line) {
  ++trace_.rows;
  JobDraft draft = given;
  if (!repair(draft, line)) return;
  const JobRecord& job = draft.record;
  if (job.submit_ns < latest_submit_ns_) {
    note(Problem::not_sorted, line);
  } else {
    latest_submit_ns_ = job.submit_ns;
  }
  trace_.jobs.push_back(job);
}

bool JobTraceBuilder::repair(JobDraft& draft, std::uint64_t line) {
  JobRecord& job = draft.record;
  const auto drop = [&](Problem problem) {
    note(problem, line);
    return false;
  };
  if (job.submit_ns == kNoTime && !job.has_start()) return drop(Problem::no_submit_time);
  if (!draft.knows_gpus) return drop(Problem::no_gpu_count);
  if (draft.end_ns != kNoTime && job.has_start() && !job.has_duration()) {
    job.duration_ns = draft.end_ns - job.start_ns;
  }
  if (job.has_duration() && job.duration_ns < 0) return drop(Problem::end_before_start);
  if (job.submit_ns == kNoTime || (job.has_start() && job.start_ns < job.submit_ns)) {
    job.submit_ns = job.start_ns;
    note(Problem::submit_after_start, line);
  }
  if (!job.has_duration()) note(job.has_start() ? Problem::no_end : Problem::never_started, line);
  if (!draft.knows_status) note(Problem::unknown_status, line);
  job.attempts = std::max<std::uint16_t>(job.attempts, 1);
  return true;
}

JobTrace JobTraceBuilder::finish() {
  check_limit(1);
  for (ProblemCount& count : trace_.problems) {
    if (count.first_file.empty()) continue;
    count.first_text = fmt::format("of {}{}{}", count.first_file,
                                   count.first_text.empty() ? "" : ": ", count.first_text);
  }
  const auto earlier = [](const JobRecord& a, const JobRecord& b) {
    return a.submit_ns < b.submit_ns;
  };
  if (!std::is_sorted(trace_.jobs.begin(), trace_.jobs.end(), earlier)) {
    std::stable_sort(trace_.jobs.begin(), trace_.jobs.end(), earlier);
  }
  return std::move(trace_);
}

}  // namespace batchflow::traces
