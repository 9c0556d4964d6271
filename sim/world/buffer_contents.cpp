#include "sim/world/buffer_contents.h"

#include <algorithm>

namespace batchflow::world {

output::BufferResult BufferContents::result() const {
  output::BufferResult out;
  if (count_ == 0) return out;
  const auto by_count = [](const auto& one, const auto& other) {
    return one.second < other.second;
  };
  out.exemplars = count_;
  out.classes = classes_.size();
  out.class_least = std::min_element(classes_.begin(), classes_.end(), by_count)->second;
  out.class_most = std::max_element(classes_.begin(), classes_.end(), by_count)->second;
  out.age = ages_ / static_cast<double>(count_) / static_cast<double>(shown_);
  return out;
}

}  // namespace batchflow::world
