// To add a policy: write policies/<kind>_<name>.cpp with `extern const PolicyEntry <kind>_<name>`,
// and add its line here. It is then in `policy list`, in every program, and in the conformance,
// determinism, fuzz and benchmark suites.
#include "policies/registry.h"

#define BATCHFLOW_POLICIES(POLICY)     \
  POLICY(eviction_fifo)                \
  POLICY(eviction_lru)                 \
  POLICY(eviction_mru)                 \
  POLICY(eviction_clock)               \
  POLICY(eviction_sieve)               \
  POLICY(eviction_lfu)                 \
  POLICY(eviction_s3fifo)              \
  POLICY(eviction_s3fifo_warm)         \
  POLICY(eviction_2q)                  \
  POLICY(eviction_arc)                 \
  POLICY(eviction_slru)                \
  POLICY(eviction_lirs)                \
  POLICY(eviction_wtinylfu)            \
  POLICY(eviction_gdsf)                \
  POLICY(eviction_random)              \
  POLICY(eviction_minio)               \
  POLICY(eviction_nopfs)               \
  POLICY(eviction_batchflow)           \
  POLICY(eviction_belady)              \
  POLICY(eviction_belady_bypass)       \
  POLICY(eviction_refcount)            \
  POLICY(eviction_seneca)              \
  POLICY(eviction_shade)               \
  POLICY(eviction_icache)              \
  POLICY(eviction_fastmatch)           \
  POLICY(allocation_batchflow)         \
  POLICY(allocation_encoded_first)     \
  POLICY(allocation_equal)             \
  POLICY(allocation_proportional)      \
  POLICY(allocation_silod)             \
  POLICY(allocation_quiver)            \
  POLICY(allocation_seneca)            \
  POLICY(allocation_cachew)            \
  POLICY(allocation_hoard)             \
  POLICY(selection_strict)             \
  POLICY(selection_ready_first)        \
  POLICY(selection_quiver)             \
  POLICY(selection_seneca)             \
  POLICY(selection_deepio)             \
  POLICY(selection_shade)              \
  POLICY(selection_fastmatch)          \
  POLICY(dispatch_fifo)                \
  POLICY(dispatch_round_robin)         \
  POLICY(dispatch_earliest_deadline)   \
  POLICY(dispatch_bounded_lag)         \
  POLICY(dispatch_coordinated)         \
  POLICY(dispatch_streaming_batch)     \
  POLICY(dispatch_batchflow)           \
  POLICY(dispatch_nearest_by_link)     \
  POLICY(scaling_static)               \
  POLICY(scaling_look_ahead)           \
  POLICY(scaling_cachew)               \
  POLICY(scaling_autotune)             \
  POLICY(scaling_fastmatch)            \
  POLICY(rehearsal_reservoir)          \
  POLICY(rehearsal_random_replacement) \
  POLICY(rehearsal_per_class)          \
  POLICY(rehearsal_by_score)           \
  POLICY(rehearsal_prioritised)        \
  POLICY(mixture_excess_loss)          \
  POLICY(mixture_softmax)              \
  POLICY(mixture_ucb)

namespace batchflow::policies {

#define DECLARE(name) extern const engine::PolicyEntry name;
BATCHFLOW_POLICIES(DECLARE)
#undef DECLARE

namespace {

engine::PolicyList& the_list() {
#define POINTER(name) &name,
  static const engine::PolicyEntry* const entries[] = {BATCHFLOW_POLICIES(POINTER)};
#undef POINTER
  static engine::PolicyList list(entries);
  return list;
}

}  // namespace

const engine::PolicyList& policy_list() {
  return the_list();
}

void add_policy(const engine::PolicyEntry& entry) {
  the_list().add(entry);
}

}  // namespace batchflow::policies
