// What jobs do with what they are handed: train with a barrier a step, commit, let go.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/order/live_epoch.h"
#include "core/order/permutation.h"
#include "core/order/rehearsal.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

order::Lineage Driver::lineage_of(const Client& client, const engine::Deliver& command,
                                  const order::Slice& slice) const {
  const DatasetPlan& dataset = dataset_of(client);
  const Order of = client.plan.order;
  order::Lineage lineage;
  lineage.dataset = dataset.id;
  lineage.dataset_version = dataset.version;
  lineage.pipeline = client.plan.pipeline;
  for (const PipelinePlan& plan : scenario_.pipelines) {
    if (plan.id == client.plan.pipeline) lineage.pipeline_hash = plan.info.hash;
  }
  // What fills a step of a live order stands in its own blocks.
  const bool of_buffer = slice.rehearsed && of != Order::live;
  const bool from_list = of_buffer || is_chosen(client.plan);
  lineage.order = from_list ? Order::weighted : of == Order::strict ? Order::relaxed : of;
  lineage.seed = client.position.fields().seed;
  const std::uint64_t samples = of == Order::live
                                    ? std::uint64_t{order::kLiveBlocksMost} * command.block_samples
                                : is_drawn(of) ? draws_of(client.plan, dataset)
                                               : dataset.samples;
  const order::LaneSizes sizes =
      of_buffer ? order::Rehearsal::sizes(command.rehearsed_block_samples)
                : order::LaneSizes{samples, command.block_samples, command.lane_blocks};
  lineage.block_samples = sizes.block_samples;
  lineage.lane_blocks = sizes.lane_blocks;
  if (client.plan.runs && !of_buffer) lineage.run_shift = dataset.bundle_shift;
  lineage.name = slice.name;
  if (!of_buffer &&
      (slice.name.lane >= sizes.lanes() || slice.name.block >= sizes.blocks_of(slice.name.lane))) {
    violated("a slice of a block that does not exist");
  }
  lineage.samples = sizes.samples_of(slice.name.lane, slice.name.block);
  if (slice.from >= slice.to || slice.to > lineage.samples) violated("a slice of nothing");
  return lineage;
}

std::vector<Handed> Driver::expand(Client& client, const engine::Deliver& command,
                                   std::vector<std::uint64_t>& tokens) {
  std::vector<Handed> handed;
  std::size_t drawn = 0;  // of the ids that come with draws
  if (command.slices.empty()) violated("a batch of nothing");
  for (const order::Slice& slice : command.slices) {
    const order::Lineage lineage = lineage_of(client, command, slice);
    const std::vector<order::Draw>& contents = machine_.contents(lineage);
    for (std::uint32_t index = slice.from; index < slice.to; ++index) {
      const order::Draw& draw = contents.at(index);
      const SampleId id = draw.sample;
      Handed sample{id, id, slice.name.generation, slice.name.pass, draw.occurrence, slice.filler};
      sample.rehearsed = slice.rehearsed;
      sample.lane = slice.name.lane;
      sample.block = slice.name.block;
      sample.block_samples = lineage.samples;
      if (client.plan.node_local && !slice.rehearsed) {
        const std::uint64_t samples = dataset_of(client).samples;
        const order::LaneSizes sizes{samples, lineage.block_samples, lineage.lane_blocks};
        sample.lane_samples = sizes.samples_of(slice.name.lane);
      }
      sample.index = index;
      if (is_drawn(lineage.order)) {
        if (drawn >= command.samples.size() || command.samples[drawn++] != id) {
          violated("the ids that come with a batch are not those of its blocks");
        }
      }
      for (const order::Replacement& replacement : command.replacements) {
        if (replacement.index != handed.size()) continue;
        if (replacement.corrupt != id || sample.replaced) violated("a replacement out of place");
        sample.used = replacement.used;
        sample.replaced = true;
      }
      tokens.push_back(token(lineage, draw, sample.used));
      handed.push_back(sample);
    }
  }
  if (drawn != command.samples.size()) violated("more ids come with a batch than it has draws");
  return handed;
}

