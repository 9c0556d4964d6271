// The decoders that a machine with CUDA can have.
#include <cuda_runtime_api.h>

#include "runtime/gpu/decode_worker.h"
#ifdef BATCHFLOW_NVJPEG_HEADER
#include "runtime/gpu/nvjpeg_library.h"
#endif

namespace batchflow::gpu {
namespace {

// Nanoseconds a unit of one thread, about, on an H100: what is measured takes their place.
constexpr double kGuess[kJpegWays] = {12, 5, 0.6, 0.5};

template <class Make>
void add(DecodeWorkers& workers, JpegWay way, unsigned threads, Make&& make) {
  unsigned& lanes = workers.ways[static_cast<std::size_t>(way)].lanes;
  workers.ways[static_cast<std::size_t>(way)].ns_each_unit = kGuess[static_cast<std::size_t>(way)];
  std::string problem;
  for (; lanes < threads; ++lanes) {
    std::unique_ptr<DecodeWorker> worker = make(problem);
    if (!worker) break;
    workers.all.push_back(std::move(worker));
  }
  if (lanes < threads)
    workers.notes.push_back(std::string(name_of(way)) + ": " + std::to_string(lanes) + " of " +
                            std::to_string(threads) + " threads, because " + problem);
  else if (threads > 0)
    workers.notes.push_back(std::string(name_of(way)) + ": " + std::to_string(threads) +
                            " threads");
}

void add_nvjpeg(DecodeWorkers& workers, const JpegDecoders::Options& options) {
#ifdef BATCHFLOW_NVJPEG_HEADER
  std::string problem;
  const NvjpegLibrary* const nvjpeg = nvjpeg_library(problem);
  if (!nvjpeg) {
    workers.notes.push_back("decoded on the CPU alone, because " + problem);
    return;
  }
  workers.notes.push_back("nvJPEG " + nvjpeg->version);
  add(workers, JpegWay::hardware, options.hardware_threads, [&](std::string& why) {
    return make_batched_worker(*nvjpeg, JpegWay::hardware, options.hardware_pictures, why);
  });
  const bool has_engines = workers.ways[static_cast<std::size_t>(JpegWay::hardware)].lanes > 0;
  const unsigned cuda_threads =
      has_engines && !options.cuda_beside_engines ? 0 : options.cuda_threads;
  add(workers, JpegWay::cuda, cuda_threads, [&](std::string& why) {
    return make_batched_worker(*nvjpeg, JpegWay::cuda, options.cuda_pictures, why);
  });
  add(workers, JpegWay::host_huffman, options.host_huffman_threads,
      [&](std::string& why) { return make_host_huffman_worker(*nvjpeg, why); });
#else
  (void)options;
  workers.notes.push_back("decoded on the CPU alone, because this was built without nvJPEG");
#endif
}

}  // namespace

DecodeWorkers open_workers(const JpegDecoders::Options& options, std::string& problem) {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    (void)cudaGetLastError();
    problem = std::string("no GPU can be used: ") + cudaGetErrorString(status);
    return {};
  }
  if (options.device < 0 || options.device >= devices) {
    problem =
        "there is no GPU " + std::to_string(options.device) + ", but " + std::to_string(devices);
    return {};
  }
  if (const cudaError_t status = cudaSetDevice(options.device); status != cudaSuccess) {
    (void)cudaGetLastError();
    problem = std::string("the GPU cannot be used: ") + cudaGetErrorString(status);
    return {};
  }
  DecodeWorkers workers;
  add_nvjpeg(workers, options);
  add(workers, JpegWay::cpu, options.cpu_threads, make_cpu_worker);
  if (workers.all.empty()) {
    problem = "no way of decoding is there";
    for (const std::string& note : workers.notes) problem += "; " + note;
  }
  return workers;
}

void use_device(int device) {
  (void)cudaSetDevice(device);
}

}  // namespace batchflow::gpu
