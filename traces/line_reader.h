// The lines of a text that comes in blocks, each with its number.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "traces/access_trace.h"
#include "traces/byte_source.h"

namespace batchflow::traces {

class LineReader {
 public:
  // `block` keeps the bytes; its first `filled` bytes are the beginning of the text, which the
  // caller has looked at. A line longer than the block is cut there, and the rest of it is passed
  // over.
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
  std::size_t begin_ = 0;  // of the bytes that were not returned yet
  std::size_t end_;
  char line_end_;
  bool at_end_ = false;       // of the source
  bool in_overlong_ = false;  // nothing is returned until its end
  std::uint64_t number_ = 0;
};

// Estimates how many lines a file has that begins like this: a little too many rather than too few,
// and 0 where it is unknown.
std::size_t expected_lines(const ByteSource& source, std::string_view begin);

}  // namespace batchflow::traces
