// Splits: which samples a rule leaves, how they are numbered, and what their versions depend on.
#include "runtime/sources/split.h"

#include <algorithm>
#include <set>

#include "core/base/config_value.h"
#include "doctest/doctest.h"
#include "programs/input/yaml.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::split_test {

namespace {

using Names = std::vector<std::string>;

sources::SplitRule rule_of(const std::string& yaml, const std::string& file = "node.yaml") {
  sources::SplitRule rule;
  config::read_config(input::parse_yaml(yaml, file), [&](config::ConfigSection& section) {
    rule = sources::read_split_rule(section);
  });
  return rule;
}

Names names_of(const sources::SampleIndex& index) {
  Names names;
  for (std::uint64_t i = 0; i < index.samples(); ++i)
    names.push_back(index.sample_name(SampleId(i)));
  return names;
}

struct Whole {
  Folder data;
  std::shared_ptr<const sources::SampleIndex> index;
  Whole() {
    for (const char* folder : {"train/cat", "train/dog", "val/dog", "val/eel"})
      for (int i = 0; i < 3; ++i)
        data.write(fmt::format("{}/{}.jpg", folder, i), std::string(10 * i + 1, 'x'));
    index = sources::open_index(source(data.path()));
  }
  std::unique_ptr<sources::SampleIndex> split(const std::string& yaml) const {
    return sources::make_split(index, rule_of(yaml, (data / "node.yaml").string()), "data:part");
  }
  std::string error(const std::string& yaml) const {
    try {
      split(yaml);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }
};

}  // namespace

TEST_CASE("a folder is a split with classes of its own") {
  const Whole whole;
  CHECK(whole.index->classes() == Names{"train", "val"});
  const auto val = whole.split("{folder: val}");
  CHECK(val->name() == "data:part");
  CHECK(val->samples() == 6);
  CHECK(val->classes() == Names{"dog", "eel"});
  CHECK(val->sample_name(SampleId(3)) == "val/eel/0.jpg");
  CHECK(val->label(SampleId(2)) == 0);
  CHECK(val->label(SampleId(3)) == 1);
  CHECK(val->catalogue().classes() == 2);
  CHECK(val->catalogue().version() == val->version());
  CHECK_FALSE(whole.split("{folder: val/eel}")->label(SampleId(0)).has_value());
}

TEST_CASE("keys, sizes and classes; rules combine") {
  const Whole whole;
  CHECK(names_of(*whole.split("{keys: 2-3}")) == Names{"train/cat/2.jpg", "train/dog/0.jpg"});
  CHECK(whole.split("{bytes: 11-21}")->samples() == 8);
  CHECK(names_of(*whole.split("{classes: val, keys: 0-6}")) == Names{"val/dog/0.jpg"});
  CHECK(whole.split("{classes: [val]}")->label(SampleId(0)) == 1);  // as in the whole
}

TEST_CASE("a fraction and its rest are the whole; new samples move no old ones") {
  const Whole whole;
  const auto first = names_of(*whole.split("{fraction: 0.5}"));
  const auto rest = names_of(*whole.split("{fraction: 0.5, part: rest}"));
  std::set<std::string> all(first.begin(), first.end());
  all.insert(rest.begin(), rest.end());
  CHECK(first.size() + rest.size() == 12);
  CHECK(all.size() == 12);
  whole.data.write("train/ape/0.jpg", "new");
  const std::shared_ptr<const sources::SampleIndex> more =
      sources::open_index(source(whole.data.path()));
  for (const std::string& name :
       names_of(*sources::make_split(more, rule_of("{fraction: 0.5}"), "more")))
    CHECK((name == "train/ape/0.jpg" || std::count(first.begin(), first.end(), name) == 1));
}

TEST_CASE("a fraction of many samples has about that many") {
  Folder data;
  std::string tar;
  for (int i = 0; i < 4000; ++i) tar += tar_member(fmt::format("{:06}.x", i), "");
  data.write("a.tar", tar + tar_end());
  const std::shared_ptr<const sources::SampleIndex> whole =
      sources::open_index(source(data.path()));
  const double samples = static_cast<double>(
      sources::make_split(whole, rule_of("{fraction: 0.9}"), "train")->samples());
  CHECK(samples > 3600 - 5 * 19);  // five standard deviations, sqrt(4000 .9 .1)
  CHECK(samples < 3600 + 5 * 19);
}

TEST_CASE("a subset lists names or keys") {
  const Whole whole;
  whole.data.write("list.txt", "val/eel/1.jpg\r\n\n0\ntrain/dog/2.jpg\n");
  CHECK(names_of(*whole.split("{subset: list.txt}")) ==
        Names{"train/cat/0.jpg", "train/dog/2.jpg", "val/eel/1.jpg"});
  const Digest version = whole.split("{subset: list.txt}")->version();
  whole.data.write("list.txt", "0\n1\nval/no.jpg\n99");
  CHECK(whole.error("{subset: list.txt}")
            .find("list.txt:3: no sample of data is called 'val/no.jpg'") != std::string::npos);
  whole.data.write("list.txt", "0\n1\n");
  CHECK(whole.split("{subset: list.txt}")->version() != version);
  // Neither is read to its end.
  whole.data.write("list.txt", "0\n" + std::string(1 << 20, 'x') + "\n");
  CHECK(whole.error("{subset: list.txt}").find("list.txt:2: a line of 16") != std::string::npos);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += std::to_string(i) + "\n";
  whole.data.write("list.txt", many);
  CHECK(whole.error("{subset: list.txt}").find(": more names than data has samples") !=
        std::string::npos);
}

TEST_CASE("versions of splits depend on the whole's and on every part of the rule") {
  const Whole whole;
  std::set<Digest> versions = {whole.index->version()};
  const char* rules[] = {"{folder: train}",
                         "{folder: val}",
                         "{keys: 0-5}",
                         "{keys: 0-6}",
                         "{bytes: 0-6}",
                         "{fraction: 0.5}",
                         "{fraction: 0.6}",
                         "{classes: train}",
                         "{fraction: 0.5, part: rest}",
                         "{keys: 0-5, classes: train}"};
  for (const char* rule : rules) {
    CHECK(whole.split(rule)->version() == whole.split(rule)->version());
    CHECK(versions.insert(whole.split(rule)->version()).second);
  }
}

TEST_CASE("wrong rules are errors with file and line") {
  const Whole whole;
  CHECK(whole.error("{keys: 5-2}")
            .find("node.yaml:1: key 'keys': '5-2' is not a range; write 0-49999") !=
        std::string::npos);
  CHECK(whole.error("{bytes: big}").find("write 1kb-1mb") != std::string::npos);
  CHECK(whole.error("{part: rest}").find("write fraction: 0.9, too") != std::string::npos);
  CHECK(whole.error("{classes: vall}").find("data has no class 'vall'; write val") !=
        std::string::npos);
  CHECK(whole.error("{folder: tset}").find("no sample of data is in split 'data:part'") !=
        std::string::npos);
  CHECK(whole.error("{fractoin: 0.5}").find("fraction") != std::string::npos);
}

}  // namespace batchflow::test::split_test
