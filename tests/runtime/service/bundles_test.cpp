// Small samples are read and kept in bundles: few reads, little memory, and nothing else is
// different for a job.
#include <fcntl.h>

#include "tests/runtime/service/command.h"
#include "tests/runtime/service/seen.h"

namespace batchflow::test::bundles_test {
namespace {

using nlohmann::json;
constexpr Bytes kMib = Bytes{1} << 20;

struct Rows {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  JobPlan plan;
  Rows(std::vector<std::uint64_t> files, std::size_t width) {
    std::filesystem::create_directory(root());
    // All rows of all files are numbered in turn.
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      write_rows(root() / fmt::format("{}.npy", i), files[i], width, first);
      first += files[i];
    }
    config.datasets.push_back({"rows", root(), "", "", 0, {}});
    plan.service = config.socket;
    plan.width = width;
  }
  std::filesystem::path root() const { return folder.path() / "rows"; }
  json status() const { return command(config.socket, "status"); }
  std::uint64_t number(const char* key) const { return status().at(key).get<std::uint64_t>(); }
};

TEST_CASE("rows of 64 bytes: read once, 1024 at a time, in little more memory than they are") {
  constexpr std::uint64_t kRows = 100'000;
  constexpr Bytes kData = kRows * 64;
  Rows rows({kRows}, 8);
  const LiveService service(rows.config);
  for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
    rows.plan.order = order;
    rows.plan.batch = 256;
    const Handed handed = run_job(rows.plan);
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == 2);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
    CHECK(handed.repeats == 0);
    CHECK(rows.number("read_samples") == kRows);
    CHECK(rows.number("device_reads") == (kRows + 1023) / 1024);
  }
  const json status = rows.status();
  CHECK(status.at("read_bytes") == kData);
  CHECK(status.at("item_bytes") >= kData);
  CHECK(status.at("item_bytes") <= kData + kData / 10);
  CHECK(status.at("not_kept") == 0);
  CHECK(status.at("corrupt_samples") == 0);
  CHECK(status.at("protocol_errors") == 0);
}

TEST_CASE("bundles over the ends of files have the bytes of both") {
  Rows rows({1500, 3, 2600, 1100}, 8);
  const LiveService service(rows.config);
  const Handed handed = run_job(rows.plan);
  CHECK(handed.wrong == "");
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, 5203));
  CHECK(rows.number("read_samples") == 5203);
  // Six bundles, with three ends of files in them.
  CHECK(rows.number("device_reads") == 6 + 3);
}

TEST_CASE("rows behind the end of a file that was cut are corrupt, their neighbours are not") {
  Rows rows({3000, 3000}, 8);
  rows.config.engine.corrupt_ratio_max = Ratio{Ratio::kWhole / 10};
  const LiveService service(rows.config);
  // The index is made before the file is cut: a job has had all.
  JobPlan strict = rows.plan;
  strict.epochs = 1;
  CHECK(run_job(strict).wrong == "");
  command(rows.config.socket, "drop", {{"dataset", "rows"}});
  std::filesystem::resize_file(rows.root() / "0.npy",
                               std::filesystem::file_size(rows.root() / "0.npy") - 5 * 64);
  const Seen seen = see(rows.plan);
  CHECK(seen.wrong == "");
  for (const auto& [epoch, keys] : seen.replaced)
    CHECK(sorted(keys) == std::vector<std::uint64_t>{2995, 2996, 2997, 2998, 2999});
  for (const auto& [epoch, keys] : seen.good) CHECK(keys.size() == 5995);
  CHECK(rows.number("corrupt_samples") == 5);
}

TEST_CASE("where memory cannot keep all, the rest is read row by row") {
  constexpr std::uint64_t kRows = 60'000;  // of 4 KiB
  Rows rows({kRows}, 512);
  rows.config.memory = 192 * kMib;
  const LiveService service(rows.config);
  rows.plan.epochs = 3;
  const Handed handed = run_job(rows.plan);
  CHECK(handed.wrong == "");
  REQUIRE(handed.epochs.size() == 3);
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  const json status = rows.status();
  CHECK(status.at("item_bytes") > 0);
  CHECK(status.at("item_bytes") < 192 * kMib);
  CHECK(status.at("read_samples") > kRows);
  CHECK(status.at("read_samples") < 3 * kRows);
  // Rows that were read alone are no more than what is missing.
  CHECK(status.at("read_bytes").get<Bytes>() < 3 * kRows * 4096);
  CHECK(status.at("encoded_hits") > 0);
}