// Of the samples that a policy chose, by the ids that came with the batch.
std::vector<std::uint64_t> Driver::indices_of(const Client& client,
                                              const engine::Deliver& command) const {
  const order::Position::Fields& at = client.position.fields();
  const order::Permutation order(hash(1, at.dataset_version, at.seed, command.epoch), at.samples);
  std::vector<std::uint64_t> indices;
  std::size_t next = 0;
  for (const order::Slice& slice : command.slices) {
    for (std::uint32_t i = slice.from; i < slice.to; ++i, ++next) {
      if (!slice.filler && !slice.rehearsed)
        indices.push_back(order.index_of(command.samples[next].value));
    }
  }
  return indices;
}

void Driver::on(const engine::Deliver& command) {
  Client* client = client_of(command.job);
  if (client == nullptr) violated("a delivery to a job that is not there");
  if (client->state != Client::State::running) return;  // it lost a rank in this very instant
  if (command.rank >= client->ranks.size()) violated("a delivery to no rank");
  if (command.repeats != 0) violated("repeats, though re-use was not asked for");
  const bool listed = client->plan.order == Order::listed;
  if (Held* again = held(*client, command.request.id)) {
    if (again->arrived || command.request.attempt <= again->attempt) {
      violated("a batch is handed over twice");
    }
    again->attempt = command.request.attempt;
  } else {
    Held mine;
    if (listed) {
      deliver_listed(*client, command);
    } else {
      std::vector<std::uint64_t> tokens;
      std::vector<Handed> handed = expand(*client, command, tokens);
      machine_.deliver(command, tokens);
      if (hooks_.handed) hooks_.handed(handed, command.rank, command.step);
      if (hooks_.counted) {
        for (const Handed& one : handed) {
          if (!one.filler && !one.rehearsed) mine.own.push_back(one.visited);
        }
      }
      client->checker->handed(command.rank, command.step, command.epoch, command.last_of_epoch,
                              std::move(handed));
    }
    // A job of a listed order keeps all that it was promised until the last batch is released.
    const std::uint64_t batches = listed ? client->asked.credits * client->nodes.size() : 1;
    mine.room = {client->ranks[command.rank].node, batches * client->asked.slot()};
    mine.request = command.request.id;
    mine.attempt = command.request.attempt;
    mine.job = client->id;
    mine.rank = command.rank;
    mine.step = command.step;
    mine.epoch = command.epoch;
    mine.incarnation = client->incarnation;
    mine.last_of_epoch = command.last_of_epoch;
    mine.slices.assign(command.slices.begin(), command.slices.end());
    mine.block_samples = command.block_samples;
    mine.lane_blocks = command.lane_blocks;
    mine.drawn_from = command.drawn_from;
    mine.rehearses = std::any_of(command.slices.begin(), command.slices.end(),
                                 [](const order::Slice& slice) { return slice.rehearsed; });
    if (!listed && client->position.is_chosen()) mine.indices = indices_of(*client, command);
    client->held.push_back(std::move(mine));
    std::uint32_t outstanding = 0;
    for (const Held& one : client->held) {
      outstanding += one.rank == command.rank && one.incarnation == client->incarnation;
    }
    if (outstanding > client->credits) violated("more batches than the rank has credits");
  }
  delivery_of_[command.request.id.value] = client->index;
  const engine::Request request = command.request;
  start(Kind::deliver, request, drawn(scenario_.timings.deliver),
        [this, request, index = client->index] {
          const bool well = !fails(scenario_.failures.deliver);
          complete(request.id, engine::DeliveryDone{request, well ? engine::Outcome::done
                                                                  : engine::Outcome::failed});
          over_to(index, request.id, well);
        });
}

void Driver::over_to(std::size_t index, RequestId request, bool well) {
  Client& client = clients_[index];
  Held* mine = held(client, request);
  if (mine == nullptr) return;
  const bool current =
      mine->incarnation == client.incarnation && client.state == Client::State::running;
  if (!well && current) {
    // A rank that cannot be reached is as good as dead.
    if (++mine->failures == scenario_.config.delivery_attempts) lose_rank(client, mine->rank);
    return;
  }
  if (!well) {
    let_go(*mine);
    std::erase_if(client.held, [&](const Held& one) { return one.request == request; });
    return;
  }
  mine->arrived = true;
  if (current) return train(index);
  mine->releasing = true;
  after(drawn(client.plan.hold), [this, index, request] { release(index, request); });
}

