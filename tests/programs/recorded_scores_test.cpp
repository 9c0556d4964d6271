// Recordings of scores: what they say of a sample in an epoch, and what is refused, with file and
// line.
#include "programs/input/recorded_scores.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/config_value.h"
#include "programs/input/scenario.h"
#include "programs/input/yaml.h"
#include "tests/temporary_folder.h"

namespace batchflow::test::recorded_scores_test {

namespace {

namespace fs = std::filesystem;
using input::RecordedScores;

using Folder = TemporaryFolder;

const std::string kHead = "# batchflow-scores 1 samples 10\nepoch,key,score\n";

// The message, with the file's name in place of its path.
template <class Work>
std::string refusal(const Folder& folder, const Work& work) {
  try {
    work();
  } catch (const ConfigError& error) {
    std::string text = error.what();
    const std::string path = folder.path().string() + "/";
    for (std::size_t at; (at = text.find(path)) != std::string::npos;) text.erase(at, path.size());
    return text;
  }
  return "nothing";
}

std::string refusal(const std::string& content) {
  const Folder folder;
  const std::string path = folder.file("s.csv", content);
  const std::string checked = refusal(folder, [&] { RecordedScores::check(path); });
  CHECK(refusal(folder, [&] { RecordedScores{path}; }) == checked);
  return checked;
}

}  // namespace

TEST_CASE("a sample has the score that came last by the end of an epoch") {
  const Folder folder;
  const std::string path = folder.file("s.csv", kHead +
                                                    "3,7,0.5\n"
                                                    "0,7,2.5\n"
                                                    "0,7,-1e-3\n"  // later in the same epoch
                                                    "0,9,4\n"
                                                    "5,7,8\n"
                                                    "5,0,0.100000001\n");
  CHECK(RecordedScores::check(path) == 10);
  const RecordedScores scores(path);
  CHECK(scores.last(7, 0) == -1e-3F);
  CHECK(scores.last(7, 2) == -1e-3F);
  CHECK(scores.last(7, 3) == 0.5F);
  CHECK(scores.last(7, 4) == 0.5F);
  CHECK(scores.last(7, 5) == 8.F);
  CHECK(scores.last(7, UINT32_MAX) == 8.F);  // beyond the recording
  CHECK(scores.last(0, 5) == 0.1F);
  CHECK(!scores.last(0, 4));  // none yet
  CHECK(!scores.last(8, 9));
  CHECK(scores.last(9, 1) == 4.F);
  CHECK(!RecordedScores(folder.file("empty.csv", kHead)).last(0, 0));
}

TEST_CASE("a file that is no recording is refused with its line and what to write") {
  const std::string no_recording =
      "s.csv:1: this is no recording of scores; name a file that record_scores() of a Python "
      "loader "
      "has written";
  CHECK(refusal("") == no_recording);
  CHECK(refusal("epoch,key,score\n0,1,2\n") == no_recording);
  CHECK(refusal("# batchflow-scores x samples 10\n") == no_recording);
  CHECK(refusal("# batchflow-scores 2 samples 10\nepoch,key,score\n") ==
        "s.csv:1: version 2 of the format, and 1 is read here; record the scores again, or read "
        "them with the version that wrote them");
  for (const char* samples : {"", " samples", " samples 0", " samples -1", " samples 4294967295",
                              " samples 10 ", " samples 99999999999999999999"}) {
    CAPTURE(samples);
    CHECK(refusal(fmt::format("# batchflow-scores 1{}\nepoch,key,score\n", samples)) ==
          "s.csv:1: this does not say how many samples the dataset has; write "
          "'# batchflow-scores 1 samples N', N from 1 to 4294967294");
  }
  CHECK(refusal("# batchflow-scores 1 samples 10\n0,1,2\n") ==
        "s.csv:2: not the names of the columns; write epoch,key,score");
  CHECK(refusal("# batchflow-scores 1 samples 10\n") ==
        "s.csv:2: not the names of the columns; write epoch,key,score");
}

TEST_CASE("a line that is no score is refused with its number") {
  for (const char* line : {"", "1", "1,2", "1,2,", "1,2,x", "-1,2,3", "4294967296,2,3", "1,-2,3",
                           "1,2,3,4", "1,2,3 ", " 1,2,3", "1,2,nan", "1,2,inf", "1,2,1e39",
                           "1,2,3\r", "1;2;3", "1.0,2,3", "1,99999999999999999999,3"}) {
    CAPTURE(line);
    CHECK(refusal(kHead + "0,1,2\n" + line + "\n0,1,2\n") ==
          "s.csv:4: not epoch,key,score; write three numbers, as 0,17,2.5");
  }
  CHECK(refusal(kHead + std::string("0,1,2\n0,1\0,2\n", 13)).starts_with("s.csv:4: not epoch"));
  CHECK(refusal(kHead + "0,9,2\n0,10,2\n") ==
        "s.csv:4: sample 10 of a dataset of 10; write a key from 0 to 9");
  CHECK(refusal(kHead + "0,1,2\n0,1,2") ==
        "s.csv:4: a last line without an end, which may be cut short; remove it");
  // However long a line is, no more of it is read.
  CHECK(refusal(kHead + "0,1," + std::string(1 << 20, '1')) ==
        "s.csv:3: a line of more than 127 characters; name a file that record_scores() of a Python "
        "loader has written");
}

TEST_CASE("what is no file is refused, even if it has no end") {
  const Folder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(folder, [&] { RecordedScores::check(pipe); }).starts_with("pipe: cannot be read"));
  for (const char* path : {"/dev/zero", "/dev/null", "/tmp", "/nowhere/s.csv"}) {
    CAPTURE(path);
    CHECK(refusal(folder, [&] { RecordedScores::check(path); }) ==
          fmt::format("{}: cannot be read; name a file that record_scores() of a Python loader has "
                      "written",
                      path));
  }
}

