// The lanes in which members need other blocks than before, until these lanes have been visited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/order/block_ref.h"
#include "core/order/generations.h"
#include "core/order/lane_passes.h"

namespace batchflow::order {

class ChangedNeeds {
 public:
  ChangedNeeds(const Generations& generations, const LanePasses& passes)
      : generations_(generations), passes_(passes) {}

  // `report` is called whenever there begins to be something to visit.
  void on_change(std::function<void()> report) { report_ = std::move(report); }

  // A generation has taken the slot, or is gone from it.
  void begin_generation(std::uint32_t slot, std::uint32_t lanes);
  void end_generation(std::uint32_t slot);

  void lane_changed(std::uint32_t generation, std::uint32_t lane);
  // All lanes of the generations of this number.
  void number_changed(std::uint64_t number);
  // The same of numbers in [from, to). If these are many, they are looked at later, some at a time.
  void numbers_changed(std::uint64_t from, std::uint64_t to);

  // Adds the blocks of changed lanes that are here to `out`, lane by lane, until it has looked at
  // `limit` lanes and blocks. True when nothing is left.
  bool visit(std::size_t limit, std::vector<BlockRef>& out);

 private:
  struct Lane {
    std::uint32_t generation;  // slot
    std::uint32_t lane;
  };

  void generation_changed(std::uint32_t slot);
  bool look_at_next_number();
  void report() const {
    if (report_) report_();
  }

  const Generations& generations_;
  const LanePasses& passes_;
  std::function<void()> report_;
  std::vector<Lane> lanes_;
  std::vector<std::vector<bool>> queued_;  // a generation and lane: it stands in `lanes_`
  // The lanes of generations with numbers from the first up to the second are to be added.
  std::uint64_t numbers_from_ = 0;
  std::uint64_t numbers_to_ = 0;
};

}  // namespace batchflow::order
