#include "policies/apart/served.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "policies/apart/calls.h"
#include "policies/apart/message.h"

namespace batchflow::apart {
namespace {

// Memory for a request is asked for while so many before it are played.
constexpr std::size_t kPrefetched = 16;
constexpr engine::Access kNoNewcomer{ItemId::none(), 0, engine::kUnknownUse};

}  // namespace

// An eviction policy and what the share of its proxy keeps, so that requests can be played as the
// share will carry them out (core/engine/share.cpp).
class Served::Eviction {
 public:
  Eviction(std::unique_ptr<engine::EvictionPolicy> policy, const MakeCall& made)
      : policy_(std::move(policy)),
        capacity_(made.capacity),
        forced_(lets_all_in(made.form)),
        kept_(static_cast<std::size_t>(made.items)) {}

  engine::EvictionPolicy& policy() { return *policy_; }

  // False: the call is none of an eviction policy.
  bool serve(CallKind kind, MessageReader& call, MessageWriter& answer) {
    switch (kind) {
      case CallKind::play:
        call.list(requests_);
        if (std::all_of(requests_.begin(), requests_.end(),
                        [&](const engine::Access& one) { return is_item(one.item); }))
          play(answer);
        return !plays_.empty();
      case CallKind::undo:
        undo(call.get<UndoCall>());
        return true;
      case CallKind::victim:
        answer.put(policy_->victim(call.get<engine::Access>()));
        return true;
      case CallKind::read_early:
        answer.put(static_cast<std::uint8_t>(policy_->read_early(call.get<engine::Access>())));
        return true;
      case CallKind::hit: {
        const auto access = call.get<engine::Access>();
        if (is_kept(access.item)) hit(access);
        return true;
      }
      case CallKind::inserted: {
        const auto access = call.get<engine::Access>();
        if (is_item(access.item) && !is_kept(access.item)) insert(access);
        return true;
      }
      case CallKind::removed: {
        const auto item = call.get<ItemId>();
        const auto why = call.get<engine::Removal>();
        if (is_kept(item)) remove(item, why);
        return true;
      }
      case CallKind::pinned: {
        const auto item = call.get<ItemId>();
        if (is_kept(item)) put_aside(item);
        return true;
      }
      case CallKind::unpinned: {
        const auto item = call.get<ItemId>();
        if (is_kept(item)) bring_back(item);
        return true;
      }
      case CallKind::resized:
        capacity_ = call.get<Slots>();
        policy_->resized(capacity_);
        return true;
      case CallKind::grow: {
        const auto items = static_cast<std::size_t>(call.get<std::uint64_t>());
        if (items <= kept_.size() || items >= UINT32_MAX) return true;
        kept_.resize(items);
        policy_->grow(items);
        return true;
      }
      case CallKind::forget: {
        const auto item = call.get<ItemId>();
        if (is_item(item) && !is_kept(item)) policy_->forget(item);
        return true;
      }
      case CallKind::needed: {
        const auto item = call.get<ItemId>();
        policy_->needed(item, call.get<std::uint32_t>());
        return true;
      }
      case CallKind::scored: {
        const auto item = call.get<ItemId>();
        policy_->scored(item, call.get<float>());
        return true;
      }
      case CallKind::epoch_began: {
        const auto job = call.get<JobId>();
        policy_->epoch_began(job, call.get<std::uint32_t>());
        return true;
      }
      default:
        return false;
    }
  }

 private:
  // Of an item: how many slots it takes, 0 if it is not kept; and that the policy knows that it is
  // pinned.
  struct Kept {
    std::uint32_t slots = 0;
    bool aside = false;
  };
  // What left in a play, and for which of the policy's answers.
  struct Left {
    std::size_t play;
    std::uint32_t answer;
    engine::Access was;
  };

  bool is_item(ItemId item) const { return item.value < kept_.size(); }
  bool is_kept(ItemId item) const { return is_item(item) && kept_[item.value].slots != 0; }

  void hit(const engine::Access& access) {
    bring_back(access.item);
    policy_->hit(access);
  }
  void put_aside(ItemId item) {
    if (!std::exchange(kept_[item.value].aside, true)) policy_->pinned(item);
  }
  void bring_back(ItemId item) {
    if (std::exchange(kept_[item.value].aside, false)) policy_->unpinned(item);
  }
  void insert(const engine::Access& access) {
    kept_[access.item.value].slots = static_cast<std::uint32_t>(access.slots);
    used_ += access.slots;
    policy_->inserted(access);
  }
  void remove(ItemId item, engine::Removal why) {
    used_ -= std::exchange(kept_[item.value].slots, 0u);
    kept_[item.value].aside = false;
    policy_->removed(item, why);
  }

