// Draws, rehearsal and node-local orders of jobs of a service. What a rank is given is compared,
// sample by sample, with what core/order says about this dataset and seed.
#include <set>

#include "core/log/promise_log.h"
#include "core/order/keys.h"
#include "core/order/position_json.h"
#include "core/order/rehearsal.h"
#include "core/order/step_plan.h"
#include "core/order/weighted.h"
#include "tests/runtime/service/live_orders.h"

namespace batchflow::test::orders_test {
namespace {

using namespace live_orders;

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

// What the service has promised the only job that it has.
engine::JobJoined promised(const Rows& rows) {
  std::ifstream file(rows.config.state / "promises", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  const log::RecoveredPromises found = log::recover_promises(bytes, "promises");
  REQUIRE(found.promises.jobs().size() == 1);
  return found.promises.jobs().begin()->second.join.join;
}

// ---------------------------------------------------------------------------------- draws ----

TEST_CASE("a service draws by the order rules, draws of both kinds and of any number") {
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

}  // namespace
}  // namespace batchflow::test::orders_test
