// What goes wrong in a run, and what the engine's promises are held against.
#include <fmt/format.h>

#include <algorithm>

#include "core/order/keys.h"
#include "core/order/position_json.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

void Driver::plan_faults() {
  for (const Fault& fault : scenario_.faults) {
    if (fault.after_steps == 0) after(fault.when, [this, &fault] { strike(fault); });
  }
}

void Driver::strike(const Fault& fault) {
  if (engine_down_) return;
  Client* client = clients_.empty() ? nullptr : &clients_[fault.number % clients_.size()];
  switch (fault.kind) {
    case Fault::Kind::worker_lost: {
      std::vector<std::uint32_t> alive;
      for (const auto& [id, worker] : workers_) {
        if (worker.alive) alive.push_back(id);
      }
      if (!alive.empty()) lose_worker(alive[fault.number % alive.size()], fault.later);
      return;
    }
    case Fault::Kind::node_lost:
    case Fault::Kind::node_quiesced:
    case Fault::Kind::capacity:
    case Fault::Kind::drive:
    case Fault::Kind::gpu:
      return strike_node(fault);
    case Fault::Kind::rank_abandoned:
      if (client->state != Client::State::running) return;
      return abandon_rank(*client, static_cast<Rank>(fault.number % client->ranks.size()));
    case Fault::Kind::configuration:
      texts_.push_back(fault.text);
      engine::change_setting(config_, fault.text);
      return report(engine::ConfigurationChanged{texts_.back()});
    case Fault::Kind::rank_lost: {
      if (client->state != Client::State::running) return;
      const std::uint64_t incarnation = client->incarnation;
      lose_rank(*client, static_cast<Rank>(fault.number % client->ranks.size()));
      if (fault.ranks.empty() || fault.later > ms(14)) return;
      after(fault.later, [this, &fault, index = client->index, incarnation] {
        if (clients_[index].incarnation != incarnation) return;
        resize(clients_[index], fault.batch_samples, fault.ranks);
      });
      return;
    }
    case Fault::Kind::job_resized:
      if (client->state != Client::State::running) return;
      return resize(*client, fault.batch_samples, fault.ranks);
    case Fault::Kind::job_leaves:
      if (client->state != Client::State::running && client->state != Client::State::degraded) {
        return;
      }
      leave(*client);
      client->listed_sent = client->listed_consumed;
      if (!fault.ranks.empty()) {
        client->nodes = fault.ranks;
        client->batch_samples = fault.batch_samples;
      }
      return rejoin_later(*client, fault.later);
    case Fault::Kind::coordinator_lost:
      if (fault.bytes != 0) config_.block_bytes = fault.bytes;
      return lose_coordinator(fault.later);
    case Fault::Kind::policy:
      texts_.push_back(fault.text);
      return report(engine::PolicyChanged{texts_.back()});
    case Fault::Kind::kept: {
      const auto& datasets = scenario_.datasets;
      return report(engine::DatasetKept{datasets[fault.number % datasets.size()].id,
                                        static_cast<engine::Keep>(fault.number % 3)});
    }
    case Fault::Kind::measured: {
      const auto shares = machine_.decoded_shares();
      if (shares.empty()) return;
      const auto& [dataset, share] = shares[fault.number % shares.size()];
      machine_.measure_decoded(share, fault.bytes);
      return report(engine::DecodedMeasured{dataset, share, fault.bytes});
    }
    case Fault::Kind::rank_stops:
      client->stopped_until = std::max(client->stopped_until, now_ + fault.later);
      return;
    case Fault::Kind::nonsense:
      return talk_nonsense(fault.number);
  }
}

void Driver::strike_node(const Fault& fault) {
  const std::size_t index = fault.number % nodes_.size();
  Node& node = nodes_[index];
  if (fault.kind == Fault::Kind::node_lost) return lose_node(index, fault.later);
  if (!node.up) return;
  if (fault.kind == Fault::Kind::node_quiesced) {
    report(engine::NodeQuiesced{node.plan.id});
    node.rests = true;
    if (fault.later.count() == 0) return;
    return after(fault.later, [this, index, incarnation = node.incarnation] {
      if (nodes_[index].incarnation == incarnation) lose_node(index, ms(5));
    });
  }
  if (fault.kind == Fault::Kind::gpu) {
    const auto gpus = std::max<std::uint64_t>(1, node.plan.gpus.size());
    const auto gpu = static_cast<std::uint16_t>(fault.number / nodes_.size() % gpus);
    return set_capacity({node.plan.id, Tier::gpu, gpu}, fault.bytes);
  }
  const Tier tier = fault.kind == Fault::Kind::drive ? Tier::nvme : Tier::dram;
  const Place place{node.plan.id, tier, 0};
  // What is in use beyond it may stay until it is let go; nothing may be added.
  set_capacity(place, fault.bytes);
}

