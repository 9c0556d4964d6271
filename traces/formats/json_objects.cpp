#include "traces/formats/json_objects.h"

#include <fmt/format.h>

#include <cstring>

#include "core/config_error.h"
#include "traces/trace_format.h"

namespace batchflow {

bool JsonObjects::more() {
  constexpr std::size_t kLargestObject = std::size_t{16} << 20;
  std::vector<char>& block = input_.block;
  if (begin_ > 0) {
    std::memmove(block.data(), block.data() + begin_, end_ - begin_);
    at_ -= begin_;
    end_ -= begin_;
    begin_ = 0;
  } else if (end_ == block.size()) {
    if (block.size() >= kLargestObject) {
      throw ConfigError(
          fmt::format("{}:{}: the job that begins here has no end within 16 MiB; close "
                      "its braces",
                      input_.path, object_line_));
    }
    block.resize(2 * block.size());
  }
  const std::size_t got = input_.source.read(block.data() + end_, block.size() - end_);
  end_ += got;
  if (input_.options.progress) input_.options.progress(input_.source.progress());
  return got > 0;
}

bool JsonObjects::skip_between() {
  constexpr std::string_view kBetween = " \t\r,[]\xef\xbb\xbf";  // and the byte order mark
  for (;; ++at_) {
    begin_ = at_;
    if (at_ == end_ && !more()) return false;
    const char c = input_.block[at_];
    line_ += c == '\n';
    if (c != '\n' && kBetween.find(c) == kBetween.npos) return true;
  }
}

// From an opening brace to the one that closes it, or of other text to the next opening brace.
void JsonObjects::find_end() {
  const bool is_object = input_.block[at_] == '{';
  std::size_t depth = 0;
  bool in_string = false;
  for (;; ++at_) {
    if (at_ == end_ && !more()) return;
    switch (input_.block[at_]) {
      case '\n':
        ++line_;
        in_string = false;  // no string spans lines: the quote that would end it is missing
        break;
      case '\\':
        if (in_string && (at_ + 1 < end_ || more())) ++at_;
        break;
      case '"':
        in_string = !in_string && is_object;
        break;
      case '{':
        if (!is_object) return;
        depth += !in_string;
        break;
      case '}':
        if (is_object && !in_string && --depth == 0) {
          ++at_;
          return;
        }
        break;
      default:
        break;
    }
  }
}

bool JsonObjects::next(std::string_view& object) {
  if (!skip_between()) return false;
  object_line_ = line_;
  find_end();
  object = {input_.block.data() + begin_, at_ - begin_};
  return true;
}

}  // namespace batchflow
