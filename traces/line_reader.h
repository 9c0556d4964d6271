// The lines of a text that comes in blocks, each with its number.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "traces/access_trace.h"
#include "traces/byte_source.h"

namespace batchflow {

class LineReader {
 public:
  // `block` is where bytes are kept, and its first `filled` are how the text begins: the caller has
  // looked at them. A line longer than it is cut there, and the rest of it is passed over.
  LineReader(ByteSource& source, std::vector<char>& block, std::size_t filled,
             const Progress& progress);

  // The next line, without its end; valid until the next call. False at the end of the text.
  bool next(std::string_view& line);
  std::uint64_t number() const { return number_; }  // of the last line, from 1

 private:
  void refill();

  ByteSource& source_;
  std::vector<char>& block_;
  const Progress& progress_;
  std::size_t begin_ = 0;  // of what was not handed out
  std::size_t end_;
  char line_end_;
  bool at_end_ = false;       // of the source
  bool in_overlong_ = false;  // until its end nothing is handed out
  std::uint64_t number_ = 0;
};

// How many lines a file has that begins so: a little too many rather than too few, and 0 where
// nobody can say.
std::size_t expected_lines(const ByteSource& source, std::string_view begin);

}  // namespace batchflow
