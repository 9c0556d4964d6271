// Channels: descriptors come with the frame they were sent with, whatever the other side does
// meanwhile.
#include "runtime/protocol/channel.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <thread>

#include "core/base/random.h"
#include "runtime/protocol/mapping.h"

namespace batchflow::test::channel_test {

namespace {

using namespace std::chrono_literals;

struct Pair {
  Pair() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    raw = ends[0];
    left = protocol::Channel(protocol::Descriptor(ends[0]));
    right = protocol::Channel(protocol::Descriptor(ends[1]));
  }
  int raw;  // what `left` sends through
  protocol::Channel left;
  protocol::Channel right;
};

protocol::Channel::Clock::time_point in(std::chrono::milliseconds time) {
  return protocol::Channel::Clock::now() + time;
}

ino_t file_of(int descriptor) {
  struct stat status {};
  fstat(descriptor, &status);
  return status.st_ino;
}

}  // namespace

TEST_CASE("channel: each descriptor belongs to the frame it was sent with") {
  Pair pair;
  std::vector<protocol::Descriptor> files;
  std::string problem;
  for (int i = 0; i < 8; ++i) files.push_back(protocol::make_memory_file("test", 8, problem));
  std::thread sender([&] {
    Random random(2);
    for (std::size_t i = 0; i < 400; ++i) {
      const std::string text(1 + random.below(i % 40 == 0 ? protocol::kFrameMost : 200), 'a');
      std::vector<int> descriptors;
      for (std::size_t k = 0; k < i % 4; ++k) descriptors.push_back(files[(i + k) % 8].get());
      pair.left.send(text, descriptors, in(10s));
    }
  });
  std::size_t frames = 0;
  Random random(2);
  while (auto frame = pair.right.receive(in(10s))) {
    const std::size_t i = frames++;
    CHECK(frame->text.size() == 1 + random.below(i % 40 == 0 ? protocol::kFrameMost : 200));
    REQUIRE(frame->descriptors.size() == i % 4);
    for (std::size_t k = 0; k < i % 4; ++k)
      CHECK(file_of(frame->descriptors[k].get()) == file_of(files[(i + k) % 8].get()));
    if (frames == 400) break;
  }
  sender.join();
  CHECK(frames == 400);
}

TEST_CASE("channel: a frame that was sent before the channel closed is received after a send") {
  Pair pair;
  CHECK(pair.right.send("not you", {}, in(1s)));
  pair.right.close("over");
  CHECK_FALSE(pair.left.send("may I", {}, in(1s)));
  CHECK_FALSE(pair.left.is_open());
  const auto last = pair.left.receive(in(1s));
  REQUIRE(last);
  CHECK(last->text == "not you");
  CHECK_FALSE(pair.left.receive(in(1s)));
}

TEST_CASE("channel: a peer that does not read or write, or writes nonsense, costs a bounded time") {
  {
    Pair pair;
    const auto begin = protocol::Channel::Clock::now();
    CHECK_FALSE(pair.right.receive(in(50ms)));
    CHECK_FALSE(pair.right.receive(protocol::Channel::kAtOnce));
    CHECK(pair.right.is_open());
    while (pair.left.send(std::string(10'000, 'a'), {}, in(50ms))) {
    }
    CHECK(pair.left.problem() == "the other side does not read");
    CHECK(protocol::Channel::Clock::now() - begin < 5s);
  }
  {
    Pair pair;
    REQUIRE(::send(pair.raw, "\xff\xff\xff\xff", 4, 0) == 4);
    CHECK_FALSE(pair.right.receive(in(1s)));
    CHECK(pair.right.problem() == "a message has a length that no message can have");
  }
  {
    Pair pair;
    REQUIRE(::send(pair.raw, "\x08\0\0\0half", 8, 0) == 8);
    pair.left.close("done");
    CHECK_FALSE(pair.right.receive(in(1s)));
    CHECK(pair.right.problem() == "closed by the other side within a message");
    CHECK_FALSE(pair.right.send("text", {}, in(1s)));
  }
}

TEST_CASE("channel: descriptors beyond the bound are closed, and so is the channel") {
  Pair pair;
  std::string problem;
  const protocol::Descriptor file = protocol::make_memory_file("test", 8, problem);
  const int next_free = dup(0);
  close(next_free);
  // Within one frame, a byte with five descriptors each.
  const int numbers[5] = {file.get(), file.get(), file.get(), file.get(), file.get()};
  for (const char* byte : {"\x09", "\0", "\0"}) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof numbers)] = {};
    iovec part{const_cast<char*>(byte), 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof numbers);
    std::memcpy(CMSG_DATA(header), numbers, sizeof numbers);
    REQUIRE(sendmsg(pair.raw, &message, 0) == 1);
  }
  CHECK_FALSE(pair.right.receive(in(1s)));
  CHECK_FALSE(pair.right.is_open());
  const int now_free = dup(0);
  close(now_free);
  CHECK(now_free <= next_free);
}

TEST_CASE("channel: an address that cannot be one is refused with its name") {
  std::string problem;
  CHECK_FALSE(protocol::Channel::connect("", problem).is_open());
  CHECK_FALSE(protocol::Channel::connect(std::string(200, 'x'), problem).is_open());
  CHECK(problem.find("1 to 107 bytes") != std::string::npos);
  CHECK_FALSE(protocol::Channel::connect("/no/such/socket", problem).is_open());
  CHECK(problem == "/no/such/socket: No such file or directory");
}

}  // namespace batchflow::test::channel_test
