// Readers of access traces: CSV and libCacheSim's oracleGeneral binary.
// Source of the binary layout: libCacheSim, doc and traceReader ("oracleGeneral").
#include <fmt/format.h>

#include <cstring>

#include "core/base/config_value.h"
#include "traces/access_trace.h"
#include "traces/byte_source.h"
#include "traces/csv_lines.h"
#include "traces/line_reader.h"
#include "traces/trace_format.h"

namespace batchflow::traces {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

[[noreturn]] void fail(const std::string& path, std::uint64_t line, const std::string& what) {
  throw ConfigError(fmt::format("{}:{}: {}", path, line, what));
}

// ---------------------------------------------------------------------------------- blocks ----

// Reads block after block. `use` takes whole units from the front and returns how many bytes it
// used; in the last call it uses all of them.
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
  CsvLines lines(path, builder);
  LineReader reader(source, block, filled, progress);
  for (std::string_view line; reader.next(line);) lines.line(line);
  if (builder.requests() == 0) {
    fail(path, lines.number(), "no request with a size above zero; write lines time,id,size");
  }
}

void read_oracle_general(const std::string& path, ByteSource& source, std::vector<char>& block,
                         std::size_t filled, AccessTraceBuilder& builder,
                         const Progress& progress) {
  std::uint64_t record = 0;
  each_block(source, block, filled, progress, [&](std::string_view bytes, bool last) {
    const std::size_t whole = bytes.size() / kOracleRecordBytes * kOracleRecordBytes;
    for (std::size_t at = 0; at < whole; at += kOracleRecordBytes) {
      const char* fields = bytes.data() + at;
      ++record;
      const bool added = builder.add(little_endian<std::uint64_t>(fields + 4),
                                     little_endian<std::uint32_t>(fields + 12));
      if (!added) fail(path, record, AccessTraceBuilder::kTooMany);
    }
    if (last && whole < bytes.size()) {
      fail(path, record + 1,
           fmt::format("the last record has {} of its {} bytes; the file is cut short, or no "
                       "oracleGeneral trace: fetch it again or choose another --format",
                       bytes.size() - whole, kOracleRecordBytes));
    }
    return last ? bytes.size() : whole;
  });
  if (builder.requests() == 0) {
    fail(path, record, "no request with a size above zero; write records time,id,size,next");
  }
}

// Estimates from the first block how many requests are to come.
std::size_t expected_requests(const ByteSource& source, std::string_view begin, bool csv) {
  if (csv) return expected_lines(source, begin);
  return source.compressed() ? 0 : source.file_bytes() / kOracleRecordBytes;
}

}  // namespace

AccessTrace read_access_trace(const std::string& path, TraceFormat asked,
                              const Progress& progress) {
  const std::string name = path == "-" ? std::string(kStandardInput) : path;
  ByteSource source(path, [&] {
    if (progress) progress(-1);
  });
  std::vector<char> block(kBlockBytes);
  const std::size_t filled = source.read(block.data(), block.size());
  if (filled == 0) throw ConfigError(name + ": is empty; write at least one request");
  const std::string_view begin(block.data(), filled);
  const TraceFormat format = trace_format(name, begin, asked);
  AccessTraceBuilder builder(name);
  builder.expect(expected_requests(source, begin, format == TraceFormat::csv));
  const auto read = format == TraceFormat::csv ? read_csv : read_oracle_general;
  read(name, source, block, filled, builder, progress);
  return builder.finish();
}

}  // namespace batchflow::traces
