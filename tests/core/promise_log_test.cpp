#include "core/log/promise_log.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "core/order/position_json.h"
#include "tests/core/promised_join.h"

namespace batchflow::test::promise_log_test {
using namespace std::chrono_literals;

namespace {

constexpr Digest kVersion = 0xabcdef;
constexpr std::uint64_t kSamples = 64;

engine::Promise joined(std::uint32_t job, const order::Position& position) {
  return test::joined(job, position, {NodeId(0), NodeId(1)});
}
engine::Promise committed(std::uint32_t job, std::uint64_t step, std::uint32_t epoch,
                          std::vector<order::Slice> slices) {
  engine::Promise promise;
  promise.kind = engine::Promise::Kind::committed;
  promise.job = JobId(job);
  promise.step = step;
  promise.epoch = epoch;
  promise.slices = std::move(slices);
  return promise;
}
engine::Promise finished(std::uint32_t job, std::uint32_t epoch) {
  engine::Promise promise;
  promise.kind = engine::Promise::Kind::epoch_finished;
  promise.job = JobId(job);
  promise.epoch = epoch;
  return promise;
}
engine::Promise left(std::uint32_t job) {
  engine::Promise promise;
  promise.kind = engine::Promise::Kind::left;
  promise.job = JobId(job);
  return promise;
}

engine::Promise resized(std::uint32_t job, std::uint32_t batch_samples, std::vector<NodeId> ranks) {
  engine::Promise promise;
  promise.kind = engine::Promise::Kind::resized;
  promise.job = JobId(job);
  promise.batch_samples = batch_samples;
  promise.ranks = std::move(ranks);
  return promise;
}

// Eight samples of a strict epoch.
order::Slice strict_slice(std::uint64_t epoch, std::uint32_t from) {
  return {{epoch, 0, 0, 0}, from, from + 8, false};
}
// The first half of block 1 of lane 1, in a new generation.
engine::Promise relaxed_commit(std::uint32_t job) {
  engine::Promise promise = committed(job, 0, 0, {{{5, 1, 0, 1}, 0, 4, false}});
  promise.sizes = {kSamples, 8, 4};
  return promise;
}

engine::Promise weighted_commit(std::uint32_t job, std::uint64_t step, std::uint32_t from) {
  engine::Promise promise =
      committed(job, step, 0, {{{77, 0, 0, from / 16}, from % 16, from % 16 + 8, false}});
  promise.weights = 0xdead;
  promise.draws = 40;
  return promise;
}

engine::Promise chosen_commit(std::uint32_t job, std::uint64_t step, std::uint32_t from,
                              std::vector<std::uint64_t> indices) {
  engine::Promise promise = committed(job, step, 0, {{{0, 0, 0, 0}, from, from + 4, false}});
  promise.indices = std::move(indices);
  return promise;
}

// Two epochs of a strict job, a relaxed one that stops inside a block, a weighted one, one of
// which a policy chooses the samples, one that leaves.
// `after` is called after each promise.
template <class After>
void small_history(log::PromiseLog& log, After&& after) {
  const auto add = [&](const engine::Promise& promise) {
    log.add(promise);
    after();
  };
  const order::Position strict(Order::strict, kVersion, kSamples, 7);
  add(joined(1, strict));
  add(joined(2, order::Position(Order::relaxed, kVersion, kSamples, 7)));
  add(relaxed_commit(2));
  add(joined(3, strict));
  engine::Promise listed = joined(4, order::Position());
  listed.join.join.order = Order::listed;
  add(listed);
  add(joined(5, order::Position(Order::weighted, kVersion, kSamples, 7)));
  add(weighted_commit(5, 0, 0));
  add(weighted_commit(5, 1, 8));
  add(joined(6, order::Position::chosen(kVersion, kSamples, 7)));
  add(chosen_commit(6, 0, 0, {1, 2, 5, 40}));
  add(chosen_commit(6, 1, 4, {0, 3, 39, 41}));
  std::uint64_t step = 0;
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (std::uint32_t from = 0; from < kSamples; from += 8) {
      add(committed(1, step++, epoch, {strict_slice(epoch, from)}));
    }
    add(finished(1, epoch));
  }
  add(resized(1, 6, {NodeId(0), NodeId(4), NodeId(4)}));
  add(left(3));
  add(committed(1, step, 2, {strict_slice(2, 0)}));
}

std::string summary(const log::Promises& promises) {
  std::string text;
  for (const auto& [id, job] : promises.jobs()) {
    const engine::JobJoined join = job.rejoin();
    text += std::to_string(id) + ":" + std::to_string(join.ranks.size()) + "x" +
            std::to_string(join.batch_samples) + " " +
            (join.position ? order::to_json(*join.position) : "listed") + ";";
  }
  return text;
}

}  // namespace

