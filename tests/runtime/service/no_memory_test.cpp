// A machine that has no pages for blocks and batches, for a moment or for good.
#include <map>

#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/service/live.h"
#include "tests/runtime/service/status.h"

namespace batchflow::test::no_memory_test {
namespace {

constexpr std::uint64_t kRows = 1000;

struct Rows {
  Folder folder;
  service::NodeConfig config;
  JobPlan plan;
  Rows() : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0, {}});
    // Of 10 rows, so that batches of 32 are gathered.
    config.engine.block_bytes = 1280;
    plan.service = config.socket;
    plan.timeout_s = 60;
  }
  ~Rows() { failpoint::configure_failpoints(""); }
  void check_whole(const Handed& handed) const {
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == plan.epochs);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
    CHECK(handed.repeats == 0);
  }
};

std::uint64_t acted(std::string_view name) {
  for (const failpoint::FailpointCount& one : failpoint::failpoint_counts()) {
    if (one.name == name) return one.acted;
  }
  return 0;
}

TEST_CASE("blocks and batches wait for pages, and nothing is lost") {
  for (const std::string where :
       {"service.slot.fill", "service.prepare.memory", "service.gather.memory"}) {
    CAPTURE(where);
    Rows rows;
    const LiveService service(rows.config);
    failpoint::configure_failpoints(where + "=fail:1:4");
    const Handed handed = run_job(rows.plan);
    rows.check_whole(handed);
    CHECK(acted(where) == 4);
    CHECK(status_of(rows.config.socket).at("no_memory") == 4);
    CHECK_FALSE(service.has_said("no memory for a batch"));
  }
}

TEST_SUITE("long") {
  TEST_CASE("without pages for good a job is refused, in bounded time and with the reason") {
    Rows rows;
    const LiveService service(rows.config);
    failpoint::configure_failpoints("service.slot.fill=fail");
    const auto began = std::chrono::steady_clock::now();
    const Handed handed = run_job(rows.plan);
    CAPTURE(handed.wrong);
    CHECK(handed.batches == 0);
    CHECK(
        handed.wrong.find("no worker could prepare batches for it; see the service's log; the last "
                          "was: no memory for a block within 30 s") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(45));
    CHECK(service.has_said("no memory for a batch for more than 5 s"));
    failpoint::configure_failpoints("");
    rows.check_whole(run_job(rows.plan));
  }

  TEST_CASE("without pages for gathered batches a job waits as long as it will, and can go on") {
    Rows rows;
    const LiveService service(rows.config);
    failpoint::configure_failpoints("service.gather.memory=fail");
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = rows.config.socket.c_str();
    options.dataset = "rows";
    options.batch_samples = 32;
    options.order = BF_RELAXED;
    options.epochs = 1;
    options.timeout_s = 8;
    bf_loader* loader = nullptr;
    REQUIRE(bf_loader_open(&options, &loader) == BF_OK);
    std::vector<std::uint64_t> keys;
    bf_batch batch = BF_BATCH_INIT;
    bf_status status = BF_OK;
    const auto go_on = [&] {
      while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
        keys.insert(keys.end(), batch.keys, batch.keys + batch.samples);
        bf_batch_release(loader, batch.handle);
      }
    };
    go_on();
    CHECK(status == BF_TIMEOUT);
    CHECK(std::string(bf_last_error()).find("no batch within 8 s") != std::string::npos);
    CHECK(service.has_said("no memory for a batch for more than 5 s"));
    failpoint::configure_failpoints("");
    go_on();
    CHECK(status == BF_END);
    CHECK(is_whole(keys, kRows));
    bf_loader_close(loader);
  }
}

}  // namespace
}  // namespace batchflow::test::no_memory_test
