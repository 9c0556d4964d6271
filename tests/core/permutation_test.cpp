#include "core/order/permutation.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/order/keys.h"

namespace batchflow::test::permutation_test {

namespace {

constexpr std::uint64_t kKey = hash(1, 2, 3);

std::vector<std::uint64_t> first_places(const order::Permutation& permutation, std::size_t count) {
  std::vector<std::uint64_t> things(count);
  permutation.fill(0, things);
  return things;
}

using List = std::vector<std::uint64_t>;

// Every thing at one place, and the inverse finds it.
bool is_bijection_with_inverse(const order::Permutation& permutation) {
  std::vector<bool> seen(permutation.size());
  for (std::uint64_t place = 0; place < permutation.size(); ++place) {
    const std::uint64_t thing = permutation(place);
    if (thing >= permutation.size() || seen[thing] || permutation.index_of(thing) != place) {
      return false;
    }
    seen[thing] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("golden values: a network over 1,281,167 places") {
  const order::Permutation permutation(kKey, 1281167);
  CHECK(first_places(permutation, 6) == List{1215657, 1208498, 296845, 233270, 781634, 485813});
  CHECK(permutation.index_of(0) == 848801);
  std::uint64_t fold = 0;
  for (std::uint64_t place = 0; place < permutation.size(); ++place) {
    fold = mix(fold ^ permutation(place));
  }
  CHECK(fold == 0x501f32ee5c3059d0);
}

TEST_CASE("golden values: other sizes, and a table") {
  CHECK(first_places(order::Permutation(kKey, 1'000'000'000), 3) ==
        List{585994599, 409207765, 540064518});
  CHECK(first_places(order::Permutation(kKey, 65537), 4) == List{42795, 35370, 20425, 6374});
  CHECK(first_places(order::Permutation(kKey, 10), 10) == List{8, 3, 1, 4, 0, 5, 6, 7, 2, 9});
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
    const std::uint64_t place = Random(hash(8, i)).below(order::kSamplesMost);
    REQUIRE(permutation(place) < order::kSamplesMost);
    REQUIRE(permutation.index_of(permutation(place)) == place);
  }
}

TEST_CASE("runs of places equal single places") {
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

  TEST_CASE("the inverse is exact at a million places of the greatest size") {
    const order::Permutation permutation(kKey, order::kSamplesMost);
    for (std::uint64_t i = 0; i < 1'000'000; ++i) {
      const std::uint64_t place = Random(hash(8, i)).below(order::kSamplesMost);
      REQUIRE(permutation.index_of(permutation(place)) == place);
    }
  }
}

}  // namespace batchflow::test::permutation_test
