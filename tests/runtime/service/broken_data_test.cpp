// Data that is broken, or breaks while it is served: what is good is served once, what is not is
// told, and no other job is the worse for it.
#include <cstring>

#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/seen.h"
#include "tests/runtime/sources/tar_bytes.h"

namespace batchflow::test::broken_data_test {

using nlohmann::json;

TEST_CASE("one picture in a hundred is corrupt: each other once, each corrupt one replaced") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.engine.corrupt_ratio_max = Ratio{Ratio::kWhole / 50};
  const auto root = folder.path() / "pictures";
  constexpr std::uint64_t kPictures = 600;
  std::vector<std::uint64_t> good, corrupt;
  const Encoded picture = encode_jpeg(48, 40);
  for (std::uint64_t key = 0; key < kPictures; ++key) {
    Encoded bytes = picture;
    switch (key % 100 == 37 ? key / 100 % 3 : 3) {
      case 0:  // nothing of a picture
        bytes.assign(500, std::byte{'x'});
        break;
      case 1:  // empty
        bytes.clear();
        break;
      case 2:  // its header, and no more
        bytes.resize(40);
        break;
      default:
        break;
    }
    (key % 100 == 37 ? corrupt : good).push_back(key);
    write_file(root / (key < kPictures / 2 ? "a" : "b") / fmt::format("{:04}.jpg", key), bytes);
  }
  config.datasets.push_back({"pictures", root, "", "", 0, {}});
  const LiveService service(config);
  for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
    CAPTURE(order);
    JobPlan plan;
    plan.service = config.socket;
    plan.dataset = "pictures";
    plan.order = order;
    plan.epochs = 3;
    const Seen seen = see(plan);
    CHECK(seen.wrong == "");
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      CAPTURE(epoch);
      CHECK(sorted(seen.good.at(epoch)) == good);
      CHECK(sorted(seen.replaced.at(epoch)) == corrupt);
    }
  }
  CHECK(command(config.socket, "status").at("corrupt_samples") == corrupt.size());
}

TEST_CASE("more corrupt pictures than are allowed end their job, and say so; others go on") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.engine.corrupt_ratio_max = Ratio{Ratio::kWhole / 100};
  const auto root = folder.path() / "pictures";
  const Encoded picture = encode_jpeg(48, 40);
  for (std::uint64_t key = 0; key < 200; ++key)
    write_file(root / "a" / fmt::format("{:04}.jpg", key),
               key % 20 == 3 ? Encoded(300, std::byte{1}) : picture);
  config.datasets.push_back({"pictures", root, "", "", 0, {}});
  std::filesystem::create_directory(folder.path() / "rows");
  write_rows(folder.path() / "rows" / "rows.npy", 2000, 16);
  config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0, {}});
  const LiveService service(config);
  JobPlan plan;
  plan.service = config.socket;
  Handed other;
  std::thread job([&] { other = run_job(plan); });
  JobPlan broken = plan;
  broken.dataset = "pictures";
  const Seen seen = see(broken);
  CHECK_MESSAGE(seen.wrong.find("cannot be decoded") != std::string::npos, seen.wrong);
  job.join();
  CHECK(other.wrong == "");
  for (const auto& [epoch, keys] : other.epochs) CHECK(is_whole(keys, 2000));
}

TEST_CASE("a tar that ends in mid-sample: what is whole is served, each once") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  const auto root = folder.path() / "shards";
  std::filesystem::create_directory(root);
  std::string tar;
  for (int i = 0; i < 100; ++i)
    tar += tar_member(fmt::format("{:03}.txt", i), std::string(700, 'a'));
  // Three of the hundred are cut off, the third one in mid-bytes.
  tar.resize(98 * (512 + 1024) - 500);
  std::ofstream(root / "shard-0.tar", std::ios::binary) << tar;
  config.datasets.push_back({"shards", root, "", "", 0, {}});
  const auto pipeline = folder.path() / "text.yaml";
  std::ofstream(pipeline) << "kind: pipeline\nname: text\nfield: txt\nsteps: []\n";
  config.pipelines.push_back(pipeline);
  const LiveService service(config);
  JobPlan plan;
  plan.service = config.socket;
  plan.dataset = "shards";
  plan.pipeline = "text";
  const Seen seen = see(plan);
  CHECK(seen.wrong == "");
  for (const auto& [epoch, keys] : seen.good) CHECK(is_whole(keys, 97));
  CHECK(seen.good.size() == 2);
  CHECK(seen.replaced.empty());
}

