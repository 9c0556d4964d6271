// The outermost objects of a JSON text that is too large for memory: a list of them, or one after
// the other. Each has a key that no object within it has, the mark. So damage hides nothing behind
// it: an object that has the mark and closes is whole, whatever was left open before it. The text
// is read once, with 16 MiB in memory at most.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "traces/formats/format.h"

namespace batchflow::traces {

// Text before an object that is not a whole object.
struct JsonGap {
  std::uint64_t line = 0;   // where it begins; 0: there is no gap
  std::uint64_t bytes = 0;  // of text
  std::uint64_t marks = 0;  // in it: as many objects are lost, at least
};

class JsonObjects {
 public:
  // `mark`: the key as it is written, with its quotes; it outlives this.
  JsonObjects(const JobInput& input, std::string_view mark)
      : input_(input), mark_(mark), end_(input.filled) {}

  // The next object, or the gap at the end of the text. False at the end.
  bool next();
  std::string_view text() const { return text_; }  // valid until `next`; empty in a gap at the end
  std::uint64_t line() const { return text_line_; }  // where it begins
  const JsonGap& gap() const { return gap_; }        // before it

 private:
  struct Position {
    std::uint64_t offset;  // in the text
    std::uint64_t line;
    std::uint64_t marks;    // before it
    bool has_mark = false;  // of an object that begins here
  };

  Position here() const { return {dropped_ + at_, line_, marks_}; }
  std::size_t first_needed() const;
  bool more();  // bytes at at_; false at the end of the source
  void forget_outermost(std::size_t count);
  void lose(const Position& from);
  void end_gap(const Position& at);
  bool close(const Position& object);  // whether it is to be returned
  void find_mark(bool in_string);
  bool end();

  const JobInput& input_;
  const std::string_view mark_;
  std::size_t at_ = 0;         // the next byte, in the block
  std::size_t end_;            // of what was read into it
  std::uint64_t dropped_ = 0;  // bytes before the block
  std::uint64_t line_ = 1;
  std::uint64_t marks_ = 0;
  std::vector<Position> open_;    // objects that have not closed, outermost first
  std::optional<Position> lost_;  // where the gap begins
  std::string_view text_;
  std::uint64_t text_line_ = 1;
  JsonGap gap_;
};

}  // namespace batchflow::traces
