// Pictures on their way through decoders that are simulated: which status each ends with, and that
// each batch ends, whatever fails.
#include "runtime/gpu/decode_queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/gpu/jpegs.h"

namespace batchflow::gpu {
namespace {

constexpr JpegWays kGpu =
    only(JpegWay::host_huffman) | only(JpegWay::cuda) | only(JpegWay::hardware);

std::array<DecodeShares::Way, kJpegWays> ways(JpegWays there) {
  std::array<DecodeShares::Way, kJpegWays> ways{};
  for (std::size_t i = 0; i < kJpegWays; ++i)
    if (has(there, static_cast<JpegWay>(i))) ways[i] = {1, i == 3 ? 1.0 : 5.0};
  return ways;
}

struct Batch {
  explicit Batch(std::vector<std::vector<std::byte>> files_of) : files(std::move(files_of)) {
    for (const auto& file : files) pictures.push_back({file, nullptr, 1 << 20});
    results.resize(files.size());
  }
  std::vector<std::vector<std::byte>> files;
  std::vector<JpegPicture> pictures;
  std::vector<JpegResult> results;
  int done = 0;
};

void add(DecodeQueue& queue, Batch& batch) {
  queue.add(batch.pictures, batch.results, [&] { ++batch.done; });
}

TEST_CASE("what is no JPEG, or has no room, ends at once with its reason") {
  DecodeQueue queue{DecodeShares(ways(kGpu | only(JpegWay::cpu)))};
  Batch batch({{}, {std::byte{0xff}}, test::jpeg({1 << 10, 1 << 10})});
  add(queue, batch);
  CHECK(batch.done == 1);
  CHECK(batch.results[0].status == JpegStatus::corrupt);
  CHECK(batch.results[1].status == JpegStatus::corrupt);
  CHECK(batch.results[2].status == JpegStatus::no_room);
  CHECK(batch.results[2].extent == kernels::Extent2{1 << 10, 1 << 10});
}

TEST_CASE("an empty batch is done") {
  DecodeQueue queue{DecodeShares(ways(kGpu))};
  Batch batch({});
  add(queue, batch);
  CHECK(batch.done == 1);
}

TEST_CASE("a picture that only a CPU decodes is not lost where there is none") {
  DecodeQueue queue{DecodeShares(ways(kGpu))};
  test::Jpeg cmyk{20, 10};
  cmyk.components = 4;
  Batch batch({test::jpeg(cmyk)});
  add(queue, batch);
  CHECK(batch.done == 1);
  CHECK(batch.results[0].status == JpegStatus::unsupported);
}

TEST_CASE("a picture goes from the engines to the GPU's cores to the CPU, which decides") {
  DecodeQueue queue{DecodeShares(ways(kGpu | only(JpegWay::cpu)))};
  Batch batch({test::jpeg({20, 10})});
  add(queue, batch);
  for (const JpegWay way : {JpegWay::hardware, JpegWay::host_huffman, JpegWay::cpu}) {
    CHECK(batch.done == 0);
    auto jobs = queue.take(way, {});
    REQUIRE(jobs.size() == 1);
    CHECK(jobs[0].choice.way == way);
    queue.not_decoded(std::move(jobs[0]), JpegStatus::corrupt, name_of(way));
  }
  CHECK(batch.done == 1);
  CHECK(batch.results[0].status == JpegStatus::corrupt);
  CHECK(std::string(batch.results[0].why) == "cpu");
}

TEST_CASE("without a CPU's way the GPU's last word is the result") {
  DecodeQueue queue{DecodeShares(ways(only(JpegWay::hardware)))};
  Batch batch({test::jpeg({20, 10})});
  add(queue, batch);
  auto jobs = queue.take(JpegWay::hardware, {});
  queue.not_decoded(std::move(jobs.at(0)), JpegStatus::failed, "it is lost");
  CHECK(batch.done == 1);
  CHECK(batch.results[0].status == JpegStatus::failed);
}

TEST_CASE("a thread with nothing to do takes what waits longest elsewhere, the last first") {
  auto uneven = ways(only(JpegWay::hardware) | only(JpegWay::host_huffman));
  uneven[1].ns_each_unit = 19;  // so all 16 pictures go to the engines at first
  DecodeQueue queue{DecodeShares(uneven)};
  Batch batch(std::vector<std::vector<std::byte>>(16, test::jpeg({20, 10})));
  add(queue, batch);
  // The last waits as long as 16 pictures of the engines take: less than one takes here.
  CHECK(queue.take(JpegWay::host_huffman, {1, 1, std::chrono::microseconds(1), true}).empty());
  // Now it is known that one takes no time here.
  queue.served(JpegWay::host_huffman, 1, 1000, std::chrono::nanoseconds(1));
  auto taken = queue.take(JpegWay::host_huffman, {1, 1, std::chrono::microseconds(1), true});
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].index == 15);
  CHECK(taken[0].choice.way == JpegWay::host_huffman);
  auto rest = queue.take(JpegWay::hardware, {64, 1, {}, false});
  CHECK(rest.size() == 15);
  // Nothing is left to take over.
  CHECK(queue.take(JpegWay::host_huffman, {1, 1, std::chrono::microseconds(1), true}).empty());
  queue.decoded(std::move(taken[0]));
  for (auto& job : rest) queue.decoded(std::move(job));
  CHECK(batch.done == 1);
  CHECK(queue.decoded_by(JpegWay::hardware) == 15);
  CHECK(queue.decoded_by(JpegWay::host_huffman) == 1);
}

