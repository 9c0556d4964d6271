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

void check(bool good, std::string_view what) {
  if (!good) throw std::runtime_error(std::string(what));
}

const ReadEngineOptions& checked(const ReadEngineOptions& options) {
  check(std::find(kEngines.begin(), kEngines.end(), options.engine) != kEngines.end(),
        fmt::format("no read engine `{}`; write auto, io_uring or pread", options.engine));
  check(options.depth >= 1 && options.depth <= kDepthMost,
        fmt::format("{} reads at once; write 1 to {}", options.depth, kDepthMost));
  check(options.threads >= 1 && options.threads <= kThreadsMost,
        fmt::format("{} reading threads; write 1 to {}", options.threads, kThreadsMost));
  return options;
}

// The reader by io_uring or, where the kernel refuses it and `options` allow it, the pool.
Started start_reader(const ReadEngineOptions& options, const std::shared_ptr<Staging>& staging,
                     const std::shared_ptr<ResultQueue>& done_queue) {
  if (options.engine == "pread") return start_pool(options, staging, done_queue);
  Started ring = start_uring(options, staging, done_queue);
  if (ring.reader) return ring;
  if (options.engine == "io_uring")
    throw std::runtime_error(
        fmt::format("the kernel refuses io_uring: {}; write auto or pread", ring.description));
  Started pool = start_pool(options, staging, done_queue);
  if (!ring.description.empty())
    pool.description += fmt::format(", since io_uring is refused: {}", ring.description);
  return pool;
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

ReadEngine::ReadEngine(const ReadEngineOptions& options, Done done)
    : staging_(std::make_shared<Staging>(checked(options).staging)),
      done_queue_(std::make_shared<ResultQueue>(std::move(done))) {
  Started started = start_reader(options, staging_, done_queue_);
  reader_ = std::move(started.reader);
  description_ = std::move(started.description);
  if (!options.direct) description_ += ", through the page cache";
}

ReadEngine::~ReadEngine() {
  reader_->end();
  done_queue_->close();
}

void ReadEngine::submit(std::span<const ReadPiece> pieces) {
  for (const ReadPiece& piece : pieces) {
    BF_CHECK((piece.path != nullptr || piece.fd >= 0) && piece.to != nullptr);
    BF_CHECK(!piece.write || piece.fd >= 0);
    BF_CHECK(reinterpret_cast<std::uintptr_t>(piece.to) % kSector == 0);
  }
  if (!pieces.empty()) reader_->submit(pieces);
}

std::byte* ReadEngine::stage(Bytes bytes) {
  return staging_->take(bytes);
}

void ReadEngine::unstage(std::byte* memory) {
  staging_->give_back(memory);
}

Bytes ReadEngine::staging_bytes() const {
  return staging_->bytes();
}

}  // namespace batchflow::storage
