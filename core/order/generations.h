// The generations of one stream that are in use: their numbers, and how each is cut.
//
// A generation exists while a member is in it or a pass of it exists. Jobs that restore one number
// with different sizes are in different generations, so a number may have several. That is rare.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "core/base/pool.h"
#include "core/order/lane_sizes.h"

namespace batchflow::order {

struct Generation {
  std::uint64_t number = 0;  // g
  LaneSizes sizes;
  std::uint32_t uses = 0;  // passes, and epochs of members, also those just ended; 0: free
};

class Generations {
 public:
  // By slots, which are reused.
  const Generation& operator[](std::uint32_t slot) const { return table_[slot]; }
  std::uint32_t size() const { return table_.size(); }  // free slots included
  std::size_t used() const { return table_.used(); }

  // The slots of a number, ascending.
  std::span<const std::uint32_t> numbered(std::uint64_t number) const;
  const std::map<std::uint64_t, std::vector<std::uint32_t>>& by_number() const {
    return by_number_;
  }
  // The numbers that have several generations.
  const std::set<std::uint64_t>& cut_otherwise() const { return cut_otherwise_; }
  std::uint32_t find(std::uint64_t number, const LaneSizes& sizes) const;  // or kNone
  // How a strict job's epoch is cut: as a generation of that number which has its blocks, or else
  // as a new one.
  LaneSizes strict_sizes(std::uint64_t epoch) const;

  // Of generations opened from now on.
  const LaneSizes& new_sizes() const { return new_sizes_; }
  void set_new_sizes(const LaneSizes& sizes) { new_sizes_ = sizes; }
  // Above all numbers that relaxed members have begun, or jobs reported.
  std::uint64_t next_number() const { return next_number_; }
  void observe(std::uint64_t number) { next_number_ = std::max(next_number_, number + 1); }

  // It must be used before it can be released. REQUIRES: there is none of that number and sizes
  std::uint32_t open(std::uint64_t number, const LaneSizes& sizes);
  void use(std::uint32_t slot) { ++table_[slot].uses; }
  // True if that was its last use: the generation is gone.
  bool release(std::uint32_t slot);

 private:
  SlotTable<Generation> table_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> by_number_;
  std::set<std::uint64_t> cut_otherwise_;
  LaneSizes new_sizes_;
  std::uint64_t next_number_ = 0;
};

}  // namespace batchflow::order
