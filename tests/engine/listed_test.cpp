// Listed orders on several nodes: which reads are commanded for them, one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/placement.h"
#include "policies/registry.h"

namespace batchflow::test::listed_test {

namespace {

constexpr DatasetId kDataset{1};
constexpr PipelineId kPipeline{1};
constexpr Digest kVersion = 7;
constexpr std::uint64_t kSamples = 30;
constexpr Bytes kBytes = 100;

Place memory_of(NodeId node) {
  return {node, Tier::dram, 0};
}

NodeId home_among(const std::vector<NodeId>& nodes, SampleId sample) {
  return engine::Placement(0, nodes).owner(kVersion, sample);
}

std::vector<SampleId> all_samples() {
  std::vector<SampleId> all;
  for (std::uint64_t i = 0; i < kSamples; ++i) all.emplace_back(i);
  return all;
}

struct ReadUnderWay {
  engine::Request request;
  Place from, to, keep_at;
  std::vector<SampleId> samples;
  bool is_from_store() const { return from.tier == Tier::store; }
};

// Nodes 1, 2, and so on, alike and with room for all samples. Job n has one rank, on node n. The
// test says when reads are done; batches are delivered at once, and kept by their ranks.
class Cluster {
 public:
  explicit Cluster(std::uint32_t nodes, engine::EngineConfig config = {})
      : engine_(with_slots(std::move(config)), policies::policy_list(), fill()) {
    events_ = {engine::CatalogueKnown{kDataset, kVersion},
               engine::PipelineKnown{kPipeline, kVersion}};
    for (std::uint32_t i = 1; i <= nodes; ++i) {
      nodes_.emplace_back(i);
      events_.push_back(engine::NodeJoined{NodeId(i), 1});
      events_.push_back(engine::CapacityChanged{memory_of(NodeId(i)), 1'000'000});
    }
    for (const NodeId& node : nodes_) {
      engine::JobJoined join;
      join.job = JobId(node.value);
      join.dataset = kDataset;
      join.pipeline = kPipeline;
      join.order = Order::listed;
      join.batch_samples = kSamples;
      join.ranks = {&node, 1};
      events_.push_back(join);
    }
    step();
  }

  void want(std::uint32_t job, const std::vector<SampleId>& samples) {
    events_.push_back(engine::SamplesWanted{JobId(job), 0, samples, {}, {}});
    step();
  }
  void report(const engine::Event& event) {
    events_.push_back(event);
    step();
  }
  void end(ReadUnderWay read, engine::Outcome outcome = engine::Outcome::done) {
    std::erase_if(under_way_,
                  [&](const ReadUnderWay& one) { return one.request.id == read.request.id; });
    report(engine::ReadDone{read.request, outcome, {}});
  }
  // All reads are done, and those that follow them.
  void finish() {
    while (!under_way_.empty()) end(under_way_.front());
  }
  // All of these fail, as often as they are tried.
  void fail(std::vector<ReadUnderWay> reads, std::uint32_t attempts) {
    for (const ReadUnderWay& read : reads) {
      for (std::uint32_t i = 0; i < attempts; ++i) {
        now_ += std::chrono::seconds(1);
        step();
        end(of(read.request.id), engine::Outcome::failed);
      }
    }
  }

  // The job's rank needs none of its batches any more.
  void release(std::uint32_t job) {
    for (const std::uint64_t step : std::exchange(steps_[job], {})) {
      events_.push_back(engine::BatchConsumed{JobId(job), 0, step, Duration(1)});
      events_.push_back(engine::SlotReleased{JobId(job), 0, step});
    }
    step();
  }

