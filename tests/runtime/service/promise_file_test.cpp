// The file of promises where its disk fails: behind for a while, and never damaged.
#include "runtime/service/log/promise_file.h"

#include <fstream>
#include <iterator>
#include <vector>

#include "runtime/failpoint/failpoint.h"
#include "runtime/service/jobs/returning.h"
#include "tests/core/promised_join.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::promise_file_test {
namespace {

engine::Promise joined(std::uint32_t job) {
  return test::joined(job, order::Position(Order::strict, 7, 64, 0), {NodeId(0)});
}

std::string name_of(JobId job) {
  return "job-" + std::to_string(job.value);
}

// Which jobs the file promises anything to.
std::vector<std::uint32_t> jobs_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::uint32_t> jobs;
  const auto bytes = std::as_bytes(std::span(text));
  const log::Promises found = log::recover_promises(bytes, "promises").promises;
  for (const auto& [job, what] : found.jobs()) jobs.push_back(job);
  return jobs;
}

struct Configured {
  explicit Configured(std::string_view text) { failpoint::configure_failpoints(text); }
  ~Configured() { failpoint::configure_failpoints(""); }
};

using JobIds = std::vector<std::uint32_t>;

TEST_CASE("what could not be written, whole or in part, is there when it can be again") {
  for (const char* const failing :
       {"service.log.write=fail:1:1", "service.log.write.short=short:1:1,service.log.write=fail",
        "service.log.open=fail:1:1", "service.promises.rename=fail:1:1"}) {
    CAPTURE(failing);
    const Folder folder;
    const std::filesystem::path path = folder.path() / "promises";
    service::PromiseFile file({path}, Bytes{1} << 20, name_of);
    file.write(std::vector{joined(1)});
    CHECK(file.take_problem() == "");
    {
      // First an append that fails; then, at a place further on, what makes good for it.
      const Configured begin("service.log.write.short=short:1:1,service.log.write=fail:1:1");
      file.write(std::vector{joined(2)});
      CHECK(file.take_problem().find("promises: cannot be written: No space left on device; ") !=
            std::string::npos);
    }
    CHECK(jobs_in(path) == JobIds{1});
    {
      const Configured again(failing);
      file.write(std::vector{joined(3)});
    }
    CHECK(file.take_problem() == "");                              // it has been said
    CHECK_FALSE(std::filesystem::exists(path.string() + ".new"));  // it would take room
    CHECK(jobs_in(path) == JobIds{1});
    file.write({});  // nothing new: nothing is tried
    CHECK(jobs_in(path) == JobIds{1});
    file.write(std::vector{joined(4)});
    CHECK(jobs_in(path) == JobIds{1, 2, 3, 4});
    file.write(std::vector{joined(5)});
    CHECK(jobs_in(path) == JobIds{1, 2, 3, 4, 5});
  }
}

TEST_CASE("commits wait for each other, for what is promised, or for a flush") {
  const Folder folder;
  const std::filesystem::path path = folder.path() / "promises";
  const auto commit = [](std::uint64_t step) {
    engine::Promise promise;
    promise.kind = engine::Promise::Kind::committed;
    promise.job = JobId(1);
    promise.step = step;
    const auto place = static_cast<std::uint32_t>(step);
    promise.slices = {{{0, 0, 0, 0}, place, place + 1}};
    return promise;
  };
  const auto steps_in = [&] {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    return log::recover_promises(std::as_bytes(std::span(text)), "promises")
        .promises.jobs()
        .at(1)
        .steps;
  };
  std::uint64_t step = 0;
  {
    service::PromiseFile file({path}, Bytes{1} << 20, name_of);
    file.write(
        std::vector{test::joined(1, order::Position(Order::strict, 7, 1 << 20, 0), {NodeId(0)})});
    file.write(std::vector{commit(step++)});
    CHECK(steps_in() == 0);
    file.flush();
    CHECK(steps_in() == 1);
    file.write(std::vector{commit(step++)});
    CHECK(steps_in() == 1);
    file.write(std::vector{joined(2)});
    CHECK(steps_in() == 2);
    while (steps_in() == 2) file.write(std::vector{commit(step++)});
    CHECK(step > 20);
    CHECK(step < 1000);
    CHECK(steps_in() == step);
    file.write(std::vector{commit(step++)});
  }
  CHECK(steps_in() == step);
}

constexpr std::uint64_t kUser = 0;

// Of a job that has trained on so many of its 64 samples, one a step.
engine::Promise commit(std::uint32_t job, std::uint64_t step) {
  engine::Promise promise;
  promise.kind = engine::Promise::Kind::committed;
  promise.job = JobId(job);
  promise.step = step;
  const auto place = static_cast<std::uint32_t>(step);
  promise.slices = {{{0, 0, 0, 0}, place, place + 1}};
  return promise;
}

order::Position at(std::uint32_t epoch, std::uint64_t consumed) {
  order::Position::Fields fields;
  fields.dataset_version = 7;
  fields.samples = 64;
  fields.epoch = epoch;
  fields.consumed = consumed;
  std::string problem;
  return *order::Position::from(fields, problem);
}