  void play(MessageWriter& answer) {
    plays_.clear();
    victims_.clear();
    left_.clear();
    brought_back_.clear();
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (i + kPrefetched < requests_.size()) {
        const ItemId soon = requests_[i + kPrefetched].item;
        __builtin_prefetch(&kept_[soon.value]);
        policy_->prefetch(soon);
      }
      if (sizeof(Play) * plays_.size() + sizeof(ItemId) * victims_.size() > kPlayBytesMost) break;
      play_one(requests_[i]);
    }
    answer.list(std::span<const Play>(plays_));
    answer.list(std::span<const ItemId>(victims_));
  }
  void play_one(const engine::Access& access) {
    Play& play = plays_.emplace_back();
    play.item = access.item;
    if (is_kept(access.item)) {
      play.hit = 1;
      play.brought_back = kept_[access.item.value].aside ? 1 : 0;
      if (play.brought_back != 0) brought_back_.push_back({plays_.size() - 1, access.item});
      return hit(access);
    }
    play.admission = policy_->missed(access);
    if (forced_) {
      engine::Access no_newcomer = kNoNewcomer;
      no_newcomer.slots = access.slots;
      if (access.slots > capacity_ || !make_room(play, no_newcomer)) return;
    } else {
      if (play.admission == engine::Admission::bypass || access.slots > capacity_ ||
          used_ > capacity_)
        return;
      if (play.admission == engine::Admission::make_room) return evict_named(play, access, true);
      if (play.admission == engine::Admission::trim_and_insert) evict_named(play, access, false);
      if (!make_room(play, access)) return;
    }
    play.inserted = 1;
    insert(access);
  }
  bool make_room(Play& play, const engine::Access& newcomer) {
    while (used_ > capacity_ - newcomer.slots) {
      if (!evict(play, newcomer)) return false;
    }
    return true;
  }
  void evict_named(Play& play, const engine::Access& newcomer, bool until_fits) {
    while (!until_fits || used_ > capacity_ - newcomer.slots) {
      if (!evict(play, newcomer)) return;
    }
  }
  // False: the policy names nothing that may leave.
  bool evict(Play& play, const engine::Access& newcomer) {
    const ItemId victim = policy_->victim(newcomer);
    victims_.push_back(victim);
    ++play.victims;
    if (!is_kept(victim) || kept_[victim.value].aside) return false;
    left_.push_back({plays_.size() - 1, play.victims, {victim, kept_[victim.value].slots}});
    remove(victim, engine::Removal::evicted);
    return true;
  }

  // To the policy, what was inserted is lost, and what had left comes in anew.
  void undo(const UndoCall& call) {
    for (std::size_t i = plays_.size(); i-- > call.plays;) {
      if (plays_[i].inserted != 0 && is_kept(plays_[i].item))
        remove(plays_[i].item, engine::Removal::invalidated);
      for (; !left_.empty() && left_.back().play == i; left_.pop_back()) {
        const Left& left = left_.back();
        if ((i == call.plays && left.answer <= call.victims) || is_kept(left.was.item)) continue;
        policy_->missed(left.was);
        insert(left.was);
      }
    }
    for (const auto& [play, item] : brought_back_) {
      if (play >= call.plays && is_kept(item)) put_aside(item);
    }
    plays_.clear();
  }

  std::unique_ptr<engine::EvictionPolicy> policy_;
  Slots capacity_;
  Slots used_ = 0;
  bool forced_;  // all that is requested is let in
  std::vector<Kept> kept_;
  std::vector<engine::Access> requests_;
  std::vector<Play> plays_;  // of the last call
  std::vector<ItemId> victims_;
  std::vector<Left> left_;
  std::vector<std::pair<std::size_t, ItemId>> brought_back_;  // by which play
};

struct Served::Instance {
  // As PolicyKind counts.
  std::variant<std::unique_ptr<engine::AllocationPolicy>, std::unique_ptr<Eviction>,
               std::unique_ptr<engine::SelectionPolicy>, std::unique_ptr<engine::DispatchPolicy>,
               std::unique_ptr<engine::ScalingPolicy>, std::unique_ptr<engine::RehearsalPolicy>,
               std::unique_ptr<engine::MixturePolicy>>
      policy;

  engine::Policy& any() {
    return std::visit(
        [](auto& one) -> engine::Policy& {
          if constexpr (requires { one->policy(); }) {
            return one->policy();
          } else {
            return *one;
          }
        },
        policy);
  }
};

