// The samples of a simulated job's batches, as a run writes them, beside the rules of order.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/order/permutation.h"
#include "sim/world/workload.h"
#include "tests/world/harness.h"

namespace batchflow::test::batch_file_test {

TEST_CASE("the batches of a strict job are the permutations of its epochs, one after the other") {
  std::string path = (std::filesystem::temp_directory_path() / "batchflow-batches-XXXXXX").string();
  REQUIRE(::close(::mkstemp(path.data())) == 0);
  const input::Scenario scenario = scenario_of(
      Small{.samples = 100,
            .jobs = {"name: a, order: strict, shuffle_seed: 7, batch: 8, step: 1ms, epochs: 2"},
            .more = "grain: {items_per_block: 16}\n"}
          .yaml());
  in_child([&] {
    sim::SimulateOptions options;
    options.batches = path;
    sim::simulate(scenario, options);
    return std::string();
  });
  const world::Workload workload(scenario);
  std::vector<std::string> expected;
  for (std::uint64_t epoch = 0, step = 0; epoch < 2; ++epoch) {
    const order::Permutation samples(hash(1, workload.datasets()[0].version, hash(1, 7), epoch),
                                     100);
    for (std::uint64_t first = 0; first < 100; first += 8, ++step) {
      std::string line =
          fmt::format(R"({{"job":"a","rank":0,"epoch":{},"step":{},"samples":[)", epoch, step);
      for (std::uint64_t i = first; i < std::min<std::uint64_t>(100, first + 8); ++i)
        line += fmt::format("{}{}", i == first ? "" : ",", samples(i));
      expected.push_back(line + "],\"time_s\":");
    }
  }
  std::ifstream file(path);
  double before = 0;
  std::string line;
  for (const std::string& one : expected) {
    REQUIRE(std::getline(file, line));
    CHECK(line.starts_with(one));
    const double time_s = std::stod(line.substr(one.size()));
    CHECK(time_s > before);
    CHECK(line == fmt::format("{}{:.9g}}}", one, time_s));
    before = time_s;
  }
  CHECK_FALSE(std::getline(file, line));
  std::filesystem::remove(path);
}

}  // namespace batchflow::test::batch_file_test
