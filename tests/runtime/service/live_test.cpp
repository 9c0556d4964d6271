#include <thread>

#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/records.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/live.h"
#include "tests/runtime/service/seen.h"

namespace batchflow::test::live_test {
namespace {

constexpr std::uint64_t kRows = 5000;

struct Rows {
  Folder folder;
  service::NodeConfig config;
  explicit Rows(std::uint64_t count = kRows, std::size_t width = 16)
      : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", count, width);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
  }
  JobPlan plan() const {
    JobPlan made;
    made.service = config.socket;
    return made;
  }
};

TEST_CASE("a job gets each sample once an epoch, with its own bytes") {
  Rows rows;
  const LiveService service(rows.config);
  for (const bf_order order : {BF_RELAXED, BF_STRICT, BF_SEQUENTIAL}) {
    CAPTURE(order);
    JobPlan plan = rows.plan();
    plan.order = order;
    const Handed handed = run_job(plan);
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == 2);
    CHECK(is_whole(handed.epochs.at(0), kRows));
    CHECK(is_whole(handed.epochs.at(1), kRows));
    CHECK(handed.repeats == 0);
    CHECK(handed.batches == 2 * ((kRows + 31) / 32));
    const bool in_order = std::is_sorted(handed.epochs.at(0).begin(), handed.epochs.at(0).end());
    CHECK(in_order == (order == BF_SEQUENTIAL));
  }
}

TEST_CASE(
    "a strict order is the same in every run, whatever the batch size, and goes on anywhere") {
  std::vector<std::uint64_t> whole;
  for (const std::uint32_t batch : {32u, 100u, 7u}) {
    Rows rows;
    const LiveService service(rows.config);
    JobPlan plan = rows.plan();
    plan.order = BF_STRICT;
    plan.batch = batch;
    plan.epochs = 1;
    plan.batches_most = 20;
    std::string state;
    const Handed first = run_job(plan, &state);
    CHECK(first.wrong == "");
    plan.batches_most = UINT64_MAX;
    plan.state = state;
    plan.batch = 50;
    const Handed rest = run_job(plan);
    CHECK(rest.wrong == "");
    std::vector<std::uint64_t> keys = first.epochs.at(0);
    CHECK(keys.size() == 20 * batch);
    keys.insert(keys.end(), rest.epochs.at(0).begin(), rest.epochs.at(0).end());
    if (whole.empty()) {
      whole = keys;
      CHECK(is_whole(whole, kRows));
    }
    CHECK(keys == whole);
  }
}

TEST_CASE("jobs that share get each sample once each, and it is prepared once for all") {
  Rows rows;
  const LiveService service(rows.config);
  std::vector<Handed> handed(4);
  std::vector<std::thread> jobs;
  for (std::size_t i = 0; i < handed.size(); ++i) {
    jobs.emplace_back([&, i] {
      JobPlan plan = rows.plan();
      plan.epochs = 3;
      plan.batch = 16 << i;
      handed[i] = run_job(plan);
    });
  }
  for (std::thread& job : jobs) job.join();
  for (const Handed& one : handed) {
    CHECK(one.wrong == "");
    REQUIRE(one.epochs.size() == 3);
    for (const auto& [epoch, keys] : one.epochs) CHECK(is_whole(keys, kRows));
    CHECK(one.repeats == 0);
  }
}

