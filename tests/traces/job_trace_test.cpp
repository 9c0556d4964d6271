// Every format of job logs, read from fixtures with expected jobs and problems.
#include "traces/job_trace.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/base/config_value.h"
#include "tests/traces/job_fixtures.h"
#include "tests/traces/trace_files.h"
#include "traces/formats/format.h"

namespace batchflow::test::job_trace_test {

namespace {

std::string problems_of(const traces::JobTrace& trace) {
  std::string text;
  for (std::size_t i = 0; i < traces::kProblems; ++i) {
    const traces::ProblemCount& count = trace.problems[i];
    if (count.rows == 0) continue;
    text += fmt::format("{}{}={}@{}", text.empty() ? "" : " ",
                        traces::kind_of(static_cast<traces::Problem>(i)).name, count.rows,
                        count.first_line);
  }
  return text;
}

// Without its two header lines.
std::string jobs_of(const traces::JobTrace& trace) {
  const std::string csv = traces::job_csv(trace);
  return csv.substr(csv.find('\n', csv.find('\n') + 1) + 1);
}

void check_fixture(const JobFixture& fixture, const traces::JobTrace& trace) {
  CHECK(trace.format == fixture.format);
  CHECK(jobs_of(trace) == fixture.csv);
  CHECK(traces::name_of(trace.time_base) == fixture.times);
  CHECK(problems_of(trace) == fixture.problems);
  CHECK(trace.rows == trace.jobs.size() + trace.rows_without_job());
}

std::string error_of(const std::string& path, const traces::JobReadOptions& options = {}) {
  try {
    traces::read_job_trace(path, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string with_returns(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '\n' && !result.ends_with('\r')) result += '\r';
    result += c;
  }
  return result;
}

JobFixture fixture_of(std::string_view format) {
  for (const JobFixture& fixture : job_fixtures()) {
    if (fixture.format == format) return fixture;
  }
  FAIL("no fixture");
  return {};
}

}  // namespace

TEST_CASE("each format has a fixture, and is recognised by its content, plain or compressed") {
  const Folder folder;
  std::vector<std::string_view> seen;
  for (const JobFixture& fixture : job_fixtures()) {
    CAPTURE(fixture.format);
    seen.push_back(fixture.format);
    check_fixture(fixture, traces::read_job_trace(folder.file("plain", fixture.text)));
    check_fixture(fixture, traces::read_job_trace(folder.file("a.zst", zstd(fixture.text))));
    check_fixture(fixture, traces::read_job_trace(folder.file("a.gz", gzip(fixture.text))));
    check_fixture(fixture,
                  traces::read_job_trace(folder.file("returns", with_returns(fixture.text))));
    check_fixture(fixture,
                  traces::read_job_trace(folder.file("mark", "\xef\xbb\xbf" + fixture.text)));
    check_fixture(fixture, traces::read_job_trace(folder.file("ends", fixture.text + "\n \r\n\n")));
    traces::JobReadOptions named;
    named.format = fixture.format;
    check_fixture(fixture, traces::read_job_trace(folder.file("plain", fixture.text), named));
  }
  for (const traces::JobFormat* format : traces::job_formats()) {
    if (format->name == "swf-gpus") continue;  // chosen by name alone: its files look like swf
    CHECK(std::find(seen.begin(), seen.end(), format->name) != seen.end());
  }
}

TEST_CASE("our own CSV is read back exactly") {
  const Folder folder;
  for (const JobFixture& fixture : job_fixtures()) {
    CAPTURE(fixture.format);
    const traces::JobTrace trace = traces::read_job_trace(folder.file("a", fixture.text));
    const std::string csv = traces::job_csv(trace);
    const traces::JobTrace again = traces::read_job_trace(folder.file("b", csv));
    CHECK(again.format == "batchflow");
    CHECK(again.time_base == trace.time_base);
    CHECK(traces::job_csv(again) == csv);
    REQUIRE(again.jobs.size() == trace.jobs.size());
    for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
      const traces::JobRecord &a = trace.jobs[i], &b = again.jobs[i];
      CHECK(a.submit_ns == b.submit_ns);
      CHECK(a.start_ns == b.start_ns);
      CHECK(a.duration_ns == b.duration_ns);
      CHECK(a.memory_bytes == b.memory_bytes);
      CHECK(a.gpus_hundredths == b.gpus_hundredths);
      CHECK(a.cpus_hundredths == b.cpus_hundredths);
      CHECK(a.status == b.status);
      for (auto text : {&traces::JobRecord::id, &traces::JobRecord::name, &traces::JobRecord::user,
                        &traces::JobRecord::queue}) {
        CHECK(trace.text(a.*text) == again.text(b.*text));
      }
    }
  }
}

TEST_CASE("any text and any time survive our own CSV") {
  const Folder folder;
  traces::JobTrace trace;
  trace.time_base = traces::TimeBase::utc;
  const std::string odd[] = {
      "a,b", "\"",          "\"\"", "a\"b", " x ", "#no remark",          "\"q\"",
      ",",   "caf\xc3\xa9", "a\tb", "none", "-",   std::string(2000, 'x')};
  constexpr traces::TraceTime kTimes[] = {
      0, 1, -1, 999'999'999, -1'500'000'000, traces::kMostTime, -traces::kMostTime};
  for (std::size_t i = 0; i < std::size(odd); ++i) {
    traces::JobRecord& job = trace.jobs.emplace_back();
    job.id = trace.texts.keep(odd[i]);
    job.user = job.queue = job.name = trace.texts.intern(odd[i]);
    job.submit_ns = job.start_ns = kTimes[i % std::size(kTimes)];
    job.duration_ns = static_cast<std::int64_t>(i);
    job.gpus_hundredths = static_cast<std::uint32_t>(i);
  }
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const auto& a, const auto& b) { return a.submit_ns < b.submit_ns; });
  const traces::JobTrace again = traces::read_job_trace(folder.file("a", traces::job_csv(trace)));
  REQUIRE(again.jobs.size() == trace.jobs.size());
  CHECK(problems_of(again).empty());
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    CHECK(again.text(again.jobs[i].id) == trace.text(trace.jobs[i].id));
    CHECK(again.text(again.jobs[i].user) == trace.text(trace.jobs[i].user));
    CHECK(again.jobs[i].submit_ns == trace.jobs[i].submit_ns);
    CHECK(again.jobs[i].start_ns == trace.jobs[i].start_ns);
    CHECK(again.jobs[i].duration_ns == trace.jobs[i].duration_ns);
    CHECK(again.jobs[i].gpus_hundredths == trace.jobs[i].gpus_hundredths);
  }
}

