#include "policies/conformance/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <span>

#include "policies/conformance/closed_loop.h"
#include "policies/conformance/eviction_use.h"
#include "policies/conformance/random_views.h"

namespace batchflow::conformance {
namespace {

template <class... Parts>
void must(bool kept, fmt::format_string<Parts...> text, Parts&&... parts) {
  if (!kept) throw Violation(fmt::format(text, std::forward<Parts>(parts)...));
}

// ---- each asks once; what was answered enters the digest

class Allocation {
 public:
  Allocation(const engine::PolicyChoice& choice, std::uint64_t seed)
      : policy_(choice.make<engine::MakeAllocation>(Random(seed))) {}

  std::uint64_t ask(Random& random) {
    const auto shares = random_shares(random, random.below(21));
    const engine::PlaceView place = random_place(random, shares);
    std::vector<Slots> slots(shares.size(), 0);
    policy_->allocate(place, slots);
    policy_->forecast();
    unsigned __int128 bytes = 0;
    std::uint64_t digest = hash(policy_->ask_again().time_since_epoch().count());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      bytes += static_cast<unsigned __int128>(slots[i]) * shares[i].slot_bytes;
      digest = hash(digest, slots[i]);
    }
    must(bytes <= place.capacity_bytes, "it gives more bytes than the place has");
    return digest;
  }

 private:
  std::unique_ptr<engine::AllocationPolicy> policy_;
};

class Selection {
 public:
  Selection(const engine::PolicyChoice& choice, std::uint64_t seed)
      : policy_(choice.make<engine::MakeSelection>(Random(seed))),
        again_(choice.make<engine::MakeSelection>(Random(seed))) {}

  std::uint64_t ask(Random& random) {
    std::uint64_t digest = choose(random);
    digest = hash(digest, choose_when_all_are_ready(random), choose_samples(random));
    policy_->epoch_began(JobId(1), ++epoch_);
    again_->epoch_began(JobId(1), epoch_);
    return hash(digest, weigh(random));
  }

 private:
  std::uint64_t choose(Random& random) {
    const auto candidates = random_selection(random, random.below(65));
    const std::size_t taken = policy_->choose({JobId(1), Order::relaxed, candidates});
    std::span<const engine::SelectionCandidate> shown = candidates;
    if (!policy_->looks_behind_ready()) {
      // It is shown no more than this, and must not miss the rest.
      const auto ready = std::find_if(candidates.begin(), candidates.end(),
                                      [](const auto& one) { return one.ready; });
      shown = {candidates.begin(), ready == candidates.end() ? ready : std::next(ready)};
    }
    must(again_->choose({JobId(1), Order::relaxed, shown}) == taken,
         "it looks behind the first block that is ready, and says that it does not");
    if (taken != engine::kNoChoice) {
      must(taken < candidates.size(), "it takes block {} of {}", taken, candidates.size());
      must(candidates[taken].ready, "it takes a block that is not ready");
    }
    return taken;
  }
  std::uint64_t choose_when_all_are_ready(Random& random) {
    std::vector<engine::SelectionCandidate> candidates;
    const auto count = static_cast<std::uint32_t>(1 + random.below(64));
    for (std::uint32_t i = 0; i < count; ++i) candidates.push_back({i, true, 1, 0.5});
    const std::size_t taken = policy_->choose({JobId(1), Order::relaxed, candidates});
    must(taken < count, "it takes none although all blocks are ready: nothing would ask it again");
    must(again_->choose({JobId(1), Order::relaxed, candidates}) == taken,
         "it answers the same question in two ways");
    return taken;
  }
  std::uint64_t choose_samples(Random& random) {
    if (policy_->blocks_to_choose_from() == 0) return 0;
    std::vector<engine::SampleCandidate> samples(1 + random.below(200));
    for (std::size_t i = 0; i < samples.size(); ++i) {
      samples[i] = {SampleId(i), static_cast<std::uint32_t>(random.below(4)), random.below(2) == 0,
                    random.below(2) == 0, random.below(1'000'000)};
    }
    std::vector<std::uint32_t> picks(1 + random.below(samples.size()));
    const engine::SamplesView view{JobId(1), epoch_, samples.size(), samples};
    policy_->choose_samples(view, picks);
    std::vector<std::uint32_t> same(picks.size());
    again_->choose_samples(view, same);
    must(same == picks, "it picks samples in two ways for the same question");
    std::uint64_t digest = 0;
    for (const std::uint32_t pick : picks) {
      must(pick < samples.size(), "it picks sample {} of {}", pick, samples.size());
      digest = hash(digest, pick);
    }
    must(std::set<std::uint32_t>(picks.begin(), picks.end()).size() == picks.size(),
         "it picks a sample twice for one block");
    return digest;
  }
  std::uint64_t weigh(Random& random) {
    std::vector<float> scores(random.below(40)), weights(scores.size()), same(scores.size());
    for (float& score : scores) score = static_cast<float>(random.unit() * 10);
    policy_->weigh(JobId(1), scores, weights);
    again_->weigh(JobId(1), scores, same);
    must(weights == same, "it weighs scores in two ways");
    std::uint64_t digest = 0;
    for (const float weight : weights) {
      must(std::isfinite(weight) && weight >= 0, "it gives a score the weight {}", weight);
      digest = hash(digest, static_cast<std::uint64_t>(weight * 1e6f));
    }
    return digest;
  }

