#include "kernels/check_cuda.h"
#include "tools/gpu_check/slow_compare.h"

namespace batchflow::gpu_check {
namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void compare(const uint4* read, const uint4* expected, std::size_t count,
                        std::uint64_t delay_ns, unsigned long long* differing) {
  const std::uint64_t begin = now_ns();
  while (now_ns() - begin < delay_ns) __nanosleep(1000);
  unsigned long long sum = 0;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const uint4 a = __ldcg(read + i), b = __ldcg(expected + i);
    sum += __popc(__vcmpne4(a.x, b.x)) + __popc(__vcmpne4(a.y, b.y)) + __popc(__vcmpne4(a.z, b.z)) +
           __popc(__vcmpne4(a.w, b.w));
  }
  if (sum) atomicAdd(differing, sum / 8);
}

}  // namespace

void slow_compare(const std::uint8_t* read, const std::uint8_t* expected, std::size_t bytes,
                  std::uint64_t delay_ns, unsigned long long* differing, kernels::Stream stream) {
  // Few blocks: decoders find room beside it.
  compare<<<16, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(read), reinterpret_cast<const uint4*>(expected), bytes / 16,
      delay_ns, differing);
  BF_CUDA(cudaGetLastError());
}

}  // namespace batchflow::gpu_check
