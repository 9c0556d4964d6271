// A dataset that is another one than its index says: told apart at once, never mixed.
#include <atomic>

#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/seen.h"
#include "tests/runtime/service/served_rows.h"

namespace batchflow::test::changed_data_test {
namespace {

// A job does not go on in other data as if it were the same; a job that begins anew has the new
// data.
TEST_CASE(
    "data that has changed while the service was away ends its jobs, in words, and is served") {
  ServedRows place(4000);
  Daemon daemon(place.arguments, place.socket);
  JobPlan plan = place.plan();
  plan.pause_us = 3000;
  plan.epochs = 100;
  std::atomic<std::uint64_t> batches{0};
  plan.count = &batches;
  Handed handed;
  std::thread job([&] { handed = run_job(plan); });
  CHECK(reaches(batches, 20));
  CHECK(daemon.kill(SIGKILL) == -SIGKILL);
  write_rows(place.rows / "rows.npy", 3000, 16);
  daemon.start();
  job.join();
  CHECK_MESSAGE(handed.wrong.find("the state does not fit this job") != std::string::npos,
                handed.wrong);
  CHECK(handed.wrong.find("begin without a state, or restore") != std::string::npos);
  plan = place.plan();
  const Handed anew = run_job(plan);
  CHECK(anew.wrong == "");
  REQUIRE(anew.epochs.size() == 2);
  for (const auto& [epoch, keys] : anew.epochs) CHECK(is_whole(keys, 3000));
}

// A folder that jobs name by its path.
struct Brought {
  const Folder folder;
  service::NodeConfig config = config_in(folder.path());
  const std::filesystem::path rows = folder.path() / "rows";
  JobPlan plan;
  Brought() {
    config.open_datasets = true;
    std::filesystem::create_directory(rows);
    write_rows(rows / "rows.npy", 2000, 16);
    plan.service = config.socket;
    plan.dataset = rows;
  }
};

TEST_CASE("a folder that jobs bring is what it is when the first of them comes") {
  Brought place;
  const auto& [folder, config, rows, plan] = place;
  const LiveService service(config);
  const auto datasets = [&] { return command(config.socket, "status").at("datasets").size(); };
  const auto check = [&](std::uint64_t count) {
    const Handed handed = run_job(plan);
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == 2);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, count));
    CHECK(datasets() == 1);
  };
  check(2000);
  const auto read = [&] {
    return command(config.socket, "status").at("read_samples").get<std::uint64_t>();
  };
  const std::uint64_t once = read();
  check(2000);
  CHECK(read() == once);  // the same data, out of the cache
  write_rows(rows / "rows.npy", 3000, 16);
  check(3000);
  // Written anew, with as many bytes: its version does not tell, its time does.
  const std::uint64_t before = read();
  std::filesystem::last_write_time(
      rows / "rows.npy", std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  check(3000);
  CHECK(read() >= before + 3000);
  // Another folder in its place.
  std::filesystem::rename(rows, folder.path() / "old");
  std::filesystem::create_directory(rows);
  write_rows(rows / "rows.npy", 500, 16);
  check(500);
  std::filesystem::remove_all(rows);
  CHECK(run_job(plan).wrong.find("No such file") != std::string::npos);
}

// Descriptors of this process at a folder.
std::size_t open_at(const std::filesystem::path& folder) {
  std::size_t found = 0;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(one, gone) == folder) ++found;
  }
  return found;
}

TEST_CASE("what jobs have brought is let go after the last of them, and what is cached stays") {
  Brought place;
  auto& [folder, config, rows, plan] = place;
  config.brought_kept = Duration(0);
  plan.pipeline = R"({"kind": "pipeline", "name": "mine", "steps": []})";
  const LiveService service(config);
  const auto asked = [&](const char* key) { return command(config.socket, "status").at(key); };
  const auto is_let_go = [&] { return asked("datasets").empty() && open_at(rows) == 0; };
  std::uint64_t read = 0;
  for (int time = 0; time < 3; ++time) {
    std::atomic<std::uint64_t> batches{0};
    plan.count = &batches;
    plan.pause_us = 20'000;
    Handed handed;
    std::thread job([&] { handed = run_job(plan); });
    CHECK(reaches(batches, 1));
    CHECK(open_at(rows) >= 1);  // the job's own beside it
    CHECK(asked("datasets").size() == 1);
    job.join();
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == 2);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, 2000));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_let_go() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(is_let_go());
    const auto now = asked("read_samples").get<std::uint64_t>();
    if (time == 0) CHECK(now == 2000);
    if (time == 1) CHECK(now == read);
    if (time == 2) CHECK(now == read + 2000);
    read = now;
    if (time == 1)
      std::filesystem::last_write_time(rows / "rows.npy",
                                       std::filesystem::file_time_type::clock::now());
  }
  const auto warmed = command(config.socket, "warm", {{"dataset", rows.string()}});
  CHECK(warmed.value("message", "").find("it was let go") != std::string::npos);
}

