// What is no file to read, or leads out of the root, is refused at once; what has shrunk ends
// early.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "tests/runtime/storage/harness.h"

namespace batchflow::test::hostile_files_test {
namespace {

using test::Folder;
using test::Gathered;
namespace fs = std::filesystem;

// Each engine, files that are opened once and files that stay open, with O_DIRECT and without, with
// openat2 and without.
template <class Body>
void in_every_way(Body body) {
  for (const std::string& engine : test::engines()) {
    for (const bool whole : {true, false}) {
      for (const bool direct : {true, false}) {
        CAPTURE(engine);
        CAPTURE(whole);
        CAPTURE(direct);
        storage::ReadEngineOptions options = test::small(engine);
        options.direct = direct;
        Gathered gathered(options);
        body(gathered, whole);
      }
    }
  }
}

}  // namespace

TEST_CASE("missing, empty, too long, not a folder") {
  const Folder folder;
  folder.write("file", 1, 100);
  const std::string long_name(300, 'x');
  in_every_way([&](Gathered& gathered, bool whole) {
    auto error = [&](const char* path) {
      return gathered.read(folder.root(), path, 0, 100, whole).result.error;
    };
    CHECK(error("nowhere") == ENOENT);
    CHECK(error("nowhere/file") == ENOENT);
    CHECK(error("") == ENOENT);
    CHECK(error("file/") == ENOTDIR);
    CHECK(error("file/below") == ENOTDIR);
    CHECK(error(long_name.c_str()) == ENAMETOOLONG);
    CHECK(gathered.read(-7, "file", 0, 100, whole).result.error == EBADF);
    // After all of these reads go on.
    CHECK(gathered.read(folder.root(), "file", 0, 100, whole).result.bytes == 100);
  });
}

TEST_CASE("nothing leads out of the root") {
  const Folder outside;
  outside.write("secret", 1, 100);
  const Folder folder;
  folder.write("file", 2, 100);
  fs::create_directory(folder.path() / "sub");
  folder.write("sub/file", 3, 100);
  const std::string secret = (outside.path() / "secret").string();
  fs::create_symlink(secret, folder.path() / "absolute");
  fs::create_symlink("../" + outside.path().filename().string() + "/secret",
                     folder.path() / "relative");
  fs::create_symlink(outside.path(), folder.path() / "folder");
  fs::create_symlink("/proc/self/cwd", folder.path() / "magic");
  fs::create_symlink("sub/file", folder.path() / "inside");
  fs::create_symlink("../file", folder.path() / "sub" / "up");
  fs::create_symlink("loop", folder.path() / "loop");
  const std::string up = "../" + outside.path().filename().string() + "/secret";
  const std::string around = "../" + folder.path().filename().string() + "/file";
  in_every_way([&](Gathered& gathered, bool whole) {
    auto error = [&](const std::string& path) {
      const auto read = gathered.read(folder.root(), path.c_str(), 0, 100, whole);
      CHECK((read.result.error != 0) == read.bytes.empty());
      return read.result.error;
    };
    CHECK(error(secret) == EXDEV);
    CHECK(error("absolute") == EXDEV);
    CHECK(error("relative") == EXDEV);
    CHECK(error("folder/secret") == EXDEV);
    CHECK(error("magic") == EXDEV);
    CHECK(error(up) == EXDEV);
    CHECK(error(around) == EXDEV);
    CHECK(error("sub/../" + up) == EXDEV);
    CHECK(error("loop") == ELOOP);
    // Links that stay inside are followed.
    auto good = [&](const char* path, std::uint64_t file) {
      const auto read =
          gathered.read(folder.root(), path, 0, 100, whole, 100 + file + std::strlen(path));
      CHECK(read.result.error == 0);
      return read.bytes.size() == 100 && test::holds(file, 0, 100, read.bytes.data());
    };
    CHECK(good("inside", 3));
    CHECK(good("sub/up", 2));
    CHECK(good("sub/../file", 2));
    CHECK(good("sub//./file", 3));
  });
}

TEST_CASE("a guarded file is read only while it is the same file") {
  const Folder folder;
  for (const char* name : {"public", "private"}) folder.write(name, 1, 100);
  fs::permissions(folder.path() / "public", fs::perms(0644));
  fs::create_symlink("public", folder.path() / "link");
  struct stat about {};
  REQUIRE(stat((folder.path() / "private").c_str(), &about) == 0);
  const storage::ReadGuard everybody{true, 0, 0};
  const storage::ReadGuard this_one{false, about.st_dev, about.st_ino};
  in_every_way([&](Gathered& gathered, bool whole) {
    std::uint64_t file = 100;
    const auto error = [&](const char* path, const storage::ReadGuard& guard) {
      ++file;  // not one that is open already
      return gathered.read(folder.root(), path, 0, 100, whole, file, &guard).result.error;
    };
    CHECK(error("public", everybody) == 0);
    CHECK(error("private", everybody) == EACCES);
    CHECK(error("link", everybody) == ELOOP);
    CHECK(error("private", this_one) == 0);
    CHECK(error("public", this_one) == ESTALE);
    CHECK(error("link", this_one) == ELOOP);
    CHECK(gathered.read(folder.root(), "link", 0, 100, whole, 99).result.error == 0);
  });
}

TEST_CASE("without openat2 nothing is followed at all") {
  const Folder folder;
  folder.write("file", 2, 100);
  fs::create_directory(folder.path() / "sub");
  folder.write("sub/file", 3, 100);
  fs::create_symlink("sub/file", folder.path() / "link");
  fs::create_symlink("sub", folder.path() / "folder");
  const test::Failpoints configured("storage.openat2.missing=fail");
  Gathered gathered(test::small("pread"));
  auto error = [&](const char* path) {
    return gathered.read(folder.root(), path, 0, 100).result.error;
  };
  CHECK(error("file") == 0);
  CHECK(error("sub/file") == 0);
  CHECK(error("sub//file") == 0);
  CHECK(error("./sub/./file") == 0);
  CHECK(error("link") == ELOOP);
  CHECK(error("folder/file") == ENOTDIR);
  CHECK(error("sub/../file") == EXDEV);
  CHECK(error("..") == EXDEV);
  CHECK(error("/etc/passwd") == EXDEV);
  CHECK(error("") == ENOENT);
  CHECK(error("nowhere/file") == ENOENT);
  CHECK(error((std::string(300, 'x') + "/y").c_str()) == ENAMETOOLONG);
}

TEST_CASE("FIFOs, sockets, devices and directories: neither waited for nor read") {
  const Folder folder;
  REQUIRE(::mkfifo((folder.path() / "silent").c_str(), 0600) == 0);
  REQUIRE(::mkfifo((folder.path() / "talking").c_str(), 0600) == 0);
  fs::create_directory(folder.path() / "sub");
  const int talker = ::open((folder.path() / "talking").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::write(talker, "words", 5) == 5);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket_path = (folder.path() / "socket").string();
  socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const bool device = ::mknod((folder.path() / "zero").c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0;
  in_every_way([&](Gathered& gathered, bool whole) {
    auto error = [&](const char* path) {
      const auto read = gathered.read(folder.root(), path, 0, 100, whole);
      CHECK(read.bytes.empty());
      return read.result.error;
    };
    CHECK(error("silent") == ENXIO);
    CHECK(error("talking") == ENXIO);
    CHECK(error("socket") == ENXIO);
    CHECK(error("sub") == EISDIR);
    CHECK(error(".") == EISDIR);
    // A file system mounted `nodev` says EACCES itself.
    if (device) CHECK((error("zero") == ENXIO || error("zero") == EACCES));
  });
  char words[6] = "";
  CHECK(::read(talker, words, 5) == 5);
  CHECK(std::string(words) == "words");
  ::close(talker);
  ::close(listener);
}

TEST_CASE("of a file that is shorter than asked for, the bytes that are there are read") {
  const Folder folder;
  in_every_way([&](Gathered& gathered, bool whole) {
    std::uint64_t file = 10;
    for (const Bytes size : {0, 1, 511, 512, 4095, 4096, 4097, 8192, 100'000, 131'072}) {
      for (const std::uint64_t offset : {0, 1, 4096, 5000}) {
        CAPTURE(size);
        CAPTURE(offset);
        folder.write("file", ++file, size);
        const auto read = gathered.read(folder.root(), "file", offset, 200'000, whole, file);
        CHECK(read.result.error == 0);
        REQUIRE(read.bytes.size() == (offset >= size ? 0 : size - offset));
        CHECK(test::holds(file, offset, read.bytes.size(), read.bytes.data()));
      }
    }
    // An offset no file has.
    CHECK(gathered.read(folder.root(), "file", ~std::uint64_t{0} - 8191, 10, whole, file)
              .result.error == EINVAL);
  });
}

TEST_CASE("without permission") {
  const Folder folder;
  folder.write("file", 1, 100);
  fs::permissions(folder.path() / "file", fs::perms::none);
  fs::permissions(folder.path(), fs::perms::all);
  // A thread may be another user than its process; those it starts are, too.
  std::thread([&] {
    if (::geteuid() == 0 && ::syscall(SYS_setresuid, -1, 65534, -1) != 0) return;
    in_every_way([&](Gathered& gathered, bool whole) {
      CHECK(gathered.read(folder.root(), "file", 0, 100, whole).result.error == EACCES);
    });
  }).join();
}

TEST_CASE("files of a file system without O_DIRECT are read all the same") {
  const int root = ::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  std::ifstream stream("/proc/version");
  const std::string version{std::istreambuf_iterator<char>(stream), {}};
  in_every_way([&](Gathered& gathered, bool whole) {
    for (int again = 0; again < 2; ++again) {
      const auto read = gathered.read(root, "version", 0, 1000, whole);
      CHECK(read.result.error == 0);
      REQUIRE(read.bytes.size() == version.size());
      CHECK(std::memcmp(read.bytes.data(), version.data(), version.size()) == 0);
    }
  });
  ::close(root);
}

TEST_CASE("a large file stays open, also when it gets removed") {
  const Folder folder;
  for (const std::string& engine : test::engines()) {
    CAPTURE(engine);
    folder.write("file", 1, 100);
    Gathered gathered(test::small(engine));
    auto reads = [&](std::uint64_t content) {
      const auto read = gathered.read(folder.root(), "file", 0, 100, false);
      return read.bytes.size() == 100 && test::holds(content, 0, 100, read.bytes.data());
    };
    CHECK(reads(1));
    fs::remove(folder.path() / "file");
    folder.write("file", 2, 100);
    CHECK(reads(1));
  }
}

}  // namespace batchflow::test::hostile_files_test
