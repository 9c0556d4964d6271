// What policies are shown of the links of nodes, by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/link.h"
#include "tests/driver/canaries.h"

namespace batchflow::test::link_test {

namespace {

using std::chrono::seconds;

Instant at_s(int s) {
  return Instant(seconds(s));
}

std::vector<std::pair<Instant, std::vector<engine::NodeCandidate>>> shown;
Instant now{};

// Has each block made on the first node that is shown.
class LooksAtNodes final : public engine::DispatchPolicy {
 public:
  explicit LooksAtNodes(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView&) override { return 0; }
  bool chooses_nodes() const override { return true; }
  std::size_t choose_node(const engine::NodesView& view) override {
    shown.emplace_back(now, std::vector(view.candidates.begin(), view.candidates.end()));
    return 0;
  }
};
const engine::PolicyEntry kLooksAtNodes{"looks-at-nodes", "",
                                        &make_canary<engine::DispatchPolicy, LooksAtNodes>};

constexpr std::uint64_t kSamples = 1600;  // of 1000 bytes, and of 2000 once they are prepared
constexpr NodeId kFirst{1}, kSecond{2};

// Two nodes with a worker and a rank of a job each, of which the second keeps all samples. A read
// takes two seconds, and a transfer one. The job takes so long for a step that nothing else counts.
class TwoNodes {
 public:
  TwoNodes() : policies_(canaries_.list()), engine_(config(), policies_, fill()) {
    shown.clear();
    for (std::uint64_t i = 0; i < kSamples; ++i) samples_.emplace_back(i);
    add(0, engine::CatalogueKnown{DatasetId(1), 7});
    add(0, engine::PipelineKnown{PipelineId(1), 9});
    for (const NodeId node : {kFirst, kSecond}) {
      add(0, engine::NodeJoined{node, 1});
      add(0, engine::CapacityChanged{{node, Tier::dram, 0}, 8'000'000});
      add(0, engine::WorkerJoined{WorkerId(node.value), node});
    }
    add(0, engine::SamplesKept{{kSecond, Tier::dram, 0}, DatasetId(1), 0, 0, 0, samples_});
    engine::JobJoined job;
    job.dataset = DatasetId(1);
    job.pipeline = PipelineId(1);
    job.batch_samples = 4;
    job.ranks = ranks_;
    add(0, job);
  }

  void add(int s, const engine::Event& event) { coming_[at_s(s)].push_back(event); }
  // All that happens until then.
  void run_to(int s) {
    while (!coming_.empty() && coming_.begin()->first <= at_s(s)) {
      const auto events = coming_.extract(coming_.begin());
      now = events.key();
      for (const engine::Command& command : engine_.step(now, events.mapped()))
        std::visit([&](const auto& one) { carry_out(one); }, command);
      engine_.check_consistency();
    }
    CHECK(engine_.counters().protocol_errors == 0);
    CHECK(engine_.counters().refused_proposals == 0);
  }
  std::uint64_t fetched = 0;
  std::uint64_t sent = 0;

 private:
  static engine::EngineConfig config() {
    engine::EngineConfig config;
    config.block_bytes = 16'000;
    config.item_slot_bytes = 1000;
    config.blocks_in_flight_per_worker = 1;
    config.policies.allocation = "encoded-first:forms=encoded";
    config.policies.dispatch = "looks-at-nodes";
    return config;
  }
  const engine::Catalogues& fill() {
    catalogues_.add(DatasetId(1), engine::Catalogue::uniform("two", 7, kSamples, 1000));
    engine::PipelineInfo pipeline;
    pipeline.hash = 9;
    pipeline.has_random = true;
    pipeline.prepared_bytes = 2000;
    catalogues_.add(PipelineId(1), pipeline);
    return catalogues_;
  }
  void later(int s, const engine::Event& event) { coming_[now + seconds(s)].push_back(event); }

