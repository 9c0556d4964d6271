// A backend with one node that does at once whatever it is ordered, and ranks that train on what
// they get and let go of it: for tests of the engine's answers to jobs, not of time.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/engine.h"
#include "policies/registry.h"

namespace batchflow::test {

class Obedient {
 public:
  static constexpr DatasetId kDataset{1};
  static constexpr PipelineId kPipeline{1};
  static constexpr NodeId kNode{1};
  static constexpr std::uint64_t kSamples = 64;
  static constexpr Bytes kSampleBytes = 64;

  explicit Obedient(Digest pipeline_hash = 9, EngineConfig config = small_blocks())
      : catalogues_(known(pipeline_hash)), engine_(config, policy_list(), catalogues_) {
    send(CatalogueKnown{kDataset, 7});
    send(PipelineKnown{kPipeline, pipeline_hash});
    send(NodeJoined{kNode, 2});
    send(CapacityChanged{{kNode, Tier::dram, 0}, 1 << 20});
    send(WorkerJoined{WorkerId(1), kNode});
    step();
  }
  // Blocks of 8.
  static EngineConfig small_blocks() {
    EngineConfig config;
    config.block_bytes = 8 * kSampleBytes;
    return config;
  }
  static JobJoined job(std::uint32_t id, Order order, std::span<const NodeId> ranks) {
    JobJoined join;
    join.job = JobId(id);
    join.dataset = kDataset;
    join.pipeline = kPipeline;
    join.order = order;
    join.batch_samples = 4;
    join.ranks = ranks;
    return join;
  }

  void send(const Event& event) { next_.push_back(event); }
  // One step; false when there was nothing to tell and no timer to wait for.
  bool step() {
    if (next_.empty() && timer_ == kNever) return false;
    now_ = next_.empty() ? std::max(now_, timer_) : now_ + Duration(1000);
    if (timer_ <= now_) timer_ = kNever;
    std::vector<Event> events;
    events.swap(next_);
    const auto commands = engine_.step(now_, events);
    for (const Promise& promise : engine_.promises()) promises_.push_back(promise);
    for (const Command& command : commands) {
      std::visit([&](const auto& order) { on(order); }, command);
    }
    engine_.check_consistency();
    return true;
  }
  void run(int steps) {
    while (steps-- > 0 && step()) {
    }
  }

  std::map<std::uint32_t, std::uint64_t> delivered;  // batches, by job
  std::map<std::uint32_t, Refuse> refused;           // by job
  const std::vector<Promise>& promises() const { return promises_; }
  Engine& engine() { return engine_; }

 private:
  static Catalogues known(Digest pipeline_hash) {
    Catalogues catalogues;
    catalogues.add(kDataset, Catalogue::uniform("d", 7, kSamples, kSampleBytes));
    PipelineInfo pipeline;
    pipeline.hash = pipeline_hash;
    pipeline.has_random = true;
    pipeline.prepared_bytes = kSampleBytes;
    catalogues.add(kPipeline, pipeline);
    return catalogues;
  }

  template <class Order>
  void on(const Order&) {}
  void on(const Admit& order) {
    const std::uint32_t ranks = ranks_of(order.job);
    for (Rank rank = 0; rank < ranks; ++rank) send(BatchWanted{order.job, rank, order.credits});
  }
  void on(const Refuse& order) { refused.emplace(order.job.value, order); }
  void on(const Read& order) { send(ReadDone{order.request, {}, {}}); }
  void on(const Prepare& order) { send(PreparationDone{order.request, {}, {}}); }
  void on(const Transfer& order) { send(TransferDone{order.request, {}}); }
  void on(const SetTimer& order) { timer_ = std::min(timer_, order.at); }
  void on(const Deliver& order) {
    ++delivered[order.job.value];
    send(DeliveryDone{order.request, {}});
    send(BatchConsumed{order.job, order.rank, order.step, Duration(1000)});
    send(SlotReleased{order.job, order.rank, order.step});
    send(BatchWanted{order.job, order.rank, 1});
  }
  // As the engine has promised last.
  std::uint32_t ranks_of(JobId job) const {
    std::size_t ranks = 0;
    for (const Promise& promise : promises_) {
      if (promise.job != job) continue;
      if (promise.kind == Promise::Kind::joined) ranks = promise.join.ranks.size();
      if (promise.kind == Promise::Kind::resized) ranks = promise.ranks.size();
    }
    return static_cast<std::uint32_t>(ranks);
  }

  Catalogues catalogues_;
  Engine engine_;
  Instant now_{};
  Instant timer_ = kNever;
  std::vector<Event> next_;
  std::vector<Promise> promises_;
};

}  // namespace batchflow::test