  const std::vector<ReadUnderWay>& under_way() const { return under_way_; }
  std::uint64_t samples_from_store() const { return from_store_; }
  std::uint64_t samples_fetched() const { return fetched_; }
  std::uint64_t refusals() const { return refusals_; }
  // The ingredients of the job's last batch, if it has been delivered.
  std::vector<engine::Ingredient> delivered(std::uint32_t job) const {
    const auto found = delivered_.find(job);
    return found == delivered_.end() ? std::vector<engine::Ingredient>() : found->second;
  }
  NodeId home(SampleId sample) const { return home_among(nodes_, sample); }
  std::uint64_t homes_at(std::uint32_t node) const {
    const std::vector<SampleId> all = all_samples();
    return static_cast<std::uint64_t>(std::count_if(
        all.begin(), all.end(), [&](SampleId one) { return home(one) == NodeId(node); }));
  }
  SampleId first_at(std::uint32_t node) const {
    const std::vector<SampleId> all = all_samples();
    return *std::find_if(all.begin(), all.end(),
                         [&](SampleId one) { return home(one) == NodeId(node); });
  }

 private:
  static engine::EngineConfig with_slots(engine::EngineConfig config) {
    config.item_slot_bytes = kBytes;
    config.policies.allocation = "equal";
    config.policies.eviction.fill("lru");
    return config;
  }
  const engine::Catalogues& fill() {
    catalogues_.add(kDataset, engine::Catalogue::uniform("listed", kVersion, kSamples, kBytes));
    engine::PipelineInfo as_stored;
    as_stored.hash = kVersion;
    catalogues_.add(kPipeline, as_stored);
    return catalogues_;
  }
  const ReadUnderWay& of(RequestId id) const {
    const auto found = std::find_if(under_way_.begin(), under_way_.end(),
                                    [&](const ReadUnderWay& one) { return one.request.id == id; });
    REQUIRE(found != under_way_.end());
    return *found;
  }

  void step() {
    now_ += Duration(1);
    const std::vector<engine::Event> events = std::exchange(events_, {});
    for (const engine::Command& command : engine_.step(Instant(now_), events))
      std::visit([&](const auto& one) { carry_out(one); }, command);
    engine_.check_consistency();
    CHECK(engine_.counters().protocol_errors == 0);
    if (!events_.empty()) step();
  }
  template <class Command>
  void carry_out(const Command&) {}
  void carry_out(const engine::Read& read) {
    (read.from.tier == Tier::store ? from_store_ : fetched_) += read.samples.size();
    under_way_.push_back({read.request,
                          read.from,
                          read.to,
                          read.keep.is_none() ? Place{} : read.keep_at,
                          {read.samples.begin(), read.samples.end()}});
  }
  void carry_out(const engine::Cancel& cancel) {
    std::erase_if(under_way_,
                  [&](const ReadUnderWay& one) { return one.request.id == cancel.request.id; });
  }
  void carry_out(const engine::Refuse&) { ++refusals_; }
  void carry_out(const engine::Deliver& batch) {
    delivered_[batch.job.value].assign(batch.ingredients.begin(), batch.ingredients.end());
    steps_[batch.job.value].push_back(batch.step);
    events_.push_back(engine::DeliveryDone{batch.request, engine::Outcome::done});
  }