TEST_CASE("PAI's tables beside each other are one trace, whichever is named") {
  const Folder folder;
  const std::string jobs = folder.file("pai_job_table.csv",
                                       "j1,i1,ann,Terminated,90.0,300.0\n"
                                       "j2,i2,bob,Failed,40.0,60.5\n"
                                       "j9,i9,bob,Failed,41.0,42.0\n"
                                       "j3,i3,cyd,Waiting,70.0,\n");
  CHECK(error_of(jobs).find("put pai_task_table.csv beside it") != std::string::npos);
  const std::string tasks =
      folder.file("pai_task_table.csv.gz", gzip(fixture_of("pai-v2020").text));
  for (const std::string& path : {jobs, tasks}) {
    const traces::JobTrace trace = traces::read_job_trace(path);
    CHECK(jobs_of(trace) ==
          "j2,,bob,,40,50,10.5,0.25,,6,29296875000,failed,1\n"
          "j3,,cyd,,70,,,0.25,,6,29296875000,pending,1\n"
          "j1,,ann,,90,100,200,1,,14,49500000000,completed,1\n");
    // Four rows of tasks belong to jobs of the other table; the GPUs of one job are unknown.
    CHECK(problems_of(trace) ==
          "no_gpu_count=1@3 not_sorted=2@2 never_started=1@4 parts_of_jobs=4@1");
    CHECK(trace.rows == 8);
  }
}

