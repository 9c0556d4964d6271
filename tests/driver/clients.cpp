// The jobs of a run: ranks that join, leave, are lost and change in number, and a position to go on
// from.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/config_value.h"
#include "core/order/keys.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

const DatasetPlan& Driver::dataset_of(const Client& client) const {
  for (const DatasetPlan& plan : scenario_.datasets) {
    if (plan.id == client.plan.dataset) return plan;
  }
  violated("a job of a dataset that is not in the scenario");
}

// The seed groups of the order rules. Where nothing is shared a weighted job has its own.
std::uint64_t Driver::seed_of(const Client& client) const {
  const JobPlan& plan = client.plan;
  const bool fixed = plan.order == Order::strict || plan.order == Order::sequential ||
                     plan.order == Order::mixed || plan.order == Order::live;
  const bool own = plan.order == Order::weighted && !config_.share_streams;
  const std::uint64_t seed = plan.has_shuffle_seed ? hash(1, plan.shuffle_seed)
                             : fixed               ? 0
                             : own                 ? hash(3, plan.user, client.id.value)
                                                   : hash(2, plan.user);
  if (is_chosen(plan)) return hash(9, seed, client.id.value);
  return plan.runs ? hash(8, seed, dataset_of(client).bundle_shift) : seed;
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

// --------------------------------------------------------------------- sources that grow ----

void Driver::plan_arrivals() {
  for (std::size_t i = 0; i < scenario_.datasets.size(); ++i) {
    const auto& arrivals = scenario_.datasets[i].arrivals;
    for (std::size_t at = 0; at < arrivals.size(); ++at)
      after(arrivals[at].when, [this, i, at] { arrives(i, at); });
  }
}

void Driver::arrives(std::size_t dataset, std::size_t arrival) {
  const DatasetPlan& plan = scenario_.datasets[dataset];
  Source& source = sources_[plan.id.value];
  source.end = std::max(source.end, plan.arrivals[arrival].end);
  source.ended = plan.ends && arrival + 1 == plan.arrivals.size();
  for (Client& client : clients_) {
    LiveCheck* const live = client.checker->live();
    if (live && client.plan.dataset == plan.id) live->grew(source.first, source.end, source.ended);
  }
  if (!engine_down_) report_source(plan);
}

void Driver::report_source(const DatasetPlan& plan) {
  if (plan.arrivals.empty()) return;
  const Source& source = sources_[plan.id.value];
  report(engine::SourceGrew{plan.id, source.first, source.end,
                            (source.end - source.first) * plan.bytes,
                            plan.kept_most == 0 ? UINT64_MAX : plan.kept_most, source.ended});
}

// What is read again may be of a block that its job needs no more.
void Driver::check_there(const engine::Read& command) const {
  const auto found = sources_.find(command.dataset.value);
  if (found == sources_.end() || command.from.tier != Tier::store || command.request.attempt > 0)
    return;
  const Source& source = found->second;
  for (const SampleId sample : machine_.reads(command.request.id)) {
    const bool is_there = sample.value >= source.first || source.exemplars.contains(sample.value);
    if (!is_there || sample.value >= source.end)
      violated(fmt::format("record {} is read, which is not there", sample.value));
  }
}

// Its log drops what no job needs.
void Driver::on(const engine::SourcePaced& command) {
  const auto found = sources_.find(command.dataset.value);
  if (found == sources_.end()) violated("a source that is not there is paced");
  Source& source = found->second;
  if (command.needed_from > source.end || command.needed_from < source.needed_from)
    violated("records are needed that cannot be");
  source.needed_from = command.needed_from;
  const Digest version =
      std::find_if(scenario_.datasets.begin(), scenario_.datasets.end(),
                   [&](const DatasetPlan& plan) { return plan.id == command.dataset; })
          ->version;
  for (const order::ReservoirName& name : command.reservoirs) {
    const bool is_new = source.reservoirs.try_emplace(name, version, name).second;
    if (is_new && name.first < source.first) violated("exemplars are to be kept that are gone");
  }
  if (command.needed_from <= source.first) return;
  source.exemplars.clear();
  for (auto& [name, reservoir] : source.reservoirs) {
    reservoir.show(command.needed_from);
    source.exemplars.insert(reservoir.records().begin(), reservoir.records().end());
  }
  for (Client& client : clients_) {
    LiveCheck* const live = client.checker->live();
    if (!live || client.plan.dataset != command.dataset) continue;
    const bool here =
        client.state == Client::State::running || client.state == Client::State::degraded;
    const std::uint64_t kept = std::min(live->counted(), client.plan.fills_from);
    if (here && command.needed_from > live->counted() - kept)
      violated("records are dropped that a job needs");
    live->grew(command.needed_from, source.end, source.ended);
  }
  source.first = command.needed_from;
  for (const DatasetPlan& plan : scenario_.datasets) {
    if (plan.id == command.dataset)
      after(us(10), [this, &plan] {
        if (!engine_down_) report_source(plan);
      });
  }
}

// ----------------------------------------------------------------------- joining and leaving ----

void Driver::join(std::size_t index) {
  Client& client = clients_[index];
  if (client.state != Client::State::away) return;
  if (engine_down_ || !nodes_up(client.nodes)) return rejoin_later(client, ms(10));
  client.id = JobId(next_job_++);
  client_of_[client.id.value] = index;
  client.state = Client::State::joining;
  ++client.incarnation;
  engine::JobJoined event;
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
  const std::uint64_t counted = client.checker->counts().counted_steps;
  event.steps = client.plan.steps > counted ? client.plan.steps - counted : 0;
  event.credits = client.plan.credits;
  event.draws = client.plan.draws;
  event.multinomial = client.plan.multinomial;
  event.node_local = client.plan.node_local;
  event.runs = client.plan.runs;
  event.rehearsed = client.plan.rehearsed;
  if (!client.plan.buffer_policy.empty()) {
    event.buffer = buffer_of(index);
    event.buffer_exemplars = client.plan.buffer_exemplars;
    event.buffer_policy = client.plan.buffer_policy;
  }
  event.weights_policy = client.plan.weights_policy;
  if (client.losses) client.losses->begun();
  event.fills_after = client.plan.fills_after;
  event.fills_from = client.plan.fills_from;
  event.fills_cut = client.plan.fills_cut;
  if (client.plan.reservoir > 0) event.buffer_exemplars = client.plan.reservoir;
  client.joins_anew = true;
  client.changes_asked.clear();
  node_lists_.push_back(client.nodes);
  event.ranks = node_lists_.back();
  const bool fresh = client.position.epoch() == 0 && client.position.consumed() == 0;
  if (fresh) begin_at_start(client);
  client.asked = asked_of(client);
  ask_for_room(client, client.plan.credits == 0 ? config_.credits : client.plan.credits);
  if (client.position.is_chosen()) machine_.forget_drawn(client.position.fields().seed);
  positions_.push_back(client.position);
  const bool told = client.plan.order == Order::mixed || !fresh;
  if (told && client.plan.order != Order::listed) event.position = &positions_.back();
  report(event);
  if (event.buffer != 0 && client.plan.buffer == 0) client.checker->has_buffer(event.buffer);
  client.exemplars = client.plan.exemplars;
  client.checker->rehearsal().joined();
  if (!client.exemplars.empty()) {
    report(engine::ExemplarsReported{client.id, true, 0, keep(client.exemplars), false});
    client.checker->rehearsal().reported(client.exemplars);
  }
  if (chance_in_100(client.plan.exemplars_in_100)) report_exemplars(client);
}

std::uint64_t Driver::buffer_of(std::size_t index) const {
  const std::uint64_t named = clients_[index].plan.buffer;
  return named != 0 ? named : 1000 + index;
}

void Driver::begin_at_start(Client& client) {
  if (client.position.fields().mixing) return;  // it may know of other weights by now
  const std::uint64_t seed = seed_of(client);
  const DatasetPlan& dataset = dataset_of(client);
  client.position =
      is_chosen(client.plan)
          ? order::Position::chosen(dataset.version, dataset.samples, seed)
          : order::Position(client.plan.order, dataset.version, dataset.samples, seed);
  client.checker->begins(seed);
  if (client.plan.order == Order::live) {
    const Source& source = sources_[dataset.id.value];
    client.position = order::Position::live(dataset.version, dataset.samples, seed, 0);
    client.checker->begins_live(source.first, source.end, source.ended);
  }
  if (client.plan.order != Order::mixed) return;
  std::string problem;
  order::Mixing::Fields fields =
      order::Mixing::beginning(client.plan.sources, order::Mixture::parts_of(client.plan.weights));
  fields.may_change = client.plan.changes_in_100 > 0 || !client.plan.weights_policy.empty() ||
                      !client.plan.changes.empty();
  auto mixing = order::Mixing::from(std::move(fields), dataset.samples, problem);
  if (!mixing) violated("a mixture that cannot be: " + problem);
  client.position = order::Position::mixed(std::move(*mixing), dataset.version, dataset.samples,
                                           seed, draws_of(client.plan, dataset));
  for (const order::MixtureChange& change : client.plan.changes) {
    const std::string wrong = client.position.change(change);
    if (!wrong.empty()) violated("a change of weights that cannot be: " + wrong);
    client.checker->mixture()->changed(change.at, change.parts);
  }
}

void Driver::rejoin_later(Client& client, Duration delay) {
  client.state = Client::State::away;
  client.id = JobId::none();
  ++client.incarnation;
  client.ranks.clear();
  after(delay, [this, index = client.index] { join(index); });
}

void Driver::leave(Client& client) {
  report(engine::JobLeft{client.id});
  room_.leaves(client.id);
  let_all_go(client, true);
  client.state = Client::State::away;
  ++client.incarnation;
}

// Every rank that has a batch lets go of it: at once, or when its device is done.
void Driver::let_all_go(Client& client, bool at_once) {
  if (at_once) {
    for (const Held& one : client.held) let_go(one);
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

void Driver::on(const engine::Admit& command) {
  Client* client = client_of(command.job);
  if (client == nullptr) return;  // it has left meanwhile
  if (client->state != Client::State::joining) violated("a job is admitted that did not ask");
  room_.check_admission(client->id, command.credits);
  client->state = Client::State::running;
  client->credits = command.credits;
  client->ranks.assign(client->nodes.size(), {});
  client->consumed.clear();
  client->checker->began(client->nodes, client->batch_samples,
                         std::exchange(client->joins_anew, false));
  for (Rank rank = 0; rank < client->ranks.size(); ++rank) {
    client->ranks[rank].node = client->nodes[rank];
    client->ranks[rank].next = command.first_step;
    if (rank + 1 == client->ranks.size()) tell_first_scores(*client);
    if (client->plan.order == Order::listed) {
      for (std::uint32_t i = 0; i < command.credits; ++i) ask_listed(*client, rank);
    } else {
      report(engine::BatchWanted{client->id, rank, command.credits});
    }
  }
  if (!facts_.empty()) after(us(1), [] {});
}

void Driver::on(const engine::Refuse& command) {
  Client* client = client_of(command.job);
  if (client == nullptr) return;
  ++refusals_;
  let_all_go(*client, false);
  client->listed_sent = client->listed_consumed;     // what is not consumed is asked for again
  if (client->state == Client::State::done) return;  // it was about to leave
  switch (command.why) {
    case engine::Refusal::no_room:
      if (command.needed <= command.available) violated("a refusal for want of room there is");
      room_.check_refusal(client->id, leftovers(), preparing(), config_.helper_nodes);
      break;
    case engine::Refusal::bad_request:
      if (!can_be_asked_for(*client)) {
        client->batch_samples = client->plan.batch_samples;
        client->nodes = client->plan.ranks;
        if (can_be_asked_for(*client)) break;
        client->state = Client::State::done;  // it asks for what no job can have
        return;
      }
      if (nodes_up(client->nodes)) violated("a join is called a bad request");
      break;
    case engine::Refusal::nothing_to_draw:
      if (!client->checker->may_have_nothing_to_draw()) violated("a job that could draw may not");
      break;
    case engine::Refusal::unknown_dataset:
    case engine::Refusal::unknown_pipeline:
    case engine::Refusal::bad_position:
      violated(fmt::format("a join is refused for reason {}", static_cast<int>(command.why)));
    default:
      break;
  }
  rejoin_or_give_up(*client, command.why);
}

// What others have in their hands becomes free; what there is not enough of without them does not.
void Driver::rejoin_or_give_up(Client& client, engine::Refusal why) {
  const bool alone = std::none_of(clients_.begin(), clients_.end(), [&](const Client& other) {
    return other.index != client.index &&
           (other.state == Client::State::joining || other.state == Client::State::running ||
            other.state == Client::State::degraded);
  });
  client.attempts += alone || why != engine::Refusal::no_room ? 1 : 0;
  const bool enough = client.attempts >= 10;
  if (enough && why == engine::Refusal::no_room && room_.fits_alone(client.id, may_prepare())) {
    violated(fmt::format("job {} is never let in, though it would fit", client.id.value));
  }
  room_.leaves(client.id);
  rejoin_later(client, ms(20));
  if (!enough) return;
  ++(why == engine::Refusal::no_room ? without_room_ : given_up_);
  client.state = Client::State::done;
}

// An epoch that leaves out its tail must have a step besides, and each batch something new.
bool Driver::can_be_asked_for(const Client& client) const {
  const DatasetPlan& dataset = dataset_of(client);
  const std::uint64_t epoch =
      is_drawn(client.plan.order) ? draws_of(client.plan, dataset) : dataset.samples;
  const JobPlan& plan = client.plan;
  const auto policies = policies_.of_kind(engine::PolicyKind::rehearsal);
  const std::string_view policy = std::string_view(plan.buffer_policy);
  const bool is_policy =
      std::any_of(policies.begin(), policies.end(), [&](const engine::PolicyEntry* entry) {
        return entry->name == policy.substr(0, policy.find(':'));
      });
  if (!policy.empty() && (!is_policy || plan.rehearsed == 0 || plan.buffer_exemplars == 0 ||
                          plan.buffer_exemplars > 1U << 16))
    return false;
  if (!plan.weights_policy.empty() && !has_weights_policy(plan)) return false;
  if (client.batch_samples <= client.plan.rehearsed) return false;
  if (plan.order == Order::live && plan.rehearsed > 0 &&
      ((plan.fills_from == 0) == (plan.reservoir == 0) || plan.reservoir > 1U << 16 ||
       plan.fills_cut || !policy.empty()))
    return false;
  return !client.plan.drop_last || client.nodes.size() * client.batch_samples <= epoch;
}

bool Driver::has_weights_policy(const JobPlan& plan) const {
  if (plan.order != Order::mixed) return false;
  try {
    policies_.choose(engine::PolicyKind::mixture, plan.weights_policy);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// ------------------------------------------------------------------------------------ losses ----

void Driver::lose_rank(Client& client, Rank rank, bool resized_later) {
  if (client.state != Client::State::running || !client.ranks[rank].alive) return;
  ++disturbances_.ranks_killed;
  report(engine::RankLost{client.id, rank});
  client.state = Client::State::degraded;
  client.ranks[rank].alive = false;
  client.consumed.clear();
  std::erase_if(client.held, [&](const Held& one) {
    if (one.rank != rank || one.incarnation != client.incarnation) return false;
    let_go(one);
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
  const bool is_other =
      client.batch_samples != batch_samples || client.nodes.size() != nodes.size();
  if (is_other) ++disturbances_.resizes;
  client.batch_samples = batch_samples;
  client.nodes = std::move(nodes);
  client.ranks.clear();
  client.consumed.clear();
  ++client.incarnation;
  client.state = Client::State::joining;
  ask_for_room(client, std::max(client.credits, config_.credits));
  node_lists_.push_back(client.nodes);
  report(engine::JobResized{client.id, batch_samples, node_lists_.back()});
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
        let_go(one);
        return true;
      });
    }
  }
}

}  // namespace batchflow::test
