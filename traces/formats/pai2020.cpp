// Alibaba PAI, GPU trace of 2020: pai_task_table.csv, and pai_job_table.csv beside it. Name either.
// Source: README of github.com/alibaba/clusterdata, cluster-trace-gpu-v2020. Not checked on a real
// file.
// Neither has a header. A job's GPUs are the sum over its tasks of instances times plan_gpu, which
// is in hundredths of a GPU. The job table says who submitted the job, when, and how it ended;
// without it the first task's start is taken for its submission. Seconds are of a fake calendar.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "core/config_error.h"
#include "traces/formats/all.h"
#include "traces/text_fields.h"

namespace batchflow {
namespace {

enum JobField : std::size_t { kName, kId, kUser, kJobStatus, kSubmit, kJobEnd, kJobFields };
enum TaskField : std::size_t {
  kTask = 1,
  kInstances,
  kTaskStatus,
  kStart,
  kEnd,
  kCpu,
  kMemory,
  kGpu,
  kGpuType,
  kTaskFields
};
constexpr std::string_view kJobTable = "pai_job_table", kTaskTable = "pai_task_table";

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  split(line, ',', fields);
  return fields;
}

bool is_status(std::string_view text) {
  constexpr std::string_view kStatuses[] = {"Terminated", "Failed", "Running", "Waiting", "status"};
  return std::find(std::begin(kStatuses), std::end(kStatuses), text) != std::end(kStatuses);
}
bool is_job_table(std::string_view line) {
  const auto fields = fields_of(line);
  return fields.size() == kJobFields && is_status(fields[kJobStatus]);
}
bool is_task_table(std::string_view line) {
  const auto fields = fields_of(line);
  return fields.size() == kTaskFields && is_status(fields[kTaskStatus]);
}

// The file of that table beside `path`, compressed or not; empty when there is none.
std::string beside(const std::string& path, std::string_view from, std::string_view to) {
  const std::size_t at = path.rfind(from);
  if (at == path.npos) return "";
  const std::string stem = path.substr(0, at) + std::string(to);
  std::vector<std::string> endings = {path.substr(at + from.size()), ".csv", ".csv.gz", ".csv.zst"};
  for (const std::string& ending : endings) {
    if (std::filesystem::is_regular_file(stem + ending)) return stem + ending;
  }
  return "";
}

class Pai {
 public:
  explicit Pai(JobTraceBuilder& builder) : builder_(builder) {
    builder.set_numbers(TimeBase::relative);
  }

  void job_row(const std::vector<std::string_view>& fields, std::uint64_t line) {
    TraceTime submit, end;
    if (fields.size() != kJobFields || !builder_.read_time(fields[kSubmit], submit) ||
        !builder_.read_time(fields[kJobEnd], end)) {
      return corrupt(kJobTable, line);
    }
    const auto [place, is_new] = places_.try_emplace(builder_.texts().intern(fields[kName]),
                                                     static_cast<std::uint32_t>(jobs_.size()));
    if (!is_new) return builder_.part_of_job(line);
    Job& job = jobs_.emplace_back();
    job.line = line;
    job.draft.knows_gpus = false;  // until a task says it
    JobRecord& record = job.draft.record;
    record.id = place->first;
    record.user = builder_.texts().intern(fields[kUser]);
    record.submit_ns = submit;
    job.draft.end_ns = end;
    job.draft.set_status(fields[kJobStatus]);
    job.in_job_table = true;
  }

