// Many pictures at once: by the GPU's decoder engines, or by its cores, codes and all.
#include <chrono>
#include <utility>
#include <vector>

#include "runtime/gpu/decode_stream.h"
#include "runtime/gpu/decode_worker.h"
#include "runtime/gpu/nvjpeg_library.h"

namespace batchflow::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// nvJPEG reads codes on the GPU's cores for more pictures than this alone.
constexpr std::size_t kCudaLeast = 51;

class BatchedWorker final : public DecodeWorker {
 public:
  BatchedWorker(const NvjpegLibrary& nvjpeg, JpegWay way, std::size_t pictures)
      : nvjpeg_(nvjpeg), way_(way), most_(pictures) {}

  ~BatchedWorker() override {
    if (state_) nvjpeg_.JpegStateDestroy(state_);
    if (jpeg_) nvjpeg_.JpegStreamDestroy(jpeg_);
    if (handle_) nvjpeg_.Destroy(handle_);
  }

  nvjpegStatus_t open() {
    const bool engines = way_ == JpegWay::hardware;
    nvjpegStatus_t status =
        nvjpeg_.CreateEx(engines ? NVJPEG_BACKEND_HARDWARE : NVJPEG_BACKEND_GPU_HYBRID, nullptr,
                         nullptr, NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION, &handle_);
    const auto then = [&](auto&& call) {
      if (status == NVJPEG_STATUS_SUCCESS) status = call();
    };
    then([&] {
      unsigned count = 1, cores = 0;
      // A GPU without engines may say so here alone.
      const nvjpegStatus_t said =
          engines ? nvjpeg_.GetHardwareDecoderInfo(handle_, &count, &cores) : status;
      return said == NVJPEG_STATUS_SUCCESS && count == 0 ? NVJPEG_STATUS_ARCH_MISMATCH : said;
    });
    then([&] { return nvjpeg_.JpegStateCreate(handle_, &state_); });
    then([&] { return nvjpeg_.JpegStreamCreate(handle_, &jpeg_); });
    then(
        [&] { return stream_.open() && event_.open() ? status : NVJPEG_STATUS_ALLOCATOR_FAILURE; });
    return status;
  }

  void run(DecodeQueue& queue) override {
    const std::size_t least = way_ == JpegWay::cuda ? kCudaLeast : 1;
    while (true) {
      auto jobs = queue.take(way_, {most_, least, std::chrono::microseconds(0), false});
      if (jobs.empty()) return;
      decode(queue, jobs);
    }
  }

 private:
  void decode(DecodeQueue& queue, std::vector<DecodeQueue::Job>& jobs) {
    const auto begin = Clock::now();
    std::uint64_t units = 0;
    std::vector<DecodeQueue::Job> mine;
    bytes_.clear();
    lengths_.clear();
    images_.clear();
    for (DecodeQueue::Job& job : jobs) {
      if (!supports(job)) {
        queue.not_decoded(std::move(job), JpegStatus::unsupported,
                          "nvJPEG does not decode its kind");
        continue;
      }
      nvjpegImage_t image{};
      image.channel[0] = job.picture.pixels;
      image.pitch[0] = row_bytes(job.extent);
      images_.push_back(image);
      bytes_.push_back(reinterpret_cast<const unsigned char*>(job.picture.bytes.data()));
      lengths_.push_back(job.picture.bytes.size());
      units += job.units;
      mine.push_back(std::move(job));
    }
    if (mine.empty()) return;
    const nvjpegStatus_t status = submit();
    // The engines may still write when the call has failed: wait in each case.
    const bool ended = event_.record(stream_.get()) && event_.wait();
    if (!ended) (void)cudaGetLastError();
    if (status == NVJPEG_STATUS_SUCCESS && ended)
      queue.served(way_, mine.size(), units, Clock::now() - begin);
    for (DecodeQueue::Job& job : mine) {
      if (!ended)
        queue.not_decoded(std::move(job), JpegStatus::failed, "the GPU failed");
      else if (status != NVJPEG_STATUS_SUCCESS)  // one of them is to blame, and none says which
        queue.not_decoded(std::move(job), JpegStatus::corrupt, text_of(status));
      else
        queue.decoded(std::move(job));
    }
  }

  bool supports(const DecodeQueue::Job& job) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(job.picture.bytes.data());
    int refused = 1;
    return nvjpeg_.JpegStreamParseHeader(handle_, bytes, job.picture.bytes.size(), jpeg_) ==
               NVJPEG_STATUS_SUCCESS &&
           nvjpeg_.DecodeBatchedSupported(handle_, jpeg_, &refused) == NVJPEG_STATUS_SUCCESS &&
           refused == 0;
  }

  nvjpegStatus_t submit() {
    // For each batch, also after one of the same size: it forgets a batch that failed.
    const nvjpegStatus_t status = nvjpeg_.DecodeBatchedInitialize(
        handle_, state_, static_cast<int>(images_.size()), 1, NVJPEG_OUTPUT_RGBI);
    if (status != NVJPEG_STATUS_SUCCESS) return status;
    return nvjpeg_.DecodeBatched(handle_, state_, bytes_.data(), lengths_.data(), images_.data(),
                                 stream_.get());
  }

  const NvjpegLibrary& nvjpeg_;
  const JpegWay way_;
  const std::size_t most_;
  nvjpegHandle_t handle_ = nullptr;
  nvjpegJpegState_t state_ = nullptr;
  nvjpegJpegStream_t jpeg_ = nullptr;
  std::vector<const unsigned char*> bytes_;
  std::vector<std::size_t> lengths_;
  std::vector<nvjpegImage_t> images_;
  DecodeStream stream_;
  DecodeEvent event_;
};

}  // namespace

std::unique_ptr<DecodeWorker> make_batched_worker(const NvjpegLibrary& nvjpeg, JpegWay way,
                                                  std::size_t pictures, std::string& problem) {
  auto worker = std::make_unique<BatchedWorker>(nvjpeg, way, pictures);
  const nvjpegStatus_t status = worker->open();
  if (status == NVJPEG_STATUS_SUCCESS) return worker;
  problem = text_of(status);
  return nullptr;
}

}  // namespace batchflow::gpu
