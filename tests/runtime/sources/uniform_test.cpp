// Rows of one size cost nothing each, however many there are. Long work ends when it is asked to,
// or when it takes more memory than it may.
#include <fcntl.h>
#include <unistd.h>

#include "doctest/doctest.h"
#include "programs/input/yaml.h"
#include "runtime/sources/split.h"
#include "runtime/sources/stored_index.h"
#include "tests/runtime/sources/dataset_files.h"
#include "tests/skip.h"

namespace batchflow::test::uniform_test {

namespace {

// A file of holes; false where the file system has none so large.
bool make_sparse(const Folder& folder, const std::string& name, Bytes bytes,
                 const std::string& begin = "") {
  folder.write(name, begin);
  return truncate((folder / name).c_str(), static_cast<off_t>(bytes)) == 0;
}

sources::SplitRule rule_of(const std::string& yaml) {
  sources::SplitRule rule;
  config::read_config(input::parse_yaml(yaml, "node.yaml"), [&](config::ConfigSection& section) {
    rule = sources::read_split_rule(section);
  });
  return rule;
}

// Counts how often it is asked: a loop over samples asks now and then.
struct Asked {
  std::uint64_t times = 0;
  sources::StopAsked stop(std::uint64_t last = UINT64_MAX) {
    return [this, last] { return ++times >= last; };
  }
};

void check_costs_nothing(const sources::SampleIndex& index, std::uint64_t samples, Bytes row) {
  Asked asked;
  CHECK(index.samples() == samples);
  CHECK(index.uniform_bytes() == row);
  const engine::Catalogue catalogue = sources::StoredIndex::catalogue_of(index, asked.stop());
  CHECK(catalogue.is_uniform());
  CHECK(catalogue.samples() == samples);
  CHECK(catalogue.total_bytes() == samples * row);
  CHECK_FALSE(catalogue.label(SampleId(samples - 1)));
  CHECK(index.sums(asked.stop()).total == samples * row);
  CHECK(index.sums().largest == row);
  CHECK(index.sums().labelled == 0);
  CHECK(asked.times == 0);
}

}  // namespace

TEST_CASE("two terabytes of tokens and 10^10 rows cost nothing for each of them") {
  const Folder tokens, rows;
  const std::string head = sources::npy_head("|u1", "(10000000000, 16)", 1, "False");
  if (!make_sparse(tokens, "b.u16", Bytes{2} << 40) ||
      !make_sparse(rows, "rows.npy", head.size() + 160'000'000'000, head)) {
    skipped("the file system has no files of two terabytes");
    return;
  }
  sources::SourceOptions options = source(tokens.path());
  options.tokens_per_sample = 64;
  const std::shared_ptr<const sources::SampleIndex> index = sources::open_index(options);
  check_costs_nothing(*index, (std::uint64_t{2} << 40) / 128, 128);
  CHECK(index->extent(SampleId(index->samples() - 1)).offset == (Bytes{2} << 40) - 128);
  CHECK(index->memory_bytes() < 4096);

  const auto run = sources::make_split(index, rule_of("{keys: 5000000000-15000000000}"), "run");
  check_costs_nothing(*run, 10'000'000'001, 128);
  CHECK(run->sample_name(SampleId(1)) == "b.u16:5000000001");
  CHECK(run->memory_bytes() == index->memory_bytes());

  check_costs_nothing(*sources::open_index(source(rows.path())), 10'000'000'000, 16);
}

TEST_CASE("a split of rows by their keys is the same as a list of them") {
  const Folder data;
  data.write("rows.npy", npy("<u2", "(100, 2)", std::string(400, 'x')));
  const std::shared_ptr<const sources::SampleIndex> index =
      sources::open_index(source(data.path()));
  const auto names = [](const sources::SampleIndex& split) {
    std::vector<std::string> all;
    for (SampleId sample(0); sample.value < split.samples(); ++sample.value)
      all.push_back(split.sample_name(sample));
    return all;
  };
  const auto tail = sources::make_split(index, rule_of("{keys: 97-200}"), "tail");
  CHECK(names(*tail) == std::vector<std::string>{"rows.npy:97", "rows.npy:98", "rows.npy:99"});
  CHECK(names(*sources::make_split(index, rule_of("{keys: 3-3, bytes: 4-4}"), "one")) ==
        std::vector<std::string>{"rows.npy:3"});
  CHECK_THROWS_WITH(sources::make_split(index, rule_of("{keys: 3-3, bytes: 5-5}"), "none"),
                    doctest::Contains("no sample of data is in split 'none'"));
  CHECK_THROWS_WITH(sources::make_split(index, rule_of("{keys: 100-200}"), "none"),
                    doctest::Contains("no sample of data is in split 'none'"));
}

TEST_CASE("a split that has to look at each row ends when it is to stop, or its list is too long") {
  const Folder data;
  if (!make_sparse(data, "b.u16", Bytes{2} << 40)) {
    skipped("the file system has no files of two terabytes");
    return;
  }
  sources::SourceOptions options = source(data.path());
  options.tokens_per_sample = 64;
  const std::shared_ptr<const sources::SampleIndex> index = sources::open_index(options);
  const sources::SplitRule tiny = rule_of("{fraction: 0.000000001}");
  Asked asked;
  CHECK_THROWS_WITH(sources::make_split(index, tiny, "tiny", {asked.stop(3), 0}),
                    doctest::Contains("stopped"));
  CHECK(asked.times == 3);
  CHECK_THROWS_WITH(
      sources::make_split(index, rule_of("{fraction: 0.5}"), "half", {{}, Bytes{1} << 20}),
      doctest::Contains("takes more than the 1 MiB that one named by a job may"));
}

TEST_CASE("catalogues, sums and kept indices of many samples ask whether to stop") {
  const Folder data, indices;
  constexpr int kSamples = 200'000;
  std::string tar;
  for (int i = 0; i < kSamples; ++i) tar += tfrecord("");
  data.write("a.tfrecord", tar);
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path();
  const auto index = sources::open_index(options);
  REQUIRE(index->samples() == kSamples);
  CHECK_THROWS_WITH(sources::StoredIndex::catalogue_of(*index, Asked().stop(1)),
                    doctest::Contains("stopped"));
  CHECK_THROWS_WITH(index->sums(Asked().stop(1)), doctest::Contains("stopped"));
  CHECK(index->sums().total == 16u * kSamples);  // after a call that was stopped
  // It is checked whole when it is taken from its file.
  Asked asked;
  options.stop = asked.stop(1);
  CHECK_THROWS_WITH(sources::open_index(options), doctest::Contains("stopped"));
  CHECK(asked.times == 1);
}

TEST_CASE("an index takes no more memory than it may, whatever fills it") {
  const Folder records, files, members;
  std::string all;
  for (int i = 0; i < 10'000; ++i) all += tfrecord("");
  records.write("a.tfrecord", all);
  for (int i = 0; i < 500; ++i) files.write(fmt::format("{:0>200}.jpg", i), "x");
  sources::SourceOptions options = source(records.path());
  options.memory_most = 100'000;  // offsets and sizes are 160,000
  CHECK(error_of(options).find("its index takes more than the 0 MiB that the index of a folder "
                               "named by a job may; give the service more memory (--memory), or "
                               "have it serve this folder by a name") != std::string::npos);
  options.memory_most = 200'000;
  CHECK(error_of(options) == "no error");
  options = source(files.path());
  options.memory_most = 100'000;  // each of 500 paths has 204 bytes
  CHECK(error_of(options).find("its index takes more than") != std::string::npos);
  options.memory_most = 1'000'000;
  CHECK(error_of(options) == "no error");
  // Memory that was given back no longer counts: one folder after another.
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 50; ++j) members.write(fmt::format("{:0>200}/{}.jpg", i, j), "x");
  options = source(members.path());
  options.memory_most = 600'000;
  CHECK(error_of(options) == "no error");
}

TEST_CASE("a file that all users could read when it was listed is read only while they can") {
  const Folder data, outside;
  data.write("a.tfrecord", tfrecord("x"));
  data.write("b.tfrecord", tfrecord("y"));
  data.write(".secret", tfrecord("z"));
  for (const char* name : {"a.tfrecord", "b.tfrecord", ".secret"})
    chmod((data / name).c_str(), 0644);
  const auto root = sources::open_data(data.path());
  CHECK(sources::DatasetFile(*root, "a.tfrecord", true).size() == tfrecord("x").size());
  chmod((data / "a.tfrecord").c_str(), 0600);
  CHECK_THROWS_AS(sources::DatasetFile(*root, "a.tfrecord", true), sources::DatasetChanged);
  CHECK_NOTHROW(sources::DatasetFile(*root, "a.tfrecord", false));
  std::filesystem::remove(data / "b.tfrecord");
  std::filesystem::create_symlink(".secret", data / "b.tfrecord");
  CHECK_THROWS_AS(sources::DatasetFile(*root, "b.tfrecord", true), sources::DatasetChanged);
  CHECK_NOTHROW(sources::DatasetFile(*root, "b.tfrecord", false));
}

TEST_CASE("a root stays the folder that was opened, wherever its path leads now") {
  const Folder place;
  place.write("mine/a.tfrecord", tfrecord("x"));
  place.write("other/b.tfrecord", tfrecord("y"));
  place.write("file.tfrecord", tfrecord("z"));
  std::filesystem::create_symlink("mine", place / "link");
  sources::SourceOptions options = source(place / "link");
  options.opened = sources::open_data(options.root);
  std::filesystem::remove(place / "link");
  std::filesystem::create_symlink("other", place / "link");
  CHECK(sources::open_index(options)->path(0) == "a.tfrecord");
  // A shown descriptor must be of that folder.
  const protocol::Descriptor mine(open((place / "mine").c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(sources::open_shown(place / "link", mine.get()) == nullptr);
  const auto shown = sources::open_shown(place / "mine", mine.get());
  REQUIRE(shown);
  CHECK(sources::path_of(shown->shown()) == sources::path_of(mine.get()));
  // The same holds for a file that was replaced by another.
  options = source(place / "file.tfrecord");
  options.opened = sources::open_data(options.root);
  place.write("new", tfrecord("a longer one"));
  std::filesystem::rename(place / "new", place / "file.tfrecord");
  CHECK(sources::open_index(options)->extent(SampleId(0)).bytes == tfrecord("z").size());
}

}  // namespace batchflow::test::uniform_test
