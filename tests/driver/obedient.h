// A backend with one node that does at once whatever it is commanded, and ranks that train on what
// they get and let go of it: for tests of the engine's answers to jobs, not of time.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/engine/engine.h"
#include "policies/registry.h"

namespace batchflow::test {

class Obedient {
 public:
  static constexpr DatasetId kDataset{1};
  static constexpr PipelineId kPipeline{1};
  static constexpr NodeId kNode{1};
  static constexpr std::uint64_t kSamples = 64;
  static constexpr Bytes kSampleBytes = 64;

  explicit Obedient(Digest pipeline_hash = 9, engine::EngineConfig config = small_blocks())
      : catalogues_(known(pipeline_hash)), engine_(config, policies::policy_list(), catalogues_) {
    send(engine::CatalogueKnown{kDataset, 7});
    send(engine::PipelineKnown{kPipeline, pipeline_hash});
    send(engine::NodeJoined{kNode, 2});
    send(engine::CapacityChanged{{kNode, Tier::dram, 0}, 1 << 20});
    send(engine::WorkerJoined{WorkerId(1), kNode});
    step();
  }
  // Blocks of 8.
  static engine::EngineConfig small_blocks() {
    engine::EngineConfig config;
    config.block_bytes = 8 * kSampleBytes;
    return config;
  }
  static engine::JobJoined job(std::uint32_t id, Order order, std::span<const NodeId> ranks) {
    engine::JobJoined join;
    join.job = JobId(id);
    join.dataset = kDataset;
    join.pipeline = kPipeline;
    join.order = order;
    join.batch_samples = 4;
    join.ranks = ranks;
    return join;
  }

  void send(const engine::Event& event) { next_.push_back(event); }
  // One step; false when there was nothing to tell and no timer to wait for.
  bool step() {
    if (next_.empty() && timer_ == kNever) return false;
    now_ = next_.empty() ? std::max(now_, timer_) : now_ + Duration(1000);
    if (timer_ <= now_) timer_ = kNever;
    std::vector<engine::Event> events;
    events.swap(next_);
    const auto commands = engine_.step(now_, events);
    for (const engine::Promise& promise : engine_.promises()) promises_.push_back(promise);
    for (const engine::Command& command : commands) {
      std::visit([&](const auto& each) { on(each); }, command);
    }
    engine_.check_consistency();
    return true;
  }
  void run(int steps) {
    while (steps-- > 0 && step()) {
    }
  }

  std::map<std::uint32_t, std::uint64_t> delivered;  // batches, by job
  std::map<std::uint32_t, engine::Refuse> refused;   // by job
  const std::vector<engine::Promise>& promises() const { return promises_; }
  engine::Engine& engine() { return engine_; }

 private:
  static engine::Catalogues known(Digest pipeline_hash) {
    engine::Catalogues catalogues;
    catalogues.add(kDataset, engine::Catalogue::uniform("d", 7, kSamples, kSampleBytes));
    engine::PipelineInfo pipeline;
    pipeline.hash = pipeline_hash;
    pipeline.has_random = true;
    pipeline.prepared_bytes = kSampleBytes;
    catalogues.add(kPipeline, pipeline);
    return catalogues;
  }

  template <class Command>
  void on(const Command&) {}
  void on(const engine::Admit& command) {
    const std::uint32_t ranks = ranks_of(command.job);
    for (Rank rank = 0; rank < ranks; ++rank)
      send(engine::BatchWanted{command.job, rank, command.credits});
  }
  void on(const engine::Refuse& command) { refused.emplace(command.job.value, command); }
  void on(const engine::Read& command) { send(engine::ReadDone{command.request, {}, {}}); }
  void on(const engine::Prepare& command) {
    send(engine::PreparationDone{command.request, {}, {}});
  }
  void on(const engine::Transfer& command) { send(engine::TransferDone{command.request, {}}); }
  void on(const engine::SetTimer& command) { timer_ = std::min(timer_, command.at); }
  void on(const engine::Deliver& command) {
    ++delivered[command.job.value];
    send(engine::DeliveryDone{command.request, {}});
    send(engine::BatchConsumed{command.job, command.rank, command.step, Duration(1000)});
    send(engine::SlotReleased{command.job, command.rank, command.step});
    send(engine::BatchWanted{command.job, command.rank, 1});
  }
  // As the engine has promised last.
  std::uint32_t ranks_of(JobId job) const {
    std::size_t ranks = 0;
    for (const engine::Promise& promise : promises_) {
      if (promise.job != job) continue;
      if (promise.kind == engine::Promise::Kind::joined) ranks = promise.join.ranks.size();
      if (promise.kind == engine::Promise::Kind::resized) ranks = promise.ranks.size();
    }
    return static_cast<std::uint32_t>(ranks);
  }

  engine::Catalogues catalogues_;
  engine::Engine engine_;
  Instant now_{};
  Instant timer_ = kNever;
  std::vector<engine::Event> next_;
  std::vector<engine::Promise> promises_;
};

}  // namespace batchflow::test
