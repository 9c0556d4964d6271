#include "tests/driver/driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/order/keys.h"
#include "tests/policies/chooses_samples.h"

namespace batchflow::test {

namespace {

// A wide scenario may have jobs of a million samples that are staged one by one.
constexpr std::uint64_t kStepsMost = 20'000'000;

}  // namespace

Driver::Driver(const Scenario& scenario, const engine::PolicyList& policies, Hooks hooks)
    : scenario_(scenario),
      policies_(policies),
      hooks_(std::move(hooks)),
      machine_(scenario_),
      config_(scenario.config),
      chooses_(chooses_samples(
          policies.choose(engine::PolicyKind::selection, config_.policies.selection))),
      random_(hash(9, scenario.seed)) {
  for (const DatasetPlan& plan : scenario_.datasets) {
    catalogues_.add(plan.id, plan.catalogue());
  }
  for (const PipelinePlan& plan : scenario_.pipelines) catalogues_.add(plan.id, plan.info);
  for (const NodePlan& plan : scenario_.nodes) nodes_.push_back({plan});
  for (const JobPlan& plan : scenario_.jobs) {
    Client client;
    client.index = clients_.size();
    client.plan = plan;
    client.batch_samples = plan.batch_samples;
    client.nodes = plan.ranks;
    client.checker = std::make_unique<Checker>(plan, dataset_of(client));
    if (!plan.weights_policy.empty())
      client.losses = std::make_unique<LossCheck>(plan.weights_policy, plan.losses);
    clients_.push_back(std::move(client));
  }
  start_engine();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    after(nodes_[i].plan.joins, [this, i] { bring_up(i); });
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    after(clients_[i].plan.joins, [this, i] { join(i); });
  }
  plan_arrivals();
  plan_faults();
}

Driver::~Driver() = default;

void Driver::start_engine() {
  engine_ = std::make_unique<engine::Engine>(config_, policies_, catalogues_);
  if (hooks_.begun) hooks_.begun(*engine_);
  ++engine_incarnation_;
  engine_down_ = false;
  for (const DatasetPlan& plan : scenario_.datasets)
    report(engine::CatalogueKnown{plan.id, plan.version});
  for (const DatasetPlan& plan : scenario_.datasets) report_source(plan);
  for (const PipelinePlan& plan : scenario_.pipelines) {
    report(engine::PipelineKnown{plan.id, plan.info.hash});
  }
}

// -------------------------------------------------------------------------------------- time ----

void Driver::after(Duration delay, std::function<void()> what) {
  heap_.push({now_ + delay, ++serials_, std::move(what)});
}

Duration Driver::drawn(Duration base) {
  if (!scenario_.timings.jitter || base.count() == 0) return base;
  const auto half = static_cast<std::uint64_t>(base.count()) / 2;
  return Duration(static_cast<std::int64_t>(half + random_.below(2 * half + 1)));
}

bool Driver::fails(std::uint32_t chance_in_1000) {
  if (chance_in_1000 == 0) return false;
  const bool failed = random_.below(1000) < chance_in_1000;
  return failed && now_ < at(scenario_.heal);
}

// Everything of the next instant. False: nothing is left to happen.
bool Driver::step_once() {
  if (heap_.empty() && facts_.empty() && completions_.empty() && last_facts_.empty()) return false;
  if (!heap_.empty()) {
    now_ = std::max(now_, heap_.top().when);
    machine_.now = now_;
    while (!heap_.empty() && heap_.top().when == now_) {
      const auto what = heap_.top().what;
      heap_.pop();
      what();
    }
  }
  std::stable_sort(completions_.begin(), completions_.end(),
                   [](const Completion& a, const Completion& b) { return a.id < b.id; });
  std::vector<engine::Event> events = std::move(facts_);
  for (const Completion& completion : completions_) events.push_back(completion.event);
  events.insert(events.end(), last_facts_.begin(), last_facts_.end());
  facts_.clear();
  completions_.clear();
  last_facts_.clear();
  if (engine_down_ || events.empty()) return true;
  if (hooks_.before_step) hooks_.before_step(now_, events);
  ++steps_;
  const auto commands = engine_->step(now_, events);
  lists_.clear();
  score_lists_.clear();
  node_lists_.clear();
  positions_.clear();
  texts_.clear();
  write_promises();
  digest_.add(commands);
  if (hooks_.stepped) hooks_.stepped(commands);
  if (hooks_.spoil) {
    std::vector<engine::Command> spoilt(commands.begin(), commands.end());
    hooks_.spoil(spoilt);
    carry_out(spoilt);
  } else {
    carry_out(commands);
  }
  note_promises();
  room_.stepped();
  let_go_.clear();
  if (hooks_.after_step) hooks_.after_step(*engine_);
  return true;
}

