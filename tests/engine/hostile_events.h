// Events at random, as no well-meaning backend would send them, for a whole engine: any kind in any
// order, with fields that are right, nearly right, or any number there is.
//
// Pure noise is refused at the door. So most fields name what the engine may know (few jobs, nodes,
// workers), commands are mostly carried out, and ranks mostly train on what they are
// handed; how much of it is noise is drawn from the seed. What is promised goes into a promise log,
// as in a service, and jobs come back from it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/arena.h"
#include "core/base/config_value.h"
#include "core/base/random.h"
#include "core/engine/engine.h"
#include "core/log/event_codec.h"
#include "core/log/promise_log.h"
#include "tests/engine/hostile_values.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test {

class HostileEvents : private HostileValues {
 public:
  explicit HostileEvents(std::uint64_t seed)
      : HostileValues(seed), engine_(config(), tested_policies(), fill()), log_(1 << 16) {
    for (std::uint32_t i = 0; i < kDatasets; ++i)
      send(engine::CatalogueKnown{DatasetId(i), 100 + i});
    for (std::uint32_t i = 0; i < kPipelines; ++i)
      send(engine::PipelineKnown{PipelineId(i), 200 + i});
    for (std::uint32_t i = 0; i < kNodes - 1; ++i) {
      send(engine::NodeJoined{NodeId(i), 4});
      send(engine::CapacityChanged{{NodeId(i), Tier::dram, 0}, some_memory()});
      if (one_in(2)) send(engine::CapacityChanged{{NodeId(i), Tier::nvme, 0}, some_memory()});
      if (one_in(2)) send(engine::CapacityChanged{{NodeId(i), Tier::gpu, 0}, some_memory()});
      for (std::uint32_t w = 0; w < 2; ++w)
        send(engine::WorkerJoined{WorkerId(2 * i + w), NodeId(i)});
    }
    step();
  }

  void run(int steps) {
    while (steps-- > 0) {
      for (std::uint64_t events = random_.below(8); events > 0; --events) add_event();
      step();
    }
    for (const engine::Event& event : events_) (void)log::describe(event);
    (void)engine_.describe();
  }

  const engine::Engine& engine() const { return engine_; }
  std::uint64_t admitted() const { return admitted_; }

 private:
  static constexpr std::uint32_t kJobs = 9;

  struct Handed {
    JobId job;
    Rank rank;
    std::uint64_t step;
    bool consumed = false;
  };
  struct Commanded {
    engine::Request request;
    enum class Kind { read, prepare, transfer, deliver } kind;
    std::vector<SampleId> samples;
  };

  // A position that a job once had, or one with numbers that only fit together.
  const order::Position* position(const engine::JobJoined& join) {
    const auto& jobs = log_.promises().jobs();
    if (!jobs.empty() && !one_in(3)) {
      auto at = jobs.begin();
      std::advance(at, random_.below(jobs.size()));
      return &positions_.emplace_back(at->second.join.position);
    }
    if (!left_.empty() && !one_in(3)) return &left_[random_.below(left_.size())];
    order::Position::Fields fields;
    fields.order = join.order;
    fields.dataset_version = 100 + join.dataset.value;
    const engine::Catalogue* catalogue = catalogues_.find(join.dataset, fields.dataset_version);
    fields.samples = catalogue ? catalogue->samples() : number() >> 20;
    fields.seed = join.has_shuffle_seed ? join.shuffle_seed : number();
    fields.epoch = small(4);
    fields.consumed = below(fields.samples + 1);
    if (fields.order == Order::weighted && one_in(2)) {
      fields.draws = one_in(2) && join.draws != 0 ? join.draws : fields.samples;
      fields.consumed = std::min(fields.consumed, fields.draws);
      fields.weights = number();
    } else if (fields.order == Order::mixed) {
      make_mixture(fields);
    } else if (fields.order == Order::live) {
      fields.first = below(fields.samples - fields.consumed + 1);
      fields.rehearsed = number() >> 24;
    } else if (fields.order == Order::relaxed) {
      make_lanes(fields);
    } else if (fields.order != Order::weighted && one_in(3)) {
      fields.buffer = number();
      fields.rehearsed = number() >> 24;
    }
    std::string problem;
    auto made = order::Position::from(std::move(fields), problem);
    return made ? &positions_.emplace_back(*made) : nullptr;
  }