// What is not there any more is corrupt: no job waits for it to come back. The dataset is larger
// than what can be kept of it.
TEST_CASE("a dataset with files that shrink while it is served ends its jobs alone") {
  for (const bool small : {true, false}) {
    CAPTURE(small);
    Folder folder;
    service::NodeConfig config = config_in(folder.path());
    const auto data = folder.path() / "data";
    const auto rows = folder.path() / "rows";
    std::filesystem::create_directory(data);
    std::filesystem::create_directory(rows);
    const std::vector<std::byte> bytes(64 << 10);
    for (int file = 0; small && file < 3000; ++file)
      write_file(data / fmt::format("{:04}.bin", file), bytes);
    for (int file = 0; !small && file < 40; ++file)
      write_rows(data / fmt::format("{:02}.npy", file), 100, 4096);
    write_rows(rows / "rows.npy", 5000, 16);
    config.memory = Bytes{256} << 20;
    config.engine.block_bytes = Bytes{1} << 20;
    config.datasets.push_back({"data", data, "", "", 0, {}});
    config.datasets.push_back({"rows", rows, "", "", 0, {}});
    const LiveService service(config);
    JobPlan plan;
    plan.service = config.socket;
    plan.dataset = "data";
    plan.epochs = 1000;
    plan.width = 0;
    std::atomic<std::uint64_t> batches{0};
    plan.count = &batches;
    plan.pause_us = 1000;
    Handed broken, fine;
    std::thread job([&] { broken = run_job(plan); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (batches < 5 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const auto& file : std::filesystem::directory_iterator(data))
      std::filesystem::resize_file(file.path(), small ? 0 : 200);
    JobPlan other;
    other.service = config.socket;
    std::thread second([&] { fine = run_job(other); });
    job.join();
    second.join();
    CHECK_MESSAGE(broken.wrong.find("cannot be decoded") != std::string::npos, broken.wrong);
    CHECK(fine.wrong == "");
    CHECK(fine.epochs.size() == 2);
    for (const auto& [epoch, keys] : fine.epochs) CHECK(is_whole(keys, 5000));
    CHECK(command(config.socket, "status").at("jobs").empty());
  }
}

// In a bad folder nine pictures of fifty are none, and in each of two poor ones eight.
TEST_CASE("corrupt samples of a mixture count for their source, and end jobs that read it alone") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  const auto root = folder.path() / "pictures";
  const Encoded picture = encode_jpeg(48, 40);
  for (const auto& [name, broken] : {std::pair{"bad", 9}, {"fine", 0}, {"poor", 8}, {"sick", 8}}) {
    for (int i = 0; i < 50; ++i)
      write_file(root / name / fmt::format("{:02}.jpg", i),
                 i < broken ? Encoded(300, std::byte{1}) : picture);
  }
  config.datasets.push_back({"pictures", root, "", "", 0, {}});
  const LiveService service(config);
  const auto wrong = [&](std::vector<const char*> sources) {
    JobPlan plan;
    plan.service = config.socket;
    plan.dataset = "pictures";
    plan.pipeline = R"({"kind": "pipeline", "name": "small",
        "steps": [{"step": "decode"}, {"step": "centre_crop", "size": 8}]})";
    plan.order = sources.empty() ? BF_RELAXED : BF_MIXED;
    plan.width = 0;
    plan.batch = 8;
    plan.sources = std::move(sources);
    return run_job(plan).wrong;
  };
  const std::string told = wrong({"fine", "bad"});
  CHECK_MESSAGE(told.find("9 samples cannot be prepared, 8 may be so") != told.npos, told);
  CHECK_MESSAGE(told.find("each source of a mixture counts for itself") != told.npos, told);
  CHECK(wrong({"fine", "poor", "sick"}) == "");
  CHECK(command(config.socket, "status").at("corrupt_samples") == 25);
  CHECK(wrong({"fine"}) == "");
  CHECK(wrong({"bad"}).find("9 samples cannot be prepared, 8 may be so") != std::string::npos);
  CHECK(wrong({}).find("samples cannot be prepared, 8 may be so") != std::string::npos);
}

// The sources together are larger than what can be kept of them.
TEST_CASE("a source of a mixture that shrinks or goes ends the jobs of its dataset alone") {
  for (const bool goes : {true, false}) {
    CAPTURE(goes);
    Folder folder;
    service::NodeConfig config = config_in(folder.path());
    const auto data = folder.path() / "data";
    const auto rows = folder.path() / "rows";
    std::filesystem::create_directory(rows);
    write_rows(rows / "rows.npy", 5000, 16);
    const std::vector<std::byte> bytes(64 << 10);
    for (int file = 0; file < 3000; ++file)
      write_file(data / (file < 1000 ? "calm" : "changing") / fmt::format("{:04}.bin", file),
                 bytes);
    config.memory = Bytes{256} << 20;
    config.engine.block_bytes = Bytes{1} << 20;
    config.datasets.push_back({"data", data, "", "", 0, {}});
    config.datasets.push_back({"rows", rows, "", "", 0, {}});
    const LiveService service(config);
    JobPlan plan;
    plan.service = config.socket;
    plan.dataset = "data";
    plan.order = BF_MIXED;
    plan.width = 0;
    plan.sources = {"calm", "changing"};
    plan.epochs = 1000;
    std::atomic<std::uint64_t> batches{0};
    plan.count = &batches;
    plan.pause_us = 1000;
    Handed broken, fine;
    std::thread job([&] { broken = run_job(plan); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (batches < 5 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (goes) {
      std::filesystem::remove_all(data / "changing");
    } else {
      for (const auto& file : std::filesystem::directory_iterator(data / "changing"))
        std::filesystem::resize_file(file.path(), 0);
    }
    JobPlan other;
    other.service = config.socket;
    std::thread second([&] { fine = run_job(other); });
    job.join();
    second.join();
    CHECK_MESSAGE(broken.wrong.find("cannot be decoded") != std::string::npos, broken.wrong);
    CHECK(fine.wrong == "");
    CHECK(fine.epochs.size() == 2);
    for (const auto& [epoch, keys] : fine.epochs) CHECK(is_whole(keys, 5000));
    CHECK(command(config.socket, "status").at("jobs").empty());
  }
}

}  // namespace batchflow::test::broken_data_test
