// What the checks of decoding share: decoders of one way, and slots for whole batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/gpu/jpeg_decoders.h"
#include "tools/gpu_check/device_memory.h"
#include "tools/gpu_check/report.h"

namespace batchflow::gpu_check {

using File = std::vector<std::byte>;

inline unsigned cores() {
  return std::max(1u, std::thread::hardware_concurrency());
}
inline gpu::JpegDecoders::Options usual_decoders() {
  return gpu::JpegDecoders::options_for(cores());
}

// Decoders of the ways that `ways` has.
inline gpu::JpegDecoders::Options decoders_of(gpu::JpegWays ways) {
  gpu::JpegDecoders::Options options = usual_decoders();
  options.host_huffman_threads = cores();
  options.cuda_beside_engines = true;
  const bool alone = ways == gpu::only(gpu::JpegWay::cpu);
  if (!has(ways, gpu::JpegWay::cpu)) options.cpu_threads = 0;
  if (alone) options.cpu_threads = cores();
  if (!has(ways, gpu::JpegWay::host_huffman)) options.host_huffman_threads = 0;
  if (!has(ways, gpu::JpegWay::cuda)) options.cuda_threads = 0;
  if (!has(ways, gpu::JpegWay::hardware)) options.hardware_threads = 0;
  return options;
}

// Memory of the GPU for one batch, with a place for each picture.
class BatchSlot {
 public:
  BatchSlot(std::size_t pictures, std::size_t bytes_each)
      : each_(bytes_each), memory_(pictures * bytes_each, 0) {}

  std::vector<gpu::JpegPicture> pictures(std::span<const File* const> files) const {
    std::vector<gpu::JpegPicture> pictures;
    for (const File* file : files) pictures.push_back({*file, place(pictures.size()), each_});
    return pictures;
  }
  std::uint8_t* place(std::size_t picture) const { return memory_.get() + picture * each_; }
  std::uint8_t* get() const { return memory_.get(); }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  std::size_t each_;
  DeviceMemory<std::uint8_t> memory_;
};

// The room that the largest of the files takes.
inline std::size_t slot_bytes_most(std::span<const File> files) {
  std::size_t most = 256;
  for (const File& file : files)
    if (const auto header = gpu::read_jpeg_header(file))
      most = std::max(most, gpu::slot_bytes(header->extent));
  return most;
}

// Pictures a second, how long batches took, and training-ready tensors; by way and by mixture.
void measure_decoding(Report& report, const Options& options);

}  // namespace batchflow::gpu_check
