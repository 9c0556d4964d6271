// Belady: the item with the farthest next use leaves. For traces and seeded orders, where the
// future is known. Elsewhere every next use is unknown, and unknown counts as farthest.
//
// L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
// Journal 1966. With items of several sizes it is a good heuristic, no longer the optimum.
#include "core/engine/policy_list.h"
#include "policies/eviction_next_use.h"
#include "policies/make.h"

namespace batchflow::policies {

extern const engine::PolicyEntry eviction_belady;
constexpr engine::PolicyEntry eviction_belady{
    "belady",
    "The item with the farthest next use leaves.\n"
    "A missing item always comes in. Needs the future, which traces and seeded\n"
    "orders have; where items are of one size, the bound that nothing passes is\n"
    "belady-bypass.",
    &make_eviction<Belady>,
    {},
    true};

extern const engine::PolicyEntry eviction_belady_bypass;
constexpr engine::PolicyEntry eviction_belady_bypass{
    "belady-bypass",
    "Belady that keeps out what is needed later than all others.\n"
    "Needs the future, which traces and seeded orders have. On items of one\n"
    "size nothing misses less: the bound that others are compared with.",
    &make_eviction<BeladyBypass>,
    {},
    true};

}  // namespace batchflow::policies
