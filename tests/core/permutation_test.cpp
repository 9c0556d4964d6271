#include "core/order/permutation.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/order/keys.h"

namespace batchflow::test::permutation_test {

namespace {

constexpr std::uint64_t kKey = hash(1, 2, 3);

std::vector<std::uint64_t> first_samples(const order::Permutation& permutation, std::size_t count) {
  std::vector<std::uint64_t> things(count);
  permutation.fill(0, things);
  return things;
}

using List = std::vector<std::uint64_t>;

// Every sample at one index, and the inverse finds it.
bool is_bijection_with_inverse(const order::Permutation& permutation) {
  std::vector<bool> seen(permutation.size());
  for (std::uint64_t index = 0; index < permutation.size(); ++index) {
    const std::uint64_t sample = permutation(index);
    if (sample >= permutation.size() || seen[sample] || permutation.index_of(sample) != index) {
      return false;
    }
    seen[sample] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("golden values: a network over 1,281,167 indices") {
  const order::Permutation permutation(kKey, 1281167);
  CHECK(first_samples(permutation, 6) == List{1215657, 1208498, 296845, 233270, 781634, 485813});
  CHECK(permutation.index_of(0) == 848801);
  std::uint64_t fold = 0;
  for (std::uint64_t index = 0; index < permutation.size(); ++index) {
    fold = mix(fold ^ permutation(index));
  }
  CHECK(fold == 0x501f32ee5c3059d0);
}

TEST_CASE("golden values: other sizes, and a table") {
  CHECK(first_samples(order::Permutation(kKey, 1'000'000'000), 3) ==
        List{585994599, 409207765, 540064518});
  CHECK(first_samples(order::Permutation(kKey, 65537), 4) == List{42795, 35370, 20425, 6374});
  CHECK(first_samples(order::Permutation(kKey, 10), 10) == List{8, 3, 1, 4, 0, 5, 6, 7, 2, 9});
}

TEST_CASE("a bijection with an exact inverse at every size up to 400 and around the table's most") {
  for (std::uint64_t n = 0; n <= 400; ++n) {
    INFO("n = " << n);
    REQUIRE(is_bijection_with_inverse(order::Permutation(hash(9, n), n)));
  }
  for (std::uint64_t n = order::Permutation::kTableMost - 1;
       n <= order::Permutation::kTableMost + 2; ++n) {
    INFO("n = " << n);
    REQUIRE(is_bijection_with_inverse(order::Permutation(hash(9, n), n)));
  }
}

TEST_CASE("the inverse is exact at the greatest size") {
  const order::Permutation permutation(kKey, order::kSamplesMost);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t index = Random(hash(8, i)).below(order::kSamplesMost);
    REQUIRE(permutation(index) < order::kSamplesMost);
    REQUIRE(permutation.index_of(permutation(index)) == index);
  }
}

TEST_CASE("runs of indices equal single indices") {
  for (const std::uint64_t n : {std::uint64_t{1000}, std::uint64_t{70'001}}) {
    for (const order::Permutation& permutation :
         {order::Permutation(kKey, n), order::Permutation::identity(n)}) {
      Random random(hash(7, n));
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t first = random.below(n);
        std::vector<std::uint64_t> run(random.below(n - first + 1));
        permutation.fill(first, run);
        for (std::size_t k = 0; k < run.size(); k += 17) REQUIRE(run[k] == permutation(first + k));
      }
    }
  }
}

TEST_CASE("keys differ by every word") {
  const order::KeyRoot root{2, 3};
  CHECK(order::generation_key(root, 4) == hash(1, 2, 3, 4));
  CHECK(order::recut_key(root, 4, 5, 6) == hash(2, 2, 3, 4, 5, 6));
  CHECK(order::draw_key(root, 4, 5, SampleId(6)) == hash(3, 2, 3, 4, 5, 6));
  CHECK(order::occurrence_draw_key(root, 4, SampleId(6), 7) == hash(3, 2, 3, 4, 0, 6, 7));
  CHECK(order::lane_choice_key(root, 4, 5, 6) == hash(4, 2, 3, 4, 5, 6));
  CHECK(order::replacement_key(root, 4, 5, SampleId(6), 7) == hash(5, 2, 3, 4, 5, 6, 7));
  CHECK(order::weighted_key(root, 4) == hash(6, 2, 3, 4));
  CHECK(order::rehearsal_key(root, 4, 5, 6) == hash(7, 2, 3, 4, 5, 6));
  CHECK(order::documents_key(4, 5) == hash(11, 4, 5));
  CHECK(order::step_seed(5, 1) != order::step_seed(5, 2));
}

TEST_SUITE("long") {
  TEST_CASE("a bijection with an exact inverse at every size up to 4000 and at well-known ones") {
    for (std::uint64_t n = 0; n <= 4000; ++n) {
      INFO("n = " << n);
      REQUIRE(is_bijection_with_inverse(order::Permutation(hash(9, n), n)));
    }
    for (const std::uint64_t n : {65536, 70001, 999983, 1281167}) {
      INFO("n = " << n);
      REQUIRE(is_bijection_with_inverse(order::Permutation(kKey, n)));
    }
  }

  TEST_CASE("the inverse is exact at a million indices of the greatest size") {
    const order::Permutation permutation(kKey, order::kSamplesMost);
    for (std::uint64_t i = 0; i < 1'000'000; ++i) {
      const std::uint64_t index = Random(hash(8, i)).below(order::kSamplesMost);
      REQUIRE(permutation.index_of(permutation(index)) == index);
    }
  }
}

}  // namespace batchflow::test::permutation_test