TEST_CASE("a fault of PAI's tables is named with the table it is in") {
  const Folder folder;
  const std::string jobs =
      folder.file("pai_job_table.csv", "j1,i1,ann,Terminated,90,300\ngarbage\nj9,i9,b,Odd,1,2\n");
  const std::string tasks =
      folder.file("pai_task_table.csv",
                  "j1,worker,1,Terminated,80,300,600,1,100,V100\nj2,w,1,Odd,5,9,600,1,25,T4\n");
  const std::string wrong = ":2: the line has 1 fields; write 6 (1 of 5 lines";
  CHECK(error_of(tasks).starts_with(jobs + wrong));
  CHECK(error_of(jobs).starts_with(jobs + wrong));
  traces::JobReadOptions lenient;
  lenient.corrupt_limit = 0.2;
  const auto first_text = [&](const std::string& path, traces::Problem problem) {
    const traces::JobTrace trace = traces::read_job_trace(path, lenient);
    CHECK(problems_of(trace) ==
          "corrupt_lines=1@2 no_gpu_count=1@3 submit_after_start=2@1 not_sorted=1@2 "
          "unknown_status=1@2 parts_of_jobs=1@1");
    return trace.problems[static_cast<std::size_t>(problem)].first_text;
  };
  CHECK(first_text(tasks, traces::Problem::corrupt_line) ==
        "of " + jobs + ": the line has 1 fields; write 6");
  CHECK(first_text(jobs, traces::Problem::corrupt_line) == "the line has 1 fields; write 6");
  CHECK(first_text(tasks, traces::Problem::no_gpu_count) == "of " + jobs);
  CHECK(first_text(jobs, traces::Problem::no_gpu_count).empty());
  CHECK(first_text(tasks, traces::Problem::unknown_status).empty());
  CHECK(first_text(jobs, traces::Problem::unknown_status) == "of " + tasks);
}

TEST_CASE("processors of SWF are GPUs where the format says so") {
  const Folder folder;
  traces::JobReadOptions options;
  options.format = "swf-gpus";
  const traces::JobTrace trace =
      traces::read_job_trace(folder.file("a.swf", fixture_of("swf").text), options);
  CHECK(jobs_of(trace) ==
        "1,7,3,2,1000000,1000005,60,4,,,8388608,completed,1\n"
        "2,,4,1,1000010,,,8,,,,cancelled,1\n"
        "3,,,1,1000011,1000011,2.5,1,,,,failed,1\n");
}

TEST_CASE("corrupt lines are counted and left out, up to a limit") {
  const Folder folder;
  const auto itp = [](std::size_t good, std::size_t bad) {
    std::string text = "job_id,submission_time,duration,num_gpu\n";
    for (std::size_t i = 0; i < good + bad; ++i) {
      text += i >= 5 && i < 5 + bad ? "x,5,1h,1\n" : fmt::format("j{},{},60,1\n", i, i);
    }
    return text;
  };
  const traces::JobTrace trace = traces::read_job_trace(folder.file("a", itp(99, 1)));
  CHECK(trace.jobs.size() == 99);
  CHECK(problems_of(trace) == "corrupt_lines=1@7");
  CHECK(trace.problems[0].first_text ==
        "the duration '1h' is wrong; write a number of seconds, of 126 years at most");
  const std::string over = folder.file("b", itp(98, 2));
  CHECK(error_of(over) ==
        over +
            ":7: the duration '1h' is wrong; write a number of seconds, of 126 years at most (2 of "
            "100 "
            "lines cannot be read as itp, more than 1 %; choose another --format, or allow more "
            "with --corrupt-limit)");
  traces::JobReadOptions lenient;
  lenient.corrupt_limit = 0.02;
  CHECK(traces::read_job_trace(over, lenient).jobs.size() == 98);
  traces::JobReadOptions strict;
  strict.corrupt_limit = 0;
  CHECK(error_of(folder.file("a", itp(99, 1)), strict).find("1 of 100 lines") != std::string::npos);
  // It does not read a file to the end that is corrupt throughout.
  CHECK(error_of(folder.file("c", itp(5, 100000))).find("995 of 1000 lines") != std::string::npos);
}

TEST_CASE("numbers as programs write them, and jobs that do not say their GPUs") {
  const Folder folder;
  const traces::JobTrace trace =
      traces::read_job_trace(folder.file("t",
                                         "id,submit_s,start_s,duration_s,gpus\n"
                                         "a,1e0,1,1e-05,1.0\n"
                                         "b,1,1,3.9e9,8e+00\n"
                                         "c,1,1,60,NaN\n"));
  CHECK(jobs_of(trace) ==
        "a,,,,1,1,0.00001,1,,,,unknown,1\n"
        "b,,,,1,1,3900000000,8,,,,unknown,1\n");
  CHECK(problems_of(trace) == "no_gpu_count=1@4");
  // Of a job that ran, and of one that did not.
  CHECK(traces::kind_of(traces::Problem::no_gpu_count).what ==
        "do not say how many GPUs they had or asked for");
}

