// The file of promises where its disk fails: behind for a while, and never damaged.
#include "runtime/service/promise_file.h"

#include <fstream>
#include <iterator>
#include <vector>

#include "runtime/failpoint/failpoint.h"
#include "tests/core/promised_join.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test {
namespace {

Promise joined(std::uint32_t job) {
  return test::joined(job, Position(Order::strict, 7, 64, 0), {NodeId(0)});
}

// Which jobs the file promises anything to.
std::vector<std::uint32_t> jobs_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::uint32_t> jobs;
  const auto bytes = std::as_bytes(std::span(text));
  const Promises found = recover_promises(bytes, "promises").promises;
  for (const auto& [job, what] : found.jobs()) jobs.push_back(job);
  return jobs;
}

struct Configured {
  explicit Configured(std::string_view text) { configure_failpoints(text); }
  ~Configured() { configure_failpoints(""); }
};

using JobIds = std::vector<std::uint32_t>;

TEST_CASE("what could not be written, whole or in part, is there when it can be again") {
  for (const char* const failing :
       {"service.log.write=fail:1:1", "service.log.write.short=short:1:1,service.log.write=fail",
        "service.log.open=fail:1:1", "service.promises.rename=fail:1:1"}) {
    CAPTURE(failing);
    const Folder folder;
    const std::filesystem::path path = folder.path() / "promises";
    PromiseFile file(path, Bytes{1} << 20);
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
    CHECK(file.take_problem() == "");  // it has been said
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
    Promise promise;
    promise.kind = Promise::Kind::committed;
    promise.job = JobId(1);
    promise.step = step;
    const auto place = static_cast<std::uint32_t>(step);
    promise.slices = {{{0, 0, 0, 0}, place, place + 1}};
    return promise;
  };
  const auto steps_in = [&] {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    return recover_promises(std::as_bytes(std::span(text)), "promises").promises.jobs().at(1).steps;
  };
  std::uint64_t step = 0;
  {
    PromiseFile file(path, Bytes{1} << 20);
    file.write(std::vector{test::joined(1, Position(Order::strict, 7, 1 << 20, 0), {NodeId(0)})});
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

}  // namespace
}  // namespace batchflow::test
