// The C interface against a service that dies whenever it can: every sample comes once an epoch,
// nothing waits without a bound, and what is held stays as it is.
#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/random.h"
#include "runtime/client/batchflow.h"
#include "tests/runtime/client/fake_service.h"

using namespace batchflow;
using namespace batchflow::test;

namespace {

using namespace std::chrono_literals;

// A folder of its own for sockets.
struct Address {
  Address() {
    char name[] = "/tmp/batchflow-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    folder = name;
    socket = folder + "/s";
    listener = listen_at(socket);
  }
  ~Address() { std::filesystem::remove_all(folder); }
  std::string folder;
  std::string socket;
  Descriptor listener;
};

// One service after another, as the scripts say, in a thread.
struct Services {
  Services(const Address& place, std::vector<Script> scripts)
      : thread([&place, scripts = std::move(scripts), this] {
          for (const Script& script : scripts)
            seen.push_back(FakeService(place.listener, script).serve());
        }) {}
  // REQUIRES: all loaders are closed
  const std::vector<Seen>& end() {
    if (thread.joinable()) thread.join();
    return seen;
  }
  ~Services() { end(); }
  std::vector<Seen> seen;
  std::thread thread;
};

bf_loader_options options_for(const Address& place) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = place.socket.c_str();
  options.dataset = "things";
  options.batch_samples = 4;
  options.order = BF_RELAXED;
  options.timeout_s = 10;
  options.reconnect_s = 10;
  return options;
}

bf_loader* open(const bf_loader_options& options) {
  bf_loader* loader = nullptr;
  REQUIRE_MESSAGE(bf_loader_open(&options, &loader) == BF_OK, bf_last_error());
  return loader;
}

// Everything in the batch is what its keys say.
void check_content(const bf_batch& batch) {
  REQUIRE(batch.fields == 3);
  for (std::uint32_t i = 0; i < batch.samples; ++i) {
    const std::uint64_t key = batch.keys[i];
    REQUIRE(batch.wanted[i] == key);
    const auto* image = static_cast<const std::uint8_t*>(batch.arrays[0].values) + 6 * i;
    REQUIRE(image[5] == static_cast<std::uint8_t>(key));
    REQUIRE(static_cast<const std::int64_t*>(batch.arrays[1].values)[i] ==
            static_cast<std::int64_t>(key));
    const std::int64_t* offsets = batch.arrays[2].offsets;
    REQUIRE(static_cast<std::uint64_t>(offsets[i + 1] - offsets[i]) == rows_of(key));
    const auto* tokens = static_cast<const std::uint8_t*>(batch.arrays[2].values);
    for (std::int64_t at = offsets[i] * 4; at < offsets[i + 1] * 4; ++at)
      REQUIRE(tokens[at] == static_cast<std::uint8_t>(key));
    REQUIRE(batch.marks[i] == (i >= batch.samples - batch.fillers ? BF_MARK_FILLER : 0));
  }
}

// How often each key came, fillers apart, until the end.
std::map<std::uint64_t, int> read_to_end(bf_loader* loader, std::uint64_t* batches = nullptr) {
  std::map<std::uint64_t, int> counts;
  bf_batch batch = BF_BATCH_INIT;
  bf_status status;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    check_content(batch);
    for (std::uint32_t i = 0; i < batch.samples; ++i)
      if ((batch.marks[i] & BF_MARK_FILLER) == 0) ++counts[batch.keys[i]];
    if (batches != nullptr) CHECK(batch.step == (*batches)++);
    bf_batch_release(loader, batch.handle);
  }
  REQUIRE_MESSAGE(status == BF_END, bf_last_error());
  return counts;
}

void check_each(const std::map<std::uint64_t, int>& counts, std::uint64_t samples, int times) {
  CHECK(counts.size() == samples);
  for (const auto& [key, count] : counts) CHECK_MESSAGE(count == times, "key " << key);
}

}  // namespace

TEST_CASE("client: two epochs in each order; what is told to the service adds up") {
  for (const bf_order order : {BF_RELAXED, BF_STRICT, BF_SEQUENTIAL}) {
    Address place;
    Script script;
    script.samples = 42;
    Services services(place, {script});
    bf_loader_options options = options_for(place);
    options.order = order;
    bf_loader* loader = open(options);
    std::uint64_t batches = 0;
    check_each(read_to_end(loader, &batches), 42, 2);
    CHECK(batches == 22);
    bf_loader_times times = BF_LOADER_TIMES_INIT;
    REQUIRE(bf_loader_times_get(loader, &times) == BF_OK);
    CHECK(times.batches == 22);
    CHECK(times.samples == 88);
    CHECK(times.copied == 0);
    bf_loader_close(loader);
    const Seen& seen = services.end().front();
    CHECK(seen.problem == "");
    CHECK(seen.left);
    CHECK(seen.consumed.size() == 22);
    CHECK(seen.released.size() == 22);
    CHECK(seen.wanted == 3 + 22);
    for (std::size_t i = 0; i < seen.consumed.size(); ++i) CHECK(seen.consumed[i].step == 100 + i);
  }
}

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