// The job is not resized: in time all its ranks get their answer.
void Driver::abandon_rank(Client& client, Rank rank) {
  lose_rank(client, rank, false);
  after(config_.rank_timeout + us(1), [this, index = client.index, id = client.id] {
    const Client& mine = clients_[index];
    if (mine.id == id && mine.state == Client::State::degraded) {
      violated("the loss of a rank is never answered");
    }
  });
}

void Driver::strike_after_steps(const Client& client) {
  for (const Fault& fault : scenario_.faults) {
    if (client.index != 0 || fault.after_steps != client.checker->counts().counted_steps) continue;
    if (fault.after_steps != 0) after(us(1), [this, &fault] { strike(fault); });
  }
}

// Events that cannot be: they must change nothing but counters.
void Driver::talk_nonsense(std::uint64_t which) {
  Random random(hash(10, which));
  Client& client = clients_[which % clients_.size()];
  const JobId job = client.state == Client::State::running ? client.id : JobId(1 << 30);
  const JobId unknown(1 << 30);
  const engine::Request request{RequestId(random.draw()),
                                static_cast<std::uint32_t>(random.below(3))};
  report(engine::ReadDone{request, engine::Outcome::done, {}});
  report(engine::PreparationDone{request, engine::Outcome::corrupt, {}});
  report(engine::TransferDone{request, engine::Outcome::done});
  report(engine::DeliveryDone{request, engine::Outcome::failed});
  report(engine::JobLeft{unknown});
  report(engine::RankLost{unknown, 0});
  report(engine::RankLost{job, 1000});
  report(engine::BatchWanted{job, 0, 1'000'000'000});
  report(engine::BatchWanted{job, 0, UINT32_MAX});
  report(engine::BatchWanted{job, 999, 1});
  report(engine::BatchWanted{job, 0, 0});
  report(engine::BatchConsumed{job, 0, UINT64_MAX, Duration(-5)});
  report(engine::BatchConsumed{job, UINT32_MAX, 0, Duration(1)});
  report(engine::SlotReleased{job, 0, UINT64_MAX});
  report(engine::SlotReleased{unknown, 3, 0});
  report(engine::SamplesWanted{job, 0, keep({SampleId(UINT64_MAX)}), {}, {}});
  report(engine::ExemplarsReported{unknown, true, 0, {}, false});
  report(engine::ExemplarsReported{job, false, 0, keep({SampleId(UINT64_MAX)}), false});
  report(engine::ExemplarsReported{job, false, UINT32_MAX, keep({SampleId(0)}), false});
  report(engine::WorkerJoined{WorkerId(UINT32_MAX), NodeId(4'000'000'000)});
  report(engine::WorkerLost{WorkerId(4'000'000'000)});
  report(engine::WorkerQuiesced{WorkerId(4'000'000'000)});
  report(engine::NodeLost{NodeId(4'000'000'000)});
  report(engine::NodeQuiesced{NodeId(4'000'000'000)});
  report(engine::CapacityChanged{{NodeId(4'000'000'000), Tier::dram, 0}, 5});
  report(engine::CatalogueKnown{DatasetId(4'000'000'000), 77});
  report(engine::PipelineKnown{PipelineId(4'000'000'000), 77});
  report(engine::TimerFired{TimerId(UINT64_MAX)});
  report(engine::PolicyChanged{"dispatch=no-such-policy"});
  report(engine::PolicyChanged{"fashion=lru"});
  report(engine::PolicyChanged{""});
  report(engine::ConfigurationChanged{"credits=-1"});
  if (!nodes_.empty() && nodes_.front().up) report(engine::NodeJoined{nodes_.front().plan.id, 3});
}

// The engine is gone with all that agents kept for it; jobs know where they are.
void Driver::lose_coordinator(Duration back_after) {
  // What recovery reads is what was written, cut off in the middle of a record.
  log::RecoveredPromises recovered;
  if (!promise_bytes_.empty()) {
    promise_bytes_.resize(promise_bytes_.size() + 3, std::byte{1});
    recovered = log::recover_promises(promise_bytes_, "promises");
  }
  if (!all_done()) ++disturbances_.services_killed;
  engine_down_ = true;
  ++engine_incarnation_;
  machine_.clear();
  room_.clear();
  running_.clear();
  delivery_of_.clear();
  facts_.clear();
  completions_.clear();
  last_facts_.clear();
  workers_.clear();
  for (Node& node : nodes_) node.up = false;
  for (Client& client : clients_) {
    client.held.clear();
    client.consumed.clear();
    if (client.state == Client::State::done || client.state == Client::State::away) continue;
    const bool has_position = client.plan.order != Order::listed;
    if (has_position && scenario_.from_promises && promised_.count(client.id.value) != 0) {
      client.position = promised_.at(client.id.value);
      const auto& jobs = recovered.promises.jobs();
      const auto found = jobs.find(client.id.value);
      if (found == jobs.end() ||
          order::to_json(found->second.join.position) != order::to_json(client.position)) {
        violated(fmt::format(
            "the promise log has job {} at {}, which was promised {}", client.id.value,
            found == jobs.end() ? "no place" : order::to_json(found->second.join.position),
            order::to_json(client.position)));
      }
      if (found->second.join.ranks != client.nodes ||
          found->second.join.join.batch_samples != client.batch_samples) {
        violated(fmt::format("the promise log has job {} at another size", client.id.value));
      }
    }
    client.listed_sent = client.listed_consumed;
    rejoin_later(client, back_after + drawn(ms(5)));
  }
  kept_promises_ = std::move(recovered.promises);
  promised_.clear();
  promise_log_ = log::PromiseLog(8192);
  promise_bytes_.clear();
  after(back_after, [this] {
    start_engine();
    for (const engine::BufferPromised& one : kept_promises_.buffers_promised()) report(one);
    for (std::size_t i = 0; i < nodes_.size(); ++i) bring_up(i);
  });
}

void Driver::write_promises() {
  for (const engine::Promise& promise : engine_->promises()) promise_log_.add(promise);
  if (promise_log_.snapshot_due()) {
    promise_log_.begin_anew();
    promise_bytes_.clear();
  }
  const auto pending = promise_log_.pending();
  promise_bytes_.insert(promise_bytes_.end(), pending.begin(), pending.end());
  promise_log_.clear_pending();
}

// The engine's promises add up to where the job says it is, once it has heard what epochs ended.
void Driver::note_promises() {
  std::vector<JobId> changed;
  for (const engine::Promise& promise : engine_->promises()) {
    switch (promise.kind) {
      case engine::Promise::Kind::joined:
        promised_[promise.job.value] = promise.join.position;
        continue;
      case engine::Promise::Kind::left:
        promised_.erase(promise.job.value);
        continue;
      case engine::Promise::Kind::resized:
      case engine::Promise::Kind::buffer:
      case engine::Promise::Kind::buffer_gone:
        continue;
      case engine::Promise::Kind::mixture_changed:
        if (!promised_.at(promise.job.value).change(promise.change).empty())
          violated("a promise of weights that cannot be");
        break;
      case engine::Promise::Kind::epoch_finished:
        promised_.at(promise.job.value).finish_epoch();
        break;
      case engine::Promise::Kind::committed: {
        order::Position& position = promised_.at(promise.job.value);
        const std::uint64_t generation = promise.slices.front().name.generation;
        if (position.order() == Order::relaxed && !position.is_chosen() &&
            (!position.has_generation() || position.lanes().generation != generation)) {
          position.begin_generation(generation, promise.sizes.block_samples,
                                    promise.sizes.lane_blocks);
        }
        if (position.order() == Order::weighted)
          position.begin_draws(promise.weights, promise.draws);
        if (!position.rehearse(promise.buffer)) violated("a promise to rehearse draws");
        const std::string problem = position.apply(promise.slices, promise.indices);
        if (!problem.empty()) violated("the promises: " + problem);
      }
    }
    changed.push_back(promise.job);
  }
  for (const JobId job : changed) {
    const Client* client = client_of(job);
    const auto found = promised_.find(job.value);
    if (client == nullptr || client->state != Client::State::running) continue;
    if (found == promised_.end()) continue;
    if (order::to_json(found->second) != order::to_json(client->position)) {
      violated(fmt::format("job {} is promised {} and is at {}", job.value,
                           order::to_json(found->second), order::to_json(client->position)));
    }
  }
}

}  // namespace batchflow::test
