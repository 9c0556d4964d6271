// FastMatch: the cache keeps the highest scores.
#include "core/engine/policy_list.h"
#include "policies/eviction_importance.h"
#include "policies/make.h"

namespace batchflow::policies {

extern const engine::PolicyEntry eviction_fastmatch;
constexpr engine::PolicyEntry eviction_fastmatch{
    "fastmatch",
    "The highest scores stay.\n"
    "A newcomer displaces the lowest score if its own is higher (FastMatch).\n"
    "Made for weighted orders.\n"
    "Departs from it: it keeps stored samples, too, where memory is given to\n"
    "them.",
    &make_eviction<Importance>};

}  // namespace batchflow::policies
