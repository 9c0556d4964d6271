// Draws, rehearsal and node-local orders of live jobs. What a rank is given is compared, sample by
// sample, with what core/order says about this data set and seed.
#include <functional>
#include <set>

#include "core/log/promise_log.h"
#include "core/order/keys.h"
#include "core/order/rehearsal.h"
#include "core/order/step_plan.h"
#include "core/order/weighted.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/joining_by_hand.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test {
namespace {

constexpr std::uint64_t kRows = 5000;
constexpr std::uint64_t kSeed = 5;

struct Rows {
  Folder folder;
  service::NodeConfig config;
  Rows() : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 4);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
  }
  // Of the orders that are given here; two epochs unless a test says otherwise.
  bf_loader_options options(bf_order order) const {
    bf_loader_options made = BF_LOADER_OPTIONS_INIT;
    made.service = config.socket.c_str();
    made.dataset = "rows";
    made.order = order;
    made.batch_samples = 32;
    made.has_shuffle_seed = 1;
    made.shuffle_seed = kSeed;
    made.epochs = 2;
    made.timeout_s = 30;
    return made;
  }
};

struct Sample {
  std::uint64_t key;
  int marks;
  friend bool operator==(const Sample&, const Sample&) = default;
};
using Batch = std::vector<Sample>;
using Epochs = std::map<std::uint32_t, std::vector<Batch>>;

// What a rank was given, and where the job then was.
struct Given {
  Epochs epochs;
  std::uint64_t steps_per_epoch = 0;
  order::KeyRoot root;
  std::string state;
  std::string wrong;
};

using Each = std::function<void(bf_loader*, std::uint64_t)>;

// `each` is called before each batch, with how many came before it.
Given read(
    const bf_loader_options& options, std::uint64_t most = UINT64_MAX,
    const Each& each = [](bf_loader*, std::uint64_t) {}) {
  Given given;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) {
    given.wrong = bf_last_error();
    return given;
  }
  bf_status status = BF_OK;
  for (std::uint64_t count = 0; count < most; ++count) {
    each(loader, count);
    bf_batch batch = BF_BATCH_INIT;
    if ((status = bf_loader_next(loader, &batch)) != BF_OK) break;
    Batch& made = given.epochs[batch.epoch].emplace_back();
    const auto* values = static_cast<const std::int64_t*>(batch.arrays[0].values);
    for (std::uint32_t i = 0; i < batch.samples; ++i) {
      made.push_back({batch.keys[i], batch.marks[i]});
      if (values[4 * i] != value_at(batch.keys[i], 0)) given.wrong = "another row";
    }
    bf_batch_release(loader, batch.handle);
  }
  if (status != BF_OK && status != BF_END) given.wrong = bf_last_error();
  bf_loader_info info = BF_LOADER_INFO_INIT;
  bf_loader_info_get(loader, &info);
  given.steps_per_epoch = info.steps_per_epoch;
  const char* state = nullptr;
  if (bf_loader_state(loader, &state) == BF_OK) given.state = state;
  std::string problem;
  if (const auto position = order::position_from_json(given.state, problem))
    given.root = {position->fields().dataset_version, position->fields().seed};
  bf_loader_close(loader);
  return given;
}

// All ranks of one job.
std::vector<Given> read_ranks(
    bf_loader_options options, std::uint32_t ranks, std::uint64_t most,
    const Each& each = [](bf_loader*, std::uint64_t) {}) {
  std::vector<Given> given(ranks);
  std::vector<std::thread> threads;
  options.job = "ranks";
  options.world_size = ranks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    options.rank = rank;
    threads.emplace_back([&, options, rank] { given[rank] = read(options, most, each); });
  }
  for (std::thread& thread : threads) thread.join();
  return given;
}

// --------------------------------------------------------------- what the order rules say ----

