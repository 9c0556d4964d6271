#include "sim/plugin_check/confine.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "programs/confine/syscall_filter.h"

namespace batchflow::sim {
namespace {

int report_to = -1;

// Of a signal's handler: as simple as can be.
[[noreturn]] void end_with(const char* what) {
  const auto say = [](const char* text) {
    if (write(report_to, text, std::strlen(text)) < 0) _exit(1);
  };
  say("{\"problem\": \"it ");
  say(what);
  say("\"}\n");
  _exit(kForbidden);
}

const char* what_is(long call) {
  switch (call) {
    case SYS_clone:
    case SYS_clone3:
#ifdef SYS_fork
    case SYS_fork:
    case SYS_vfork:
#endif
      return "starts a process or a thread";
    case SYS_execve:
    case SYS_execveat:
      return "starts a program";
    case SYS_openat:
#ifdef SYS_open
    case SYS_open:
#endif
      return "opens a file";
    case SYS_socket:
    case SYS_socketpair:
    case SYS_connect:
      return "opens a socket";
    case SYS_write:
    case SYS_writev:
      return "prints or writes to a file";
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return "sleeps";
    case SYS_clock_gettime:
    case SYS_gettimeofday:
      return "reads a clock";
    case SYS_getrandom:
      return "draws from the system's random numbers";
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
      return "signals a process";
    case SYS_rt_sigaction:
      return "changes a signal handler";
    default:
      return "makes a system call that computing does not need";
  }
}

void forbidden(int, siginfo_t* info, void*) {
  end_with(what_is(info->si_syscall));
}

#if defined(__x86_64__)
// A clock that is read without a system call ends in rdtsc (0f 31) or rdtscp (0f 01 f9), which
// fault from now on.
void fault(int, siginfo_t* info, void* context) {
  const auto* const machine = static_cast<const ucontext_t*>(context);
  const auto* const at = reinterpret_cast<const std::uint8_t*>(machine->uc_mcontext.gregs[REG_RIP]);
  // Where the instruction itself cannot be read, the fault is another one.
  if (info->si_code == SI_KERNEL && at != nullptr &&
      ((at[0] == 0x0f && at[1] == 0x31) || (at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xf9))) {
    end_with("reads a clock");
  }
  // It faults again, and the handler is gone by then.
}
#endif

bool filter_calls(int report, bool may_time) {
  confine::SyscallFilter filter(SECCOMP_RET_TRAP);
  for (const std::uint32_t call :
       {SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_futex,
        SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_sigaltstack, SYS_getpid, SYS_gettid, SYS_exit,
        SYS_exit_group, SYS_sched_yield, SYS_restart_syscall,
        // Of the allocator's arenas.
        SYS_sched_getaffinity, SYS_getcpu})
    filter.allow(call);
  filter.allow_if(SYS_write, 0, ~0u, static_cast<std::uint32_t>(report));
  filter.allow_if(SYS_pread64, 0, ~0u, static_cast<std::uint32_t>(report) + 1);
  filter.allow_if(SYS_tgkill, 0, ~0u, static_cast<std::uint32_t>(getpid()));  // abort()
  filter.allow_if(SYS_rt_sigaction, 0, ~0u, SIGABRT);
  if (may_time) filter.allow_if(SYS_clock_gettime, 0, ~0u, CLOCK_THREAD_CPUTIME_ID);
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter.install();
}

}  // namespace

bool confine_policy(int report, bool may_time) {
  report_to = report;
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = &forbidden;
  sigaction(SIGSYS, &action, nullptr);
#if defined(__x86_64__)
  action.sa_sigaction = &fault;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND;
  sigaction(SIGSEGV, &action, nullptr);
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
#endif
  return filter_calls(report, may_time);
}

}  // namespace batchflow::sim
