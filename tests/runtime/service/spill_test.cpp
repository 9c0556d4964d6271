#include "runtime/service/backend/spill.h"

#include <fcntl.h>

#include "core/base/config_value.h"
#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"
#include "tests/runtime/service/status.h"
#include "tests/skip.h"

namespace batchflow::test::spill_test {
namespace {

constexpr Bytes kMib = Bytes{1} << 20;
constexpr DatasetId kSet{2};

// ------------------------------------------------------------------------------ the file alone --

TEST_CASE("what is written is found where it was put, what is dropped or being written is not") {
  Folder folder;
  service::MemoryBudget budget(64 * kMib);
  service::Spill spill({folder.path() / "drive", 16 * kMib}, budget);
  CHECK(spill.capacity() == 15 * kMib);
  CHECK(std::filesystem::is_empty(folder.path() / "drive"));  // nothing would be left of it
  const auto first = spill.begin(kSet, SampleId(5), 5000);
  REQUIRE(first);
  CHECK(spill.used() == 8192);
  CHECK_FALSE(spill.find(kSet, SampleId(5)));
  spill.end(first->entry, 99, 0);
  const auto there = spill.find(kSet, SampleId(5));
  REQUIRE(there);
  CHECK(there->offset == first->offset);
  CHECK(there->bytes == 5000);
  CHECK(there->sum == 99);
  CHECK_FALSE(spill.find(DatasetId(3), SampleId(5)));

  // Dropped while it is written: its place is another's only when the write is over.
  const auto second = spill.begin(kSet, SampleId(6), 4096);
  spill.drop(kSet, SampleId(6));
  const auto third = spill.begin(kSet, SampleId(6), 4096);
  REQUIRE(third);
  CHECK(third->offset != second->offset);
  CHECK(spill.used() == 4 * 4096);
  spill.end(third->entry, 1, 0);
  spill.end(second->entry, 2, 0);
  CHECK(spill.used() == 3 * 4096);
  CHECK(spill.find(kSet, SampleId(6))->sum == 1);

  spill.open(ShareId(9), kSet);
  spill.drop(ShareId(9), ItemId(6));
  spill.drop(ShareId(8), ItemId(5));  // of a share that keeps nothing here
  CHECK_FALSE(spill.find(kSet, SampleId(6)));
  CHECK(spill.find(kSet, SampleId(5)));
}

TEST_CASE("what an engine had on the drive is there for the next, by the version of its dataset") {
  Folder folder;
  service::MemoryBudget budget(64 * kMib);
  const service::SpillOptions options{folder.path() / "drive", 16 * kMib};
  service::Spill spill(options, budget);
  const auto write = [&](DatasetId dataset, std::uint64_t sample, Digest sum) {
    spill.end(spill.begin(dataset, SampleId(sample), 5000)->entry, sum, 0);
  };
  const auto version_of = [](DatasetId dataset) -> std::optional<Digest> {
    if (dataset == kSet) return 77;
    return std::nullopt;
  };
  for (const std::uint64_t sample : {4u, 5u, 6u}) write(kSet, sample, sample);
  write(DatasetId(3), 4, 1);  // of a dataset that is let go
  spill.drop(kSet, SampleId(4));
  REQUIRE(spill.begin(kSet, SampleId(7), 5000));  // never ends
  const auto dropped = spill.begin(kSet, SampleId(8), 5000);
  REQUIRE(dropped);
  spill.drop(kSet, SampleId(8));
  spill.put_aside(version_of);
  CHECK(spill.used() == 2 * 8192);
  CHECK(spill.sums().empty());
  CHECK_FALSE(spill.find(kSet, SampleId(5)));
  CHECK(spill.aside(76).empty());
  CHECK(spill.aside(77) == std::vector{SampleId(5), SampleId(6)});

  // The next engine calls the dataset otherwise, and has written one of them anew.
  const DatasetId now(9);
  write(now, 6, 66);
  spill.adopt(77, now, ShareId(2));
  CHECK(spill.aside(77).empty());
  CHECK(spill.used() == 2 * 8192);
  CHECK(spill.find(now, SampleId(5))->sum == 5);
  CHECK(spill.find(now, SampleId(6))->sum == 66);
  CHECK(spill.sums().at(now.value).items == 2);
  spill.drop(ShareId(2), ItemId(5));
  CHECK_FALSE(spill.find(now, SampleId(5)));
  CHECK(spill.used() == 8192);

  // No engine has come that wants them, and others need the room.
  spill.put_aside([](DatasetId) { return std::optional<Digest>(78); });
  CHECK(spill.aside(78) == std::vector{SampleId(6)});
  for (std::uint64_t sample = 0; sample < 16 * kMib / 4096; ++sample)
    REQUIRE(spill.begin(kSet, SampleId(100 + sample), 4096));
  CHECK(spill.aside(78).empty());
  CHECK(spill.used() == 16 * kMib);

  CHECK(spill.is_still(options));
  CHECK_FALSE(spill.is_still({options.path, 32 * kMib}));
  std::filesystem::remove_all(options.path);
  CHECK_FALSE(spill.is_still(options));
}

TEST_CASE("a full drive makes the tier as large as what is there, one that fails ends it") {
  Folder folder;
  service::MemoryBudget budget(64 * kMib);
  service::Spill spill({folder.path(), 64 * kMib}, budget);
  for (std::uint64_t sample = 0; sample < 40; ++sample)
    spill.end(spill.begin(kSet, SampleId(sample), kMib)->entry, sample, 0);
  CHECK_FALSE(spill.take_change());
  spill.end(spill.begin(kSet, SampleId(50), kMib)->entry, 0, ENOSPC);
  const auto change = spill.take_change();
  REQUIRE(change);
  CHECK(change->capacity == 40 * kMib);
  CHECK(spill.capacity() == 40 * kMib);
  CHECK(change->why.find("No space left") != std::string::npos);
  CHECK_FALSE(spill.find(kSet, SampleId(50)));
  CHECK(spill.find(kSet, SampleId(39)));

  for (std::uint64_t sample = 0; sample < 30; ++sample) {
    spill.failed(kSet, SampleId(sample), sample % 2 == 0 ? EIO : 0);
    CHECK_FALSE(spill.find(kSet, SampleId(sample)));
  }
  CHECK_FALSE(spill.take_change());
  for (int i = 0; i < 34; ++i) spill.failed(kSet, SampleId(60), EIO);
  const auto end = spill.take_change();
  REQUIRE(end);
  CHECK(end->capacity == 0);
  CHECK_FALSE(spill.begin(kSet, SampleId(1), 4096));
}

TEST_CASE("room that is not there is not promised, and a folder that is none is said") {
  Folder folder;
  service::MemoryBudget budget(64 * kMib);
  failpoint::configure_failpoints("service.spill.allocate=fail:1:1");
  const service::Spill smaller({folder.path(), Bytes{1} << 43}, budget);
  CHECK(smaller.note().find("has room for") != std::string::npos);
  CHECK(smaller.capacity() < Bytes{1} << 43);
  failpoint::configure_failpoints("service.spill.allocate=fail");
  const service::Spill none({folder.path(), 64 * kMib}, budget);
  CHECK(none.note().find("there is no spill tier") != std::string::npos);
  CHECK(none.capacity() == 0);
  failpoint::configure_failpoints("");
  std::ofstream(folder.path() / "file") << "x";
  CHECK_THROWS_AS(service::Spill({folder.path() / "file", 64 * kMib}, budget), ConfigError);
}

// --------------------------------------------------------------------------- in a live service --

// 1600 samples of 64 KiB, half of which have room in memory.
constexpr std::uint64_t kRows = 1600;
constexpr std::size_t kWidth = 8192;

struct Tiers {
  Folder folder;
  service::NodeConfig config;
  explicit Tiers(Bytes spill) : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, kWidth);
    config.memory = 192 * kMib;
    config.engine.block_bytes = kMib;
    // It divides memory by the jobs that there are, not by what it measures: what leaves memory
    // while a job runs, because another share is given more, is not copied to the drive, and is
    // read again.
    config.engine.policies.allocation = "equal";
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0, {}});
    if (spill > 0) config.spill = {folder.path() / "drive", spill};
  }
  // Runs a job for so many epochs, each of which must be whole.
  void run(std::uint32_t epochs) const {
    JobPlan plan;
    plan.service = config.socket;
    plan.epochs = epochs;
    plan.width = kWidth;
    const Handed handed = run_job(plan);
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == epochs);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
    CHECK(handed.repeats == 0);
  }
  nlohmann::json status() const { return status_of(config.socket); }
};

