// Copies rows of numbers, and misbehaves at rows with a first number among `at` times seven, at
// every one if there is no `at`. What it tries and is refused, it says in place of the first
// number.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "batchflow_step.hpp"

namespace step = batchflow::step;

class Mischief {
 public:
  explicit Mischief(step::Parameters& parameters)
      : what_(parameters.text("do", "")), slow_(parameters.number("slow_ms", 0, 0, 1e6)) {
    for (const std::string& key : parameters.texts("at")) at_.push_back(std::stoll(key) * 7);
    if (what_ == "hang at start")
      for (;;) pause();
    if (what_ == "crash at start") std::abort();
    if (what_ == "refuse") throw std::runtime_error("not on a Sunday");
  }
  step::Array output(const step::Array& input) const {
    if (what_ == "declare nonsense") return {static_cast<step::Type>(77), {1}, false, ""};
    if (what_ == "declare too much") return {step::Type::u8, {1ull << 60, 1ull << 60}, false, ""};
    if (what_ == "declare much") return {step::Type::u8, {1ull << 30}, false, ""};
    return input;
  }
  void run(const step::Input& in, step::Output& out, step::Draws&) {
    const auto from = in.values<std::int64_t>();
    const auto to = out.values<std::int64_t>();
    std::copy(from.begin(), from.end(), to.begin());
    if (slow_ > 0) usleep(static_cast<useconds_t>(slow_ * 1000));
    if (at_.empty() || std::find(at_.begin(), at_.end(), from[0]) != at_.end())
      misbehave(from.data(), to.data(), to.size());
  }

 private:
  // 0: it was done; else why not.
  static std::int64_t errno_of(long result) { return result < 0 ? errno : 0; }

  void misbehave(const std::int64_t* in, std::int64_t* out, std::size_t size) {
    if (what_ == "crash") *const_cast<volatile int*>(static_cast<int*>(nullptr)) = 1;
    if (what_ == "abort") {
      std::fprintf(stderr, "line one\nlast words\n");
      std::abort();
    }
    if (what_ == "hang")
      for (;;) pause();
    if (what_ == "exit") std::exit(0);
    if (what_ == "throw") throw std::runtime_error("\x1b[31mbad sample");
    if (what_ == "overrun") out[size + 8] = 1;
    if (what_ == "underrun") *(out - 512 - (reinterpret_cast<std::uintptr_t>(out) % 4096) / 8) = 1;
    if (what_ == "write input") *const_cast<std::int64_t*>(in) = 1;
    if (what_ == "chatter")
      for (int i = 0; i < 100'000; ++i) std::puts("words, words, words");
    if (what_ == "close") {
      close(3);
      for (;;) pause();
    }
    if (what_ == "answer twice") {
      const std::vector<char> nonsense(100);
      for (int i = 0; i < 10; ++i) (void)!write(3, nonsense.data(), nonsense.size());
    }
    if (what_ == "allocate") kept_.resize(std::size_t{1} << 30, 1);
    // None of these is possible.
    if (what_ == "open") out[0] = errno_of(open("/tmp/mischief", O_CREAT | O_WRONLY, 0600));
    if (what_ == "append") out[0] = errno_of(open("/dev/null", O_WRONLY | O_APPEND));
    if (what_ == "socket") out[0] = errno_of(socket(AF_INET, SOCK_STREAM, 0));
    if (what_ == "fork") out[0] = errno_of(fork());
    if (what_ == "kill") out[0] = errno_of(kill(getppid(), SIGTERM));
    if (what_ == "own") out[0] = errno_of(fcntl(3, F_SETOWN, getppid()));
    if (what_ == "limits") {
      rlimit most{};
      out[0] = errno_of(prlimit(getppid(), RLIMIT_NOFILE, nullptr, &most));
    }
    if (what_ == "memory") {
      char byte = 0;
      iovec here{&byte, 1}, there{out, 1};
      out[0] = errno_of(process_vm_writev(getppid(), &here, 1, &there, 1, 0));
    }
    if (what_ == "exec") out[0] = errno_of(execl("/bin/true", "true", nullptr));
    if (what_ == "survive") out[0] = errno_of(prctl(PR_SET_PDEATHSIG, 0));
    // These are.
    if (what_ == "read") out[0] = errno_of(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    if (what_ == "thread") std::thread([out] { out[0] = 0; }).join();
    if (what_ == "descriptors") {
      out[0] = 0;
      for (int i = 0; i < 64; ++i) out[0] += fcntl(i, F_GETFD) >= 0 ? 1 << i : 0;
    }
    if (what_ == "user") out[0] = getuid();
  }

  std::string what_;
  double slow_;
  std::vector<std::int64_t> at_;
  std::vector<char> kept_;
};
BATCHFLOW_STEP(Mischief, "mischief", "1", deterministic)