TEST_CASE("client: who holds everything gets copies, and never waits for himself") {
  Address place;
  Services services(place, {Script()});
  bf_loader* loader = open(options_for(place));
  std::vector<bf_batch> held;
  bf_batch batch = BF_BATCH_INIT;
  while (bf_loader_next(loader, &batch) == BF_OK) {
    CHECK(batch.copied == (held.size() < 2 ? 0 : 1));
    held.push_back(batch);
  }
  CHECK(held.size() == 20);
  bf_loader_close(loader);
  // After the loader is closed, and in any thread.
  std::thread([&] {
    for (const bf_batch& one : held) check_content(one);
    for (const bf_batch& one : held) bf_batch_release(nullptr, one.handle);
    for (const bf_batch& one : held) bf_batch_release(nullptr, one.handle);
  }).join();
  const Seen& seen = services.end().front();
  CHECK(seen.problem == "");
  CHECK(seen.released.size() == 20);
}

TEST_CASE("client: copies may be written to") {
  Address place;
  Services services(place, {Script()});
  bf_loader_options options = options_for(place);
  options.copy = 1;
  bf_loader* loader = open(options);
  bf_batch batch = BF_BATCH_INIT;
  REQUIRE(bf_loader_next(loader, &batch) == BF_OK);
  CHECK(batch.copied == 1);
  const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(batch.arrays[0].values))[0] = 1;
  CHECK(reinterpret_cast<std::uintptr_t>(batch.arrays[0].values) % 64 == 0);
  bf_batch_release(loader, batch.handle);
  bf_loader_close(loader);
}

TEST_CASE("client: a state goes on where it was taken, at another batch size") {
  for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
    for (const int taken_after : {0, 1, 3, 10, 13}) {
      Address place;
      Services services(place, {Script(), Script()});
      bf_loader_options options = options_for(place);
      options.order = order;
      bf_loader* loader = open(options);
      std::map<std::uint64_t, int> counts;
      bf_batch batch = BF_BATCH_INIT;
      for (int i = 0; i < taken_after; ++i) {
        REQUIRE(bf_loader_next(loader, &batch) == BF_OK);
        for (std::uint32_t k = 0; k < batch.samples; ++k) ++counts[batch.keys[k]];
        bf_batch_release(loader, batch.handle);
      }
      const char* text = nullptr;
      REQUIRE(bf_loader_state(loader, &text) == BF_OK);
      const std::string state = text;
      bf_loader_close(loader);
      options.state = state.c_str();
      options.batch_samples = 5;
      loader = open(options);
      for (const auto& [key, count] : read_to_end(loader)) counts[key] += count;
      check_each(counts, 40, 2);
      bf_loader_close(loader);
    }
  }
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
  options.timeout_s = 0.2;  // nobody accepts
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
  bf_batch batch = BF_BATCH_INIT;
  bf_status status;
  int batches = 0;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    ++batches;
    bf_batch_release(loader, batch.handle);
  }
  CHECK(batches == 3);
  CHECK(status == BF_PROTOCOL);
  CHECK(bf_loader_next(loader, &batch) == BF_PROTOCOL);
  bf_loader_close(loader);
}

TEST_CASE("client: a record or a slot that cannot be is not believed; the loader joins anew") {
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

TEST_CASE("client: what the service refuses is told in its words") {
  Address place;
  Script script;
  script.refuses_in_mid_run = true;
  Services services(place, {script});
  bf_loader* loader = open(options_for(place));
  bf_batch batch = BF_BATCH_INIT;
  bf_status status;
  int batches = 0;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    ++batches;
    bf_batch_release(loader, batch.handle);
  }
  CHECK(batches == 3);
  CHECK(status == BF_REFUSED);
  CHECK(std::string(bf_last_error()) == "the disk is gone");
  bf_loader_close(loader);
}