// A job of another stream that holds a batch: as long as any job reads a dataset, what is kept of
// it stays.
class Idle {
 public:
  explicit Idle(const Tiers& tiers) {
    const std::string service = tiers.config.socket;
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = service.c_str();
    options.dataset = "rows";
    options.batch_samples = 1;
    options.order = BF_SEQUENTIAL;
    REQUIRE(bf_loader_open(&options, &loader_) == BF_OK);
    bf_batch batch = BF_BATCH_INIT;
    REQUIRE(bf_loader_next(loader_, &batch) == BF_OK);
  }
  ~Idle() { bf_loader_close(loader_); }
  Idle(const Idle&) = delete;

 private:
  bf_loader* loader_ = nullptr;
};

std::uint64_t number(const nlohmann::json& status, const char* key) {
  return status.at(key).get<std::uint64_t>();
}

TEST_CASE("with a second tier each sample is read once from its source, without one more often") {
  Tiers without(0);
  {
    const LiveService service(without.config);
    without.run(3);
    CHECK(number(without.status(), "read_samples") > kRows + 2 * (kRows / 4));
    CHECK(number(without.status(), "spill_limit_bytes") == 0);
  }
  for (const char* engine : {"auto", "pread"}) {
    CAPTURE(engine);
    Tiers with(256 * kMib);
    with.config.storage.engine = engine;
    const LiveService service(with.config);
    const Idle idle(with);
    with.run(3);
    const auto status = with.status();
    CHECK(number(status, "read_samples") == kRows);
    CHECK(number(status, "spill_written_samples") > kRows / 4);
    CHECK(number(status, "spill_bytes") == number(status, "spill_written_bytes"));
    CHECK(number(status, "spill_read_samples") > number(status, "spill_written_samples"));
    CHECK(number(status, "spill_missed") == 0);
    CHECK(number(status, "spill_errors") == 0);
    CHECK(number(status, "not_kept") == 0);
    // The next job finds it all.
    with.run(1);
    CHECK(number(with.status(), "read_samples") == kRows);
  }
}

