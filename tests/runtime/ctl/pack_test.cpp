// `batchflowctl pack` as a user calls it: all or nothing.
#include <csignal>
#include <thread>

#include "doctest/doctest.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/sources/dataset_files.h"

using namespace batchflow;
using namespace batchflow::test;
namespace fs = std::filesystem;

namespace {

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a folder is packed into shards of the size asked for, and holds the same samples") {
  const Folder data, place, streams;
  for (int i = 0; i < 40; ++i)
    data.write(fmt::format("{}/{:02}.jpg", i % 2 ? "cat" : "dog", i), std::string(1000, 'x'));
  const Outcome outcome =
      run_ctl({"pack", data.path(), place / "packed", "--shards-of", "10kb", "--name", "pets"},
              streams.path());
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("40 samples packed") == 0);
  CHECK(entries(place.path()) == 1);
  CHECK(fs::exists(place / "packed/pets-00004.bfpack"));
  const auto index = open_index(source(place / "packed"));
  CHECK(index->samples() == 40);
  CHECK(index->classes() == std::vector<std::string>{"cat", "dog"});
}

TEST_CASE("nothing is left where packing fails, and nothing that is there is touched") {
  const Folder data, place, streams;
  const auto fails = [&](const std::vector<std::string>& words, int code, std::string_view why) {
    const Outcome outcome = run_ctl(words, streams.path());
    CAPTURE(outcome.err);
    CHECK(outcome.code == code);
    CHECK(outcome.out == "");
    CHECK(outcome.err.find(why) != std::string::npos);
  };
  fails({"pack", data.path(), place / "new"}, 2, "no");
  CHECK(entries(place.path()) == 0);
  data.write("cat/1.jpg", "x");
  place.write("there/file", "mine");
  fails({"pack", data.path(), place / "there"}, 2, "not an empty folder");
  fails({"pack", data.path(), place / "new", "--shards-of", "many"}, 2, "not a size");
  fails({"pack", data.path()}, 2, "DEST");
  CHECK(entries(place.path()) == 1);
  CHECK(place.read("there/file") == "mine");
}

TEST_CASE("Ctrl-C ends it with 130 and leaves nothing") {
  const Folder data, place, streams;
  // 256 MiB in a file that takes no room: it takes longer than the signal.
  for (int i = 0; i < 1024; ++i) {
    data.write(fmt::format("cat/{}.bin", i), "");
    fs::resize_file(data / fmt::format("cat/{}.bin", i), 1 << 20);
  }
  Program program({"pack", data.path(), place / "new", "--format", "files"}, streams.path());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (entries(place.path()) == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(program.process(), SIGINT);
  const Outcome outcome = program.finish();
  CHECK(outcome.code == 130);
  CHECK(outcome.err == "batchflowctl: interrupted\n");
  CHECK(entries(place.path()) == 0);
}
