// Readers of access traces: CSV and libCacheSim's oracleGeneral binary.
// Source of the binary layout: libCacheSim, doc and traceReader ("oracleGeneral").
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/config_error.h"
#include "traces/access_trace.h"
#include "traces/byte_source.h"

namespace batchflow {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kRecordBytes = 24;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

[[noreturn]] void fail(const std::string& path, std::uint64_t line, const std::string& what) {
  throw ConfigError(fmt::format("{}:{}: {}", path, line, what));
}

void add(AccessTraceBuilder& builder, const std::string& path, std::uint64_t line, std::uint64_t id,
         std::uint32_t size) {
  if (builder.add(id, size)) return;
  fail(path, line,
       fmt::format("a trace holds at most {} requests; split the file",
                   AccessTraceBuilder::kMostRequests));
}

// ------------------------------------------------------------------------------------- CSV ----

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Seconds, counted or with a fraction; only their form matters here.
bool is_time(std::string_view text) {
  const std::size_t digits =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  if (digits == 0) return false;
  if (digits == text.size()) return true;
  text.remove_prefix(digits + 1);
  return text.data()[-1] == '.' && std::all_of(text.begin(), text.end(), is_digit);
}

template <class Integer>
std::optional<Integer> integer(std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct CsvLine {
  std::string_view fields[3];
  bool whole = false;  // exactly three
};

CsvLine split(std::string_view line) {
  CsvLine result;
  const std::size_t first = line.find(',');
  if (first == std::string_view::npos) return result;
  const std::size_t second = line.find(',', first + 1);
  if (second == std::string_view::npos) return result;
  if (line.find(',', second + 1) != std::string_view::npos) return result;
  result.fields[0] = trimmed(line.substr(0, first));
  result.fields[1] = trimmed(line.substr(first + 1, second - first - 1));
  result.fields[2] = trimmed(line.substr(second + 1));
  result.whole = true;
  return result;
}

class CsvReader {
 public:
  CsvReader(const std::string& path, AccessTraceBuilder& builder)
      : path_(path), builder_(builder) {}

  void line(std::string_view text) {
    ++number_;
    if (number_ == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(3);
    text = trimmed(text);
    if (text.empty()) return;
    if (!is_digit(text.front()) && !seen_any_) return header(text);
    request(text);
  }
  void end() const {
    if (builder_.requests() == 0) {
      fail(path_, number_, "no request with a size above zero; write lines time,id,size");
    }
  }

 private:
  void header(std::string_view text) {
    seen_any_ = true;
    const CsvLine line = split(text);
    if (!line.whole) refuse(text);
    for (std::string_view field : line.fields) {
      if (integer<std::uint64_t>(field)) refuse(text);  // a broken request, not a header
    }
    constexpr std::string_view kNames[] = {"time", "id", "size"};
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        if (i != j && line.fields[i] == kNames[j]) {
          fail(path_, number_,
               fmt::format("column {} is '{}'; the columns must be time,id,size", i + 1,
                           line.fields[i]));
        }
      }
    }
  }
  void request(std::string_view text) {
    seen_any_ = true;
    const CsvLine line = split(text);
    if (!line.whole) refuse(text);
    if (!is_time(line.fields[0])) refuse_field("time", line.fields[0], "a number of seconds");
    const auto id = integer<std::uint64_t>(line.fields[1]);
    if (!id) refuse_field("id", line.fields[1], "an integer from 0 to 2^64 - 1");
    const auto size = integer<std::uint32_t>(line.fields[2]);
    if (!size) {
      refuse_field("size", line.fields[2],
                   "an integer from 0 to 2^32 - 1 (count in a larger unit if need be)");
    }
    add(builder_, path_, number_, *id, *size);
  }
  [[noreturn]] void refuse(std::string_view text) const {
    constexpr std::size_t kMost = 60;
    fail(path_, number_,
         fmt::format("'{}{}' is no request; write time,id,size", text.substr(0, kMost),
                     text.size() > kMost ? "..." : ""));
  }
  [[noreturn]] void refuse_field(std::string_view name, std::string_view text,
                                 std::string_view wanted) const {
    fail(path_, number_, fmt::format("the {} '{}' is wrong; write {}", name, text, wanted));
  }

  const std::string& path_;
  AccessTraceBuilder& builder_;
  std::uint64_t number_ = 0;
  bool seen_any_ = false;
};

// ---------------------------------------------------------------------------------- blocks ----

// Reads block after block; `use` takes whole units from the front and returns how many bytes it
// used, all of them in the last call.
template <class Use>
void each_block(ByteSource& source, std::vector<char>& block, std::size_t filled,
                const Progress& progress, Use use) {
  for (bool last = false; !last;) {
    const std::size_t got = source.read(block.data() + filled, block.size() - filled);
    last = got < block.size() - filled;
    filled += got;
    const std::size_t used = use(std::string_view(block.data(), filled), last);
    std::memmove(block.data(), block.data() + used, filled - used);
    filled -= used;
    if (progress) progress(source.progress());
  }
}

void read_csv(const std::string& path, ByteSource& source, std::vector<char>& block,
              std::size_t filled, AccessTraceBuilder& builder, const Progress& progress) {
  CsvReader reader(path, builder);
  each_block(source, block, filled, progress, [&](std::string_view text, bool last) {
    std::size_t used = 0;
    while (used < text.size()) {
      std::size_t end = text.find('\n', used);
      if (end == std::string_view::npos) {
        if (!last && (used > 0 || text.size() < kBlockBytes)) break;
        end = text.size();  // the last line, or one that is far too long: then it is refused
      }
      reader.line(text.substr(used, end - used));
      used = std::min(end + 1, text.size());
    }
    return used;
  });
  reader.end();
}

template <class Integer>
Integer little_endian(const char* bytes) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value |= static_cast<Integer>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

void read_oracle_general(const std::string& path, ByteSource& source, std::vector<char>& block,
                         std::size_t filled, AccessTraceBuilder& builder,
                         const Progress& progress) {
  std::uint64_t record = 0;
  each_block(source, block, filled, progress, [&](std::string_view bytes, bool last) {
    const std::size_t whole = bytes.size() / kRecordBytes * kRecordBytes;
    for (std::size_t at = 0; at < whole; at += kRecordBytes) {
      const char* fields = bytes.data() + at;
      add(builder, path, ++record, little_endian<std::uint64_t>(fields + 4),
          little_endian<std::uint32_t>(fields + 12));
    }
    if (last && whole < bytes.size()) {
      fail(path, record + 1,
           fmt::format("the last record has {} of its {} bytes; the file is cut short, or no "
                       "oracleGeneral trace: fetch it again or choose another --format",
                       bytes.size() - whole, kRecordBytes));
    }
    return last ? bytes.size() : whole;
  });
  if (builder.requests() == 0) {
    fail(path, record, "no request with a size above zero; write records time,id,size,next");
  }
}

// ---------------------------------------------------------------------------------- format ----

bool looks_like_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return c == '\n' || c == '\r' || c == '\t' || static_cast<unsigned char>(c) >= ' ';
  });
}