namespace {

Standing standing_of(engine::AllocationPolicy& policy, bool asked) {
  Standing standing;
  standing.wants_measures = policy.wants_measures() ? 1 : 0;
  if (asked) standing.ask_again = policy.ask_again().time_since_epoch().count();
  return standing;
}
Standing standing_of(engine::SelectionPolicy& policy, bool waits) {
  Standing standing;
  standing.looks_behind_ready = policy.looks_behind_ready() ? 1 : 0;
  standing.blocks_to_choose_from = policy.blocks_to_choose_from();
  if (waits) standing.ask_again = policy.ask_again().time_since_epoch().count();
  return standing;
}
Standing standing_of(engine::DispatchPolicy& policy, bool waits) {
  Standing standing;
  standing.chooses_nodes = policy.chooses_nodes() ? 1 : 0;
  if (waits) standing.ask_again = policy.ask_again().time_since_epoch().count();
  return standing;
}

Standing standing_of(engine::RehearsalPolicy& policy, bool) {
  Standing standing;
  standing.weighs = policy.weighs() ? 1 : 0;
  return standing;
}
Standing standing_of(engine::MixturePolicy& policy, bool) {
  Standing standing;
  standing.every = policy.every();
  return standing;
}

bool serve(engine::AllocationPolicy& policy, CallKind kind, MessageReader& call,
           MessageWriter& answer) {
  if (kind != CallKind::allocate) return false;
  auto view = call.get<engine::PlaceView>();
  std::vector<engine::ShareView> shares;
  call.list(shares);
  view.shares = shares;
  std::vector<Slots> slots(shares.size());
  policy.allocate(view, slots);
  answer.put(standing_of(policy, true));
  answer.put(policy.forecast());
  answer.list(std::span<const Slots>(slots));
  return true;
}

bool serve(engine::SelectionPolicy& policy, CallKind kind, MessageReader& call,
           MessageWriter& answer) {
  switch (kind) {
    case CallKind::choose: {
      auto view = call.get<engine::SelectionView>();
      std::vector<engine::SelectionCandidate> candidates;
      call.list(candidates);
      view.candidates = candidates;
      const std::uint64_t choice = policy.choose(view);
      answer.put(standing_of(policy, choice == engine::kNoChoice));
      answer.put(choice);
      return true;
    }
    case CallKind::choose_samples: {
      auto view = call.get<engine::SamplesView>();
      std::vector<engine::SampleCandidate> candidates;
      call.list(candidates);
      view.candidates = candidates;
      const auto count = call.get<std::uint64_t>();
      if (!call.ok() || count > candidates.size()) return false;
      std::vector<std::uint32_t> picks(static_cast<std::size_t>(count));
      policy.choose_samples(view, picks);
      answer.list(std::span<const std::uint32_t>(picks));
      return true;
    }
    case CallKind::weigh: {
      const auto job = call.get<JobId>();
      std::vector<float> scores;
      call.list(scores);
      std::vector<float> weights(scores.size());
      policy.weigh(job, scores, weights);
      answer.list(std::span<const float>(weights));
      return true;
    }
    case CallKind::epoch_began: {
      const auto job = call.get<JobId>();
      policy.epoch_began(job, call.get<std::uint32_t>());
      return true;
    }
    default:
      return false;
  }
}

bool serve(engine::DispatchPolicy& policy, CallKind kind, MessageReader& call,
           MessageWriter& answer) {
  if (kind == CallKind::next) {
    engine::DispatchView view{};
    view.now = call.get<Instant>();
    std::vector<engine::WorkCandidate> candidates;
    call.list(candidates);
    view.candidates = candidates;
    const std::uint64_t choice = policy.next(view);
    answer.put(standing_of(policy, choice == engine::kNoChoice));
    answer.put(choice);
    return true;
  }
  if (kind != CallKind::choose_node) return false;
  const auto work = call.get<engine::WorkCandidate>();
  std::vector<engine::NodeCandidate> candidates;
  call.list(candidates);
  answer.put(static_cast<std::uint64_t>(policy.choose_node({work, candidates})));
  return true;
}

bool serve(engine::RehearsalPolicy& policy, CallKind kind, MessageReader& call,
           MessageWriter& answer) {
  const auto exemplar = call.get<engine::Exemplar>();
  if (kind == CallKind::weight_of_exemplar) {
    answer.put(policy.weight(exemplar));
    return true;
  }
  const auto number = call.get<std::uint64_t>();
  std::vector<float> features;
  call.list(features);
  const engine::RehearsalView view{exemplar, number, features};
  const auto last = call.get<std::uint64_t>();
  if (!call.ok()) return false;
  if (kind == CallKind::choose_exemplar) {
    answer.put(static_cast<std::uint64_t>(policy.choose(view, Random(last))));
    return true;
  }
  if (kind != CallKind::put_exemplar) return false;
  policy.put(static_cast<std::size_t>(last), view);
  return true;
}

bool serve(engine::MixturePolicy& policy, CallKind kind, MessageReader& call,
           MessageWriter& answer) {
  if (kind != CallKind::weigh_sources) return false;
  const auto job = call.get<JobId>();
  const auto drawn = call.get<std::uint64_t>();
  std::vector<engine::SourceView> sources;
  call.list(sources);
  std::vector<double> weights;
  for (const engine::SourceView& source : sources) weights.push_back(source.weight);
  policy.weigh({job, drawn, sources}, weights);
  answer.put(standing_of(policy, false));
  answer.list(std::span<const double>(weights));
  return true;
}

bool serve(engine::ScalingPolicy& policy, CallKind kind, MessageReader& call,
           MessageWriter& answer) {
  if (kind == CallKind::workers) {
    answer.put(policy.workers(call.get<engine::NodeView>()));
  } else if (kind == CallKind::depth) {
    answer.put(policy.depth(call.get<engine::JobView>()));
  } else {
    return false;
  }
  return true;
}

}  // namespace