// In blocks of 32 MiB these rows would be one an epoch, which each job would prepare for itself.
TEST_CASE("jobs that begin apart share a small dataset, too") {
  const Folder folder;
  service::NodeConfig config = config_in(folder.path());
  std::filesystem::create_directory(folder.path() / "rows");
  write_rows(folder.path() / "rows" / "rows.npy", 256, 16);
  config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
  const LiveService service(config);
  JobPlan plan;
  plan.service = config.socket;
  plan.epochs = 20;
  plan.batch = 8;
  plan.pause_us = 1000;
  std::vector<Handed> handed(3);
  std::vector<std::thread> jobs;
  for (Handed& one : handed) {
    jobs.emplace_back([&one, plan] { one = run_job(plan); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (std::thread& job : jobs) job.join();
  for (const Handed& one : handed) {
    CHECK(one.wrong == "");
    REQUIRE(one.epochs.size() == 20);
    for (const auto& [epoch, keys] : one.epochs) CHECK(is_whole(keys, 256));
  }
  const auto prepared = command(config.socket, "status").at("prepared_samples").get<double>();
  CHECK(prepared / (3 * 20 * 256) < 0.8);
}

TEST_CASE("ranks of a job get equal counts, and together each sample once") {
  Rows rows;
  const LiveService service(rows.config);
  for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
    std::vector<Handed> handed(3);
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        JobPlan plan = rows.plan();
        plan.order = order;
        plan.name = "three";
        plan.rank = rank;
        plan.world = 3;
        handed[rank] = run_job(plan);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::uint64_t> keys;
      for (const Handed& one : handed) {
        CHECK(one.wrong == "");
        CHECK(one.batches == handed[0].batches);
        REQUIRE(one.epochs.size() == 2);
        keys.insert(keys.end(), one.epochs.at(epoch).begin(), one.epochs.at(epoch).end());
      }
      CHECK(is_whole(keys, kRows));
    }
  }
}

TEST_CASE("a job of which one rank has ended is told so soon, and may begin again meanwhile") {
  Rows rows;
  CHECK(rows.config.engine.rank_timeout == std::chrono::seconds(5));
  rows.config.engine.rank_timeout = std::chrono::milliseconds(500);
  const LiveService service(rows.config);
  std::vector<Handed> handed(2);
  std::string state;
  const auto run_ranks = [&](std::uint64_t of_the_other) {
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        JobPlan plan = rows.plan();
        plan.name = "pair";
        plan.rank = rank;
        plan.world = 2;
        plan.credits = 3;  // rank 0 may have so many more than rank 1
        plan.state = state;
        if (rank == 1) plan.batches_most = of_the_other;
        std::string after;
        handed[rank] = run_job(plan, &after);
        if (rank == 1) state = after;
      });
    }
    for (std::thread& rank : ranks) rank.join();
  };
  run_ranks(5);
  CHECK(handed[0].batches >= 5);
  CHECK(handed[0].batches <= 5 + 3);  // what had been delivered to both
  CHECK_MESSAGE(handed[0].wrong.find("start all of them again") != std::string::npos,
                handed[0].wrong);
  std::vector<std::uint64_t> keys = handed[1].epochs.at(0);
  std::map<std::uint32_t, std::vector<std::uint64_t>> first = handed[0].epochs;
  // Of the one that has ended, and of the other as far as that one came.
  keys.insert(keys.end(), first.at(0).begin(), first.at(0).begin() + 5 * 32);
  run_ranks(UINT64_MAX);
  for (const Handed& one : handed) {
    CHECK(one.wrong == "");
    keys.insert(keys.end(), one.epochs.at(0).begin(), one.epochs.at(0).end());
  }
  CHECK(is_whole(keys, kRows));
}

TEST_CASE("a job that begins with the state of its end is at its end") {
  Rows rows;
  const LiveService service(rows.config);
  for (const bf_order order : {BF_RELAXED, BF_STRICT, BF_SEQUENTIAL}) {
    for (const bool drop_last : {false, true}) {
      CAPTURE(order);
      CAPTURE(drop_last);
      JobPlan plan = rows.plan();
      plan.order = order;
      plan.drop_last = drop_last;
      // The loader is not asked for more than there is.
      plan.batches_most =
          plan.epochs * (drop_last ? kRows / plan.batch : (kRows - 1) / plan.batch + 1);
      std::string state;
      CHECK(run_job(plan, &state).batches == plan.batches_most);
      plan.state = state;
      plan.batches_most = UINT64_MAX;
      const Handed handed = run_job(plan);
      CHECK(handed.wrong == "");
      CHECK(handed.batches == 0);
    }
  }
}