// The case above, with the same rows and memory.
TEST_CASE("where runs are shuffled, a bundle is read once an epoch, and no row alone") {
  constexpr std::uint64_t kRows = 60'000;
  constexpr std::uint64_t kBundles = kRows / 16;
  Rows rows({kRows}, 512);
  rows.config.memory = 192 * kMib;
  const LiveService service(rows.config);
  rows.plan.runs = true;
  rows.plan.epochs = 3;
  const Handed handed = run_job(rows.plan);
  CHECK(handed.wrong == "");
  REQUIRE(handed.epochs.size() == 3);
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  CHECK(handed.epochs.at(0) != handed.epochs.at(1));
  CHECK(handed.repeats == 0);
  // A run that the end of a lane cuts may be read twice.
  CHECK(rows.number("device_reads") <= 3 * (kBundles + kBundles / 20));
  CHECK(rows.number("read_bytes") <= 3 * (kBundles + kBundles / 20) * 16 * 4096);
  CHECK(rows.number("not_kept") == 0);
  // Nothing else is kept, so at least the part of the data that memory cannot hold.
  CHECK(rows.number("device_reads") > kBundles);
}

// Blocks are small here, so that several share a slab; what one stream gives up, others need.
TEST_CASE("runs and samples are shuffled side by side in a memory that is smaller than the data") {
  constexpr std::uint64_t kRows = 800'000;  // of 128 bytes
  Rows rows({kRows}, 16);
  rows.config.memory = 192 * kMib;
  const LiveService service(rows.config);
  std::vector<JobPlan> plans(5, rows.plan);
  for (JobPlan& plan : plans) plan.epochs = 1, plan.timeout_s = 60;
  plans[0].runs = plans[1].runs = true;
  plans[0].batch = 1000;
  plans[1].batch = 4096;
  // Most of their samples are reads of their own: a part of an epoch is enough.
  plans[2].batch = 4096;
  plans[2].batches_most = 40;
  plans[3].order = BF_STRICT;
  plans[3].batch = 777;
  plans[3].batches_most = 200;
  plans[4].order = BF_SEQUENTIAL;
  plans[4].batch = 1000;
  std::vector<Handed> handed(plans.size());
  std::vector<std::thread> jobs;
  for (std::size_t i = 0; i < plans.size(); ++i)
    jobs.emplace_back([&, i] { handed[i] = run_job(plans[i]); });
  for (std::thread& job : jobs) job.join();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    CHECK(handed[i].wrong == "");
    const bool whole = plans[i].batches_most == UINT64_MAX;
    if (whole) CHECK(is_whole(handed[i].epochs.at(0), kRows));
    if (!whole) CHECK(handed[i].epochs.at(0).size() == plans[i].batches_most * plans[i].batch);
  }
  CHECK(rows.number("item_bytes") < kRows * 128);
  CHECK(rows.number("not_kept") == 0);
  CHECK(rows.number("corrupt_samples") == 0);
  CHECK_FALSE(service.has_said("no memory for"));
  CHECK_FALSE(service.has_said("is damaged"));
}

TEST_CASE("runs are refused for a dataset that has none, with what to ask for instead") {
  Rows rows({100}, 4096);  // of 32 KiB
  const LiveService service(rows.config);
  rows.plan.runs = true;
  const std::string wrong = run_job(rows.plan).wrong;
  CHECK_MESSAGE(wrong.find("the dataset rows has none") != std::string::npos, wrong);
  CHECK_MESSAGE(wrong.find("shuffle=True") != std::string::npos, wrong);
}

TEST_CASE("a job that goes on from its state has the rest of its rows, once; in its own order") {
  constexpr std::uint64_t kRows = 20'000;
  for (const bool runs : {false, true}) {
    CAPTURE(runs);
    Rows rows({kRows}, 8);
    std::string state;
    JobPlan plan = rows.plan;
    plan.runs = runs;
    plan.order = runs ? BF_RELAXED : BF_STRICT;
    plan.epochs = 1;
    plan.batches_most = 200;
    std::vector<std::uint64_t> all;
    {
      const LiveService service(rows.config);
      const Handed first = run_job(plan, &state);
      CHECK(first.wrong == "");
      all = first.epochs.at(0);
    }
    const LiveService service(rows.config);
    plan.batches_most = UINT64_MAX;
    plan.state = state;
    const Handed rest = run_job(plan);
    CHECK(rest.wrong == "");
    const auto& keys = rest.epochs.at(0);
    all.insert(all.end(), keys.begin(), keys.end());
    CHECK(is_whole(all, kRows));
    if (!runs) continue;
    plan.runs = false;
    const std::string wrong = run_job(plan).wrong;
    CHECK_MESSAGE(wrong.find("whether runs are shuffled") != std::string::npos, wrong);
  }
}

}  // namespace
}  // namespace batchflow::test::bundles_test
