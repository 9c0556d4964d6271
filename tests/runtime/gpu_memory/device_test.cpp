// Finding a GPU, memory that is shared, and slots that go back; on the host in place of a GPU.
#include "runtime/gpu/device.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "doctest/doctest.h"
#include "runtime/gpu/host_device.h"
#include "runtime/gpu/release_queue.h"
#include "runtime/gpu/staging_ring.h"

namespace batchflow::test::device_test {
namespace {

using gpu::GpuError;
using gpu::HostDevice;
using gpu::Trouble;

template <class Work>
Trouble trouble_of(Work work) {
  try {
    work();
  } catch (const GpuError& error) {
    return error.trouble();
  }
  FAIL("nothing was wrong");
  return Trouble::refused;
}

TEST_CASE("what is found is one sentence, on any machine") {
  const gpu::Detection found = gpu::detect();
  CHECK(found.gpus.empty() == !found.problem.empty());
  CHECK_FALSE(found.sentence().empty());
  gpu::Detection two;
  two.gpus.resize(2);
  two.gpus[0] = {0, "H200", Bytes{141} << 30, 3, "PCIe 32.0 GT/s x16", true, true};
  two.gpus[1] = {1, "A2", Bytes{16} << 30, 2, "", false, false};
  CHECK(two.sentence() ==
        "GPU 0: H200, 141 GiB, PCIe 32.0 GT/s x16, 3 copy engines, its memory is shared by file "
        "descriptors; GPU 1: A2, 16 GiB, unknown link, 2 copy engines, its driver does not map "
        "memory, so it is not shared");
}

TEST_CASE("memory is seen by the process that imports it, which cannot write to it") {
  HostDevice service, job;
  const auto memory = service.make_memory(10'000);
  CHECK_FALSE(memory->is_read_only());
  std::memset(memory->address(), 7, 10'000);
  const auto seen = job.import_memory(memory->export_descriptor(), 10'000);
  CHECK(seen->is_read_only());
  CHECK(seen->bytes() == 10'000);
  CHECK(std::memcmp(seen->address(), memory->address(), 10'000) == 0);
  std::memset(memory->address(), 8, 10'000);
  CHECK(seen->address()[9'999] == std::byte{8});
  // On the host not even a hostile job can: the file is sealed.
  const auto descriptor = memory->export_descriptor();
  CHECK(mmap(nullptr, 10'000, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0) ==
        MAP_FAILED);
}

TEST_CASE("a job that writes to a slot ends, and the service's bytes stay") {
  HostDevice service;
  const auto memory = service.make_memory(4096);
  std::memset(memory->address(), 7, 4096);
  const pid_t child = fork();
  if (child == 0) {
    HostDevice job;
    const auto seen = job.import_memory(memory->export_descriptor(), 4096);
    signal(SIGSEGV, SIG_DFL);
    *static_cast<volatile std::byte*>(seen->address()) = std::byte{9};
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(memory->address()[0] == std::byte{7});
}

TEST_CASE("a descriptor of something else is refused") {
  HostDevice device;
  const protocol::Descriptor plain(memfd_create("test", MFD_CLOEXEC));
  REQUIRE(ftruncate(plain.get(), 4096) == 0);
  const auto import = [&](int number, Bytes bytes) {
    return trouble_of(
        [&] { (void)device.import_memory(protocol::Descriptor(dup(number)), bytes); });
  };
  CHECK(import(plain.get(), 4096) == Trouble::refused);  // it could become smaller
  CHECK(import(-1, 4096) == Trouble::refused);
  const auto memory = device.make_memory(4096);
  CHECK(import(memory->export_descriptor().get(), 8192) == Trouble::refused);
}

TEST_CASE("device memory runs out with a clear error, and comes back") {
  HostDevice device(10'000);
  auto first = device.make_memory(6'000);
  CHECK(trouble_of([&] { (void)device.make_memory(6'000); }) == Trouble::out_of_memory);
  const auto small = device.make_memory(4'000);
  first.reset();
  CHECK(device.make_memory(6'000)->bytes() == 6'000);
}

TEST_CASE("on a lost device everything says so") {
  HostDevice device;
  const auto fence = device.make_fence({});
  device.lose();
  CHECK(trouble_of([&] { (void)device.make_memory(1); }) == Trouble::lost);
  CHECK(trouble_of([&] { (void)device.make_pinned(1); }) == Trouble::lost);
  CHECK(trouble_of([&] { (void)device.make_fence({}); }) == Trouble::lost);
  CHECK(trouble_of([&] { (void)fence->is_passed(); }) == Trouble::lost);
  CHECK(trouble_of([&] { (void)device.make_lane(gpu::Direction::to_device); }) == Trouble::lost);
}

TEST_CASE("a ring has as many slots as fit, and they outlive it") {
  HostDevice device;
  std::vector<std::byte> memory(10'500);
  gpu::StagingRing::Slot kept;
  {
    gpu::StagingRing ring(device, memory, 1000);
    CHECK(ring.slots() == 10);
    std::vector<gpu::StagingRing::Slot> slots;
    while (auto slot = ring.take()) slots.push_back(std::move(slot));
    REQUIRE(slots.size() == 10);
    CHECK(slots[0]->data() == memory.data());
    CHECK(slots[9]->data() == memory.data() + 9'000);
    kept = slots[3];
    slots.clear();
    CHECK(ring.free() == 9);
  }
  (*kept)[999] = std::byte{1};
  CHECK(memory[3'999] == std::byte{1});
}

TEST_CASE("a slot is released once the device has passed what reads it") {
  HostDevice device;
  std::atomic<int> released{0};
  gpu::ReleaseQueue queue(device);
  device.hold(true);
  for (int i = 0; i < 3; ++i) queue.add({}, [&] { ++released; });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(released == 0);
  device.hold(false);
  while (released < 3) std::this_thread::yield();
  while (queue.waiting() > 0) std::this_thread::yield();
}

TEST_CASE("what the device has not passed is never released") {
  std::atomic<int> released{0};
  HostDevice device;
  {
    gpu::ReleaseQueue queue(device);
    device.hold(true);
    queue.add({}, [&] { ++released; });
    device.lose();
    queue.add({}, [&] { ++released; });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(queue.waiting() == 2);
  }
  CHECK(released == 0);
}

}  // namespace
}  // namespace batchflow::test::device_test
