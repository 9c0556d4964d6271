// Splits that a node serves: each a dataset of its own; training and validation have no sample in
// common, and every sample is in one of them.
#include <nlohmann/json.hpp>
#include <set>

#include "programs/input/yaml.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "tests/config_error.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::splits_test {
namespace {

constexpr std::uint64_t kRows = 5000;

// The rows of the whole that a job on `dataset` is handed in one epoch, in order: told by their
// contents, not by their keys, which are the split's own.
std::vector<std::uint64_t> rows_of(const std::string& service, const std::string& dataset,
                                   bf_order order, const char* reading = nullptr) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = service.c_str();
  options.dataset = dataset.c_str();
  options.reading = reading;
  options.batch_samples = 32;
  options.order = order;
  options.epochs = 1;
  options.timeout_s = 20;
  std::vector<std::uint64_t> rows;
  bf_loader* loader = nullptr;
  REQUIRE_MESSAGE(bf_loader_open(&options, &loader) == BF_OK, bf_last_error());
  bf_batch batch = BF_BATCH_INIT;
  while (bf_loader_next(loader, &batch) == BF_OK) {
    const auto* values = static_cast<const std::int64_t*>(batch.arrays[0].values);
    for (std::uint32_t i = 0; i < batch.samples; ++i) {
      if ((batch.marks[i] & BF_MARK_FILLER) == 0)
        rows.push_back(static_cast<std::uint64_t>(values[i * 16] / 7));
    }
    bf_batch_release(loader, batch.handle);
  }
  bf_loader_close(loader);
  return rows;
}

std::string error_of(const std::string& argument) {
  return config_error([&] { service::dataset_from_argument(argument); }, "no error");
}

// The engine could once tell 1,024 apart.
TEST_CASE("a service may have more than a thousand datasets") {
  constexpr std::uint64_t kMany = 1100;
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  std::filesystem::create_directory(folder.path() / "rows");
  write_rows(folder.path() / "rows" / "rows.npy", kMany, 16);
  service::NodeDataset dataset;
  dataset.name = "rows";
  dataset.path = folder.path() / "rows";
  for (std::uint64_t i = 0; i < kMany; ++i) {
    sources::SplitRule rule;
    rule.keys = sources::SplitRule::Range{i, i};
    dataset.splits.push_back({std::to_string(i), rule});
  }
  config.datasets.push_back(dataset);
  const LiveService service(config);
  for (const std::uint64_t i :
       {std::uint64_t{0}, std::uint64_t{1022}, std::uint64_t{1023}, std::uint64_t{1024}, kMany - 1})
    CHECK(rows_of(config.socket, "rows:" + std::to_string(i), BF_RELAXED) ==
          std::vector<std::uint64_t>{i});
}

