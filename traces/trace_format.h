// In which format a trace is: told by its name and by how it begins.
#pragma once

#include <string>
#include <string_view>

#include "traces/access_trace.h"

namespace batchflow {

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

// Throws ConfigError when the bytes are compressed or encoded in a way that is not read, with what
// makes them readable to `batchflow-sim COMMAND`.
void refuse_foreign(const std::string& path, std::string_view begin, std::string_view command);

// `asked`, or what the trace is if that is by_content; `begin` is how it begins, decompressed.
// Throws ConfigError that says what else it is, when it is neither.
TraceFormat trace_format(const std::string& path, std::string_view begin, TraceFormat asked);

}  // namespace batchflow
