// JPEGs decoded into memory of a GPU: rows of RGB, eight bits each.
//
// Several decoders work side by side, each a thread with a stream, states and buffers of its own:
// the decoder engines of the GPU, its cores, its cores with the codes read on the CPU, and the CPU
// alone. Which picture goes where is measured (decode_shares.h). The pixels of the CPU are those of
// the pipeline's `decode`; those of the GPU differ from them a little (kDifferenceMost).
//
// A picture that lacks its end, or is of a rare kind, is decoded on the CPU alone, so that
// truncated data is found as the pipeline finds it. Damage in the middle may go unnoticed on a GPU.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/gpu/decode_queue.h"

namespace batchflow::gpu {

// By how much a value may differ from the CPU's, and the mean of all values of a picture. Chroma is
// interpolated on both, with other roundings.
inline constexpr int kDifferenceMost = 32;
inline constexpr double kDifferenceMeanMost = 1.0;

class JpegDecoders {
 public:
  struct Options {
    int device = 0;
    // Threads by way; 0: not this way. Those that the machine cannot have are left out, and notes()
    // says why. An empty hardware_share is chosen by what is measured.
    unsigned cpu_threads = 2;
    unsigned host_huffman_threads = 0;
    unsigned cuda_threads = 1;
    unsigned hardware_threads = 2;
    // Whether the cores decode beside the engines. That slows the engines by more than it gives.
    bool cuda_beside_engines = false;
    std::optional<double> hardware_share;
    // How many pictures the engines and the cores are given at once.
    unsigned hardware_pictures = 32;
    unsigned cuda_pictures = 128;
  };
  // For a machine with that many cores.
  static Options options_for(unsigned cores);

  // Null: `problem` says why nothing is decoded to this GPU, in one sentence.
  static std::unique_ptr<JpegDecoders> open(const Options& options, std::string& problem);
  // Waits for what is being decoded.
  ~JpegDecoders();
  JpegDecoders(const JpegDecoders&) = delete;

  // Thread-safe; does not wait. `done` is called once, by one of the decoders' threads, or at once
  // when there is nothing to decode. Then all pictures that are `decoded` are there, as the host
  // knows: work of any stream that is given to the GPU from then on may read them.
  // REQUIRES: `pictures`' bytes, slots and `results` stay until `done`
  void decode(std::span<const JpegPicture> pictures, std::span<JpegResult> results,
              std::function<void()> done);
  // The same, and waits.
  void decode(std::span<const JpegPicture> pictures, std::span<JpegResult> results);

  std::uint64_t decoded_by(JpegWay way) const;
  double late_ns(JpegWay way) const;
  // For each way: that it is there, or the reason why it is not.
  const std::vector<std::string>& notes() const;

 private:
  struct Parts;
  explicit JpegDecoders(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace batchflow::gpu
