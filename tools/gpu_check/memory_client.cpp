#include "tools/gpu_check/memory_client.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/gpu/device.h"
#include "runtime/gpu/driver.h"
#include "runtime/protocol/channel.h"
#include "tools/gpu_check/memory_kernels.h"
#include "tools/gpu_check/memory_share.h"

namespace batchflow::gpu_check {
namespace {

using Clock = protocol::Channel::Clock;

std::string says(cudaError_t status) {
  return status == cudaSuccess ? "written" : std::string("refused: ") + cudaGetErrorString(status);
}

std::string read_all(const gpu::DeviceMemory& memory, double mapped_ms) {
  std::vector<std::byte> bytes(memory.bytes());
  gpu::check(cudaMemcpy(bytes.data(), memory.address(), bytes.size(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  return fmt::format(
      "{}, {}, mapped in {:.1f} ms", is_pattern(bytes) ? "all bytes are right" : "WRONG BYTES",
      memory.is_read_only() ? "read-only" : "writable: the driver refuses read-only", mapped_ms);
}

// What a hostile job does: it uses the descriptor as it likes.
std::string map_writable(const protocol::Descriptor& descriptor, Bytes bytes) {
  const gpu::Driver& driver = gpu::driver();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  const auto os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  gpu::check(driver.import_handle(&handle, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
             "cuMemImportFromShareableHandle");
  gpu::check(driver.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  gpu::check(driver.map(address, bytes, 0, handle, 0), "cuMemMap");
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  gpu::check(driver.set_access(address, bytes, &access, 1), "cuMemSetAccess");
  write_all(reinterpret_cast<std::byte*>(address), bytes, nullptr);
  return says(cudaDeviceSynchronize());
}

std::string play(std::string_view role, protocol::Channel& channel, protocol::Descriptor descriptor,
                 Bytes bytes) {
  const auto device = gpu::open_device(0);
  if (role == kMapsWritable) return map_writable(descriptor, bytes);
  const auto begin = Clock::now();
  const auto memory = device->import_memory(std::move(descriptor), bytes);
  const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
  if (role == kReads) return read_all(*memory, took.count());
  if (role == kWrites) {
    if (!memory->is_read_only()) return "the driver maps no memory read-only";
    write_all(memory->address(), bytes, nullptr);
    return says(cudaDeviceSynchronize());
  }
  if (role == kWritesByDriver) {
    if (!memory->is_read_only()) return "the driver maps no memory read-only";
    const std::vector<std::byte> zeros(1 << 20);
    const cudaError_t copied =
        cudaMemcpy(memory->address(), zeros.data(), zeros.size(), cudaMemcpyHostToDevice);
    return says(copied == cudaSuccess ? cudaDeviceSynchronize() : copied);
  }
  // It crashes: half a second of reads is under way then.
  void* allocated = nullptr;
  gpu::check(cudaMalloc(&allocated, sizeof(std::uint64_t)), "cudaMalloc");
  auto* sum = static_cast<std::uint64_t*>(allocated);
  for (int i = 0; i < 100; ++i) {
    wait_on_device(5'000'000, nullptr);
    sum_all(memory->address(), bytes, sum, nullptr);
  }
  channel.send("under way", {}, Clock::now() + std::chrono::seconds(5));
  kill(getpid(), SIGKILL);
  return "";
}

}  // namespace

int run_client(std::string_view role, std::string_view address) {
  std::string problem;
  auto channel = protocol::Channel::connect(std::string(address), problem);
  auto frame = channel.receive(Clock::now() + std::chrono::seconds(20));
  if (!frame || frame->descriptors.size() != 1) return 1;
  std::string said;
  try {
    said = play(role, channel, std::move(frame->descriptors[0]), std::stoull(frame->text));
  } catch (const std::exception& error) {
    said = std::string("FAILED: ") + error.what();
  }
  channel.send(said, {}, Clock::now() + std::chrono::seconds(5));
  return 0;
}

}  // namespace batchflow::gpu_check