Outcomes Driver::run() {
  while (step_once()) {
    if (steps_ > kStepsMost) violated("the run does not end; " + describe_waits());
    check_progress();
    if (all_done()) break;
  }
  if (!all_done())
    violated(
        fmt::format("deadlock at {} ns: {}", now_.time_since_epoch().count(), describe_waits()));
  end_ = now_;
  // What is still under way comes to its end; then nothing is in use any more.
  while (step_once()) {
    if (steps_ > kStepsMost) violated("the engine does not come to rest without jobs");
  }
  machine_.check_idle();
  return outcomes();
}

Outcomes Driver::run_for(std::uint64_t steps) {
  while (steps-- > 0 && step_once()) {
  }
  return outcomes();
}

Outcomes Driver::outcomes() {
  Outcomes result;
  result.engine = engine_->counters();
  result.digest = digest_.value();
  result.steps = steps_;
  result.samples_read_from_store = machine_.samples_read_from_store;
  result.staged_most = machine_.staged_most();
  result.refusals = refusals_;
  result.jobs_without_room = without_room_;
  result.jobs_given_up = given_up_;
  result.end = end_ == Instant{} ? now_ : end_;
  result.longest_wait = longest_wait_;
  result.disturbances = disturbances_;
  for (const Client& client : clients_) {
    result.add(client.checker->counts());
    if (client.losses) result.weights_changed += client.losses->changes();
    result.changes.push_back(client.changes);
    result.jobs_done += client.state == Client::State::done ? 1 : 0;
  }
  return result;
}

// How long a job may wait for its next step when nothing fails any more, from the scenario's own
// times: one worker makes, one after the other, all that all jobs may have asked for by then, and
// each of them goes through a step of its own meanwhile.
Duration Driver::patience() const {
  const Timings& times = scenario_.timings;
  const auto longest = [](Duration base) { return base + base / 2; };
  std::size_t bad = 0;
  for (const DatasetPlan& plan : scenario_.datasets) bad = std::max(bad, plan.corrupt.size());
  // A block with corrupt samples is read and prepared again twice for each of them that it meets,
  // and in little memory each sample is read by itself.
  const auto block_of = [&](std::uint64_t samples) {
    return (longest(times.read) * static_cast<std::int64_t>(samples) + longest(times.prepare)) *
           static_cast<std::int64_t>(1 + 2 * bad);
  };
  // Time-outs, the last retries of before, and the pauses of clients and nodes that come back.
  Duration all = config_.rank_timeout + config_.retry_wait * (std::int64_t{1} << 9) + ms(50);
  for (const Client& client : clients_) {
    const std::uint64_t ranks = std::max(client.nodes.size(), client.plan.ranks.size());
    const std::uint64_t samples = ranks * std::max(client.batch_samples, client.plan.batch_samples);
    const Bytes sample = scenario_.pipelines[client.plan.pipeline.value - 1].info.prepared_bytes;
    const std::uint64_t made = std::max<std::uint64_t>(1, config_.block_bytes / 2 / sample);
    const std::uint64_t blocks = std::min(samples, dataset_of(client).samples) / made + 2;
    const Duration block = block_of(std::min(2 * made, dataset_of(client).samples));
    const auto credits = static_cast<std::int64_t>(std::max(4u, client.plan.credits));
    all += block * (credits * static_cast<std::int64_t>(blocks) + 10);
    all += credits *
           (longest(client.plan.compute) + longest(client.plan.hold) + longest(times.deliver) +
            longest(times.transfer) * static_cast<std::int64_t>(blocks + 1));
  }
  return all;
}

void Driver::check_progress() {
  const Duration most = patience();
  for (Client& client : clients_) {
    const bool served =
        client.state == Client::State::running || client.state == Client::State::joining;
    if (!served || engine_down_) client.last_progress = now_;
    const Instant since =
        std::max({client.last_progress, at(scenario_.heal), client.stopped_until});
    if (now_ <= since) continue;
    longest_wait_ = std::max(longest_wait_, now_ - since);
    if (now_ - since > most) {
      violated(fmt::format("job {} does not get on for {} us; {}", client.id.value,
                           most.count() / 1000, describe_waits()));
    }
  }
}

