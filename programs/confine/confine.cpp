#include "programs/confine/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

#include "programs/confine/syscall_filter.h"

namespace batchflow::confine {
namespace {

constexpr unsigned kNobody = 65534;
constexpr rlim_t kFilesMost = 64;

// What computing, threads, memory and reading files need.
constexpr std::uint32_t kAllowed[] = {
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_write,
    SYS_writev,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_lseek,
    SYS_mprotect,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_dup,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_futex,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getcpu,
    SYS_membarrier,
    SYS_set_tid_address,
    SYS_exit,
    SYS_exit_group,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
    SYS_ppoll,
    SYS_restart_syscall,
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#if defined(__x86_64__)
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_poll,
    SYS_getrlimit,
    SYS_arch_prctl,
#endif
};

// What files in a folder of its own need. No locks: it may read files of other users, and could
// hold their locks.
constexpr std::uint32_t kAllowedInFolder[] = {
    SYS_openat,    SYS_mkdirat,   SYS_unlinkat,  SYS_renameat, SYS_renameat2,
    SYS_linkat,    SYS_symlinkat, SYS_ftruncate, SYS_truncate, SYS_pwrite64,
    SYS_pwritev,   SYS_fsync,     SYS_fdatasync, SYS_fchmod,   SYS_fchmodat,
    SYS_utimensat, SYS_statfs,    SYS_fstatfs,   SYS_msync,
#if defined(__x86_64__)
    SYS_open,      SYS_creat,     SYS_mkdir,     SYS_rmdir,    SYS_unlink,
    SYS_rename,    SYS_link,      SYS_symlink,   SYS_chmod,
#endif
};

bool filter_calls(Confined what, bool has_own_folder) {
  constexpr std::uint32_t kWrites =
      O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
  SyscallFilter filter(SECCOMP_RET_ERRNO | EPERM);
  for (const std::uint32_t call : kAllowed) filter.allow(call);
  if (has_own_folder) {
    for (const std::uint32_t call : kAllowedInFolder) filter.allow(call);
    filter.allow_if(SYS_fallocate, 1, ~0u, 0);    // makes a file longer, and no holes
    filter.allow_if(SYS_ioctl, 1, ~0u, FIOCLEX);  // Python does so to each file of tempfile
    // There are none. shutil.copy2 fails if that is refused in another way.
    for (const std::uint32_t call : {SYS_listxattr, SYS_llistxattr, SYS_flistxattr})
      filter.fail(call, ENOTSUP);
  }
  filter.allow_if(SYS_openat, 2, kWrites, O_RDONLY);
#if defined(__x86_64__)
  filter.allow_if(SYS_open, 1, kWrites, O_RDONLY);
#endif
  filter.fail(SYS_clone3, ENOSYS);
  if (what == Confined::policy) {
    // Memory that is shared does not count where memory is limited.
    filter.allow_if(SYS_mmap, 3, MAP_SHARED | MAP_PRIVATE, MAP_PRIVATE);
  } else {
    filter.allow(SYS_mmap);
    // Threads, but no processes. The C library falls back to clone, which has flags that the filter
    // can check.
    filter.allow_if(SYS_clone, 0, CLONE_THREAD, CLONE_THREAD);
    filter.allow_if(SYS_tgkill, 0, ~0u, static_cast<std::uint32_t>(getpid()));  // abort()
  }
  filter.allow_if(SYS_prctl, 0, ~0u, PR_SET_NAME);
  // F_DUPFD, F_GETFD, F_SETFD, F_GETFL. Other commands have signals sent to any process.
  filter.allow_if(SYS_fcntl, 1, ~3u, 0);
  filter.allow_if(SYS_fcntl, 1, ~0u, F_DUPFD_CLOEXEC);
  if (what == Confined::program) {
    filter.allow(SYS_execve);
    filter.allow(SYS_chdir);  // to the folder of a script, where its relative paths begin
    filter.allow_if(SYS_prlimit64, 0, ~0u, 0);  // its own limits, which it can only lower
  }
  return filter.install();
}

// A resource that is limited further already stays so.
bool limit(int resource, rlim_t most) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &now) == 0)
    most = std::min(most, now.rlim_max);
  const rlimit value{most, most};
  return setrlimit(static_cast<__rlimit_resource>(resource), &value) == 0;
}

bool become_nobody() {
  return geteuid() != 0 ||
         (setgroups(0, nullptr) == 0 && setresgid(kNobody, kNobody, kNobody) == 0 &&
          setresuid(kNobody, kNobody, kNobody) == 0);
}

}  // namespace

bool confine(Confined what, const Limits& limits, std::string& problem) {
  const auto failed = [&problem](const char* call) {
    problem = std::string(call) + ": " + std::strerror(errno);
    return false;
  };
  close_range(static_cast<unsigned>(limits.last_file) + 1, ~0u, 0);
  if ((limits.data_bytes > 0 && !limit(RLIMIT_DATA, limits.data_bytes)) ||
      !limit(RLIMIT_STACK, limits.stack_bytes) || !limit(RLIMIT_FSIZE, limits.file_bytes) ||
      !limit(RLIMIT_CORE, 0) || !limit(RLIMIT_NOFILE, kFilesMost) || !limit(RLIMIT_MEMLOCK, 0))
    return failed("its process cannot be limited");
  if (what != Confined::program && !become_nobody())
    return failed("root's process cannot become nobody");
  // After that, because a change of user undoes both. No dump: a thousand crashes write nothing.
  if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    return failed("its process cannot be bound to the service");
  if (getppid() != limits.parent) {
    problem = "the service has gone";
    return false;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !filter_calls(what, limits.has_own_folder))
    return failed("the kernel does not filter system calls (seccomp)");
  return true;
}

}  // namespace batchflow::confine