TEST_CASE("client: names, scores, and what is known of the data") {
  Address place;
  Services services(place, {Script()});
  bf_loader_options options = options_for(place);
  options.dataset = "/tmp";
  bf_loader* loader = open(options);
  bf_loader_info info = BF_LOADER_INFO_INIT;
  REQUIRE(bf_loader_info_get(loader, &info) == BF_OK);
  CHECK(info.dataset_samples == 40);
  CHECK(info.classes == 3);
  REQUIRE(info.fields == 3);
  CHECK(std::string(info.field[0].name) == "image");
  CHECK(info.field[0].type == BF_U8);
  CHECK(info.field[0].dimensions == 2);
  CHECK(info.field[0].shape[1] == 2);
  CHECK(info.field[2].ragged == 1);
  const char* name = nullptr;
  REQUIRE(bf_loader_sample_name(loader, 7, &name) == BF_OK);
  CHECK(std::string(name) == "sample 7");
  REQUIRE(bf_loader_class_name(loader, 2, &name) == BF_OK);
  CHECK(std::string(name) == "class 2");
  CHECK(bf_loader_class_name(loader, 3, &name) == BF_BAD_ARGUMENT);
  const std::vector<std::uint64_t> keys(9000, 3);
  const std::vector<float> scores(9000, 0.5f);
  CHECK(bf_loader_report_scores(loader, keys.data(), scores.data(), keys.size()) == BF_OK);
  const std::uint64_t beyond = 40;
  CHECK(bf_loader_report_scores(loader, &beyond, scores.data(), 1) == BF_BAD_ARGUMENT);
  read_to_end(loader);
  bf_loader_close(loader);
  const Seen& seen = services.end().front();
  CHECK(seen.problem == "");
  CHECK(seen.had_folder);
  CHECK(seen.request->dataset == "/tmp");
  CHECK(seen.scores.size() == 9000);
}

TEST_CASE("client: a child of fork cannot use a loader, and harms it not") {
  Address place;
  Services services(place, {Script()});
  bf_loader* loader = open(options_for(place));
  bf_batch batch = BF_BATCH_INIT;
  REQUIRE(bf_loader_next(loader, &batch) == BF_OK);
  const pid_t child = fork();
  if (child == 0) {
    bf_batch other = BF_BATCH_INIT;
    const bool refused = bf_loader_next(loader, &other) == BF_BAD_ARGUMENT;
    bf_batch_release(loader, batch.handle);
    bf_loader_close(loader);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  check_content(batch);
  bf_batch_release(loader, batch.handle);
  const auto counts = read_to_end(loader);
  CHECK(counts.size() == 40);
  bf_loader_close(loader);
  CHECK(services.end().front().problem == "");
  CHECK(services.end().front().released.size() == 20);
}

TEST_CASE("client: arguments that cannot be meant are refused with what to write") {
  bf_loader* loader = nullptr;
  const auto refused = [&](auto change, std::string_view remedy) {
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.dataset = "things";
    options.batch_samples = 4;
    change(options);
    CHECK(bf_loader_open(&options, &loader) == BF_BAD_ARGUMENT);
    CHECK_MESSAGE(std::string(bf_last_error()).find(remedy) != std::string::npos, bf_last_error());
  };
  using Options = bf_loader_options;
  refused([](Options& o) { o.struct_size = 8; }, "begin it with its _INIT");
  refused([](Options& o) { o.dataset = nullptr; }, "write its name");
  refused([](Options& o) { o.dataset = "\xff"; }, "UTF-8");
  refused([](Options& o) { o.dataset = "/no/such/place"; }, "cannot be read");
  refused([](Options& o) { o.batch_samples = 0; }, "write how many");
  refused([](Options& o) { o.rank = 2, o.world_size = 2; }, "world_size - 1");
  refused([](Options& o) { std::memset(&o.order, 9, sizeof o.order); }, "BF_STRICT");
  refused([](Options& o) { o.timeout_s = -1; }, "seconds");
  refused([](Options& o) { o.weight = std::nan(""); }, "positive");
  CHECK(bf_loader_open(nullptr, &loader) == BF_BAD_ARGUMENT);
  CHECK(bf_loader_open(nullptr, nullptr) == BF_BAD_ARGUMENT);
  bf_batch batch = BF_BATCH_INIT;
  CHECK(bf_loader_next(nullptr, &batch) == BF_BAD_ARGUMENT);
  bf_loader_close(nullptr);
  bf_batch_release(nullptr, 12345);
  bf_loader_interrupt(nullptr);
  CHECK(bf_abi_version() == BF_ABI_VERSION);
}