TEST_CASE("each slip is named with its line, the field and what to write") {
  const Folder folder;
  traces::JobReadOptions strict;
  strict.corrupt_limit = 0;
  const auto slip = [&](std::string_view format, const std::string& from, const std::string& to) {
    std::string text = fixture_of(format).text;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const std::string path = folder.file("t", text);
    const std::string error = error_of(path, strict);
    CHECK(error.starts_with(path + ":"));
    return error.substr(std::min(error.size(), path.size() + 1));
  };
  CHECK(slip("helios", "2020-06-09 18:41:31", "2020-13-09 18:41:31")
            .starts_with("2: the start_time '2020-13-09 18:41:31' is wrong; write a time"));
  CHECK(slip("helios", "2020-06-09 18:42:00", "2020-06-09 18:42:00+08:00")
            .starts_with("3: the submit_time"));  // a zone where the others have none
  CHECK(slip("helios", "uA,vcX,4", "uA,vcX,-4").starts_with("2: the gpu_num '-4'"));
  CHECK(
      slip("helios", "uA,vcX,4", "uA,vcX,4,4").starts_with("2: the line has 13 fields; write 12"));
  CHECK(slip("sacct", "gres/gpu=8", "gres/gpu=x").starts_with("2: the alloctres"));
  CHECK(slip("supercloud", "normal,4,", "normal,four,").starts_with("2: the state 'four'"));
  CHECK(slip("swf", "2 10 -1 -1", "2 10 -1 sixty").starts_with("4: the run time 'sixty'"));
  CHECK(slip("swf", "2 10 -1", "2 10").starts_with("4: the line does not have 18 fields"));
  CHECK(slip("openb", ",460,", ",1460,").starts_with("3: the gpu_milli '1460'"));
  CHECK(slip("pai-v2020", "2.0,Terminated,110.0", "2.0,Terminated,x")
            .starts_with("2: the start_time 'x'"));
  CHECK(slip("pai-v2020", "400.0,10.0,50.0", "400.0,10.0,-50.0")
            .starts_with("2: the plan_gpu '-50.0' is wrong"));
  CHECK(slip("pai-v2020", ",V100", "").starts_with("2: the line has 9 fields; write 10"));
  CHECK(slip("philly-json", "2017-10-07 01:12:09", "yesterday")
            .starts_with("2: the start_time 'yesterday' is wrong"));
  CHECK(
      slip("philly-json", "\"app_2\",", "\"app_2\"").starts_with("8: the job that begins here is"));
  CHECK(slip("philly-json", "\"app_2\"", "\"app_2").starts_with("8: the job that begins here is"));
  CHECK(slip("philly-json", "\"submitted_time\": \"2017-10-07 01:11:40\"", "\"x\": 1")
            .starts_with("8: the job that begins here has no submitted_time"));
}

TEST_CASE("a job of JSON that is broken hides no other") {
  const Folder folder;
  std::string text = fixture_of("philly-json").text;
  text.replace(text.find("\"app_2\","), 8, "\"app_2\"");
  traces::JobReadOptions lenient;
  lenient.corrupt_limit = 0.2;
  const traces::JobTrace trace = traces::read_job_trace(folder.file("t", text), lenient);
  CHECK(jobs_of(trace) == fixture_of("philly-json").csv);
  CHECK(problems_of(trace) ==
        "corrupt_lines=1@8 end_before_start=1@19 not_sorted=1@10 no_end=1@10");
}

