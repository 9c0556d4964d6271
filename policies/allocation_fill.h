// Fills the shares of a place in turn, for an allocation policy. It knows what is left of the
// place, and divides that among shares where it does not suffice.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/engine/policy.h"
#include "policies/allocation_forms.h"

namespace batchflow::policies {

// Two of the longest lanes, which are a thirty-second of the blocks each: a longer window saves
// little where jobs are equally fast.
inline Slots two_lanes(const engine::ShareView& share) {
  return share.slots_all / 16 + (share.slots_all % 16 != 0);
}

class Fill {
 public:
  explicit Fill(std::string_view forms) : forms_(forms) {}

  bool keeps(const engine::ShareView& share) const { return forms_.keeps(share); }
  Bytes room() const { return room_; }

  // Gives each share what it was promised and, where its form is not kept, what workers of single
  // jobs fill ahead. False: the place is too small for the promises.
  bool begin(const engine::PlaceView& place, std::span<Slots> slots) {
    Wide promised = 0;
    for (const engine::ShareView& share : place.shares) {
      promised += bytes_of(share, share.slots_least);
    }
    if (promised > place.capacity_bytes) return false;
    room_ = place.capacity_bytes - static_cast<Bytes>(promised);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      slots[i] = share.slots_least;
      if (!keeps(share)) give(share, slots[i], share.slots_ahead);
    }
    return true;
  }

  // As many more slots as there is room for.
  void give(const engine::ShareView& share, Slots& slots, Slots most) {
    const Slots more = std::min<Slots>(most, room_ / share.slot_bytes);
    slots += more;
    room_ -= more * share.slot_bytes;
  }

  // Shares of the form get `most`, beside what they are promised, as far as there is room. Where
  // the room does not suffice, each job has the same part of it. A share that wants less than its
  // jobs' part gets all that it wants: passes over a small dataset are short, so each of its bytes
  // is read more often.
  template <class Most>
  void fill(const engine::PlaceView& place, std::span<Slots> slots, Form form, Most most) {
    wanting_.clear();
    std::uint64_t jobs = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (!keeps(share) || share.form != form) continue;
      const Slots all = most(share);
      const Slots more = all - std::min(all, slots[i] - share.slots_least);
      if (more == 0) continue;
      const Wide bytes = bytes_of(share, more);
      wanting_.push_back({bytes / share.jobs, i, bytes});
      jobs += share.jobs;
    }
    std::sort(wanting_.begin(), wanting_.end(), [](const Wanting& a, const Wanting& b) {
      return a.for_a_job != b.for_a_job ? a.for_a_job < b.for_a_job : a.share < b.share;
    });
    for (const Wanting& wanting : wanting_) {
      const engine::ShareView& share = place.shares[wanting.share];
      const Wide part = std::min(wanting.bytes, Wide{room_} * share.jobs / jobs);
      give(share, slots[wanting.share], static_cast<Slots>(part / share.slot_bytes));
      jobs -= share.jobs;
    }
  }

  // The windows of streams, in at most half of the room that is left: what ranks need to have their
  // batches in time, however small the dataset, and then up to `most`. Where a window has less than
  // they need, jobs that share the stream wait for each other, so such windows may have three
  // quarters.
  template <class Most>
  void fill_windows(const engine::PlaceView& place, std::span<Slots> slots, Most most) {
    const Bytes all = room_;
    const auto fill_up_to = [&](Bytes bytes, auto most_of) {
      const Bytes kept_back = std::min(room_, all - bytes);
      room_ -= kept_back;
      fill(place, slots, Form::prepared, most_of);
      room_ += kept_back;
    };
    const auto needed = [](const engine::ShareView& share) -> Slots {
      return std::min(kBlocksARank * share.ranks, share.slots_all);
    };
    fill_up_to(all / 2, needed);
    fill_up_to(all / 2, most);
    fill_up_to(all - all / 4, [&](const engine::ShareView& share) -> Slots {
      return share.jobs > 1 ? needed(share) : 0;
    });
  }

  // No more of the windows than ranks need.
  void fill_least_windows(const engine::PlaceView& place, std::span<Slots> slots) {
    fill_windows(place, slots, [](const engine::ShareView&) -> Slots { return 0; });
  }

  // All of the form, as far as there is room.
  void fill_all(const engine::PlaceView& place, std::span<Slots> slots, Form form) {
    fill(place, slots, form, [](const engine::ShareView& share) { return share.slots_all; });
  }

 private:
  using Wide = unsigned __int128;
  static constexpr Slots kBlocksARank = 8;

  static Wide bytes_of(const engine::ShareView& share, Slots slots) {
    return Wide{slots} * share.slot_bytes;
  }

  struct Wanting {
    Wide for_a_job;
    std::size_t share;
    Wide bytes;
  };
  KeptForms forms_;
  Bytes room_ = 0;  // not assigned yet
  std::vector<Wanting> wanting_;
};

}  // namespace batchflow::policies
