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
  std::string expected;
  for (std::uint64_t epoch = 0, step = 0; epoch < 2; ++epoch) {
    const order::Permutation samples(hash(1, workload.datasets()[0].version, hash(1, 7), epoch),
                                     100);
    for (std::uint64_t first = 0; first < 100; first += 8, ++step) {
      expected +=
          fmt::format(R"({{"job":"a","rank":0,"epoch":{},"step":{},"samples":[)", epoch, step);
      for (std::uint64_t i = first; i < std::min<std::uint64_t>(100, first + 8); ++i)
        expected += fmt::format("{}{}", i == first ? "" : ",", samples(i));
      expected += "]}\n";
    }
  }
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == expected);
  std::filesystem::remove(path);
}

}  // namespace batchflow::test::batch_file_test
