#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/config_value.h"
#include "traces/formats/format.h"
#include "traces/text_fields.h"
#include "traces/trace_format.h"

namespace batchflow::traces {
namespace {

// In the order in which they are tried: a format that needs more columns comes before one that
// needs fewer.
constexpr const JobFormat* kFormats[] = {
    &kBatchflowCsv, &kPhillyJson, &kPhillyCsv,  &kIntervals, &kHelios, &kAcme,   &kPai2020,
    &kOpenb,        &kItp,        &kSupercloud, &kSacct,     &kSwf,    &kSwfGpus};

Beginning beginning_of(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Beginning begin{text, {}};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    begin.line = line;
    break;
  }
  return begin;
}

bool fits(const JobFormat& format, const Beginning& begin) {
  if (format.csv == nullptr) return format.is(begin);
  return begin.has_columns(format.csv->delimiter, format.csv->marks);
}

// Files that people may take for a list of jobs, by their header.
struct OtherTable {
  std::string_view header;
  std::string_view what;
};
constexpr OtherTable kOtherTables[] = {
    {",worker,gpu,time,batch_time_norm", "mini-batch times of one PAI job"},
    {"machine,gpu_type,cap_cpu,cap_mem,cap_gpu", "PAI's machines"},
    {"sn,cpu_milli,memory_mib,gpu,model", "openb's nodes"},
    {"machineId, number of GPUs, single GPU mem", "Philly's machines"},
    {"time,submit_job_all,start_job_all,end_job_all", "Helios' jobs per ten minutes"},
};

std::vector<std::string_view> format_names() {
  std::vector<std::string_view> names;
  for (const JobFormat* format : kFormats) names.push_back(format->name);
  return names;
}

std::string shown(std::string_view line) {
  constexpr std::size_t kMost = 80;
  return fmt::format("'{}{}'", line.substr(0, kMost), line.size() > kMost ? "..." : "");
}

[[noreturn]] void refuse_unknown(const std::string& name, const Beginning& begin) {
  for (const OtherTable& known : kOtherTables) {
    if (!begin.line.starts_with(known.header)) continue;
    throw ConfigError(fmt::format("{}: holds {}, not jobs; name a list of jobs", name, known.what));
  }
  if (begin.text.size() > 262 && begin.text.substr(257, 5) == "ustar") {
    throw ConfigError(fmt::format("{}: is an archive of files; unpack it with tar -xf", name));
  }
  throw ConfigError(
      fmt::format("{}: is not a known trace of jobs; it begins with {}, and the "
                  "formats are {} (--format chooses one without a guess)",
                  name, shown(begin.line), fmt::join(format_names(), ", ")));
}

const JobFormat& format_of(const std::string& name, const Beginning& begin,
                           std::string_view asked) {
  for (const JobFormat* format : kFormats) {
    if (asked == "auto" ? fits(*format, begin) : asked == format->name) return *format;
  }
  if (asked == "auto") refuse_unknown(name, begin);
  const std::string nearest = nearest_name(asked, format_names());
  throw ConfigError(fmt::format("no format '{}'; write {}{}", asked,
                                nearest.empty() ? "one of " : "'" + nearest + "' or another of ",
                                fmt::join(format_names(), ", ")));
}

}  // namespace

std::span<const JobFormat* const> job_formats() {
  return kFormats;
}

bool Beginning::has_columns(char delimiter, std::span<const std::string_view> names) const {
  std::vector<std::string_view> fields;
  split(line, delimiter, fields);
  std::vector<std::string> columns;
  for (std::string_view field : fields) columns.push_back(lower(unquoted(field)));
  return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
    return std::find(columns.begin(), columns.end(), name) != columns.end();
  });
}

