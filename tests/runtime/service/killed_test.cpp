#include <atomic>
#include <climits>
#include <thread>

#include "runtime/protocol/messages.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/served_rows.h"

namespace batchflow::test::killed_test {
namespace {

constexpr std::uint64_t kRows = 20000;

bool listens(const std::string& socket) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::string problem;
  while (!protocol::Channel::connect(socket, problem).is_open()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST_CASE("a service that is killed in mid-epoch, twice, is missed by no job: each sample once") {
  for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
    CAPTURE(order);
    ServedRows place(kRows);
    Daemon daemon(place.arguments, place.socket);
    JobPlan plan = place.plan();
    plan.order = order;
    plan.epochs = 3;
    plan.pause_us = 300;
    std::atomic<std::uint64_t> batches{0};
    plan.count = &batches;
    Handed handed;
    std::thread job([&] { handed = run_job(plan); });
    for (const std::uint64_t at : {200u, 230u, 900u}) {
      CHECK(reaches(batches, at));
      CHECK(daemon.kill(SIGKILL) == -SIGKILL);
      daemon.start();
    }
    job.join();
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == 3);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  }
}

// Killed again when it has been missed and nothing of it is there yet: before it listens, when it
// does, and when the job has come back.
TEST_CASE("a service that is killed twice in a row, wherever the second time finds it") {
  for (const int moment : {0, 1, 2}) {
    CAPTURE(moment);
    ServedRows place(kRows);
    Daemon daemon(place.arguments, place.socket);
    JobPlan plan = place.plan();
    plan.pause_us = 300;
    std::atomic<std::uint64_t> batches{0};
    plan.count = &batches;
    Handed handed;
    std::thread job([&] { handed = run_job(plan); });
    CHECK(reaches(batches, 200));
    CHECK(daemon.kill(SIGKILL) == -SIGKILL);
    for (int time = 0; time < 2; ++time) {
      daemon.start();
      if (moment > 0) CHECK(listens(place.socket));
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (moment > 1 &&
             command(place.socket, "status").value("jobs", nlohmann::json()).empty() &&
             std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      CHECK(daemon.kill(SIGKILL) == -SIGKILL);
    }
    daemon.start();
    job.join();
    CHECK(handed.wrong == "");
    REQUIRE(handed.epochs.size() == 2);
    for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  }
}

// Ranks that are up to some batches apart when the service dies, several times an epoch.
TEST_CASE("the next service knows which jobs may come back, and from where on") {
  ServedRows place(kRows);
  Daemon daemon(place.arguments, place.socket);
  const JobPlan plan = place.plan();
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = place.socket.c_str();
  options.dataset = plan.dataset.c_str();
  options.job = "away";
  options.batch_samples = 32;
  options.credits = 3;
  options.order = BF_RELAXED;
  options.epochs = 1;
  bf_loader* loader = nullptr;
  REQUIRE(bf_loader_open(&options, &loader) == BF_OK);
  const char* text = nullptr;
  REQUIRE(bf_loader_state(loader, &text) == BF_OK);
  protocol::JoinRequest behind;
  behind.dataset = plan.dataset;
  behind.job = "away";
  behind.batch_samples = 32;
  behind.epochs = 1;
  behind.rejoins = true;
  behind.state = text;
  std::vector<std::uint64_t> keys;
  const auto take = [&](int batches) {
    bf_batch batch = BF_BATCH_INIT;
    bf_status status = BF_OK;
    for (int i = 0; i < batches && (status = bf_loader_next(loader, &batch)) == BF_OK; ++i) {
      keys.insert(keys.end(), batch.keys, batch.keys + batch.samples);
      bf_batch_release(loader, batch.handle);
    }
    return status;
  };
  CHECK(take(50) == BF_OK);
  // What it trained on is written within a second.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const auto returning = [&] {
    return command(place.socket, "status").at("returning").get<std::vector<std::string>>();
  };
  for (int time = 0; time < 2; ++time) {
    CHECK(daemon.kill(SIGKILL) == -SIGKILL);
    daemon.start();
    REQUIRE(listens(place.socket));
    CHECK(returning() == std::vector<std::string>{"away"});
  }
  std::string problem;
  protocol::Channel channel = protocol::Channel::connect(place.socket, problem);
  const auto until = protocol::Channel::Clock::now() + std::chrono::seconds(20);
  channel.send(protocol::encode(behind), {}, until);
  const auto answer = channel.receive(until);
  REQUIRE(answer);
  CHECK_MESSAGE(answer->text.find("comes back after 0 samples of epoch 0, but had trained on") !=
                    std::string::npos,
                answer->text);
  CHECK(returning() == std::vector<std::string>{"away"});
  CHECK(take(10) == BF_OK);  // more than it may have had in its hands
  CHECK(returning().empty());
  CHECK(take(INT_MAX) == BF_END);
  CHECK(is_whole(keys, kRows));
  bf_loader_close(loader);
}

TEST_CASE("a rank that waits for the others waits for the next service as well") {
  ServedRows place(kRows);
  Daemon daemon(place.arguments, place.socket);
  std::vector<Handed> handed(2);
  std::vector<std::thread> ranks;
  const auto begin = [&](std::uint32_t rank) {
    JobPlan plan = place.plan();
    plan.name = "pair";
    plan.world = 2;
    plan.rank = rank;
    plan.timeout_s = 60;
    ranks.emplace_back([&handed, plan, rank] { handed[rank] = run_job(plan); });
  };
  begin(0);
  const auto waits = [&] { return !command(place.socket, "status").at("jobs").empty(); };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!waits() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(daemon.kill(SIGKILL) == -SIGKILL);
  daemon.start();
  CHECK(listens(place.socket));
  begin(1);
  for (std::thread& rank : ranks) rank.join();
  for (const Handed& one : handed) CHECK(one.wrong == "");
}

TEST_CASE("three ranks outlive a service that is killed: equal batches, and each sample once") {
  for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
    CAPTURE(order);
    ServedRows place(kRows);
    Daemon daemon(place.arguments, place.socket);
    constexpr std::uint32_t kRanks = 3;
    std::atomic<std::uint64_t> batches{0};
    std::vector<Handed> handed(kRanks);
    std::vector<std::string> states(kRanks);
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      JobPlan plan = place.plan();
      plan.name = "three";
      plan.order = order;
      plan.epochs = 3;
      plan.batch = 24;
      plan.world = kRanks;
      plan.rank = rank;
      plan.pause_us = 200 + 150 * rank;
      plan.count = &batches;
      ranks.emplace_back([&, plan, rank] { handed[rank] = run_job(plan, &states[rank]); });
    }
    for (const std::uint64_t at : {100u, 130u, 500u, 870u, 1300u, 1800u}) {
      CHECK(reaches(batches, at));
      CHECK(daemon.kill(SIGKILL) == -SIGKILL);
      daemon.start();
    }
    for (std::thread& rank : ranks) rank.join();
    std::map<std::uint32_t, std::vector<std::uint64_t>> together;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      CHECK(handed[rank].wrong == "");
      CHECK(handed[rank].batches == handed[0].batches);
      CHECK(handed[rank].batches == 3 * ((kRows + 71) / 72));
      CHECK(states[rank] != "");
      CHECK(states[rank] == states[0]);
      for (const auto& [epoch, keys] : handed[rank].epochs)
        together[epoch].insert(together[epoch].end(), keys.begin(), keys.end());
    }
    REQUIRE(together.size() == 3);
    for (const auto& [epoch, keys] : together) CHECK(is_whole(keys, kRows));
  }
}

