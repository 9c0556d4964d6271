// An access trace in memory: which item each request asks for, its size, and when the item is asked
// for next. Ids are dense, numbered in the order of their first appearance.
//
// It takes eight bytes a request (twelve where the size of an id changes) and four an item, so that
// 10^8 requests fit a laptop. A reader or a generator fills it through AccessTraceBuilder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "core/engine/policy.h"
#include "traces/id_map.h"

namespace batchflow::traces {

struct AccessTrace {
  static constexpr std::uint32_t kNoNext = UINT32_MAX;

  std::string name;
  std::vector<std::uint32_t> items;       // of each request
  std::vector<std::uint32_t> next_uses;   // index of the next request of the item, or kNoNext
  std::vector<std::uint32_t> item_sizes;  // of each item, at its first request
  std::vector<std::uint32_t> sizes;  // of each request; empty when none differs from item_sizes
  std::uint32_t one_size = 0;        // of every request; 0: they differ
  std::uint64_t requests_of_size_zero = 0;  // left out
  Bytes working_set_bytes = 0;              // sum of item_sizes
  Bytes bytes_requested = 0;

  std::size_t requests() const { return items.size(); }
  std::size_t distinct_items() const { return item_sizes.size(); }
  std::uint32_t size_of(std::size_t request) const {
    return sizes.empty() ? item_sizes[items[request]] : sizes[request];
  }
  std::uint64_t next_use(std::size_t request) const {
    return next_uses[request] == kNoNext ? engine::kNeverUsed : next_uses[request];
  }
};

class AccessTraceBuilder {
 public:
  static constexpr std::uint64_t kMostRequests = UINT32_MAX - 1;
  static constexpr const char* kTooMany =
      "a trace holds at most 4294967294 requests; split the file";

  explicit AccessTraceBuilder(std::string name) { trace_.name = std::move(name); }

  // Throws ConfigError when this machine's memory cannot hold that many requests and `more_bytes`.
  void expect(std::size_t requests, double more_bytes = 0);
  // False when there are as many requests as a trace can hold.
  bool add(std::uint64_t id, std::uint32_t size);
  std::size_t requests() const { return trace_.items.size(); }
  // Computes what needs the whole trace. The builder is empty after it.
  AccessTrace finish();

 private:
  AccessTrace trace_;
  IdMap ids_;
};

// Called now and then during long work, with the share that is done, in [0, 1], or less than 0
// where the share is unknown. It may throw to end the work.
using Progress = std::function<void(double)>;

enum class TraceFormat : std::uint8_t { by_content, csv, oracle_general };

// `csv`: the lines of traces/csv_lines.h. `oracle_general`: libCacheSim's binary of 24-byte
// little-endian records: u32 time, u64 id, u32 size, i64 next. The last field is not used: programs
// write it with different conventions, and it follows from the others. Both may be compressed with
// zstd under any name; `-` is standard input.
// `by_content`: a file that is named .csv or looks like text is CSV; any other is oracleGeneral if
// its bytes can be such records.
// Throws ConfigError when the file cannot be read, is empty, cut short or malformed.
AccessTrace read_access_trace(const std::string& path, TraceFormat format = TraceFormat::by_content,
                              const Progress& progress = {});

// A generated trace, when the name begins with `gen:` (traces/generator.h), else the file.
AccessTrace open_access_trace(const std::string& name, TraceFormat format = TraceFormat::by_content,
                              const Progress& progress = {});

}  // namespace batchflow::traces
