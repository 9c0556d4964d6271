#include "traces/csv_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/base/config_value.h"
#include "traces/text_fields.h"

namespace batchflow::traces {
namespace {

constexpr std::string_view kColumnNames[] = {"time", "id", "size"};
constexpr std::string_view kTimeNames[] = {"time", "timestamp", "ts", "clock_time"};
constexpr std::string_view kIdNames[] = {"id",     "key",       "obj_id", "object", "object_id",
                                         "sample", "sample_id", "item",   "item_id"};
constexpr std::string_view kSizeNames[] = {"size",        "bytes",      "obj_size",
                                           "object_size", "size_bytes", "length"};
constexpr std::span<const std::string_view> kSynonyms[] = {kTimeNames, kIdNames, kSizeNames};

// Also true of a field that is meant as a number and is none: -1, .5, "7", nan, an empty field.
bool looks_like_number(std::string_view field) {
  const std::string text = lower(unquoted(field));
  const std::size_t begin = std::min(text.find_first_not_of("+-."), text.size());
  const std::string_view rest = std::string_view(text).substr(begin);
  return rest.empty() || is_digit(rest.front()) || rest == "nan" || rest.starts_with("inf");
}

// Seconds, whole or with a fraction; only their form matters here.
bool is_time(std::string_view text) {
  const std::size_t digits =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  if (digits == 0) return false;
  if (digits == text.size()) return true;
  text.remove_prefix(digits + 1);
  return text.data()[-1] == '.' && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace

void CsvLines::line(std::string_view text) {
  ++number_;
  text = trimmed(text);
  if (text.empty()) return;
  split(text, ',', fields_);
  const bool first = !std::exchange(begun_, true);
  if (first && looks_like_header()) return read_header();
  request(text);
}

bool CsvLines::looks_like_header() const {
  return fields_.size() > 1 && std::none_of(fields_.begin(), fields_.end(), looks_like_number);
}

void CsvLines::read_header() {
  columns_ = fields_.size();
  indices_ = {kNowhere, kNowhere, kNowhere};
  for (std::size_t i = 0; i < columns_; ++i) {
    for (std::size_t column = 0; column < 3; ++column) {
      const auto names = kSynonyms[column];
      if (std::find(names.begin(), names.end(), lower(unquoted(fields_[i]))) == names.end()) {
        continue;
      }
      if (indices_[column] != kNowhere) {
        fail(fmt::format("columns {} and {} are both the {}; rename one of them",
                         indices_[column] + 1, i + 1, kColumnNames[column]));
      }
      indices_[column] = i;
    }
  }
  find_columns();
}

// A column that the header does not name is at its usual index, if no other column is there.
void CsvLines::find_columns() {
  for (std::size_t column : {id, size}) {
    if (indices_[column] != kNowhere) continue;
    const bool taken = std::find(indices_.begin(), indices_.end(), column) != indices_.end();
    if (columns_ != 3 || taken) {
      fail(fmt::format("no column is called {}; name the columns time,id,size",
                       kColumnNames[column]));
    }
    indices_[column] = column;
  }
}

void CsvLines::request(std::string_view text) {
  if (fields_.size() != columns_) refuse_line(text);
  if (indices_[time] != kNowhere && !is_time(field(time))) {
    refuse_field(time, "a number of seconds");
  }
  const auto item = integer<std::uint64_t>(field(id));
  if (!item) refuse_field(id, "an integer from 0 to 2^64 - 1");
  const auto units = integer<std::uint32_t>(field(size));
  if (!units) {
    refuse_field(size, "an integer from 0 to 2^32 - 1 (count in a larger unit if need be)");
  }
  if (!builder_.add(*item, *units)) fail(AccessTraceBuilder::kTooMany);
}

void CsvLines::refuse_line(std::string_view text) const {
  constexpr std::size_t kMost = 60;
  const std::string wanted = columns_ == 3
                                 ? "write time,id,size"
                                 : fmt::format("write {} fields, as the header", columns_);
  fail(fmt::format("'{}{}' is not a request; {}", text.substr(0, kMost),
                   text.size() > kMost ? "..." : "", wanted));
}

void CsvLines::refuse_field(Column column, std::string_view wanted) const {
  fail(fmt::format("the {} '{}' is wrong; write {}", kColumnNames[column],
                   field(column).substr(0, 60), wanted));
}

void CsvLines::fail(const std::string& what) const {
  throw ConfigError(fmt::format("{}:{}: {}", name_, number_, what));
}

}  // namespace batchflow::traces