  template <class Command>
  void carry_out(const Command&) {}
  void carry_out(const engine::Admit& command) {
    for (const Rank rank : {0u, 1u})
      later(0, engine::BatchWanted{command.job, rank, command.credits});
  }
  void carry_out(const engine::SetTimer& command) {
    coming_[std::max(now, command.at)].push_back(engine::TimerFired{command.timer});
  }
  void carry_out(const engine::Read& command) {
    CHECK(command.from == Place{kSecond, Tier::dram, 0});
    CHECK(command.to == Place{kFirst, Tier::dram, 0});
    fetched += command.samples.size();
    later(2, engine::ReadDone{command.request, {}, {}});
  }
  void carry_out(const engine::Prepare& command) {
    later(0, engine::PreparationDone{command.request, {}, {}});
  }
  void carry_out(const engine::Transfer& command) {
    if (command.from.node != command.to.node) sent += command.slice.to - command.slice.from;
    later(1, engine::TransferDone{command.request, {}});
  }
  void carry_out(const engine::Deliver& command) {
    later(0, engine::DeliveryDone{command.request, {}});
    later(1, engine::BatchConsumed{command.job, command.rank, command.step, seconds(1)});
    later(1, engine::SlotReleased{command.job, command.rank, command.step});
    later(1, engine::BatchWanted{command.job, command.rank, 1});
  }

  const Canaries canaries_{&kLooksAtNodes};
  const engine::PolicyList policies_;
  engine::Catalogues catalogues_;
  std::vector<SampleId> samples_;
  const std::vector<NodeId> ranks_{kFirst, kSecond};
  std::map<Instant, std::vector<engine::Event>> coming_;
  engine::Engine engine_;
};

}  // namespace

TEST_CASE("a link is as fast as what it carried of late, and its bytes are counted on their way") {
  engine::Link link;
  CHECK(link.bytes_per_s(at_s(0)) == 0);
  link.begin(1000);
  link.begin(3000);
  CHECK(link.on_way() == 4000);
  CHECK(link.bytes_per_s(at_s(1)) == 0);
  // 1000 bytes at 1000 a second, and 3000 at 3000: (1 + 9) / 4 million.
  link.end(1000);
  link.carried(at_s(0), at_s(1), 1000);
  CHECK(link.bytes_per_s(at_s(1)) == 1000);
  link.end(3000);
  link.carried(at_s(0), at_s(1), 3000);
  CHECK(link.on_way() == 0);
  CHECK(link.bytes_per_s(at_s(1)) == 2500);
  // After ten seconds these 4000 bytes count half: (2000 * 2500 + 6000 * 500) / 8000.
  link.carried(at_s(-1), at_s(11), 6000);
  CHECK(link.bytes_per_s(at_s(11)) == 1000);
  // What takes no time says nothing.
  link.carried(at_s(11), at_s(11), 1'000'000);
  CHECK(link.bytes_per_s(at_s(11)) == 1000);
  CHECK(link.bytes_per_s(at_s(71)) == 1000);
  CHECK(link.bytes_per_s(at_s(72)) == 0);
  link.carried(at_s(71), at_s(72), UINT64_MAX);
  CHECK(link.bytes_per_s(at_s(72)) == 1'000'000'000'000'000'000);
}

TEST_CASE("a dispatch policy is shown what links carry, and what a block needs of them") {
  TwoNodes world;
  world.run_to(30);
  REQUIRE(shown.size() > 2);
  // Of a block of 8 samples, which take 16,000 bytes, each rank takes half. The first node has to
  // fetch all of what it makes.
  for (const auto& [when, nodes] : shown) {
    REQUIRE(nodes.size() == 2);
    CHECK(nodes[0].node == kFirst);
    CHECK(nodes[1].node == kSecond);
    CHECK(nodes[0].to_fetch == 8000);
    CHECK(nodes[1].to_fetch == 0);
    for (const engine::NodeCandidate& one : nodes) {
      CHECK(one.to_send == 8000);
      // No read is faster than 8000 bytes in two seconds, and no transfer than 8000 in one.
      CHECK(one.in_per_s <= 8000);
      CHECK(one.out_per_s <= 8000);
    }
    // There are two nodes: what goes from the one comes to the other.
    CHECK(nodes[0].coming == nodes[1].going);
    CHECK(nodes[1].coming == nodes[0].going);
    CHECK(nodes[0].in_per_s == nodes[1].out_per_s);
    CHECK(nodes[1].in_per_s == nodes[0].out_per_s);
  }
  const auto& first = shown.front().second;
  CHECK(first[0].coming + first[1].coming == 0);
  CHECK(first[0].in_per_s + first[1].in_per_s == 0);
  CHECK(shown.back().second[0].in_per_s > 0);
  CHECK(shown.back().second[1].in_per_s > 0);
  CHECK(world.fetched > 0);
  CHECK(world.sent > 0);
}

}  // namespace batchflow::test::link_test
