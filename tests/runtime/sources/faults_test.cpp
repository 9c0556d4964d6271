// Failures at failpoints while a dataset is indexed or packed.
#include <signal.h>
#include <sys/wait.h>

#include "doctest/doctest.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/sources/pack_writer.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::faults_test {

namespace {

struct Failing {
  explicit Failing(std::string_view text) { failpoint::configure_failpoints(text); }
  ~Failing() { failpoint::configure_failpoints(""); }
};

Digest make(const Folder& data) {
  std::string tar;
  for (int i = 0; i < 20; ++i) tar += tar_member(fmt::format("{}.jpg", i), std::string(5000, 'x'));
  data.write("a.tar", tar + tar_end());
  return sources::open_index(source(data.path()))->version();
}

}  // namespace

TEST_CASE("reads that are short change nothing; a read that fails is no corruption") {
  Folder data;
  const Digest version = make(data);
  {
    const Failing failing("sources.read.short=short");
    CHECK(sources::open_index(source(data.path()))->version() == version);
  }
  const Failing failing("sources.read.error=fail:1:1");
  CHECK(error_of(source(data.path())) ==
        "a.tar: at byte 0: Input/output error; look at the drive it is on");
}

TEST_CASE("an index that cannot be written or renamed is in memory, and leaves nothing") {
  Folder data, indices;
  const Digest version = make(data);
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path();
  for (const char* place : {"sources.index.write=fail", "sources.index.rename=fail"}) {
    const Failing failing(place);
    const auto index = sources::open_index(options);
    CHECK(index->version() == version);
    CHECK(has_note(*index, "the index cannot be kept"));
    CHECK(std::filesystem::is_empty(indices.path()));
  }
}

TEST_CASE("killed before its index has its name: the next start makes it, and clears up") {
  Folder data, indices;
  const Digest version = make(data);
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path();
  const pid_t child = fork();
  if (child == 0) {
    failpoint::configure_failpoints("sources.index.rename=kill");
    sources::open_index(options);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK_FALSE(std::filesystem::is_empty(indices.path()));
  CHECK(sources::open_index(options)->version() == version);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(indices.path()))
    files += entry.exists();
  CHECK(files == 1);
}

TEST_CASE("no room while packing: an error, and no shard") {
  Folder packed;
  const Failing failing("sources.pack.write=fail");
  const batch::BatchSpec spec{{{"n", batch::ElementType::i64, {}, false}}};
  const std::int64_t number = 7;
  const std::span<const std::byte> value[] = {std::as_bytes(std::span(&number, 1))};
  {
    sources::PackWriter writer({packed.path(), "x"}, spec, {});
    writer.add(value);
    CHECK_THROWS_AS(writer.close(), sources::DatasetError);
  }
  CHECK(std::filesystem::is_empty(packed.path()));
}

}  // namespace batchflow::test::faults_test
