// What compiles alike for CPUs and for GPUs.
#pragma once

#if defined(__CUDACC__)
#define BF_ANYWHERE __host__ __device__
#else
#define BF_ANYWHERE
#endif

namespace batchflow::kernels {

// A CUDA stream (cudaStream_t). On the CPU it has no meaning.
using Stream = void*;

}  // namespace batchflow::kernels