TEST_CASE("train and val are disjoint and complete, by contents, and stay so") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  std::filesystem::create_directory(folder.path() / "rows");
  write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
  config.datasets.push_back(
      service::dataset_from_argument("rows=" + (folder.path() / "rows").string() +
                                     ",split=train:0.9,split=val:rest,split=few:keys="
                                     "10-19:bytes=1-1kb,split=none:keys=9999-99999"));
  const LiveService service(config);
  const auto train = rows_of(config.socket, "rows:train", BF_RELAXED);
  const auto val = rows_of(config.socket, "rows:val", BF_SEQUENTIAL);
  std::set<std::uint64_t> all(train.begin(), train.end());
  CHECK(all.size() == train.size());
  CHECK(all.size() > kRows * 87 / 100);
  CHECK(all.size() < kRows * 93 / 100);
  for (const std::uint64_t row : val) CHECK(all.insert(row).second);
  CHECK(all.size() == kRows);
  CHECK(*all.rbegin() == kRows - 1);
  CHECK(std::is_sorted(val.begin(), val.end()));
  CHECK(rows_of(config.socket, "rows:few", BF_SEQUENTIAL) ==
        std::vector<std::uint64_t>{10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  CHECK(rows_of(config.socket, "rows", BF_SEQUENTIAL).size() == kRows);

  const Outcome told = run_ctl({"--service", config.socket, "datasets", "--json"}, folder.path());
  CHECK(told.code == 0);
  const auto datasets = nlohmann::json::parse(told.out).at("datasets");
  std::set<std::string> names, versions;
  for (const auto& one : datasets) {
    names.insert(one.at("name").get<std::string>());
    versions.insert(one.at("version").get<std::string>());
  }
  CHECK(names == std::set<std::string>{"rows", "rows:few", "rows:train", "rows:val"});
  CHECK(versions.size() == 4);
}

TEST_CASE("a job that names a path says which part of it is wanted") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.open_datasets = true;
  const std::string path = (folder.path() / "rows").string();
  std::filesystem::create_directory(path);
  write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
  // Beside a path that reads like a part of the other.
  const std::string comma = path + ",split=a:keys=0-9";
  std::filesystem::create_directory(comma);
  write_rows(comma + "/rows.npy", 20, 16);
  const LiveService service(config);
  const auto rows = [&](const char* reading) {
    return rows_of(config.socket, path, BF_SEQUENTIAL, reading);
  };
  const auto train = rows("split=part:fraction=0.9");
  const auto rest = rows("split=part:fraction=0.9:part=rest");
  std::set<std::uint64_t> all(train.begin(), train.end());
  CHECK(all.size() > kRows * 87 / 100);
  CHECK(all.size() < kRows * 93 / 100);
  for (const std::uint64_t row : rest) CHECK(all.insert(row).second);
  CHECK(all.size() == kRows);
  CHECK(rows("split=a:keys=0-9").size() == 10);
  CHECK(rows_of(config.socket, comma, BF_SEQUENTIAL).size() == 20);
  CHECK(rows(nullptr).size() == kRows);
  CHECK(rows("format=numpy").size() == kRows);

  const auto refused = [&](const std::string& dataset, const char* reading) {
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = config.socket.c_str();
    options.dataset = dataset.c_str();
    options.reading = reading;
    options.batch_samples = 32;
    bf_loader* loader = nullptr;
    CHECK(bf_loader_open(&options, &loader) != BF_OK);
    bf_loader_close(loader);
    return std::string(bf_last_error());
  };
  // The service would read the names in any file that it may read.
  CHECK(refused(path, "split=a:subset=/etc/passwd").find("not by a subset's file") !=
        std::string::npos);
  CHECK(refused(path, "split=a:0.9,split=b:rest").find("one split") != std::string::npos);
  CHECK(refused(path, "pin").find("may say tokens, format") != std::string::npos);
  CHECK(refused(path, "pipeline=bytes").find("may say tokens, format") != std::string::npos);
  CHECK(refused(path, "nonsense").find("means nothing") != std::string::npos);
  CHECK(refused(path, "tokens=8,packing=bins").find("unknown packing 'bins'") != std::string::npos);
  CHECK(refused(path, "packing=whole").find("as tokens=2048") != std::string::npos);
  CHECK(refused(path, "packing=whole,tokens=8,end_token=-1").find("means nothing") !=
        std::string::npos);
  CHECK(refused(path, "packing=whole,tokens=8,end_token=2147483648").find("at most 2147483647") !=
        std::string::npos);
  CHECK(service::dataset_from_argument("/data,packing=whole,tokens=8,end_token=2147483647")
            .sequences.end_token == 2147483647u);
  CHECK(refused(path, "split=a:keys=9-1").find("keys") != std::string::npos);
  CHECK(refused(path, "split=a:keys=99999-100000").find("no sample") != std::string::npos);
  CHECK(refused("rows", "tokens=4").find("'reading' is for a dataset given as a path") !=
        std::string::npos);
}

TEST_CASE("splits in a configuration are those of the command line") {
  const service::NodeConfig config = service::read_node_config(
      input::parse_yaml("kind: node\n"
                        "datasets:\n"
                        "  - path: /data/pets\n"
                        "    splits:\n"
                        "      - {name: train, fraction: 0.9, classes: [cat, dog]}\n"
                        "      - {name: val, fraction: 0.9, part: rest}\n",
                        "node.yaml"));
  const service::NodeDataset said =
      service::dataset_from_argument("/data/pets,split=train:90%:classes=cat+dog,split=val:rest");
  REQUIRE(config.datasets.at(0).splits.size() == 2);
  REQUIRE(said.splits.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const service::NodeSplit& a = config.datasets[0].splits[i];
    const service::NodeSplit& b = said.splits[i];
    CHECK(a.name == b.name);
    CHECK(a.rule.fraction == b.rule.fraction);
    CHECK(a.rule.rest == b.rule.rest);
    CHECK(a.rule.classes == b.rule.classes);
  }
  CHECK(service::served_names(said) == std::vector<std::string>{"pets", "pets:train", "pets:val"});
}

TEST_CASE("a split that makes no sense is refused in words") {
  const auto refused = [](const std::string& split, const std::string& part) {
    const std::string error = error_of("pets=/data/pets,split=" + split);
    CAPTURE(error);
    CHECK(error.find(part) != std::string::npos);
  };
  refused("train", "no rule");
  refused(":0.9", "'' is no name of a split");
  refused("a b:0.9", "'a b' is no name of a split");
  refused("val:rest", "no split before it has a fraction");
  refused("train:most", "'most' is no rule");
  refused("train:0.9:fraction=0.8", "fraction is given twice");
  refused("train:frction=0.8", "fraction");
  refused("train:keys=9-1", "'9-1' is not a range");
  refused("train:0.9,split=train:rest", "two splits 'train'");
}

}  // namespace
}  // namespace batchflow::test::splits_test
