// To add a policy: write policies/<kind>_<name>.cpp with `extern const PolicyEntry <kind>_<name>`,
// and add its line here. It is then in `policy list`, in every program, and in the conformance,
// determinism, fuzz and benchmark suites.
#include "policies/registry.h"

#define BATCHFLOW_POLICIES(POLICY) \
  POLICY(eviction_fifo)            \
  POLICY(eviction_lru)             \
  POLICY(eviction_mru)             \
  POLICY(eviction_clock)           \
  POLICY(eviction_sieve)

namespace batchflow {

#define DECLARE(name) extern const PolicyEntry name;
BATCHFLOW_POLICIES(DECLARE)
#undef DECLARE

const PolicyList& policy_list() {
#define POINTER(name) &name,
  static const PolicyEntry* const entries[] = {BATCHFLOW_POLICIES(POINTER)};
#undef POINTER
  static const PolicyList list(entries);
  return list;
}

}  // namespace batchflow
