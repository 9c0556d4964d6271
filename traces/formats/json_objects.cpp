#include "traces/formats/json_objects.h"

#include <algorithm>
#include <cstring>

namespace batchflow::traces {

// A mark may have begun before the outermost open object, and end in what is read next.
std::size_t JsonObjects::first_needed() const {
  const std::size_t begin =
      open_.empty() ? at_ : static_cast<std::size_t>(open_.front().offset - dropped_);
  return begin - std::min(begin, mark_.size());
}

bool JsonObjects::more() {
  constexpr std::size_t kLargestObject = std::size_t{16} << 20;
  std::vector<char>& block = input_.block;
  if (first_needed() == 0 && end_ == block.size()) {
    if (block.size() < kLargestObject) {
      block.resize(2 * block.size());
    } else {  // by half a block, so that moving costs in proportion to reading
      const auto first_half = [&](const Position& object) {
        return object.offset - dropped_ < block.size() / 2;
      };
      forget_outermost(
          static_cast<std::size_t>(std::count_if(open_.begin(), open_.end(), first_half)));
    }
  }
  const std::size_t unneeded = first_needed();
  std::memmove(block.data(), block.data() + unneeded, end_ - unneeded);
  dropped_ += unneeded;
  at_ -= unneeded;
  end_ -= unneeded;
  const std::size_t got = input_.source.read(block.data() + end_, block.size() - end_);
  end_ += got;
  if (input_.options.progress) input_.options.progress(input_.source.progress());
  return got > 0;
}

void JsonObjects::forget_outermost(std::size_t count) {
  if (count == 0) return;
  lose(open_.front());
  open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(count));
}

void JsonObjects::lose(const Position& from) {
  if (!lost_) lost_ = from;
}

void JsonObjects::end_gap(const Position& at) {
  gap_ = {};
  if (lost_) gap_ = {lost_->line, at.offset - lost_->offset, at.marks - lost_->marks};
}

// Within a gap, an object without the mark is a part of a damaged object.
bool JsonObjects::close(const Position& object) {
  if (!object.has_mark && (lost_ || !open_.empty())) return false;
  if (!open_.empty()) lose(open_.front());
  end_gap(object);
  text_ = {input_.block.data() + (object.offset - dropped_), at_ - (object.offset - dropped_)};
  text_line_ = object.line;
  return true;
}

// Called at a quote. Where a quote is missing, text seems to be in a string that is not, so it
// counts too.
void JsonObjects::find_mark(bool in_string) {
  const std::size_t size = mark_.size();
  if (at_ + 1 < size) return;
  if (std::memcmp(input_.block.data() + at_ + 1 - size, mark_.data(), size) != 0) return;
  ++marks_;
  if (in_string && !open_.empty()) open_.back().has_mark = true;
}

bool JsonObjects::end() {
  if (!open_.empty()) lose(open_.front());
  end_gap(here());
  text_ = {};
  return lost_.has_value();
}

bool JsonObjects::next() {
  constexpr std::string_view kBetween = " \t\r,[]\xef\xbb\xbf";  // and the byte order mark
  constexpr std::size_t kDeepest = 1000;  // an object that nests deeper is no job
  open_.clear();
  lost_.reset();
  bool in_string = false;
  for (;; ++at_) {
    if (at_ == end_ && !more()) return end();
    const char c = input_.block[at_];
    switch (c) {
      case '\n':
        ++line_;
        in_string = false;  // no string spans lines: its closing quote is missing
        break;
      case '\\':
        if (in_string && (at_ + 1 < end_ || more()) && input_.block[at_ + 1] != '\n') ++at_;
        break;
      case '"':
        find_mark(in_string);
        if (open_.empty()) lose(here());
        in_string = !in_string && !open_.empty();
        break;
      case '{':
        if (in_string) break;
        if (open_.size() == kDeepest) forget_outermost(kDeepest / 2);
        open_.push_back(here());
        break;
      case '}': {
        if (in_string) break;
        if (open_.empty()) {
          lose(here());
          break;
        }
        const Position object = open_.back();
        open_.pop_back();
        ++at_;
        if (close(object)) return true;
        --at_;
        break;
      }
      default:
        if (open_.empty() && kBetween.find(c) == kBetween.npos) lose(here());
        break;
    }
  }
}

}  // namespace batchflow::traces
