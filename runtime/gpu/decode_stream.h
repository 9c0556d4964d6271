// Streams and events of decoders.
#pragma once

#include <cuda_runtime_api.h>

namespace batchflow::gpu {

class DecodeStream {
 public:
  // False: the GPU refuses.
  bool open() { return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess; }
  DecodeStream() = default;
  ~DecodeStream() {
    if (stream_) cudaStreamDestroy(stream_);
  }
  DecodeStream(const DecodeStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// An event for which a waiting thread sleeps.
class DecodeEvent {
 public:
  bool open() {
    return cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync) ==
           cudaSuccess;
  }
  DecodeEvent() = default;
  ~DecodeEvent() {
    if (event_) cudaEventDestroy(event_);
  }
  DecodeEvent(const DecodeEvent&) = delete;
  bool record(cudaStream_t stream) { return cudaEventRecord(event_, stream) == cudaSuccess; }
  bool wait() { return cudaEventSynchronize(event_) == cudaSuccess; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace batchflow::gpu
