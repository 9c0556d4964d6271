// Encoded first: memory goes to what saves most per byte, step by step.
//
// Under an order that has each sample once an epoch, a slot of a cache is worth the same whoever is
// in it: one read an epoch for each job. So per byte of memory
//   - a prepared block that other jobs of its stream come to soon saves its whole making, and its
//     slot is free for the next: many times an epoch. But a window longer than two of the longest
//     lanes (a sixteenth of the blocks) saves little more;
//   - an encoded form saves as many bytes of the store as it takes;
//   - a decoded one saves that read and the decoding, but takes several times the bytes.
// Windows are filled up to that length and half of the place, then encoded forms, then decoded
// ones, then windows again. Shares in one step divide what does not suffice for all in proportion.

#include <algorithm>

#include "core/policy_list.h"
#include "policies/allocation_forms.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class EncodedFirst final : public AllocationPolicy {
 public:
  explicit EncodedFirst(const PolicyContext& context) : forms_(context.parameters.text("forms")) {}

  void allocate(const PlaceView& place, std::span<Slots> slots) override {
    Wide promised = 0;
    for (const ShareView& share : place.shares) promised += bytes_of(share, share.slots_least);
    if (promised > place.capacity_bytes) return;
    room_ = place.capacity_bytes - static_cast<Bytes>(promised);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = place.shares[i].slots_least;
    serve_others(place, slots);
    const Bytes kept_back = room_ - room_ / 2;
    room_ /= 2;
    fill(place, slots, Form::prepared, kWindow);
    room_ += kept_back;
    fill(place, slots, Form::encoded, 1);
    fill(place, slots, Form::decoded, 1);
    fill(place, slots, Form::prepared, 1);
  }

 private:
  using Wide = unsigned __int128;
  static constexpr Slots kWindow = 16;
  static constexpr Bytes kBytesMost = Bytes{1} << 63;

  static Wide bytes_of(const ShareView& share, Slots slots) {
    return Wide{slots} * share.slot_bytes;
  }

  // What is not kept gets, beside what it is promised, what workers of single jobs fill ahead.
  void serve_others(const PlaceView& place, std::span<Slots> slots) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const ShareView& share = place.shares[i];
      if (forms_.keeps(share)) continue;
      const Slots more = std::min<Slots>(share.slots_ahead, room_ / share.slot_bytes);
      slots[i] += more;
      room_ -= more * share.slot_bytes;
    }
  }

  // Shares of the form get a `divisor`-th of all they could keep, beside what they are promised, as
  // far as there is room.
  void fill(const PlaceView& place, std::span<Slots> slots, Form form, Slots divisor) {
    const auto wanted = [&](std::size_t i) -> Slots {
      const ShareView& share = place.shares[i];
      if (!forms_.keeps(share) || share.form != form) return 0;
      const Slots most = share.slots_all / divisor + (share.slots_all % divisor != 0);
      const Slots more = most - std::min(most, slots[i] - share.slots_least);
      return std::min<Slots>(more, kBytesMost / share.slot_bytes);  // so that sums fit 128 bits
    };
    Wide all = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) all += bytes_of(place.shares[i], wanted(i));
    const Wide room = std::min<Wide>(room_, all);
    for (std::size_t i = 0; i < slots.size() && all > 0; ++i) {
      const auto more = static_cast<Slots>(wanted(i) * room / all);
      slots[i] += more;
      room_ -= static_cast<Bytes>(bytes_of(place.shares[i], more));
    }
  }

  KeptForms forms_;
  Bytes room_ = 0;  // not given out yet
};

constexpr Parameter kParameters[] = {kFormsParameter};

}  // namespace

extern const PolicyEntry allocation_encoded_first;
const PolicyEntry allocation_encoded_first{
    "encoded-first",
    "Memory goes to each form by what a byte of it saves.\n"
    "Windows of prepared blocks up to a sixteenth of an epoch, then what is\n"
    "stored, then decoded samples, then more of the windows.",
    &make_policy<AllocationPolicy, EncodedFirst>, kParameters};

}  // namespace batchflow
