#include "core/order/lane_sizes.h"

#include <doctest/doctest.h>

namespace batchflow::test::lane_sizes_test {

namespace {

constexpr Bytes kBytes = Bytes{32} << 20;

}  // namespace

TEST_CASE("blocks are near the bytes that are asked for") {
  CHECK(order::block_samples_for(224 * 224 * 3, kBytes) == 256);
  CHECK(order::block_samples_for(224 * 224 * 3 * 4, kBytes) == 64);
  CHECK(order::block_samples_for(Bytes{2} << 20, kBytes) == 16);
  CHECK(order::block_samples_for(Bytes{32} << 20, kBytes) == 1);
  CHECK(order::block_samples_for(Bytes{1} << 40, kBytes) == 1);
  CHECK(order::block_samples_for(UINT64_MAX, kBytes) == 1);
  CHECK(order::block_samples_for(100, kBytes) == 4096);
  CHECK(order::block_samples_for(0, kBytes) == 4096);
}

TEST_CASE("a small dataset has some blocks all the same, as far as each has sixteen samples") {
  constexpr Bytes kPrepared = 224 * 224 * 3;
  CHECK(order::block_samples_for(kPrepared, kBytes, 100, 1) == 256);
  CHECK(order::block_samples_for(kPrepared, kBytes, 2048, 8) == 256);
  CHECK(order::block_samples_for(kPrepared, kBytes, 1792, 8) == 128);  // 7 blocks of 256
  CHECK(order::block_samples_for(kPrepared, kBytes, 1793, 8) == 256);
  CHECK(order::block_samples_for(kPrepared, kBytes, 640, 8) == 64);
  CHECK(order::block_samples_for(kPrepared, kBytes, 10, 8) == 16);
  CHECK(order::block_samples_for(Bytes{4} << 20, kBytes, 10, 8) ==
        8);  // they are smaller as they are
}

TEST_CASE("the nearest power of two, the greater one half-way") {
  const Bytes half_way = kBytes / 24;  // 24 of them and a bit: between 16 and 32
  CHECK(order::block_samples_for(half_way, kBytes) == 32);
  CHECK(order::block_samples_for(half_way + 1, kBytes) == 16);
}

TEST_CASE("lanes: at least 128 of them unless the window is large, at most 4096 blocks") {
  CHECK(order::lane_blocks_for(5005, 0) == 40);
  CHECK(order::lane_blocks_for(5005, 60) == 40);
  CHECK(order::lane_blocks_for(5005, 200) == 100);
  CHECK(order::lane_blocks_for(5005, 100'000) == 157);  // ceil(5005 / 32)
  CHECK(order::lane_blocks_for(1, 1) == 1);
  CHECK(order::lane_blocks_for(0, 0) == 1);
}

TEST_CASE("a thousand million samples make 954 lanes") {
  order::LaneSizes sizes{1'000'000'000, 256, 1};
  sizes.lane_blocks = order::lane_blocks_for(sizes.blocks(), 0);
  CHECK(sizes.lanes() == 954);
}

TEST_CASE("there are never more than 4,096 lanes: those of larger datasets are longer") {
  CHECK(order::lane_blocks_for(std::uint64_t{4096} * 4096, 0) == 4096);
  CHECK(order::lane_blocks_for(std::uint64_t{4096} * 4096 + 1, 0) == 4097);
  order::LaneSizes sizes{1'000'000'000'000, 1, 1};
  sizes.lane_blocks = order::lane_blocks_for(sizes.blocks(), 0);
  CHECK(sizes.lanes() == 4096);
}

TEST_CASE("a generation of runs has at most 4096 lanes, however little is kept") {
  for (const std::uint64_t samples : {1ull, 4096ull, 4097ull, 24'499ull, 1'000'000'000'000ull}) {
    for (const std::uint32_t block : {1u, 64u, 4096u}) {
      for (const std::uint64_t kept : {0ull, 1ull, 5000ull, 1'000'000ull}) {
        order::LaneSizes sizes{samples, block, 1};
        sizes.lane_blocks = order::lane_blocks_for(sizes.blocks(), 2);
        sizes.lane_blocks = order::lane_blocks_of_runs(sizes, 1, 2, kept);
        CHECK(sizes.lanes() <= order::kLanesMost);
        CHECK(sizes.lane_blocks <= order::lane_blocks_most(sizes.blocks()));
      }
    }
  }
}

}  // namespace batchflow::test::lane_sizes_test
