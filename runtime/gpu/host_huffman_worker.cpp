// The codes are read on the CPU, and the GPU's cores make the pixels. There are two sets of
// buffers: while the GPU makes one picture, the CPU reads the codes of the next.
#include <chrono>
#include <optional>
#include <utility>

#include "runtime/gpu/decode_stream.h"
#include "runtime/gpu/decode_worker.h"
#include "runtime/gpu/nvjpeg_library.h"

namespace batchflow::gpu {
namespace {

using Clock = std::chrono::steady_clock;

class HostHuffmanWorker final : public DecodeWorker {
 public:
  explicit HostHuffmanWorker(const NvjpegLibrary& nvjpeg) : nvjpeg_(nvjpeg) {}

  ~HostHuffmanWorker() override {
    for (Side& side : sides_) {
      if (side.state) nvjpeg_.JpegStateDestroy(side.state);
      if (side.pinned) nvjpeg_.BufferPinnedDestroy(side.pinned);
      if (side.device) nvjpeg_.BufferDeviceDestroy(side.device);
      if (side.jpeg) nvjpeg_.JpegStreamDestroy(side.jpeg);
    }
    if (params_) nvjpeg_.DecodeParamsDestroy(params_);
    if (decoder_) nvjpeg_.DecoderDestroy(decoder_);
    if (handle_) nvjpeg_.Destroy(handle_);
  }

  nvjpegStatus_t open() {
    nvjpegStatus_t status = nvjpeg_.CreateEx(NVJPEG_BACKEND_HYBRID, nullptr, nullptr,
                                             NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION, &handle_);
    const auto then = [&](auto&& call) {
      if (status == NVJPEG_STATUS_SUCCESS) status = call();
    };
    then([&] { return nvjpeg_.DecoderCreate(handle_, NVJPEG_BACKEND_HYBRID, &decoder_); });
    then([&] { return nvjpeg_.DecodeParamsCreate(handle_, &params_); });
    then([&] { return nvjpeg_.DecodeParamsSetOutputFormat(params_, NVJPEG_OUTPUT_RGBI); });
    for (Side& side : sides_) {
      then([&] { return nvjpeg_.DecoderStateCreate(handle_, decoder_, &side.state); });
      then([&] { return nvjpeg_.BufferPinnedCreate(handle_, nullptr, &side.pinned); });
      then([&] { return nvjpeg_.BufferDeviceCreate(handle_, nullptr, &side.device); });
      then([&] { return nvjpeg_.StateAttachPinnedBuffer(side.state, side.pinned); });
      then([&] { return nvjpeg_.StateAttachDeviceBuffer(side.state, side.device); });
      then([&] { return nvjpeg_.JpegStreamCreate(handle_, &side.jpeg); });
      then([&] { return side.event.open() ? status : NVJPEG_STATUS_ALLOCATOR_FAILURE; });
    }
    then([&] { return stream_.open() ? status : NVJPEG_STATUS_ALLOCATOR_FAILURE; });
    return status;
  }

  void run(DecodeQueue& queue) override {
    std::size_t next = 0;
    while (true) {
      // With pictures on the GPU it does not wait for others.
      const bool busy = sides_[0].job || sides_[1].job;
      auto jobs =
          queue.take(JpegWay::host_huffman, {1, 1, std::chrono::microseconds(busy ? 1 : 0), true});
      if (jobs.empty()) {
        finish(queue, sides_[next]);  // the older one first
        finish(queue, sides_[1 - next]);
        if (busy) continue;
        return;
      }
      Side& side = sides_[next];
      const auto begin = Clock::now();
      finish(queue, side);
      const std::uint64_t units = jobs[0].units;
      start(queue, side, std::move(jobs[0]));
      queue.served(JpegWay::host_huffman, 1, units, Clock::now() - begin);
      next = 1 - next;
    }
  }

