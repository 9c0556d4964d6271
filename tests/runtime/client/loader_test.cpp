// The C interface: the batches of a loader, where it goes on, and what it refuses.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "tests/runtime/client/loading.h"

namespace batchflow::test::loader_test {

TEST_CASE("client: two epochs in each order; the records for the service add up") {
  // With 12 credits, several releases are sent at a time.
  for (const auto& [order, credits] :
       {std::pair{BF_RELAXED, 3u}, {BF_STRICT, 3u}, {BF_SEQUENTIAL, 3u}, {BF_RELAXED, 12u}}) {
    Address place;
    Script script;
    script.samples = 42;
    Services services(place, {script});
    bf_loader_options options = options_for(place);
    options.order = order;
    options.credits = credits;
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
    CHECK(seen.wanted == credits + 22);
    for (std::size_t i = 0; i < seen.consumed.size(); ++i) CHECK(seen.consumed[i].step == 100 + i);
  }
}

TEST_CASE("client: a program that holds all batches gets copies, and never waits for itself") {
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

TEST_CASE("client: names, scores, and information about the data") {
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

TEST_CASE("client: a buffer goes to each service that the loader joins, whole") {
  Address place;
  Script first;
  first.die_before = 10;
  Services services(place, {first, Script()});
  bf_loader_options options = options_for(place);
  options.rehearsed = 1;
  const std::vector<std::uint64_t> at_first{3, 1, 4};
  options.exemplars = at_first.data();
  options.exemplars_count = at_first.size();
  bf_loader* loader = open(options);
  bf_batch batch = BF_BATCH_INIT;
  REQUIRE(bf_loader_next(loader, &batch) == BF_OK);
  bf_batch_release(loader, batch.handle);
  const std::vector<std::uint64_t> later(1300, 7);
  CHECK(bf_loader_report_exemplars(loader, later.data(), later.size()) == BF_OK);
  bf_loader_info info = BF_LOADER_INFO_INIT;
  REQUIRE(bf_loader_info_get(loader, &info) == BF_OK);
  CHECK(info.steps_per_epoch == 14);  // of 40 samples, 3 in a batch
  read_to_end(loader);
  // Wrong buffers change nothing.
  const std::uint64_t beyond = 40;
  CHECK(bf_loader_report_exemplars(loader, &beyond, 1) == BF_BAD_ARGUMENT);
  CHECK(std::string(bf_last_error()).find("write keys below 40") != std::string::npos);
  CHECK(bf_loader_report_exemplars(loader, nullptr, 1) == BF_BAD_ARGUMENT);
  CHECK(bf_loader_report_exemplars(loader, later.data(), BF_EXEMPLARS_MOST + 1) == BF_BAD_ARGUMENT);
  CHECK(bf_loader_report_exemplars(loader, nullptr, 0) == BF_OK);
  REQUIRE(bf_loader_info_get(loader, &info) == BF_OK);
  CHECK(info.steps_per_epoch == 10);
  bf_loader_close(loader);
  const std::vector<Seen>& seen = services.end();
  for (const Seen& one : seen) CHECK(one.problem == "");
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].request->exemplars == std::vector{SampleId(3), SampleId(1), SampleId(4)});
  CHECK(seen[1].request->exemplars == std::vector<SampleId>(1300, SampleId(7)));
  CHECK(seen[1].exemplars.empty());
  CHECK(seen[1].has_whole_buffer);
}

TEST_CASE("client: a service that does not know an order is not taken for one that does") {
  Address place;
  Script older;
  older.knows_order_options = false;
  Services services(place, {older, older});
  bf_loader_options options = options_for(place);
  bf_loader* loader = open(options);  // what it knows is served as ever
  bf_loader_close(loader);
  options.node_local = 1;
  CHECK(bf_loader_open(&options, &loader) == BF_PROTOCOL);
  CHECK_MESSAGE(
      std::string(bf_last_error()).find("it is older than this library") != std::string::npos,
      bf_last_error());
}

TEST_CASE("client: a request that no message can carry is refused, with what to shorten") {
  Address place;
  Services services(place, {Script()});
  bf_loader_options options = options_for(place);
  const std::string long_text(500'000, 'x');
  options.pipeline = options.job = options.state = long_text.c_str();
  bf_loader* loader = nullptr;
  CHECK(bf_loader_open(&options, &loader) == BF_REFUSED);
  CHECK_MESSAGE(std::string(bf_last_error()).find("fewer exemplars") != std::string::npos,
                bf_last_error());
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

TEST_CASE("client: a service with another protocol ends the attempt, and both numbers are named") {
  Address address;
  Script other;
  other.protocol = protocol::kProtocolVersion + 1;
  Script refuses;
  refuses.refuses_protocol = true;
  Services services(address, {other, refuses});
  const bf_loader_options options = options_for(address);
  bf_loader* loader = nullptr;
  CHECK(bf_loader_open(&options, &loader) == BF_PROTOCOL);
  const std::string compared = bf_last_error();
  CHECK_MESSAGE(compared.find(fmt::format("speaks version {} of the protocol, and this library",
                                          protocol::kProtocolVersion + 1)) != std::string::npos,
                compared);
  CHECK_MESSAGE(compared.find(fmt::format("speaks version {}; install",
                                          protocol::kProtocolVersion)) != std::string::npos,
                compared);
  CHECK(bf_loader_open(&options, &loader) == BF_PROTOCOL);
  CHECK(std::string(bf_last_error()) == "the service speaks version 4, and the client version 3");
}

TEST_CASE("client: wrong arguments are refused, and the error says what to write") {
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
  refused([](Options& o) { std::memset(&o.drawing, 9, sizeof o.drawing); }, "BF_MULTINOMIAL");
  refused([](Options& o) { o.exemplars_count = 1; }, "'exemplars' is NULL");
  const std::vector<std::uint64_t> many(BF_EXEMPLARS_MOST + 1);
  refused(
      [&](Options& o) {
        o.rehearsed = 1, o.exemplars = many.data(), o.exemplars_count = many.size();
      },
      "a buffer holds 65536");
  refused([](Options& o) { o.rehearsed = 4; }, "less than the batch");
  refused([](Options& o) { o.order = BF_STRICT, o.node_local = 1; }, "ask for relaxed");
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

}  // namespace batchflow::test::loader_test