TEST_CASE("recovery gives each job the position of its last committed step") {
  log::PromiseLog log(1 << 20);
  small_history(log, [] {});
  const auto recovered = log::recover_promises(log.pending(), "p");
  CHECK(summary(recovered.promises) == summary(log.promises()));
  const auto& jobs = recovered.promises.jobs();
  REQUIRE(jobs.size() == 5);
  const engine::JobJoined again = jobs.at(1).rejoin();
  CHECK(again.position->epoch() == 2);
  CHECK(again.position->consumed() == 8);
  CHECK(again.ranks.size() == 3);  // as it was resized
  CHECK(again.batch_samples == 6);
  CHECK(jobs.at(2).rejoin().ranks.size() == 2);
  CHECK(jobs.at(2).rejoin().batch_samples == 4);
  CHECK(jobs.at(2).rejoin().position->lanes().generation == 5);
  CHECK(jobs.at(2).rejoin().position->samples_had(1, 1) == 4);
  CHECK(jobs.at(4).rejoin().position == nullptr);
  CHECK(jobs.at(5).rejoin().position->consumed() == 16);
  CHECK(jobs.at(5).rejoin().position->epoch_samples() == 40);
  CHECK(jobs.at(6).rejoin().position->is_chosen());
  CHECK(jobs.at(6).rejoin().position->fields().left_out.size() == 34);
}

TEST_CASE("cut at every byte, recovery finds the state after the last whole promise") {
  log::PromiseLog log(1 << 20);
  std::vector<std::pair<std::size_t, std::string>> states = {{log.pending().size(), summary({})}};
  small_history(log, [&] { states.emplace_back(log.pending().size(), summary(log.promises())); });
  const auto bytes = log.pending();
  std::size_t state = 0;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    while (state + 1 < states.size() && states[state + 1].first <= size) ++state;
    const auto recovered = log::recover_promises(bytes.first(size), "p");
    REQUIRE(summary(recovered.promises) == states[state].second);
    if (size >= states[0].first) REQUIRE(recovered.bytes_cut == size - states[state].first);
  }
}

TEST_CASE("a flip of any bit is refused or costs the last promise") {
  log::PromiseLog log(1 << 20);
  std::string before_last, last;
  small_history(log, [&] {
    before_last = last;
    last = summary(log.promises());
  });
  const std::vector<std::byte> bytes(log.pending().begin(), log.pending().end());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    std::string recovered = before_last;
    try {
      recovered = summary(log::recover_promises(flipped, "p").promises);
    } catch (const ConfigError&) {
    }
    REQUIRE(recovered == before_last);
  }
}

TEST_CASE("a snapshot holds the same state in fewer bytes, and the log goes on behind it") {
  log::PromiseLog log(200), plain(1 << 30);
  Bytes greatest = 0;
  int snapshots = 0;
  small_history(log, [&] {
    if (log.snapshot_due()) {
      log.begin_anew();
      ++snapshots;
    }
    greatest = std::max<Bytes>(greatest, log.pending().size());
    REQUIRE(summary(log::recover_promises(log.pending(), "p").promises) == summary(log.promises()));
  });
  small_history(plain, [] {});
  CHECK(snapshots > 0);
  CHECK(log.pending().size() < plain.pending().size());
  CHECK(summary(log.promises()) == summary(plain.promises()));

  // A service that starts again goes on from what it recovered.
  log::PromiseLog next(200, log::recover_promises(log.pending(), "p").promises);
  const std::vector<order::Slice> slices = {strict_slice(2, 8)};
  next.add(committed(1, 0, 2, slices));
  CHECK(log::recover_promises(next.pending(), "p").promises.jobs().at(1).join.position.consumed() ==
        16);
  next.add(left(1));
  CHECK(log::recover_promises(next.pending(), "p").promises.jobs().size() == 4);
}

