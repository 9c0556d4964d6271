// Encoded first: memory goes to what saves most per byte, step by step.
//
// Under an order that has each sample once an epoch, a slot of a cache is worth the same for any
// item: one read an epoch for each job. So per byte of memory
//   - a prepared block that other jobs of its stream come to soon saves a whole making, and its
//   slot is free for the next block: many times an epoch. But a window longer than two of the
//   longest lanes (a sixteenth of the blocks) saves little more. Each rank needs some blocks to
//   have its batches in time at all, however small the dataset;
//   - an encoded form saves as many bytes of the store as it takes;
//   - a decoded form saves that read and the decoding, but takes several times the bytes.
// Windows are filled with what ranks need, then up to that length, to half of the place in all;
// then encoded forms, then decoded ones, then windows again.

#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/allocation_forms.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class EncodedFirst final : public engine::AllocationPolicy {
 public:
  explicit EncodedFirst(const engine::PolicyContext& context)
      : forms_(context.parameters.text("forms")) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    Wide promised = 0;
    for (const engine::ShareView& share : place.shares)
      promised += bytes_of(share, share.slots_least);
    if (promised > place.capacity_bytes) return;
    room_ = place.capacity_bytes - static_cast<Bytes>(promised);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = place.shares[i].slots_least;
    serve_others(place, slots);
    const Bytes kept_back = room_ - room_ / 2;
    room_ /= 2;
    fill(place, slots, Form::prepared, [](const engine::ShareView& share) -> Slots {
      return std::min(kBlocksARank * share.ranks, share.slots_all);
    });
    fill(place, slots, Form::prepared, [](const engine::ShareView& share) {
      return share.slots_all / kWindow + (share.slots_all % kWindow != 0);
    });
    room_ += kept_back;
    for (const Form form : {Form::encoded, Form::decoded, Form::prepared}) {
      fill(place, slots, form, [](const engine::ShareView& share) { return share.slots_all; });
    }
  }

 private:
  using Wide = unsigned __int128;
  static constexpr Slots kWindow = 16;
  static constexpr Slots kBlocksARank = 8;

  static Wide bytes_of(const engine::ShareView& share, Slots slots) {
    return Wide{slots} * share.slot_bytes;
  }

  // Forms that are not kept get what they are promised, and what workers of single jobs fill ahead.
  void serve_others(const engine::PlaceView& place, std::span<Slots> slots) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (forms_.keeps(share)) continue;
      const Slots more = std::min<Slots>(share.slots_ahead, room_ / share.slot_bytes);
      slots[i] += more;
      room_ -= more * share.slot_bytes;
    }
  }

  // Shares of the form get `most`, beside what they are promised, as far as there is room. Where
  // the room does not suffice, the share that wants least gets it all, and the others get the same
  // part for each of their jobs: passes over a small dataset are short, so each of its bytes is
  // read more often.
  template <class Most>
  void fill(const engine::PlaceView& place, std::span<Slots> slots, Form form, Most most) {
    wanting_.clear();
    std::uint64_t jobs = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (!forms_.keeps(share) || share.form != form) continue;
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
      const auto more = static_cast<Slots>(part / share.slot_bytes);
      slots[wanting.share] += more;
      room_ -= static_cast<Bytes>(bytes_of(share, more));
      jobs -= share.jobs;
    }
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

constexpr Parameter kParameters[] = {kFormsParameter};

}  // namespace

extern const engine::PolicyEntry allocation_encoded_first;
const engine::PolicyEntry allocation_encoded_first{
    "encoded-first",
    "Memory goes to each form by what a byte of it saves.\n"
    "Windows of prepared blocks up to a sixteenth of an epoch, then what is\n"
    "stored, then decoded samples, then more of the windows.",
    &make_policy<engine::AllocationPolicy, EncodedFirst>, kParameters};

}  // namespace batchflow::policies
