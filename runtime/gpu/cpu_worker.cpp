// All on the CPU, by the pipeline's decoder, into pinned memory, and copied from there. There are
// two such memories: one is copied while the next picture is decoded into the other.
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "runtime/gpu/decode_stream.h"
#include "runtime/gpu/decode_worker.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/prepare/decode.h"

namespace batchflow::gpu {
namespace {

using Clock = std::chrono::steady_clock;
using prepare::PictureBuffer;

constexpr std::size_t kPinnedLeast = std::size_t{4} << 20;

class CpuWorker final : public DecodeWorker {
 public:
  ~CpuWorker() override {
    for (Side& side : sides_)
      if (side.pinned) cudaFreeHost(side.pinned);
  }

  bool open() {
    for (Side& side : sides_)
      if (!side.event.open() || !have(side, kPinnedLeast)) return false;
    return stream_.open();
  }

  void run(DecodeQueue& queue) override {
    std::size_t next = 0;
    while (true) {
      const bool busy = sides_[0].job || sides_[1].job;
      auto jobs = queue.take(JpegWay::cpu, {1, 1, std::chrono::microseconds(busy ? 1 : 0), true});
      if (jobs.empty()) {
        finish(queue, sides_[next]);
        finish(queue, sides_[1 - next]);
        if (busy) continue;
        return;
      }
      const auto begin = Clock::now();
      finish(queue, sides_[next]);
      const std::uint64_t units = jobs[0].units;
      start(queue, sides_[next], std::move(jobs[0]));
      queue.served(JpegWay::cpu, 1, units, Clock::now() - begin);
      next = 1 - next;
    }
  }

 private:
  struct Side {
    std::byte* pinned = nullptr;
    std::size_t bytes = 0;
    PictureBuffer picture;
    DecodeEvent event;
    std::optional<DecodeQueue::Job> job;  // that is being copied
  };

  static bool have(Side& side, std::size_t bytes) {
    if (side.bytes >= bytes) return true;
    if (side.pinned) cudaFreeHost(side.pinned);
    side.pinned = nullptr;
    side.bytes = 0;
    void* memory = nullptr;
    if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) != cudaSuccess) {
      (void)cudaGetLastError();
      return false;
    }
    side.pinned = static_cast<std::byte*>(memory);
    side.bytes = bytes;
    return true;
  }

  void start(DecodeQueue& queue, Side& side, DecodeQueue::Job&& job) try {
    const memory::MayRunOutOfMemory may;
    if (!decoder_->open(job.picture.bytes, {})) return refuse(queue, std::move(job));
    const prepare::Extent2 extent = decoder_->extent();
    const kernels::Extent2 same{extent.width, extent.height};
    if (same != job.extent)  // the header was read in two ways
      return queue.not_decoded(std::move(job), JpegStatus::corrupt, "it has two sizes");
    const std::size_t bytes = PictureBuffer::bytes(extent);
    if (!have(side, bytes))
      return queue.not_decoded(std::move(job), JpegStatus::failed, "no pinned memory is left");
    side.picture.make_in(side.pinned, extent);
    const prepare::Box part = decoder_->decode(prepare::whole(extent), side.picture);
    if (part != prepare::whole(extent)) return refuse(queue, std::move(job));
    decoder_->end();
    if (cudaMemcpyAsync(job.picture.pixels, side.picture.pixels(), bytes - PictureBuffer::kHeader,
                        cudaMemcpyHostToDevice, stream_.get()) != cudaSuccess ||
        !side.event.record(stream_.get())) {
      (void)cudaGetLastError();
      return queue.not_decoded(std::move(job), JpegStatus::failed, "the GPU failed");
    }
    side.job = std::move(job);
  } catch (const std::bad_alloc&) {
    queue.not_decoded(std::move(job), JpegStatus::failed, "no memory is left");
  }

  void refuse(DecodeQueue& queue, DecodeQueue::Job&& job) {
    const bool memory = decoder_->ran_out_of_memory();
    decoder_->end();
    queue.not_decoded(std::move(job), memory ? JpegStatus::failed : JpegStatus::corrupt,
                      memory ? "no memory is left" : "the CPU's decoder finds it damaged");
  }

  void finish(DecodeQueue& queue, Side& side) {
    if (!side.job) return;
    const bool ended = side.event.wait();
    if (!ended) (void)cudaGetLastError();
    DecodeQueue::Job job = std::move(*side.job);
    side.job.reset();
    if (ended)
      queue.decoded(std::move(job));
    else
      queue.not_decoded(std::move(job), JpegStatus::failed, "the GPU failed");
  }

  std::unique_ptr<prepare::Decoder> decoder_ = prepare::make_jpeg_decoder();
  Side sides_[2];
  DecodeStream stream_;
};

}  // namespace

std::unique_ptr<DecodeWorker> make_cpu_worker(std::string& problem) {
  auto worker = std::make_unique<CpuWorker>();
  if (worker->open()) return worker;
  (void)cudaGetLastError();
  problem = "the GPU gives no stream, event or pinned memory";
  return nullptr;
}

}  // namespace batchflow::gpu
