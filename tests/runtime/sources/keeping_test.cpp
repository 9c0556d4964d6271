// When an index is read from its file, and when it is made again; what a version depends on.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <thread>

#include "doctest/doctest.h"
#include "runtime/sources/index_file.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::keeping_test {
namespace fs = std::filesystem;

namespace {

void make(const Folder& data) {
  data.write("a/1.jpg", "one");
  data.write("a/2.jpg", "two");
  data.write("b/1.jpg", "eins");
}

fs::path kept_file(const Folder& indices) {
  for (const auto& entry : fs::directory_iterator(indices.path())) return entry.path();
  return {};
}

void touch(const fs::path& path) {
  const timespec times[2] = {{0, UTIME_NOW}, {12345, 678}};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

bool is_kept(const sources::SourceOptions& options, const Folder& indices) {
  const auto before = fs::last_write_time(kept_file(indices));
  sources::open_index(options);
  return fs::last_write_time(kept_file(indices)) == before;
}

}  // namespace

TEST_CASE("an index is kept until a file of the dataset changes") {
  Folder data, indices;
  make(data);
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path();
  const Digest version = sources::open_index(options)->version();
  CHECK(is_kept(options, indices));
  data.write("a/README.txt", "passed over");
  CHECK(is_kept(options, indices));
  // Touched: looked at again, and found to be the same.
  touch(data / "a/1.jpg");
  CHECK_FALSE(is_kept(options, indices));
  CHECK(sources::open_index(options)->version() == version);
  CHECK(is_kept(options, indices));
  fs::create_directories(data / "c");  // a class more, without a sample
  CHECK_FALSE(is_kept(options, indices));
  CHECK(sources::open_index(options)->version() != version);
  CHECK(sources::open_index(options)->classes().size() == 3);
}

TEST_CASE("a version is of names and contents: it moves with the data, and changes with it") {
  Folder one, two;
  make(one);
  make(two);
  touch(two / "a/2.jpg");
  const Digest version = sources::open_index(source(one.path()))->version();
  CHECK(sources::open_index(source(two.path()))->version() == version);
  const auto changed = [&](std::string_view name, std::string_view bytes) {
    Folder other;
    make(other);
    other.write(name, bytes);
    return sources::open_index(source(other.path()))->version() != version;
  };
  CHECK(changed("a/1.jpg", "ONE"));  // the same size
  CHECK(changed("a/1.jpg", "longer"));
  CHECK(changed("b/2.jpg", ""));
  CHECK_FALSE(changed("b/2.txt", "of another kind"));
  Folder renamed;
  make(renamed);
  fs::rename(renamed / "b", renamed / "bb");
  CHECK(sources::open_index(source(renamed.path()))->version() != version);
}

TEST_CASE("a version of shards depends on every sample's name, extent and label") {
  const auto version = [](std::string_view name, std::string_view label) {
    Folder data;
    data.write("x.tar", tar_member(std::string(name) + ".jpg", "1") +
                            tar_member(std::string(name) + ".cls", label) + tar_end());
    return sources::open_index(source(data.path()))->version();
  };
  CHECK(version("a", "1") == version("a", "1"));
  CHECK(version("a", "1") != version("b", "1"));
  CHECK(version("a", "1") != version("a", "2"));
}

TEST_CASE("a damaged index is made again, with a note; no leftovers stay") {
  Folder data, indices;
  make(data);
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path() / "below";
  const Digest version = sources::open_index(options)->version();
  const fs::path file = fs::directory_iterator(options.index_folder)->path();
  std::string bytes = indices.read("below/" + file.filename().string());
  for (const std::size_t at :
       {std::size_t{3}, std::size_t{9}, bytes.size() / 2, bytes.size() - 1}) {
    std::string wrong = bytes;
    wrong[at] ^= 0x10;
    indices.write("below/" + file.filename().string(), wrong);
    const auto index = sources::open_index(options);
    CHECK(index->version() == version);
    CHECK(has_note(*index, "; the index was made again"));
    CHECK_FALSE(has_note(*sources::open_index(options), "made again"));
  }
  // A hole behind it, which takes no room and would be read for hours.
  indices.write("below/" + file.filename().string(), bytes);
  fs::resize_file(file, std::uintmax_t{2} << 40);
  CHECK(has_note(*open_index(options), "bytes more than its head says; the index was made again"));
  CHECK(fs::file_size(file) == bytes.size());
  // A temporary file of a process that has ended.
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  indices.write(fmt::format("below/{}.tmp-{}", file.filename().string(), child), "half");
  touch(data / "b/1.jpg");
  sources::open_index(options);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(options.index_folder)) files += entry.exists();
  CHECK(files == 1);
}

TEST_CASE("an index that cannot be kept is in memory, with a note") {
  Folder data, indices;
  make(data);
  indices.write("file", "no folder");
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices / "file";
  const auto index = sources::open_index(options);
  CHECK(index->samples() == 3);
  CHECK(has_note(*index, "the index cannot be kept"));
}

TEST_CASE("an index that is shown stays as it was when another is made") {
  Folder data, indices;
  make(data);
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path();
  const auto before = sources::open_index(options);
  data.write("a/0.jpg", "new");
  const auto after = sources::open_index(options);
  CHECK(before->samples() == 3);
  CHECK(before->sample_name(SampleId(0)) == "a/1.jpg");
  CHECK(after->samples() == 4);
  CHECK(after->sample_name(SampleId(0)) == "a/0.jpg");
}

TEST_CASE("indexing can be stopped, and reports its progress") {
  Folder data;
  for (int i = 0; i < 300; ++i) data.write(fmt::format("{}.jpg", i), "x");
  sources::SourceOptions options = source(data.path());
  options.stop = [] { return true; };
  CHECK(error_of(options) == "data: stopped while it was being indexed");
  std::string heard;
  options.stop = nullptr;
  options.progress = [&](std::uint64_t, std::uint64_t, std::string_view what) { heard = what; };
  sources::open_index(options);
  CHECK_FALSE(heard.empty());
}

TEST_CASE("a dataset that changes while it is indexed is indexed again, or refused") {
  Folder data;
  int runs = 0;
  const auto grow = [&] {
    ++runs;
    const std::string bytes(static_cast<std::size_t>(runs) * 600, 'x');
    data.write("x.tar", tar_member(fmt::format("{}.jpg", runs), bytes) + tar_end());
  };
  grow();
  // Written to after it was listed, for as often as `times` says.
  int times = 1;
  sources::SourceOptions options = source(data.path());
  options.stop = [&] {
    if (times > 0) {
      --times;
      grow();
      std::this_thread::sleep_for(std::chrono::milliseconds(60));  // ticks are 50 ms apart
    }
    return false;
  };
  const auto index = sources::open_index(options);
  CHECK(index->sample_name(SampleId(0)) == fmt::format("{}", runs));
  times = 1000;
  CHECK(error_of(options).find("data: it changes while it is being indexed (x.tar") == 0);
}

TEST_CASE("a file below a folder that may not be read is an error that says so") {
  if (geteuid() == 0) return;  // may read everything
  Folder data;
  make(data);
  fs::permissions(data / "a", fs::perms::none);
  CHECK(error_of(source(data.path())) == "a/: Permission denied; let this user read it");
  fs::permissions(data / "a", fs::perms::owner_all);
}

}  // namespace batchflow::test::keeping_test
