// Sees the batches that the ranks of a simulated world get and what they report as trained on, and
// nothing else. A Checker for each job (tests/driver) proves that each sample comes exactly once an
// epoch.
//
// A job that goes back to a checkpoint has another Checker from there on, which first sees again
// what the job did up to the checkpoint. So each of its lives is proved as a whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/order/keys.h"
#include "core/order/order.h"
#include "core/order/rehearsal.h"
#include "policies/registry.h"
#include "sim/world/world.h"
#include "tests/driver/checker.h"
#include "tests/driver/machine.h"
#include "tests/world/harness.h"

namespace batchflow::test {

class Witness {
 public:
  // `scenario` outlives it; samples are items of it.
  explicit Witness(const input::Scenario& scenario) : scenario_(scenario), workload_(scenario) {
    for (const world::Workload::Data& data : workload_.datasets()) {
      plans_.push_back({data.id, data.version, data.catalogue->samples(), 1, {}});
      plans_.back().bundle_shift = data.catalogue->bundle_shift();
    }
    for (const input::JobModel& model : scenario.jobs) {
      batchflow::test::JobPlan plan;
      plan.order = model.order;
      plan.batch_samples = scenario.item_batch(model);
      plan.drop_last = model.drop_last;
      plan.epochs = model.epochs;
      plan.node_local = model.node_local;
      plan.runs = model.runs;
      plan.rehearsed = scenario.in_items(model, model.rehearsed);
      jobs_.push_back({plan, model, {}, nullptr});
    }
  }

  // Called before the run, with the ids of its jobs.
  void follow(const world::JobIds& ids) { job_ids_ = &ids; }
  // Decides in place of the engine. `spoil` changes what is delivered: a broken engine.
  world::World::EngineStep around(world::World::EngineStep engine,
                                  std::function<void(engine::Deliver&)> spoil = {}) {
    return [this, engine = std::move(engine), spoil](Instant now,
                                                     std::span<const engine::Event> events) {
      for (const engine::Event& event : events) hear(event);
      const auto commands = engine(now, events);
      for (const engine::Command& command : commands) {
        if (const auto* admit = std::get_if<engine::Admit>(&command)) begin(*admit);
        if (const auto* ended = std::get_if<engine::EpochEnded>(&command)) {
          see(job(ended->job), [epoch = ended->epoch, samples = ended->samples](Checker& checker) {
            checker.epoch_ended(epoch, samples);
          });
        }
        if (const auto* order = std::get_if<engine::Deliver>(&command)) {
          engine::Deliver seen = *order;
          if (spoil) spoil(seen);
          if (seen.request.attempt == 0) deliver(seen);
        }
      }
      return commands;
    };
  }
  void end(const output::RunResult& run) {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (run.jobs[i].state == "done") jobs_[i].checker->finished();
    }
  }

 private:
  using Checker = batchflow::test::Checker;
  using Sight = std::function<void(Checker&)>;
  struct Job {
    batchflow::test::JobPlan plan;
    const input::JobModel& model;
    order::KeyRoot root;
    std::unique_ptr<Checker> checker;
    std::vector<NodeId> nodes = {};  // of its ranks
    std::vector<SampleId> buffer = {};
    std::vector<Sight> seen = {};  // of a job with checkpoints, in this life and before
  };

  Job& job(JobId id) { return jobs_[job_ids_->index_of(id)]; }
  static void see(Job& job, Sight sight) {
    sight(*job.checker);
    if (job.model.checkpoint.every > 0) job.seen.push_back(std::move(sight));
  }
  // What the job did until it was at that position.
  static void see_again(Job& job, const order::Position* position) {
    std::vector<Sight> before;
    before.swap(job.seen);
    if (position == nullptr) return;
    const auto arrived = [&] {
      return std::pair(job.checker->epoch(), job.checker->in_epoch()) ==
             std::pair(position->epoch(), position->consumed());
    };
    for (Sight& sight : before) {
      if (arrived()) return;
      see(job, std::move(sight));
    }
    if (!arrived()) batchflow::test::violated("a job goes back to where it has not been");
  }