// Starts what ranks can start: each its next step, once all have finished the one before.
void Driver::train(std::size_t index) {
  Client& client = clients_[index];
  if (client.state != Client::State::running) return;
  if (now_ < client.stopped_until) {
    return after(client.stopped_until - now_, [this, index] { train(index); });
  }
  const bool listed = client.plan.order == Order::listed;
  std::uint64_t least = UINT64_MAX;
  for (const RankState& rank : client.ranks) least = std::min(least, rank.next);
  for (Rank rank = 0; rank < client.ranks.size(); ++rank) {
    RankState& state = client.ranks[rank];
    if (!state.alive || state.training || (!listed && state.next != least)) continue;
    for (const Held& one : client.held) {
      if (one.rank != rank || one.step != state.next || !one.arrived ||
          one.incarnation != client.incarnation) {
        continue;
      }
      state.training = true;
      const Duration compute = drawn(client.plan.compute);
      after(compute, [this, index, rank, incarnation = client.incarnation, compute] {
        trained(index, rank, incarnation, compute);
      });
      break;
    }
  }
}

void Driver::trained(std::size_t index, Rank rank, std::uint64_t incarnation, Duration compute) {
  Client& client = clients_[index];
  if (client.incarnation != incarnation || client.state != Client::State::running) return;
  RankState& state = client.ranks[rank];
  if (!state.alive) return;
  state.training = false;
  const std::uint64_t step = state.next++;
  report(engine::BatchConsumed{client.id, rank, step, compute});
  client.last_progress = now_;
  client.attempts = 0;
  const auto found = std::find_if(client.held.begin(), client.held.end(), [&](const Held& one) {
    return one.rank == rank && one.step == step && one.incarnation == incarnation;
  });
  found->releasing = true;
  after(drawn(client.plan.hold),
        [this, index, request = found->request] { release(index, request); });
  if (client.plan.order == Order::listed) {
    ++client.listed_consumed;
    if (client.listed_consumed >= client.plan.listed_batches) return finish(client);
    return train(index);
  }
  Consumed& consumed = client.consumed[step];
  consumed.batches.resize(client.ranks.size());
  consumed.batches[rank] = *found;
  client.checker->consumed(rank, step);
  report_scores(client, *found);
  if (chance_in_100(client.plan.exemplars_in_100)) report_exemplars(client);
  if (chance_in_100(client.plan.changes_in_100)) ask_for_change(client);
  report_losses(client);
  if (++consumed.ranks == client.ranks.size()) {
    commit(client, step);
    strike_after_steps(client);
  }
  train(index);
}

std::uint64_t Driver::draws_of(const JobPlan& plan, const DatasetPlan& dataset) {
  return plan.draws > 0 ? plan.draws : dataset.samples;
}

// The first step of a weighted epoch; or of the same one again, in a service that does not have the
// scores it was drawn from.
void Driver::enter_draws(Client& client, const Held& first) {
  order::Position& at = client.position;
  if (at.consumed() != 0 && at.fields().weights == first.drawn_from) return;
  const order::Position::Fields& was = at.fields();
  if (at.consumed() != 0) {
    at = order::Position(Order::weighted, was.dataset_version, was.samples, was.seed, was.epoch);
  }
  at.begin_draws(first.drawn_from, draws_of(client.plan, dataset_of(client)));
}