// The engine may send commands for a job between the end of its connection and its next step.
TEST_CASE("a job that leaves in mid-epoch does not take its data from the engine's last commands") {
  Brought place;
  auto& [folder, config, rows, plan] = place;
  config.brought_kept = Duration(0);
  plan.batches_most = 2;
  const LiveService service(config);
  failpoint::configure_failpoints("service.data.let_go=fail");
  for (int time = 0; time < 40; ++time) {
    const Handed handed = run_job(plan);
    CHECK(handed.wrong == "");
    CHECK(handed.batches == 2);
  }
  failpoint::configure_failpoints("");
  plan.batches_most = UINT64_MAX;
  CHECK(run_job(plan).wrong == "");
}

// Its version does not tell, as what differs is not among what is looked at of a large file, nor do
// its times: that it is another folder does.
TEST_CASE("another folder in the place of one that was let go is another dataset") {
  const Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.open_datasets = true;
  config.brought_kept = Duration(0);
  const auto make = [&](const char* name, std::int64_t first) {
    const auto place = folder.path() / name;
    std::filesystem::create_directory(place);
    std::ofstream out(place / "rows.npy", std::ios::binary);
    out << sources::npy_head("<i8", "(2000, 100)");
    std::vector<std::int64_t> row(100);
    for (int k = 0; k < 2000; ++k) {
      row[0] = k == 1000 ? first : 0;
      out.write(reinterpret_cast<const char*>(row.data()), 800);
    }
    out.close();
    std::filesystem::last_write_time(place / "rows.npy", std::filesystem::file_time_type());
    return place;
  };
  const auto here = make("here", 111), other = make("other", 222);
  const LiveService service(config);
  JobPlan plan;
  plan.service = config.socket;
  plan.dataset = here;
  plan.epochs = 1;
  const auto greatest = [&]() -> std::int64_t {
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = plan.service.c_str();
    options.dataset = plan.dataset.c_str();
    options.batch_samples = 100;
    options.epochs = 1;
    options.timeout_s = 20;
    bf_loader* loader = nullptr;
    REQUIRE_MESSAGE(bf_loader_open(&options, &loader) == BF_OK, bf_last_error());
    bf_batch batch = BF_BATCH_INIT;
    std::int64_t most = 0;
    while (bf_loader_next(loader, &batch) == BF_OK) {
      const auto* values = static_cast<const std::int64_t*>(batch.arrays[0].values);
      most = std::max(most, *std::max_element(values, values + batch.samples * 100));
      bf_batch_release(loader, batch.handle);
    }
    bf_loader_close(loader);
    return most;
  };
  CHECK(greatest() == 111);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (open_at(here) > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::filesystem::rename(here, folder.path() / "away");
  std::filesystem::rename(other, here);
  CHECK(greatest() == 222);
}

// By their sizes: a job that has the index knows no more of them.
TEST_CASE("files that are replaced by shorter or longer ones are corrupt, and the rest is served") {
  constexpr std::uint64_t kFiles = 400;
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  const auto data = folder.path() / "data";
  std::filesystem::create_directory(data);
  const auto name = [&](std::uint64_t file) { return data / fmt::format("{:03}.bin", file); };
  // Some fill whole sectors.
  for (std::uint64_t file = 0; file < kFiles; ++file)
    std::ofstream(name(file)) << std::string(file % 4 == 0 ? 8192 : 1000, 'a');
  config.engine.corrupt_ratio_max = Ratio{Ratio::kWhole / 2};
  config.datasets.push_back({"data", data, "", "", 0, {}});
  const LiveService service(config);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!service.has_said("dataset data: 400 samples") && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::vector<std::uint64_t> changed, same;
  for (std::uint64_t file = 0; file < kFiles; ++file) {
    const std::uint64_t digit = file % 10;
    (digit == 3 || digit == 6 || digit == 8 ? changed : same).push_back(file);
    if (digit != 3 && digit != 6 && digit != 8) continue;
    const auto bytes = std::filesystem::file_size(name(file));
    std::ofstream(folder.path() / "new") << std::string(digit == 3   ? bytes / 2
                                                        : digit == 6 ? bytes + 1
                                                                     : bytes * 9,
                                                        'b');
    std::filesystem::rename(folder.path() / "new", name(file));
  }
  JobPlan plan;
  plan.service = config.socket;
  plan.dataset = "data";
  plan.pipeline = "bytes";
  const Seen seen = see(plan);
  CHECK(seen.wrong == "");
  REQUIRE(seen.good.size() == 2);
  for (const auto& [epoch, keys] : seen.good) CHECK(sorted(keys) == same);
  for (const auto& [epoch, keys] : seen.replaced) CHECK(sorted(keys) == changed);
  CHECK(service.has_said("the dataset has changed since it was indexed, or is damaged"));
}

}  // namespace
}  // namespace batchflow::test::changed_data_test