// What workers make blocks of lies in the reader's memory, where it is not kept.
TEST_CASE("a service that is ended while blocks are made of what it has read ends well") {
  Tiers tiers(0);
  std::thread job;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto wait_for = [&](auto holds) {
    while (!holds() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(holds());
  };
  {
    const LiveService service(tiers.config);
    job = std::thread([socket = tiers.config.socket.string()] {
      JobPlan plan;
      plan.service = socket;
      plan.width = kWidth;
      plan.pause_us = 5000;
      plan.timeout_s = 1;
      run_job(plan);
    });
    // In the second epoch there is no room for more.
    wait_for([&] { return number(tiers.status(), "read_samples") > kRows + 100; });
    failpoint::configure_failpoints(
        "service.prepare.memory=delay-300");  // then it looks at the samples
    wait_for([&] {
      const auto counts = failpoint::failpoint_counts();
      return std::any_of(counts.begin(), counts.end(), [](const failpoint::FailpointCount& one) {
        return one.name == "service.prepare.memory" && one.reached > 4;
      });
    });
  }
  failpoint::configure_failpoints("");
  job.join();
}

TEST_CASE(
    "what is read ahead goes to both tiers within their bounds, and leaves both when dropped") {
  Tiers tiers(256 * kMib);
  const LiveService service(tiers.config);
  const auto wait_until = [](auto good) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < until) {
      if (good()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  };
  // The index is made beside everything else.
  REQUIRE(wait_until([&] {
    return command(tiers.config.socket, "warm", {{"dataset", "rows"}}).at("type") == "answer";
  }));
  CHECK(wait_until([&] {
    return command(tiers.config.socket, "warm_list").at("warming").at(0).at("over") == true;
  }));
  auto status = tiers.status();
  CHECK(number(status, "item_bytes") > 0);
  CHECK(number(status, "spill_bytes") > 0);
  CHECK(number(status, "used_bytes") <= number(status, "cache_bytes"));
  const std::uint64_t read = number(status, "read_samples");
  tiers.run(1);
  // What is read before the engine has given the cache its room is not kept.
  CHECK(number(tiers.status(), "read_samples") - read <= kRows / 4);
  REQUIRE(command(tiers.config.socket, "drop", {{"dataset", "rows"}}).at("type") == "answer");
  CHECK(wait_until([&] {
    status = tiers.status();
    return number(status, "item_bytes") == 0 && number(status, "spill_bytes") == 0;
  }));
}

// The service's own spill file, which has no name.
std::string spill_file(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry, gone).string();
    if (to.rfind(folder.string(), 0) == 0 && to.find("(deleted)") != std::string::npos)
      return entry.path();
  }
  return {};
}

