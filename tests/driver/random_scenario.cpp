// A scenario from a seed: anything that users, machines and bad luck may bring together.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "core/base/random.h"
#include "core/engine/policy_list.h"
#include "policies/registry.h"
#include "tests/driver/scenario.h"
#include "tests/policies/chooses_samples.h"

namespace batchflow::test {

namespace {

// Whether a selection policy gives scores weights that are not those scores.
bool weighs_otherwise(const engine::PolicyEntry& entry) {
  const auto* make = std::get_if<engine::MakeSelection>(&entry.make);
  if (make == nullptr) return false;
  const Parameters parameters(entry.parameters);
  const std::array<float, 3> scores{1, 2, 40};
  std::array<float, 3> weights{};
  (*make)({Random(1), parameters})->weigh(JobId(1), scores, weights);
  return weights != scores;
}

bool is_choosing(const engine::PolicyEntry& entry) {
  return entry.kind() == engine::PolicyKind::selection &&
         chooses_samples({&entry, Parameters(entry.parameters)});
}

class Maker {
 public:
  explicit Maker(std::uint64_t seed, bool wide = false)
      : random_(hash(wide ? 12 : 7, seed)), wide_(wide) {
    made_.seed = seed;
  }

  Scenario make() {
    config();
    datasets();
    if (wide_) widen();
    bundles();
    pipelines();
    nodes();
    jobs();
    mixtures();
    losses();
    buffers();
    runs();
    if (chance(70)) failures();
    if (chance(70)) faults();
    gpus();
    choose_samples();
    return made_;
  }

 private:
  std::uint64_t from(std::uint64_t least, std::uint64_t most) {
    return least + random_.below(most - least + 1);
  }
  bool chance(std::uint64_t percent) { return random_.below(100) < percent; }
  std::uint32_t small(std::uint64_t least, std::uint64_t most) {
    return static_cast<std::uint32_t>(from(least, most));
  }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[random_.below(list.size())];
  }

  std::string policy(engine::PolicyKind kind) {
    // The checker counts draws by the scores themselves. Where samples are chosen:
    // choose_samples().
    auto entries = policies::policy_list().of_kind(kind);
    std::erase_if(entries, [](const engine::PolicyEntry* entry) {
      return is_choosing(*entry) || weighs_otherwise(*entry);
    });
    return std::string(entries[random_.below(entries.size())]->name);
  }

  void config() {
    engine::EngineConfig& config = made_.config;
    if (chance(15)) engine::apply_preset(config, "independent");
    if (chance(70)) {
      config.policies.allocation = policy(engine::PolicyKind::allocation);
      for (std::size_t form = 0; form < kForms; ++form)
        config.policies.eviction[form] = policy(engine::PolicyKind::eviction);
      config.policies.eviction[engine::kOnDrives] = config.policies.eviction[0];
      config.policies.eviction[engine::kOnGpus] = config.policies.eviction[1];
      config.policies.selection = policy(engine::PolicyKind::selection);
      config.policies.dispatch = policy(engine::PolicyKind::dispatch);
    }
    if (chance(40)) config.policies.scaling = "static:depth=" + std::to_string(from(0, 9));
    config.seed = random_.draw();
    config.credits = small(1, 4);
    config.ready_window = one_of<std::uint32_t>({1, 4, 16, 64});
    config.generation_epochs = one_of<std::uint32_t>({1, 2, 8});
    sample_bytes_ = one_of<Bytes>({1, 10, 64});
    config.block_bytes = sample_bytes_ << from(0, 6);
    config.item_slot_bytes = one_of<Bytes>({1, 16, 50, 200});
    config.rank_timeout = ms(static_cast<std::int64_t>(from(20, 200)));
    config.retry_wait = us(static_cast<std::int64_t>(from(10, 3000)));
    config.read_attempts = small(4, 8);
    config.delivery_attempts = small(3, 6);
    if (chance(20)) config.share_streams = false;
    if (chance(15)) config.workers_per_rank = small(1, 4);
    if (chance(20)) config.workers_held_during_reads = true;
    config.blocks_in_flight_per_worker = small(1, 3);
    made_.timings.read = us(static_cast<std::int64_t>(from(0, 3000)));
    made_.timings.prepare = us(static_cast<std::int64_t>(from(0, 3000)));
    made_.timings.transfer = us(static_cast<std::int64_t>(from(0, 300)));
    made_.timings.deliver = us(static_cast<std::int64_t>(from(0, 300)));
    made_.timings.jitter = chance(90);
  }

