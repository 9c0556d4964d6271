/* First in, first out, in C: a ring of ids, by which items leave in the order in which they came.
 */
#include <stdlib.h>
#include <string.h>

#include "policies/plugin/batchflow_policy.h"

typedef struct fifo {
  uint32_t* newer; /* by item: the one that came next, or itself */
  uint32_t* older;
  uint64_t items;
  uint32_t oldest;
  uint32_t newest;
} fifo;

static void grow(void* policy, uint64_t items) {
  fifo* const of = policy;
  if (items <= of->items) return;
  of->newer = realloc(of->newer, items * sizeof(uint32_t));
  of->older = realloc(of->older, items * sizeof(uint32_t));
  of->items = items;
}

static void* make(const void* user, const bf_policy_context* context) {
  fifo* const of = calloc(1, sizeof(fifo));
  (void)user;
  if (of == NULL) return NULL;
  of->oldest = of->newest = BF_NO_ITEM;
  grow(of, context->items);
  return of;
}
static void end(void* policy) {
  fifo* const of = policy;
  free(of->newer);
  free(of->older);
  free(of);
}

static void link_as(fifo* of, uint32_t item, uint32_t older, uint32_t newer) {
  of->older[item] = older;
  of->newer[item] = newer;
  if (older == BF_NO_ITEM) {
    of->oldest = item;
  } else {
    of->newer[older] = item;
  }
  if (newer == BF_NO_ITEM) {
    of->newest = item;
  } else {
    of->older[newer] = item;
  }
}
static void take(void* policy, uint32_t item) {
  fifo* const of = policy;
  const uint32_t older = of->older[item], newer = of->newer[item];
  if (older == BF_NO_ITEM) {
    of->oldest = newer;
  } else {
    of->newer[older] = newer;
  }
  if (newer == BF_NO_ITEM) {
    of->newest = older;
  } else {
    of->older[newer] = older;
  }
}

static void inserted(void* policy, const bf_access* access) {
  fifo* const of = policy;
  link_as(of, access->item, of->newest, BF_NO_ITEM);
}
static uint32_t victim(void* policy, const bf_access* newcomer) {
  (void)newcomer;
  return ((fifo*)policy)->oldest;
}
static void removed(void* policy, uint32_t item, uint32_t why) {
  (void)why;
  take(policy, item);
}
static void unpinned(void* policy, uint32_t item) {
  fifo* const of = policy;
  link_as(of, item, BF_NO_ITEM, of->oldest);
}

static const bf_policy_common kCommon = {
    sizeof(bf_policy_common), 0, make, end, NULL, NULL, NULL, 0, 0};
static const bf_eviction_functions kEviction = {sizeof(bf_eviction_functions),
                                                0,
                                                NULL,
                                                NULL,
                                                inserted,
                                                victim,
                                                removed,
                                                take,
                                                unpinned,
                                                NULL,
                                                grow,
                                                NULL,
                                                NULL,
                                                NULL,
                                                NULL};
static const bf_policy kPolicy = {
    sizeof(bf_policy), BF_EVICTION, "fifo-in-c", "What came first leaves first.",
    BF_IGNORES_HITS,   0,           NULL,        NULL,
    &kCommon,          &kEviction,  NULL};
static const bf_policy* const kPolicies[] = {&kPolicy};
static const bf_policy_plugin kPlugin = {
    sizeof(bf_policy_plugin), BF_POLICY_VERSION, 0, 1, kPolicies, 0, 0, NULL};

const bf_policy_plugin* batchflow_policy_plugin(const bf_policy_host* host) {
  (void)host;
  return &kPlugin;
}

__attribute__((section(BF_POLICY_SECTION), used)) static const bf_policy_footer kFooter = {
    {'b', 'a', 't', 'c', 'h', 'f', 'l', 'o', 'w', '-', 'p', 'o', 'l', 'i', 'c', 'y'},
    sizeof(bf_policy_footer),
    BF_POLICY_VERSION_LEAST,
    BF_POLICY_VERSION,
    0,
    BF_POLICY_PLATFORM,
    "fifo-in-c",
    "1.0.0",
    "eviction=fifo-in-c"};