 private:
  struct Side {
    nvjpegJpegState_t state = nullptr;
    nvjpegBufferPinned_t pinned = nullptr;
    nvjpegBufferDevice_t device = nullptr;
    nvjpegJpegStream_t jpeg = nullptr;
    DecodeEvent event;
    std::optional<DecodeQueue::Job> job;  // that the GPU has
  };

  void start(DecodeQueue& queue, Side& side, DecodeQueue::Job&& job) {
    const nvjpegStatus_t status = submit(side, job);
    // What was submitted before the failure may still run.
    if (status != NVJPEG_STATUS_SUCCESS && cudaStreamSynchronize(stream_.get()) != cudaSuccess)
      return queue.not_decoded(std::move(job), JpegStatus::failed, "the GPU failed");
    switch (status) {
      case NVJPEG_STATUS_SUCCESS:
        break;
      case NVJPEG_STATUS_BAD_JPEG:
      case NVJPEG_STATUS_INCOMPLETE_BITSTREAM:
        return queue.not_decoded(std::move(job), JpegStatus::corrupt, text_of(status));
      case NVJPEG_STATUS_JPEG_NOT_SUPPORTED:
      case NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED:
      case NVJPEG_STATUS_INVALID_PARAMETER:
        return queue.not_decoded(std::move(job), JpegStatus::unsupported, text_of(status));
      default:
        return queue.not_decoded(std::move(job), JpegStatus::failed, text_of(status));
    }
    side.job = std::move(job);
    if (!side.event.record(stream_.get())) fail(queue, side);
  }

  nvjpegStatus_t submit(Side& side, const DecodeQueue::Job& job) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(job.picture.bytes.data());
    nvjpegImage_t out{};
    out.channel[0] = job.picture.pixels;
    out.pitch[0] = row_bytes(job.extent);
    nvjpegStatus_t status =
        nvjpeg_.JpegStreamParse(handle_, bytes, job.picture.bytes.size(), 0, 0, side.jpeg);
    int refused = 0;
    const auto then = [&](auto&& call) {
      if (status == NVJPEG_STATUS_SUCCESS) status = call();
    };
    then([&] { return nvjpeg_.DecoderJpegSupported(decoder_, side.jpeg, params_, &refused); });
    then([&] { return refused ? NVJPEG_STATUS_JPEG_NOT_SUPPORTED : status; });
    then([&] { return nvjpeg_.DecodeJpegHost(handle_, decoder_, side.state, params_, side.jpeg); });
    then([&] {
      return nvjpeg_.DecodeJpegTransferToDevice(handle_, decoder_, side.state, side.jpeg,
                                                stream_.get());
    });
    then([&] {
      return nvjpeg_.DecodeJpegDevice(handle_, decoder_, side.state, &out, stream_.get());
    });
    return status;
  }

  void finish(DecodeQueue& queue, Side& side) {
    if (!side.job) return;
    if (!side.event.wait()) return fail(queue, side);
    queue.decoded(std::move(*side.job));
    side.job.reset();
  }
  void fail(DecodeQueue& queue, Side& side) {
    (void)cudaGetLastError();
    queue.not_decoded(std::move(*side.job), JpegStatus::failed, "the GPU failed");
    side.job.reset();
  }

  const NvjpegLibrary& nvjpeg_;
  nvjpegHandle_t handle_ = nullptr;
  nvjpegJpegDecoder_t decoder_ = nullptr;
  nvjpegDecodeParams_t params_ = nullptr;
  Side sides_[2];
  DecodeStream stream_;
};

}  // namespace

std::unique_ptr<DecodeWorker> make_host_huffman_worker(const NvjpegLibrary& nvjpeg,
                                                       std::string& problem) {
  auto worker = std::make_unique<HostHuffmanWorker>(nvjpeg);
  const nvjpegStatus_t status = worker->open();
  if (status == NVJPEG_STATUS_SUCCESS) return worker;
  problem = text_of(status);
  return nullptr;
}

}  // namespace batchflow::gpu