// The batches of one rank in the rest of an epoch: `at` says which sample stands at each index.
std::vector<Batch> cut(const std::function<std::uint64_t(std::uint64_t)>& at,
                       const order::RehearsalPlan& plan, Rank rank,
                       const order::Rehearsal* rehearsal = nullptr) {
  order::PermutationCache permutations(Bytes{1} << 20);
  std::vector<Batch> batches;
  for (std::uint64_t step = 0; step < plan.steps(); ++step) {
    Batch& batch = batches.emplace_back();
    const auto add = [&](const order::IndexRange& places, int marks) {
      for (std::uint64_t i = places.from; i < places.to; ++i) batch.push_back({at(i), marks});
    };
    const order::RankBatch own = plan.plain.batch(step, rank);
    add(own.own, 0);
    for (const order::IndexRange& fillers : own.fillers) add(fillers, BF_MARK_FILLER);
    if (!rehearsal) continue;
    const order::IndexRange draws = plan.buffer_draws(step, rank);
    std::vector<order::Draw> drawn(draws.count());
    rehearsal->fill(draws.from, drawn, permutations);
    for (const order::Draw& draw : drawn) batch.push_back({draw.sample.value, BF_MARK_REHEARSED});
  }
  return batches;
}

// Keys and their scores; the others weigh 1.
struct Scores {
  std::vector<std::uint64_t> keys;
  std::vector<float> scores;
  Scores() {
    for (std::uint64_t key = 0; key < kRows; key += 3) {
      keys.push_back(key);
      scores.push_back(key % 2 == 0 ? 0.f : 0.37f * static_cast<float>(1 + key % 11));
    }
  }
  void report(bf_loader* loader, std::uint64_t count) const {
    if (count == 0) bf_loader_report_scores(loader, keys.data(), scores.data(), keys.size());
  }
  order::WeightTree weights() const {
    order::WeightTree tree(kRows, order::weight_of_score(1));
    for (std::size_t i = 0; i < keys.size(); ++i)
      tree.set(SampleId(keys[i]), order::weight_of_score(scores[i]));
    return tree;
  }
};

std::shared_ptr<const order::Exemplars> buffer_of(const std::vector<std::uint64_t>& keys) {
  order::ExemplarBuffer buffer;
  std::vector<SampleId> samples;
  for (const std::uint64_t key : keys) samples.emplace_back(key);
  REQUIRE(buffer.report(true, 0, samples, false));
  return buffer.whole();
}

std::vector<std::uint64_t> exemplars(std::uint64_t count, std::uint64_t from) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < count; ++i) keys.push_back((from + i * 13) % kRows);
  return keys;
}

// What the service has promised the only job that it has.
engine::JobJoined promised(const Rows& rows) {
  std::ifstream file(rows.config.state / "promises", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  const log::RecoveredPromises found = log::recover_promises(bytes, "promises");
  REQUIRE(found.promises.jobs().size() == 1);
  return found.promises.jobs().begin()->second.join.join;
}

}  // namespace

// ---------------------------------------------------------------------------------- draws ----

