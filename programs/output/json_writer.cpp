#include "programs/output/json_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace batchflow::output {

namespace {

constexpr std::size_t kPendingMost = 1 << 16;

bool stands_for_itself(char c) {
  return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

}  // namespace

void JsonWriter::key(std::string_view name) {
  separate();
  put_string(name);
  put(layout_ == Layout::lines ? ": " : ":");
  has_key_ = true;
}

void JsonWriter::value(std::uint64_t value) {
  leaf(fmt::format_int(value).c_str());
}

void JsonWriter::value(double value) {
  if (!std::isfinite(value)) return leaf("null");
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "{}", value);
  // A reader should see a number with a fraction.
  const bool is_whole =
      std::all_of(text.begin(), text.end(), [](char c) { return c == '-' || std::isdigit(c); });
  if (is_whole) text.append(std::string_view(".0"));
  leaf({text.data(), text.size()});
}

void JsonWriter::value(const std::string& value) {
  separate();
  put_string(value);
}

void JsonWriter::leaf(std::string_view json) {
  separate();
  put(json);
}

void JsonWriter::finish() {
  sink_(pending_);
  pending_.clear();
}

void JsonWriter::begin(char bracket) {
  separate();
  put({&bracket, 1});
  ++depth_;
  is_first_ = true;
}

void JsonWriter::end(char bracket) {
  --depth_;
  if (!is_first_) new_line();
  put({&bracket, 1});
  is_first_ = false;
}

void JsonWriter::new_line() {
  if (layout_ == Layout::one_line) return;
  put("\n");
  pending_.append(static_cast<std::size_t>(2 * depth_), ' ');
}

// Writes the comma or the line end that the text before requires.
void JsonWriter::separate() {
  if (!has_key_ && depth_ > 0) {
    if (!is_first_) put(",");
    new_line();
  }
  has_key_ = false;
  is_first_ = false;
}

void JsonWriter::put(std::string_view text) {
  pending_ += text;
  if (pending_.size() >= kPendingMost) finish();
}

void JsonWriter::put_string(std::string_view text) {
  if (!std::all_of(text.begin(), text.end(), stands_for_itself)) {
    using Json = nlohmann::json;
    return put(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  put("\"");
  put(text);
  put("\"");
}

}  // namespace batchflow::output
