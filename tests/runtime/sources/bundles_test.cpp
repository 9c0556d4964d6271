// Small samples that lie side by side come in bundles, whatever the files between them are.
#include "runtime/sources/bundles.h"

#include "core/base/random.h"
#include "doctest/doctest.h"
#include "programs/input/yaml.h"
#include "runtime/sources/split.h"
#include "runtime/sources/stored_index.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::bundles_test {

namespace {

std::string numbers(std::size_t bytes, unsigned seed) {
  std::string all(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<char>(hash(seed, i));
  return all;
}

// Each sample is found in its bundle, which is read stretch by stretch. Answers the shift.
std::uint8_t check_bundles(const sources::SampleIndex& index, const std::filesystem::path& root) {
  const engine::Catalogue catalogue = index.catalogue();
  const std::uint8_t shift = catalogue.bundle_shift();
  if (shift == 0) return 0;
  CHECK(shift == sources::bundle_shift(index, catalogue.total_bytes()));
  std::vector<sources::Extent> lies;
  std::string only;
  const protocol::Descriptor folder = sources::open_root(root, only);
  SampleId sample(0);
  for (std::uint64_t bundle = 0; bundle < catalogue.bundles(); ++bundle) {
    sources::stretches(index, shift, sample, lies);
    std::string bytes;
    for (const sources::Extent& one : lies) {
      sources::DatasetFile file(folder.get(), index.path(one.file));
      bytes += sources::as_text(file.view(one.offset, one.bytes));
    }
    CHECK(bytes.size() == catalogue.bundle_bytes(bundle));
    const std::uint64_t end = std::min(index.samples(), (bundle + 1) << shift);
    for (; sample.value < end; ++sample.value) {
      const std::string own = bytes_of(index, root, sample.value);
      REQUIRE(bytes.substr(sources::offset_in_bundle(index, shift, sample), own.size()) == own);
    }
  }
  CHECK(sample.value == index.samples());
  return shift;
}

std::unique_ptr<sources::SampleIndex> split_of(std::shared_ptr<const sources::SampleIndex> whole,
                                               const std::string& yaml) {
  sources::SplitRule rule;
  config::read_config(input::parse_yaml(yaml, "node.yaml"), [&](config::ConfigSection& section) {
    rule = sources::read_split_rule(section);
  });
  return sources::make_split(std::move(whole), rule, "part");
}

}  // namespace

TEST_CASE("rows come in bundles of 64 KiB, over the ends of files") {
  const Folder data;
  data.write("a.npy", npy("|u1", "(1500, 64)", numbers(1500 * 64, 1)));
  data.write("b.npy", npy("|u1", "(700, 64)", numbers(700 * 64, 2)));
  data.write("c.npy", npy("|u1", "(900, 64)", numbers(900 * 64, 3)));
  const std::shared_ptr<const sources::SampleIndex> index =
      sources::open_index(source(data.path()));
  CHECK(check_bundles(*index, data.path()) == 10);
  std::vector<sources::Extent> lies;
  // 1024 to 1499 of the first file, all of the second, and one short of 2048.
  sources::stretches(*index, 10, SampleId(1024), lies);
  REQUIRE(lies.size() == 2);
  CHECK(lies[0].bytes == 476 * 64);
  CHECK(lies[1].bytes == 548 * 64);
  // A split of neighbours has bundles of its own; every second row lies near enough, too.
  CHECK(check_bundles(*split_of(index, "{keys: 100-3000}"), data.path()) == 9);
  const auto half = split_of(index, "{fraction: 0.5}");
  CHECK(check_bundles(*half, data.path()) > 0);
  CHECK(half->catalogue().bundle_bytes(0) > half->catalogue().bytes(SampleId(0)) * 512);
}

TEST_CASE("what is large, alone in its file, or far from its neighbours has no bundles") {
  const Folder large, small_files, far;
  large.write("a.npy", npy("|u1", "(10, 20000)", numbers(10 * 20000, 1)));
  CHECK(check_bundles(*sources::open_index(source(large.path())), large.path()) == 0);
  for (int file = 0; file < 20; ++file)
    small_files.write(fmt::format("{:02}.npy", file), npy("|u1", "(1, 64)", numbers(64, 4)));
  CHECK(check_bundles(*sources::open_index(source(small_files.path())), small_files.path()) == 0);
  far.write("a.npy", npy("|u1", "(4000, 640)", numbers(4000 * 640, 5)));
  const std::shared_ptr<const sources::SampleIndex> index = sources::open_index(source(far.path()));
  CHECK(check_bundles(*index, far.path()) == 6);
  CHECK(check_bundles(*split_of(index, "{fraction: 0.01}"), far.path()) == 0);
}

TEST_CASE("records of many sizes come in bundles, with what lies between them") {
  const Folder data;
  std::string records;
  for (unsigned i = 0; i < 3000; ++i)
    records += tfrecord(example(bytes_feature("x", {numbers(hash(6, i) % 400, i)})));
  data.write("a.tfrecord", records);
  const auto index = sources::open_index(source(data.path()));
  CHECK(index->samples() == 3000);
  CHECK(check_bundles(*index, data.path()) == 8);
}

}  // namespace batchflow::test::bundles_test
