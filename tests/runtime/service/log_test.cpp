// The service's log: its lines, and their bounds.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/config_value.h"
#include "doctest/doctest.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/service/backend/troubles.h"
#include "runtime/service/jobs/users.h"
#include "runtime/service/log/log_file.h"
#include "runtime/service/log/service_log.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::log_test {
namespace {

// 2026-11-24 01:47:28.123 UTC.
service::ServiceLog::Clock::time_point a_moment() {
  return service::ServiceLog::Clock::time_point(std::chrono::milliseconds(1795484848123));
}

struct Written {
  explicit Written(service::LogForm form = service::LogForm::text) : log(form, a_moment) {
    log.write_to([this](const std::string& line) { lines.push_back(line); });
  }
  std::size_t with(const std::string& words) const {
    return static_cast<std::size_t>(
        std::count_if(lines.begin(), lines.end(),
                      [&](const std::string& line) { return line.find(words) != line.npos; }));
  }
  std::vector<std::string> lines;
  service::ServiceLog log;
};

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("lines of samples that cannot be prepared have their kind, and are bounded") {
  Written written(service::LogForm::json);
  service::Troubles troubles([&](const service::LogLine& line) { written.log.say(line); });
  for (int i = 0; i < 300; ++i) {
    troubles.note(PipelineId(1), fmt::format("sample {}: it ends early", i));
    if (i % 10 == 9) written.log.tick();
  }
  CHECK(written.lines.size() == 100);
  const auto line = nlohmann::json::parse(written.lines.at(0));
  CHECK(line.at("kind") == "sample");
  CHECK(line.at("level") == "warning");
  CHECK(line.at("text") == "sample 0: it ends early");
}

TEST_CASE("a line has time and level") {
  Written written;
  written.log.say({"serving at /run/x"});
  written.log.say({"the disk is full", service::LogLevel::error});
  CHECK(written.lines ==
        std::vector<std::string>{"2026-11-24T01:47:28.123Z info batchflowd: serving at /run/x",
                                 "2026-11-24T01:47:28.123Z error batchflowd: the disk is full"});
}

TEST_CASE("as JSON a line is an object, whatever stands in it") {
  Written written(service::LogForm::json);
  written.log.say(
      {"bad \x1b[2J \"name\" \xff\n\u202e", service::LogLevel::warning, "dataset", uid_t{0}});
  REQUIRE(written.lines.size() == 1);
  CHECK(written.lines[0].find_first_of("\n\x1b\xff") == std::string::npos);
  const auto line = nlohmann::json::parse(written.lines[0]);
  CHECK(line.at("time") == "2026-11-24T01:47:28.123Z");
  CHECK(line.at("level") == "warning");
  CHECK(line.at("kind") == "dataset");
  CHECK(line.at("user") == "root");
  CHECK(line.at("text").get<std::string>().starts_with("bad \x1b[2J \"name\" "));
}

TEST_CASE("what is said before there is anywhere to write it is written then") {
  service::ServiceLog log(service::LogForm::text, a_moment);
  log.say({"3 jobs may come back"});
  std::string written;
  log.write_to([&](const std::string& line) { written += line; });
  CHECK(written.ends_with("3 jobs may come back"));
}

TEST_CASE("a client's lines are bounded a second, and those left out are counted") {
  constexpr int kSeconds = 4, kLines = 2568;  // a second
  Written written;
  for (int second = 0; second < kSeconds; ++second) {
    for (int i = 0; i < kLines; ++i)
      written.log.say({"dataset /bad: is empty", service::LogLevel::error, "dataset", uid_t{0}});
    // Neither another user's lines, nor another kind, nor the service's own are left out.
    written.log.say({"dataset /other: is empty", service::LogLevel::error, "dataset", uid_t{1}});
    written.log.say({"pipeline /bad: no steps", service::LogLevel::error, "pipeline", uid_t{0}});
    for (int i = 0; i < 30; ++i) written.log.say({"of the service"});
    written.log.tick();
  }
  CHECK(written.with("dataset /bad") == kSeconds * service::ServiceLog::kLinesMost);
  CHECK(written.with(fmt::format("{} more lines of kind dataset, by user root, were left out",
                                 kLines - service::ServiceLog::kLinesMost)) == kSeconds);
  CHECK(written.with("dataset /other") == kSeconds);
  CHECK(written.with("pipeline /bad") == kSeconds);
  CHECK(written.with("of the service") == kSeconds * 30);
  const std::size_t all = written.lines.size();
  written.log.tick();
  CHECK(written.lines.size() == all);
}

TEST_CASE("joins of a bad folder fill no log") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.open_datasets = true;
  const LiveService service(config);
  const std::filesystem::path empty = folder.path() / "empty";
  std::filesystem::create_directory(empty);
  JobPlan plan;
  plan.service = config.socket;
  plan.dataset = empty;
  const std::string left_out = "more lines of kind dataset, by user ";
  int joins = 0;
  for (; joins < 20'000 && !service.has_said(left_out); ++joins)
    REQUIRE(run_job(plan).wrong.find("empty") != std::string::npos);
  CHECK(service.has_said("dataset " + empty.string() + ": "));
  CHECK(service.has_said(left_out));
  CHECK(joins > static_cast<int>(service::ServiceLog::kLinesMost));
}

TEST_CASE("a log file takes no more than its bound, and keeps what is newest") {
  Folder folder;
  const std::filesystem::path path = folder.path() / "log";
  {
    service::RotatingFile file(path, 1000);
    for (int i = 0; i < 1000; ++i) REQUIRE(file.append(fmt::format("line {:04}", i)));
  }
  // Half of the bound holds 50 lines of 10 bytes.
  CHECK(content(path.string() + ".1").starts_with("line 0900\n"));
  CHECK(content(path).starts_with("line 0950\n"));
  CHECK(content(path).ends_with("line 0999\n"));
  CHECK(content(path).size() + content(path.string() + ".1").size() <= 1000);
  // It goes on with what is there; a line beyond the bound is cut.
  service::RotatingFile again(path, 1000);
  CHECK(again.append(std::string(5000, 'x')));
  CHECK(content(path) == std::string(500, 'x') + '\n');
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("a log file that ends within a line goes on with a new one") {
  Folder folder;
  const std::filesystem::path path = folder.path() / "log";
  const auto after = [&](const std::string& before, int lines = 2) {
    std::ofstream(path, std::ios::trunc) << before;
    service::RotatingFile file(path, 1000);
    for (int i = 0; i < lines; ++i) CHECK(file.append("{}"));
    return content(path);
  };
  CHECK(after("") == "{}\n{}\n");
  CHECK(after("{\"a\": 1}\n") == "{\"a\": 1}\n{}\n{}\n");
  CHECK(after("{\"a\": 1}\n{\"b") == "{\"a\": 1}\n{\"b\n{}\n{}\n");
  CHECK(after("x") == "x\n{}\n{}\n");
  // The line break counts: with it half of the bound is too little.
  CHECK(after(std::string(496, 'x'), 1) == std::string(496, 'x') + "\n{}\n");
  CHECK(after(std::string(497, 'x'), 1) == "{}\n");
  CHECK(after(std::string(497, '\n'), 1) == std::string(497, '\n') + "{}\n");
}

TEST_CASE("a log file that cannot be written is named at the start") {
  Folder folder;
  CHECK_THROWS_WITH_AS(service::RotatingFile(folder.path() / "none" / "log", 1000),
                       doctest::Contains("choose another file"), ConfigError);
}

}  // namespace batchflow::test::log_test
