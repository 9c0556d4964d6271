// The outermost objects of a JSON text that is too large for memory: a list of them, or one after
// the other. Where each ends is found by its braces, so that one that is broken does not hide the
// next.
#pragma once

#include <cstdint>
#include <string_view>

#include "traces/formats/format.h"

namespace batchflow {

class JsonObjects {
 public:
  explicit JsonObjects(const JobInput& input) : input_(input), end_(input.filled) {}

  // The next object's text, or what stands where one should be; valid until the next call. False at
  // the end. Throws ConfigError when an object has no end for too long.
  bool next(std::string_view& object);
  std::uint64_t line() const { return object_line_; }  // where it begins

 private:
  bool more();  // bytes at end_, moving what is held to the front; false at the end of the source
  bool skip_between();
  void find_end();

  const JobInput& input_;
  std::size_t begin_ = 0;  // of the object at hand
  std::size_t at_ = 0;     // what comes next
  std::size_t end_;        // of what was read
  std::uint64_t line_ = 1;
  std::uint64_t object_line_ = 1;
};

}  // namespace batchflow