  // Sources of any size, some of them far from what is due to them.
  void make_mixture(order::Position::Fields& fields) {
    std::vector<SampleRange> sources;
    const std::uint64_t step = 1 + random_.below(40);
    for (std::uint64_t at = random_.below(3); at < fields.samples && sources.size() < 9; at += step)
      sources.push_back({SampleId(at), std::min(1 + random_.below(step), fields.samples - at)});
    std::vector<double> weights;
    for (std::size_t i = 0; i < sources.size(); ++i) weights.push_back(small(4));
    if (weights.empty()) return;
    weights[random_.below(weights.size())] = 3;
    order::Mixing::Fields mixing =
        order::Mixing::beginning(std::move(sources), order::Mixture::parts_of(weights));
    mixing.may_change = one_in(2);
    mixing.shuffled = one_in(2);
    for (order::Mixture::State& state : mixing.states)
      state.taken = number() >> (4 + random_.below(60));
    const std::size_t first = random_.below(mixing.states.size());
    const std::size_t second = random_.below(mixing.states.size());
    const auto debt = static_cast<std::int64_t>(number() >> (20 + random_.below(44)));
    if (mixing.states[first].part > 0 && mixing.states[second].part > 0) {
      mixing.states[first].behind += debt;
      mixing.states[second].behind -= debt;
    }
    std::string problem;
    fields.mixing = order::Mixing::from(std::move(mixing), fields.samples, problem);
    fields.draws = 1 + random_.below(500);
    fields.consumed = random_.below(fields.draws + 1);
  }

  std::span<const std::uint64_t> parts() {
    std::vector<double> weights;
    for (std::uint64_t left = 1 + random_.below(9); left > 0; --left) weights.push_back(small(4));
    weights.front() += one_in(9) ? 0 : 1;
    if (weights.front() == 0) weights.front() = 1;
    const std::vector<std::uint64_t> exact = order::Mixture::parts_of(weights);
    const auto parts = arena_.make<std::uint64_t>(exact.size());
    std::copy(exact.begin(), exact.end(), parts.begin());
    if (noise()) parts[random_.below(parts.size())] = number();
    return parts;
  }

  // ---------------------------------------------------------------------------------- events ----

  void send(const engine::Event& event) { events_.push_back(event); }

  void add_event() {
    if (!one_in(astray_)) return carry_on();
    switch (random_.below(30)) {
      case 0:
        return send(engine::CatalogueKnown{id<DatasetId>(kDatasets), 100 + below(kDatasets)});
      case 1:
        return send(engine::PipelineKnown{id<PipelineId>(kPipelines), 200 + below(kPipelines)});
      case 2:
      case 3:
      case 4:
        return join();
      case 5:
        return send(engine::JobLeft{id<JobId>(kJobs)});
      case 6:
        return send(engine::RankLost{id<JobId>(kJobs), small(3)});
      case 7:
        return send(engine::JobResized{id<JobId>(kJobs), small(30), ranks()});
      case 8:
      case 9:
        return send(engine::BatchWanted{id<JobId>(kJobs), small(3), small(3)});
      case 10:
        return want_listed();
      case 11:
        return send(engine::BatchConsumed{id<JobId>(kJobs), small(3), below(10), duration()});
      case 12:
        return send(engine::SlotReleased{id<JobId>(kJobs), small(3), below(10)});
      case 13:
        return send(engine::ScoresReported{id<JobId>(kJobs), scores()});
      case 14:
        return send(engine::ExemplarsReported{id<JobId>(kJobs), one_in(2), small(5), samples(20),
                                              one_in(4)});
      case 15:
        return complete(engine::Request{id<RequestId>(1 << 25), small(3)}, random_.below(4), {});
      case 16:
        return node_event();
      case 17:
      case 18:
        return worker_event();
      case 19:
        return send(engine::CapacityChanged{place(), some_memory()});
      case 20:
        return send(engine::DecodedMeasured{id<DatasetId>(kDatasets), id<ShareId>(20),
                                            one_in(3) ? number() : 1 + random_.below(5000)});
      case 21:
        return send(engine::DatasetKept{id<DatasetId>(kDatasets), engine::Keep(random_.below(3))});
      case 22:
        return send(engine::PolicyChanged{policy_text()});
      case 23:
        return send(
            engine::MixtureChanged{id<JobId>(kJobs), one_in(3) ? number() : below(90), parts()});
      case 24:
        return send(engine::BufferPromised{below(4), 100 + below(kDatasets), small(30), rehearsal(),
                                           below(50), exemplars()});
      case 25:
        return describe();
      case 26:
        return send(engine::SourceGrew{id<DatasetId>(kDatasets), below(20), below(90), number(),
                                       number(), one_in(20)});
      case 27:
        return send(engine::LossesReported{id<JobId>(kJobs), losses()});
      default:
        return send(engine::ConfigurationChanged{text({"rank_timeout=1s",
                                                       "rank_timeout=300s",
                                                       "credits=1",
                                                       "credits=1024",
                                                       "read_attempts=1",
                                                       "retry_wait=1ms",
                                                       "corrupt_ratio_max=1",
                                                       "share_streams=true",
                                                       "share_streams=false",
                                                       "share_nodes=true",
                                                       "share_nodes=false",
                                                       "helper_nodes=1",
                                                       "workers_per_rank=1",
                                                       "workers_per_rank=0",
                                                       "workers_held_during_reads=true",
                                                       "workers_held_during_reads=false",
                                                       "late_after_p99=0",
                                                       "late_after_p99=2",
                                                       "=",
                                                       "",
                                                       "seed=1"})});
    }
  }

