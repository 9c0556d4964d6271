// SHADE: a heap by weight, and then by how often an item was requested; a newcomer without a score
// displaces nothing.
//
// R. I. S. Khan et al., "SHADE: Enable Fundamental Cacheability for Distributed Deep Learning
// Training", FAST 2023.
#include "core/engine/policy_list.h"
#include "policies/eviction_importance.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class Shade final : public Importance {
  using Importance::Importance;
  void note(ItemId item) override {
    ++known_[item.value].requests;
    rank(item);
  }
};

// Each item takes on its new score when it is next requested in a later epoch.

}  // namespace

extern const engine::PolicyEntry eviction_shade;
constexpr engine::PolicyEntry eviction_shade{
    "shade",
    "The lowest score leaves, for a newcomer with a higher one.\n"
    "Of equal ones the item that was requested least; a newcomer without a\n"
    "score displaces nothing (SHADE, FAST 2023). Made for weighted orders.",
    &make_eviction<Shade>};

}  // namespace batchflow::policies
