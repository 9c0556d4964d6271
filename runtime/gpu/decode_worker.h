// One decoder: what a thread of one way does. It is made before the thread, so that what the
// machine cannot do is known first.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "runtime/gpu/decode_queue.h"

namespace batchflow::gpu {

struct NvjpegLibrary;

class DecodeWorker {
 public:
  virtual ~DecodeWorker() = default;
  // Takes pictures of its way until the queue is closed and empty.
  virtual void run(DecodeQueue& queue) = 0;
};

// Each is null, with `problem`, where it cannot be had. They are made with the device set.
std::unique_ptr<DecodeWorker> make_cpu_worker(std::string& problem);
std::unique_ptr<DecodeWorker> make_host_huffman_worker(const NvjpegLibrary& nvjpeg,
                                                       std::string& problem);
// `way` is cuda or hardware; so many pictures at once.
std::unique_ptr<DecodeWorker> make_batched_worker(const NvjpegLibrary& nvjpeg, JpegWay way,
                                                  std::size_t pictures, std::string& problem);

// A stream, and events for which a waiting thread sleeps.
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