  std::string_view text(std::vector<std::string> choices) {
    return texts_.emplace_back(choices[random_.below(choices.size())]);
  }
  std::string_view policy_text() {
    if (noise()) return text({"", "=", "eviction", "eviction=", "dispatch=nothing", "x=lru"});
    const auto kind = static_cast<engine::PolicyKind>(random_.below(5));
    std::string name(engine::policy_kind_name(kind));
    if (kind == engine::PolicyKind::eviction && one_in(2)) name += ".prepared";
    return texts_.emplace_back(name + "=" + policy(kind));
  }

  std::span<const engine::Score> scores() {
    const bool zero = one_in(2);
    const std::size_t count =
        noise() ? engine::kScoresMost + 1 : random_.below(engine::kScoresMost + 1);
    const auto values = arena_.make<engine::Score>(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i].sample = zero ? SampleId(i) : sample();
      values[i].value = zero || one_in(3) ? 0 : static_cast<float>(number()) * (one_in(9) ? -1 : 1);
      if (noise()) values[i].value = one_in(2) ? NAN : INFINITY;
    }
    return values;
  }

  void join() {
    engine::JobJoined join;
    join.job = id<JobId>(kJobs);
    join.user = below(2);
    join.dataset = id<DatasetId>(one_in(3) ? kDatasets : 2);
    join.pipeline = id<PipelineId>(one_in(3) ? kPipelines : 2);
    join.order = Order(random_.below(7));
    join.fills_after = Duration(static_cast<std::int64_t>(number() >> 20));
    join.fills_from = one_in(3) ? number() : small(9);
    join.fills_cut = one_in(2);
    if (one_in(8)) {
      join.keyed = true;
      if (!noise()) join.order = Order::live;
    }
    join.has_shuffle_seed = one_in(2);
    join.shuffle_seed = below(2);
    join.batch_samples = 1 + small(one_in(8) ? 200 : 20);
    join.drop_last = one_in(3);
    join.epochs = small(4);
    join.steps = one_in(3) ? below(50) : 0;
    join.credits = small(4);
    join.weight = noise() ? NAN : 1.0;
    join.draws = one_in(3) ? below(200) : 0;
    join.multinomial = one_in(3);
    join.runs = one_in(8);
    join.node_local = join.order == Order::relaxed && one_in(3);
    join.rehearsed = one_in(3) ? small(5) : 0;
    if (join.rehearsed > 0 && one_in(2)) {
      join.buffer = below(4);
      join.buffer_exemplars = noise() ? small(1 << 20) : small(30);
      join.buffer_policy = rehearsal();
    }
    if (join.order == Order::mixed && one_in(2))
      join.weights_policy = text({"excess-loss:every=1", "softmax:every=5", "ucb:every=3:change=1",
                                  "hardest-half:every=1", "lru", "softmax:"});
    join.pipeline_hash = noise() ? number() : 0;
    join.ranks = ranks();
    if (join.keyed && !noise()) {
      join.batch_samples = 1;
      join.fills_from = 0;
      join.ranks = join.ranks.first(std::min<std::size_t>(1, join.ranks.size()));
    }
    if (join.order == Order::mixed || (one_in(3) && !join.keyed)) join.position = position(join);
    if (join.position && !noise()) {
      const order::Position::Fields& fields = join.position->fields();
      join.order = fields.order;
      join.has_shuffle_seed = true;
      join.shuffle_seed = fields.seed;
      if (fields.dataset_version - 100 < kDatasets)
        join.dataset = DatasetId(static_cast<std::uint32_t>(fields.dataset_version - 100));
    }
    send(join);
    // All zeros at once, and every rank asks: what was seen to end a service.
    if (join.order == Order::weighted && one_in(2)) {
      const auto zeros = arena_.make<engine::Score>(100);
      for (std::size_t i = 0; i < zeros.size(); ++i) zeros[i] = {SampleId(i), 0};
      send(engine::ScoresReported{join.job, zeros});
    }
    for (Rank rank = 0; rank < join.ranks.size() && rank < 4; ++rank)
      for (std::uint64_t i = random_.below(3); i > 0; --i)
        send(engine::BatchWanted{join.job, rank, 1});
  }

  std::string_view rehearsal() {
    return text({"reservoir", "per-class", "random-replacement:part=1", "by-score", "prioritised",
                 "lru", "reservoir:", ""});
  }
  std::span<const float> losses() {
    const auto all = arena_.make<float>(random_.below(9));
    for (float& one : all)
      one = one_in(9) ? (one_in(2) ? NAN : 3e38F) : static_cast<float>(small(9));
    return all;
  }
  std::span<const engine::Exemplar> exemplars() {
    const auto all = arena_.make<engine::Exemplar>(random_.below(20));
    for (engine::Exemplar& one : all)
      one = {id<SampleId>(150), small(5), one_in(2), static_cast<float>(small(9)), below(60)};
    return all;
  }
  void describe() {
    engine::SamplesDescribed event{id<JobId>(kJobs), small(noise() ? 600 : 4), samples(20), {}, {}};
    const auto labels = arena_.make<std::uint32_t>(one_in(2) ? 0 : event.samples.size());
    for (std::uint32_t& one : labels) one = one_in(4) ? engine::kNoClass : small(5);
    const auto values = arena_.make<float>(
        noise() ? random_.below(9) : event.samples.size() * std::min(event.features, 600U));
    for (float& one : values) one = one_in(50) ? INFINITY : static_cast<float>(small(9));
    event.labels = labels;
    event.values = values;
    send(event);
  }

  void want_listed() {
    engine::SamplesWanted wanted{id<JobId>(kJobs), small(2), samples(6), {}, {}};
    const std::size_t count = wanted.samples.size();
    const auto as_many = [&](auto make) {
      const auto values = arena_.make<std::uint64_t>(noise() ? random_.below(9) : count);
      for (std::uint64_t& value : values) value = make();
      return std::span<const std::uint64_t>(values);
    };
    if (one_in(2)) wanted.next_uses = as_many([&] { return number(); });
    if (one_in(2))
      wanted.sizes = as_many([&] { return one_in(3) ? number() : random_.below(9000); });
    send(wanted);
  }

  void node_event() {
    const auto node = id<NodeId>(kNodes);
    switch (random_.below(7)) {
      case 0:
        return send(engine::NodeQuiesced{node});
      case 2:
        return send(engine::SamplesKept{{node, one_in(3) ? Tier::nvme : Tier::dram, 0},
                                        id<DatasetId>(kDatasets),
                                        one_in(2) ? 0 : number(),
                                        one_in(2) ? 0 : number(),
                                        static_cast<std::uint8_t>(noise() ? below(256) : below(3)),
                                        samples(20)});
      case 1:
        return send(engine::NodeLost{node});
      default:
        send(engine::NodeJoined{node, small(5)});
        send(engine::CapacityChanged{{node, Tier::dram, 0}, some_memory()});
        return send(engine::WorkerJoined{id<WorkerId>(12), node});
    }
  }
  void worker_event() {
    const auto worker = id<WorkerId>(12);
    switch (random_.below(4)) {
      case 0:
        return send(engine::WorkerLost{worker});
      case 1:
        return send(engine::WorkerQuiesced{worker});
      default:
        return send(engine::WorkerJoined{worker, id<NodeId>(kNodes)});
    }
  }

  // What a backend and its ranks would do next.
  void carry_on() {
    if (!commanded_.empty() && !one_in(3)) {
      const std::size_t at = one_in(3) ? random_.below(commanded_.size()) : 0;
      const Commanded done = commanded_[at];
      if (!noise()) commanded_.erase(commanded_.begin() + static_cast<std::ptrdiff_t>(at));
      return complete(done.request, static_cast<std::uint64_t>(done.kind), done.samples);
    }
    if (handed_.empty()) return one_in(2) ? join() : send(engine::TimerFired{TimerId(below(5))});
    const std::size_t at = random_.below(handed_.size());
    Handed& batch = handed_[at];
    if (!batch.consumed) {
      batch.consumed = true;
      return send(engine::BatchConsumed{batch.job, batch.rank, batch.step, duration()});
    }
    send(engine::SlotReleased{batch.job, batch.rank, batch.step});
    send(engine::BatchWanted{batch.job, batch.rank, 1});
    if (!noise()) handed_.erase(handed_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void complete(engine::Request request, std::uint64_t kind,
                const std::vector<SampleId>& request_samples) {
    if (noise()) request.attempt += static_cast<std::uint32_t>(number());
    const engine::Outcome how = outcome();
    std::span<const SampleId> failed;
    if (how != engine::Outcome::done && !one_in(4)) {
      failed = list<SampleId>(4, [&] {
        return request_samples.empty() || noise()
                   ? sample()
                   : request_samples[random_.below(request_samples.size())];
      });
    }
    switch (kind) {
      case 0:
        return send(engine::ReadDone{request, how, failed});
      case 1:
        return send(engine::PreparationDone{request, how, failed});
      case 2:
        return send(engine::TransferDone{request, how});
      default:
        return send(engine::DeliveryDone{request, how});
    }
  }

  // ----------------------------------------------------------------------------------- steps ----

  void step() {
    now_ += Duration(random_.below(50'000'000));
    if (one_in(40)) now_ += std::chrono::seconds(2);
    Instant step_time = now_;
    if (noise()) step_time = Instant(Duration(static_cast<std::int64_t>(number())));
    const auto commands = engine_.step(step_time, events_);
    for (const engine::Command& command : commands)
      std::visit([&](const auto& one) { note(one); }, command);
    for (const engine::Promise& promise : engine_.promises()) {
      if (promise.kind == engine::Promise::Kind::left && left_.size() < 100)
        left_.push_back(log_.promises().jobs().at(promise.job.value).join.position);
      log_.add(promise);
    }
    log_.clear_pending();
    engine_.check_consistency();
    events_.clear();
    events_.swap(send_next_);
    positions_.clear();
    texts_.clear();
    arena_.clear();
  }

  template <class Command>
  void note(const Command&) {}
  void note(const engine::Admit& command) {
    ++admitted_;
    for (Rank rank = 0; rank < 4; ++rank)
      send_next_.push_back(engine::BatchWanted{command.job, rank, 1});
  }
  void note(const engine::Read& command) {
    commanded_.push_back(
        {command.request, Commanded::Kind::read, {command.samples.begin(), command.samples.end()}});
  }
  void note(const engine::Prepare& command) {
    std::vector<SampleId> samples;
    for (const engine::Ingredient& one : command.ingredients) samples.push_back(one.sample);
    commanded_.push_back({command.request, Commanded::Kind::prepare, samples});
  }
  void note(const engine::Transfer& command) {
    commanded_.push_back({command.request, Commanded::Kind::transfer, {}});
  }
  void note(const engine::Deliver& command) {
    commanded_.push_back({command.request, Commanded::Kind::deliver, {}});
    handed_.push_back({command.job, command.rank, command.step});
    if (handed_.size() > 60) handed_.pop_front();
  }

  std::deque<order::Position> positions_;
  std::deque<std::string> texts_;
  engine::Engine engine_;
  log::PromiseLog log_;
  Instant now_{};
  std::vector<engine::Event> events_;
  std::deque<Commanded> commanded_;
  std::deque<Handed> handed_;
  std::vector<order::Position> left_;
  std::vector<engine::Event> send_next_;
  std::uint64_t admitted_ = 0;
};

}  // namespace batchflow::test