bool Driver::all_done() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const Client& client) { return client.state == Client::State::done; });
}

std::string Driver::describe_waits() const {
  std::string text;
  for (const Client& client : clients_) {
    if (client.state == Client::State::done) continue;
    text += fmt::format("\n  job {} (client {}, order {}) state {} epoch {} consumed {} ",
                        client.id.value, client.index, static_cast<int>(client.plan.order),
                        static_cast<int>(client.state), client.position.epoch(),
                        client.position.consumed());
    for (std::size_t rank = 0; rank < client.ranks.size(); ++rank) {
      const RankState& state = client.ranks[rank];
      std::uint64_t holds = 0;
      for (const Held& one : client.held) {
        holds += one.rank == rank && one.incarnation == client.incarnation;
      }
      text += fmt::format("[rank {} next {} holds {}{}]", rank, state.next, holds,
                          state.training ? " training" : "");
    }
  }
  text += fmt::format("\n  commands under way: {}", running_.size());
  for (const auto& [id, running] : running_) {
    text += fmt::format(" {:x}:{}", id, static_cast<int>(running.kind));
  }
  for (const auto& [id, worker] : workers_) {
    text += fmt::format("\n  worker {} node {} {}{}", id, worker.node.value,
                        worker.alive ? "alive" : "gone", worker.request.is_none() ? "" : " busy");
  }
  return text + "\n" + engine_->describe();
}

// ---------------------------------------------------------------------------------- commands ----

void Driver::carry_out(std::span<const engine::Command> commands) {
  for (const engine::Command& command : commands) {
    if (hooks_.commanded) hooks_.commanded(command);
    std::visit([&](const auto& each) { on(each); }, command);
  }
  for (const RequestId id : for_gone_) {
    if (running_.count(id.value) != 0) violated("a command for a worker that is gone");
  }
  for_gone_.clear();
}

void Driver::start(Kind kind, const engine::Request& request, Duration takes,
                   std::function<void()> over) {
  Running& mine = running_[request.id.value];
  mine.kind = kind;
  mine.attempt = request.attempt;
  mine.serial = ++serials_;
  const std::uint64_t serial = mine.serial;
  after(takes, [this, id = request.id, serial, over = std::move(over)] {
    const auto found = running_.find(id.value);
    if (found == running_.end() || found->second.serial != serial) return;
    running_.erase(found);
    over();
  });
}

std::span<const SampleId> Driver::keep(std::vector<SampleId> samples) {
  lists_.push_back(std::move(samples));
  return lists_.back();
}

void Driver::on(const engine::Read& command) {
  machine_.read(command);
  check_there(command);
  const engine::Request request = command.request;
  start(Kind::read, request, drawn(scenario_.timings.read), [this, request] {
    const bool well = !fails(scenario_.failures.read);
    // Some of a read that fails are there, or none.
    std::vector<SampleId> missing;
    if (!well) {
      for (const SampleId sample : machine_.reads(request.id)) {
        if (random_.below(3) == 0) missing.push_back(sample);
      }
      std::sort(missing.begin(), missing.end());
      missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    }
    const bool some = missing.size() < machine_.reads(request.id).size();
    machine_.read_over(request.id, well, some ? missing : std::vector<SampleId>());
    complete(request.id,
             engine::ReadDone{request, well ? engine::Outcome::done : engine::Outcome::failed,
                              keep(missing)});
    if (fails(scenario_.failures.stale_reports)) {
      complete(request.id,
               engine::ReadDone{{request.id, request.attempt + 7}, engine::Outcome::done, {}});
      complete(request.id, engine::ReadDone{request, engine::Outcome::done, {}});
    }
  });
}

