#include "core/promise_log.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/config_error.h"
#include "core/random.h"

using namespace batchflow;
using namespace std::chrono_literals;

namespace {

constexpr Digest kVersion = 0xabcdef;
constexpr std::uint64_t kSamples = 64;
const std::vector<NodeId> kRanks = {NodeId(0), NodeId(1)};

JobJoined join_of(std::uint32_t job, const Position& position) {
  JobJoined join;
  join.job = JobId(job);
  join.dataset = DatasetId(1);
  join.pipeline = PipelineId(2);
  join.order = position.order();
  join.batch_samples = 4;
  join.ranks = kRanks;
  join.position = &position;
  return join;
}

Slice strict_slice(std::uint64_t epoch, std::uint32_t from) {
  return {{epoch, 0, 0, 0}, from, from + 8, false};
}

// Two epochs of a strict job, a relaxed one that only enters its generation, one that leaves.
// `after` is called with the number of promises made, after each.
template <class After>
void small_history(PromiseLog& log, After&& after) {
  int made = 0;
  const auto add = [&](const Promise& promise) {
    log.add(promise);
    after(++made);
  };
  const Position strict(Order::strict, kVersion, kSamples, 7);
  const Position relaxed(Order::relaxed, kVersion, kSamples, 7);
  add(CatalogueKnown{DatasetId(1), kVersion});
  add(PipelineKnown{PipelineId(2), 99});
  add(join_of(1, strict));
  add(join_of(2, relaxed));
  add(GenerationOpened{JobId(2), 5, 8, 4});
  add(join_of(3, strict));
  std::uint64_t step = 0;
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (std::uint32_t from = 0; from < kSamples; from += 8) {
      const std::vector<Slice> slices = {strict_slice(epoch, from)};
      add(StepCommitted{JobId(1), step++, epoch, 1ms, slices});
    }
    add(EpochFinished{JobId(1), epoch});
  }
  add(JobLeft{JobId(3)});
  const std::vector<NodeId> one = {NodeId(5)};
  add(JobResized{JobId(1), 16, one});
  const std::vector<Slice> slices = {strict_slice(2, 0)};
  add(StepCommitted{JobId(1), step, 2, 1ms, slices});
}

std::string summary(const Promises& promises) {
  std::string text;
  for (const auto& [id, version] : promises.catalogues()) text += std::to_string(version) + ";";
  for (const auto& [id, job] : promises.jobs()) {
    text += std::to_string(id) + ":" + std::to_string(job.ranks.size()) + "x" +
            std::to_string(job.join.batch_samples) + " " + to_json(job.position) + ";";
  }
  return text;
}

}  // namespace

TEST_CASE("recovery gives each job the position of its last committed step") {
  PromiseLog log(1 << 20);
  small_history(log, [](int) {});
  const auto recovered = recover_promises(log.pending(), "p");
  CHECK(summary(recovered.promises) == summary(log.promises()));
  const auto& jobs = recovered.promises.jobs();
  REQUIRE(jobs.size() == 2);
  const JobJoined again = jobs.at(1).rejoin();
  CHECK(again.position->epoch() == 2);
  CHECK(again.position->consumed() == 8);
  CHECK(again.ranks.size() == 1);
  CHECK(again.ranks[0] == NodeId(5));
  CHECK(again.batch_samples == 16);
  CHECK(jobs.at(2).position.lanes().generation == 5);
  CHECK(recovered.promises.pipelines().at(2) == 99);
}

TEST_CASE("cut at every byte, recovery finds the state after the last whole promise") {
  PromiseLog log(1 << 20);
  std::vector<std::pair<std::size_t, std::string>> states = {{log.pending().size(), summary({})}};
  small_history(log,
                [&](int) { states.emplace_back(log.pending().size(), summary(log.promises())); });
  const auto bytes = log.pending();
  std::size_t state = 0;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    while (state + 1 < states.size() && states[state + 1].first <= size) ++state;
    const auto recovered = recover_promises(bytes.first(size), "p");
    REQUIRE(summary(recovered.promises) == states[state].second);
    if (size >= states[0].first) REQUIRE(recovered.bytes_cut == size - states[state].first);
  }
}