TEST_CASE("a job of JSON that does not close costs itself alone, however it is written") {
  const Folder folder;
  constexpr std::size_t kJobs = 1000, kBad = 100;
  const std::string attempt =
      "{\"start_time\": \"2017-10-07 01:12:09\", \"end_time\": \"2017-10-07 01:13:23\","
      "@\"detail\": [@{\"ip\": \"m1\", \"gpus\": [\"gpu0\"]}]}";
  const auto log = [&](const std::string& blank, const std::string& between,
                       const std::string& from, const std::string& to) {
    std::string text = "[" + between;
    for (std::size_t i = 0; i < kJobs; ++i) {
      std::string job = fmt::format(
          "{{@\"status\": \"Pass\", \"jobid\": \"{}\",@\"attempts\": [@{},@{}],@"
          "\"submitted_time\": \"2017-10-07 01:11:39\",@\"user\": \"u\"}}",
          i, attempt, attempt);
      if (i == kBad) job.replace(job.find(from), from.size(), to);
      for (std::size_t at; (at = job.find('@')) != job.npos;) job.replace(at, 1, blank);
      text += job + (i + 1 < kJobs ? "," : "") + between;
    }
    return text + "]\n";
  };
  struct Damage {
    std::string from, to;
    std::size_t jobs = kJobs - 1, corrupt = 1;
  };
  const Damage damages[] = {
      {"\"u\"}", "\"u\""},                   // the job does not close
      {"gpu0\"]}]}]", "gpu0\"]}]]"},         // nor its attempt
      {"gpu0\"]}]}]", "gpu0\"]]}]"},         // nor its detail
      {"[@{\"start", "[@{{\"start"},         // a brace too many
      {"{@\"status", "{{@\"status", kJobs},  // around a whole job
      {"\"u\"}", "\"u\"}}", kJobs},          // behind one
      {"{@\"status\"", "\"status\""},        // the job does not begin
      {"]}]}]", "]}}]}]", kJobs - 1, 2},     // it closes too early
  };
  const struct {
    std::string blank, between;
    std::uint64_t line;  // of the damaged job
  } layouts[] = {{" ", "\n", 102}, {"\n   ", "\n", 2 + 11 * kBad}, {" ", " ", 1}};
  for (const Damage& damage : damages) {
    for (const auto& layout : layouts) {
      CAPTURE(damage.to);
      CAPTURE(layout.line);
      const traces::JobTrace trace = traces::read_job_trace(
          folder.file("t", log(layout.blank, layout.between, damage.from, damage.to)));
      CHECK(trace.jobs.size() == damage.jobs);
      CHECK(trace.problems[0].rows == damage.corrupt);
      CHECK(trace.rows == damage.jobs + damage.corrupt);
      CHECK(trace.problems[0].first_line >= layout.line);
      CHECK(trace.problems[0].first_line <= layout.line + (layout.line == 102 ? 1 : 11));
    }
  }
  // A quote is missing: the line hides its braces, and on a line of their own all jobs behind it.
  const auto unquoted = [&](std::size_t layout) {
    return log(layouts[layout].blank, layouts[layout].between, "\"jobid\": \"", "\"jobid\": ");
  };
  CHECK(traces::read_job_trace(folder.file("t", unquoted(0))).jobs.size() == kJobs - 1);
  CHECK(traces::read_job_trace(folder.file("t", unquoted(1))).jobs.size() == kJobs - 1);
  CHECK(error_of(folder.file("t", unquoted(2))).find("lines cannot be read") != std::string::npos);
}

TEST_CASE("what is lost of a JSON log counts, also where nothing of it can be recognised") {
  const Folder folder;
  constexpr std::string_view kJob =
      "{\"submitted_time\": \"2017-10-07 01:11:39\", \"attempts\": [{\"detail\": [{\"gpus\": "
      "[\"gpu0\"]}]}]},\n";
  std::string jobs;
  for (std::size_t i = 0; i < 1000; ++i) jobs += kJob;
  traces::JobReadOptions any;
  any.corrupt_limit = 1;
  const auto rows = [&](const std::string& between) {
    const traces::JobTrace trace =
        traces::read_job_trace(folder.file("t", jobs + between + jobs), any);
    CHECK(trace.jobs.size() == 2000);
    CHECK(trace.problems[0].first_line == 1001);
    return trace.problems[0].rows;
  };
  CHECK(rows("oops\n") == 1);
  const std::string zeros = std::string(100 * (kJob.size() - 2), '\0') + "\n";
  CHECK(rows(zeros) == 100);
  CHECK(error_of(folder.file("t", jobs + zeros + jobs))
            .ends_with(
                "t:1001: what begins here is not a whole job; close its braces and quotes (100 "
                "of 1100 lines cannot be read as philly-json, more than 1 %; choose another "
                "--format, or allow more with --corrupt-limit)"));
  // More than is ever held in memory.
  CHECK(rows("{\"a\": \"" + std::string(std::size_t{40} << 20, '1') + "\n") > 1);
  std::string braces, nested;
  for (std::size_t i = 0; i < 5'000'000; ++i) braces += '{';
  for (std::size_t i = 0; i < 1'000'000; ++i) nested += "{\"a\":";
  CHECK(error_of(folder.file("t", jobs + braces)).find("lines cannot be read") !=
        std::string::npos);
  CHECK(error_of(folder.file("t", jobs + nested)).find("lines cannot be read") !=
        std::string::npos);
  const std::string open = folder.file(
      "open", "[{\"submitted_time\": \"x\", \"a\": [" + std::string(std::size_t{17} << 20, '1'));
  CHECK(error_of(open).starts_with(open + ":1: what begins here is not a whole job"));
}