void Driver::on(const engine::Prepare& command) {
  const auto worker = workers_.find(command.worker.value);
  if (worker == workers_.end()) violated("a command for no worker");
  // It was given before the engine heard, in the same step, that the worker has gone.
  const bool gone = !worker->second.alive;
  if (gone && worker->second.left_in != steps_) violated("a command for a worker that is gone");
  if (gone) for_gone_.push_back(command.request.id);
  if (!worker->second.request.is_none()) violated("a second command for a busy worker");
  if (worker->second.node != command.node) violated("a worker of another node");
  const std::vector<SampleId> used = machine_.prepare(command);
  worker->second.request = command.request.id;
  std::vector<SampleId> bad;
  const DatasetPlan* dataset = nullptr;
  for (const DatasetPlan& plan : scenario_.datasets) {
    if (plan.id == command.lineage.dataset) dataset = &plan;
  }
  for (const SampleId sample : used) {
    const auto& corrupt = dataset->corrupt;
    const bool is_bad = std::find(corrupt.begin(), corrupt.end(), sample) != corrupt.end();
    if (is_bad && std::find(bad.begin(), bad.end(), sample) == bad.end()) bad.push_back(sample);
  }
  const engine::Request request = command.request;
  // A part takes its part of the time.
  const auto takes = scenario_.timings.prepare * static_cast<std::int64_t>(used.size()) /
                     static_cast<std::int64_t>(command.lineage.samples);
  start(Kind::prepare, request, drawn(takes), [this, request, id = command.worker.value, bad] {
    const bool well = !fails(scenario_.failures.prepare);
    machine_.prepare_over(request.id, well, bad);
    const engine::Outcome outcome = !well         ? engine::Outcome::failed
                                    : bad.empty() ? engine::Outcome::done
                                                  : engine::Outcome::corrupt;
    const auto failed = well ? keep(bad) : std::span<const SampleId>();
    prepare_ended(request, id, outcome, failed);
  });
  running_.at(request.id.value).worker = command.worker.value;
}

void Driver::prepare_ended(const engine::Request& request, std::uint32_t worker,
                           engine::Outcome outcome, std::span<const SampleId> failed) {
  Worker& mine = workers_.at(worker);
  mine.request = RequestId::none();
  complete(request.id, engine::PreparationDone{request, outcome, failed});
  if (fails(scenario_.failures.stale_reports)) {
    complete(request.id, engine::PreparationDone{request, engine::Outcome::done, {}});
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].plan.id == mine.node) match_workers(i);
  }
}

void Driver::on(const engine::Transfer& command) {
  machine_.transfer(command);
  const engine::Request request = command.request;
  start(Kind::transfer, request, drawn(scenario_.timings.transfer), [this, request] {
    const bool well = !fails(scenario_.failures.transfer);
    machine_.transfer_over(request.id, well);
    complete(request.id,
             engine::TransferDone{request, well ? engine::Outcome::done : engine::Outcome::failed});
    if (fails(scenario_.failures.stale_reports)) {
      complete(request.id, engine::TransferDone{request, engine::Outcome::done});
    }
  });
}

void Driver::on(const engine::Cancel& command) {
  const auto found = running_.find(command.request.id.value);
  if (found == running_.end()) {
    // Nothing is under way; but a batch that could not be handed over may still be held for it.
    const auto of = delivery_of_.find(command.request.id.value);
    if (of == delivery_of_.end()) return;
    Client& client = clients_[of->second];
    const Held* mine = held(client, command.request.id);
    if (mine == nullptr || mine->arrived) return;
    let_go(*mine);
    std::erase_if(client.held, [&](const Held& one) { return one.request == command.request.id; });
    return;
  }
  if (found->second.attempt != command.request.attempt)
    violated("a cancelled attempt is not the last");
  const Running running = found->second;
  running_.erase(found);
  switch (running.kind) {
    case Kind::read:
      return machine_.read_over(command.request.id, false);
    case Kind::transfer:
      return machine_.transfer_over(command.request.id, false);
    case Kind::deliver: {
      Client& client = clients_[delivery_of_.at(command.request.id.value)];
      if (const Held* mine = held(client, command.request.id)) let_go(*mine);
      std::erase_if(client.held,
                    [&](const Held& one) { return one.request == command.request.id; });
      return;
    }
    case Kind::prepare: {
      Worker& worker = workers_.at(running.worker);
      if (!worker.alive) return machine_.prepare_cancelled(command.request.id, !worker.quiet);
      // It writes until it says that it does not, and says it once.
      const engine::Request request = command.request;
      start(Kind::prepare, request, drawn(ms(1)), [this, request, id = running.worker] {
        machine_.prepare_over(request.id, false, {});
        prepare_ended(request, id, engine::Outcome::failed, {});
      });
      running_.at(request.id.value).worker = running.worker;
      return;
    }
  }
}

void Driver::on(const engine::Release& command) {
  machine_.release(command);
}

void Driver::on(const engine::SetTimer& command) {
  const std::uint64_t incarnation = engine_incarnation_;
  after(std::max(command.at, now_) - now_, [this, incarnation, id = command.timer] {
    if (incarnation == engine_incarnation_) report(engine::TimerFired{id});
  });
}

