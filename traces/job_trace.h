// The jobs that the scheduler of a cluster recorded, in any format: one record a job, in the order
// in which they were submitted.
//
// Made by a reader (read_job_trace) or by the generator (traces/job_synth.h). 64 bytes a job and
// its texts, so that 10^6 jobs fit 150 MB.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/access_trace.h"
#include "traces/texts.h"

namespace batchflow::traces {

// Nanoseconds since the zero that the trace's TimeBase names.
using TraceTime = std::int64_t;
inline constexpr TraceTime kNoTime = INT64_MIN;
// No time or duration is beyond this (126 years), so that two of them can be added.
inline constexpr std::int64_t kMostTime = 4'000'000'000'000'000'000;
inline constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

// utc: since 1970. local: the clock and calendar of a zone that the trace does not name, read as if
// it were UTC; where the clocks of the zone were changed, an hour is missing or twice there.
// relative: since some unknown instant.
enum class TimeBase : std::uint8_t { utc, local, relative };
std::string_view name_of(TimeBase base);

enum class JobStatus : std::uint8_t {
  unknown,
  completed,
  failed,
  cancelled,
  timeout,
  node_failure,
  out_of_memory,
  preempted,
  running,
  pending
};
inline constexpr std::size_t kJobStatuses = 10;
std::string_view name_of(JobStatus status);
// The words of schedulers and publishers: `Pass`, `COMPLETED`, `CANCELLED by 17`, `Terminated`...
JobStatus job_status(std::string_view text);

struct JobRecord {
  TraceTime submit_ns = kNoTime;       // always known
  TraceTime start_ns = kNoTime;        // kNoTime: it never started, or the start was not recorded
  std::int64_t duration_ns = kNoTime;  // from the first start to the last end; kNoTime: not known
  Bytes memory_bytes = 0;              // of all nodes; 0: not known
  TextId id = kNoText;
  TextId name = kNoText;
  TextId user = kNoText;
  TextId queue = kNoText;             // or virtual cluster, partition, class of service
  std::uint32_t gpus_hundredths = 0;  // 100: a whole GPU; 0: a job without GPUs
  std::uint32_t cpus_hundredths = 0;  // 0: not known
  std::uint32_t nodes = 0;            // 0: not known
  std::uint16_t attempts = 1;
  JobStatus status = JobStatus::unknown;

  bool has_start() const { return start_ns != kNoTime; }
  bool has_duration() const { return duration_ns != kNoTime; }
  double gpus() const { return gpus_hundredths / 100.0; }
};
static_assert(sizeof(JobRecord) == 64);

// What was wrong with rows, and what the reader did with them.
enum class Problem : std::uint8_t {
  corrupt_line,
  no_submit_time,
  no_gpu_count,
  end_before_start,
  submit_after_start,
  not_sorted,
  unknown_status,
  never_started,
  no_end,
  part_of_job
};
inline constexpr std::size_t kProblems = 10;
struct ProblemKind {
  std::string_view name;    // in JSON
  std::string_view what;    // for people
  std::string_view remedy;  // what the reader did: dropped, or how it was repaired, or kept
  bool no_job;              // these rows are no jobs of the trace
};
const ProblemKind& kind_of(Problem problem);

struct ProblemCount {
  std::uint64_t rows = 0;
  std::uint64_t first_line = 0;
  std::string first_file;  // where its name differs from the name of the trace
  std::string first_text;  // and of corrupt lines what is wrong with the first
};
using TraceProblems = std::array<ProblemCount, kProblems>;

struct JobTrace {
  std::string name;         // as the file was named
  std::string_view format;  // one of job_formats()
  TimeBase time_base = TimeBase::relative;
  std::vector<JobRecord> jobs;  // by submit time; at one time in the order of the file
  Texts texts;
  std::uint64_t rows = 0;  // of the file, also the dropped rows
  TraceProblems problems;

  std::string_view text(TextId id) const { return texts[id]; }
  std::uint64_t rows_without_job() const;  // rows == jobs + these
};

// The columns of a log that no format knows, as its user describes them.
struct JobColumns {
  // How a number of a column becomes nanoseconds: times 10^digits, times the factor.
  struct Unit {
    int digits = 9;
    std::int64_t factor = 1;
  };
  struct Column {
    std::string key;     // id, name, user, queue, arrival, start, end, duration, gpus, nodes, cpus,
                         // state
    std::string name;    // in the log's header
    Unit unit;           // of times and durations
    std::string format;  // of times, as strptime has it; empty: a calendar's usual, or a number
    std::string where;   // `file:line`, for errors
  };
  char delimiter = ',';
  TimeBase numbers = TimeBase::relative;  // what times that are numbers count from
  std::vector<Column> columns;
  std::vector<std::pair<std::string, std::string>> states;  // the log's word, and ours
};
// The keys that a column may have.
std::vector<std::string_view> job_column_keys();

struct JobReadOptions {
  std::string format = "auto";             // one of job_formats(), or recognised by the content
  std::optional<JobColumns> columns = {};  // in place of a format
  double corrupt_limit = 0.01;             // the share of rows that may be corrupt and are left out
  Progress progress;
};
// `path` may be compressed with zstd or gzip, and `-` is standard input. Throws ConfigError when
// the file cannot be read, has no known format, or has more corrupt lines than the limit.
JobTrace read_job_trace(const std::string& path, const JobReadOptions& options = {});

// Writes a job trace as BatchFlow's own CSV, which the readers of this folder read back exactly:
// the same jobs, texts and times. docs/traces.md describes the columns.
std::string job_csv(const JobTrace& trace, const Progress& progress = {});

}  // namespace batchflow::traces
