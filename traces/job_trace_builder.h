// A reader makes its JobTrace through this: it counts rows and their problems, repairs rows where
// it can, and ends the reading when too many rows are corrupt.
#pragma once

#include <string>
#include <string_view>

#include "traces/job_trace.h"

namespace batchflow::traces {

// What a reader found of a job. Texts are in the builder's `texts`.
struct JobDraft {
  JobRecord record;
  TraceTime end_ns = kNoTime;  // where it is given in place of the duration
  bool knows_gpus = true;
  bool knows_status = true;

  void set_status(std::string_view text);
};

class JobTraceBuilder {
 public:
  JobTraceBuilder(std::string name, std::string_view format, double corrupt_limit);

  Texts& texts() { return trace_.texts; }

  // About `jobs` jobs are to come.
  void expect(std::size_t jobs) { trace_.jobs.reserve(jobs); }

  // Numbers in place of calendar times count from the zero of `base`.
  void set_numbers(TimeBase base) { numbers_ = base; }
  // Where the file names its base: for all times, and for numbers too.
  void set_time_base(TimeBase base);
  // Reads the instant that `text` names; kNoTime where it means that there is none (empty, `None`).
  // False when it is not a time, or has another base than the times before it.
  bool read_time(std::string_view text, TraceTime& time);

  // For a trace in several files: the file of the next rows.
  void set_file(const std::string& path) { file_ = path == trace_.name ? "" : path; }

  // Each row of the file goes to one of these. `line`: its number.
  void add(const JobDraft& draft, std::uint64_t line);
  // `rows` rows from `line` on cannot be read; throws ConfigError past the limit.
  void corrupt(std::uint64_t line, const std::string& what, std::uint64_t rows = 1);
  void part_of_job(std::uint64_t line);

  JobTrace finish();

 private:
  void note(Problem problem, std::uint64_t line, std::uint64_t rows = 1);
  bool repair(JobDraft& draft, std::uint64_t line);  // false: it is dropped
  void check_limit(std::uint64_t least_rows) const;

  JobTrace trace_;
  std::string file_;  // of the rows; empty: the trace's own
  double corrupt_limit_;
  TimeBase numbers_ = TimeBase::relative;
  bool has_base_ = false;
  TraceTime latest_submit_ns_ = kNoTime;
};

// Empty, or a word that programs write for a missing value: None, null, nan, NaT, Unknown, N/A.
bool is_missing(std::string_view text);

}  // namespace batchflow::traces