Served::Served(std::vector<const engine::PolicyEntry*> policies) : policies_(std::move(policies)) {}
Served::~Served() = default;

std::unique_ptr<Served::Instance> Served::make(std::span<const std::byte> call) const {
  MessageReader in(call);
  const auto made = in.get<MakeCall>();
  if (!in.ok() || made.policy >= policies_.size()) return nullptr;
  const engine::PolicyEntry& entry = *policies_[made.policy];
  if (made.parameters != entry.parameters.size() || made.items >= UINT32_MAX) return nullptr;
  engine::PolicyChoice choice{&entry, Parameters(entry.parameters)};
  for (const Parameter& one : entry.parameters) choice.parameters.set(one.name, in.text());
  if (!in.ok()) return nullptr;
  const Random random(made.seed);
  auto instance = std::make_unique<Instance>();
  switch (entry.kind()) {
    case engine::PolicyKind::allocation:
      instance->policy = choice.make<engine::MakeAllocation>(random);
      break;
    case engine::PolicyKind::eviction:
      instance->policy = std::make_unique<Eviction>(
          choice.make_eviction(static_cast<std::size_t>(made.items), made.capacity, random,
                               made.form, made.tier, made.dataset),
          made);
      break;
    case engine::PolicyKind::selection:
      instance->policy = choice.make<engine::MakeSelection>(random);
      break;
    case engine::PolicyKind::dispatch:
      instance->policy = choice.make<engine::MakeDispatch>(random);
      break;
    case engine::PolicyKind::scaling:
      instance->policy = choice.make<engine::MakeScaling>(random);
      break;
    case engine::PolicyKind::rehearsal:
      instance->policy = choice.make_rehearsal(static_cast<std::size_t>(made.capacity));
      break;
    case engine::PolicyKind::mixture:
      instance->policy = choice.make_mixture(static_cast<std::size_t>(made.items));
      break;
  }
  return instance;
}

bool Served::serve(std::span<const std::byte> call, std::vector<std::byte>& answer) {
  MessageReader in(call);
  const auto header = in.get<CallHeader>();
  if (!in.ok()) return false;
  MessageWriter out(answer);
  if (header.kind == CallKind::make) {
    auto made = make(call.subspan(sizeof(header)));
    if (!made) return false;
    out.put(std::visit(
        [](auto& policy) {
          if constexpr (requires { standing_of(*policy, false); }) {
            return standing_of(*policy, false);
          } else {
            return Standing{};
          }
        },
        made->policy));
    instances_[header.instance] = std::move(made);
    return true;
  }
  const auto found = instances_.find(header.instance);
  if (found == instances_.end()) return false;
  Instance& instance = *found->second;
  switch (header.kind) {
    case CallKind::end:
      instances_.erase(found);
      return true;
    case CallKind::save: {
      const auto room = in.get<std::uint64_t>();
      std::vector<std::byte> saved(std::min<std::uint64_t>(room, engine::kSavedMost));
      const std::size_t bytes = instance.any().save(saved);
      saved.resize(bytes <= saved.size() ? bytes : 0);
      out.list(std::span<const std::byte>(saved));
      return true;
    }
    case CallKind::restore: {
      std::vector<std::byte> saved;
      in.list(saved);
      instance.any().restore(saved);
      return true;
    }
    default:
      break;
  }
  return std::visit(
             [&](auto& policy) {
               if constexpr (requires { policy->serve(header.kind, in, out); }) {
                 return policy->serve(header.kind, in, out);
               } else {
                 return apart::serve(*policy, header.kind, in, out);
               }
             },
             instance.policy) &&
         in.ok();
}

}  // namespace batchflow::apart