void Driver::on(const engine::LetGo& command) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].plan.id != command.node || !nodes_[i].up) continue;
    if (!nodes_[i].rests) violated("a node is let go that was not quiesced");
    if (!scenario_.let_go_ends) continue;
    after(us(100), [this, i, incarnation = nodes_[i].incarnation] {
      if (nodes_[i].incarnation == incarnation) lose_node(i, std::chrono::hours(1));
    });
  }
}

void Driver::on(const engine::SetWorkers& command) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].plan.id != command.node || !nodes_[i].up) continue;
    if (command.workers > nodes_[i].plan.cores) violated("more workers than cores");
    nodes_[i].workers_wanted = command.workers;
    const std::uint64_t incarnation = nodes_[i].incarnation;
    after(drawn(ms(1)), [this, i, incarnation] {
      if (nodes_[i].up && nodes_[i].incarnation == incarnation) match_workers(i);
    });
  }
}

// ------------------------------------------------------------------------- nodes and workers ----

Driver::Node* Driver::node_of(NodeId id) {
  for (Node& node : nodes_) {
    if (node.plan.id == id) return &node;
  }
  return nullptr;
}

void Driver::bring_up(std::size_t index) {
  Node& node = nodes_[index];
  if (node.up || engine_down_) return;
  node.up = true;
  node.rests = false;
  node.workers_wanted = 0;
  ++node.incarnation;
  report(engine::NodeJoined{node.plan.id, node.plan.cores});
  const Place dram{node.plan.id, Tier::dram, 0};
  set_capacity(dram, node.plan.dram);
  for (std::uint16_t gpu = 0; gpu < node.plan.gpus.size(); ++gpu)
    set_capacity({node.plan.id, Tier::gpu, gpu}, node.plan.gpus[gpu]);
  if (node.plan.nvme == 0) return;
  const Place nvme{node.plan.id, Tier::nvme, 0};
  set_capacity(nvme, node.plan.nvme);
}

void Driver::lose_node(std::size_t index, Duration back_after) {
  Node& node = nodes_[index];
  if (!node.up) return;
  node.up = false;
  for (auto& [id, worker] : workers_) {
    if (worker.node != node.plan.id || !worker.alive) continue;
    worker.alive = false;
    worker.quiet = true;
  }
  machine_.lose_node(node.plan.id);
  room_.lose_node(node.plan.id);
  report(engine::NodeLost{node.plan.id});
  check_rank_nodes(index);
  after(back_after, [this, index] { bring_up(index); });
}

void Driver::match_workers(std::size_t index) {
  Node& node = nodes_[index];
  if (!node.up) return;
  std::uint32_t alive = 0;
  for (const auto& [id, worker] : workers_) {
    alive += worker.node == node.plan.id && worker.alive;
  }
  for (; alive < node.workers_wanted; ++alive) add_worker(index);
  for (auto& [id, worker] : workers_) {
    if (alive <= node.workers_wanted) break;
    if (worker.node != node.plan.id || !worker.alive || !worker.request.is_none()) continue;
    retire(id);
    --alive;
  }
}

void Driver::retire(std::uint32_t id) {
  Worker& worker = workers_.at(id);
  worker.alive = false;
  worker.quiet = true;
  worker.left_in = steps_ + 1;
  last_facts_.push_back(engine::WorkerQuiesced{WorkerId(id)});
}

void Driver::add_worker(std::size_t index) {
  workers_[next_worker_] = {nodes_[index].plan.id, true, false, RequestId::none(), now_};
  report(engine::WorkerJoined{WorkerId(next_worker_++), nodes_[index].plan.id});
}

void Driver::lose_worker(std::uint32_t id, Duration quiet_after) {
  Worker& worker = workers_.at(id);
  worker.alive = false;
  if (!all_done()) ++disturbances_.workers_killed;
  report(engine::WorkerLost{WorkerId(id)});
  const RequestId request = worker.request;
  if (const auto running = running_.find(request.value); running != running_.end()) {
    running->second.serial = 0;  // it will not report
  }
  after(quiet_after, [this, id, request, incarnation = engine_incarnation_] {
    if (incarnation != engine_incarnation_) return;
    workers_.at(id).quiet = true;
    machine_.quiet(request);
    report(engine::WorkerQuiesced{WorkerId(id)});
  });
  const NodeId node = worker.node;
  after(quiet_after + drawn(ms(5)), [this, node] {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].plan.id == node) match_workers(i);
    }
  });
}

}  // namespace batchflow::test
