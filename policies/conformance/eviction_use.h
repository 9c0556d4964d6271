// An eviction policy under random accesses, pins, removals, resizes, growth and swaps, against a
// model that knows only which items are resident.
#pragma once

#include <map>
#include <vector>

#include "core/engine/policy_list.h"
#include "core/engine/share.h"

namespace batchflow::conformance {

class EvictionUse {
 public:
  EvictionUse(const engine::PolicyChoice& choice, std::uint64_t seed);

  // Throws Violation.
  void run(int steps);
  std::uint64_t digest() const { return digest_; }

 private:
  struct Resident {
    Slots slots;
    int pins = 0;
  };

  void act();
  engine::Access draw_access();
  void access();
  void force();
  void read_early();
  void pin();
  void unpin();
  void remove();
  void forget();
  void resize();
  void shrink();
  void swap();
  void adopt();
  void grow();
  void report_facts();
  std::map<std::uint32_t, Resident>::iterator any_resident();
  void apply_evicted();
  void note(std::uint64_t value);
  void check();

  Random random_;
  const engine::PolicyChoice& choice_;
  std::size_t items_;
  std::uint64_t most_slots_;
  Slots capacity_;
  engine::Share share_;
  std::map<std::uint32_t, Resident> model_;
  std::vector<ItemId> evicted_;
  std::uint64_t now_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace batchflow::conformance