  void datasets() {
    const std::uint64_t count = chance(30) ? 2 : 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      DatasetPlan plan;
      plan.id = DatasetId(static_cast<std::uint32_t>(i + 1));
      plan.version = random_.draw();
      plan.samples = chance(10) ? from(1, 8) : from(9, 200);
      plan.bytes = from(1, 200);
      if (chance(20)) {
        for (std::uint64_t k = from(1, 5); k > 0; --k) {
          const SampleId id(random_.below(plan.samples));
          // Some must be good: only they can stand in.
          if (plan.corrupt.size() * 3 + 3 < plan.samples &&
              std::find(plan.corrupt.begin(), plan.corrupt.end(), id) == plan.corrupt.end()) {
            plan.corrupt.push_back(id);
          }
        }
      }
      made_.datasets.push_back(plan);
    }
  }

  // From a hash, so that all else of a seed's scenario is as it would be without.
  void bundles() {
    for (DatasetPlan& plan : made_.datasets) {
      const std::uint64_t word = hash(17, made_.seed, plan.id.value);
      if (word % 3 == 0) plan.bundle_shift = static_cast<std::uint8_t>(1 + word / 3 % 6);
    }
  }

  // From a hash, too: half of the jobs that can shuffle runs do.
  void runs() {
    for (std::size_t i = 0; i < made_.jobs.size(); ++i) {
      JobPlan& plan = made_.jobs[i];
      const bool can =
          plan.order == Order::relaxed && made_.datasets[plan.dataset.value - 1].bundle_shift > 0;
      plan.runs = can && hash(18, made_.seed, i) % 2 == 0;
    }
  }