  std::unique_ptr<engine::SelectionPolicy> policy_, again_;
  std::uint32_t epoch_ = 0;
};

class Dispatch {
 public:
  Dispatch(const engine::PolicyChoice& choice, std::uint64_t seed)
      : policy_(choice.make<engine::MakeDispatch>(Random(seed))) {}

  std::uint64_t ask(Random& random) {
    const auto work = random_work(random, 1 + random.below(40));
    const std::size_t next = policy_->next({Instant(Duration(++now_)), work});
    must(next == engine::kNoChoice || next < work.size(), "it serves job {} of {}", next,
         work.size());
    if (!policy_->chooses_nodes()) return next;
    std::vector<engine::NodeCandidate> nodes(1 + random.below(9));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i] = {NodeId(static_cast<std::uint32_t>(i)),
                  static_cast<std::uint32_t>(random.below(9)),
                  static_cast<std::uint32_t>(random.below(65)),
                  static_cast<std::uint32_t>(random.below(65)),
                  static_cast<std::uint32_t>(random.below(9)),
                  random.unit()};
      for (std::uint64_t* bytes : {&nodes[i].in_per_s, &nodes[i].out_per_s, &nodes[i].coming,
                                   &nodes[i].going, &nodes[i].to_fetch, &nodes[i].to_send})
        *bytes = random.draw() >> random.below(64);
    }
    const std::size_t node = policy_->choose_node({work[0], nodes});
    must(node < nodes.size(), "it chooses node {} of {}", node, nodes.size());
    return hash(next, node);
  }

 private:
  std::unique_ptr<engine::DispatchPolicy> policy_;
  std::int64_t now_ = 0;
};

class Scaling {
 public:
  Scaling(const engine::PolicyChoice& choice, std::uint64_t seed)
      : policy_(choice.make<engine::MakeScaling>(Random(seed))) {}

  std::uint64_t ask(Random& random) {
    const engine::NodeView node = random_node(random);
    const std::uint32_t workers = policy_->workers(node);
    must(workers <= node.workers_most, "it wants {} workers where there are {}", workers,
         node.workers_most);
    const engine::JobView job = random_job(random);
    const std::uint32_t depth = policy_->depth(job);
    must(depth <= job.window, "it looks {} blocks ahead in a window of {}", depth, job.window);
    return hash(workers, depth);
  }

 private:
  std::unique_ptr<engine::ScalingPolicy> policy_;
};

// A buffer that is shown samples, some of them again and again. With odd seeds features are
// reported, too; with even ones, a policy that begins anew from the exemplars must choose as the
// first.
class Rehearsal {
 public:
  Rehearsal(const engine::PolicyChoice& choice, std::uint64_t seed)
      : choice_(choice),
        has_features_(seed % 2 == 1),
        capacity_(1 + Random(hash(seed, 8)).below(20)),
        policy_(choice.make_rehearsal(capacity_)) {}

