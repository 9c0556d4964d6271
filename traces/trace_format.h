// Finds the format of a trace by its name and its beginning.
#pragma once

#include <string>
#include <string_view>

#include "traces/access_trace.h"

namespace batchflow::traces {

inline constexpr std::size_t kOracleRecordBytes = 24;  // u32 time, u64 id, u32 size, i64 next

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
inline constexpr std::string_view kStandardInput =
    "standard input";  // the name of a trace from there

template <class Integer>
Integer little_endian(const char* bytes) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value |= static_cast<Integer>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

// Throws ConfigError when the bytes are compressed or encoded in a way that is not read; the
// message says how to make them readable to `batchflow-sim COMMAND`.
void refuse_foreign(const std::string& path, std::string_view begin, std::string_view command);

// `asked`, or the format of the trace if that is by_content; `begin` is its beginning,
// decompressed. Throws ConfigError when it has neither format, and says what it has instead.
TraceFormat trace_format(const std::string& path, std::string_view begin, TraceFormat asked);

}  // namespace batchflow::traces
