// The lines of a CSV trace: `time,id,size`, or the columns that a header names, in any order.
//
// The first line is a header when none of its fields looks like a number. A header must name `id`
// and `size` (or a usual synonym, in any case); columns with other names are passed over. A header
// of three columns may use any name for a column at its usual index.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/access_trace.h"

namespace batchflow::traces {

class CsvLines {
 public:
  CsvLines(std::string name, AccessTraceBuilder& builder)
      : name_(std::move(name)), builder_(builder) {}

  // Takes the next line, without its end. Throws ConfigError with its number.
  void line(std::string_view text);
  std::uint64_t number() const { return number_; }  // of the last line

 private:
  enum Column : std::size_t { time, id, size };
  static constexpr std::size_t kNowhere = SIZE_MAX;

  bool looks_like_header() const;
  void read_header();
  void find_columns();
  void request(std::string_view text);
  std::string_view field(Column column) const { return fields_[indices_[column]]; }
  [[noreturn]] void refuse_line(std::string_view text) const;
  [[noreturn]] void refuse_field(Column column, std::string_view wanted) const;
  [[noreturn]] void fail(const std::string& what) const;

  const std::string name_;
  AccessTraceBuilder& builder_;
  std::uint64_t number_ = 0;
  bool begun_ = false;                              // a header or a request was seen
  std::array<std::size_t, 3> indices_ = {0, 1, 2};  // of each Column; time may be missing
  std::size_t columns_ = 3;
  std::vector<std::string_view> fields_;  // of the present line
};

}  // namespace batchflow::traces
