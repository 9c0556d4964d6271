// One decoder: what a thread of one way does. It is made before the thread, so that what the
// machine cannot do is known first.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/gpu/decode_queue.h"
#include "runtime/gpu/jpeg_decoders.h"

namespace batchflow::gpu {

struct NvjpegLibrary;

class DecodeWorker {
 public:
  virtual ~DecodeWorker() = default;
  // Takes pictures of its way until the queue is closed and empty.
  virtual void run(DecodeQueue& queue) = 0;
};

struct DecodeWorkers {
  std::array<DecodeShares::Way, kJpegWays> ways{};
  std::vector<std::unique_ptr<DecodeWorker>> all;
  std::vector<std::string> notes;  // of each way: whether it is there, or why not
};
// Those that this machine can have. None: `problem` says why.
DecodeWorkers open_workers(const JpegDecoders::Options& options, std::string& problem);
// For each thread of a decoder.
void use_device(int device);

// Each is null, with `problem`, where it cannot be had. They are made with the device set.
std::unique_ptr<DecodeWorker> make_cpu_worker(std::string& problem);
std::unique_ptr<DecodeWorker> make_host_huffman_worker(const NvjpegLibrary& nvjpeg,
                                                       std::string& problem);
// `way` is cuda or hardware; so many pictures at once.
std::unique_ptr<DecodeWorker> make_batched_worker(const NvjpegLibrary& nvjpeg, JpegWay way,
                                                  std::size_t pictures, std::string& problem);

}  // namespace batchflow::gpu