// Reads of many files take longer than a job needs to come.
TEST_CASE("a dataset that is being opened may be named by its path, as later") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  const auto files = folder.path() / "files";
  std::filesystem::create_directory(files);
  for (int file = 0; file < 3000; ++file)
    std::ofstream(files / fmt::format("{:04}.bin", file)) << file;
  config.open_datasets = false;
  config.datasets.push_back({"files", files, "", "", 0, {}});
  const LiveService service(config);
  JobPlan plan;
  plan.service = config.socket;
  plan.dataset = files;
  plan.pipeline = "bytes";
  plan.epochs = 1;
  for (int time = 0; time < 2; ++time) CHECK(see(plan).wrong == "");
  plan.dataset = folder.path();
  const std::string wrong = see(plan).wrong;
  CHECK_MESSAGE(wrong.find("this service serves the datasets it was started with: files") !=
                    std::string::npos,
                wrong);
}

TEST_CASE("what cannot be served is refused with what to do") {
  Rows rows;
  const LiveService service(rows.config);
  JobPlan plan = rows.plan();
  plan.dataset = "nobody";
  CHECK(run_job(plan).wrong.find("no dataset is called 'nobody'; there are: rows") !=
        std::string::npos);
  plan = rows.plan();
  // Names of pipelines are no files, nor the service's standard input.
  for (const char* name : {"../../etc/passwd", "configs/pipelines/bytes.yaml", "-"}) {
    plan.pipeline = name;
    CHECK(run_job(plan).wrong.find(fmt::format("no pipeline is called '{}'; write one of bytes, ",
                                               name)) != std::string::npos);
  }
  plan = rows.plan();
  plan.batch = 100000;
  plan.drop_last = true;
  CHECK(run_job(plan).wrong.find("batch size") != std::string::npos);
  plan = rows.plan();
  plan.state = "{\"no\": \"state\"}";
  CHECK(run_job(plan).wrong.find("state") != std::string::npos);
}

TEST_CASE("a client with another protocol is refused before anything else, by both numbers") {
  Rows rows;
  const LiveService service(rows.config);
  std::string problem;
  protocol::Channel client = protocol::Channel::connect(rows.config.socket, problem);
  const auto soon = protocol::Channel::Clock::now() + std::chrono::seconds(20);
  protocol::JoinRequest request;
  request.dataset = "rows";
  request.batch_samples = 32;
  REQUIRE(client.send(
      protocol::encode(protocol::Hello{protocol::kProtocolVersion + 1, "0.9.9", 1, ""}), {}, soon));
  // It may have closed by now, since it has read enough.
  (void)client.send(protocol::encode(request), {}, soon);
  const auto frame = client.receive(soon);
  REQUIRE(frame);
  const auto refused = protocol::decode_refused(frame->text, problem);
  REQUIRE_MESSAGE(refused, frame->text);
  CHECK(refused->why == "protocol");
  for (const std::string& part :
       {fmt::format("speaks version {} of the protocol", protocol::kProtocolVersion),
        fmt::format("the client 0.9.9 speaks version {}", protocol::kProtocolVersion + 1),
        std::string("install the same version of both")})
    CHECK_MESSAGE(refused->message.find(part) != std::string::npos, refused->message);
  CHECK_FALSE(client.receive(soon));
  CHECK_FALSE(client.is_open());
  CHECK(command(rows.config.socket, "status").at("jobs").empty());
}