  engine::Catalogues catalogues_;
  engine::Engine engine_;
  Duration now_{0};
  std::vector<NodeId> nodes_;
  std::vector<engine::Event> events_;
  std::vector<ReadUnderWay> under_way_;
  std::map<std::uint32_t, std::vector<engine::Ingredient>> delivered_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> steps_;  // of batches that ranks have
  std::uint64_t from_store_ = 0;
  std::uint64_t fetched_ = 0;
  std::uint64_t refusals_ = 0;
};

void check_batch(const Cluster& cluster, std::uint32_t job) {
  const std::vector<SampleId> all = all_samples();
  const std::vector<engine::Ingredient> batch = cluster.delivered(job);
  REQUIRE(batch.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(batch[i].sample == all[i]);
}

}  // namespace

TEST_CASE("a listed order fetches what other nodes keep, and the store is read once") {
  Cluster cluster(3);
  REQUIRE(cluster.homes_at(1) > 0);
  REQUIRE(cluster.homes_at(2) > 0);
  REQUIRE(cluster.homes_at(3) > 0);
  cluster.want(1, all_samples());
  CHECK(cluster.samples_from_store() == kSamples);
  CHECK(cluster.samples_fetched() == 0);
  for (const ReadUnderWay& read : cluster.under_way()) {
    CHECK(read.to == memory_of(NodeId(1)));
    for (const SampleId sample : read.samples)
      CHECK(read.keep_at == memory_of(cluster.home(sample)));
  }
  CHECK(cluster.delivered(1).empty());
  cluster.finish();
  check_batch(cluster, 1);
  // What its own node keeps is delivered from there, the rest from where it was read to.
  for (const engine::Ingredient& one : cluster.delivered(1))
    CHECK(one.staging.is_none() == (cluster.home(one.sample) == NodeId(1)));

  cluster.want(2, all_samples());
  CHECK(cluster.samples_from_store() == kSamples);
  CHECK(cluster.samples_fetched() == cluster.homes_at(1) + cluster.homes_at(3));
  CHECK(cluster.under_way().size() == 2);
  for (const ReadUnderWay& read : cluster.under_way()) {
    CHECK(read.to == memory_of(NodeId(2)));
    CHECK(read.keep_at == Place{});
    for (const SampleId sample : read.samples) CHECK(read.from == memory_of(cluster.home(sample)));
  }
  cluster.finish();
  check_batch(cluster, 2);
}

TEST_CASE("a listed order waits for what another node reads, and fetches it") {
  Cluster cluster(3);
  cluster.want(1, all_samples());
  const std::size_t reads = cluster.under_way().size();
  cluster.want(2, all_samples());
  CHECK(cluster.under_way().size() == reads);
  CHECK(cluster.samples_from_store() == kSamples);
  for (const ReadUnderWay& read : std::vector(cluster.under_way())) cluster.end(read);
  check_batch(cluster, 1);
  CHECK(cluster.delivered(2).empty());
  CHECK(cluster.samples_fetched() == cluster.homes_at(1) + cluster.homes_at(3));
  cluster.finish();
  check_batch(cluster, 2);
  CHECK(cluster.samples_from_store() == kSamples);
}

TEST_CASE("what a lost node kept is read from the store, and kept at its new home") {
  Cluster cluster(3);
  cluster.want(1, all_samples());
  cluster.finish();
  cluster.want(2, all_samples());
  cluster.report(engine::NodeLost{NodeId(3)});
  CHECK(cluster.samples_from_store() == kSamples + cluster.homes_at(3));
  for (const ReadUnderWay& read : cluster.under_way()) {
    if (!read.is_from_store()) continue;
    for (const SampleId sample : read.samples) {
      CHECK(cluster.home(sample) == NodeId(3));
      CHECK(read.keep_at == memory_of(home_among({NodeId(1), NodeId(2)}, sample)));
    }
  }
  cluster.finish();
  check_batch(cluster, 2);
  const std::uint64_t fetched = cluster.samples_fetched();
  const std::vector<SampleId> all = all_samples();
  const auto now_at_2 = std::count_if(all.begin(), all.end(), [](SampleId one) {
    return home_among({NodeId(1), NodeId(2)}, one) == NodeId(2);
  });
  cluster.release(1);
  cluster.want(1, all);
  CHECK(cluster.samples_from_store() == kSamples + cluster.homes_at(3));
  CHECK(cluster.samples_fetched() == fetched + static_cast<std::uint64_t>(now_at_2));
  cluster.finish();
  check_batch(cluster, 1);
  CHECK(cluster.refusals() == 0);
}

TEST_CASE("the loss of a node that reads for others ends no listed order") {
  Cluster cluster(3);
  cluster.want(1, all_samples());
  cluster.want(2, all_samples());
  cluster.want(3, all_samples());
  CHECK(cluster.samples_from_store() == kSamples);
  cluster.report(engine::NodeLost{NodeId(1)});
  // One of the two reads everything anew, and the other waits for that.
  CHECK(cluster.samples_from_store() == 2 * kSamples);
  cluster.finish();
  CHECK(cluster.samples_from_store() == 2 * kSamples);
  check_batch(cluster, 2);
  check_batch(cluster, 3);
  CHECK(cluster.refusals() == 0);
}

TEST_CASE("copies that cannot be fetched are read from the store") {
  engine::EngineConfig config;
  config.read_attempts = 2;
  Cluster cluster(2, config);
  cluster.want(1, all_samples());
  cluster.finish();
  cluster.release(1);
  cluster.want(2, all_samples());
  REQUIRE(cluster.under_way().size() == 1);
  cluster.fail(cluster.under_way(), 2);
  CHECK(cluster.samples_from_store() == kSamples + cluster.homes_at(1));
  REQUIRE(cluster.under_way().size() == 1);
  CHECK(cluster.under_way()[0].is_from_store());
  CHECK(cluster.under_way()[0].keep_at == memory_of(NodeId(1)));  // in the place of the bad copies
  cluster.finish();
  check_batch(cluster, 2);
  CHECK(cluster.refusals() == 0);
}

TEST_CASE("copies that another batch is fetching are not tried for ever") {
  engine::EngineConfig config;
  config.read_attempts = 2;
  Cluster cluster(3, config);
  const SampleId sample = cluster.first_at(1);
  cluster.want(1, {sample});
  cluster.finish();
  cluster.release(1);
  cluster.want(2, {sample});
  const std::vector<ReadUnderWay> first = cluster.under_way();
  cluster.want(3, {sample});
  REQUIRE(cluster.under_way().size() == 2);
  cluster.fail(first, 2);  // the other fetches the copy still, so it stays
  CHECK(cluster.samples_from_store() == 2);
  cluster.finish();
  CHECK(cluster.delivered(2).size() == 1);
  CHECK(cluster.delivered(3).size() == 1);
  CHECK(cluster.samples_from_store() == 2);
}

TEST_CASE("a sample that stands in a batch twice is read and fetched once") {
  Cluster cluster(2);
  const SampleId sample = cluster.first_at(1);
  cluster.want(2, {sample, sample, sample});
  CHECK(cluster.samples_from_store() == 1);
  cluster.finish();
  CHECK(cluster.delivered(2).size() == 3);
  CHECK(cluster.samples_fetched() == 0);
  // As long as the batch is there, others on its node share what it holds.
  cluster.want(2, {sample, sample});
  CHECK(cluster.delivered(2).size() == 2);
  CHECK(cluster.samples_fetched() == 0);
  CHECK(cluster.under_way().empty());
  cluster.release(2);
  cluster.want(2, {sample, sample});
  CHECK(cluster.samples_fetched() == 1);
  cluster.finish();
  const std::vector<engine::Ingredient> batch = cluster.delivered(2);
  REQUIRE(batch.size() == 2);
  CHECK(!batch[0].staging.is_none());
  CHECK(batch[0].staging == batch[1].staging);
  CHECK(cluster.samples_from_store() == 1);
}

TEST_CASE("a listed order that waits, or is waited for, may leave") {
  for (const std::uint32_t leaves : {1u, 2u}) {
    CAPTURE(leaves);
    Cluster cluster(3);
    cluster.want(1, all_samples());
    cluster.want(2, all_samples());
    cluster.report(engine::JobLeft{JobId(leaves)});
    cluster.finish();
    CHECK(cluster.delivered(leaves).empty());
    check_batch(cluster, 3 - leaves);
    CHECK(cluster.samples_from_store() == kSamples);
    // Nothing keeps the node that read from ending.
    cluster.report(engine::NodeLost{NodeId(1)});
    cluster.want(3, {SampleId(0)});
    cluster.finish();
    CHECK(cluster.delivered(3).size() == 1);
  }
}

}  // namespace batchflow::test::listed_test