TEST_CASE("draws of a live job are those of the order rules, of both kinds and of any number") {
  const Scores scores;
  for (const bf_drawing drawing : {BF_SYSTEMATIC, BF_MULTINOMIAL}) {
    for (const std::uint64_t draws : {0, 777, 12'000}) {
      CAPTURE(drawing);
      CAPTURE(draws);
      const Rows rows;
      const LiveService service(rows.config);
      bf_loader_options options = rows.options(BF_WEIGHTED);
      options.drawing = drawing;
      options.draws = draws;
      const Given given = read(options, UINT64_MAX, [&](bf_loader* loader, std::uint64_t count) {
        scores.report(loader, count);
      });
      REQUIRE(given.wrong == "");
      const std::uint64_t all = draws == 0 ? kRows : draws;
      CHECK(given.steps_per_epoch == (all + 31) / 32);
      REQUIRE(given.epochs.size() == 2);
      const order::WeightTree weights = scores.weights();
      for (const auto& [epoch, batches] : given.epochs) {
        const order::WeightedEpoch drawn(
            weights, given.root, epoch, all,
            drawing == BF_MULTINOMIAL ? order::Drawing::multinomial : order::Drawing::systematic);
        CHECK(batches == cut([&](std::uint64_t i) { return drawn.at(i).sample.value; },
                             {{all, 0, 1, 32, false}}, 0));
      }
    }
  }
}

TEST_CASE("draws of a job of two ranks go on from a state at any number of ranks") {
  const Scores scores;
  const auto report = [&](bf_loader* loader, std::uint64_t count) { scores.report(loader, count); };
  const Rows rows;
  const LiveService service(rows.config);
  bf_loader_options options = rows.options(BF_WEIGHTED);
  options.drawing = BF_MULTINOMIAL;
  options.draws = 777;
  options.batch_samples = 16;
  const std::vector<Given> before = read_ranks(options, 2, 5, report);
  CHECK(before[0].state == before[1].state);
  options.state = before[0].state.c_str();
  options.batch_samples = 50;
  options.epochs = 1;
  const Given after = read(options, UINT64_MAX, report);
  CHECK(after.wrong == "");
  const order::WeightTree weights = scores.weights();
  const order::WeightedEpoch drawn(weights, after.root, 0, 777, order::Drawing::multinomial);
  const auto at = [&](std::uint64_t i) { return drawn.at(i).sample.value; };
  for (Rank rank = 0; rank < 2; ++rank) {
    REQUIRE(before[rank].wrong == "");
    std::vector<Batch> first = cut(at, {{777, 0, 2, 16, false}}, rank);
    first.resize(5);
    CHECK(before[rank].epochs.at(0) == first);
  }
  CHECK(after.epochs.at(0) == cut(at, {{777, 160, 1, 50, false}}, 0));
}

// ------------------------------------------------------------------------------ rehearsal ----

TEST_CASE("a part of each batch comes from the buffer, beside each sample once an epoch") {
  const std::vector<std::uint64_t> keys = exemplars(3000, 7);
  const auto buffer = buffer_of(keys);
  for (const bf_order order : {BF_STRICT, BF_SEQUENTIAL, BF_RELAXED}) {
    CAPTURE(order);
    const Rows rows;
    const LiveService service(rows.config);
    bf_loader_options options = rows.options(order);
    options.batch_samples = 16;
    options.rehearsed = 5;
    options.exemplars = keys.data();
    options.exemplars_count = keys.size();
    const std::vector<Given> given = read_ranks(options, 2, UINT64_MAX);
    const order::RehearsalPlan plan = order::RehearsalPlan::split({kRows, 0, 2, 16, false}, 5);
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      const order::Permutation strict(order::generation_key(given[0].root, epoch), kRows);
      const order::Rehearsal rehearsal(buffer, given[0].root, epoch);
      std::vector<std::uint64_t> own;
      for (Rank rank = 0; rank < 2; ++rank) {
        REQUIRE(given[rank].wrong == "");
        CHECK(given[rank].steps_per_epoch == plan.steps());
        const std::vector<Batch>& batches = given[rank].epochs.at(epoch);
        const auto at = [&](std::uint64_t i) { return order == BF_STRICT ? strict(i) : i; };
        const std::vector<Batch> expected = cut(at, plan, rank, &rehearsal);
        REQUIRE(batches.size() == expected.size());
        if (order != BF_RELAXED) CHECK(batches == expected);
        for (std::size_t step = 0; step < batches.size(); ++step) {
          REQUIRE(batches[step].size() == expected[step].size());
          for (std::size_t i = 0; i < batches[step].size(); ++i) {
            const Sample& sample = batches[step][i];
            CHECK(sample.marks == expected[step][i].marks);
            if (sample.marks == 0) own.push_back(sample.key);
            if (sample.marks == BF_MARK_REHEARSED) CHECK(sample == expected[step][i]);
          }
        }
      }
      CHECK(is_whole(own, kRows));
    }
  }
}

