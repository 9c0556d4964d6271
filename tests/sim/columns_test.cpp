// Logs that no format knows, read by the columns that their users describe.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/job_columns.h"
#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::columns_test {

namespace {

using nlohmann::json;

const std::string kColumns =
    "kind: columns\n"
    "delimiter: \";\"\n"
    "id: Job\n"
    "user: Owner\n"
    "arrival: {column: Queued, format: \"%d.%m.%Y %H:%M\"}\n"
    "start: {column: Began, format: \"%d.%m.%Y %H:%M\"}\n"
    "duration: {column: Minutes, unit: min}\n"
    "gpus: Cards\n"
    "state: {column: End, words: {OK: completed, ERR: failed}}\n";
const std::string kLog =
    "Job;Owner;Queued;Began;Minutes;Cards;End;Remark\n"
    "a;ann;01.03.2024 10:00;01.03.2024 10:05;90;2;OK;first\n"
    "b;bob;01.03.2024 10:10;;1.5;1;ERR;\n";

}  // namespace

TEST_CASE("nine lines describe a log with its units, its form of times and its words") {
  const Folder folder;
  traces::JobReadOptions options;
  options.columns = sim::read_job_columns(folder.file("c.yaml", kColumns));
  const traces::JobTrace trace = traces::read_job_trace(folder.file("jobs.csv", kLog), options);
  REQUIRE(trace.jobs.size() == 2);
  const traces::JobRecord& first = trace.jobs[0];
  CHECK(trace.text(first.id) == "a");
  CHECK(trace.text(first.user) == "ann");
  CHECK(trace.time_base == traces::TimeBase::local);
  CHECK(first.start_ns - first.submit_ns == 300 * traces::kNanosPerSecond);
  CHECK(first.duration_ns == 5400 * traces::kNanosPerSecond);
  CHECK(first.gpus() == 2);
  CHECK(first.status == traces::JobStatus::completed);
  const traces::JobRecord& second = trace.jobs[1];
  CHECK(second.submit_ns - first.submit_ns == 600 * traces::kNanosPerSecond);
  CHECK_FALSE(second.has_start());
  CHECK(second.duration_ns == 90 * traces::kNanosPerSecond);
  CHECK(second.status == traces::JobStatus::failed);
}

TEST_CASE("times of a described log may be numbers of any unit") {
  const Folder folder;
  traces::JobReadOptions options;
  options.columns = sim::read_job_columns(
      folder.file("c.yaml",
                  "times: utc\narrival: {column: t, unit: ms}\nend: {column: e, unit: ms}\n"
                  "start: {column: s, unit: ms}\ngpus: g\n"));
  const traces::JobTrace trace = traces::read_job_trace(
      folder.file("jobs.csv", "t,s,e,g\n1709287200500,1709287201000,1709287203000,4\n"), options);
  REQUIRE(trace.jobs.size() == 1);
  CHECK(trace.time_base == traces::TimeBase::utc);
  CHECK(trace.jobs[0].submit_ns == 1'709'287'200'500'000'000);
  CHECK(trace.jobs[0].duration_ns == 2 * traces::kNanosPerSecond);
}

TEST_CASE("a description that does not fit the log names the column, and what the log has") {
  const Folder folder;
  const std::string log = folder.file("jobs.csv", kLog);
  const auto refuse = [&](const std::string& columns, const std::string& part) {
    check_refused({"trace", "info", log, "--columns", folder.file("c.yaml", columns)}, part);
  };
  std::string other = kColumns;
  other.replace(other.find("Cards"), 5, "Card");
  refuse(other, "c.yaml:8: key 'gpus': " + log + " has no column 'Card'; write 'cards'; its " +
                    "columns are job, owner, queued, began, minutes, cards, end, remark");
  refuse("arrival: Queued\nduration: Minutes\n", "key 'gpus'");
  refuse("gpus: Cards\nduration: Minutes\n", "key 'arrival'");
  refuse("gpus: Cards\narrival: Queued\n", "key 'duration'");
  refuse("gpus: Cards\narrival: Queued\nduration: Minutes\nusr: Owner\n", "'user'");
  refuse(kColumns + "kind: cluster\n", "kind");
  refuse("delimiter: ab\n", "is not one sign");
  refuse("state: {column: End, words: {OK: complete}}\ngpus: Cards\n", "write completed");
}

TEST_CASE("a described log without starts is replayed with a scheduler, which is said") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string columns = folder.file(
      "c.yaml", "id: job\narrival: t\nduration: {column: len, unit: h}\ngpus: n\nuser: who\n");
  const std::string log = folder.file("jobs.csv", "job,t,len,n,who\n1,0,1,1,a\n2,60,1,2,b\n");
  const Outcome outcome = run({"replay", log, "--columns", columns, "--cluster", "dgx", "--faults",
                               folder.file("f.csv", "node,down,up\nnode-0,10min,20min\n"), "--skip",
                               "5min", "--set", "engine.rank_timeout=1d", "--json"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["scheduler"]["name"] == "fifo");
  CHECK(result["scheduler"]["assumed"] == true);
  CHECK(result["runs"][0]["jobs"].size() == 2);
  CHECK(result["runs"][0]["faults"][0]["struck"] == true);
  CHECK(result["runs"][0]["counted_from_s"] == 300);
  // The loss falls into the first step, which is computed twice: that is no use of GPUs after it.
  for (const json& job : result["runs"][0]["jobs"]) CHECK(job["au"] <= 1.0001);
  check_refused({"replay", log, "--columns", columns, "--cluster", "dgx", "--faults",
                 folder.file("d.csv", "node,down,up\nnode-0,2024-03-01,2024-03-02\n")},
                "is not a time");  // the log has no calendar
  CHECK(outcome.err.find("the log has no start of any job") != std::string::npos);
  CHECK(outcome.err.find("1 loss of nodes will strike") != std::string::npos);
}

}  // namespace batchflow::test::columns_test
