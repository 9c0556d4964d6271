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

#include "core/engine/policy_list.h"
#include "policies/allocation_fill.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class EncodedFirst final : public engine::AllocationPolicy {
 public:
  explicit EncodedFirst(const engine::PolicyContext& context)
      : fill_(context.parameters.text("forms")) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    if (!fill_.begin(place, slots)) return;
    fill_.fill_windows(place, slots, two_lanes);
    for (const Form form : {Form::encoded, Form::decoded, Form::prepared}) {
      fill_.fill_all(place, slots, form);
    }
  }

 private:
  Fill fill_;
};

constexpr Parameter kParameters[] = {kFormsParameter};

}  // namespace

extern const engine::PolicyEntry allocation_encoded_first;
constexpr engine::PolicyEntry allocation_encoded_first{
    "encoded-first",
    "Memory goes to each form by what a byte of it saves.\n"
    "Windows of prepared blocks up to a sixteenth of an epoch, then what is\n"
    "stored, then decoded samples, then more of the windows.",
    &make_policy<engine::AllocationPolicy, EncodedFirst>, kParameters};

}  // namespace batchflow::policies
