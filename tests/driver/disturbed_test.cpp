// Pairs of runs, one of them disturbed: both have the same samples in the same order. ./dev bench
// stream runs more of them.
#include <doctest/doctest.h>

#include "tests/driver/disturbed_pair.h"
#include "tests/driver/machine.h"
#include "tests/policies/random_seeds.h"

namespace batchflow::test::disturbed_test {

namespace {

void check_pairs(DisturbedPair::Kind kind, std::string_view test_case) {
  Disturbances done;
  const auto problem_of = [&](std::uint64_t seed) -> std::string {
    DisturbedPair pair(kind, seed);
    try {
      pair.run();
    } catch (const Violation& violation) {
      return violation.what();
    }
    done.add(pair.disturbances());
    const Compared& found = pair.compared();
    if (found.samples == 0) return "nothing is compared";
    if (found.lost == 0 && found.doubled == 0 && found.differing == 0) return "";
    return fmt::format("{} samples are lost, {} doubled, {} sequences differ", found.lost,
                       found.doubled, found.differing);
  };
  if (for_problems("test_driver", test_case, 1, 30, problem_of) < 10) return;
  CHECK(done.services_killed > 0);
  CHECK(done.ranks_killed > 0);
  CHECK(done.workers_killed > 0);
  CHECK(done.resizes > 0);
  CHECK((done.weight_changes > 0) == (kind == DisturbedPair::Kind::mixture));
}

std::vector<SampleId> ids(std::initializer_list<std::uint64_t> values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a disturbed strict job has the sequence of one that is not") {
  check_pairs(DisturbedPair::Kind::strict,
              "a disturbed strict job has the sequence of one that is not");
}

TEST_CASE("a disturbed mixture has the sequence of one that knew its weights") {
  check_pairs(DisturbedPair::Kind::mixture,
              "a disturbed mixture has the sequence of one that knew its weights");
}

TEST_CASE("a disturbed live job has the sequence of one that is not") {
  check_pairs(DisturbedPair::Kind::live,
              "a disturbed live job has the sequence of one that is not");
}

TEST_CASE("what is lost, doubled or out of turn is counted") {
  const auto count = [](std::initializer_list<std::uint64_t> disturbed) {
    const Compared found = compare(ids({7, 3, 5, 3}), ids(disturbed));
    CHECK(found.samples == 4);
    return std::vector<std::uint64_t>{found.lost, found.doubled, found.differing};
  };
  using Counts = std::vector<std::uint64_t>;
  CHECK(count({7, 3, 5, 3}) == Counts{0, 0, 0});
  CHECK(count({3, 7, 5, 3}) == Counts{0, 0, 1});
  CHECK(count({7, 3, 5}) == Counts{1, 0, 1});
  CHECK(count({7, 3, 5, 3, 3}) == Counts{0, 1, 1});
  CHECK(count({7, 7, 5, 3}) == Counts{1, 1, 1});
  CHECK(count({}) == Counts{4, 0, 1});
}

}  // namespace batchflow::test::disturbed_test
