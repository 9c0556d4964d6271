// The Standard Workload Format, version 2.2: eighteen numbers a line, remarks behind a `;`.
// Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. Not checked on a real file.
// It knows processors, not GPUs: they are CPUs here, and GPUs where --format=swf-gpus says that the
// log counts GPUs. -1 means unknown. Seconds count from the beginning of the log, which the remark
// UnixStartTime gives in the calendar.
#include <fmt/format.h>

#include <array>

#include "traces/formats/format.h"
#include "traces/text_fields.h"

namespace batchflow::traces {
namespace {

enum Field : std::size_t {
  kNumber,
  kSubmit,
  kWait,
  kRun,
  kProcessors,
  kCpuTime,
  kMemory,
  kAskedProcessors,
  kAskedTime,
  kAskedMemory,
  kStatus,
  kUser,
  kGroup,
  kExecutable,
  kQueue,
  kPartition,
  kPrevious,
  kThinkTime,
  kFields
};
constexpr const char* kNames[kFields] = {
    "job number",     "submit time",      "wait time", "run time",
    "processors",     "CPU time",         "memory",    "requested processors",
    "requested time", "requested memory", "status",    "user",
    "group",          "executable",       "queue",     "partition",
    "preceding job",  "think time"};
using Fields = std::array<std::string_view, kFields>;

// Returns how many fields the line has; the first of them are in `fields`.
std::size_t split_at_blanks(std::string_view line, Fields& fields) {
  constexpr std::string_view kBlanks = " \t\r";
  std::size_t count = 0;
  for (std::size_t at = 0;;) {
    at = line.find_first_not_of(kBlanks, at);
    if (at == line.npos) return count;
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    if (count < kFields) fields[count] = line.substr(at, end - at);
    ++count;
    at = end;
  }
}

bool is_swf(const Beginning& begin) {
  Fields fields;
  if (split_at_blanks(begin.line, fields) != kFields) return false;
  return std::all_of(fields.begin(), fields.end(),
                     [](std::string_view field) { return decimal(field, 0).has_value(); });
}

JobStatus swf_status(std::int64_t status) {
  if (status == 0) return JobStatus::failed;
  if (status == 1) return JobStatus::completed;
  return status == 5 ? JobStatus::cancelled : JobStatus::unknown;
}

// 2 to 4: a part of a job; the whole job has a line of its own.
bool is_part(std::int64_t status) {
  return status >= 2 && status <= 4;
}

struct Swf {
  JobTraceBuilder& builder;
  bool processors_are_gpus;
  std::int64_t start_ns = 0;  // of the log

  void remark(std::string_view line) {
    constexpr std::string_view kStart = "UnixStartTime:";
    const std::size_t at = line.find(kStart);
    if (at == line.npos) return;
    const auto start = decimal(trimmed(line.substr(at + kStart.size())), 9);
    if (!start || *start <= 0 || *start > kMostTime / 2) return;
    start_ns = *start;
    builder.set_time_base(TimeBase::utc);
  }

  void job(std::string_view line, std::uint64_t number) {
    Fields fields;
    if (split_at_blanks(line, fields) != kFields) {
      builder.corrupt(number,
                      fmt::format("the line does not have {} fields; write -1 for an unknown field",
                                  std::size_t{kFields}));
      return;
    }
    std::array<std::int64_t, kFields> values;  // times in nanoseconds
    for (std::size_t i = 0; i < kFields; ++i) {
      const bool is_time = i == kSubmit || i == kWait || i == kRun;
      const auto value = decimal(fields[i], is_time ? 9 : 0);
      const std::int64_t most = is_time ? kMostTime / 4 : 4'000'000'000;
      if (!value || *value > most) {
        builder.corrupt(number, fmt::format("the {} '{}' is wrong; write a number", kNames[i],
                                            fields[i].substr(0, 60)));
        return;
      }
      values[i] = *value;
    }
    if (is_part(values[kStatus])) return builder.part_of_job(number);
    builder.add(draft(fields, values), number);
  }

  JobDraft draft(const Fields& fields, const std::array<std::int64_t, kFields>& values) {
    JobDraft draft;
    JobRecord& job = draft.record;
    job.id = builder.texts().keep(fields[kNumber]);
    const auto text = [&](Field field) {
      return values[field] < 0 ? kNoText : builder.texts().intern(fields[field]);
    };
    job.user = text(kUser);
    job.queue = text(kQueue);
    job.name = text(kExecutable);
    if (values[kSubmit] >= 0) job.submit_ns = start_ns + values[kSubmit];
    if (values[kSubmit] >= 0 && values[kWait] >= 0) job.start_ns = job.submit_ns + values[kWait];
    if (values[kRun] >= 0) job.duration_ns = values[kRun];
    const std::int64_t given =
        values[kProcessors] > 0 ? values[kProcessors] : values[kAskedProcessors];
    const auto processors =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(given, 0, 4'000'000));
    (processors_are_gpus ? job.gpus_hundredths : job.cpus_hundredths) = 100 * processors;
    const std::int64_t kilobytes = values[kMemory] > 0 ? values[kMemory] : values[kAskedMemory];
    if (kilobytes > 0) job.memory_bytes = static_cast<Bytes>(kilobytes) * 1024 * processors;
    job.status = swf_status(values[kStatus]);
    return draft;
  }
};

void read_swf(const JobInput& input, JobTraceBuilder& builder, bool processors_are_gpus) {
  Swf swf{builder, processors_are_gpus};
  LineReader lines = input.lines();
  for (std::string_view line; lines.next(line);) {
    line = trimmed(line);
    if (line.empty()) continue;
    if (line.front() == ';') {
      swf.remark(line);
    } else {
      swf.job(line, lines.number());
    }
  }
}

}  // namespace

constexpr JobFormat kSwf{.name = "swf",
                         .help = "Standard Workload Format; its processors are CPUs",
                         .checked = false,
                         .is = is_swf,
                         .read = [](const JobInput& input, JobTraceBuilder& builder) {
                           read_swf(input, builder, false);
                         }};
constexpr JobFormat kSwfGpus{
    .name = "swf-gpus",
    .help = "Standard Workload Format; its processors are GPUs",
    .checked = false,
    .is = [](const Beginning&) { return false; },  // chosen by name alone
    .read = [](const JobInput& input,
               JobTraceBuilder& builder) { read_swf(input, builder, true); }};

}  // namespace batchflow::traces
