// Alibaba PAI, GPU trace of 2020: pai_task_table.csv, and pai_job_table.csv beside it. Name either.
// Source: README of github.com/alibaba/clusterdata, cluster-trace-gpu-v2020. Not checked on a real
// file.
// Neither has a header. A job's GPUs are the sum over its tasks of instances times plan_gpu, which
// is in hundredths of a GPU. The job table gives the job's user, submission and status; without it
// the start of the first task is taken for the submission. Seconds are of a fake calendar.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "core/base/config_value.h"
#include "traces/formats/format.h"
#include "traces/text_fields.h"

namespace batchflow::traces {
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

// The file of the other table beside `path`, compressed or not; empty when there is none.
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
  // The paths of the tables, as faults name them; that of the job table is empty where there is
  // none.
  Pai(JobTraceBuilder& builder, std::string job_path, std::string task_path)
      : builder_(builder), job_path_(std::move(job_path)), task_path_(std::move(task_path)) {
    builder.set_numbers(TimeBase::relative);
  }

  void job_row(const std::vector<std::string_view>& fields, std::uint64_t line) {
    builder_.set_file(job_path_);
    TraceTime submit, end;
    if (fields.size() != kJobFields) return refuse_line(fields, kJobFields, line);
    if (!builder_.read_time(fields[kSubmit], submit)) {
      return refuse_field("start_time", fields[kSubmit], line);
    }
    if (!builder_.read_time(fields[kJobEnd], end)) {
      return refuse_field("end_time", fields[kJobEnd], line);
    }
    const auto [entry, is_new] = indices_.try_emplace(builder_.texts().intern(fields[kName]),
                                                      static_cast<std::uint32_t>(jobs_.size()));
    if (!is_new) return builder_.part_of_job(line);
    Job& job = jobs_.emplace_back();
    job.line = line;
    job.draft.knows_gpus = false;  // until a task has it
    JobRecord& record = job.draft.record;
    record.id = entry->first;
    record.user = builder_.texts().intern(fields[kUser]);
    record.submit_ns = submit;
    job.draft.end_ns = end;
    job.draft.set_status(fields[kJobStatus]);
    job.in_job_table = true;
  }

  void task_row(const std::vector<std::string_view>& fields, std::uint64_t line) {
    builder_.set_file(task_path_);
    if (fields.size() != kTaskFields) return refuse_line(fields, kTaskFields, line);
    TraceTime start, end;
    if (!builder_.read_time(fields[kStart], start)) {
      return refuse_field("start_time", fields[kStart], line);
    }
    if (!builder_.read_time(fields[kEnd], end)) {
      return refuse_field("end_time", fields[kEnd], line);
    }
    constexpr std::int64_t kMostHundredths = 100'000;  // of an instance
    std::int64_t instances = 1, cpu = 0, memory = 0, gpu = 0;
    const struct {
      TaskField field;
      const char* name;
      int digits;
      std::int64_t most;
      std::int64_t& value;
    } numbers[] = {{kInstances, "inst_num", 0, 10'000, instances},
                   {kCpu, "plan_cpu", 0, kMostHundredths, cpu},
                   {kMemory, "plan_mem", 9, 100'000'000'000'000, memory},
                   {kGpu, "plan_gpu", 0, kMostHundredths, gpu}};
    for (const auto& number : numbers) {
      const std::string_view text = fields[number.field];
      if (is_missing(text)) continue;
      const auto value = decimal(text, number.digits);
      if (!value || *value < 0 || *value > number.most) {
        return refuse_field(number.name, text, line);
      }
      number.value = *value;
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
    for (const Job& job : jobs_) {
      builder_.set_file(job.in_job_table ? job_path_ : task_path_);
      builder_.add(job.draft, job.line);
    }
  }

 private:
  struct Job {
    JobDraft draft;
    std::uint64_t line = 0;
    bool in_job_table = false;
  };

  Job& job_of_task(const std::vector<std::string_view>& fields, std::uint64_t line) {
    const auto [entry, is_new] = indices_.try_emplace(builder_.texts().intern(fields[kName]),
                                                      static_cast<std::uint32_t>(jobs_.size()));
    if (!is_new) {
      builder_.part_of_job(line);
      return jobs_[entry->second];
    }
    Job& job = jobs_.emplace_back();
    job.line = line;
    job.draft.record.id = entry->first;
    job.draft.set_status(fields[kTaskStatus]);
    return job;
  }

  static void add_to(std::uint32_t& sum, std::int64_t more) {
    sum = static_cast<std::uint32_t>(std::min<std::int64_t>(sum + more, 4'000'000'00));
  }
  void refuse_line(const std::vector<std::string_view>& fields, std::size_t wanted,
                   std::uint64_t line) {
    builder_.corrupt(line, fmt::format("the line has {} fields; write {}", fields.size(), wanted));
  }
  void refuse_field(std::string_view name, std::string_view text, std::uint64_t line) {
    builder_.corrupt(line, fmt::format("the {} '{}' is wrong; write a number that is not negative",
                                       name, text.substr(0, 60)));
  }

  JobTraceBuilder& builder_;
  const std::string job_path_, task_path_;
  std::unordered_map<TextId, std::uint32_t> indices_;  // of job names
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

// Reads the other table from its own file.
template <class Use>
void each_row_of(const std::string& path, const JobReadOptions& options, Use use) {
  ByteSource source(path);
  std::vector<char> block(std::size_t{1} << 20);
  const std::size_t filled = source.read(block.data(), block.size());
  each_row(LineReader(source, block, filled, options.progress), use);
}

void read_pai(const JobInput& input, JobTraceBuilder& builder) {
  const std::string_view begin(input.block.data(), input.filled);
  const bool names_jobs = is_job_table(begin.substr(0, begin.find_first_of("\r\n")));
  const std::string other = names_jobs ? beside(input.path, kJobTable, kTaskTable)
                                       : beside(input.path, kTaskTable, kJobTable);
  if (names_jobs && other.empty()) {
    throw ConfigError(
        fmt::format("{}: has no numbers of GPUs; put pai_task_table.csv beside it, and "
                    "name them as they were published",
                    input.path));
  }
  Pai pai(builder, names_jobs ? input.path : other, names_jobs ? other : input.path);
  const auto job = [&](const auto& fields, std::uint64_t line) { pai.job_row(fields, line); };
  const auto task = [&](const auto& fields, std::uint64_t line) { pai.task_row(fields, line); };
  if (names_jobs) {
    each_row(input.lines(), job);
    each_row_of(other, input.options, task);
  } else {
    if (!other.empty()) each_row_of(other, input.options, job);
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

}  // namespace batchflow::traces
