// `batchflow-sim replay` of a log without starts of jobs: a scheduler is simulated, and the report
// says so. The times are worked out by hand.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::replay_scheduler_test {

namespace {

using nlohmann::json;
using sim::can_simulate;

// Four GPUs, data that costs next to nothing, five jobs that compute all of their time.
struct Log {
  Folder folder;
  std::string cluster = folder.file("four.yaml",
                                    "kind: cluster\nname: four\nnodes: [{name: n, cores: 8, gpus: "
                                    "4, memory: 64gb}]\nstore: {}\n");
  std::string overlay = folder.file(
      "free.yaml",
      "kind: overlay\nname: free\nbusy: 100%\nclasses: [{name: only, samples_per_s: 100, dataset: "
      "{samples: 100000, bytes: 10}}]\n");

  Outcome replay(const std::string& log, std::vector<std::string> more) const {
    std::vector<std::string> words{
        "replay", folder.file("log.csv", log), "--cluster", cluster, "--overlay", overlay};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

const std::string kWithoutStarts =
    "id,submit_s,duration_s,gpus\n"
    "b,60,2400,3\na,105,5400,1\nc,120,1500,3\ne,2190,900,3\nd,2250,600,1\n";
const std::string kWithStarts =
    "id,submit_s,start_s,duration_s,gpus\n"
    "b,60,60,2400,3\na,105,600,5400,1\n";

std::map<std::string, double> starts_of(const json& result) {
  std::map<std::string, double> starts;
  for (const json& job : result["runs"][0]["jobs"]) {
    CHECK(job["state"] == "done");
    starts[job["name"]] = job["started_s"];
  }
  return starts;
}

}  // namespace

TEST_CASE("replay: a log without starts is scheduled by submission, and that is said") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Log log;
  const std::string html = log.folder.name("r.html");
  const Outcome outcome = log.replay(kWithoutStarts, {"--json", "--html", html});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["scheduler"] == json{{"name", "fifo"}, {"assumed", true}});
  for (const std::string& text : {outcome.err, content(html)})
    CHECK(text.find("the log has no start of any job: when jobs get GPUs is simulated") !=
          std::string::npos);
  // Counted from b's submission. b takes three GPUs and a the fourth. c waits for b; e waits for c,
  // although d would fit beside c; and d waits for e.
  std::map<std::string, double> starts = starts_of(result);
  CHECK(starts["b"] == doctest::Approx(0).epsilon(1));
  CHECK(starts["a"] == doctest::Approx(45).epsilon(0.01));
  CHECK(starts["c"] == doctest::Approx(2400).epsilon(0.001));
  CHECK(starts["e"] == doctest::Approx(2400 + 1500).epsilon(0.001));
  CHECK(starts["d"] == doctest::Approx(2400 + 1500 + 900).epsilon(0.001));
}

TEST_CASE("replay: a log with starts is replayed as recorded, and what is asked for is done") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Log log;
  const Outcome recorded = log.replay(kWithStarts, {"--json"});
  CAPTURE(recorded.err);
  REQUIRE(recorded.code == 0);
  const json result = json::parse(recorded.out);
  CHECK(result["scheduler"] == json{{"name", "recorded"}, {"assumed", false}});
  CHECK(recorded.err.find("is simulated") == std::string::npos);
  CHECK(starts_of(result)["a"] == doctest::Approx(540).epsilon(0.001));
  const Outcome asked = log.replay(kWithoutStarts, {"--scheduler", "recorded"});
  CHECK(asked.code == 2);
  CHECK(asked.err.find("--scheduler fifo, sjf or las gives them one") != std::string::npos);
  const Outcome other = log.replay(kWithoutStarts, {"--scheduler", "sjf", "--json"});
  REQUIRE(other.code == 0);
  CHECK(json::parse(other.out)["scheduler"] == json{{"name", "sjf"}, {"assumed", false}});
}

}  // namespace batchflow::test::replay_scheduler_test
