#include "traces/trace_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/config_value.h"

namespace batchflow::traces {
namespace {

using namespace std::string_view_literals;

// Formats that are not read but often given: their first bytes, and what turns them into text or
// records.
struct Foreign {
  std::string_view magic;
  std::string_view name;
  std::string_view filter;
};
constexpr Foreign kForeign[] = {
    {"\xfd\x37zXZ\0"sv, "compressed with xz", "xz -dc"},
    {"BZh"sv, "compressed with bzip2", "bzip2 -dc"},
    {"\x04\x22\x4d\x18"sv, "compressed with lz4", "lz4 -dc"},
    {"PK\3\4"sv, "a zip archive", "unzip -p"},
    {"\xff\xfe\0\0"sv, "text in UTF-32", "iconv -f UTF-32 -t UTF-8"},
    {"\0\0\xfe\xff"sv, "text in UTF-32", "iconv -f UTF-32 -t UTF-8"},
    {"\xff\xfe"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
};

bool named_as_csv(std::string_view path) {
  for (std::string_view suffix : {".zst", ".zstd"}) {
    if (path.ends_with(suffix)) path.remove_suffix(suffix.size());
  }
  return path.ends_with(".csv");
}

// Nearly all bytes are text: the reader of the text finds a stray byte, with its line. Records have
// at least three bytes in twenty-four that are not text, in the next use.
bool looks_like_text(std::string_view bytes) {
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  const auto strange = std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (c < ' ' || c == 0x7f) && c != '\n' && c != '\r' && c != '\t';
  });
  return strange <= static_cast<std::ptrdiff_t>(bytes.size() / 10);
}

// Why these are certainly not oracleGeneral records, if that is so. Programs write the next use as
// an index or a time, and as -1, -2 or the greatest number when there is none. Clocks run forward,
// but a few records are out of order.
std::optional<std::string> objection_to_records(std::string_view bytes) {
  constexpr std::int64_t kMostNext = std::int64_t{1} << 40;
  constexpr std::uint32_t kFarBack = 1u << 16;
  const std::size_t records = bytes.size() / kOracleRecordBytes;
  std::uint32_t before = 0;
  std::size_t back = 0;
  for (std::size_t i = 0; i < records; ++i) {
    const char* record = bytes.data() + i * kOracleRecordBytes;
    const auto time = little_endian<std::uint32_t>(record);
    const auto next = static_cast<std::int64_t>(little_endian<std::uint64_t>(record + 16));
    if (next < -2 || (next > kMostNext && next < INT64_MAX - 1)) {
      return fmt::format("record {} would be used next at request {}", i + 1, next);
    }
    if (time < before && before - time > kFarBack) ++back;
    before = time;
  }
  if (records == 0) return fmt::format("{} bytes are less than a record", bytes.size());
  if (back > records / 4) return fmt::format("time would run backwards {} times", back);
  return std::nullopt;
}

}  // namespace

void refuse_foreign(const std::string& path, std::string_view begin, std::string_view command) {
  if (begin.starts_with("\x1f\x8b"sv)) {  // else it would have been decompressed
    throw ConfigError(
        fmt::format("{}: begins like gzip but is not, or is damaged; fetch it again (gzip -dc "
                    "gives what is left of it)",
                    path));
  }
  for (const Foreign& foreign : kForeign) {
    if (!begin.starts_with(foreign.magic)) continue;
    throw ConfigError(fmt::format("{}: is {}; pipe it: {} {} | batchflow-sim {} -", path,
                                  foreign.name, foreign.filter, path == kStandardInput ? "" : path,
                                  command));
  }
}

TraceFormat trace_format(const std::string& path, std::string_view begin, TraceFormat asked) {
  const auto objection = objection_to_records(begin);
  if (objection) refuse_foreign(path, begin, "cache");
  if (asked != TraceFormat::by_content) return asked;
  if (named_as_csv(path) || looks_like_text(begin.substr(0, 4096))) return TraceFormat::csv;
  if (!objection) return TraceFormat::oracle_general;
  throw ConfigError(
      fmt::format("{}: is neither CSV text nor oracleGeneral records ({}); write lines "
                  "time,id,size, or give --format=oracleGeneral if it is that nevertheless",
                  path, *objection));
}

}  // namespace batchflow::traces