TEST_CASE(
    "a job that is killed with batches in its hands holds up no other, and its memory is free") {
  ServedRows place(kRows);
  Daemon daemon(place.arguments, place.socket);
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      JobPlan plan = place.plan();
      plan.batches_most = 5;
      plan.keep = true;
      run_job(plan);
      raise(SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
  }
  JobPlan plan = place.plan();
  const Handed handed = run_job(plan);
  CHECK(handed.wrong == "");
  REQUIRE(handed.epochs.size() == 2);
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
}

TEST_CASE("a job that keeps batches gets copies, and never waits for itself") {
  ServedRows place(kRows);
  Daemon daemon(place.arguments, place.socket);
  JobPlan plan = place.plan();
  plan.keep = true;
  plan.credits = 3;
  plan.batches_most = 40;
  const Handed handed = run_job(plan);
  CHECK(handed.wrong == "");
  CHECK(handed.batches == 40);
  CHECK(handed.copied >= 37);
}

TEST_CASE("SIGTERM ends it with 0, and its socket is gone") {
  ServedRows place(kRows);
  Daemon daemon(place.arguments, place.socket);
  JobPlan plan = place.plan();
  plan.batches_most = 3;
  CHECK(run_job(plan).wrong == "");
  CHECK(daemon.kill(SIGTERM) == 0);
  CHECK_FALSE(std::filesystem::exists(place.socket));
}

}  // namespace
}  // namespace batchflow::test::killed_test