  void task_row(const std::vector<std::string_view>& fields, std::uint64_t line) {
    const auto number = [&](std::size_t field, int digits, std::int64_t otherwise) {
      if (is_missing(fields[field])) return otherwise;
      const auto value = decimal(fields[field], digits);
      return value && *value <= 100'000'000'000'000 ? *value : -1;
    };
    TraceTime start, end;
    if (fields.size() != kTaskFields || !builder_.read_time(fields[kStart], start) ||
        !builder_.read_time(fields[kEnd], end)) {
      return corrupt(kTaskTable, line);
    }
    constexpr std::int64_t kMostInstances = 10'000;
    const std::int64_t instances = number(kInstances, 0, 1), cpu = number(kCpu, 0, 0);
    const std::int64_t memory = number(kMemory, 9, 0), gpu = number(kGpu, 0, 0);
    constexpr std::int64_t kMostHundredths = 100'000;  // of an instance
    if (instances < 0 || instances > kMostInstances || cpu < 0 || cpu > kMostHundredths ||
        memory < 0 || gpu < 0 || gpu > kMostHundredths) {
      return corrupt(kTaskTable, line);
    }
    Job& job = job_of_task(fields, line);
    JobRecord& record = job.draft.record;
    job.draft.knows_gpus = true;
    add_to(record.gpus_hundredths, instances * gpu);
    add_to(record.cpus_hundredths, instances * cpu);
    record.memory_bytes += static_cast<Bytes>(instances) * static_cast<Bytes>(memory);
    if (start != kNoTime && (!record.has_start() || start < record.start_ns)) {
      record.start_ns = start;
    }
    if (!job.in_job_table) job.draft.end_ns = std::max(job.draft.end_ns, end);
  }

  void finish() {
    for (const Job& job : jobs_) builder_.add(job.draft, job.line);
  }

 private:
  struct Job {
    JobDraft draft;
    std::uint64_t line = 0;
    bool in_job_table = false;
  };

  Job& job_of_task(const std::vector<std::string_view>& fields, std::uint64_t line) {
    const auto [place, is_new] = places_.try_emplace(builder_.texts().intern(fields[kName]),
                                                     static_cast<std::uint32_t>(jobs_.size()));
    if (!is_new) {
      builder_.part_of_job(line);
      return jobs_[place->second];
    }
    Job& job = jobs_.emplace_back();
    job.line = line;
    job.draft.record.id = place->first;
    job.draft.set_status(fields[kTaskStatus]);
    return job;
  }

  static void add_to(std::uint32_t& sum, std::int64_t more) {
    sum = static_cast<std::uint32_t>(std::min<std::int64_t>(sum + more, 4'000'000'00));
  }
  void corrupt(std::string_view table, std::uint64_t line) {
    builder_.corrupt(line, fmt::format("this is no line of {}.csv; write its columns", table));
  }

  JobTraceBuilder& builder_;
  std::unordered_map<TextId, std::uint32_t> places_;  // of job names
  std::vector<Job> jobs_;
};

bool is_header(std::string_view line) {
  return line.starts_with("job_name,");
}

template <class Use>
void each_row(LineReader lines, Use use) {
  std::vector<std::string_view> fields;
  for (std::string_view line; lines.next(line);) {
    if (trimmed(line).empty() || is_header(line)) continue;
    split(line, ',', fields);
    use(fields, lines.number());
  }
}

// The other table, from its own file.
template <class Use>
void each_row_of(const std::string& path, const JobReadOptions& options, Use use) {
  ByteSource source(path);
  std::vector<char> block(std::size_t{1} << 20);
  const std::size_t filled = source.read(block.data(), block.size());
  each_row(LineReader(source, block, filled, options.progress), use);
}

void read_pai(const JobInput& input, JobTraceBuilder& builder) {
  Pai pai(builder);
  const auto job = [&](const auto& fields, std::uint64_t line) { pai.job_row(fields, line); };
  const auto task = [&](const auto& fields, std::uint64_t line) { pai.task_row(fields, line); };
  const std::string_view begin(input.block.data(), input.filled);
  if (is_job_table(begin.substr(0, begin.find_first_of("\r\n")))) {
    const std::string tasks = beside(input.path, kJobTable, kTaskTable);
    if (tasks.empty()) {
      throw ConfigError(
          fmt::format("{}: says nothing of GPUs; put pai_task_table.csv beside it, and "
                      "name them as they were published",
                      input.path));
    }
    each_row(input.lines(), job);
    each_row_of(tasks, input.options, task);
  } else {
    const std::string jobs = beside(input.path, kTaskTable, kJobTable);
    if (!jobs.empty()) each_row_of(jobs, input.options, job);
    each_row(input.lines(), task);
  }
  pai.finish();
}

}  // namespace

constexpr JobFormat kPai2020{
    .name = "pai-v2020",
    .help = "Alibaba PAI GPU v2020, pai_task_table.csv with pai_job_table.csv beside it",
    .checked = false,
    .is =
        [](const Beginning& begin) {
          return is_job_table(begin.line) || is_task_table(begin.line);
        },
    .read = read_pai};

}  // namespace batchflow
