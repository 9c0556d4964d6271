// Writes JSON piece by piece: the results of a million jobs are never in memory as a tree or as a
// text.
//
// The layout has lines indented by two spaces, or a single line. Bytes of a text that are not UTF-8
// are replaced; a value that is not a number (infinity) is null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "programs/output/output.h"

namespace batchflow::output {

class JsonWriter {
 public:
  enum class Layout { lines, one_line };
  // `sink` outlives it.
  JsonWriter(const Sink& sink, Layout layout) : sink_(sink), layout_(layout) {}
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  void begin_object() { begin('{'); }
  void end_object() { end('}'); }
  void begin_array() { begin('['); }
  void end_array() { end(']'); }
  void key(std::string_view name);  // a value follows
  void value(bool value) { leaf(value ? "true" : "false"); }
  void value(std::uint64_t value);
  void value(double value);
  void value(const std::string& value);
  void leaf(std::string_view json);  // as it is
  void finish();                     // all is in the sink

 private:
  void begin(char bracket);
  void end(char bracket);
  void new_line();
  void separate();
  void put(std::string_view text);
  void put_string(std::string_view text);

  const Sink& sink_;
  Layout layout_;
  std::string pending_;  // not in the sink yet
  int depth_ = 0;
  bool is_first_ = true;  // of its object or array
  bool has_key_ = false;
};

}  // namespace batchflow::output
