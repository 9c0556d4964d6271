// Replays of cuts of real logs, where they are available (BATCHFLOW_SHARED, or ../shared beside the
// repository).
#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"
#include "tests/source_dir.h"

namespace batchflow::test::replay_cuts_test {

using nlohmann::json;
using sim::can_simulate;

TEST_CASE("cuts of real logs are replayed") {
  const char* shared = std::getenv("BATCHFLOW_SHARED");
  const std::filesystem::path folder =
      (shared != nullptr ? std::filesystem::path(shared) : source_dir() / ".." / "shared") /
      "traces";
  if (!std::filesystem::exists(folder)) {
    return skipped("no folder of real traces beside the repository");
  }
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  struct Cut {
    const char* path;
    const char* window;
    const char* scheduler;
  };
  for (const Cut& cut : {Cut{"philly-pollux/philly.csv", "2h", "fifo"},
                         {"philly-gpw/philly_data_training.csv", "2h", "sjf"},
                         {"helios-gpw/helios_data_training.csv", "2h", "las"},
                         {"elasticflow-itp/cluster01.csv", "30d", "fifo"},
                         {"mit-supercloud-sample/slurm-log-queueing-clean.csv", "4h", "recorded"},
                         {"alibaba-gpu-v2023/openb_pod_list_default.csv", "2h", "recorded"}}) {
    CAPTURE(cut.path);
    const Outcome outcome = run({"replay", (folder / cut.path).string(), "--to", cut.window,
                                 "--scheduler", cut.scheduler, "--steps", "4", "--json"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const json sum = json::parse(outcome.out)["summaries"][0];
    CHECK(sum["jobs"] > 0);
    CHECK(sum["jobs_done"] == sum["jobs"]);
  }
}

}  // namespace batchflow::test::replay_cuts_test
