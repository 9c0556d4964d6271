// Files of secrets: what is read, and what is refused.
#include "runtime/protocol/secret_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "tests/temporary_folder.h"

namespace batchflow::test::secret_file_test {
namespace {

std::string secret(const TemporaryFolder& folder, const std::string& text, mode_t mode) {
  const std::string path = folder.file("secret", text);
  REQUIRE(::chmod(path.c_str(), mode) == 0);
  return path;
}

}  // namespace

TEST_CASE("a secret is read whole, with its owner") {
  const TemporaryFolder folder;
  const std::string text(10'000, 's');
  protocol::SecretFile file;
  const std::string path = secret(folder, text, 0600);
  CHECK(protocol::read_secret_file(path, "a secret", text.size(), file) == "");
  CHECK(file.text == text);
  CHECK(file.owner == ::geteuid());
}

TEST_CASE("a secret that others may read, write or run is refused") {
  const TemporaryFolder folder;
  const std::pair<mode_t, std::string> cases[] = {
      {0640, "read"}, {0604, "read"}, {0620, "write"}, {0602, "write"}, {0601, "run"}};
  for (const auto& one : cases) {
    CAPTURE(one.first);
    protocol::SecretFile file;
    const std::string path = secret(folder, "s", one.first);
    CHECK(protocol::read_secret_file(path, "a secret", 10, file) ==
          path + ": others can " + one.second + " it, and it is a secret; chmod 600");
    CHECK(file.text.empty());
  }
}

TEST_CASE("what is no file of that size is refused") {
  const TemporaryFolder folder;
  protocol::SecretFile file;
  const std::string path = secret(folder, "twelve bytes", 0600);
  CHECK(protocol::read_secret_file(path, "a secret", 11, file) ==
        path + ": it has 12 bytes, and a secret at most 11");
  const std::string none = (folder / "none").string();
  CHECK(protocol::read_secret_file(none, "a secret", 11, file) ==
        none + ": No such file or directory");
  CHECK(protocol::read_secret_file(folder.path().string(), "a secret", 11, file) ==
        folder.path().string() + ": it is no regular file");
}

}  // namespace batchflow::test::secret_file_test
