#include "core/engine/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/base/random.h"

namespace batchflow::test::placement_test {

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
  const engine::Placement placement(1, list);
  std::reverse(list.begin(), list.end());
  const engine::Placement reversed(2, list);
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
    const engine::Placement before(1, all), after(2, rest);
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
  const engine::Placement placement(1, nodes(50));
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
  const engine::Placement placement(1, all);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    std::vector<NodeId> best(8);
    REQUIRE(placement.owners(kVersion, SampleId(i), best) == 6);
    best.resize(6);
    REQUIRE(best[0] == placement.owner(kVersion, SampleId(i)));
    auto rest = all;
    std::erase(rest, best[0]);
    REQUIRE(engine::Placement(2, rest).owner(kVersion, SampleId(i)) == best[1]);
    std::sort(best.begin(), best.end());
    REQUIRE(best == all);
  }
  CHECK(engine::Placement(3, nodes(0)).owners(kVersion, SampleId(0), {}) == 0);
}

TEST_CASE("two dataset versions are placed independently") {
  const engine::Placement placement(1, nodes(10));
  std::uint64_t same = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    same += placement.owner(1, SampleId(i)) == placement.owner(2, SampleId(i));
  }
  // One tenth by chance: sd 30; z 4.75 is 142.5.
  CHECK(same > 857);
  CHECK(same < 1143);
}

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kSamples = 100'000;

// Ten nodes of 2 to 512 GiB.
std::vector<engine::Placement::NodeWeight> unequal() {
  std::vector<engine::Placement::NodeWeight> list;
  for (const NodeId node : nodes(10)) {
    list.push_back({node, std::uint64_t{2} << (list.size() * 9 / 10) << 30});
  }
  return list;
}

std::vector<NodeId> owners_of(const std::vector<engine::Placement::NodeWeight>& members) {
  const engine::Placement placement(1, members);
  std::vector<NodeId> owners;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    owners.push_back(placement.owner(kVersion, SampleId(i)));
  }
  return owners;
}

}  // namespace

TEST_CASE("each node has its weight's part of the samples") {
  // Of 2 and 100 GiB: 1/51 of them, sd sqrt(n p (1 - p)) = 43.8; z 4.75 is 208.
  const auto two = owners_of({{NodeId(1), 2 * kGiB}, {NodeId(2), 100 * kGiB}});
  const auto small = std::count(two.begin(), two.end(), NodeId(1));
  CHECK(small > 1961 - 208);
  CHECK(small < 1961 + 208);
  // Ten nodes: chi-square of df 9, false alarm 10^-6: 45.1.
  const auto members = unequal();
  const auto owners = owners_of(members);
  double all = 0;
  for (const auto& one : members) all += static_cast<double>(one.weight);
  double chi_square = 0;
  for (const auto& one : members) {
    const double expected = kSamples * static_cast<double>(one.weight) / all;
    const auto has = std::count(owners.begin(), owners.end(), one.node);
    const double off = static_cast<double>(has) - expected;
    chi_square += off * off / expected;
  }
  CHECK(chi_square < 45.1);
}

TEST_CASE("the owner has the least -log(u) / weight") {
  const auto members = unequal();
  const engine::Placement placement(1, members);
  std::uint64_t near = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const auto bid = [&](const engine::Placement::NodeWeight& one) {
      const auto u = static_cast<long double>(hash(kVersion, i, one.node.value)) / 0x1p64L;
      return -std::log2(u) / static_cast<long double>(one.weight);
    };
    const auto best = std::min_element(members.begin(), members.end(),
                                       [&](auto& a, auto& b) { return bid(a) < bid(b); });
    const NodeId owner = placement.owner(kVersion, SampleId(i));
    if (owner == best->node) continue;
    // Logarithms are straight between 1,024 steps of an octave.
    const auto its = std::find_if(members.begin(), members.end(),
                                  [&](const auto& one) { return one.node == owner; });
    REQUIRE(bid(*its) < bid(*best) * 1.001L);
    ++near;
  }
  CHECK(near <= 50);
}

TEST_CASE("when a weight changes, what the node gains or loses moves, and nothing else") {
  const auto before = unequal();
  const auto owned = owners_of(before);
  for (const std::size_t changed : {0u, 4u, 9u}) {
    for (const std::uint64_t factor : {2u, 3u}) {
      for (const bool grows : {true, false}) {
        auto after = before;
        std::uint64_t& weight = after[changed].weight;
        weight = grows ? weight * factor : weight / factor;
        const auto owns = owners_of(after);
        std::uint64_t moved = 0;
        for (std::uint64_t i = 0; i < kSamples; ++i) {
          if (owned[i] == owns[i]) continue;
          ++moved;
          REQUIRE((grows ? owns[i] : owned[i]) == after[changed].node);
        }
        const auto had = std::count(owned.begin(), owned.end(), after[changed].node);
        const auto has = std::count(owns.begin(), owns.end(), after[changed].node);
        CHECK(moved == static_cast<std::uint64_t>(std::abs(has - had)));
        CHECK(moved > 0);
      }
    }
  }
}

TEST_CASE("equal weights, whatever they are, place as no weights do") {
  const auto all = nodes(9);
  const engine::Placement placement(1, all);
  for (const std::uint64_t weight : {std::uint64_t{0}, 5 * kGiB, UINT64_MAX}) {
    std::vector<engine::Placement::NodeWeight> members;
    for (const NodeId node : all) members.push_back({node, weight});
    const engine::Placement weighed(1, members);
    for (std::uint64_t i = 0; i < 2000; ++i) {
      REQUIRE(weighed.owner(kVersion, SampleId(i)) == placement.owner(kVersion, SampleId(i)));
    }
  }
}

TEST_CASE("a node without weight owns nothing while there are others") {
  auto members = unequal();
  for (std::size_t i = 1; i < members.size(); ++i) members[i].weight = 0;
  for (const NodeId owner : owners_of(members)) REQUIRE(owner == members[0].node);
  members[1].weight = UINT64_MAX;
  members[0].weight = 1;
  const auto owners = owners_of(members);
  CHECK(std::count(owners.begin(), owners.end(), members[1].node) == kSamples);
}

TEST_CASE("the k owners of unequal nodes: each is the heir of those before it") {
  const auto members = unequal();
  const engine::Placement placement(1, members);
  for (std::uint64_t i = 0; i < 500; ++i) {
    std::vector<NodeId> best(10);
    REQUIRE(placement.owners(kVersion, SampleId(i), best) == 10);
    auto rest = members;
    for (const NodeId heir : best) {
      REQUIRE(engine::Placement(2, rest).owner(kVersion, SampleId(i)) == heir);
      std::erase_if(rest, [&](const auto& one) { return one.node == heir; });
    }
  }
}

TEST_CASE("golden: owners of unequal nodes are the same on every machine") {
  std::uint64_t folded = 0;
  for (const NodeId owner : owners_of(unequal())) folded = mix(folded ^ owner.value);
  CHECK(folded == 10976884664606074088u);
}

}  // namespace batchflow::test::placement_test
