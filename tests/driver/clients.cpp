// The jobs of a run: ranks with credits and a barrier a step, and a position to go on from.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/keys.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

const DatasetPlan& Driver::dataset_of(const Client& client) const {
  for (const DatasetPlan& plan : scenario_.datasets) {
    if (plan.id == client.plan.dataset) return plan;
  }
  violated("a job of a dataset that is not in the scenario");
}

// The seed groups of the order rules.
std::uint64_t Driver::seed_of(const JobPlan& plan) const {
  if (plan.has_shuffle_seed) return hash(1, plan.shuffle_seed);
  const bool fixed = plan.order == Order::strict || plan.order == Order::sequential;
  return fixed ? 0 : hash(2, plan.user);
}

Driver::Client* Driver::client_of(JobId id) {
  const auto found = client_of_.find(id.value);
  if (found == client_of_.end()) return nullptr;
  Client& client = clients_[found->second];
  return client.id == id ? &client : nullptr;
}

Driver::Held* Driver::held(Client& client, RequestId request) {
  for (Held& one : client.held) {
    if (one.request == request) return &one;
  }
  return nullptr;
}

bool Driver::nodes_up(const std::vector<NodeId>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](NodeId id) { return node_of(id) != nullptr && node_of(id)->up; });
}

// --------------------------------------------------------------------------- joining and leaving
// ----

void Driver::join(std::size_t index) {
  Client& client = clients_[index];
  if (client.state != Client::State::away) return;
  if (engine_down_ || !nodes_up(client.nodes)) return rejoin_later(client, ms(10));
  client.id = JobId(next_job_++);
  client_of_[client.id.value] = index;
  client.state = Client::State::joining;
  ++client.incarnation;
  JobJoined event;
  event.job = client.id;
  event.user = client.plan.user;
  event.dataset = client.plan.dataset;
  event.pipeline = client.plan.pipeline;
  event.order = client.plan.order;
  event.has_shuffle_seed = client.plan.has_shuffle_seed;
  event.shuffle_seed = client.plan.shuffle_seed;
  event.batch_samples = client.batch_samples;
  event.drop_last = client.plan.drop_last;
  event.epochs = client.plan.epochs_told ? client.plan.epochs : 0;
  event.credits = client.plan.credits;
  event.draws = client.plan.draws;
  event.multinomial = client.plan.multinomial;
  client.joins_anew = true;
  node_lists_.push_back(client.nodes);
  event.ranks = node_lists_.back();
  positions_.push_back(client.position);
  const bool fresh = client.position.epoch() == 0 && client.position.consumed() == 0;
  if (!fresh && client.plan.order != Order::listed) event.position = &positions_.back();
  report(event);
}

void Driver::rejoin_later(Client& client, Duration delay) {
  client.state = Client::State::away;
  client.id = JobId::none();
  ++client.incarnation;
  client.ranks.clear();
  after(delay, [this, index = client.index] { join(index); });
}

void Driver::leave(Client& client) {
  report(JobLeft{client.id});
  let_all_go(client, true);
  client.state = Client::State::away;
  ++client.incarnation;
}

// Every rank that has a batch lets go of it: at once, or when its device is done.
void Driver::let_all_go(Client& client, bool at_once) {
  if (at_once) {
    for (const Held& one : client.held) machine_.let_go(one.request);
    client.held.clear();
    return;
  }
  for (Held& one : client.held) {
    if (one.releasing || !one.arrived) continue;
    one.releasing = true;
    after(drawn(client.plan.hold),
          [this, index = client.index, request = one.request] { release(index, request); });
  }
}

