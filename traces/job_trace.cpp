#include "traces/job_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/names.h"

namespace batchflow::traces {
namespace {

constexpr std::string_view kStatusNames[kJobStatuses] = {
    "unknown",      "completed",     "failed",    "cancelled", "timeout",
    "node_failure", "out_of_memory", "preempted", "running",   "pending"};

struct StatusWord {
  std::string_view word;
  JobStatus status;
};
// Philly: pass, killed, failed. PAI: terminated (which is success), waiting. Kubernetes: succeeded.
// All others are Slurm's.
constexpr StatusWord kStatusWords[] = {{"completed", JobStatus::completed},
                                       {"pass", JobStatus::completed},
                                       {"failed", JobStatus::failed},
                                       {"cancelled", JobStatus::cancelled},
                                       {"killed", JobStatus::cancelled},
                                       {"terminated", JobStatus::completed},
                                       {"succeeded", JobStatus::completed},
                                       {"timeout", JobStatus::timeout},
                                       {"deadline", JobStatus::timeout},
                                       {"node_fail", JobStatus::node_failure},
                                       {"node_failure", JobStatus::node_failure},
                                       {"boot_fail", JobStatus::node_failure},
                                       {"out_of_memory", JobStatus::out_of_memory},
                                       {"preempted", JobStatus::preempted},
                                       {"running", JobStatus::running},
                                       {"suspended", JobStatus::running},
                                       {"pending", JobStatus::pending},
                                       {"waiting", JobStatus::pending},
                                       {"requeued", JobStatus::pending}};

constexpr ProblemKind kKinds[kProblems] = {
    {"corrupt_lines", "could not be read", "dropped", true},
    {"no_submit_time", "have no submit time and no start", "dropped", true},
    {"no_gpu_count", "do not say how many GPUs they had or asked for", "dropped", true},
    {"end_before_start", "end before they start", "dropped", true},
    {"submit_after_start", "were submitted after they started, or at an unknown time",
     "submit time set to the start", false},
    {"not_sorted", "come after a row that was submitted later", "sorted", false},
    {"unknown_status", "have an unknown status", "kept, status unknown", false},
    {"never_started", "never started", "kept, without a start", false},
    {"no_end", "were running when the log was taken, or have no recorded end",
     "kept, without a duration", false},
    {"parts_of_jobs", "are steps or tasks of a job", "merged into their job", true},
};

}  // namespace

std::string_view name_of(TimeBase base) {
  constexpr std::string_view kNames[] = {"utc", "local", "relative"};
  return name_in<TimeBase::relative>(kNames, base);
}

std::string_view name_of(JobStatus status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

JobStatus job_status(std::string_view text) {
  // Slurm adds the user: `CANCELLED by 1017`, and `+` where the word was cut.
  const std::string_view word = text.substr(0, text.find_first_of(" +"));
  constexpr auto kSame = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  for (const StatusWord& known : kStatusWords) {
    const bool as_long = word.size() == known.word.size();
    // `_` and DEL are equal without the bit that distinguishes capitals; no status has a DEL.
    if (as_long && std::equal(word.begin(), word.end(), known.word.begin(), kSame)) {
      return known.status;
    }
  }
  return JobStatus::unknown;
}

const ProblemKind& kind_of(Problem problem) {
  return kKinds[static_cast<std::size_t>(problem)];
}

std::uint64_t JobTrace::rows_without_job() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kProblems; ++i) {
    if (kKinds[i].no_job) sum += problems[i].rows;
  }
  return sum;
}

namespace {

class Line {
 public:
  explicit Line(std::string& text) : text_(text) {}

  void text(std::string_view field) {
    separate();
    // A field that a reader would trim, unquote or split is quoted.
    const bool plain = field.find_first_of(",\"#") == field.npos && !field.starts_with(' ') &&
                       !field.ends_with(' ');
    if (plain) {
      text_ += field;
      return;
    }
    text_ += '"';
    for (char c : field) text_.append(c == '"' ? 2 : 1, c);
    text_ += '"';
  }
  void number(std::uint64_t value) {
    separate();
    fmt::format_to(std::back_inserter(text_), "{}", value);
  }
  // Writes nothing where the value is not known.
  void known(std::uint64_t value) {
    if (value != 0) return number(value);
    separate();
  }
  // `value` in units of 10^-digits, without needless zeros.
  void decimal(std::uint64_t value, std::uint64_t units, int digits) {
    separate();
    fmt::format_to(std::back_inserter(text_), "{}", value / units);
    if (value % units == 0) return;
    fmt::format_to(std::back_inserter(text_), ".{:0{}}", value % units, digits);
    while (text_.back() == '0') text_.pop_back();
  }
  void seconds(std::int64_t ns) {
    constexpr int kDigits = 9;
    if (ns == kNoTime) return separate();
    const bool negative = ns < 0;
    const std::size_t at = text_.size() + !first_;
    decimal(static_cast<std::uint64_t>(negative ? -ns : ns), kNanosPerSecond, kDigits);
    if (negative) text_.insert(at, "-");
  }

 private:
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }

  std::string& text_;
  bool first_ = true;
};

}  // namespace

std::string job_csv(const JobTrace& trace, const Progress& progress) {
  constexpr std::size_t kReportEvery = 1 << 16;
  std::string text = fmt::format(
      "# BatchFlow jobs 1, times: {}\n"
      "id,name,user,queue,submit_s,start_s,duration_s,gpus,nodes,cpus,memory_bytes,status,"
      "attempts\n",
      name_of(trace.time_base));
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const JobRecord& job = trace.jobs[i];
    if (progress && i % kReportEvery == 0) {
      progress(static_cast<double>(i) / static_cast<double>(trace.jobs.size()));
    }
    Line line(text);
    line.text(trace.text(job.id));
    line.text(trace.text(job.name));
    line.text(trace.text(job.user));
    line.text(trace.text(job.queue));
    line.seconds(job.submit_ns);
    line.seconds(job.start_ns);
    line.seconds(job.duration_ns);
    line.decimal(job.gpus_hundredths, 100, 2);
    line.known(job.nodes);
    if (job.cpus_hundredths == 0) {
      line.known(0);
    } else {
      line.decimal(job.cpus_hundredths, 100, 2);
    }
    line.known(job.memory_bytes);
    line.text(name_of(job.status));
    line.number(job.attempts);
    text += '\n';
  }
  return text;
}

}  // namespace batchflow::traces
