// batchflow-sim trace faults: what it reports, the CSV that it writes, and a run with that.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::fault_trace_test {
using nlohmann::json;

namespace {

std::string event(const char* node, const char* days, const char* type, const char* kind) {
  return std::string("{\"node_id\": \"") + node + "\", \"event_time\": " + days +
         ", \"event_type\": \"fault_" + type +
         "\", \"fault_type\": {\"Level\": \"Hardware Failure\", \"Class\": \"" + kind + "\"}}";
}

// Half a minute of a GPU; a card of no length; a fan that is not repaired.
const std::string kTrace =
    "[" + event("x", "0.0001", "start", "GPU") + ",\n" + event("x", "0.0004", "end", "GPU") +
    ",\n" + event("y", "0.0005", "start", "NIC, left") + ",\n" +
    event("y", "0.0005", "end", "NIC, left") + ",\n" + event("x", "1", "start", "Fan") + "]\n";

}  // namespace

TEST_CASE("trace faults counts the faults of a cluster by class") {
  const Folder folder;
  const std::string path = folder.file("faults.json", kTrace);
  const Outcome table = run({"trace", "faults", path});
  CHECK(table.code == 0);
  CHECK(table.err.empty());
  CHECK(table.out.find(path + ": 5 events in 1.0 days, 3 faults of 2 nodes\n") == 0);
  CHECK(table.out.find("Hardware Failure: NIC, left") != std::string::npos);
  const Outcome asked = run({"trace", "faults", path, "--json"});
  REQUIRE(asked.code == 0);
  const json result = json::parse(asked.out);
  CHECK(result["faults"] == 3);
  CHECK(result["last_event_s"] == 86400.0);
  REQUIRE(result["classes"].size() == 3);
  CHECK(result["classes"][0]["class"] == "GPU");
  CHECK(result["classes"][0]["node_hours"] == doctest::Approx(0.0072));
  CHECK(result["classes"][2]["unended"].get<int>() + result["classes"][1]["unended"].get<int>() ==
        1);
}

TEST_CASE("trace faults writes what --faults reads: nodes of the cluster, drawn by the seed") {
  const Folder folder;
  const std::string path = folder.file("faults.json", kTrace);
  const auto written = [&](const std::string& seed) {
    const std::string csv = folder.name("lost.csv");
    const Outcome outcome = run({"trace", "faults", path, "--cluster", "dgx", "--set",
                                 "cluster.nodes.0.count=9", "--seed", seed, "-o", csv});
    REQUIRE(outcome.code == 0);
    return content(csv);
  };
  const std::string one = written("1");
  CHECK(one == written("1"));
  CHECK(one != written("2"));
  CHECK(one.find("node,down,up,level,class\n") == 0);
  CHECK(one.find(",8.640,34.560,Hardware Failure,GPU\n") != std::string::npos);
  CHECK(one.find(",43.200,44.200,Hardware Failure,NIC_ left\n") != std::string::npos);
  CHECK(one.find(",86400.000,,Hardware Failure,Fan\n") != std::string::npos);
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  // The nodes are those of the run.
  const Outcome met = run({"run", "--cluster", "dgx", "--workload", "resnet50-v100", "--set",
                           "cluster.nodes.0.count=9", "--set", "after_loss=moves", "--set",
                           "ends_after=60s", "--faults", folder.name("lost.csv"), "--json"});
  CAPTURE(met.err);
  REQUIRE(met.code == 0);
  CHECK(met.err.find("2 losses of nodes will strike; 1 loss of nodes after the end") !=
        std::string::npos);
  const json result = json::parse(met.out)["runs"][0];
  REQUIRE(result["faults"].size() == 2);
  CHECK(result["faults"][0]["struck"] == true);
}

TEST_CASE("trace faults refuses what it cannot do") {
  const Folder folder;
  const std::string path = folder.file("faults.json", kTrace);
  check_refused({"trace", "faults", path, "-o", folder.name("l.csv")}, "--cluster");
  check_refused({"trace", "faults", path, "--cluster", "dgx"}, "--output");
  check_refused({"trace", "faults", path, "-o", path, "--cluster", "dgx"}, "would overwrite");
  check_refused({"trace", "faults", path, "-o", folder.name("l.csv"), "--cluster", "laptop"},
                "--set cluster.nodes.0.count=2");
  check_refused({"trace", "faults", folder.file("f.json", "[{\"event_type\": 1}]")},
                "f.json:1: the event that begins here has no node_id; add it");
}

}  // namespace batchflow::test::fault_trace_test