void Driver::on(const Admit& order) {
  Client* client = client_of(order.job);
  if (client == nullptr) return;  // it has left meanwhile
  if (client->state != Client::State::joining) violated("a job is admitted that did not ask");
  client->state = Client::State::running;
  client->credits = order.credits;
  client->attempts = 0;
  client->ranks.assign(client->nodes.size(), {});
  client->consumed.clear();
  client->checker->began(client->nodes.size(), client->batch_samples,
                         std::exchange(client->joins_anew, false));
  for (Rank rank = 0; rank < client->ranks.size(); ++rank) {
    client->ranks[rank].node = client->nodes[rank];
    client->ranks[rank].next = order.first_step;
    if (client->plan.order == Order::listed) {
      for (std::uint32_t i = 0; i < order.credits; ++i) ask_listed(*client, rank);
    } else {
      report(BatchWanted{client->id, rank, order.credits});
    }
  }
  if (!facts_.empty()) after(us(1), [] {});
}

void Driver::on(const Refuse& order) {
  Client* client = client_of(order.job);
  if (client == nullptr) return;
  ++refusals_;
  let_all_go(*client, false);
  if (client->state == Client::State::done) return;  // it was about to leave
  const bool alone = std::none_of(clients_.begin(), clients_.end(), [&](const Client& other) {
    return other.index != client->index &&
           (other.state == Client::State::joining || other.state == Client::State::running ||
            other.state == Client::State::degraded);
  });
  switch (order.why) {
    case Refusal::no_room:
      if (order.needed <= order.available) violated("a refusal for want of room there is");
      break;
    case Refusal::bad_request:
      if (!can_be_asked_for(*client)) {
        client->batch_samples = client->plan.batch_samples;
        client->nodes = client->plan.ranks;
        if (can_be_asked_for(*client)) break;
        client->state = Client::State::done;  // it asks for what nobody can have
        return;
      }
      if (nodes_up(client->nodes)) violated("a join is called a bad request");
      break;
    case Refusal::nothing_to_draw:
      if (!client->checker->may_have_nothing_to_draw()) violated("a job that could draw may not");
      break;
    case Refusal::unknown_dataset:
    case Refusal::unknown_pipeline:
    case Refusal::bad_position:
      violated(fmt::format("a join is refused for reason {}", static_cast<int>(order.why)));
    default:
      break;
  }
  client->attempts += alone || order.why != Refusal::no_room ? 1 : 0;
  rejoin_later(*client, ms(20));
  if (client->attempts < 10) return;
  ++without_room_;
  client->state = Client::State::done;
}

// An epoch that leaves out its tail must have a step besides.
bool Driver::can_be_asked_for(const Client& client) const {
  const DatasetPlan& dataset = dataset_of(client);
  const std::uint64_t epoch =
      client.plan.order == Order::weighted ? draws_of(client.plan, dataset) : dataset.samples;
  return !client.plan.drop_last || client.nodes.size() * client.batch_samples <= epoch;
}

// ----------------------------------------------------------------------------------- batches ----

std::vector<Handed> Driver::expand(Client& client, const Deliver& order,
                                   std::vector<std::uint64_t>& tokens) {
  const DatasetPlan& dataset = dataset_of(client);
  const bool weighted = client.plan.order == Order::weighted;
  Lineage lineage;
  lineage.dataset = dataset.id;
  lineage.dataset_version = dataset.version;
  lineage.pipeline = client.plan.pipeline;
  for (const PipelinePlan& plan : scenario_.pipelines) {
    if (plan.id == client.plan.pipeline) lineage.pipeline_hash = plan.info.hash;
  }
  lineage.order = client.plan.order == Order::strict ? Order::relaxed : client.plan.order;
  lineage.seed = seed_of(client.plan);
  lineage.block_samples = order.block_samples;
  lineage.lane_blocks = order.lane_blocks;
  const std::uint64_t samples = weighted ? draws_of(client.plan, dataset) : dataset.samples;
  const LaneSizes sizes{samples, order.block_samples, order.lane_blocks};
  std::vector<Handed> handed;
  if (order.slices.empty()) violated("a batch of nothing");
  for (const Slice& slice : order.slices) {
    lineage.name = slice.name;
    if (slice.name.lane >= sizes.lanes() || slice.name.block >= sizes.blocks_of(slice.name.lane)) {
      violated("a slice of a block that does not exist");
    }
    lineage.samples = sizes.samples_of(slice.name.lane, slice.name.block);
    if (slice.from >= slice.to || slice.to > lineage.samples) violated("a slice of nothing");
    const std::vector<Draw>& contents = machine_.contents(lineage);
    for (std::uint32_t place = slice.from; place < slice.to; ++place) {
      const Draw& draw = contents.at(place);
      const SampleId id = draw.sample;
      Handed sample{id,           id,   slice.name.generation, slice.name.pass, draw.occurrence,
                    slice.filler, false};
      if (weighted &&
          (handed.size() >= order.samples.size() || order.samples[handed.size()] != id)) {
        violated("the ids that come with a batch are not those of its blocks");
      }
      for (const Replacement& replacement : order.replacements) {
        if (replacement.place != handed.size()) continue;
        if (replacement.corrupt != id || sample.replaced) violated("a replacement out of place");
        sample.used = replacement.used;
        sample.replaced = true;
      }
      tokens.push_back(token(lineage, draw, sample.used));
      handed.push_back(sample);
    }
  }
  return handed;
}

