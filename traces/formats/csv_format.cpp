#include "traces/formats/csv_format.h"

#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <type_traits>

#include "traces/formats/format.h"
#include "traces/formats/slurm.h"
#include "traces/text_fields.h"

namespace batchflow::traces {
namespace {

constexpr std::int64_t kMostHundredths = 400'000'000;  // four million GPUs or CPUs
constexpr std::int64_t kMostNodes = 4'000'000;
constexpr std::int64_t kMostMemoryPerNode = 1'000'000'000'000'000;

class CsvJobs {
 public:
  CsvJobs(const CsvFormat& format, JobTraceBuilder& builder) : format_(format), builder_(builder) {
    builder.set_numbers(format.numbers);
  }

  void read_header(std::string_view line);
  void read_row(std::string_view line, std::uint64_t number);

 private:
  struct FileColumn {
    std::size_t field;
    const Column* meaning;
  };
  struct Row {
    JobDraft draft;
    std::int64_t gpu_milli = 1000;
    std::int64_t interval_ns = 0;
    std::uint64_t memory_per_node = 0;
    bool has_tres = false;
  };

  // False when the text cannot be a value of the role.
  bool take(const Column& column, std::string_view text, Row& row);
  bool take_number(const Column& column, std::string_view text, Row& row);
  bool take_time(const Column& column, std::string_view text, TraceTime& time);
  void take_status(std::string_view text, Row& row);
  void finish(Row& row, std::uint64_t number);
  std::string refusal(const FileColumn& column) const;

