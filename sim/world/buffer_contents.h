// What is in a buffer that a job rehearses from: how many samples of each class, and how old.
#pragma once

#include <cstdint>
#include <map>

#include "programs/output/results.h"

namespace batchflow::world {

class BufferContents {
 public:
  // The buffer was shown so many samples.
  explicit BufferContents(std::uint64_t shown) : shown_(shown) {}

  // The buffer has a sample that was shown after `since` others.
  void add(std::uint32_t label, std::uint64_t since) {
    ++classes_[label];
    ages_ += static_cast<double>(shown_ - 1 - since);
    ++count_;
  }
  output::BufferResult result() const;

 private:
  std::uint64_t shown_;
  std::uint64_t count_ = 0;
  std::map<std::uint32_t, std::uint64_t> classes_;
  double ages_ = 0;
};

}  // namespace batchflow::world