TEST_CASE("a byte that has changed in the spill file is noticed, and harms no job") {
  Tiers tiers(256 * kMib);
  const LiveService service(tiers.config);
  const Idle idle(tiers);
  tiers.run(1);
  const std::uint64_t written = number(tiers.status(), "spill_written_samples");
  const std::string name = spill_file(tiers.folder.path() / "drive");
  REQUIRE(name != "");
  const int file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  for (int place = 0; place < 3; ++place) {  // one in each of three samples
    const off_t at = place * (off_t{64} << 10) + 1000 * place + 17;
    char byte = 0;
    REQUIRE(pread(file, &byte, 1, at) == 1);
    byte = static_cast<char>(byte ^ 1);
    REQUIRE(pwrite(file, &byte, 1, at) == 1);
  }
  fsync(file);
  close(file);
  tiers.run(1);
  auto status = tiers.status();
  CHECK(number(status, "spill_mismatched") == 3);
  CHECK(number(status, "spill_missed") == 3);
  CHECK(number(status, "read_samples") == kRows + 3);
  CHECK(number(status, "spill_written_samples") == written + 3);  // they are there again
  tiers.run(1);
  status = tiers.status();
  CHECK(number(status, "spill_mismatched") == 3);
  CHECK(number(status, "read_samples") == kRows + 3);
}

TEST_CASE("a drive that is full, or fails, costs copies and no sample") {
  struct Case {
    const char* failing;
    bool given_up;
  };
  for (const Case& one :
       {Case{"storage.spill.full=fail:0.05", true}, Case{"storage.spill.write=fail:0.02", false},
        Case{"storage.spill.read=fail:0.02", false}, Case{"storage.spill.write=fail", true},
        Case{"storage.spill.read=fail", true}}) {
    CAPTURE(one.failing);
    Tiers tiers(256 * kMib);
    const LiveService service(tiers.config);
    failpoint::configure_failpoints(one.failing);
    tiers.run(3);
    failpoint::configure_failpoints("");
    const auto status = tiers.status();
    CHECK(number(status, "spill_errors") > 0);
    CHECK(number(status, "read_samples") > kRows);
    CHECK((number(status, "spill_limit_bytes") == 0) == one.given_up);
    if (one.given_up) CHECK(number(status, "spill_bytes") == 0);
    tiers.run(1);
  }
}

// A drive of its own, in memory: only the service sees it, and it goes with the service.
std::vector<std::string> on_small_drive(const Tiers& tiers, const char* failing) {
  const std::string drive = tiers.folder.path() / "drive";
  std::filesystem::create_directory(drive);
  return {"unshare",
          "-rm",
          "sh",
          "-c",
          fmt::format("mount -t tmpfs -o size=32m none {} && export BATCHFLOW_FAILPOINTS={} && "
                      "exec \"$@\" 2> {}",
                      drive, failing, (tiers.folder.path() / "log").string()),
          "sh"};
}

TEST_CASE("a drive that is really full costs copies and no sample") {
  if (std::system("unshare -rm mount -t tmpfs none /tmp 2> /dev/null") != 0)
    return skipped("a file system may not be mounted in a namespace of its own here");
  struct Case {
    const char* failing;
    const char* said;
  };
  // Told at once, where room is set aside; or when it is written.
  for (const Case& one : {Case{"service.spill.allocate=count", "has room for 30 MiB of 256 MiB"},
                          Case{"service.spill.reserve=fail", "room cannot be set aside"}}) {
    CAPTURE(one.failing);
    Tiers tiers(0);
    const bool reserves = one.failing == std::string_view("service.spill.allocate=count");
    {
      const std::string file = tiers.folder.path() / "node.yaml";
      std::ofstream(file) << "kind: node\nengine: {block_bytes: 1mib}\n";
      const Daemon daemon(
          {"--config", file, "--dataset", "rows=" + (tiers.folder.path() / "rows").string(),
           "--memory", "192mib", "--workers", "2", "--http", "-1", "--socket", tiers.config.socket,
           "--state", tiers.folder.path() / "state", "--spill",
           (tiers.folder.path() / "drive").string() + ",256mib"},
          tiers.config.socket, on_small_drive(tiers, one.failing));
      const Idle idle(tiers);
      tiers.run(3);
      const auto status = tiers.status();
      const Bytes limit = number(status, "spill_limit_bytes");
      CHECK(limit >= 16 * kMib);
      CHECK(limit <= 32 * kMib);
      CHECK(number(status, "spill_bytes") <= limit);
      CHECK(number(status, "spill_read_samples") > 0);
      CHECK(number(status, "spill_mismatched") == 0);
      CHECK((number(status, "spill_errors") > 0) == !reserves);
    }
    std::ifstream log(tiers.folder.path() / "log");
    const std::string said{std::istreambuf_iterator<char>(log), {}};
    CAPTURE(said);
    CHECK(said.find(one.said) != said.npos);
    CHECK((said.find("No space left on device; the tier shrinks to") != said.npos) == !reserves);
    CHECK(std::filesystem::is_empty(tiers.folder.path() / "drive"));
  }
}

}  // namespace
}  // namespace batchflow::test::spill_test
