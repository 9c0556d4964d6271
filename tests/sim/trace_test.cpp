// batchflow-sim trace: what it reports of a job log, what it writes, and how it fails.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/sim/program.h"

namespace batchflow::test::trace_test {
using nlohmann::json;

namespace {

// Three jobs of two users, the second line behind the third; one line is no job.
const std::string kLog =
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,ann,v1,8,16,1,COMPLETED,2020-06-09 18:42:00,2020-06-09 18:42:30,2020-06-09 "
    "19:42:30,3600,30\n"
    "2,bob,v1,1,4,1,FAILED,2020-06-09 18:41:00,2020-06-09 18:41:00,2020-06-09 18:42:40,100,0\n"
    "3,ann,v2,0,4,1,CANCELLED,2020-06-09 18:43:00,2020-06-09 18:43:00,2020-06-09 18:43:00,0,0\n"
    "4,ann,v2,eight,4,1,CANCELLED,2020-06-09 18:43:00,,,,\n";

}  // namespace

TEST_CASE("trace info says what is in a log, and what is wrong with it") {
  const Folder folder;
  const std::string path = folder.file("log", kLog);
  const Outcome outcome = run({"trace", "info", path, "--corrupt-limit", "25%"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  for (const std::string& part :
       {path + ": helios, 3 jobs, 2 with GPUs, 2 users, 2 queues\n",
        std::string("the busiest user submitted 66.7 % of the jobs\n"),
        std::string(
            "from 2020-06-09 18:41:00 to 2020-06-09 18:43:00 (in a zone that is not named), "
            "2 min 0 s\n"),
        std::string("8 GPU hours, at most 9 GPUs at once\n"),
        std::string("1 of 4 rows could not be read (first: line 5, the gpu_num 'eight' is wrong; "
                    "write a number that is not negative): dropped\n"),
        std::string("1 of 4 rows come after a row that was submitted later (first: line 3): "
                    "sorted\n")}) {
    CAPTURE(part);
    CAPTURE(outcome.out);
    CHECK(outcome.out.find(part) != std::string::npos);
  }
}

TEST_CASE("trace info in JSON has units in its names") {
  const Folder folder;
  const std::string path = folder.file("log", kLog);
  const Outcome outcome = run({"trace", "info", path, "--corrupt-limit=0.25", "--json"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.find("helios, 3 jobs") != std::string::npos);
  const json info = json::parse(outcome.out);
  CHECK(info["trace"]["format"] == "helios");
  CHECK(info["trace"]["rows"] == 4);
  CHECK(info["trace"]["time_base"] == "local");
  CHECK(info["jobs"] == 3);
  CHECK(info["gpu_jobs"] == 2);
  CHECK(info["users"] == 2);
  CHECK(info["first_submit_s"] == 1591728060.0);
  CHECK(info["last_end_s"] == 1591731750.0);
  CHECK(info["gpu_hours"].get<double>() == doctest::Approx(8 + 100.0 / 3600));
  CHECK(info["gpus_at_once_max"] == 9.0);
  CHECK(info["duration_s"]["max"] == 3600.0);
  CHECK(info["duration_s"]["mean"] == 1850.0);
  CHECK(info["wait_s"]["max"] == 30.0);
  CHECK(info["interarrival_s"]["count"] == 2);
  CHECK(info["interarrival_s"]["mean"] == 60.0);
  CHECK(info["statuses"] == json({{"completed", 1}, {"failed", 1}, {"cancelled", 1}}));
  CHECK(info["gpu_histogram"].size() == 3);
  CHECK(info["gpu_histogram"][2]["gpus_min"] == 5.0);
  CHECK(info["gpu_histogram"][2]["gpus_max"] == 8.0);
  CHECK(info["problems"].size() == 2);
  CHECK(info["problems"][0]["kind"] == "corrupt_lines");
  CHECK(info["problems"][0]["first_line"] == 5);
}

TEST_CASE("trace convert writes a log that says the same, compressed or not") {
  const Folder folder;
  const std::string log = folder.file("log", kLog);
  std::string from = log;
  for (const char* name : {"a.csv", "b.csv.zst", "c.csv.gz", "d.csv"}) {
    const Outcome outcome =
        run({"trace", "convert", from, "-o", folder.name(name), "--corrupt-limit", "0.25"});
    CHECK(outcome.code == 0);
    CHECK(outcome.out.empty());
    from = folder.name(name);
  }
  const std::string csv = content(folder.path() / "a.csv");
  CHECK(csv ==
        "# BatchFlow jobs 1, times: local\n"
        "id,name,user,queue,submit_s,start_s,duration_s,gpus,nodes,cpus,memory_bytes,status,"
        "attempts\n"
        "2,,bob,v1,1591728060,1591728060,100,1,1,4,,failed,1\n"
        "1,,ann,v1,1591728120,1591728150,3600,8,1,16,,completed,1\n"
        "3,,ann,v2,1591728180,1591728180,0,0,1,4,,cancelled,1\n");
  CHECK(content(folder.path() / "d.csv") == csv);
  CHECK(content(folder.path() / "b.csv.zst").starts_with("\x28\xb5\x2f\xfd"));
  CHECK(content(folder.path() / "c.csv.gz").starts_with("\x1f\x8b"));
  const Outcome out = run({"trace", "convert", log, "-o", "-", "--corrupt-limit=1"});
  CHECK(out.out == csv);
  CHECK(out.err.find("3 jobs of 4 rows, read as helios\n1 of 4 rows could not be read") !=
        std::string::npos);
}

TEST_CASE("trace synth: the same seed, the same bytes; the trace is like the trace it was given") {
  const Folder folder;
  const auto make = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words = {"trace", "synth", "-o", folder.name(name)};
    words.insert(words.end(), more.begin(), more.end());
    CHECK(run(words).code == 0);
    return content(folder.path() / name);
  };
  const std::vector<std::string> week = {"--jobs", "500", "--days", "7", "--gpus", "64"};
  const std::string first = make("a.csv", week);
  CHECK(std::count(first.begin(), first.end(), '\n') == 502);
  CHECK(make("b.csv", week) == first);
  CHECK(make("c.csv", {"--jobs", "500", "--days", "7", "--gpus", "64", "--seed", "2"}) != first);
  make("like.csv", {"--like", folder.name("a.csv")});
  const json a = json::parse(run({"trace", "info", folder.name("a.csv"), "--json"}).out);
  const json b = json::parse(run({"trace", "info", folder.name("like.csv"), "--json"}).out);
  CHECK(b["jobs"] == a["jobs"]);
  CHECK(b["gpus_at_once_max"].get<double>() <= 64);
  CHECK(std::abs(b["users"].get<double>() - a["users"].get<double>()) < 40);
  CHECK(run({"trace", "info", "gen:cluster,jobs=500,days=7,gpus=64", "--json"})
            .out.find("\"jobs\": 500,") != std::string::npos);
}

TEST_CASE("trace: bad input is one clear line, and leaves no file behind") {
  const Folder folder;
  const std::string log = folder.file("log", kLog);
  check_refused({"trace", "info", log}, "log:5: the gpu_num 'eight' is wrong");
  check_refused({"trace", "info", log, "--format", "itp"},
                "it needs the columns job_id, submission");
  check_refused({"trace", "info", log, "--format", "helos"}, "write 'helios'");
  check_refused({"trace", "info", log, "--corrupt-limit", "200%"}, "not a part");
  check_refused({"trace", "info", "/nowhere"}, "No such file");
  check_refused({"trace", "info"}, "FILE is required");
  check_refused({"trace"}, "'info' or 'convert' or 'synth'");
  check_refused({"trace", "convert", log}, "--output is required");
  check_refused({"trace", "convert", log, "-o", folder.name("x.csv")}, "log:5:");
  check_refused({"trace", "convert", log, "-o", log}, "would overwrite what is read");
  check_refused({"trace", "convert", log, "-o", "/nowhere/x.csv"}, "cannot be written");
  check_refused({"trace", "synth", "-o", folder.name("x.csv"), "--jobs", "0"}, "from 1 to");
  check_refused({"trace", "synth", "-o", log, "--like", log}, "would overwrite what is read");
  check_refused({"trace", "synth", "-o", folder.name("x.csv"), "--like", log}, "log:5:");
  check_refused({"trace", "info", "gen:perm"}, "write gen:cluster");
  CHECK(folder.files() == 1);
}

TEST_CASE("an interrupted trace command leaves no file behind") {
  const Folder folder, results;
  const pid_t child =
      start({"trace", "synth", "--jobs", "3000000", "-o", results.name("x.csv.gz")}, folder);
  wait_until_it_handles(child, SIGINT);
  usleep(20000);
  kill(child, SIGINT);
  const Outcome outcome = finish(child, folder);
  CHECK(outcome.code == 130);
  CHECK(outcome.err == "batchflow-sim: interrupted\n");
  CHECK(results.files() == 0);
}

}  // namespace batchflow::test::trace_test