// All ranks have consumed the step: the job's own position moves on.
void Driver::commit(Client& client, std::uint64_t step) {
  const Consumed done = std::move(client.consumed.at(step));
  client.consumed.erase(step);
  order::Position& position = client.position;
  while (done.batches.front().epoch > position.epoch()) position.finish_epoch();
  std::vector<order::Slice> slices;
  std::vector<std::uint64_t> indices;
  for (const Held& one : done.batches) {
    slices.insert(slices.end(), one.slices.begin(), one.slices.end());
    indices.insert(indices.end(), one.indices.begin(), one.indices.end());
  }
  std::sort(indices.begin(), indices.end());
  const Held& first = done.batches.front();
  if (position.order() == Order::relaxed && !position.is_chosen()) {
    const std::uint64_t generation = slices.front().name.generation;
    if (!position.has_generation() || position.lanes().generation != generation) {
      const order::LaneSizes sizes{position.fields().samples, first.block_samples,
                                   first.lane_blocks};
      if (position.consumed() > 0 || sizes.lanes() > order::kLanesMost) {
        violated(
            fmt::format("job {} enters generation {} with blocks of {} and lanes of {} after {} "
                        "samples of epoch {}, of which the last is of generation {}",
                        client.id.value, generation, first.block_samples, first.lane_blocks,
                        position.consumed(), position.epoch(), position.lanes().generation));
      }
      position.begin_generation(generation, first.block_samples, first.lane_blocks);
    }
  }
  if (client.plan.order == Order::weighted) enter_draws(client, first);
  if (!position.rehearse(first.rehearses ? first.drawn_from : 0)) violated("rehearsal of draws");
  const std::string problem = position.apply(slices, indices);
  if (!problem.empty()) violated("a client's position: " + problem);
  if (hooks_.counted) {
    for (const Held& one : done.batches) hooks_.counted(client.index, one.own);
  }
  if (first.last_of_epoch) position.finish_epoch();
  const bool enough =
      client.plan.steps != 0 && client.checker->counts().counted_steps >= client.plan.steps;
  if (position.epoch() == client.plan.epochs || enough) finish(client);
}

void Driver::finish(Client& client) {
  // The engine hears of the last step before it hears of the end.
  client.state = Client::State::done;
  after(us(1), [this, index = client.index, id = client.id, incarnation = client.incarnation] {
    Client& mine = clients_[index];
    if (mine.incarnation != incarnation || mine.id != id) return;
    if (mine.plan.order != Order::listed && mine.plan.steps == 0) mine.checker->finished();
    leave(mine);
    mine.state = Client::State::done;
  });
}

void Driver::on(const engine::MixtureSet& command) {
  Client* client = client_of(command.job);
  if (client == nullptr) violated("new weights for a job that is not there");
  const std::vector<std::uint64_t> parts(command.parts.begin(), command.parts.end());
  if (client->losses) {
    client->losses->changed(client->position.fields().mixing->last_parts(), parts, command.at);
    client->checker->mixture()->changed(command.at, parts);
    const std::string why = client->position.change({command.at, parts, command.soon});
    if (!why.empty()) violated("a client's mixture: " + why);
    return;
  }
  if (client->changes_asked.empty()) violated("new weights that were not asked for");
  const order::MixtureChange asked = client->changes_asked.front();
  client->changes_asked.pop_front();
  if (asked.parts != parts || command.at < asked.at) violated("other weights than asked for");
  client->checker->mixture()->changed(command.at, parts);
  if (command.soon != (command.at > asked.at)) violated("weights that came later than they say");
  const std::string problem = client->position.change({command.at, parts, command.soon});
  if (!problem.empty()) violated("a client's mixture: " + problem);
  client->changes.push_back({command.at, parts});
  ++disturbances_.weight_changes;
}

void Driver::on(const engine::EpochEnded& command) {
  Client* client = client_of(command.job);
  if (client == nullptr) return;
  client->checker->epoch_ended(command.epoch, command.samples);
  if (client->position.epoch() == command.epoch) client->position.finish_epoch();
  if (client->position.epoch() == client->plan.epochs && client->state != Client::State::done) {
    finish(*client);
  }
}

void Driver::release(std::size_t index, RequestId request) {
  Client& client = clients_[index];
  const Held* mine = held(client, request);
  if (mine == nullptr) return;
  const Held gone = *mine;
  let_go(gone);
  std::erase_if(client.held, [&](const Held& one) { return one.request == request; });
  report(engine::SlotReleased{gone.job, gone.rank, gone.step});
  if (gone.incarnation != client.incarnation || client.state != Client::State::running) return;
  if (client.plan.order == Order::listed) return ask_listed(client, gone.rank);
  report(engine::BatchWanted{client.id, gone.rank, 1});
}

}  // namespace batchflow::test