TEST_CASE("a scenario names a recording beside it, which has to fit its dataset") {
  const Folder folder;
  folder.file("s.csv", kHead + "0,1,2\n");
  const auto read = [&](const std::string& importance, const std::string& more = "",
                        const char* order = "weighted") {
    const std::string text = fmt::format(
        "cluster: {{nodes: [{{name: n, memory: 1gb}}]}}\n"
        "datasets: [{{name: data, samples: 10, bytes: 1kb}}]\n"
        "pipelines: [{{name: train, steps: []}}]\n"
        "jobs: [{{dataset: data, pipeline: train, batch: 2, step: 1s, order: {}, importance: {} "
        "}}]\n"
        "{}",
        order, importance, more);
    config::ConfigNode tree = input::parse_yaml(text, (folder.path() / "s.yaml").string());
    return input::read_scenario(tree).jobs[0].importance;
  };
  const auto refused = [&](const std::string& importance, const std::string& more = "") {
    return refusal(folder, [&] { read(importance, more); });
  };
  CHECK(read("{recorded: s.csv}").recorded == (folder.path() / "s.csv").string());
  CHECK(read("{recorded: s.csv}").reports());
  CHECK(!read("{recorded: ''}").reports());
  CHECK(
      refused("{recorded: s.csv, spread: 1}") ==
      "s.yaml:4: key 'jobs.0.importance.recorded': scores are those of a recording or of a model, "
      "not of both; leave out spread and drift, or recorded");
  CHECK(refused("{recorded: s.csv}", "grain: {samples_per_item: 2}\n").find("items have 2") !=
        std::string::npos);
  CHECK(refusal(folder, [&] { read("{recorded: s.csv}", "", "strict"); }) ==
        "s.yaml:4: key 'jobs.0.importance': scores count in a weighted order alone; write order: "
        "weighted, or leave importance out");
  CHECK(refused("{recorded: t.csv}") ==
        "t.csv: cannot be read; name a file that record_scores() of a Python loader has written");
  folder.file("t.csv", "# batchflow-scores 1 samples 12\nepoch,key,score\n");
  CHECK(refused("{recorded: t.csv}") ==
        "s.yaml:4: key 'jobs.0.importance.recorded': the recording is of a dataset of 12 samples, "
        "and "
        "the job's has 10; write samples: 12 for the dataset, or name another recording");
  folder.file("t.csv", kHead + "0,1,two\n");
  CHECK(refused("{recorded: t.csv}") ==
        "t.csv:3: not epoch,key,score; write three numbers, as 0,17,2.5");
}

}  // namespace batchflow::test::recorded_scores_test