// How many requests are to come, from the first block; a little too many rather than too few.
std::size_t expected_requests(const ByteSource& source, std::string_view begin, bool csv) {
  if (source.compressed() || source.file_bytes() == 0) return 0;
  if (!csv) return source.file_bytes() / kRecordBytes;
  const auto lines = static_cast<double>(std::count(begin.begin(), begin.end(), '\n') + 1);
  const double share = static_cast<double>(source.file_bytes()) / static_cast<double>(begin.size());
  return static_cast<std::size_t>(lines * share * 1.02);
}

}  // namespace

AccessTrace read_access_trace(const std::string& path, TraceFormat format,
                              const Progress& progress) {
  ByteSource source(path);
  std::vector<char> block(kBlockBytes);
  const std::size_t filled = source.read(block.data(), block.size());
  const std::string_view begin(block.data(), filled);
  if (format == TraceFormat::by_content) {
    format =
        looks_like_text(begin.substr(0, 4096)) ? TraceFormat::csv : TraceFormat::oracle_general;
  }
  AccessTraceBuilder builder(path);
  builder.expect(expected_requests(source, begin, format == TraceFormat::csv));
  const auto read = format == TraceFormat::csv ? read_csv : read_oracle_general;
  read(path, source, block, filled, builder, progress);
  return builder.finish();
}

}  // namespace batchflow
