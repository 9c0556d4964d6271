#include "tools/gpu_check/pattern.h"

#include "kernels/check_cuda.h"

namespace batchflow::gpu_check {
namespace {

constexpr unsigned kBlocks = 4096, kThreads = 256;

__device__ std::uint8_t made_byte(std::uint64_t i) {
  return static_cast<std::uint8_t>((i * 0x9e3779b97f4a7c15u) >> 56);
}

__global__ void make(std::uint8_t* bytes, std::uint64_t count) {
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * kThreads)
    bytes[i] = made_byte(i);
}

__global__ void compare(const std::uint8_t* out, std::uint64_t width, std::uint64_t height,
                        unsigned long long* wrong) {
  const std::uint64_t pixels = width * height;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < 3 * pixels;
       i += std::uint64_t{gridDim.x} * kThreads) {
    const std::uint64_t c = i / pixels, y = i % pixels / width, x = width - 1 - i % width;
    if (out[i] != made_byte((y * width + x) * 3 + c)) atomicAdd(wrong, 1ull);
  }
}

}  // namespace

void make_bytes(std::uint8_t* bytes, std::uint64_t count) {
  make<<<kBlocks, kThreads>>>(bytes, count);
  BF_CUDA(cudaGetLastError());
}

void count_wrong(const std::uint8_t* out, std::uint64_t width, std::uint64_t height,
                 unsigned long long* wrong) {
  compare<<<kBlocks, kThreads>>>(out, width, height, wrong);
  BF_CUDA(cudaGetLastError());
}

}  // namespace batchflow::gpu_check