TEST_CASE("rehearsal goes on from a state, with another buffer and at any number of ranks") {
  const std::vector<std::uint64_t> first = exemplars(100, 7);
  const std::vector<std::uint64_t> then = exemplars(41, 1000);
  const Rows rows;
  const LiveService service(rows.config);
  bf_loader_options options = rows.options(BF_STRICT);
  options.batch_samples = 16;
  options.rehearsed = 5;
  options.exemplars = first.data();
  options.exemplars_count = first.size();
  const std::vector<Given> before = read_ranks(options, 2, 7);
  REQUIRE(before[0].wrong == "");
  CHECK(before[0].state == before[1].state);
  CHECK(before[0].state.find(R"("rehearsed":70})") != std::string::npos);
  options.state = before[0].state.c_str();
  options.batch_samples = 30;
  options.rehearsed = 11;
  options.exemplars = then.data();
  options.exemplars_count = then.size();
  options.epochs = 1;
  const Given after = read(options);
  REQUIRE(after.wrong == "");
  const order::Permutation strict(order::generation_key(after.root, 0), kRows);
  const order::Rehearsal rehearsal(buffer_of(then), after.root, 0);
  // 154 new samples have been had, and 70 draws: the next is draw 70, of the new buffer.
  CHECK(after.epochs.at(0) == cut(strict,
                                  order::RehearsalPlan::split({kRows, 154, 1, 30, false}, 11, 70),
                                  0, &rehearsal));
}

TEST_CASE("a buffer that is reported later counts for whole epochs, of all ranks alike") {
  const std::vector<std::uint64_t> first = exemplars(20, 7);
  const std::vector<std::uint64_t> then = exemplars(1500, 1000);
  const Rows rows;
  const LiveService service(rows.config);
  bf_loader_options options = rows.options(BF_STRICT);
  options.batch_samples = 100;
  options.rehearsed = 10;
  options.exemplars = first.data();
  options.exemplars_count = first.size();
  options.epochs = 4;
  const std::vector<Given> given =
      read_ranks(options, 2, UINT64_MAX, [&](bf_loader* loader, std::uint64_t count) {
        if (count == 3)
          CHECK(bf_loader_report_exemplars(loader, then.data(), then.size()) == BF_OK);
      });
  const order::RehearsalPlan plan = order::RehearsalPlan::split({kRows, 0, 2, 100, false}, 10);
  std::uint32_t changed = 0;  // the epoch
  for (std::uint32_t epoch = 0; epoch < 4; ++epoch) {
    const order::Permutation strict(order::generation_key(given[0].root, epoch), kRows);
    for (Rank rank = 0; rank < 2; ++rank) {
      REQUIRE(given[rank].wrong == "");
      const auto batches_from = [&](const std::vector<std::uint64_t>& keys) {
        const order::Rehearsal rehearsal(buffer_of(keys), given[0].root, epoch);
        return cut(strict, plan, rank, &rehearsal);
      };
      const std::vector<Batch>& batches = given[rank].epochs.at(epoch);
      if (changed == 0 && epoch > 0 && rank == 0 && batches == batches_from(then)) changed = epoch;
      CHECK(batches == batches_from(changed == 0 ? first : then));
    }
  }
  CHECK(changed > 0);
  CHECK(changed < 3);
}

TEST_CASE("an empty buffer leaves whole batches to the epoch") {
  const Rows rows;
  const LiveService service(rows.config);
  bf_loader_options options = rows.options(BF_STRICT);
  options.rehearsed = 5;
  options.epochs = 1;
  const Given given = read(options);
  CHECK(given.wrong == "");
  CHECK(given.steps_per_epoch == (kRows + 31) / 32);
  const order::Permutation strict(order::generation_key(given.root, 0), kRows);
  CHECK(given.epochs.at(0) == cut(strict, {{kRows, 0, 1, 32, false}}, 0));
}

// ------------------------------------------------------------------------------ node-local ----

