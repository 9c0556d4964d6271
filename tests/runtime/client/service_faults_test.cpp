// A service that dies at any moment, is silent, or sends what cannot be right. Every sample still
// comes once an epoch, every wait is bounded, and held batches stay as they are.
#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmath>
#include <csignal>

#include "core/base/random.h"
#include "tests/runtime/client/loading.h"

namespace batchflow::test::service_faults_test {
using namespace std::chrono_literals;

namespace {

// The status after so many batches.
bf_status fails_after(bf_loader* loader, int expected) {
  bf_batch batch = BF_BATCH_INIT;
  bf_status status;
  int batches = 0;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    ++batches;
    bf_batch_release(loader, batch.handle);
  }
  CHECK(batches == expected);
  return status;
}

}  // namespace

TEST_CASE("client: a service that dies before each thing it says: every sample once an epoch") {
  for (const bf_order order : {BF_RELAXED, BF_SEQUENTIAL}) {
    // 3 messages, 2 x 11 batches, 2 ends of epochs, the end.
    for (int die_before = 3; die_before < 28; ++die_before) {
      CAPTURE(die_before);
      Address place;
      Script script;
      script.samples = 42;
      Script dying = script;
      dying.die_before = die_before;
      Script at_once = script;  // comes back, and dies before it is of any use
      at_once.die_before = die_before % 3;
      Services services(place, {dying, at_once, script});
      bf_loader_options options = options_for(place);
      options.order = order;
      bf_loader* loader = open(options);
      check_each(read_to_end(loader), 42, 2);
      bf_loader_times times = BF_LOADER_TIMES_INIT;
      REQUIRE(bf_loader_times_get(loader, &times) == BF_OK);
      CHECK(times.reconnects >= 1);
      bf_loader_close(loader);
      const auto& seen = services.end();
      CHECK(seen.back().problem == "");
      CHECK(seen.back().request->rejoins);
      CHECK(seen.back().request->pipeline_hash == 9);
      CHECK(seen.back().request->job == "new");
    }
  }
}

TEST_CASE("client: a service process killed again and again, at any time") {
  Address place;
  Script script;
  script.samples = 400;
  script.epochs = 3;
  const auto start = [&] {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) FakeService(place.listener, script).serve();
    }
    return child;
  };
  pid_t child = start();
  bf_loader_options options = options_for(place);
  bf_loader* loader = open(options);
  std::map<std::uint64_t, int> counts;
  bf_batch batch = BF_BATCH_INIT;
  Random random(11);
  int killed = 0;
  bf_status status;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    check_content(batch);
    for (std::uint32_t i = 0; i < batch.samples; ++i) ++counts[batch.keys[i]];
    if (random.below(12) == 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      child = start();
      ++killed;
    }
    check_content(batch);  // of a service that is gone
    bf_batch_release(loader, batch.handle);
  }
  CHECK_MESSAGE(status == BF_END, bf_last_error());
  check_each(counts, 400, 3);
  CHECK(killed > 10);
  bf_loader_close(loader);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("client: nothing waits without a bound") {
  Address place;
  bf_loader_options options = options_for(place);
  const auto begin = std::chrono::steady_clock::now();
  bf_loader* loader = nullptr;
  options.service = "/nowhere/at/all";
  CHECK(bf_loader_open(&options, &loader) == BF_NO_SERVICE);
  CHECK(std::string(bf_last_error()).find("start batchflowd") != std::string::npos);
  CHECK(loader == nullptr);

  options = options_for(place);
  options.timeout_s = 0.2;  // no service accepts
  CHECK(bf_loader_open(&options, &loader) == BF_NO_SERVICE);

  Address other;
  Script dying;
  dying.die_before = 5;
  Services services(other, {dying});
  options = options_for(other);
  options.timeout_s = 0.1;
  options.reconnect_s = 0.3;
  loader = open(options);
  bf_batch batch = BF_BATCH_INIT;
  bf_status status;
  int timeouts = 0;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK || status == BF_TIMEOUT) {
    if (status == BF_OK) bf_batch_release(loader, batch.handle);
    if (status == BF_TIMEOUT) ++timeouts;
  }
  CHECK(status == BF_NO_SERVICE);
  CHECK(timeouts >= 1);
  CHECK(std::string(bf_last_error()).find("did not come back within 0.3 s") != std::string::npos);
  CHECK(bf_loader_next(loader, &batch) == BF_NO_SERVICE);
  CHECK(bf_loader_is_connected(loader) == 0);
  CHECK(bf_loader_next_within(loader, &batch, 1) == BF_NO_SERVICE);
  bf_loader_close(loader);
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

TEST_CASE("client: a wait ends when it is interrupted, or its time is over") {
  Address place;
  Script script;
  script.silent_from = 101;
  Services services(place, {script});
  bf_loader_options options = options_for(place);
  options.timeout_s = 3;
  bf_loader* loader = open(options);
  bf_batch batch = BF_BATCH_INIT;
  REQUIRE(bf_loader_next(loader, &batch) == BF_OK);
  bf_batch_release(loader, batch.handle);
  for (int round = 0; round < 20; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(round));
      bf_loader_interrupt(loader);
    });
    CHECK(bf_loader_next(loader, &batch) == BF_INTERRUPTED);
    CHECK(std::chrono::steady_clock::now() - begin < 1s);
    other.join();
  }
  CHECK(bf_loader_next(loader, &batch) == BF_TIMEOUT);
  CHECK(std::string(bf_last_error()).find("no batch within 3 s") != std::string::npos);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(bf_loader_next_within(loader, &batch, 0.05) == BF_TIMEOUT);
  CHECK(std::string(bf_last_error()).find("no batch within 0.05 s") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
  CHECK(std::chrono::steady_clock::now() - begin < 1s);
  for (const double seconds : {-1.0, 1e9, std::nan("")})
    CHECK(bf_loader_next_within(loader, &batch, seconds) == BF_BAD_ARGUMENT);
  CHECK(bf_loader_is_connected(loader) == 1);
  bf_loader_close(loader);
}

TEST_CASE("client: a service that gives the same samples twice is found out") {
  Address place;
  Script script;
  script.repeats_at = 103;
  Services services(place, {script});
  bf_loader* loader = open(options_for(place));
  CHECK(fails_after(loader, 3) == BF_PROTOCOL);
  bf_batch batch = BF_BATCH_INIT;
  CHECK(bf_loader_next(loader, &batch) == BF_PROTOCOL);
  bf_loader_close(loader);
}

TEST_CASE("client: a record or a slot that cannot be is refused, and the loader joins again") {
  for (int lie = 1; lie <= FakeService::kLies; ++lie) {
    CAPTURE(lie);
    Address place;
    Script lying;
    lying.lie = lie;
    Services services(place, {lying, Script()});
    bf_loader* loader = open(options_for(place));
    check_each(read_to_end(loader), 40, 2);
    bf_loader_times times = BF_LOADER_TIMES_INIT;
    REQUIRE(bf_loader_times_get(loader, &times) == BF_OK);
    CHECK(times.reconnects == 1);
    bf_loader_close(loader);
    services.end();
  }
}

TEST_CASE("client: a refusal of the service is the error, in its words") {
  Address place;
  Script script;
  script.refuses_in_mid_run = true;
  Services services(place, {script});
  bf_loader* loader = open(options_for(place));
  CHECK(fails_after(loader, 3) == BF_REFUSED);
  CHECK(std::string(bf_last_error()) == "the disk is gone");
  bf_loader_close(loader);
}

}  // namespace batchflow::test::service_faults_test
