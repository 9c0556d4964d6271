#include <cuda_runtime.h>

#include "tools/gpu_check/memory_kernels.h"

namespace batchflow::gpu_check {
namespace {

__global__ void write_bytes(std::byte* memory, std::size_t bytes) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < bytes;
       i += std::size_t{gridDim.x} * blockDim.x)
    memory[i] = std::byte{0xEE};
}

__global__ void wait_for(std::uint64_t nanoseconds) {
  std::uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

__global__ void sum_bytes(const std::byte* memory, std::size_t bytes, unsigned long long* sum) {
  unsigned long long part = 0;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < bytes;
       i += std::size_t{gridDim.x} * blockDim.x)
    part += static_cast<unsigned long long>(memory[i]);
  atomicAdd(sum, part);
}

cudaStream_t stream_of(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace

void write_all(std::byte* memory, std::size_t bytes, void* stream) {
  write_bytes<<<64, 256, 0, stream_of(stream)>>>(memory, bytes);
}

void wait_on_device(std::uint64_t nanoseconds, void* stream) {
  wait_for<<<1, 1, 0, stream_of(stream)>>>(nanoseconds);
}

void sum_all(const std::byte* memory, std::size_t bytes, std::uint64_t* sum, void* stream) {
  static_assert(sizeof(*sum) == sizeof(unsigned long long));
  (void)cudaMemsetAsync(sum, 0, sizeof *sum, stream_of(stream));
  sum_bytes<<<64, 256, 0, stream_of(stream)>>>(memory, bytes,
                                               reinterpret_cast<unsigned long long*>(sum));
}

}  // namespace batchflow::gpu_check