void Driver::on(const Deliver& order) {
  Client* client = client_of(order.job);
  if (client == nullptr) violated("a delivery to a job that is not there");
  if (client->state != Client::State::running) return;  // it lost a rank in this very instant
  if (order.rank >= client->ranks.size()) violated("a delivery to no rank");
  if (order.repeats != 0) violated("repeats, though nobody asked for re-use");
  const bool listed = client->plan.order == Order::listed;
  if (Held* again = held(*client, order.request.id)) {
    if (again->arrived || order.request.attempt <= again->attempt) {
      violated("a batch is handed over twice");
    }
    again->attempt = order.request.attempt;
  } else {
    Held mine;
    if (listed) {
      deliver_listed(*client, order);
    } else {
      std::vector<std::uint64_t> tokens;
      std::vector<Handed> handed = expand(*client, order, tokens);
      machine_.deliver(order, tokens);
      if (hooks_.handed) hooks_.handed(handed, order.rank, order.step);
      client->checker->handed(order.rank, order.step, order.epoch, order.last_of_epoch,
                              std::move(handed));
    }
    mine.request = order.request.id;
    mine.attempt = order.request.attempt;
    mine.job = client->id;
    mine.rank = order.rank;
    mine.step = order.step;
    mine.epoch = order.epoch;
    mine.incarnation = client->incarnation;
    mine.last_of_epoch = order.last_of_epoch;
    mine.slices.assign(order.slices.begin(), order.slices.end());
    mine.block_samples = order.block_samples;
    mine.lane_blocks = order.lane_blocks;
    mine.weights = order.weights;
    client->held.push_back(std::move(mine));
    std::uint32_t outstanding = 0;
    for (const Held& one : client->held) {
      outstanding += one.rank == order.rank && one.incarnation == client->incarnation;
    }
    if (outstanding > client->credits) violated("more batches than the rank has credits");
  }
  delivery_of_[order.request.id.value] = client->index;
  const Request request = order.request;
  start(Kind::deliver, request, drawn(scenario_.timings.deliver),
        [this, request, index = client->index] {
          const bool well = !fails(scenario_.failures.deliver);
          complete(request.id, DeliveryDone{request, well ? Outcome::done : Outcome::failed});
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
    machine_.let_go(request);
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
  report(BatchConsumed{client.id, rank, step, compute});
  client.last_progress = now_;
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
  if (++consumed.ranks == client.ranks.size()) {
    commit(client, step);
    strike_after_steps(client);
  }
  train(index);
}

// A rank that trained on a batch may say how much its samples are worth. Some of what it says makes
// no sense.
void Driver::report_scores(Client& client, const Held& batch) {
  if (!chance_in_100(client.plan.scores_in_100)) return;
  constexpr float kScores[] = {0, 0.25F, 1, 1, 2, 3, 50, -1, 1e-9F, 1e30F, INFINITY, NAN};
  std::vector<Score> scores;
  for (std::uint64_t i = 1 + random_.below(6); i > 0; --i) {
    const SampleId sample(random_.below(dataset_of(client).samples));
    scores.push_back({sample, kScores[random_.below(std::size(kScores))]});
  }
  if (random_.below(20) == 0) scores.push_back({SampleId(UINT64_MAX - random_.below(3)), 1});
  for (const Score& score : scores) client.checker->scored(score.sample, score.value);
  score_lists_.push_back(std::move(scores));
  report(ScoresReported{batch.job, score_lists_.back()});
}

std::uint64_t Driver::draws_of(const JobPlan& plan, const DatasetPlan& dataset) {
  return plan.draws > 0 ? plan.draws : dataset.samples;
}

// The first step of a weighted epoch; or of the same one again, in a service that does not have the
// scores it was drawn from.
void Driver::enter_draws(Client& client, const Held& first) {
  Position& at = client.position;
  if (at.consumed() != 0 && at.fields().weights == first.weights) return;
  const Position::Fields& was = at.fields();
  if (at.consumed() != 0) {
    at = Position(Order::weighted, was.dataset_version, was.samples, was.seed, was.epoch);
  }
  at.begin_draws(first.weights, draws_of(client.plan, dataset_of(client)));
}

// All ranks have consumed the step: the job's own position moves on.
void Driver::commit(Client& client, std::uint64_t step) {
  const Consumed done = std::move(client.consumed.at(step));
  client.consumed.erase(step);
  Position& position = client.position;
  while (done.batches.front().epoch > position.epoch()) position.finish_epoch();
  std::vector<Slice> slices;
  for (const Held& one : done.batches) {
    slices.insert(slices.end(), one.slices.begin(), one.slices.end());
  }
  const Held& first = done.batches.front();
  if (client.plan.order == Order::relaxed) {
    const std::uint64_t generation = slices.front().name.generation;
    if (!position.has_generation() || position.lanes().generation != generation) {
      position.begin_generation(generation, first.block_samples, first.lane_blocks);
    }
  }
  if (client.plan.order == Order::weighted) enter_draws(client, first);
  const std::string problem = position.apply(slices);
  if (!problem.empty()) violated("a client's position: " + problem);
  if (first.last_of_epoch) position.finish_epoch();
  if (position.epoch() == client.plan.epochs) finish(client);
}

void Driver::finish(Client& client) {
  // The engine hears of the last step before it hears of the end.
  client.state = Client::State::done;
  after(us(1), [this, index = client.index, id = client.id, incarnation = client.incarnation] {
    Client& mine = clients_[index];
    if (mine.incarnation != incarnation || mine.id != id) return;
    if (mine.plan.order != Order::listed) mine.checker->finished();
    leave(mine);
    mine.state = Client::State::done;
  });
}

void Driver::on(const EpochEnded& order) {
  Client* client = client_of(order.job);
  if (client == nullptr) return;
  client->checker->epoch_ended(order.epoch, order.samples);
  if (client->position.epoch() == order.epoch) client->position.finish_epoch();
  if (client->position.epoch() == client->plan.epochs && client->state != Client::State::done) {
    finish(*client);
  }
}

void Driver::release(std::size_t index, RequestId request) {
  Client& client = clients_[index];
  const Held* mine = held(client, request);
  if (mine == nullptr) return;
  const Held gone = *mine;
  machine_.let_go(request);
  std::erase_if(client.held, [&](const Held& one) { return one.request == request; });
  report(SlotReleased{gone.job, gone.rank, gone.step});
  if (gone.incarnation != client.incarnation || client.state != Client::State::running) return;
  if (client.plan.order == Order::listed) return ask_listed(client, gone.rank);
  report(BatchWanted{client.id, gone.rank, 1});
}

// ------------------------------------------------------------------------------- listed orders
// ----

void Driver::ask_listed(Client& client, Rank rank) {
  if (client.listed_sent >= client.plan.listed_batches) return;
  ++client.listed_sent;
  std::vector<SampleId> samples;
  for (std::uint32_t i = 0; i < client.batch_samples; ++i) {
    samples.emplace_back(random_.below(dataset_of(client).samples));
  }
  client.ranks[rank].asked.push_back(samples);
  report(SamplesWanted{client.id, rank, keep(std::move(samples)), {}, {}});
}

void Driver::deliver_listed(Client& client, const Deliver& order) {
  machine_.deliver_stored(order, client.plan.dataset);
  RankState& rank = client.ranks[order.rank];
  const std::size_t at = order.step - rank.next;
  if (order.step < rank.next || at >= rank.asked.size() + 8) violated("a batch nobody asked for");
  const auto& asked = rank.asked;
  bool found = false;
  for (const auto& samples : asked) {
    found = found || std::equal(samples.begin(), samples.end(), order.ingredients.begin(),
                                order.ingredients.end(), [](SampleId id, const Ingredient& one) {
                                  return one.sample == id;
                                });
  }
  if (!found) violated("a listed batch that is not what was asked for");
}

// -------------------------------------------------------------------------------------- losses
// ----

void Driver::lose_rank(Client& client, Rank rank, bool resized_later) {
  if (client.state != Client::State::running || !client.ranks[rank].alive) return;
  report(RankLost{client.id, rank});
  client.state = Client::State::degraded;
  client.ranks[rank].alive = false;
  client.consumed.clear();
  std::erase_if(client.held, [&](const Held& one) {
    if (one.rank != rank || one.incarnation != client.incarnation) return false;
    machine_.let_go(one.request);
    return true;
  });
  let_all_go(client, false);
  if (client.plan.order == Order::listed) {
    const std::uint64_t incarnation = client.incarnation;
    after(ms(5), [this, index = client.index, incarnation] {
      Client& mine = clients_[index];
      if (mine.incarnation != incarnation) return;
      mine.listed_sent = mine.listed_consumed;
      leave(mine);
      rejoin_later(mine, ms(5));
    });
    return;
  }
  if (!resized_later) return;
  // By default it goes on as it was once that can be; faults may say otherwise.
  after(ms(15), [this, index = client.index, incarnation = client.incarnation] {
    Client& mine = clients_[index];
    if (mine.incarnation != incarnation || mine.state != Client::State::degraded) return;
    resize(mine, mine.batch_samples, mine.nodes);
  });
}

void Driver::resize(Client& client, std::uint32_t batch_samples, std::vector<NodeId> nodes) {
  if (client.state != Client::State::degraded && client.state != Client::State::running) return;
  if (client.plan.order == Order::listed) return;
  if (engine_down_ || !nodes_up(nodes)) {
    after(ms(10),
          [this, index = client.index, batch_samples, nodes, incarnation = client.incarnation] {
            if (clients_[index].incarnation == incarnation)
              resize(clients_[index], batch_samples, nodes);
          });
    return;
  }
  let_all_go(client, false);
  client.batch_samples = batch_samples;
  client.nodes = std::move(nodes);
  client.ranks.clear();
  client.consumed.clear();
  ++client.incarnation;
  client.state = Client::State::joining;
  node_lists_.push_back(client.nodes);
  report(JobResized{client.id, batch_samples, node_lists_.back()});
}

// A node is gone, and the ranks on it.
void Driver::check_rank_nodes(std::size_t node) {
  for (Client& client : clients_) {
    if (client.state == Client::State::joining) {
      const NodeId id = nodes_[node].plan.id;
      if (std::find(client.nodes.begin(), client.nodes.end(), id) == client.nodes.end()) continue;
      leave(client);
      rejoin_later(client, ms(10));
      continue;
    }
    for (Rank rank = 0; rank < client.ranks.size(); ++rank) {
      if (client.ranks[rank].node != nodes_[node].plan.id) continue;
      lose_rank(client, rank);
      std::erase_if(client.held, [&](const Held& one) {
        if (one.rank != rank || one.incarnation != client.incarnation) return false;
        machine_.let_go(one.request);
        return true;
      });
    }
  }
}

}  // namespace batchflow::test