namespace {

// A buffer of ten exemplars at most, which `shown` samples were shown to.
engine::Promise with_buffer(engine::Promise promise) {
  promise.join.join.buffer = 77;
  promise.join.join.buffer_exemplars = 10;
  promise.join.buffer_policy = "reservoir";
  return promise;
}
engine::Promise kept(engine::Promise promise, std::uint64_t shown,
                     std::vector<engine::KeptExemplar> exemplars) {
  promise.shown = shown;
  promise.kept = std::move(exemplars);
  return promise;
}

}  // namespace

TEST_CASE("buffers are found again, from snapshots and from what follows them") {
  const order::Position start(Order::strict, kVersion, kSamples, 0);
  const engine::Exemplar first{SampleId(3), 2, true, 0.5F, 1}, second{SampleId(9), 1, false, 0, 7},
      third{SampleId(40), engine::kNoClass, false, 0, 9};
  const engine::BufferName name{77, kVersion};
  log::PromiseLog log(1 << 20);
  log.add(with_buffer(joined(5, start)));
  log.add(kept(committed(5, 0, 0, {strict_slice(0, 0)}), 8, {{0, first}, {1, second}}));
  log.add(left(5));  // the buffer outlives the job
  log.begin_anew();
  CHECK(log::recover_promises(log.pending(), "p").promises.buffers() == log.promises().buffers());
  log.add(with_buffer(joined(6, start)));
  log.add(kept(committed(6, 0, 0, {strict_slice(0, 0)}), 16, {{0, third}}));
  const log::Promises found = log::recover_promises(log.pending(), "p").promises;
  REQUIRE(found.buffers().size() == 1);
  const log::Promises::Buffer& buffer = found.buffers().at(name);
  CHECK(buffer.shown == 16);
  CHECK(buffer.policy == "reservoir");
  CHECK(buffer.exemplars == std::vector<engine::Exemplar>{third, second});
  REQUIRE(found.buffers_promised().size() == 1);
  CHECK(found.buffers_promised()[0].exemplars.size() == 2);
  CHECK(found.jobs().at(6).rejoin().buffer_policy == "reservoir");

  engine::Promise gone;
  gone.kind = engine::Promise::Kind::buffer_gone;
  gone.job = JobId::none();
  gone.buffer_name = name;
  log.add(left(6));
  log.add(gone);
  CHECK(log::recover_promises(log.pending(), "p").promises.buffers().empty());
}

TEST_CASE("a large buffer is taken over in parts") {
  const order::Position start(Order::strict, kVersion, std::uint64_t{1} << 20, 0);
  engine::Promise join = with_buffer(joined(5, start));
  join.join.join.buffer_exemplars = 5000;
  log::PromiseLog log(1 << 20);
  log.add(join);
  std::vector<engine::KeptExemplar> all;
  for (std::uint32_t i = 0; i < 5000; ++i)
    all.push_back({i, {SampleId(i * 3), i % 7, false, 0, i}});
  log.add(kept(committed(5, 0, 0, {strict_slice(0, 0)}), 5000, all));
  log.begin_anew();
  const log::Promises found = log::recover_promises(log.pending(), "p").promises;
  CHECK(found.buffers() == log.promises().buffers());
  std::size_t exemplars = 0;
  for (const engine::BufferPromised& part : found.buffers_promised()) {
    CHECK(part.exemplars.size() <= engine::kExemplarsAtOnce);
    exemplars += part.exemplars.size();
  }
  CHECK(exemplars == 5000);
}

