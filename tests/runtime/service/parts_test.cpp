// Samples of several parts, as jobs get them that name no pipeline.
#include <functional>
#include <map>

#include "tests/runtime/service/live.h"
#include "tests/runtime/sources/tar_bytes.h"

namespace batchflow::test::parts_test {
namespace {

// Of one epoch without a pipeline: the names of all fields in order, and by name each sample's
// bytes.
struct Told {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> samples;
};

Told told(const std::string& service, std::uint32_t batch_samples) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = service.c_str();
  options.dataset = "parts";
  options.batch_samples = batch_samples;
  options.order = BF_SEQUENTIAL;
  options.epochs = 1;
  options.timeout_s = 20;
  bf_loader* loader = nullptr;
  REQUIRE_MESSAGE(bf_loader_open(&options, &loader) == BF_OK, bf_last_error());
  bf_loader_info info = BF_LOADER_INFO_INIT;
  REQUIRE(bf_loader_info_get(loader, &info) == BF_OK);
  Told result;
  for (std::uint32_t i = 0; i < info.fields; ++i) result.names.emplace_back(info.field[i].name);
  bf_batch batch = BF_BATCH_INIT;
  while (bf_loader_next(loader, &batch) == BF_OK) {
    for (std::uint32_t i = 0; i < batch.samples; ++i) {
      CHECK((batch.marks[i] & BF_MARK_REPLACED) == 0);
      for (std::uint32_t f = 0; f < info.fields; ++f) {
        const bf_array& array = batch.arrays[f];
        const std::size_t row =
            batch::element_bytes(static_cast<batch::ElementType>(info.field[f].type));
        const auto* values = static_cast<const char*>(array.values);
        const std::int64_t first = array.offsets ? array.offsets[i] : i;
        const std::int64_t last = array.offsets ? array.offsets[i + 1] : i + 1;
        result.samples[result.names[f]].emplace_back(values + first * row, values + last * row);
      }
    }
    bf_batch_release(loader, batch.handle);
  }
  bf_loader_close(loader);
  return result;
}

TEST_CASE("a WebDataset comes as its members and its label, though some samples lack some") {
  const Folder folder;
  std::string tar, other;
  std::vector<std::string> pictures, texts;
  for (int i = 0; i < 40; ++i) {
    pictures.push_back(std::string(static_cast<std::size_t>(50 + i), static_cast<char>('A' + i)));
    texts.push_back(i % 3 == 0 ? "" : fmt::format("{{\"i\": {}}}", i));
    std::string& shard = i < 25 ? tar : other;
    shard += tar_member(fmt::format("{:03}.jpg", i), pictures.back());
    shard += tar_member(fmt::format("{:03}.cls", i), fmt::format("{}", i % 10));
    if (!texts.back().empty()) shard += tar_member(fmt::format("{:03}.json", i), texts.back());
  }
  std::filesystem::create_directory(folder.path() / "parts");
  for (const auto& [name, bytes] : {std::pair{"0.tar", &tar}, {"1.tar", &other}})
    std::ofstream(folder.path() / "parts" / name, std::ios::binary) << *bytes << tar_end();
  service::NodeConfig config = config_in(folder.path());
  config.datasets.push_back({"parts", folder.path() / "parts", "", "", 0});
  const LiveService service(config);
  const Told got = told(config.socket, 7);
  CHECK(got.names == std::vector<std::string>{"jpg", "json", "label"});
  CHECK(got.samples.at("jpg") == pictures);
  CHECK(got.samples.at("json") == texts);
  const auto& labels = got.samples.at("label");
  REQUIRE(labels.size() == 40);
  for (int i = 0; i < 40; ++i) {
    std::int64_t label = -1;
    std::memcpy(&label, labels[static_cast<std::size_t>(i)].data(), sizeof label);
    CHECK(label == i % 10);
  }
}

}  // namespace
}  // namespace batchflow::test::parts_test