TEST_CASE("the next service knows the jobs, and which comes back behind what it trained on") {
  const Folder folder;
  const std::filesystem::path path = folder.path() / "promises";
  {
    service::PromiseFile file({path}, Bytes{1} << 20, name_of);
    file.write(std::vector{joined(1), joined(2), joined(4)});
    for (std::uint64_t step = 0; step < 3; ++step) file.write(std::vector{commit(2, step)});
    engine::Promise left;
    left.kind = engine::Promise::Kind::left;
    left.job = JobId(1);
    file.write(std::vector{left});
  }
  // However often it is killed before any job is back.
  for (int start = 0; start < 3; ++start) {
    service::PromiseFile file({path}, Bytes{1} << 20, name_of);
    const service::Returning returning(file);
    CHECK(returning.names() == std::vector<std::string>{"job-2", "job-4"});
    CHECK(returning.next_job() == 5);
  }
  service::PromiseFile file({path}, Bytes{1} << 20, name_of);
  service::Returning returning(file);
  CHECK(returning.objection(kUser, "job-2", at(0, 2))
            .find("after 2 samples of epoch 0, but had "
                  "trained on 3 of epoch 0") != std::string::npos);
  for (const order::Position& told : {at(0, 3), at(0, 9), at(1, 0)})
    CHECK(returning.objection(kUser, "job-2", told) == "");
  CHECK(returning.objection(kUser + 1, "job-2", at(0, 0)) == "");
  CHECK(returning.objection(kUser, "job-3", at(0, 0)) == "");
  returning.begun(kUser, "job-2");
  file.write(std::vector{joined(5)});
  CHECK(jobs_in(path) == JobIds{4, 5});
  returning.give_up();
  file.flush();
  CHECK(jobs_in(path) == JobIds{5});
  CHECK(returning.names().empty());
}

TEST_CASE("where an epoch ends, a loader need not have heard of it") {
  const Folder folder;
  service::PromiseFile file({folder.path() / "promises"}, Bytes{1} << 20, name_of);
  file.write(std::vector{joined(1)});
  for (std::uint64_t step = 0; step < 64; ++step) file.write(std::vector{commit(1, step)});
  engine::Promise end;
  end.kind = engine::Promise::Kind::epoch_finished;
  end.job = JobId(1);
  file.write(std::vector{end});
  const service::Returning returning(file);
  CHECK(returning.objection(kUser, "job-1", at(0, 64)) == "");
  CHECK(returning.objection(kUser, "job-1", at(1, 0)) == "");
}

TEST_CASE("a file of promises that is damaged is put aside, and said") {
  const Folder folder;
  const std::filesystem::path path = folder.path() / "promises";
  {
    service::PromiseFile file({path}, Bytes{1} << 20, name_of);
    file.write(std::vector{joined(1), joined(2)});
  }
  std::fstream bytes(path, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(40);
  bytes.put('!');
  bytes.close();
  service::PromiseFile file({path}, Bytes{1} << 20, name_of);
  CHECK(file.take_problem().find("it is put aside as") != std::string::npos);
  CHECK(std::filesystem::exists(path.string() + ".damaged"));
  CHECK(jobs_in(path).empty());
  file.write(std::vector{joined(3)});
  CHECK(jobs_in(path) == JobIds{3});
}

TEST_CASE("a file of promises that no log of them grows to is put aside unread, with its size") {
  const Folder folder;
  const std::filesystem::path path = folder.path() / "promises";
  {
    service::PromiseFile file({path}, Bytes{1} << 20, name_of);
    file.write(std::vector{joined(1)});
  }
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // a hole: it takes no room
  service::PromiseFile file({path}, Bytes{1} << 20, name_of);
  const std::string problem = file.take_problem();
  CHECK(problem.find(path.string() + ": it has 1099511627776 bytes") == 0);
  CHECK(problem.find("(promise_log_bytes_max); it is put aside as") != std::string::npos);
  CHECK(std::filesystem::exists(path.string() + ".damaged"));
  file.write(std::vector{joined(3)});
  CHECK(jobs_in(path) == JobIds{3});
}

TEST_CASE("a hole in a file of promises costs what stands behind it, and is said") {
  const Folder folder;
  const std::filesystem::path path = folder.path() / "promises";
  {
    service::PromiseFile file({path}, Bytes{1} << 20, name_of);
    for (std::uint32_t job = 1; job <= 200; ++job) file.write(std::vector{joined(job)});
  }
  REQUIRE(std::filesystem::file_size(path) > 3 * 4096);
  std::fstream bytes(path, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(4096);
  bytes << std::string(4096, '\0');
  bytes.close();
  service::PromiseFile file({path}, Bytes{1} << 20, name_of);
  const std::string problem = file.take_problem();
  CHECK(problem.find("there are zeros from byte 4") != std::string::npos);
  CHECK(!std::filesystem::exists(path.string() + ".damaged"));
  // Those of the first page, without one that goes beyond it.
  const JobIds found = jobs_in(path);
  REQUIRE(found.size() > 5);
  CHECK(found.size() < 100);
  CHECK(found.back() == found.size());
  CHECK(file.promises().jobs().size() == found.size());
}

}  // namespace
}  // namespace batchflow::test::promise_file_test