namespace {

struct KeyedRole {
  std::string_view key;
  Role role;
};
constexpr KeyedRole kKeyedRoles[] = {
    {"id", Role::id},       {"name", Role::name},         {"user", Role::user},
    {"queue", Role::queue}, {"arrival", Role::submit},    {"start", Role::start},
    {"end", Role::end},     {"duration", Role::duration}, {"gpus", Role::gpus},
    {"nodes", Role::nodes}, {"cpus", Role::cpus},         {"state", Role::status}};

// Reads a log by the columns that its user has described.
void read_described(const JobInput& input, const std::string& name, const Beginning& begin,
                    const JobColumns& described, JobTraceBuilder& builder) {
  std::vector<std::string_view> fields;
  split(begin.line, described.delimiter, fields);
  std::vector<std::string> header;
  for (const std::string_view field : fields) header.push_back(lower(unquoted(field)));
  std::vector<std::string> names;  // the columns refer to them
  names.reserve(described.columns.size());
  std::vector<Column> columns;
  for (const JobColumns::Column& one : described.columns) {
    names.push_back(lower(one.name));
    if (std::find(header.begin(), header.end(), names.back()) == header.end()) {
      const std::string nearest = nearest_name(names.back(), {header.begin(), header.end()});
      throw ConfigError(fmt::format("{}: key '{}': {} has no column '{}'; {}its columns are {}",
                                    one.where, one.key, name, one.name,
                                    nearest.empty() ? "" : fmt::format("write '{}'; ", nearest),
                                    fmt::join(header, ", ")));
    }
    const auto role = std::find_if(std::begin(kKeyedRoles), std::end(kKeyedRoles),
                                   [&](const KeyedRole& keyed) { return keyed.key == one.key; });
    columns.push_back({names.back(), role->role, one.unit, one.format});
  }
  CsvFormat format;
  format.delimiter = described.delimiter;
  format.columns = columns;
  format.numbers = described.numbers;
  format.states = described.states;
  read_csv_jobs(input, format, builder);
}

}  // namespace

std::vector<std::string_view> job_column_keys() {
  std::vector<std::string_view> keys;
  for (const KeyedRole& keyed : kKeyedRoles) keys.push_back(keyed.key);
  return keys;
}

JobTrace read_job_trace(const std::string& path, const JobReadOptions& options) {
  constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  const std::string name = path == "-" ? std::string(kStandardInput) : path;
  ByteSource source(path, [&] {
    if (options.progress) options.progress(-1);
  });
  std::vector<char> block(kBlockBytes);
  const std::size_t filled = source.read(block.data(), block.size());
  if (filled == 0) throw ConfigError(name + ": is empty; write at least one line");
  const std::string_view text(block.data(), filled);
  refuse_foreign(name, text, "trace info");
  const Beginning begin = beginning_of(text);
  if (filled < block.size() && begin.text.find_first_not_of(" \t\r\n") == begin.text.npos) {
    throw ConfigError(name + ": has only blanks; write at least one line");
  }
  if (options.columns) {
    JobTraceBuilder builder(name, "columns", options.corrupt_limit);
    read_described({path, source, block, filled, options}, name, begin, *options.columns, builder);
    return builder.finish();
  }
  const JobFormat& format = format_of(name, begin, options.format);
  JobTraceBuilder builder(name, format.name, options.corrupt_limit);
  const JobInput input{name, source, block, filled, options};
  if (format.csv == nullptr) {
    format.read(input, builder);
  } else if (fits(format, begin)) {
    constexpr std::uint64_t kShortestJob = 16;  // bytes; a shorter text is blank
    builder.expect(
        std::min<std::uint64_t>(expected_lines(source, text), source.file_bytes() / kShortestJob));
    read_csv_jobs(input, *format.csv, builder);
  } else {
    throw ConfigError(
        fmt::format("{}: does not have the format {}: its header is {}; it needs the columns "
                    "{}",
                    name, format.name, shown(begin.line), fmt::join(format.csv->marks, ", ")));
  }
  return builder.finish();
}

}  // namespace batchflow::traces