  const CsvFormat& format_;
  JobTraceBuilder& builder_;
  std::vector<FileColumn> file_columns_;
  std::size_t columns_ = 0;
  std::vector<std::string_view> fields_;
  std::string buffer_;
  bool has_intervals_ = false;
  bool has_tres_ = false;
  TraceTime submitted_ns_ = 0;  // of the row before, where rows give intervals
};

void CsvJobs::read_header(std::string_view line) {
  split(line, format_.delimiter, fields_);
  columns_ = fields_.size();
  std::vector<Role> seen;
  for (std::size_t i = 0; i < columns_; ++i) {
    const std::string name = lower(unquoted(fields_[i]));
    for (const Column& column : format_.columns) {
      if (column.name != name) continue;
      if (std::find(seen.begin(), seen.end(), column.role) != seen.end()) continue;
      seen.push_back(column.role);
      file_columns_.push_back({i, &column});
      has_intervals_ = has_intervals_ || column.role == Role::interval;
      has_tres_ = has_tres_ || column.role == Role::tres_allocated;
    }
  }
  // Requested resources count where none were allocated, so the allocated ones are read first.
  std::stable_partition(file_columns_.begin(), file_columns_.end(), [](const FileColumn& column) {
    return column.meaning->role != Role::tres_requested;
  });
}

void CsvJobs::read_row(std::string_view line, std::uint64_t number) {
  split(line, format_.delimiter, fields_);
  if (fields_.size() != columns_) {
    builder_.corrupt(number, fmt::format("the line has {} fields; write {}, as the header",
                                         fields_.size(), columns_));
    return;
  }
  Row row;
  for (const FileColumn& column : file_columns_) {
    const std::string_view text = field_text(fields_[column.field], buffer_);
    if (format_.has_steps && column.meaning->role == Role::id && text.find('.') != text.npos) {
      builder_.part_of_job(number);
      return;
    }
    if (!take(*column.meaning, text, row)) {
      builder_.corrupt(number, refusal(column));
      return;
    }
  }
  finish(row, number);
}

std::string CsvJobs::refusal(const FileColumn& column) const {
  constexpr std::size_t kMost = 60;
  const std::string_view text = unquoted(fields_[column.field]);
  const auto wanted = [&]() -> std::string_view {
    switch (column.meaning->role) {
      case Role::submit:
      case Role::start:
      case Role::end:
        return "a time in the form of the other lines";
      case Role::duration:
        return "a number of seconds, of 126 years at most";
      default:
        return "a number that is not negative";
    }
  };
  return fmt::format("the {} '{}' is wrong; write {}", column.meaning->name, text.substr(0, kMost),
                     wanted());
}

// A time in a form of its own, as read_time() understands it; none where it is not of that form.
std::optional<std::string> usual_time(const Column& column, std::string_view text) {
  if (!column.time_format.empty()) {
    std::tm calendar{};
    const std::string whole(text);
    const char* end = strptime(whole.c_str(), std::string(column.time_format).c_str(), &calendar);
    if (end == nullptr || *end != 0) return std::nullopt;
    return calendar_text(timegm(&calendar) * kNanosPerSecond);
  }
  const auto number = decimal(text, column.unit.digits);
  if (!number || std::abs(*number) > kMostTime / column.unit.factor) return std::string(text);
  const std::int64_t ns = *number * column.unit.factor;
  return fmt::format("{}{}.{:09}", ns < 0 ? "-" : "", std::abs(ns) / kNanosPerSecond,
                     std::abs(ns) % kNanosPerSecond);
}

bool CsvJobs::take_time(const Column& column, std::string_view text, TraceTime& time) {
  const bool is_usual =
      column.time_format.empty() && column.unit.digits == 9 && column.unit.factor == 1;
  if (is_usual || is_missing(text)) {
    if (!builder_.read_time(text, time)) return false;
  } else {
    const auto usual = usual_time(column, text);
    if (!usual || !builder_.read_time(*usual, time)) return false;
  }
  if (format_.zero_is_no_time && time == 0) time = kNoTime;
  return true;
}

void CsvJobs::take_status(std::string_view text, Row& row) {
  const auto found = std::find_if(format_.states.begin(), format_.states.end(),
                                  [&](const auto& state) { return state.first == text; });
  row.draft.set_status(found == format_.states.end() ? text : std::string_view(found->second));
}

bool CsvJobs::take(const Column& column, std::string_view text, Row& row) {
  JobRecord& job = row.draft.record;
  switch (column.role) {
    case Role::id:
      job.id = builder_.texts().keep(text);
      return true;
    case Role::name:
      job.name = builder_.texts().intern(text);
      return true;
    case Role::user:
      job.user = builder_.texts().intern(text);
      return true;
    case Role::queue:
      job.queue = builder_.texts().intern(text);
      return true;
    case Role::submit:
      return take_time(column, text, job.submit_ns);
    case Role::start:
      return take_time(column, text, job.start_ns);
    case Role::end:
      return take_time(column, text, row.draft.end_ns);
    case Role::status:
      take_status(text, row);
      return true;
    case Role::tres_allocated:
    case Role::tres_requested:
      if (is_missing(text) || row.has_tres) return true;
      row.has_tres = true;
      return read_tres(text, job);
    default:
      return take_number(column, text, row);
  }
}

bool CsvJobs::take_number(const Column& column, std::string_view text, Row& row) {
  const Role role = column.role;
  JobRecord& job = row.draft.record;
  if (is_missing(text)) {
    if (role == Role::gpus) row.draft.knows_gpus = false;
    return true;
  }
  const auto number = [&](int digits, std::int64_t most) -> std::optional<std::int64_t> {
    const auto value = decimal(text, digits);
    return value && *value >= 0 && *value <= most ? value : std::nullopt;
  };
  const auto set = [](auto& to, std::optional<std::int64_t> value, std::int64_t factor = 1,
                      std::int64_t divisor = 1) {
    using To = std::remove_reference_t<decltype(to)>;
    if (value) to = static_cast<To>((*value * factor + divisor / 2) / divisor);
    return value.has_value();
  };
  switch (role) {
    case Role::duration: {  // a negative one is an error of a clock, and not a corrupt line
      const auto value = decimal(text, column.unit.digits);
      const std::int64_t most = kMostTime / column.unit.factor;
      if (!value || *value > most || *value < -most) return false;
      job.duration_ns = *value * column.unit.factor;
      return true;
    }
    case Role::interval:
      return set(row.interval_ns, number(9, kMostTime - submitted_ns_));
    case Role::gpus:
      return set(job.gpus_hundredths, number(2, kMostHundredths));
    case Role::gpu_milli:
      return set(row.gpu_milli, number(0, 1000));
    case Role::nodes:
      return set(job.nodes, number(0, kMostNodes));
    case Role::cpus:
      return set(job.cpus_hundredths, number(2, kMostHundredths));
    case Role::cpu_milli:
      return set(job.cpus_hundredths, number(0, kMostHundredths), 1, 10);
    case Role::memory_bytes:
      return set(job.memory_bytes, number(0, INT64_MAX));
    case Role::memory_mib:
      return set(job.memory_bytes, number(0, INT64_MAX >> 20), 1 << 20);
    case Role::memory_gb_per_node:
      return set(row.memory_per_node, number(9, kMostMemoryPerNode));
    case Role::slurm_state:
      return set(job.status, number(0, 255)) &&
             (job.status = slurm_status(static_cast<unsigned>(job.status)), true);
    case Role::attempts:
      return set(job.attempts, number(0, UINT16_MAX));
    default:
      return false;
  }
}

void CsvJobs::finish(Row& row, std::uint64_t number) {
  JobRecord& job = row.draft.record;
  if (format_.zero_is_no_duration && !job.has_start() && job.duration_ns == 0) {
    job.duration_ns = kNoTime;
  }
  if (has_tres_ && !row.has_tres) row.draft.knows_gpus = false;
  if (has_intervals_) job.submit_ns = submitted_ns_ += row.interval_ns;
  if (row.gpu_milli != 1000) {
    job.gpus_hundredths =
        static_cast<std::uint32_t>((job.gpus_hundredths * row.gpu_milli + 500) / 1000);
  }
  if (row.memory_per_node != 0) {
    job.memory_bytes = row.memory_per_node * std::max<std::uint64_t>(job.nodes, 1);
  }
  builder_.add(row.draft, number);
}

// BatchFlow's own files have a remark that says what their times count from: `# ..., times: local`.
void read_remark(std::string_view line, JobTraceBuilder& builder) {
  for (TimeBase base : {TimeBase::utc, TimeBase::local, TimeBase::relative}) {
    if (line.ends_with(fmt::format("times: {}", name_of(base)))) builder.set_time_base(base);
  }
}

}  // namespace

void read_csv_jobs(const JobInput& input, const CsvFormat& format, JobTraceBuilder& builder) {
  CsvJobs jobs(format, builder);
  LineReader lines = input.lines();
  bool has_header = false;
  for (std::string_view line; lines.next(line);) {
    if (trimmed(line).empty()) continue;
    if (has_header) {
      jobs.read_row(line, lines.number());
    } else if (line.front() == '#') {
      read_remark(trimmed(line), builder);
    } else {
      jobs.read_header(line);
      has_header = true;
    }
  }
}

}  // namespace batchflow::traces