  std::uint64_t ask(Random& random) {
    if (!has_features_ && random.below(10) == 0) begin_anew();
    if (!exemplars_.empty() && random.below(4) == 0) score(random);
    const engine::Exemplar sample{
        SampleId(random.below(200)), static_cast<std::uint32_t>(random.below(5)) * 7,
        random.below(2) == 0, static_cast<float>(random.unit() * 10), shown_++};
    const bool has =
        std::any_of(exemplars_.begin(), exemplars_.end(),
                    [&](const engine::Exemplar& one) { return one.sample == sample.sample; });
    if (has) return weigh();
    std::vector<float> features(has_features_ ? random.below(2) * 3 : 0);
    for (float& one : features) one = static_cast<float>(random.unit());
    const std::size_t index = policy_->choose(view(sample, features), Random(hash(shown_, 9)));
    if (again_) {
      must(again_->choose(view(sample, features), Random(hash(shown_, 9))) == index,
           "it chooses otherwise after it was made anew from the exemplars");
    }
    if (index == engine::kNoChoice) return index;
    must(index <= exemplars_.size(), "it replaces exemplar {} of {}", index, exemplars_.size());
    must(index < capacity_, "it keeps one more than the {} that there is room for", capacity_);
    if (index == exemplars_.size()) exemplars_.emplace_back();
    exemplars_[index] = sample;
    put(index, features);
    return hash(index, weigh());
  }

 private:
  engine::RehearsalView view(const engine::Exemplar& one, std::span<const float> features) const {
    return {one, hash(one.sample.value, 10), features};
  }
  void put(std::size_t index, std::span<const float> features) {
    policy_->put(index, view(exemplars_[index], features));
    if (again_) again_->put(index, view(exemplars_[index], features));
  }
  void begin_anew() {
    again_ = choice_.make_rehearsal(capacity_);
    for (std::size_t i = 0; i < exemplars_.size(); ++i) again_->put(i, view(exemplars_[i], {}));
  }
  void score(Random& random) {
    const auto index = static_cast<std::size_t>(random.below(exemplars_.size()));
    exemplars_[index].is_scored = true;
    exemplars_[index].score = static_cast<float>(random.unit() * 10);
    put(index, {});
  }
  std::uint64_t weigh() const {
    if (!policy_->weighs()) return 0;
    std::uint64_t digest = 0;
    for (const engine::Exemplar& one : exemplars_) {
      const float weight = policy_->weight(one);
      must(std::isfinite(weight) && weight >= 0, "it gives an exemplar the weight {}", weight);
      digest = hash(digest, static_cast<std::uint64_t>(weight * 1e3F));
    }
    return digest;
  }

  const engine::PolicyChoice& choice_;
  bool has_features_;
  std::size_t capacity_;
  std::unique_ptr<engine::RehearsalPolicy> policy_, again_;
  std::vector<engine::Exemplar> exemplars_;
  std::uint64_t shown_ = 0;
};

// A mixture that goes on from the weights that it was given; sometimes another policy of the same
// choice takes over, as after a crash.
class MixtureUse {
 public:
  MixtureUse(const engine::PolicyChoice& choice, std::uint64_t seed)
      : choice_(choice),
        sources_(1 + Random(hash(seed, 8)).below(20)),
        policy_(choice.make_mixture(sources_.size())) {
    for (engine::SourceView& source : sources_)
      source.weight = 1 / static_cast<double>(sources_.size());
  }

  std::uint64_t ask(Random& random) {
    if (random.below(10) == 0) policy_ = choice_.make_mixture(sources_.size());
    must(policy_->every() > 0, "it is asked again after no samples");
    std::uint64_t drawn = 0;
    std::vector<double> weights;
    for (engine::SourceView& source : sources_) {
      source.samples = 1 + random.below(1000);
      source.drawn += random.below(1000);
      source.is_known = source.is_known || random.below(2) == 0;
      source.reports = static_cast<std::uint32_t>(random.below(3));
      constexpr double kLosses[] = {0, 1, 2.5, -1, 3e38, -3e38, 1e-30};
      source.loss = kLosses[random.below(std::size(kLosses))] * random.unit();
      drawn += source.drawn;
      weights.push_back(source.weight);
    }
    policy_->weigh({JobId(1), drawn, sources_}, weights);
    double sum = 0;
    for (const double weight : weights) {
      must(std::isfinite(weight) && weight >= 0, "it gives a source the weight {}", weight);
      sum += weight;
    }
    must(sum > 0, "it gives no source any weight");
    std::uint64_t digest = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sources_[i].weight = weights[i] / sum;
      digest = hash(digest, static_cast<std::uint64_t>(sources_[i].weight * 1e15));
    }
    return digest;
  }

 private:
  const engine::PolicyChoice& choice_;
  std::vector<engine::SourceView> sources_;
  std::unique_ptr<engine::MixturePolicy> policy_;
};

