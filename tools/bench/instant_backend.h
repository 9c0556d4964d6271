// A backend that carries out every command at once, or preparations after some steps, and with
// ranks that train in no time: what is left is the cost of the engine. The engine's benchmarks use
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "core/engine/engine.h"

namespace batchflow::bench {

class InstantBackend {
 public:
  struct Job {
    JobId id;
    Order order = Order::relaxed;
    std::uint32_t batch_samples = 1;
    std::uint32_t ranks = 1;
    std::uint32_t credits = 2;
    std::uint64_t seed = 0;  // 0: none
    const order::Position* position = nullptr;
  };

  InstantBackend(engine::Engine& engine, DatasetId dataset, Digest version, PipelineId pipeline,
                 Digest pipeline_hash)
      : engine_(engine), dataset_(dataset), pipeline_(pipeline) {
    next_.push_back(engine::CatalogueKnown{dataset, version});
    next_.push_back(engine::PipelineKnown{pipeline, pipeline_hash});
  }

  void node(NodeId node, std::uint32_t workers, Bytes dram) {
    next_.push_back(engine::NodeJoined{node, workers});
    next_.push_back(engine::CapacityChanged{{node, Tier::dram, 0}, dram});
    for (std::uint32_t i = 0; i < workers; ++i)
      next_.push_back(engine::WorkerJoined{WorkerId(i), node});
    step();
  }

  void join(const Job& job, NodeId node) {
    const std::vector<NodeId> ranks(job.ranks, node);
    add_join(job, ranks);
    step();
    ask(job);
  }
  // For the next step. REQUIRES: `ranks` is there until then.
  void add_join(const Job& job, std::span<const NodeId> ranks) {
    engine::JobJoined event;
    event.job = job.id;
    event.dataset = dataset_;
    event.pipeline = pipeline_;
    event.order = job.order;
    event.batch_samples = job.batch_samples;
    event.credits = job.credits;
    event.has_shuffle_seed = job.seed != 0;
    event.shuffle_seed = job.seed;
    event.position = job.position;
    event.ranks = ranks;
    next_.push_back(event);
  }
  void ask(const Job& job) {
    for (Rank rank = 0; rank < job.ranks; ++rank) {
      next_.push_back(engine::BatchWanted{job.id, rank, job.credits});
    }
  }

  // A block is made so many steps after its command.
  void prepare_for(std::uint64_t steps) { preparation_steps_ = steps; }

  // One step of the engine with all that the last one caused; false when nothing is left to do.
  bool step() {
    now_ += Duration(1000);
    const auto taken =
        next_.begin() + static_cast<std::ptrdiff_t>(engine::events_of_one_step(next_));
    current_.assign(next_.begin(), taken);
    next_.erase(next_.begin(), taken);
    for (; !made_.empty() && made_.front().first <= steps_; made_.pop_front()) {
      current_.push_back(made_.front().second);
    }
    if (current_.empty() && made_.empty()) return false;
    for (const engine::Command& command : engine_.step(Instant(now_), current_)) {
      std::visit([&](const auto& each) { carry_out(each); }, command);
    }
    ++steps_;
    return true;
  }

  void add(const engine::Event& event) { next_.push_back(event); }
  std::uint64_t deliveries() const { return deliveries_; }
  std::uint64_t refusals() const { return refusals_; }
  std::uint64_t drops() const { return drops_; }
  // The samples that the last delivery lists.
  std::uint64_t last_drawn() const { return drawn_; }
  std::uint64_t steps() const { return steps_; }

 private:
  template <class Command>
  void carry_out(const Command&) {}
  void carry_out(const engine::Read& command) {
    next_.push_back(engine::ReadDone{command.request, {}, {}});
  }
  void carry_out(const engine::Prepare& command) {
    const engine::PreparationDone done{command.request, {}, {}};
    if (preparation_steps_ == 0) return next_.push_back(done);
    made_.push_back({steps_ + preparation_steps_, done});
  }
  void carry_out(const engine::Transfer& command) {
    next_.push_back(engine::TransferDone{command.request, {}});
  }
  void carry_out(const engine::SetTimer& command) {
    next_.push_back(engine::TimerFired{command.timer});
  }
  void carry_out(const engine::Refuse&) { ++refusals_; }
  void carry_out(const engine::Drop&) { ++drops_; }
  void carry_out(const engine::Deliver& command) {
    ++deliveries_;
    drawn_ = command.samples.size();
    next_.push_back(engine::DeliveryDone{command.request, {}});
    next_.push_back(engine::BatchConsumed{command.job, command.rank, command.step, Duration(1000)});
    next_.push_back(engine::SlotReleased{command.job, command.rank, command.step});
    next_.push_back(engine::BatchWanted{command.job, command.rank, 1});
  }

  engine::Engine& engine_;
  DatasetId dataset_;
  PipelineId pipeline_;
  Duration now_{0};
  std::vector<engine::Event> current_;
  std::vector<engine::Event> next_;
  std::uint64_t deliveries_ = 0;
  std::uint64_t refusals_ = 0;
  std::uint64_t drops_ = 0;
  std::uint64_t drawn_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t preparation_steps_ = 0;
  std::deque<std::pair<std::uint64_t, engine::Event>> made_;  // and when that is reported
};

}  // namespace batchflow::bench
