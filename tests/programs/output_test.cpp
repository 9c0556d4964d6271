#include "programs/output/output.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "core/base/config_value.h"
#include "tests/temporary_folder.h"

namespace batchflow::test::output_test {
namespace fs = std::filesystem;

namespace {

// An empty folder for this test, removed afterwards.
struct Folder : TemporaryFolder {
  std::string operator/(const char* name) const { return (path() / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path()), {}));
  }
};

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a file appears whole, replaces what was there, and leaves nothing beside it") {
  Folder folder;
  const std::string path = folder / "result.json";
  output::write_file_atomically(path, "first");
  CHECK(content_of(path) == "first");
  ::chmod(path.c_str(), 0640);
  output::write_file_atomically(path, "second");
  CHECK(content_of(path) == "second");
  CHECK(folder.entries() == 1);
  struct stat status {};
  ::stat(path.c_str(), &status);
  CHECK((status.st_mode & 07777) == 0640);
}

TEST_CASE("a symbolic link is followed, not replaced") {
  Folder folder;
  fs::create_symlink("target", folder / "link");
  output::write_file_atomically(folder / "link", "text");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(content_of(folder / "target") == "text");
}

TEST_CASE("a device and a pipe are written directly") {
  output::write_file_atomically("/dev/null", "text");
  CHECK(fs::is_character_file("/dev/null"));
  Folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::string received;
  std::thread reader([&] { received = content_of(pipe); });
  output::write_file_atomically(pipe, "through the pipe");
  reader.join();
  CHECK(received == "through the pipe");
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("what cannot be written is refused with its place and a remedy, and before the run") {
  Folder folder;
  for (const std::string& path : {folder / "no/such/file", folder.path().string()}) {
    CAPTURE(path);
    CHECK_THROWS_WITH_AS(output::write_file_atomically(path, "x"), doctest::Contains(path.c_str()),
                         ConfigError);
    CHECK_THROWS_AS(output::require_writable(path), ConfigError);
  }
  CHECK(folder.entries() == 0);
  output::require_writable(folder / "new");
  output::require_writable("-");
  output::require_writable("/dev/null");
  CHECK(folder.entries() == 0);
}

}  // namespace batchflow::test::output_test
