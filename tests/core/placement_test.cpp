#include "core/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "core/random.h"

using namespace batchflow;

namespace {

constexpr Digest kVersion = 0x1234;

std::vector<NodeId> nodes(std::uint32_t count) {
  std::vector<NodeId> list;
  for (std::uint32_t i = 0; i < count; ++i) list.emplace_back(10 + 7 * i);
  return list;
}

}  // namespace

TEST_CASE("the owner is the node of the highest hash, whatever order and epoch the list has") {
  auto list = nodes(9);
  const Placement placement(1, list);
  std::reverse(list.begin(), list.end());
  const Placement reversed(2, list);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const NodeId expected = *std::max_element(list.begin(), list.end(), [&](NodeId a, NodeId b) {
      return hash(kVersion, i, a.value) < hash(kVersion, i, b.value);
    });
    REQUIRE(placement.owner(kVersion, SampleId(i)) == expected);
    REQUIRE(reversed.owner(kVersion, SampleId(i)) == expected);
  }
}

TEST_CASE("a join or a leave moves exactly what the node has, and nothing between the others") {
  constexpr std::uint64_t samples = 100'000;
  const auto all = nodes(10);
  for (std::size_t leaver = 0; leaver < all.size(); leaver += 3) {
    auto rest = all;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(leaver));
    const Placement before(1, all), after(2, rest);
    std::uint64_t owned = 0;
    std::uint64_t moved = 0;
    for (std::uint64_t i = 0; i < samples; ++i) {
      const NodeId had = before.owner(kVersion, SampleId(i));
      const NodeId has = after.owner(kVersion, SampleId(i));
      owned += had == all[leaver];
      moved += had != has;
      if (had != all[leaver]) REQUIRE(had == has);
    }
    CHECK(moved == owned);  // as each sample of the leaver must move, no other did
    // One tenth: sd sqrt(n p (1 - p)) = 94.9; z 4.75 is 451.
    CHECK(moved > 10'000 - 451);
    CHECK(moved < 10'000 + 451);
  }
}

TEST_CASE("samples spread evenly: chi-square, false alarm 10^-6") {
  // df 49: 111.6, as in the order rules.
  const Placement placement(1, nodes(50));
  std::vector<std::uint64_t> counts(50, 0);
  constexpr std::uint64_t samples = 200'000;
  for (std::uint64_t i = 0; i < samples; ++i) {
    ++counts[(placement.owner(kVersion, SampleId(i)).value - 10) / 7];
  }
  double chi_square = 0;
  for (const std::uint64_t count : counts) {
    const double off = static_cast<double>(count) - samples / 50.0;
    chi_square += off * off / (samples / 50.0);
  }
  CHECK(chi_square < 111.6);
  CHECK(chi_square > 15);  // too even would be no hash
}

TEST_CASE("the k owners are distinct, the first is the owner, the next its heir") {
  const auto all = nodes(6);
  const Placement placement(1, all);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    std::vector<NodeId> best(8);
    REQUIRE(placement.owners(kVersion, SampleId(i), best) == 6);
    best.resize(6);
    REQUIRE(best[0] == placement.owner(kVersion, SampleId(i)));
    auto rest = all;
    std::erase(rest, best[0]);
    REQUIRE(Placement(2, rest).owner(kVersion, SampleId(i)) == best[1]);
    std::sort(best.begin(), best.end());
    REQUIRE(best == all);
  }
  CHECK(Placement(3, {}).owners(kVersion, SampleId(0), {}) == 0);
}

TEST_CASE("two dataset versions are placed independently") {
  const Placement placement(1, nodes(10));
  std::uint64_t same = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    same += placement.owner(1, SampleId(i)) == placement.owner(2, SampleId(i));
  }
  // One tenth by chance: sd 30; z 4.75 is 142.5.
  CHECK(same > 857);
  CHECK(same < 1143);
}
