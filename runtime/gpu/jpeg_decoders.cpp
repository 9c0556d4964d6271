#include "runtime/gpu/jpeg_decoders.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/gpu/decode_worker.h"
#ifdef BATCHFLOW_NVJPEG_HEADER
#include "runtime/gpu/nvjpeg_library.h"
#endif

namespace batchflow::gpu {
namespace {

// Nanoseconds a unit of one thread, about, on an H100: what is measured takes their place.
constexpr double kGuess[kJpegWays] = {12, 5, 0.6, 0.5};

struct Workers {
  std::array<DecodeShares::Way, kJpegWays> ways{};
  std::vector<std::unique_ptr<DecodeWorker>> all;
  std::vector<std::string> notes;

  template <class Make>
  void add(JpegWay way, unsigned threads, Make&& make) {
    unsigned& lanes = ways[static_cast<std::size_t>(way)].lanes;
    ways[static_cast<std::size_t>(way)].ns_each_unit = kGuess[static_cast<std::size_t>(way)];
    std::string problem;
    for (; lanes < threads; ++lanes) {
      std::unique_ptr<DecodeWorker> worker = make(problem);
      if (!worker) break;
      all.push_back(std::move(worker));
    }
    if (lanes < threads)
      notes.push_back(std::string(name_of(way)) + ": " + std::to_string(lanes) + " of " +
                      std::to_string(threads) + " threads, because " + problem);
    else if (threads > 0)
      notes.push_back(std::string(name_of(way)) + ": " + std::to_string(threads) + " threads");
  }
};

void add_nvjpeg(Workers& workers, const JpegDecoders::Options& options) {
#ifdef BATCHFLOW_NVJPEG_HEADER
  std::string problem;
  const NvjpegLibrary* const nvjpeg = nvjpeg_library(problem);
  if (!nvjpeg) {
    workers.notes.push_back("decoded on the CPU alone, because " + problem);
    return;
  }
  workers.notes.push_back("nvJPEG " + nvjpeg->version);
  workers.add(JpegWay::hardware, options.hardware_threads, [&](std::string& why) {
    return make_batched_worker(*nvjpeg, JpegWay::hardware, options.hardware_pictures, why);
  });
  const bool has_engines = workers.ways[static_cast<std::size_t>(JpegWay::hardware)].lanes > 0;
  const unsigned cuda_threads =
      has_engines && !options.cuda_beside_engines ? 0 : options.cuda_threads;
  workers.add(JpegWay::cuda, cuda_threads, [&](std::string& why) {
    return make_batched_worker(*nvjpeg, JpegWay::cuda, options.cuda_pictures, why);
  });
  workers.add(JpegWay::host_huffman, options.host_huffman_threads,
              [&](std::string& why) { return make_host_huffman_worker(*nvjpeg, why); });
#else
  (void)options;
  workers.notes.push_back("decoded on the CPU alone, because this was built without nvJPEG");
#endif
}

}  // namespace

struct JpegDecoders::Parts {
  Parts(Workers&& made, const Options& options)
      : queue(DecodeShares(made.ways, options.hardware_share)),
        workers(std::move(made.all)),
        notes(std::move(made.notes)) {
    for (const auto& worker : workers)
      threads.emplace_back([this, run = worker.get(), device = options.device] {
        (void)cudaSetDevice(device);
        run->run(queue);
      });
  }
  ~Parts() {
    queue.close();
    for (std::thread& thread : threads) thread.join();
  }

  DecodeQueue queue;
  std::vector<std::unique_ptr<DecodeWorker>> workers;
  std::vector<std::string> notes;
  std::vector<std::thread> threads;
};

JpegDecoders::Options JpegDecoders::options_for(unsigned cores) {
  Options options;
  // Of a picture the CPU's own decoder takes less of a core than nvJPEG's codes on the CPU do. The
  // threads of the engines must not wait for a core: some are left to them, and to the service.
  options.cpu_threads = cores > 8 ? cores - 4 : std::max(1u, cores / 2);
  return options;
}

std::unique_ptr<JpegDecoders> JpegDecoders::open(const Options& options, std::string& problem) {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    (void)cudaGetLastError();
    problem = std::string("no GPU can be used: ") + cudaGetErrorString(status);
    return nullptr;
  }
  if (options.device < 0 || options.device >= devices) {
    problem =
        "there is no GPU " + std::to_string(options.device) + ", but " + std::to_string(devices);
    return nullptr;
  }
  if (const cudaError_t status = cudaSetDevice(options.device); status != cudaSuccess) {
    (void)cudaGetLastError();
    problem = std::string("the GPU cannot be used: ") + cudaGetErrorString(status);
    return nullptr;
  }
  Workers workers;
  add_nvjpeg(workers, options);
  workers.add(JpegWay::cpu, options.cpu_threads, make_cpu_worker);
  if (workers.all.empty()) {
    problem = "no way of decoding is there";
    for (const std::string& note : workers.notes) problem += "; " + note;
    return nullptr;
  }
  return std::unique_ptr<JpegDecoders>(
      new JpegDecoders(std::make_unique<Parts>(std::move(workers), options)));
}

JpegDecoders::JpegDecoders(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
JpegDecoders::~JpegDecoders() = default;

void JpegDecoders::decode(std::span<const JpegPicture> pictures, std::span<JpegResult> results,
                          std::function<void()> done) {
  parts_->queue.add(pictures, results, std::move(done));
}

void JpegDecoders::decode(std::span<const JpegPicture> pictures, std::span<JpegResult> results) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  decode(pictures, results, [&] {
    std::lock_guard lock(mutex);
    done = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

std::uint64_t JpegDecoders::decoded_by(JpegWay way) const {
  return parts_->queue.decoded_by(way);
}
double JpegDecoders::late_ns(JpegWay way) const {
  return parts_->queue.late_ns(way);
}
const std::vector<std::string>& JpegDecoders::notes() const {
  return parts_->notes;
}

}  // namespace batchflow::gpu
