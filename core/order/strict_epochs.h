// Which generations strict members will come to, as far as is known, and which they are beginning.
//
// Epoch e of a strict member is pass 0 of generation e. So blocks of that pass are good for members
// that are still in an earlier epoch, and a new generation of relaxed members may meet one there.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/order/changed_needs.h"
#include "core/order/generations.h"
#include "core/order/lane_member.h"

namespace batchflow::order {

class StrictEpochs {
 public:
  StrictEpochs(const Generations& generations, ChangedNeeds& changed)
      : generations_(generations), changed_(changed) {}

  // What a member is known to come to has changed. `coming` is the member's own, and becomes `now`.
  void expect(Coming& coming, Coming now);
  // How many members in an earlier epoch will come to this generation, as things are.
  std::uint32_t to_come(const Generation& generation) const {
    return after_.empty() ? 0 : count_to_come(generation);
  }
  // Members that come to this number may come to another generation of it than before.
  void choice_changed(std::uint64_t number) {
    if (!after_.empty()) changed_.number_changed(number);
  }

  // An epoch is in its first lane, or has not opened it yet.
  void begins(std::uint64_t number) { ++beginning_[number]; }
  // It is beyond its first lane, or over.
  void has_begun(std::uint64_t number);
  // The greatest number of an epoch that begins; 0 if there is none.
  std::uint64_t last_beginning() const {
    return beginning_.empty() ? 0 : beginning_.rbegin()->first;
  }

  // Recounts how many will come to this generation.
  void check(const Generation& generation, const LaneMemberTable& members) const;

 private:
  std::uint32_t count_to_come(const Generation& generation) const;

  const Generations& generations_;
  ChangedNeeds& changed_;
  // `after` and `before` of all members, sorted: they tell how many come to a generation without a
  // look at each.
  std::vector<std::uint64_t> after_;
  std::vector<std::uint64_t> before_;
  std::map<std::uint64_t, std::uint32_t> beginning_;  // how many, by number
};

}  // namespace batchflow::order
