// Copies by a thread of their own, on the host in place of a GPU.
#include "runtime/gpu/copies.h"

#include <atomic>
#include <cstring>
#include <semaphore>
#include <thread>
#include <vector>

#include "core/base/random.h"
#include "doctest/doctest.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/gpu/host_device.h"
#include "runtime/gpu/staging_ring.h"

namespace batchflow::test::copies_test {
namespace {

using gpu::Copies;
using gpu::Direction;
using gpu::HostDevice;
using gpu::Urgency;

std::vector<std::byte> bytes_at_random(std::size_t count) {
  Random random(3);
  std::vector<std::byte> made(count);
  for (std::byte& one : made) one = static_cast<std::byte>(random.below(256));
  return made;
}

struct Outcome {
  std::atomic<int> right{0};
  std::atomic<int> wrong{0};
  std::counting_semaphore<> ended{0};

  auto count() {
    return [this](const std::string& problem) {
      ++(problem.empty() ? right : wrong);
      ended.release();
    };
  }
  void wait(int copies) {
    for (; copies > 0; --copies) ended.acquire();
  }
};

TEST_CASE("all bytes arrive, whoever adds copies") {
  const auto from = bytes_at_random(3'000'000);
  std::vector<std::byte> to(from.size());
  HostDevice device;
  gpu::CopySettings settings;
  settings.piece_bytes = 100'000;
  settings.small_bytes = 10'000;
  Outcome outcome;
  Copies copies(device, Direction::to_device, settings);
  constexpr int kThreads = 3, kCopies = 100;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCopies; ++i) {
        const std::size_t at = static_cast<std::size_t>(t * kCopies + i) * 10'000;
        copies.add({{{to.data() + at, from.data() + at, 3'000},
                     {to.data() + at + 3'000, from.data() + at + 3'000, 7'000}},
                    static_cast<Urgency>(i % 3),
                    nullptr,
                    outcome.count()});
      }
    });
  for (std::thread& thread : threads) thread.join();
  outcome.wait(kThreads * kCopies);
  CHECK(outcome.wrong == 0);
  CHECK(to == from);
  std::fill(to.begin(), to.end(), std::byte{0});
  copies.copy({{to.data(), from.data(), from.size()}});
  CHECK(to == from);
}

TEST_CASE("a slot is used again only when its copy is confirmed") {
  HostDevice device;
  gpu::StagingRing ring(device, 1000, 2);
  std::vector<std::byte> to(1000);
  Outcome outcome;
  Copies copies(device, Direction::to_device);
  device.hold(true);
  {
    const auto slot = ring.take();
    copies.add({{{to.data(), slot->data(), 1000}}, Urgency::usual, slot, outcome.count()});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(ring.free() == 1);
  const auto other = ring.take();
  CHECK(other != nullptr);
  CHECK(ring.take() == nullptr);
  device.hold(false);
  outcome.wait(1);
  while (ring.free() == 0) std::this_thread::yield();
  CHECK(outcome.right == 1);
}

TEST_CASE("an urgent copy overtakes those that were added before") {
  HostDevice device;
  gpu::CopySettings settings;
  settings.piece_bytes = 1000;
  std::vector<std::byte> large(100'000), there(100'000);
  std::byte small[10], small_there[10];
  std::atomic<int> next{0}, of_large{-1}, of_small{-1};
  std::counting_semaphore<> ended{0};
  Copies copies(device, Direction::to_device, settings);
  device.hold(true);
  copies.add({{{there.data(), large.data(), large.size()}},
              Urgency::background,
              nullptr,
              [&](const std::string&) { of_large = next++, ended.release(); }});
  copies.add(
      {{{small_there, small, sizeof small}}, Urgency::urgent, nullptr, [&](const std::string&) {
         of_small = next++, ended.release();
       }});
  device.hold(false);
  ended.acquire();
  ended.acquire();
  CHECK(of_small == 0);
  CHECK(of_large == 1);
}

TEST_CASE("copies that the device refuses fail, and no others") {
  failpoint::configure_failpoints("gpu.copy=fail:0.3,seed=5");
  const auto from = bytes_at_random(500'000);
  std::vector<std::byte> to(from.size());
  std::vector<std::atomic<int>> outcomes(500);  // 1: right, 2: wrong
  HostDevice device;
  gpu::CopySettings settings;
  settings.piece_bytes = 700;
  settings.small_bytes = 100;
  std::counting_semaphore<> ended{0};
  {
    Copies copies(device, Direction::to_device, settings);
    for (std::size_t i = 0; i < outcomes.size(); ++i)
      copies.add({{{to.data() + i * 1000, from.data() + i * 1000, 1000}},
                  Urgency::usual,
                  nullptr,
                  [&, i](const std::string& problem) {
                    outcomes[i] += problem.empty() ? 1 : 2;
                    ended.release();
                  }});
    for (std::size_t i = 0; i < outcomes.size(); ++i) ended.acquire();
  }
  failpoint::configure_failpoints("");
  std::size_t right = 0, wrong = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    CHECK((outcomes[i] == 1 || outcomes[i] == 2));
    ++(outcomes[i] == 1 ? right : wrong);
    if (outcomes[i] == 1) CHECK(std::memcmp(&to[i * 1000], &from[i * 1000], 1000) == 0);
  }
  CHECK(right > 50);
  CHECK(wrong > 50);
}

TEST_CASE("a GPU that is lost in the middle fails all copies, also later ones") {
  HostDevice device;
  std::vector<std::byte> from(50'000), to(50'000);
  gpu::CopySettings settings;
  settings.piece_bytes = 100;
  Outcome outcome;
  Copies copies(device, Direction::to_device, settings);
  for (std::size_t i = 0; i < 50; ++i)
    copies.add({{{to.data() + i * 1000, from.data() + i * 1000, 1000}},
                Urgency::usual,
                nullptr,
                outcome.count()});
  device.lose();
  outcome.wait(50);
  CHECK(outcome.right + outcome.wrong == 50);
  copies.add({{{to.data(), from.data(), 1000}}, Urgency::urgent, nullptr, outcome.count()});
  outcome.wait(1);
  CHECK(outcome.wrong >= 1);
  try {
    copies.copy({{to.data(), from.data(), 1000}});
    FAIL("it was copied");
  } catch (const gpu::GpuError& error) {
    CHECK(error.trouble() == gpu::Trouble::lost);
  }
}

TEST_CASE("copies that have not begun fail when the thread ends") {
  HostDevice device;
  std::vector<std::byte> from(1000), to(1000);
  gpu::CopySettings settings;
  settings.piece_bytes = 10;
  Outcome outcome;
  std::thread later;
  {
    Copies copies(device, Direction::from_device, settings);
    device.hold(true);
    for (int i = 0; i < 20; ++i)
      copies.add({{{to.data(), from.data(), 1000}}, Urgency::background, nullptr, outcome.count()});
    later = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      device.hold(false);
    });
  }
  later.join();
  CHECK(outcome.right + outcome.wrong == 20);
  CHECK(outcome.wrong >= 19);
}

}  // namespace
}  // namespace batchflow::test::copies_test
