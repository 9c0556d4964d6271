// Pictures that wait to be decoded, a queue for each way, and what becomes of them. It knows no
// GPU: the threads that decode take pictures out and say what came of them.
//
// A picture that one way cannot decode goes on to the next: from the engines and the GPU's cores to
// the way with codes on the CPU, from there to the CPU. What no way decodes is "not decoded", with
// the reason, and the batch is done all the same. A thread that has nothing to do takes pictures
// that wait for another way, the last first.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kernels/picture.h"
#include "runtime/gpu/decode_shares.h"
#include "runtime/gpu/jpeg_header.h"

namespace batchflow::gpu {

struct JpegPicture {
  std::span<const std::byte> bytes;
  // Memory of the GPU, aligned to 256, that nothing on the GPU reads or writes, as the host knows
  // (SlotRing).
  std::uint8_t* pixels = nullptr;
  std::size_t capacity = 0;  // slot_bytes() of the picture at least
};

enum class JpegStatus : std::uint8_t {
  decoded,
  corrupt,      // its data is damaged, or it is no JPEG
  unsupported,  // no way that is there can decode it, though a CPU might
  no_room,      // the slot is too small
  failed,       // the GPU or its driver failed
};
const char* name_of(JpegStatus status);

struct JpegResult {
  JpegStatus status = JpegStatus::failed;
  JpegWay way = JpegWay::cpu;
  kernels::Extent2 extent;
  std::size_t stride = 0;
  const char* why = "";  // when it is not decoded; static text
};

class DecodeQueue {
 public:
  struct Batch;
  struct Job {
    std::shared_ptr<Batch> batch;
    std::size_t index = 0;
    JpegPicture picture;
    kernels::Extent2 extent;
    JpegWays allowed = 0;
    std::uint64_t units = 0;
    DecodeShares::Choice choice{};
    std::chrono::steady_clock::time_point since;
  };

  explicit DecodeQueue(const DecodeShares& shares) : shares_(shares) {}
  DecodeQueue(const DecodeQueue&) = delete;

  // `done` is called once, by the thread that ends the last picture, or at once. `results` must
  // stay until then, and so must what `pictures` point to.
  void add(std::span<const JpegPicture> pictures, std::span<JpegResult> results,
           std::function<void()> done);

  // Waits for pictures of this way; empty after close(), or after `patience`. A thread that wants
  // many pictures at once asks for `least`, and waits a little until so many are there.
  struct Wanted {
    std::size_t most = 1;
    std::size_t least = 1;
    std::chrono::microseconds patience{};  // to wait for the first; 0: until close()
    bool takes_over = false;               // pictures of other ways, when it has none
  };
  std::vector<Job> take(JpegWay way, const Wanted& wanted);

  // What came of them.
  void decoded(Job&& job);
  void not_decoded(Job&& job, JpegStatus status, const char* why);
  // One lane was busy so long with so many pictures and units.
  void served(JpegWay way, std::size_t pictures, std::uint64_t units,
              std::chrono::nanoseconds busy);

  // Takes no more pictures. Threads that decode end when all that are there have ended.
  void close();

  std::uint64_t decoded_by(JpegWay way) const;
  double late_ns(JpegWay way) const;

 private:
  std::deque<Job>& queue(JpegWay way) { return queues_[static_cast<std::size_t>(way)]; }
  bool has_way(JpegWays ways) const;
  bool take_over(JpegWay way, std::vector<Job>& jobs);
  void end(Job&& job, const JpegResult& result);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  DecodeShares shares_;
  std::array<std::deque<Job>, kJpegWays> queues_;
  std::array<std::uint64_t, kJpegWays> decoded_{};
  std::size_t left_ = 0;  // pictures that have not ended
  bool closed_ = false;   // no picture is taken any more
};

}  // namespace batchflow::gpu