TEST_CASE("a buffer never has a gap, nor more than it has room for, nor was it shown less") {
  const order::Position start(Order::strict, kVersion, kSamples, 0);
  const engine::Exemplar one{SampleId(3), 0, false, 0, 1};
  log::Promises promises;
  REQUIRE(promises.apply(with_buffer(joined(5, start))).empty());
  REQUIRE(promises.apply(kept(committed(5, 0, 0, {strict_slice(0, 0)}), 8, {{0, one}})).empty());
  const auto next = [&](std::uint64_t shown, std::uint32_t index) {
    log::Promises copy = promises;
    return copy.apply(kept(committed(5, 1, 0, {strict_slice(0, 8)}), shown, {{index, one}}));
  };
  CHECK(next(16, 1).empty());
  CHECK_FALSE(next(16, 2).empty());
  CHECK_FALSE(next(7, 1).empty());
  log::Promises other = promises;
  engine::Promise larger = with_buffer(joined(6, start));
  larger.join.join.buffer_exemplars = 11;
  CHECK_FALSE(other.apply(larger).empty());
}

TEST_CASE("a history that cannot be is refused, with its reason") {
  log::Promises promises;
  CHECK(promises.apply(left(1)) == "job 1 has not joined");
  CHECK(promises.apply(joined(1, order::Position(Order::strict, kVersion, kSamples, 7))) == "");
  CHECK(promises.apply(joined(1, order::Position(Order::strict, kVersion, kSamples, 7))) ==
        "job 1 joined twice");
  CHECK(promises.apply(committed(1, 4, 0, {})) == "");
  CHECK(promises.apply(committed(1, 4, 0, {})) ==
        "job 1 commits step 4 of epoch 0, after 5 steps in epoch 0");
  CHECK(promises.apply(committed(1, 5, 1, {})) != "");
  CHECK(promises.apply(finished(1, 3)) == "job 1 finishes epoch 3 in epoch 0");
  CHECK(promises.apply(joined(2, order::Position(Order::relaxed, kVersion, kSamples, 7))) == "");
  engine::Promise other_sizes = relaxed_commit(2);
  other_sizes.sizes.samples = kSamples + 1;
  CHECK(promises.apply(other_sizes) == "job 2 cannot enter generation 5 here");
  engine::Promise right = relaxed_commit(2);
  right.step = 1;
  CHECK(promises.apply(right) == "");
}

// Frames with right checksums around wrong contents: what a bug or an enemy might write.
namespace {
void wrong_contents(std::uint64_t seeds) {
  log::PromiseLog log(1 << 20);
  std::vector<std::vector<std::byte>> payloads;
  small_history(log, [] {});
  log::FrameReader reader(log.pending(), "p", log::LogKind::promises, log::PromiseLog::kVersion);
  std::span<const std::byte> payload;
  while (reader.next(payload)) payloads.emplace_back(payload.begin(), payload.end());
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    INFO("replay: seed " << seed << " of this test");
    Random random(hash(seed));
    std::vector<std::byte> bytes;
    log::FrameWriter writer(log::LogKind::promises, log::PromiseLog::kVersion, {},
                            log::FrameWriter::kNoBound, bytes);
    for (auto changed : payloads) {
      if (random.below(8) == 0 && !changed.empty()) {
        changed[random.below(changed.size())] = static_cast<std::byte>(random.below(256));
      }
      if (random.below(30) == 0) changed.resize(random.below(changed.size() + 1));
      if (random.below(30) != 0) writer.append(changed, {}, bytes);
    }
    try {
      log::recover_promises(bytes, "p");
    } catch (const ConfigError&) {
    }
  }
}
}  // namespace

TEST_CASE("any record within a whole frame is taken or refused, never more") {
  wrong_contents(1000);
}

TEST_SUITE("long") {
  TEST_CASE("many records within whole frames are taken or refused") {
    wrong_contents(50'000);
  }
}

}  // namespace batchflow::test::promise_log_test
