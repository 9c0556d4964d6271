// To which processes memory is given, and when their slots are free.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctest/doctest.h"
#include "runtime/gpu/peer.h"
#include "runtime/gpu/slot_pins.h"
#include "tests/skip.h"

namespace batchflow::test::job_processes_test {
namespace {

using gpu::Peer;
using gpu::ProcessId;
using gpu::SlotPins;

// A message of one byte, with room for one descriptor.
struct WithDescriptor {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};

  WithDescriptor() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
};

// A pair of sockets that was made by this process, or by a child that `prepare` made another one.
// The child lives until its end of the pair is closed.
template <class Prepare>
std::string refusal_of(Prepare prepare) {
  int way[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way) == 0);
  const protocol::Descriptor here(way[0]), there(way[1]);
  const pid_t child = fork();
  if (child == 0) {
    int made[2];
    if (!prepare() || socketpair(AF_UNIX, SOCK_STREAM, 0, made) != 0) _exit(1);
    // A socket of the child goes to the test: its other end was made by the child.
    WithDescriptor sent;
    cmsghdr* header = CMSG_FIRSTHDR(&sent.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    __builtin_memcpy(CMSG_DATA(header), &made[0], sizeof(int));
    sendmsg(there.get(), &sent.message, 0);
    (void)!read(there.get(), &sent.byte, 1);
    _exit(0);
  }
  WithDescriptor taken;
  std::string why = "nothing was sent";
  pollfd wanted{here.get(), POLLIN, 0};
  if (poll(&wanted, 1, 10'000) > 0 && recvmsg(here.get(), &taken.message, 0) == 1) {
    int number = -1;
    __builtin_memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&taken.message)), sizeof number);
    const protocol::Descriptor socket(number);
    std::string problem;
    why = gpu::why_not_share(Peer::at(socket.get(), problem));
  }
  (void)!write(here.get(), &taken.byte, 1);
  waitpid(child, nullptr, 0);
  return why;
}

TEST_CASE("memory is shared with processes of the same user") {
  CHECK(refusal_of([] { return true; }) == "");
}

TEST_CASE("memory is not shared with other users") {
  if (geteuid() != 0) return skipped("only root can become another user");
  const std::string why = refusal_of([] { return setresuid(65534, 65534, 65534) == 0; });
  CHECK(why == "the job's user is 65534 and the service's is 0");
}

TEST_CASE("something that is no socket has no process") {
  std::string problem;
  const Peer peer = Peer::at(0, problem);
  CHECK_FALSE(problem.empty());
  CHECK_FALSE(gpu::why_not_share(peer).empty());
}

TEST_CASE("a slot is free when every process has released it") {
  SlotPins pins;
  const SlotId slot(4);
  pins.pin(slot, ProcessId(1));
  pins.pin(slot, ProcessId(1));
  pins.pin(slot, ProcessId(2));
  CHECK(pins.release(slot, ProcessId(1)));
  CHECK(pins.release(slot, ProcessId(1)));
  CHECK_FALSE(pins.release(slot, ProcessId(1)));  // a job that lies changes nothing
  CHECK_FALSE(pins.release(SlotId(5), ProcessId(2)));
  CHECK(pins.is_pinned(slot));
  CHECK(pins.release(slot, ProcessId(2)));
  CHECK_FALSE(pins.is_pinned(slot));
}

TEST_CASE("the slots of a process that is no longer heard stay pinned until it has ended") {
  int way[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way) == 0);
  const protocol::Descriptor here(way[0]), there(way[1]);
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  protocol::Descriptor life(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  REQUIRE(static_cast<bool>(life));
  SlotPins pins;
  pins.pin(SlotId(1), ProcessId(1));
  pins.pin(SlotId(2), ProcessId(1));
  pins.pin(SlotId(2), ProcessId(2));
  pins.forget(ProcessId(1), std::move(life));
  CHECK(pins.collect().empty());
  CHECK(pins.is_pinned(SlotId(1)));
  kill(child, SIGKILL);
  std::vector<SlotId> freed;
  while (freed.empty()) freed = pins.collect();
  CHECK(freed == std::vector<SlotId>{SlotId(1)});
  CHECK(pins.is_pinned(SlotId(2)));
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace batchflow::test::job_processes_test