TEST_CASE("a share that is set is kept though a thread has nothing to do") {
  DecodeQueue queue{DecodeShares(ways(only(JpegWay::hardware) | only(JpegWay::host_huffman)), 1.0)};
  Batch batch(std::vector<std::vector<std::byte>>(20, test::jpeg({20, 10})));
  add(queue, batch);
  CHECK(queue.take(JpegWay::host_huffman, {1, 1, std::chrono::microseconds(1), true}).empty());
  auto all = queue.take(JpegWay::hardware, {64, 1, {}, false});
  CHECK(all.size() == 20);
  for (auto& job : all) queue.decoded(std::move(job));
  CHECK(batch.done == 1);
}

TEST_CASE("batches of several threads all end, though ways fail at random") {
  DecodeQueue queue{DecodeShares(ways(kGpu | only(JpegWay::cpu)))};
  std::vector<std::thread> decoders;
  for (std::size_t i = 0; i < kJpegWays; ++i)
    decoders.emplace_back([&, i, way = static_cast<JpegWay>(i)] {
      const bool many = way == JpegWay::hardware || way == JpegWay::cuda;
      std::uint64_t draw = i + 1;
      while (true) {
        auto jobs = queue.take(way, {many ? 8u : 1u, 1, {}, !many});
        if (jobs.empty()) return;
        queue.served(way, 1, 100, std::chrono::microseconds(1));
        for (auto& job : jobs) {
          draw = draw * 6364136223846793005u + 1442695040888963407u;
          if (draw >> 62 == 0)
            queue.not_decoded(std::move(job), JpegStatus::corrupt, "by chance");
          else
            queue.decoded(std::move(job));
        }
      }
    });
  std::atomic<int> ended{0};
  constexpr int kBatches = 200;
  std::vector<std::vector<JpegResult>> results(kBatches, std::vector<JpegResult>(32));
  const auto file = test::jpeg({20, 10});
  const std::vector<JpegPicture> pictures(32, JpegPicture{file, nullptr, 4096});
  for (auto& result : results) queue.add(pictures, result, [&] { ++ended; });
  queue.close();
  for (std::thread& decoder : decoders) decoder.join();
  CHECK(ended == kBatches);
  std::size_t good = 0, corrupt = 0;
  for (const auto& result : results)
    for (const JpegResult& one : result) {
      good += one.status == JpegStatus::decoded;
      corrupt += one.status == JpegStatus::corrupt;
    }
  CHECK(good + corrupt == kBatches * 32);
  CHECK(good > corrupt);

  Batch late({file});
  add(queue, late);
  CHECK(late.done == 1);
  CHECK(late.results[0].status == JpegStatus::failed);
}

}  // namespace
}  // namespace batchflow::gpu
