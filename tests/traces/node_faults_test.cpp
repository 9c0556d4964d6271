// Traces of nodes' faults: which start belongs to which end, what is counted by class, and what is
// refused.
#include "traces/node_faults.h"

#include <fmt/format.h>

#include "core/base/config_value.h"
#include "tests/traces/damage.h"
#include "tests/traces/trace_files.h"

namespace batchflow::test::node_faults_test {

namespace {

constexpr std::int64_t kHour = 3'600'000'000'000;

std::string event(const std::string& node, double days, bool is_start,
                  const std::string& kind = "GPU", const std::string& description = "lost") {
  return fmt::format(
      R"({{"node_id": "{}", "event_time": {}, "event_type": "fault_{}", "fault_type": )"
      R"({{"Level": "Hardware Failure", "Class": "{}", "Desc": "{}"}}}})",
      node, days, is_start ? "start" : "end", kind, description);
}

std::string list(const std::vector<std::string>& events) {
  std::string text = "[";
  for (const std::string& one : events) text += (text.size() > 1 ? ",\n" : "\n") + one;
  return text + "\n]\n";
}

// Two faults of n1 that overlap, one of n2 that outlasts the trace, and one of no length.
const std::vector<std::string> kFive = {
    event("n1", 0.5, true),      event("n1", 0.75, true, "NIC"),  event("n1", 1.5, false),
    event("n2", 2.25, true),     event("n1", 2.75, false, "NIC"), event("n3", 3, true, "NIC"),
    event("n3", 3, false, "NIC")};

std::string refusal(const std::string& text) {
  File file;
  try {
    traces::read_node_faults(file.with(text));
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    return what.substr(what.rfind('/') + 1);
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a fault lasts from its start to the end of the same node and type") {
  File file;
  for (const bool compressed : {false, true}) {
    const std::string text = list(kFive);
    const traces::NodeFaults trace =
        traces::read_node_faults(file.with(compressed ? zstd(text) : text));
    CHECK(trace.events == 7);
    CHECK(trace.without_start == 0);
    CHECK(trace.last_ns == 72 * kHour);
    CHECK(trace.nodes == std::vector<std::string>{"n1", "n2", "n3"});
    REQUIRE(trace.faults.size() == 4);
    CHECK(trace.faults[0].node == "n1");
    CHECK(trace.faults[0].kind == "GPU");
    CHECK(trace.faults[0].level == "Hardware Failure");
    CHECK(trace.faults[0].down_ns == 12 * kHour);
    CHECK(trace.faults[0].up_ns == 36 * kHour);
    CHECK(trace.faults[1].kind == "NIC");
    CHECK(trace.faults[1].up_ns == 66 * kHour);
    CHECK(!trace.faults[2].up_ns);
    CHECK(trace.faults[3].down_ns == trace.faults[3].up_ns);
  }
}

TEST_CASE("two faults of one type end in the order of their starts, an end alone was always down") {
  File file;
  const traces::NodeFaults trace = traces::read_node_faults(
      file.with(list({event("n", 3, false, "Fan"), event("n", 1, true), event("n", 4, false),
                      event("n", 2, true), event("n", 6, false), event("n", 5, true, "GPU", "slow"),
                      event("n", 5.5, false, "GPU", "slow")})));
  REQUIRE(trace.faults.size() == 4);
  CHECK(trace.without_start == 1);
  CHECK(trace.faults[0].kind == "Fan");
  CHECK(trace.faults[0].down_ns == 0);
  CHECK(trace.faults[0].up_ns == 72 * kHour);
  CHECK(trace.faults[1].up_ns == 96 * kHour);
  CHECK(trace.faults[2].down_ns == 48 * kHour);
  CHECK(trace.faults[2].up_ns == 144 * kHour);
  CHECK(trace.faults[3].up_ns == 132 * kHour);
}

TEST_CASE("classes are counted, most node hours first") {
  File file;
  const auto classes = traces::fault_classes(traces::read_node_faults(file.with(list(kFive))));
  REQUIRE(classes.size() == 2);
  CHECK(classes[0].kind == "NIC");
  CHECK(classes[0].faults == 2);
  CHECK(classes[0].nodes == 2);
  CHECK(classes[0].unended == 0);
  CHECK(classes[0].node_hours == doctest::Approx(48));
  CHECK(classes[0].median_hours == doctest::Approx(0));
  CHECK(classes[0].longest_hours == doctest::Approx(48));
  CHECK(classes[1].kind == "GPU");
  CHECK(classes[1].unended == 1);
  CHECK(classes[1].node_hours == doctest::Approx(24 + 18));  // until the last event
}

TEST_CASE("what is no such trace is refused, with the line") {
  CHECK(refusal(list({event("n", 1, true)})) == "nothing");
  CHECK(refusal("").find("is empty") != std::string::npos);
  CHECK(refusal("[]\n").find("has no events") != std::string::npos);
  const auto broken = [](const std::string& what, const std::string& by) {
    std::string second = event("n", 2, false);
    second.replace(second.find(what), what.size(), by);
    return refusal(list({event("n", 1, true), second}));
  };
  CHECK(broken("\"node_id\": \"n\", ", "") ==
        "trace:3: the event that begins here has no node_id; add it");
  CHECK(broken("\"n\"", "7").find("trace:3: the node_id of the event") == 0);
  CHECK(broken("\"n\"", "\"\"").find("trace:3: the node_id of the event") == 0);
  CHECK(broken(": 2,", ": -2,").find("trace:3: the event_time") == 0);
  CHECK(broken(": 2,", ": \"2\",").find("trace:3: the event_time") == 0);
  CHECK(broken(": 2,", ": 46001,").find("trace:3: the event_time") == 0);
  CHECK(broken(": 2,", ": 2e999,").find("trace:3: the event that begins here is not valid") == 0);
  CHECK(broken("fault_end", "fault_over") ==
        "trace:3: the event_type 'fault_over' is not known; write fault_start or fault_end");
  CHECK(broken("\"Class\": \"GPU\", ", "").find("has no Class") != std::string::npos);
  CHECK(broken("\"Level\": \"Hardware Failure\"", "\"Level\": 1").find("Level") !=
        std::string::npos);
  // A brace that is missing, an end that was cut, and a log of jobs.
  CHECK(broken("}}", "}").find("trace:3: what begins here is not a whole event") == 0);
  const std::string whole = list(kFive);
  CHECK(refusal(whole.substr(0, whole.size() - 10)).find("not a whole event") != std::string::npos);
  CHECK(refusal("job,user,gpus\n1,ann,2\n").find("trace:1: what begins here is not a whole") == 0);
}

TEST_CASE("damaged traces are read whole or refused") {
  const std::string whole = list(kFive);
  std::uint64_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    File file;
    try {
      const traces::NodeFaults trace = traces::read_node_faults(file.with(damaged(whole, random)));
      for (const traces::NodeFault& fault : trace.faults) {
        CHECK(fault.down_ns >= 0);
        CHECK((!fault.up_ns || *fault.up_ns >= fault.down_ns));
        CHECK(!fault.kind.empty());
      }
      CHECK(fault_classes(trace).size() <= trace.faults.size());
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  CHECK(refused > 100);
  CHECK(refused < 500);
}

}  // namespace batchflow::test::node_faults_test