TEST_CASE("a name that is too long for an answer is refused, and the service goes on") {
  Rows rows;
  const LiveService service(rows.config);
  const auto soon = protocol::Channel::Clock::now() + std::chrono::seconds(20);
  // Messages of the greatest length that a frame may have: an answer that quotes them is longer.
  protocol::JoinRequest request;
  request.dataset = std::string(protocol::kFrameMost - protocol::encode(request).size(), 'x');
  const auto filled = [](std::string_view begin, std::string_view end) {
    return fmt::format("{}{}{}", begin,
                       std::string(protocol::kFrameMost - begin.size() - end.size(), 'x'), end);
  };
  for (const std::string& text : {protocol::encode(request), filled(R"({"type":")", R"("})"),
                                  filled(R"({"type":"hello","protocol":3,"version":")", R"("})"),
                                  filled(R"({"type":"command","name":")", R"("})")}) {
    REQUIRE(text.size() == protocol::kFrameMost);
    std::string problem;
    protocol::Channel client = protocol::Channel::connect(rows.config.socket, problem);
    REQUIRE(client.send(
        protocol::encode(protocol::Hello{protocol::kProtocolVersion, "by hand", 1, ""}), {}, soon));
    REQUIRE(client.receive(soon));
    REQUIRE(client.send(text, {}, soon));
    const auto frame = client.receive(soon);
    REQUIRE(frame);
    CHECK(frame->text.size() < protocol::kFrameMost);
  }
  CHECK(run_job(rows.plan()).wrong == "");
}

TEST_CASE("a job that began and cannot go on is told why at once, all ranks of it") {
  Rows rows;
  const LiveService service(rows.config);
  failpoint::configure_failpoints("storage.read.error=fail");
  const auto began = std::chrono::steady_clock::now();
  std::vector<Handed> handed(2);
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      JobPlan plan = rows.plan();
      plan.name = "both";
      plan.rank = rank;
      plan.world = 2;
      handed[rank] = run_job(plan);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  failpoint::configure_failpoints("");
  for (const Handed& one : handed) {
    CAPTURE(one.wrong);
    CHECK(one.wrong.find("reading the dataset failed again and again") != std::string::npos);
    CHECK(one.wrong.find("cannot be read: Input/output error") != std::string::npos);
  }
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(10));
  // When it can be read again the next job goes well, but for one that shares a read which fails
  // yet.
  std::string wrong;
  do {
    wrong = run_job(rows.plan()).wrong;
  } while (wrong != "" && std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
  CHECK(wrong == "");
}

TEST_CASE("of reads that fail now and then those samples alone are read again") {
  constexpr std::uint64_t kLarge = 1000;
  constexpr std::size_t kWidth = 2100;  // too large for bundles
  Rows rows(kLarge, kWidth);
  const LiveService service(rows.config);
  failpoint::configure_failpoints("storage.read.error=fail:0.03,seed=3");
  JobPlan plan = rows.plan();
  plan.epochs = 1;
  plan.width = kWidth;
  const Handed handed = run_job(plan);
  failpoint::configure_failpoints("");
  CHECK(handed.wrong == "");
  CHECK(is_whole(handed.epochs.at(0), kLarge));
  const nlohmann::json status = command(rows.config.socket, "status");
  CHECK(status.at("read_errors") > kLarge / 100);
  CHECK(status.at("read_samples") == kLarge);
}

TEST_CASE("of bundles that cannot be read now and then those alone are read again") {
  Rows rows(60'000);
  const LiveService service(rows.config);
  failpoint::configure_failpoints("storage.read.error=fail:0.1,seed=3");
  JobPlan plan = rows.plan();
  plan.epochs = 1;
  const Handed handed = run_job(plan);
  failpoint::configure_failpoints("");
  CHECK(handed.wrong == "");
  CHECK(is_whole(handed.epochs.at(0), 60'000));
  const nlohmann::json status = command(rows.config.socket, "status");
  CHECK(status.at("read_errors") > 0);
  CHECK(status.at("read_samples") == 60'000);
  CHECK(status.at("device_reads") == (60'000 + 511) / 512);
}

}  // namespace
}  // namespace batchflow::test::live_test