  void hear(const engine::Event& event) {
    if (const auto* join = std::get_if<engine::JobJoined>(&event)) joined(*join);
    if (const auto* resized = std::get_if<engine::JobResized>(&event)) {
      job(resized->job).nodes.assign(resized->ranks.begin(), resized->ranks.end());
    }
    if (const auto* reported = std::get_if<engine::ExemplarsReported>(&event)) {
      std::vector<SampleId>& buffer = job(reported->job).buffer;
      if (reported->anew) buffer.clear();
      buffer.insert(buffer.end(), reported->samples.begin(), reported->samples.end());
      if (!reported->more) {
        see(job(reported->job),
            [buffer](Checker& checker) { checker.rehearsal().reported(buffer); });
      }
    }
    if (const auto* done = std::get_if<engine::BatchConsumed>(&event)) {
      see(job(done->job), [rank = done->rank, step = done->step](Checker& checker) {
        checker.consumed(rank, step);
      });
    }
    // A sample that is corrupt is corrupt from the first report on, for all jobs.
    if (const auto* done = std::get_if<engine::PreparationDone>(&event)) {
      for (const SampleId sample : done->failed) plans_[0].corrupt.push_back(sample);
    }
  }
  void joined(const engine::JobJoined& event) {
    Job& job = this->job(event.job);
    const auto& plan = plans_[event.dataset.value - 1];
    const bool fixed = event.order == Order::strict || event.order == Order::sequential;
    const bool own = event.order == Order::weighted && !scenario_.engine.share_streams;
    const std::uint64_t seed = event.has_shuffle_seed ? hash(1, event.shuffle_seed)
                               : fixed                ? 0
                               : own                  ? hash(3, event.user, event.job.value)
                                                      : hash(2, event.user);
    if (event.position == nullptr)
      job.root = {plan.version, event.runs ? hash(8, seed, plan.bundle_shift) : seed};
    job.nodes.assign(event.ranks.begin(), event.ranks.end());
    job.checker = std::make_unique<Checker>(job.plan, plan);
    job.checker->begins(job.root.seed);
    see_again(job, event.position);
    see(job, [](Checker& checker) { checker.rehearsal().joined(); });
  }
  void begin(const engine::Admit& order) {
    Job& job = this->job(order.job);
    const bool anew = order.job.value >= jobs_.size();
    see(job, [nodes = job.nodes, batch = job.plan.batch_samples, anew](Checker& checker) {
      checker.began(nodes, batch, anew);
    });
  }
  void deliver(const engine::Deliver& order) {
    Job& job = this->job(order.job);
    const auto& plan = plans_[static_cast<std::size_t>(job.model.dataset)];
    std::vector<batchflow::test::Handed> handed;
    auto drawn = order.samples.begin();
    for (const order::Slice& slice : order.slices) {
      if (slice.rehearsed) {
        const order::LaneSizes sizes = order::Rehearsal::sizes(order.rehearsed_block_samples);
        const std::uint64_t first =
            (std::uint64_t{slice.name.lane} * sizes.lane_blocks + slice.name.block) *
            sizes.block_samples;
        for (std::uint32_t index = slice.from; index < slice.to; ++index) {
          if (drawn == order.samples.end()) batchflow::test::violated("a draw without its id");
          batchflow::test::Handed one{*drawn, *drawn, slice.name.generation, 0, first + index};
          one.rehearsed = true;
          handed.push_back(one);
          ++drawn;
        }
        continue;
      }
      const order::LaneSizes sizes{plan.samples, order.block_samples, order.lane_blocks};
      const Order family = job.plan.order == Order::strict ? Order::relaxed : job.plan.order;
      const order::GenerationOrder generation{family, job.root, slice.name.generation, sizes,
                                              job.plan.runs ? plan.bundle_shift : std::uint8_t{0}};
      const order::Lineage lineage = generation.lineage(slice.name, plan.id, PipelineId(1), 0);
      if (!order::valid_lineage(lineage, plan.samples) || slice.to > lineage.samples) {
        batchflow::test::violated("a slice of a block that does not exist");
      }
      expander_.expand(lineage, plan.samples, slice.from, slice.to, ids_);
      for (std::size_t i = 0; i < ids_.size(); ++i) {
        batchflow::test::Handed one{ids_[i], ids_[i], slice.name.generation, slice.name.pass};
        one.filler = slice.filler;
        one.lane = slice.name.lane;
        one.block = slice.name.block;
        one.block_samples = lineage.samples;
        one.lane_samples = sizes.samples_of(slice.name.lane);
        one.index = slice.from + static_cast<std::uint32_t>(i);
        handed.push_back(one);
      }
    }
    for (const order::Replacement& one : order.replacements) {
      handed.at(one.index).used = one.used;
      handed.at(one.index).replaced = true;
    }
    see(job, [rank = order.rank, step = order.step, epoch = order.epoch, last = order.last_of_epoch,
              handed = std::move(handed)](Checker& checker) {
      checker.handed(rank, step, epoch, last, handed);
    });
  }

  const input::Scenario& scenario_;
  world::Workload workload_;
  std::vector<batchflow::test::DatasetPlan> plans_;
  std::vector<Job> jobs_;
  const world::JobIds* job_ids_ = nullptr;
  order::Expander expander_;
  std::vector<SampleId> ids_;
};

// A run checked by a witness: its result, or what went wrong.
struct Watched {
  std::string violation;
  output::RunResult run;
};
inline Watched simulate_watched(const input::Scenario& scenario,
                                const std::function<void(engine::Deliver&)>& spoil = {}) {
  const std::string text = in_child([&]() -> std::string {
    Witness witness(scenario);
    world::World world(scenario, policies::policy_list(), {});
    witness.follow(world.job_ids());
    world.decide_by(witness.around(
        [&](Instant now, std::span<const engine::Event> events) {
          const auto commands = world.engine().step(now, events);
          world.engine().check_consistency();
          return commands;
        },
        spoil));
    try {
      const output::RunResult run = world.run();
      witness.end(run);
      return output::encode_run(run);
    } catch (const batchflow::test::Violation& violation) {
      return std::string("violation: ") + violation.what();
    }
  });
  if (text.rfind("violation: ", 0) == 0) return {text, {}};
  return {"", output::decode_run(text)};
}

}  // namespace batchflow::test
