// What a node can do is measured on real samples, and the simulator can read what is written. No
// test here says how fast anything is.
#include <nlohmann/json.hpp>

#include "doctest/doctest.h"
#include "programs/input/cluster_model.h"
#include "programs/input/workload_model.h"
#include "programs/input/yaml.h"
#include "runtime/ctl/calibration.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::calibrate_test {
namespace {

std::string jpeg(std::uint64_t seed) {
  const Encoded encoded = encode_jpeg(40, 30, {}, seed);
  return {reinterpret_cast<const char*>(encoded.data()), encoded.size()};
}

Outcome calibrated(const Folder& data, const std::vector<std::string>& more) {
  const Folder streams;
  std::vector<std::string> words = {"calibrate", data.path().string()};
  words.insert(words.end(), more.begin(), more.end());
  return Program(words, streams.path()).finish();
}

}  // namespace

TEST_CASE("a folder of pictures: reads at all depths, and costs with and without decoding") {
  const Folder data, written;
  for (int i = 0; i < 40; ++i) data.write(fmt::format("cat/{:03}.jpg", i), jpeg(i));
  data.write("dog/cut.jpg", jpeg(1).substr(0, 300));
  const std::string cluster = (written.path() / "here.yaml").string();
  const std::string workload = (written.path() / "workload.yaml").string();
  const Outcome ran = calibrated(data, {"--seconds", "0.05", "--name", "mine", "--json",
                                        "--cluster=" + cluster, "--workload=" + workload});
  REQUIRE_MESSAGE(ran.code == 0, ran.err);
  const auto json = nlohmann::json::parse(ran.out);
  std::vector<unsigned> depths;
  for (const auto& read : json["reads"]) {
    depths.push_back(read["depth"]);
    CHECK(read["reads_per_s"] > 0);
    CHECK(read["p50_s"] <= read["p99_s"]);
  }
  CHECK(depths == std::vector<unsigned>{1, 2, 4, 8, 16, 32});
  CHECK(json["preparation"]["prepared_bytes"] >= 3 * 224 * 224);
  CHECK(json["preparation"]["decoded_bytes"] == 16 + 40 * 30 * 3);
  CHECK(json["preparation"]["cold_s"] > 0);
  CHECK(json["preparation"]["decoded_s"] > 0);
  CHECK(json["preparation"]["alone_s"] > 0);
  CHECK(json["sleep_over_s"] >= 0);
  // Beside these programs there is a service to measure.
  CHECK(json["service"]["prepare_s"] > 0);
  CHECK(json["copy_bytes_per_s"] > 0);
  CHECK(json["wake_s"] > 0);

  input::ClusterModel read;
  config::read_config(input::read_yaml_file(cluster),
                      [&](config::ConfigSection& section) { read = input::read_cluster(section); });
  CHECK(read.name == "mine");
  REQUIRE(read.nodes.size() == 1);
  CHECK(read.store.operations_ahead == 32);
  CHECK(read.store.queue == 32);
  CHECK(read.nodes[0].processors == read.nodes[0].cores);
  CHECK(read.nodes[0].workers_help);
  CHECK(read.nodes[0].overhead.read.count() + read.nodes[0].overhead.step.count() > 0);
  config::read_config(input::read_yaml_file(workload), [&](config::ConfigSection& section) {
    const auto datasets = input::read_datasets(section);
    const auto pipelines = input::read_pipelines(section);
    CHECK(datasets.at(0).samples == 41);
    CHECK(datasets[0].read_bytes % 4096 == 0);
    CHECK(datasets[0].read_bytes >= datasets[0].bytes);
    REQUIRE(pipelines.at(0).steps.size() == 2);
    CHECK(pipelines[0].name == "imagenet-train");
    CHECK(pipelines[0].steps[1].random);
  });
}

TEST_CASE("numbers: no pipeline is guessed, and that is said") {
  const Folder data;
  data.write("numbers.bin", std::string(10'000, 'x'));
  const Outcome ran = calibrated(data, {"--seconds", "0.05"});
  CHECK(ran.code == 0);
  CHECK(ran.out.find("preparation was not measured: name a pipeline") != std::string::npos);
}

TEST_CASE("what cannot be measured is said before anything is") {
  const Folder data;
  CHECK(calibrated(data, {}).code == 2);
  data.write("cat/a.jpg", jpeg(1));
  CHECK(calibrated(data, {"--pipeline", "no-such"}).code == 2);
  CHECK(calibrated(data, {"--name", "a: b"}).code == 2);
  CHECK(calibrated(data, {"--seconds", "0"}).code == 2);
}

}  // namespace batchflow::test::calibrate_test
