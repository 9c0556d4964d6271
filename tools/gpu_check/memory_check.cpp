// Checks memory of a GPU, copies to it, and what other processes may do with it.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "runtime/gpu/copies.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/release_queue.h"
#include "runtime/gpu/staging_ring.h"
#include "tools/gpu_check/memory_kernels.h"
#include "tools/gpu_check/memory_rates.h"
#include "tools/gpu_check/memory_share.h"
#include "tools/gpu_check/report.h"

namespace batchflow::gpu_check {
namespace {

using gpu::Copies;
using gpu::Direction;
using gpu::Urgency;
constexpr std::string_view kGroup = "memory";

void row(Report& report, std::string_view what, bool is_right, std::string_view value) {
  report.row(kGroup, what, is_right ? Verdict::passed : Verdict::failed, value);
}

// Copies of all urgencies and of any size and alignment, there and back by another way.
void check_bytes(Report& report, const Options& options, gpu::Device& device, Copies& to_device,
                 Copies& from_device) {
  const Bytes bytes = options.sanitized ? Bytes{8} << 20 : Bytes{96} << 20;
  const auto written = device.make_pinned(bytes), read = device.make_pinned(bytes);
  const auto there = device.make_memory(bytes);
  fill_pattern({written.get(), bytes});
  std::memset(read.get(), 0, bytes);
  std::mt19937_64 random(1);
  std::atomic<unsigned> failed{0};
  std::counting_semaphore<> ended{0};
  const auto move = [&](Copies& copies, std::byte* to, const std::byte* from) {
    std::ptrdiff_t added = 0;
    for (Bytes at = 0; at < bytes;) {
      gpu::Copy copy;
      copy.urgency = static_cast<Urgency>(random() % 3);
      for (auto left = random() % 20 + 1; left > 0 && at < bytes; --left) {
        const Bytes most = random() % 50 == 0 ? Bytes{20} << 20 : 100'000;
        const Bytes now = std::min<Bytes>(random() % most, bytes - at);
        copy.pieces.push_back({to + at, from + at, now});
        at += now;
      }
      copy.done = [&](const std::string& problem) {
        failed += problem.empty() ? 0 : 1;
        ended.release();
      };
      copies.add(std::move(copy));
      ++added;
    }
    for (; added > 0; --added) ended.acquire();
  };
  move(to_device, there->address(), written.get());
  move(from_device, read.get(), there->address());
  row(report, "copies of any size and urgency, there and back",
      failed == 0 && std::memcmp(written.get(), read.get(), bytes) == 0,
      fmt::format("{} MiB, {} copies failed", bytes >> 20, failed.load()));
}

// A ring in memory that is there already, as the service's slots are: a memory file.
void check_ring(Report& report, gpu::Device& device, Copies& to_device, Copies& from_device) {
  constexpr Bytes kSlot = 4 << 20;
  constexpr Bytes kBytes = 4 * kSlot;
  const protocol::Descriptor file(memfd_create("gpu_check", MFD_CLOEXEC));
  void* mapped = MAP_FAILED;
  if (file && ftruncate(file.get(), kBytes) == 0)
    mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return row(report, "a staging ring in a memory file", false, "mmap");
  {
    gpu::StagingRing ring(device, {static_cast<std::byte*>(mapped), kBytes}, kSlot);
    const auto there = device.make_memory(2 * kSlot);
    const auto in = ring.take(), out = ring.take();
    fill_pattern(*in);
    to_device.copy({{there->address(), in->data(), kSlot}});
    from_device.copy({{out->data(), there->address(), kSlot}});
    row(report, "a staging ring in a memory file", is_pattern(*out), "pinned by cudaHostRegister");
  }
  munmap(mapped, kBytes);
}

// The fence must see work on streams that it was not told of, as a training script has them.
void check_fence(Report& report, gpu::Device& device) {
  cudaStream_t stream = nullptr;
  gpu::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  wait_on_device(1, stream);  // loads the kernel
  gpu::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  wait_on_device(100'000'000, stream);
  const auto fence = device.make_fence({});
  const bool is_passed_early = fence->is_passed();
  gpu::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  row(report, "a fence is behind work on all streams", !is_passed_early && fence->is_passed(),
      gpu::driver().record_context != nullptr ? "cuCtxRecordEvent"
                                              : "the driver has no cuCtxRecordEvent");

  wait_on_device(50'000'000, stream);
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<double> ms{-1};
  gpu::ReleaseQueue queue(device);
  queue.add({stream}, [&] {
    ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  });
  for (int i = 0; i < 500 && ms < 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  row(report, "a slot is released behind 50 ms of work", ms > 40,
      fmt::format("after {:.1f} ms", ms.load()));
  (void)cudaStreamDestroy(stream);
}

// What a release does to a graph that the training script captures meanwhile. The slot is released
// when the capture is over at the latest.
void check_capture(Report& report, gpu::Device& device) {
  cudaStream_t stream = nullptr;
  gpu::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  gpu::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  wait_on_device(1000, stream);
  std::atomic<bool> released{false};
  gpu::ReleaseQueue queue(device);
  queue.add({}, [&] { released = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const bool was_released = released;
  cudaGraph_t graph = nullptr;
  const cudaError_t captured = cudaStreamEndCapture(stream, &graph);
  (void)cudaGetLastError();
  for (int i = 0; i < 500 && !released; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  report.row(kGroup, "a release while a graph is captured on another stream",
             released ? Verdict::measured : Verdict::failed,
             fmt::format("the capture: {}; released {}", cudaGetErrorString(captured),
                         was_released ? "meanwhile"
                         : released   ? "afterwards"
                                      : "NEVER"));
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaStreamDestroy(stream);
}

void check_out_of_memory(Report& report, gpu::Device& device, Copies& to_device) {
  std::size_t free = 0, all = 0;
  gpu::check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  std::string said = "it was given";
  bool is_right = false;
  try {
    (void)device.make_memory(free + (Bytes{1} << 30));
  } catch (const gpu::GpuError& error) {
    said = error.what();
    is_right = error.trouble() == gpu::Trouble::out_of_memory;
  }
  row(report, "more memory than is free", is_right, said);
  const auto here = device.make_pinned(4096);
  const auto there = device.make_memory(4096);
  to_device.copy({{there->address(), here.get(), 4096}});
  row(report, "the service goes on afterwards", true, "copies go on");
}

// A copy that cannot be made fails alone.
void check_refused_copy(Report& report, gpu::Device& device, Copies& to_device) {
  const auto here = device.make_pinned(4096);
  const auto there = device.make_memory(4096);
  std::string said = "it was copied";
  bool is_right = false;
  try {
    to_device.copy({{nullptr, here.get(), 4096}});
  } catch (const gpu::GpuError& error) {
    said = error.what();
    is_right = error.trouble() == gpu::Trouble::refused;
  }
  to_device.copy({{there->address(), here.get(), 4096}});
  row(report, "a copy to a wrong address fails alone", is_right, said);
}

}  // namespace

void check_memory(Report& report, const Options& options) {
  const gpu::Detection found = gpu::detect();
  report.row(kGroup, "found", found.gpus.empty() ? Verdict::not_run : Verdict::measured,
             found.sentence());
  if (found.gpus.empty()) return;
  const auto device = gpu::open_device(found.gpus[0].index);
  Copies to_device(*device, Direction::to_device), from_device(*device, Direction::from_device);
  const auto part = [&](std::string_view what, auto check) {
    try {
      check();
    } catch (const std::exception& error) {
      report.row(kGroup, what, Verdict::failed, error.what());
    }
  };
  part("bytes", [&] { check_bytes(report, options, *device, to_device, from_device); });
  part("ring", [&] { check_ring(report, *device, to_device, from_device); });
  part("fence", [&] { check_fence(report, *device); });
  part("capture", [&] { check_capture(report, *device); });
  part("sharing", [&] { check_sharing(report, options, *device, to_device, from_device); });
  if (options.sanitized) return;
  part("out of memory", [&] { check_out_of_memory(report, *device, to_device); });
  part("refused copy", [&] { check_refused_copy(report, *device, to_device); });
  part("rates", [&] { measure_copies(report, options, *device); });
}

}  // namespace batchflow::gpu_check