  // From a hash, too: in every third scenario GPUs keep samples, and some have less or more room
  // later.
  void gpus() {
    Random random(hash(24, made_.seed));
    if (random.below(3) != 0) return;
    for (NodePlan& plan : made_.nodes) {
      for (std::uint64_t left = random.below(4); left > 0; --left)
        plan.gpus.push_back(random.below(20'000));
    }
    for (std::uint64_t left = random.below(4); left > 0; --left) {
      Fault fault{};
      fault.kind = Fault::Kind::gpu;
      fault.when = us(static_cast<std::int64_t>(random.below(150'000)));
      fault.number = random.below(1000);
      fault.bytes = random.below(2) == 0 ? 0 : random.below(20'000);
      made_.faults.push_back(fault);
    }
  }

  // From a hash, too: of every fourth scenario a policy chooses the samples, for good.
  void choose_samples() {
    constexpr const char* kChoosing[] = {"quiver", "seneca", "deepio", "quiver:blocks=2"};
    const std::uint64_t word = hash(19, made_.seed);
    if (word % 4 != 0) return;
    made_.config.policies.selection = kChoosing[word / 4 % 4];
    for (JobPlan& plan : made_.jobs) plan.node_local = plan.runs = false;
    for (Fault& fault : made_.faults) {
      if (fault.text.starts_with("selection=")) fault.text = "dispatch=fifo";
    }
  }

  // Some datasets are large, in blocks that are not too many.
  void widen() {
    engine::EngineConfig& config = made_.config;
    if (chance(50)) config.helper_nodes = small(0, 10);
    std::uint64_t most = 0;
    for (DatasetPlan& plan : made_.datasets) {
      plan.samples = (std::uint64_t{1} << from(3, 16)) + random_.below(34'465);
      if (chance(60)) plan.samples = from(9, 2000);
      if (chance(60)) plan.bytes_most = plan.bytes + from(1, 1000);
      most = std::max(most, plan.samples);
    }
    while (most * sample_bytes_ / config.block_bytes > 500) config.block_bytes *= 2;
  }

  void pipelines() {
    const std::uint64_t count = chance(30) ? 2 : 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      PipelinePlan plan;
      plan.id = PipelineId(static_cast<std::uint32_t>(i + 1));
      plan.info.hash = random_.draw();
      plan.info.has_random = chance(80);
      plan.info.prepared_bytes = sample_bytes_;
      if (chance(50)) {
        plan.info.prefix_hash = 1 + random_.below(3);
        plan.info.decoded_bytes = from(1, 100) + 100 * plan.info.prefix_hash;
      }
      made_.pipelines.push_back(plan);
    }
    // Two pipelines of one prefix decode alike.
    if (count == 2 && made_.pipelines[0].info.prefix_hash == made_.pipelines[1].info.prefix_hash) {
      made_.pipelines[1].info.decoded_bytes = made_.pipelines[0].info.decoded_bytes;
    }
  }

  void nodes() {
    const std::uint64_t count = wide_ ? from(1, 10) : chance(50) ? 1 : from(2, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      NodePlan plan;
      plan.id = NodeId(static_cast<std::uint32_t>(i + 1));
      plan.cores = i == 0 ? small(1, 4) : small(0, 3);
      // From what one rank and one block take to plenty.
      const Bytes block = std::max<Bytes>(made_.config.block_bytes, sample_bytes_);
      plan.dram = chance(50) ? block * from(2, 12) : block * from(12, 200) + from(0, 20'000);
      plan.nvme = chance(30) ? from(1, 20'000) : 0;
      if (wide_ && chance(30)) plan.dram += from(0, 5'000'000);
      plan.joins = chance(80) ? Duration(0) : ms(static_cast<std::int64_t>(from(0, 40)));
      made_.nodes.push_back(plan);
    }
  }

  std::vector<NodeId> ranks() {
    std::vector<NodeId> ranks;
    const std::uint64_t count = chance(40) ? 1 : chance(50) ? 2 : from(1, 8);
    const bool one_node = chance(50);
    const NodeId first = one_of(made_.nodes).id;
    for (std::uint64_t i = 0; i < count; ++i) {
      ranks.push_back(one_node ? first : one_of(made_.nodes).id);
    }
    return ranks;
  }

  std::uint32_t batch(std::uint64_t samples, std::size_t ranks) {
    const std::uint64_t block =
        std::max<std::uint64_t>(1, made_.config.block_bytes / sample_bytes_);
    // Seldom a step is more than there is in an epoch.
    const std::uint64_t most = std::max<std::uint64_t>(1, samples * (chance(8) ? 3 : 1) / ranks);
    const std::uint64_t wanted = chance(30)   ? block
                                 : chance(40) ? from(1, block)
                                              : from(1, 3 * block);
    return static_cast<std::uint32_t>(std::min(most, wanted));
  }

  void jobs() {
    const std::uint64_t count = wide_ ? from(2, 14) : chance(40) ? 1 : from(2, 6);
    for (std::uint64_t i = 0; i < count; ++i) {
      JobPlan plan;
      plan.user = chance(70) ? 1 : from(2, 3);
      plan.dataset = one_of(made_.datasets).id;
      plan.pipeline = one_of(made_.pipelines).id;
      const std::uint64_t kind = from(0, 12);
      plan.order = kind < 6    ? Order::relaxed
                   : kind < 8  ? Order::strict
                   : kind < 9  ? Order::sequential
                   : kind < 10 ? Order::listed
                               : Order::weighted;
      plan.has_shuffle_seed = chance(30);
      plan.shuffle_seed = from(1, 2);
      plan.ranks = ranks();
      const std::uint64_t samples = made_.datasets[plan.dataset.value - 1].samples;
      while (plan.ranks.size() > samples) plan.ranks.pop_back();
      plan.batch_samples = batch(samples, plan.ranks.size());
      plan.drop_last = chance(30);
      plan.epochs = small(1, 4);
      plan.epochs_told = chance(80);
      plan.credits = chance(50) ? 0 : small(1, 4);
      plan.joins = chance(50) ? Duration(0) : ms(static_cast<std::int64_t>(from(0, 100)));
      // Never nothing: a job would train on two epochs before it hears that the first one is over.
      plan.compute = us(static_cast<std::int64_t>(from(1, 2000)));
      plan.hold = chance(50) ? Duration(0) : us(static_cast<std::int64_t>(from(0, 3000)));
      plan.listed_batches = from(1, 30);
      if (plan.order == Order::weighted && chance(40)) plan.draws = from(samples, 2 * samples);
      plan.multinomial = chance(20);
      plan.node_local = plan.order == Order::relaxed && chance(40);
      const bool drawn = plan.order == Order::weighted || plan.order == Order::listed;
      if (!drawn && plan.batch_samples > 1 && chance(30)) {
        plan.rehearsed = small(1, plan.batch_samples - 1);
        plan.exemplars_in_100 = small(0, 100);
      }
      plan.scores_in_100 = plan.order == Order::weighted ? small(0, 100) : chance(20) ? 20 : 0;
      if (plan.order == Order::weighted && chance(40)) {
        constexpr float kScores[] = {0.25F, 1, 3, 50};
        for (std::uint64_t left = from(1, 40); left > 0; --left)
          plan.scores_first.push_back({SampleId(from(0, samples - 1)), kScores[from(0, 3)]});
      }
      if (wide_ && plan.order != Order::listed && chance(20)) plan.steps = from(1, 60);
      // So that a large dataset is not trained on for ever.
      const std::uint64_t step = (plan.batch_samples - plan.rehearsed) * plan.ranks.size();
      if (wide_ && plan.order != Order::listed && samples / step > 400) plan.steps = from(1, 400);
      made_.jobs.push_back(plan);
    }
  }

  // Some weighted jobs draw from sources instead. It has random numbers of its own, so that all
  // else of a seed's scenario is as it was.
  void mixtures() {
    Random random(hash(13, made_.seed));
    for (JobPlan& plan : made_.jobs) {
      const std::uint64_t samples = made_.datasets[plan.dataset.value - 1].samples;
      if (plan.order != Order::weighted || random.below(3) > 0) continue;
      plan.order = Order::mixed;
      plan.multinomial = false;
      plan.scores_in_100 = 0;
      plan.scores_first.clear();
      for (std::uint64_t at = random.below(3); at < samples;) {
        const std::uint64_t count = std::min(samples - at, 1 + random.below(samples));
        plan.sources.push_back({SampleId(at), count});
        plan.weights.push_back(random.below(4) == 0 ? 0 : 1 + static_cast<double>(random.below(9)));
        at += count + random.below(2);
      }
      if (plan.sources.empty()) plan.sources.push_back({SampleId(0), samples});
      plan.weights.resize(plan.sources.size(), 1);
      plan.weights[random.below(plan.weights.size())] = 5;
      std::swap(plan.sources.front(), plan.sources.back());
      plan.changes_in_100 = random.below(2) == 0 ? 0 : static_cast<std::uint32_t>(random.below(40));
    }
  }

  // Some mixtures of which nothing changes the weights have a policy that does. It has random
  // numbers of its own.
  void losses() {
    Random random(hash(21, made_.seed));
    constexpr const char* kPolicies[] = {"excess-loss", "softmax", "ucb"};
    for (JobPlan& plan : made_.jobs) {
      if (plan.order != Order::mixed || plan.changes_in_100 > 0 || random.below(2) > 0) continue;
      plan.weights_policy = fmt::format(
          "{}:every={}:least={}:change={}", kPolicies[random.below(3)], 1 + random.below(60),
          random.below(2) == 0 ? "0.01" : "0.4", random.below(2) == 0 ? "0.1" : "1");
      for (std::size_t i = 0; i < plan.sources.size(); ++i)
        plan.losses.push_back(static_cast<float>(random.unit() * 3));
    }
  }

  // Some jobs that rehearse have the engine fill their buffer; so do some mixtures. It has random
  // numbers of its own, too.
  void buffers() {
    Random random(hash(14, made_.seed));
    const auto policies = policies::policy_list().of_kind(engine::PolicyKind::rehearsal);
    for (JobPlan& plan : made_.jobs) {
      const bool can = plan.rehearsed > 0 || (plan.order == Order::mixed && plan.batch_samples > 1);
      if (!can || random.below(2) > 0) continue;
      if (plan.rehearsed == 0)
        plan.rehearsed = 1 + static_cast<std::uint32_t>(random.below(plan.batch_samples - 1));
      plan.buffer_exemplars = 1 + static_cast<std::uint32_t>(random.below(50));
      plan.buffer_policy = random.below(2) == 0
                               ? "reservoir"
                               : std::string(policies[random.below(policies.size())]->name);
      plan.exemplars.clear();
      plan.exemplars_in_100 = 0;
    }
  }

  void failures() {
    const auto rate = [&] { return chance(50) ? small(0, 150) : 0; };
    made_.failures = {rate(), rate(), rate(), rate(), rate()};
    made_.heal = ms(static_cast<std::int64_t>(from(0, 300)));
  }

  Fault fault() {
    Fault fault{};
    fault.kind = static_cast<Fault::Kind>(from(0, wide_ ? 15 : 12));
    fault.when = us(static_cast<std::int64_t>(from(0, 150'000)));
    fault.number = random_.below(1000);
    fault.later = us(static_cast<std::int64_t>(chance(20) ? 0 : from(0, 30'000)));
    if (fault.kind == Fault::Kind::node_lost && made_.nodes.size() == 1 && chance(50)) {
      fault.kind = Fault::Kind::worker_lost;
    }
    const JobPlan& job = made_.jobs[fault.number % made_.jobs.size()];
    if (chance(60)) {
      fault.ranks = ranks();
      const std::uint64_t samples = made_.datasets[job.dataset.value - 1].samples;
      while (fault.ranks.size() > samples) fault.ranks.pop_back();
    } else {
      fault.ranks = job.ranks;
    }
    fault.batch_samples = batch(made_.datasets[job.dataset.value - 1].samples, fault.ranks.size());
    // Now and then it asks for batches of nothing new.
    if (!chance(5)) fault.batch_samples = std::max(fault.batch_samples, job.rehearsed + 1);
    if (fault.kind == Fault::Kind::capacity) {
      const NodePlan& node = made_.nodes[fault.number % made_.nodes.size()];
      fault.bytes = chance(30) ? node.dram * from(1, 3) : node.dram * from(1, 10) / 10;
    }
    if (fault.kind == Fault::Kind::drive) fault.bytes = from(0, 2'000'000);
    if (fault.kind == Fault::Kind::measured) fault.bytes = from(1, 1000);
    if (fault.kind == Fault::Kind::policy) {
      constexpr const char* kKinds[] = {"allocation",        "eviction.encoded", "eviction.decoded",
                                        "eviction.prepared", "selection",        "dispatch",
                                        "eviction",          "scaling"};
      constexpr engine::PolicyKind kOf[] = {
          engine::PolicyKind::allocation, engine::PolicyKind::eviction,
          engine::PolicyKind::eviction,   engine::PolicyKind::eviction,
          engine::PolicyKind::selection,  engine::PolicyKind::dispatch,
          engine::PolicyKind::eviction,   engine::PolicyKind::scaling};
      const std::size_t k = random_.below(8);
      fault.text = std::string(kKinds[k]) + "=" + policy(kOf[k]);
      if (kOf[k] == engine::PolicyKind::scaling && chance(50)) {
        fault.text += ":depth=" + std::to_string(from(0, 9));
      }
    }
    if (fault.kind == Fault::Kind::configuration) {
      fault.text =
          one_of<std::string>({"credits=1", "credits=3", "corrupt_ratio_max=50%",
                               "rank_timeout=60ms", "retry_wait=100us", "read_attempts=9"});
    }
    if (fault.kind == Fault::Kind::coordinator_lost && chance(30)) {
      fault.bytes = sample_bytes_ << from(0, 6);
    }
    // A node that rests for ever may leave no node that prepares.
    if (fault.kind == Fault::Kind::node_quiesced) fault.later = us(1) + fault.later;
    return fault;
  }

  void faults() {
    for (std::uint64_t i = from(1, wide_ ? 14 : 6); i > 0; --i) {
      Fault one = fault();
      made_.heal = std::max(made_.heal, one.when + one.later);
      // What shrinks grows again, or jobs may wait for memory for ever.
      if (one.kind == Fault::Kind::capacity) {
        Fault back = one;
        back.when += ms(30);
        back.bytes = made_.nodes[one.number % made_.nodes.size()].dram;
        made_.faults.push_back(back);
      }
      made_.faults.push_back(one);
    }
    made_.from_promises = chance(50);
    made_.let_go_ends = chance(50);
  }

  Random random_;
  Scenario made_;
  Bytes sample_bytes_ = 1;
  bool wide_;
};

}  // namespace

Scenario random_scenario(std::uint64_t seed) {
  return Maker(seed).make();
}

Scenario wide_scenario(std::uint64_t seed) {
  return Maker(seed, true).make();
}

}  // namespace batchflow::test
