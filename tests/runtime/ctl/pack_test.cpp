// `batchflowctl pack` as a user calls it: all or nothing.
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "doctest/doctest.h"
#include "programs/output/terminal.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::pack_test {
namespace fs = std::filesystem;

namespace {

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a folder is packed into shards of the size asked for, and holds the same samples") {
  const Folder data, place, streams;
  for (int i = 0; i < 40; ++i)
    data.write(fmt::format("{}/{:02}.ppm", i % 2 ? "cat" : "dog", i), std::string(1000, 'x'));
  const Outcome outcome =
      run_ctl({"pack", data.path(), place / "packed", "--shards-of", "10kb", "--name", "pets"},
              streams.path());
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("\n40 samples packed") != std::string::npos);
  CHECK(entries(place.path()) == 1);
  CHECK(fs::exists(place / "packed/pets-00004.bfpack"));
  const auto index = sources::open_index(source(place / "packed"));
  CHECK(index->samples() == 40);
  CHECK(index->classes() == std::vector<std::string>{"cat", "dog"});
}

TEST_CASE("samples that verify calls corrupt are left out and named, and where a file was cut") {
  const Folder data, place, streams;
  const auto jpeg = [](std::uint64_t seed) {
    const Encoded encoded = encode_jpeg(40, 30, {}, seed);
    return std::string(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  };
  const std::string cut = jpeg(2).substr(0, 300);
  data.write("folder/cat/1.jpg", jpeg(1));
  data.write("folder/cat/2.jpg", cut);
  data.write("folder/dog/3.jpg", "");
  data.write("folder/dog/4.jpg", "random");
  data.write("folder/dog/5\n\u202egpj.png", "random");
  data.write("shards/a.tar", tar_member("1.jpg", jpeg(1)) + tar_member("1.cls", "7") +
                                 tar_member("2.jpg", cut) + tar_member("2.cls", "8") +
                                 tar_header("3.jpg", 9999, '0') + "and the rest is missing");
  for (const char* name : {"folder", "shards"}) {
    const Outcome packed = run_ctl({"pack", data / name, place / name}, streams.path());
    const Outcome verified = run_ctl({"verify", data / name, "--json"}, streams.path());
    CHECK(packed.code == 0);
    CHECK(verified.code == 1);
    const auto told = nlohmann::json::parse(verified.out);
    std::string expected;
    for (const auto& note : told.at("notes"))
      expected += fmt::format("note: {}\n", note.get<std::string>());
    for (const auto& one : told.at("findings"))
      expected += fmt::format("corrupt, left out: {}: {}\n",
                              output::printable(one.at("name").get<std::string>()),
                              one.at("why").get<std::string>());
    expected += fmt::format("1 samples packed into {}, {} corrupt ones left out\n",
                            (place / name).string(), told.at("findings").size());
    CHECK(packed.out == expected);
    CHECK(run_ctl({"verify", place / name}, streams.path()).code == 0);
    CHECK(sources::open_index(source(place / name))->stored_fields().find("label") != nullptr);
  }
  CHECK(run_ctl({"pack", data / "folder/dog", place / "none"}, streams.path()).code == 1);
  CHECK(entries(place.path()) == 2);
}

TEST_CASE("where a sample cannot be read, which may be sound, nothing is packed") {
  const Folder data, place, streams;
  data.write("1.txt", "bytes");
  std::string said;
  // Until the file is read when it is indexed, and then three times not.
  for (int seed = 0; seed < 200 && said.find("cannot be read (1.txt: ") == said.npos; ++seed) {
    const std::string failing = fmt::format("sources.read.error=fail:0.7,seed={}", seed);
    setenv("BATCHFLOW_FAILPOINTS", failing.c_str(), 1);
    const Outcome outcome = run_ctl({"pack", data.path(), place / "new"}, streams.path());
    unsetenv("BATCHFLOW_FAILPOINTS");
    said = outcome.err;
    CHECK((outcome.code == 0) == said.empty());
    CHECK(entries(place.path()) == (said.empty() ? 1 : 0));
    fs::remove_all(place / "new");
  }
  CHECK(said.find("; nothing was packed") != said.npos);
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

}  // namespace batchflow::test::pack_test
