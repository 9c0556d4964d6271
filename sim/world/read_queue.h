// The reads of one node, as its reader takes them: first come, first served, with so many
// operations under way at once. A read that has fewer leaves the others to the next.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>

namespace batchflow::world {

class ReadQueue {
 public:
  // 0: all reads begin at once.
  explicit ReadQueue(std::uint32_t depth) : depth_(depth), free_(depth) {}

  // Gets how many of its operations may be under way; 0: as many as the drive takes.
  using Begin = std::function<void(std::uint32_t ahead)>;
  // Calls `begin` now, or from within the `leave` of others.
  void enter(std::uint64_t read, std::uint64_t operations, Begin begin);
  // It is over, or given up. Of no effect for a read that is not here.
  void leave(std::uint64_t read);

 private:
  struct Waiting {
    std::uint64_t read;
    std::uint64_t operations;
    Begin begin;
  };
  void begin_next();

  std::uint32_t depth_;
  std::uint32_t free_;
  std::deque<Waiting> waiting_;
  std::unordered_map<std::uint64_t, std::uint32_t> under_way_;  // looked up, never walked
};

}  // namespace batchflow::world
