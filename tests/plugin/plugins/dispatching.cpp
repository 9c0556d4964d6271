// A dispatch policy by the C interface alone, which serves the oldest need, and after some
// questions does what a macro says.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "policies/plugin/batchflow_policy.h"

namespace {

[[maybe_unused]] constexpr int kGood = 20;  // questions that are answered as they should be

struct Asked {
  int times = 0;
  std::int64_t again = 0;
};

void* make(const void*, const bf_policy_context*) {
  return new Asked;
}
const bf_policy_common kCommon = {sizeof(bf_policy_common),
                                  0,
                                  make,
                                  [](void* policy) { delete static_cast<Asked*>(policy); },
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  0,
                                  0};

std::uint64_t next(void* policy, const bf_dispatch_view* view) {
  [[maybe_unused]] const int asked = ++static_cast<Asked*>(policy)->times;
#ifdef DISPATCH_THROWS
  if (asked > kGood) throw std::runtime_error("not on a Sunday");
#endif
#ifdef DISPATCH_CRASHES
  volatile std::uintptr_t nowhere = 16;
  if (asked > kGood) *reinterpret_cast<volatile int*>(nowhere) = 1;
#endif
#ifdef DISPATCH_ABORTS
  if (asked > kGood) std::abort();
#endif
#ifdef DISPATCH_HANGS
  volatile int counted = 0;
  while (asked > kGood) counted = counted + 1;
#endif
#ifdef DISPATCH_SLEEPS
  if (asked > kGood) sleep(1000);
#endif
#ifdef DISPATCH_HOLDS_BACK
  if (asked > kGood) return BF_NO_CHOICE;
#endif
#ifdef DISPATCH_ANSWERS_RUBBISH
  if (asked > kGood) return view->candidate_count + 7;
#endif
#ifdef DISPATCH_DAWDLES
  // A block each 60 ms, for which jobs wait.
  if (view->now < static_cast<Asked*>(policy)->again) return BF_NO_CHOICE;
  static_cast<Asked*>(policy)->again = view->now + 60'000'000;
#endif
#ifdef DISPATCH_COUNTS
  // A byte for each question, whichever process asks.
  static const int counted = open(std::getenv("BATCHFLOW_TEST_COUNT"), O_WRONLY | O_APPEND);
  if (write(counted, ".", 1) != 1) std::abort();
#endif
  std::uint64_t oldest = 0;
  for (std::uint64_t i = 1; i < view->candidate_count; ++i) {
    if (view->candidates[i].asked < view->candidates[oldest].asked) oldest = i;
  }
  return oldest;
}

std::int64_t ask_again(void* policy) {
  const std::int64_t again = static_cast<Asked*>(policy)->again;
  return again > 0 ? again : BF_NEVER;
}
const bf_dispatch_functions kDispatch = {sizeof(bf_dispatch_functions), 0, next, ask_again};

const bf_policy kPolicy = {sizeof(bf_policy),
                           BF_DISPATCH,
                           "mischief",
                           "What was asked for first is served first, as a rule.",
                           0,
                           0,
                           nullptr,
                           nullptr,
                           &kCommon,
                           &kDispatch,
                           nullptr};
const bf_policy* const kPolicies[] = {&kPolicy};
const bf_policy_plugin kPlugin = {
    sizeof(bf_policy_plugin), BF_POLICY_VERSION, 0, 1, kPolicies, 0, 0, nullptr};

}  // namespace

extern "C" const bf_policy_plugin* batchflow_policy_plugin(const bf_policy_host*) {
  return &kPlugin;
}

extern "C" __attribute__((section(BF_POLICY_SECTION), used))
const bf_policy_footer batchflow_policy_footer = {
    {'b', 'a', 't', 'c', 'h', 'f', 'l', 'o', 'w', '-', 'p', 'o', 'l', 'i', 'c', 'y'},
    sizeof(bf_policy_footer),
    BF_POLICY_VERSION_LEAST,
    BF_POLICY_VERSION,
    0,
    BF_POLICY_PLATFORM,
    "mischief",
    "1.0.0",
    "dispatch=mischief"};