// Two of them, so that a policy that draws from elsewhere than its own stream is noticed.
template <class Use>
std::uint64_t ask_both(const engine::PolicyChoice& choice, std::uint64_t seed, int steps) {
  Use use(choice, seed), same(choice, seed);
  Random random(hash(seed, 3)), same_random = random;
  std::uint64_t digest = 0;
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t answer = use.ask(random);
    must(same.ask(same_random) == answer, "it answers the same question in two ways");
    digest = hash(digest, answer);
  }
  return digest;
}

std::vector<std::string> extremes(const Parameter& parameter) {
  switch (parameter.type) {
    case Parameter::Type::integer:
      return {std::to_string(static_cast<std::int64_t>(parameter.least)),
              std::to_string(static_cast<std::int64_t>(parameter.greatest))};
    case Parameter::Type::number:
      return {std::to_string(parameter.least), std::to_string(parameter.greatest)};
    case Parameter::Type::flag:
      return {"false", "true"};
    case Parameter::Type::text:
      break;
  }
  return {std::string(parameter.default_value)};
}

}  // namespace

std::uint64_t use_at_random(const engine::PolicyChoice& choice, std::uint64_t seed, int steps) {
  switch (choice.entry->kind()) {
    case engine::PolicyKind::allocation:
      return ask_both<Allocation>(choice, seed, steps);
    case engine::PolicyKind::selection:
      return ask_both<Selection>(choice, seed, steps);
    case engine::PolicyKind::dispatch:
      return ask_both<Dispatch>(choice, seed, steps);
    case engine::PolicyKind::scaling:
      return ask_both<Scaling>(choice, seed, steps);
    case engine::PolicyKind::rehearsal:
      return ask_both<Rehearsal>(choice, seed, steps);
    case engine::PolicyKind::mixture:
      return ask_both<MixtureUse>(choice, seed, steps);
    case engine::PolicyKind::eviction:
      break;
  }
  EvictionUse use(choice, seed), same(choice, seed);
  for (int step = 0; step < steps; ++step) {
    use.run(1);
    same.run(1);
  }
  must(use.digest() == same.digest(), "it answers the same questions in two ways");
  return use.digest();
}

// By deadlines, while a job waits for its turn (its period p after the last) each other job is
// served at most p / p' + 2 <= 10 times; the 100 are for policies that are patient.
void check_fairness(const engine::PolicyChoice& choice, std::uint64_t seed) {
  Random random(hash(seed, 5));
  std::vector<Duration> periods(1 + random.below(16));
  for (Duration& period : periods)
    period = std::chrono::milliseconds(1) * (1 + static_cast<int>(random.below(8)));
  const auto policy = choice.make<engine::MakeDispatch>(Random(seed));
  const auto wait = longest_wait(*policy, periods);
  must(wait.has_value(), "it serves none of {} jobs that wait", periods.size());
  must(*wait <= 10 * periods.size() + 100,
       "a job of {} waits for {} decisions, where {} are the most; if it is meant to, declare it "
       "may_starve",
       periods.size(), *wait, 10 * periods.size() + 100);
}

void check_honesty(const engine::PolicyChoice& choice, std::uint64_t seed) {
  constexpr std::size_t kItems = 200;
  constexpr Slots kCapacity = 50;
  if (choice.entry->next_uses || choice.entry->clairvoyant) return;
  const auto run = [&](bool told) {
    engine::Share share(kItems, kCapacity, choice.make_eviction(kItems, kCapacity, Random(seed)));
    Random random(hash(seed, 6));
    std::uint64_t digest = 0;
    std::vector<ItemId> evicted;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      evicted.clear();
      const auto item =
          static_cast<std::uint32_t>(std::min(random.below(kItems), random.below(kItems)));
      const std::uint64_t next = i + 1 + random.below(300);
      const auto result =
          share.access({ItemId(item), 1, told ? next : engine::kUnknownUse}, evicted);
      digest = hash(digest, static_cast<std::uint64_t>(result));
      for (const ItemId one : evicted) digest = hash(digest, one.value);
    }
    return digest;
  };
  must(run(true) == run(false),
       "it uses next uses, and has not declared it (next_uses of its entry)");
}

std::vector<engine::PolicyChoice> variants(const engine::PolicyEntry& entry) {
  std::vector<engine::PolicyChoice> choices{{&entry, Parameters(entry.parameters)}};
  for (const Parameter& parameter : entry.parameters) {
    for (const std::string& value : extremes(parameter)) {
      choices.push_back({&entry, Parameters(entry.parameters)});
      choices.back().parameters.set(parameter.name, value);
    }
  }
  return choices;
}

}  // namespace batchflow::conformance