TEST_CASE("a node-local job has each sample once, block by block, and goes on at another service") {
  const Rows rows;
  auto service = std::make_unique<LiveService>(rows.config);
  bf_loader_options options = rows.options(BF_RELAXED);
  options.node_local = 1;
  options.batch_samples = 16;
  options.epochs = 1;
  std::atomic<bool> is_promised = false;
  std::vector<Given> given = read_ranks(options, 2, 40, [&](bf_loader*, std::uint64_t count) {
    if (count == 1 && promised(rows).node_local) is_promised = true;
  });
  CHECK(is_promised);
  // This one has opened lanes for what comes next. Another begins with those of the state alone.
  service.reset();
  service = std::make_unique<LiveService>(rows.config);
  options.state = given[0].state.c_str();
  options.batch_samples = 50;
  given.push_back(read(options));
  std::vector<std::uint64_t> keys;
  for (const Given& one : given) REQUIRE(one.wrong == "");
  const auto add = [&](const Batch& batch) {
    for (const Sample& sample : batch)
      if (sample.marks == 0) keys.push_back(sample.key);
  };
  for (std::size_t step = 0; step < 40; ++step) {
    for (Rank rank = 0; rank < 2; ++rank) add(given[rank].epochs.at(0)[step]);
  }
  for (const Batch& batch : given[2].epochs.at(0)) add(batch);
  CHECK(is_whole(keys, kRows));
  // A job alone has pass 0 of each lane: samples of a block stand side by side in generation 0.
  std::string problem;
  const auto position = order::position_from_json(given[0].state, problem);
  REQUIRE_MESSAGE(position, problem);
  const std::uint64_t block = position->lanes().sizes.block_samples;
  const order::Permutation strict(order::generation_key(given[0].root, 0), kRows);
  std::set<std::uint64_t> blocks;
  for (std::size_t i = 0; i < keys.size();) {
    const std::uint64_t first = strict.index_of(keys[i]);
    REQUIRE(first % block == 0);
    CHECK(blocks.insert(first / block).second);
    for (std::uint64_t place = first; place < std::min(first + block, kRows); ++place, ++i)
      REQUIRE(keys[i] == strict(place));
  }
}

// -------------------------------------------------------------------------------- refusals ----

TEST_CASE("orders that no job can have are refused, and the error says what to write") {
  const Rows rows;
  const LiveService service(rows.config);
  const std::vector<std::uint64_t> keys = exemplars(3, 7);
  const auto refused = [&](bf_order order, auto change, std::string_view why) {
    bf_loader_options options = rows.options(order);
    change(options);
    const Given given = read(options, 1);
    CHECK_MESSAGE(given.wrong.find(why) != std::string::npos, given.wrong);
    // The same in a message of a client that does not check.
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.batch_samples = options.batch_samples;
    request.order = order == BF_STRICT     ? Order::strict
                    : order == BF_WEIGHTED ? Order::weighted
                                           : Order::relaxed;
    request.order_options = {options.draws, options.drawing == BF_MULTINOMIAL,
                             options.node_local != 0, options.rehearsed};
    for (std::size_t i = 0; i < options.exemplars_count; ++i)
      request.exemplars.emplace_back(options.exemplars[i]);
    ByHand client(rows.config.socket);
    REQUIRE(client.ask(request));
    const std::string answer = client.hear({"admitted", "refused"});
    CHECK_MESSAGE(answer.find(why) != std::string::npos, answer);
  };
  using Options = bf_loader_options;
  refused(
      BF_STRICT, [](Options& o) { o.draws = 9; }, "a strict order has each sample once");
  refused(
      BF_RELAXED, [](Options& o) { o.drawing = BF_MULTINOMIAL; }, "a relaxed order is not drawn");
  refused(
      BF_WEIGHTED, [](Options& o) { o.draws = (1ull << 31) + 1; }, "2147483648 draws");
  refused(
      BF_STRICT, [](Options& o) { o.node_local = 1; }, "'node_local' is for a relaxed order");
  refused(
      BF_WEIGHTED, [](Options& o) { o.rehearsed = 1; }, "and this one is weighted");
  refused(
      BF_STRICT, [](Options& o) { o.rehearsed = 32; }, "no room for new samples");
  refused(
      BF_STRICT, [&](Options& o) { o.exemplars = keys.data(), o.exemplars_count = 3; },
      "write how many samples of each batch");
  const std::uint64_t beyond = kRows;
  refused(
      BF_STRICT, [&](Options& o) { o.rehearsed = 1, o.exemplars = &beyond, o.exemplars_count = 1; },
      "write keys below 5000");
  CHECK(command(rows.config.socket, "status").at("protocol_errors") == 0);
}

