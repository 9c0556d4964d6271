// A filter of the system calls that this process may make from now on. It is a header alone, since
// programs that link nothing of BatchFlow use it, too.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchflow::confine {

#if defined(__x86_64__)
inline constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
inline constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "which system calls a process may make is not known for this processor"
#endif

// A filter is a list of instructions for a system call; the first answer counts.
class SyscallFilter {
 public:
  // `otherwise`: what happens at any other call, such as SECCOMP_RET_ERRNO | EPERM.
  explicit SyscallFilter(std::uint32_t otherwise) : otherwise_(otherwise) {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    answer(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
  }
  void allow(std::uint32_t call) { decide(call, SECCOMP_RET_ALLOW); }
  void fail(std::uint32_t call, std::uint32_t error) {
    decide(call, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA));
  }
  // Allows the call if these bits of the lower half of an argument have these values. If not, a
  // later line about the call counts.
  void allow_if(std::uint32_t call, unsigned argument, std::uint32_t bits, std::uint32_t are) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
    load(static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * argument));
    add(BPF_ALU | BPF_AND | BPF_K, bits, 0, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, are, 0, 1);
    answer(SECCOMP_RET_ALLOW);
    load(offsetof(seccomp_data, nr));
  }
  // The process needs PR_SET_NO_NEW_PRIVS.
  bool install() {
    answer(otherwise_);
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(int what, std::uint32_t value, std::uint8_t if_true, std::uint8_t if_false) {
    code_.push_back({static_cast<std::uint16_t>(what), if_true, if_false, value});
  }
  void load(std::size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset), 0, 0);
  }
  void answer(std::uint32_t action) { add(BPF_RET | BPF_K, action, 0, 0); }
  void decide(std::uint32_t call, std::uint32_t action) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    answer(action);
  }

  std::uint32_t otherwise_;
  std::vector<sock_filter> code_;
};

}  // namespace batchflow::confine
