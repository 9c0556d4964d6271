// Where the kernel or a sandbox refuses a ring, or memory for it, reads go on otherwise.
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <functional>
#include <thread>

#include "tests/runtime/storage/harness.h"
#include "tests/skip.h"

namespace batchflow::test::refused_ring_test {
namespace {

using test::Folder;
using test::Gathered;

// The calling thread, and those it starts from now on, get `error` from this system call.
bool refuse(unsigned call, unsigned error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// What a thread changes for itself ends with the thread.
void in_a_thread(const std::function<void()>& body) {
  std::thread(body).join();
}

bool has_ring() {
  return test::engines().size() == 2;
}

bool reads_right(Gathered& gathered, const Folder& folder) {
  const auto read = gathered.read(folder.root(), "file", 10, 9000);
  return read.bytes.size() == 9000 && test::holds(1, 10, 9000, read.bytes.data());
}

std::string problem(const storage::ReadEngineOptions& options) {
  try {
    const storage::ReadEngine made(options, [](auto) {});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a sandbox that refuses a ring: the pool, and why") {
  const Folder folder;
  folder.write("file", 1, 10'000);
  for (const int error : {EPERM, ENOSYS, EACCES, ENOMEM, EINVAL}) {
    CAPTURE(error);
    in_a_thread([&] {
      if (!refuse(SYS_io_uring_setup, error)) return test::skipped("no seccomp here");
      Gathered gathered(test::small("auto"));
      const std::string description(gathered.engine().description());
      CHECK(description ==
            std::string("pread: 8 threads, since io_uring is refused: ") + std::strerror(error));
      CHECK(reads_right(gathered, folder));
      CHECK(problem(test::small("io_uring")) == std::string("the kernel refuses io_uring: ") +
                                                    std::strerror(error) + "; write auto or pread");
      CHECK(problem(test::small("pread")) == "");
    });
  }
}

TEST_CASE("a sandbox that lets a ring be made, but not used") {
  if (!has_ring()) return test::skipped("no io_uring here");
  const Folder folder;
  folder.write("file", 1, 10'000);
  in_a_thread([&] {
    if (!refuse(SYS_io_uring_enter, EPERM)) return test::skipped("no seccomp here");
    Gathered gathered(test::small("auto"));
    CHECK(gathered.engine().description().starts_with("pread: 8 threads, since io_uring"));
    CHECK(reads_right(gathered, folder));
  });
}

TEST_CASE("tables and registered memory refused: a ring without them") {
  if (!has_ring()) return test::skipped("no io_uring here");
  const Folder folder;
  folder.write("file", 1, 10'000);
  in_a_thread([&] {
    if (!refuse(SYS_io_uring_register, EPERM)) return test::skipped("no seccomp here");
    for (const bool whole : {true, false}) {
      Gathered gathered(test::small("io_uring"));
      CHECK(gathered.engine().description() ==
            "io_uring: 32 reads at once, no table of files, unregistered memory (Operation not "
            "permitted; see ulimit -l)");
      const auto read = gathered.read(folder.root(), "file", 10, 9000, whole);
      CHECK((read.bytes.size() == 9000 && test::holds(1, 10, 9000, read.bytes.data())));
    }
  });
}

TEST_CASE("more staging than an ordinary user may lock") {
  if (!has_ring()) return test::skipped("no io_uring here");
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  if (limit.rlim_cur > Bytes{64} << 20) return test::skipped("memlock is not limited here");
  const Folder folder;
  folder.write("file", 1, 10'000);
  in_a_thread([&] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    REQUIRE(::syscall(SYS_capget, &header, sets) == 0);
    sets[0].effective &= ~(1U << CAP_IPC_LOCK);
    REQUIRE(::syscall(SYS_capset, &header, sets) == 0);
    storage::ReadEngineOptions options = test::small("io_uring");
    options.staging = Bytes{128} << 20;
    Gathered gathered(options);
    CHECK(gathered.engine().description() ==
          "io_uring: 32 reads at once, unregistered memory (Cannot allocate memory; see ulimit "
          "-l)");
    CHECK(reads_right(gathered, folder));
  });
}

}  // namespace batchflow::test::refused_ring_test
