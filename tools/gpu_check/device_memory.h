// Memory of the GPU for checks: filled from the CPU, read back, and poisoned before use, so that
// what a kernel does not write is seen.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/check_cuda.h"

namespace batchflow::gpu_check {

template <class T>
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t count, int poison = 0xa5) : count_(count) {
    BF_CUDA(cudaMalloc(&at_, bytes() + 64));
    BF_CUDA(cudaMemset(at_, poison, bytes() + 64));
    BF_CUDA(cudaDeviceSynchronize());  // other streams do not wait for this one
  }
  explicit DeviceMemory(const std::vector<T>& values) : DeviceMemory(values.size()) { put(values); }
  ~DeviceMemory() { cudaFree(at_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  T* get() const { return static_cast<T*>(at_); }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void put(const std::vector<T>& values) {
    BF_CUDA(cudaMemcpy(at_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    BF_CUDA(cudaDeviceSynchronize());
  }
  std::vector<T> values() const {
    std::vector<T> read(count_);
    BF_CUDA(cudaMemcpy(read.data(), at_, bytes(), cudaMemcpyDeviceToHost));
    return read;
  }

 private:
  std::size_t count_;
  void* at_ = nullptr;
};

// The median of some runs, each timed by events on the stream.
class Stopwatch {
 public:
  Stopwatch() {
    BF_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    BF_CUDA(cudaEventCreate(&begin_));
    BF_CUDA(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  cudaStream_t stream() const { return stream_; }

  // Milliseconds. `run` is given the number of the run.
  template <class Run>
  std::vector<double> times(int runs, Run&& run) {
    std::vector<double> times;
    for (int i = -3; i < runs; ++i) {
      BF_CUDA(cudaEventRecord(begin_, stream_));
      run(i + 3);
      BF_CUDA(cudaEventRecord(end_, stream_));
      BF_CUDA(cudaEventSynchronize(end_));
      float took = 0;
      BF_CUDA(cudaEventElapsedTime(&took, begin_, end_));
      if (i >= 0) times.push_back(static_cast<double>(took));
    }
    return times;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace batchflow::gpu_check
