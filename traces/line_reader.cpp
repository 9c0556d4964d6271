#include "traces/line_reader.h"

#include <algorithm>
#include <cstring>

#include "traces/trace_format.h"

namespace batchflow::traces {

LineReader::LineReader(ByteSource& source, std::vector<char>& block, std::size_t filled,
                       const Progress& progress)
    : source_(source), block_(block), progress_(progress), end_(filled) {
  const std::string_view begin(block.data(), filled);
  // Old Macs end lines with a return alone. So a return ends lines where the first block has no
  // other end.
  const bool returns = begin.find('\n') == begin.npos && begin.find('\r') != begin.npos;
  line_end_ = returns ? '\r' : '\n';
  at_end_ = filled < block.size();
  if (begin.starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
}

void LineReader::refill() {
  std::memmove(block_.data(), block_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::size_t got = source_.read(block_.data() + end_, block_.size() - end_);
  at_end_ = got < block_.size() - end_;
  end_ += got;
  if (progress_) progress_(source_.progress());
}

bool LineReader::next(std::string_view& line) {
  for (std::size_t searched = 0;;) {
    const char* from = block_.data() + begin_;
    const auto* found =
        static_cast<const char*>(std::memchr(from + searched, line_end_, end_ - begin_ - searched));
    const bool whole_block = begin_ == 0 && end_ == block_.size();
    if (found == nullptr && !at_end_ && !whole_block) {
      searched = end_ - begin_;
      refill();
      continue;
    }
    if (found == nullptr && begin_ == end_) return false;
    line = {from, found != nullptr ? static_cast<std::size_t>(found - from) : end_ - begin_};
    begin_ += line.size() + (found != nullptr);
    searched = 0;
    const bool rest_of_overlong = in_overlong_;
    in_overlong_ = found == nullptr && !at_end_;
    if (rest_of_overlong) continue;
    ++number_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }
}

std::size_t expected_lines(const ByteSource& source, std::string_view begin) {
  if (source.compressed() || source.file_bytes() == 0) return 0;
  const auto lines = static_cast<double>(std::count(begin.begin(), begin.end(), '\n') + 1);
  const double share = static_cast<double>(source.file_bytes()) / static_cast<double>(begin.size());
  return static_cast<std::size_t>(lines * share * 1.02);
}

}  // namespace batchflow::traces
