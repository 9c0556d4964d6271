// Quiver: hits in place of misses.
//
// A. Kumar, M. Sivathanu, "Quiver: An Informed Storage Cache for Deep Learning", FAST 2020. Looks
// for hits among ten times the samples that it needs. Departs from it: the candidates slide over a
// permutation of the whole dataset, which needs no chunks.
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/selection_substitution.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    candidates_parameter("10"),
};

}  // namespace

extern const engine::PolicyEntry selection_quiver;
constexpr engine::PolicyEntry selection_quiver{
    .name = "quiver",
    .help =
        "A block is made of samples that are kept, where it may be.\n"
        "Of the next samples of a job's epoch those that a cache has come first\n"
        "(Quiver, FAST 2020). Each comes once an epoch; the order depends on what\n"
        "is kept. Jobs share no prepared blocks.\n"
        "Departs from it: candidates slide over the whole dataset, without chunks.",
    .make = &make_policy<engine::SelectionPolicy, Substitution>,
    .parameters = kParameters};

}  // namespace batchflow::policies