TEST_CASE("JSON and CSV larger than a block arrive whole") {
  const Folder folder;
  constexpr std::size_t kJobs = 20000;
  std::string json = "[", csv = "timestamp,duration,num_gpus,gpu_time,cluster\n";
  for (std::size_t i = 0; i < kJobs; ++i) {
    json += fmt::format(
        "{}\n{{\"status\": \"Pass\", \"vc\": \"v\", \"jobid\": \"{}\", \"attempts\": "
        "[{{\"start_time\": \"2017-10-07 01:12:09\", \"end_time\": \"2017-10-07 01:13:23\", "
        "\"detail\": [{{\"ip\": \"m1\", \"gpus\": [\"gpu0\"]}}]}}], \"submitted_time\": "
        "\"2017-10-07 01:11:39\", \"user\": \"u{}\"}}",
        i == 0 ? "" : ",", i, i % 7);
    csv += fmt::format("2017-10-09 07:01:{:02}.0000000{:03},66.0,1,66.0,c{}\n", i % 60, i % 1000,
                       i % 7);
  }
  json += "\n]\n";
  const traces::JobTrace from_json = traces::read_job_trace(folder.file("a.json", json));
  REQUIRE(from_json.jobs.size() == kJobs);
  for (std::size_t i = 0; i < kJobs; ++i) {  // at one time in the order of the file
    REQUIRE(from_json.text(from_json.jobs[i].id) == std::to_string(i));
  }
  CHECK(from_json.texts.interned() == 8);
  CHECK(traces::read_job_trace(folder.file("a.csv", csv)).jobs.size() == kJobs);
  const std::string overlong = csv + std::string(3 << 20, '7') + "\n2017-10-09 07:01:00,1,1,1,c\n";
  const traces::JobTrace trace = traces::read_job_trace(folder.file("b.csv", overlong));
  CHECK(trace.jobs.size() == kJobs + 1);
  CHECK(problems_of(trace).starts_with(fmt::format("corrupt_lines=1@{}", kJobs + 2)));
}

TEST_CASE("a job takes less than 150 bytes of memory, ids of 36 characters included") {
  const Folder folder;
  constexpr std::size_t kJobs = 100000;
  std::string csv = "job_id,submission_time,duration,num_gpu\n";
  for (std::size_t i = 0; i < kJobs; ++i) csv += fmt::format("{:036},{},60,1\n", i, i);
  const traces::JobTrace trace = traces::read_job_trace(folder.file("a", csv));
  const std::size_t bytes =
      trace.jobs.capacity() * sizeof(traces::JobRecord) + trace.texts.bytes() + sizeof trace;
  CHECK(bytes < 150 * kJobs);
}

TEST_CASE("a file that is not a job log is refused with what it is") {
  const Folder folder;
  const auto refused = [&](const std::string& content, const std::string& part) {
    const std::string path = folder.file("t", content);
    const std::string error = error_of(path);
    CAPTURE(error);
    CHECK(error.starts_with(path + ": "));
    CHECK(error.find(part) != std::string::npos);
  };
  refused("a,b,c\n1,2,3\n", "it begins with 'a,b,c', and the formats are batchflow, philly-json");
  refused("[1, 2]", "is not a known trace of jobs");
  refused("sn,cpu_milli,memory_mib,gpu,model\n", "holds openb's nodes, not jobs");
  refused(std::string(257, 'x') + "ustar" + std::string(250, '\0'), "unpack it with tar -xf");
  refused("PK\3\4", "unzip -p");
  refused(
      "\xff\xfe"
      "a",
      "iconv -f UTF-16");
  refused("", "is empty; write");
  refused("\n\r\n \t\n", "has only blanks; write");
  refused("\xef\xbb\xbf\n", "has only blanks; write");
  const std::string whole = gzip(fixture_of("itp").text);
  refused(whole.substr(0, whole.size() - 9), "cut short; fetch the whole file");
  refused(whole + "something else", "has other bytes after its gzip data");
  CHECK(traces::read_job_trace(folder.file("two", whole + gzip("x,1,1,1\n"))).jobs.size() == 3);
  traces::JobReadOptions options;
  options.format = "helios";
  CHECK(error_of(folder.file("t", fixture_of("itp").text), options)
            .find("it needs the columns job_id, user, vc") != std::string::npos);
  options.format = "helos";
  CHECK(error_of(folder.file("t", "x"), options).starts_with("no format 'helos'; write 'helios'"));
  CHECK(traces::read_job_trace(folder.file("t", "job_id,submission_time,duration,num_gpu\n"))
            .jobs.empty());
}

}  // namespace batchflow::test::job_trace_test
