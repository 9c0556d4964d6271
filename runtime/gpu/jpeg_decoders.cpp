#include "runtime/gpu/jpeg_decoders.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/gpu/decode_worker.h"

namespace batchflow::gpu {

struct JpegDecoders::Parts {
  Parts(DecodeWorkers&& made, const Options& options)
      : queue(DecodeShares(made.ways, options.hardware_share)),
        workers(std::move(made.all)),
        notes(std::move(made.notes)) {
    for (const auto& worker : workers)
      threads.emplace_back([this, run = worker.get(), device = options.device] {
        use_device(device);
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
  DecodeWorkers workers = open_workers(options, problem);
  if (workers.all.empty()) return nullptr;
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
