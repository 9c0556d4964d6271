// Kills, resizes and changes of weights in virtual time, and what they do to what jobs are handed:
// pairs of runs (tests/driver/disturbed_pair.h), until there were so many.
//
//   stream_simulated [DISTURBANCES]
//
// One line of JSON for each kind of job. Exit code 1: a sample was lost or doubled, or a sequence
// differs.
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "tests/driver/disturbed_pair.h"
#include "tests/driver/machine.h"

using namespace batchflow::test;

namespace {

// A third of them, whatever a pair has.
bool run_kind(DisturbedPair::Kind kind, std::string_view name, std::uint64_t wanted) {
  Disturbances done;
  Compared compared;
  std::uint64_t broken = 0;
  std::uint64_t seed = 0;
  while (done.all() < wanted) {
    DisturbedPair pair(kind, ++seed);
    try {
      pair.run();
    } catch (const Violation& violation) {
      fmt::print(stderr, "{}, seed {}: {}\n", name, seed, violation.what());
      if (++broken == 10) break;
      continue;
    }
    done.add(pair.disturbances());
    compared.add(pair.compared());
  }
  fmt::print(
      R"({{"jobs": "{}", "pairs": {}, "services_killed": {}, "ranks_killed": {}, )"
      R"("workers_killed": {}, "resizes": {}, "weight_changes": {}, "samples": {}, "lost": {}, )"
      R"("doubled": {}, "differing": {}, "broken": {}}})"
      "\n",
      name, seed, done.services_killed, done.ranks_killed, done.workers_killed, done.resizes,
      done.weight_changes, compared.samples, compared.lost, compared.doubled, compared.differing,
      broken);
  return compared.lost == 0 && compared.doubled == 0 && compared.differing == 0 && broken == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t wanted = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000;
  const std::uint64_t third = (wanted + 2) / 3;
  bool well = run_kind(DisturbedPair::Kind::strict, "strict", third);
  well = run_kind(DisturbedPair::Kind::mixture, "mixture", third) && well;
  well = run_kind(DisturbedPair::Kind::live, "live", third) && well;
  return well ? 0 : 1;
}
