// A plugin by the C interface alone, which is good (first in, first out) but for one thing. Which,
// a macro says.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <vector>

#include "policies/plugin/batchflow_policy.h"

namespace {

struct Fifo {
  std::vector<std::uint32_t> items;  // the oldest first
  int asked = 0;
};
Fifo& fifo(void* policy) {
  return *static_cast<Fifo*>(policy);
}
void take(void* policy, std::uint32_t item) {
  std::vector<std::uint32_t>& items = fifo(policy).items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i] == item) items.erase(items.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

void* make(const void*, const bf_policy_context*) {
#ifdef FAILS_TO_MAKE
  return nullptr;
#else
  return new Fifo;
#endif
}
const bf_policy_common kCommon = {sizeof(bf_policy_common),
                                  0,
                                  make,
                                  [](void* policy) { delete &fifo(policy); },
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  0,
                                  0};

[[maybe_unused]] std::uint32_t victim(void* policy, const bf_access* newcomer) {
  [[maybe_unused]] const int asked = ++fifo(policy).asked;
  (void)newcomer;
#ifdef THROWS_LATER
  if (asked > 3) throw std::runtime_error("not on a Sunday");
#endif
#ifdef ANSWERS_RUBBISH
  if (asked > 3) return 0x7fffffff;
#endif
#ifdef HANGS_LATER
  volatile int counted = 0;
  while (asked > 3) counted = counted + 1;
#endif
#ifdef CRASHES_LATER
  volatile std::uintptr_t nowhere = 16;
  if (asked > 3) *reinterpret_cast<volatile int*>(nowhere) = 1;
#endif
#ifdef OPENS_FILE
  close(open("/etc/hostname", O_RDONLY));
#endif
#ifdef READS_CLOCK
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
#endif
#ifdef FORKS
  if (fork() == 0) _exit(0);
#endif
#ifdef PRINTS
  if (write(2, "here\n", 5) < 0) return BF_NO_ITEM;
#endif
#ifdef SLEEPS
  usleep(1);
#endif
#ifdef STARTS_THREAD_LATER
  pthread_t thread;
  pthread_create(
      &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
#endif
#ifdef LEAKS
  static void* volatile last;
  last = std::malloc(1000);
  std::memset(last, 1, 1000);
#endif
  const std::vector<std::uint32_t>& items = fifo(policy).items;
  if (items.empty()) return BF_NO_ITEM;
#ifdef USES_ADDRESSES
  return items[reinterpret_cast<std::uintptr_t>(&kCommon) / 4096 % items.size()];
#endif
#ifdef PEEKS
  return newcomer->next_use == BF_UNKNOWN_USE ? items.front() : items.back();
#endif
  return items.front();
}

const bf_eviction_functions kEviction = {
#ifdef CUT_TABLE
    0,
#else
    sizeof(bf_eviction_functions),
#endif
    0,
    nullptr,
    nullptr,
    [](void* policy, const bf_access* access) { fifo(policy).items.push_back(access->item); },
#ifdef NO_VICTIM
    nullptr,
#else
    victim,
#endif
    [](void* policy, std::uint32_t item, std::uint32_t) { take(policy, item); },
    take,
    [](void* policy, std::uint32_t item) {
      fifo(policy).items.insert(fifo(policy).items.begin(), item);
    },
    nullptr,
    [](void*, std::uint64_t) {},
    nullptr,
    nullptr,
    nullptr,
    nullptr};

const bf_policy_parameter kParameter = {sizeof(bf_policy_parameter),
                                        BF_INTEGER,
                                        "depth",
#ifdef BAD_PARAMETER
                                        "much",
#else
                                        "3",
#endif
                                        "changes nothing",
                                        0,
                                        10};
const bf_policy_parameter* const kParameters[] = {&kParameter};

#if defined(TAKEN_NAME)
#define NAME "lru"
#elif defined(BAD_NAME)
#define NAME "My Policy"
#else
#define NAME "mischief"
#endif

const bf_policy kPolicy = {sizeof(bf_policy),
#ifdef BAD_KIND
                           77,
#else
                           BF_EVICTION,
#endif
                           NAME,
                           "What came first leaves first, as a rule.",
                           0,
                           1,
                           kParameters,
                           nullptr,
                           &kCommon,
                           &kEviction,
                           nullptr};
const bf_policy* const kPolicies[] = {&kPolicy};

const bf_policy_plugin kPlugin = {sizeof(bf_policy_plugin),
#ifdef MISREPORTS_VERSION
                                  9,
#else
                                  BF_POLICY_VERSION,
#endif
                                  0,
                                  1,
                                  kPolicies,
                                  0,
                                  0,
                                  nullptr};

[[maybe_unused]] void* wait_for_ever(void*) {
  for (;;) pause();
}

struct AtLoad {
  AtLoad() {
#ifdef THROWS
    throw std::runtime_error("not on a Sunday");
#endif
#ifdef CRASHES
    std::abort();
#endif
#ifdef HANGS
    for (;;) pause();
#endif
#ifdef EXITS
    _exit(0);
#endif
#ifdef STARTS_THREAD
    pthread_t thread;
    pthread_create(&thread, nullptr, wait_for_ever, nullptr);
#endif
#ifdef CHANGES_HANDLER
    signal(SIGUSR1, [](int) {});
#endif
#ifdef CHANGES_LOCALE
    setlocale(LC_ALL, "C.UTF-8");
#endif
#ifdef CHANGES_FOLDER
    if (chdir("/") != 0) std::abort();
#endif
  }
} at_load;

}  // namespace

extern "C" const bf_policy_plugin* batchflow_policy_plugin(const bf_policy_host*) {
#ifdef ANSWERS_NULL
  return nullptr;
#else
  return &kPlugin;
#endif
}

extern "C" __attribute__((section(BF_POLICY_SECTION), used))
const bf_policy_footer batchflow_policy_footer = {
    {'b', 'a', 't', 'c', 'h', 'f', 'l', 'o', 'w', '-', 'p', 'o', 'l', 'i', 'c', 'y'},
    sizeof(bf_policy_footer),
#ifdef OTHER_VERSION
    7,
    9,
#else
    1,
    2,
#endif
    0,
#ifdef OTHER_PLATFORM
    "linux-pdp11",
#else
    BF_POLICY_PLATFORM,
#endif
    "mischief",
    "1.0.0",
#ifdef BREAKS_PROMISE
    "eviction=mischief dispatch=mischief"
#else
    "eviction=" NAME
#endif
};