TEST_CASE("a flip of any bit is refused or costs the last promise") {
  PromiseLog log(1 << 20);
  std::string before_last, last;
  small_history(log, [&](int) {
    before_last = last;
    last = summary(log.promises());
  });
  const std::vector<std::byte> bytes(log.pending().begin(), log.pending().end());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    std::string recovered = before_last;
    try {
      recovered = summary(recover_promises(flipped, "p").promises);
    } catch (const ConfigError&) {
    }
    REQUIRE(recovered == before_last);
  }
}

TEST_CASE("a snapshot holds the same state in fewer bytes, and the log goes on behind it") {
  PromiseLog log(200), plain(1 << 30);
  Bytes greatest = 0;
  int snapshots = 0;
  small_history(log, [&](int) {
    if (log.snapshot_due()) {
      log.begin_anew();
      ++snapshots;
    }
    greatest = std::max<Bytes>(greatest, log.pending().size());
    REQUIRE(summary(recover_promises(log.pending(), "p").promises) == summary(log.promises()));
  });
  small_history(plain, [](int) {});
  CHECK(snapshots > 0);
  CHECK(log.pending().size() < plain.pending().size());
  CHECK(summary(log.promises()) == summary(plain.promises()));

  // A service that starts again goes on from what it recovered.
  PromiseLog next(200, recover_promises(log.pending(), "p").promises);
  const std::vector<Slice> slices = {strict_slice(2, 8)};
  next.add(StepCommitted{JobId(1), 0, 2, 1ms, slices});
  CHECK(recover_promises(next.pending(), "p").promises.jobs().at(1).position.consumed() == 16);
  next.add(JobLeft{JobId(1)});
  CHECK(recover_promises(next.pending(), "p").promises.jobs().size() == 1);
}

TEST_CASE("a history that cannot be is refused, with its reason") {
  const Position strict(Order::strict, kVersion, kSamples, 7);
  Promises promises;
  CHECK(promises.apply(JobLeft{JobId(1)}) == "job 1 has not joined");
  JobJoined join = join_of(1, strict);
  join.position = nullptr;
  CHECK(promises.apply(join) == "job 1 joined without a position");
  CHECK(promises.apply(join_of(1, strict)) == "");
  CHECK(promises.apply(join_of(1, strict)) == "job 1 joined twice");
  CHECK(promises.apply(StepCommitted{JobId(1), 4, 0, 0s, {}}) == "");
  CHECK(promises.apply(StepCommitted{JobId(1), 4, 0, 0s, {}}) ==
        "job 1 commits step 4 of epoch 0, after 5 steps in epoch 0");
  CHECK(promises.apply(StepCommitted{JobId(1), 5, 1, 0s, {}}) != "");
  CHECK(promises.apply(EpochFinished{JobId(1), 3}) != "");
  CHECK(promises.apply(GenerationOpened{JobId(1), 1, 8, 4}) != "");
  CHECK(promises.apply(DrawsBegun{JobId(1), 1, 64}) != "");
}

// Frames with right checksums around wrong contents: what a bug or an enemy might write.
TEST_CASE("any record within a whole frame is taken or refused, never more") {
  PromiseLog log(1 << 20);
  std::vector<std::vector<std::byte>> payloads;
  small_history(log, [](int) {});
  FrameReader reader(log.pending(), "p", LogKind::promises, PromiseLog::kVersion);
  std::span<const std::byte> payload;
  while (reader.next(payload)) payloads.emplace_back(payload.begin(), payload.end());
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    INFO("replay: seed " << seed << " of this test");
    Random random(hash(seed));
    std::vector<std::byte> bytes;
    FrameWriter writer(LogKind::promises, PromiseLog::kVersion, {}, FrameWriter::kNoBound, bytes);
    for (auto changed : payloads) {
      if (random.below(8) == 0 && !changed.empty()) {
        changed[random.below(changed.size())] = static_cast<std::byte>(random.below(256));
      }
      if (random.below(30) == 0) changed.resize(random.below(changed.size() + 1));
      if (random.below(30) != 0) writer.append(changed, {}, bytes);
    }
    try {
      recover_promises(bytes, "p");
    } catch (const ConfigError&) {
    }
  }
}
