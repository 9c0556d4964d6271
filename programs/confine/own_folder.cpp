#include "programs/confine/own_folder.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

// Of kernels that are newer than the headers may be.
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

namespace batchflow::confine {
namespace {

// Empty files take memory, too, which the folder's size does not count.
constexpr std::uint64_t kBytesForEachFile = 16 << 10, kFilesLeast = 64;
constexpr unsigned long kTmpfs = MS_NOSUID | MS_NODEV;
constexpr std::size_t kReasonMost = 256;

std::string failed(const char* call) {
  return std::string(call) + ": " + std::strerror(errno);
}

bool write_text(const char* file, const std::string& text) {
  const int out = open(file, O_WRONLY | O_CLOEXEC);
  const bool written = out >= 0 && write(out, text.data(), text.size()) >= 0;
  if (out >= 0) close(out);
  return written;
}

// Mounts of its own. Only root needs no user namespace for that; it would lose in one the right to
// read files of others. Each user and group keeps its number.
std::string leave_mounts_of_others() {
  const bool is_root = geteuid() == 0;
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWNS | (is_root ? 0 : CLONE_NEWUSER)) != 0) {
    const char* const what = is_root ? "no mount namespace" : "no user namespace";
    if (errno != ENOSPC) return failed(what);
    return std::string(what) + ": sysctl user.max_*_namespaces allows no more";
  }
  if (!is_root && !(write_text("/proc/self/setgroups", "deny") &&
                    write_text("/proc/self/uid_map", user + " " + user + " 1") &&
                    write_text("/proc/self/gid_map", group + " " + group + " 1")))
    return failed("no users in its namespace");
  return {};
}

// What has no path below the folder cannot be opened for writing, made or removed. Read-only mounts
// leave devices and named pipes out. And the process cannot look into others by /proc, where it
// would find mounts that are not read-only.
std::string write_nowhere_else(const char* place, int version) {
  std::uint64_t all = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                      LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                      LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM;
  if (version >= 2) all |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) all |= LANDLOCK_ACCESS_FS_TRUNCATE;
  landlock_ruleset_attr handled{};
  handled.handled_access_fs = all | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                              LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK;
  const auto rules = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0));
  if (rules < 0) return failed("no rules of Landlock");
  const auto allow = [rules](const char* path, std::uint64_t access) {
    landlock_path_beneath_attr rule{};
    rule.allowed_access = access;
    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    const bool done = rule.parent_fd >= 0 && syscall(SYS_landlock_add_rule, rules,
                                                     LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    if (rule.parent_fd >= 0) close(rule.parent_fd);
    return done;
  };
  const bool done = allow(place, all) && allow("/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE) &&
                    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  const std::string problem = done ? "" : failed("no rules of Landlock");
  close(rules);
  return problem;
}

// Empty, or the reason why there is none.
std::string make(const char* place, std::uint64_t bytes) {
  const auto version = static_cast<int>(syscall(SYS_landlock_create_ruleset, nullptr,
                                                std::size_t{0}, LANDLOCK_CREATE_RULESET_VERSION));
  if (version < 1) return failed("no Landlock");
  if (std::string problem = leave_mounts_of_others(); !problem.empty()) return problem;
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  attributes.propagation = MS_PRIVATE;
  if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attributes, sizeof attributes) != 0)
    return failed("its mounts cannot be made read-only");
  const std::string room = "mode=0700,size=" + std::to_string(bytes) + ",nr_inodes=" +
                           std::to_string(std::max(bytes / kBytesForEachFile, kFilesLeast));
  if (syscall(SYS_mount, "batchflow-step", place, "tmpfs", kTmpfs, room.c_str()) != 0)
    return failed("no tmpfs");
  return write_nowhere_else(place, version);
}

}  // namespace

bool make_own_folder(const char* place, std::uint64_t bytes, std::string& problem) {
  // What is refused half-way cannot be undone. So another process tries it first.
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    problem = failed("no pipe");
    return false;
  }
  const pid_t trial = fork();
  if (trial == 0) {
    const std::string reason = make(place, bytes);
    const bool told = reason.empty() || write(ends[1], reason.data(), reason.size()) > 0;
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  char reason[kReasonMost];
  const ssize_t told = trial < 0 ? 0 : read(ends[0], reason, sizeof reason);
  problem = trial < 0 ? failed("no process") : std::string(reason, told > 0 ? told : 0);
  close(ends[0]);
  int status = 0;
  if (trial > 0 && (waitpid(trial, &status, 0) != trial || status != 0))
    problem = "the process that tries it is ended";  // as some filters of containers do
  if (problem.empty()) problem = make(place, bytes);
  return problem.empty();
}

}  // namespace batchflow::confine
