#include "runtime/storage/read_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"
#include "runtime/storage/reader.h"

namespace batchflow::storage {
namespace {

constexpr unsigned kDepthMost = 4096;
constexpr unsigned kThreadsMost = 1024;

class Engine final : public ReadEngine {
 public:
  Engine(const ReadEngineOptions& options, Done done)
      : staging_(std::make_shared<Staging>(options.staging)),
        done_queue_(std::make_shared<ResultQueue>(std::move(done))) {
    Started ring{.reader = nullptr, .description = ""};
    if (options.engine != "pread") {
      ring = start_uring(options, staging_, done_queue_);
      if (ring.reader == nullptr && options.engine == "io_uring") {
        throw std::runtime_error(
            fmt::format("the kernel refuses io_uring: {}; write auto or pread", ring.description));
      }
    }
    Started started = ring.reader ? ring : start_pool(options, staging_, done_queue_);
    reader_ = std::move(started.reader);
    description_ = std::move(started.description);
    if (!ring.reader && !ring.description.empty()) {
      description_ += fmt::format(", since io_uring is refused: {}", ring.description);
    }
    if (!options.direct) description_ += ", through the page cache";
  }
  ~Engine() override {
    reader_->end();
    done_queue_->close();
  }

  std::string_view description() const override { return description_; }
  void submit(std::span<const ReadPiece> pieces) override {
    for (const ReadPiece& piece : pieces) {
      BF_CHECK((piece.path != nullptr || piece.fd >= 0) && piece.to != nullptr);
      BF_CHECK(!piece.write || piece.fd >= 0);
      BF_CHECK(reinterpret_cast<std::uintptr_t>(piece.to) % kSector == 0);
    }
    if (!pieces.empty()) reader_->submit(pieces);
  }
  std::byte* stage(Bytes bytes) override { return staging_->take(bytes); }
  void unstage(std::byte* memory) override { staging_->give_back(memory); }
  Bytes staging_bytes() const override { return staging_->bytes(); }
  void close_root(int root) override { reader_->close_root(root); }

 private:
  std::shared_ptr<Staging> staging_;
  std::shared_ptr<ResultQueue> done_queue_;
  std::shared_ptr<Reader> reader_;
  std::string description_;
};

void check(bool good, std::string_view what) {
  if (!good) throw std::runtime_error(std::string(what));
}

}  // namespace

// There are four lanes, so that the multiplications of one do not wait for those of another. With
// the word known each step can be undone, so a difference in a single word is never lost.
Digest checksum(const std::byte* bytes, Bytes count) {
  std::uint64_t lanes[4] = {count, kGolden, ~count, ~kGolden};
  const auto add = [](std::uint64_t& lane, const std::byte* from, Bytes length) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, length);
    lane = std::rotl((lane ^ word) * kGolden, 29);
  };
  Bytes at = 0;
  for (; at + 32 <= count; at += 32) {
    for (std::size_t i = 0; i < 4; ++i) add(lanes[i], bytes + at + 8 * i, 8);
  }
  for (std::size_t i = 0; at < count; ++i, at += 8)
    add(lanes[i], bytes + at, std::min<Bytes>(8, count - at));
  return mix(lanes[0]) + std::rotl(mix(lanes[1]), 16) + std::rotl(mix(lanes[2]), 32) +
         std::rotl(mix(lanes[3]), 48);
}

std::unique_ptr<ReadEngine> make_read_engine(const ReadEngineOptions& options,
                                             ReadEngine::Done done) {
  check(options.engine == "auto" || options.engine == "io_uring" || options.engine == "pread",
        fmt::format("no read engine `{}`; write auto, io_uring or pread", options.engine));
  check(options.depth >= 1 && options.depth <= kDepthMost,
        fmt::format("{} reads at once; write 1 to {}", options.depth, kDepthMost));
  check(options.threads >= 1 && options.threads <= kThreadsMost,
        fmt::format("{} reading threads; write 1 to {}", options.threads, kThreadsMost));
  return std::make_unique<Engine>(options, std::move(done));
}

}  // namespace batchflow::storage