TEST_CASE("ranks that ask for different orders are told in what they differ") {
  const Rows rows;
  const LiveService service(rows.config);
  const std::vector<std::uint64_t> keys = exemplars(3, 7);
  const auto differ = [&](auto change, std::string_view what) {
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.batch_samples = 32;
    request.job = fmt::format("job of {}", what);
    request.world_size = 2;
    request.order_options.rehearsed = 2;
    request.exemplars = {SampleId(1), SampleId(2)};
    ByHand one(rows.config.socket);
    REQUIRE(one.ask(request));
    // The first is here before the second comes.
    const auto is_here = [&] {
      return command(rows.config.socket, "status").dump().find(request.job) != std::string::npos;
    };
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_here() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    request.rank = 1;
    change(request);
    ByHand other(rows.config.socket);
    REQUIRE(other.ask(request));
    const std::string answer = other.answer();
    CHECK_MESSAGE(answer.find(what) != std::string::npos, answer);
  };
  using Request = protocol::JoinRequest;
  differ([](Request& r) { r.batch_samples = 16; }, "batches of 32 and 16; start all");
  differ([](Request& r) { r.order = Order::strict; }, "order relaxed and strict; start all");
  differ([](Request& r) { r.order_options.node_local = true; }, "node_local false and true;");
  differ([](Request& r) { r.order_options.rehearsed = 3; }, "rehearsed 2 and 3;");
  differ([](Request& r) { r.exemplars.pop_back(); }, "do not agree: the exemplars;");
}

TEST_CASE("exemplars that no rank may send end its connection, and nothing else") {
  const Rows rows;
  const LiveService service(rows.config);
  struct Part {
    std::uint32_t rank;
    std::vector<SampleId> samples;
    std::uint32_t first;
    std::uint32_t rehearsed;
    bool is_taken;
  };
  for (const Part& part :
       {Part{0, {SampleId(7)}, 0, 2, true}, Part{0, {SampleId(kRows)}, 0, 2, false},
        Part{0, {SampleId(7)}, 1, 2, false}, Part{0, {SampleId(7)}, 0, 0, false},
        Part{0, {SampleId(7)}, UINT32_MAX, 2, false}}) {
    CAPTURE(part.first);
    CAPTURE(part.rehearsed);
    std::string problem;
    const auto soon = protocol::Channel::Clock::now() + std::chrono::seconds(20);
    protocol::Channel channel = protocol::Channel::connect(rows.config.socket, problem);
    REQUIRE(channel.send(
        protocol::encode(protocol::Hello{protocol::kProtocolVersion, "by hand", 1, ""}), {}, soon));
    REQUIRE(channel.receive(soon));
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.batch_samples = 32;
    request.order_options.rehearsed = part.rehearsed;
    REQUIRE(channel.send(protocol::encode(request), {}, soon));
    auto frame = channel.receive(soon);
    REQUIRE(frame);
    const auto answer = protocol::decode_join_answer(frame->text, problem);
    REQUIRE_MESSAGE(answer, frame->text);
    const protocol::Rings rings = protocol::map_rings(frame->descriptors[0], frame->descriptors[1],
                                                      answer->ring_bytes, problem);
    REQUIRE_MESSAGE(rings, problem);
    protocol::RingWriter writer(rings.from_job());
    std::vector<std::byte> record;
    protocol::write_exemplars(part.samples, part.first, false, record);
    REQUIRE(writer.write(record));
    if (writer.publish()) protocol::ring_doorbell(frame->descriptors[2]);
    const auto until =
        part.is_taken ? protocol::Channel::Clock::now() + std::chrono::milliseconds(300) : soon;
    while (channel.receive(until)) {  // why it ends
    }
    CHECK(channel.is_open() == part.is_taken);
  }
  CHECK(command(rows.config.socket, "status").at("protocol_errors") == 0);
  bf_loader_options options = rows.options(BF_RELAXED);
  options.epochs = 1;
  CHECK(read(options).wrong == "");
}

}  // namespace batchflow::test
