#include "core/engine/share_policies.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::engine {

Random policy_random(std::uint64_t engine_seed, const ShareSpec& spec, std::uint64_t changes) {
  return Random(hash(engine_seed, 1, spec.place.node.value,
                     static_cast<std::uint64_t>(spec.place.tier), spec.place.device,
                     static_cast<std::uint64_t>(spec.use), spec.dataset.value, spec.prefix,
                     changes));
}

SharePolicies::SharePolicies(Shares& shares, std::vector<PolicyChoice> choices, std::uint64_t seed,
                             const Explain& explain)
    : shares_(shares), seed_(seed), explain_(explain) {
  for (PolicyChoice& choice : choices)
    choices_.push_back(std::make_shared<const PolicyChoice>(std::move(choice)));
  BF_CHECK(choices_.size() == kEvictions);
}

std::unique_ptr<EvictionPolicy> SharePolicies::begin(SharePart& part) const {
  part.choice = choice_for(part);
  auto policy = make(part, 0);
  if (!of_blocks(part.spec.use) && part.spec.bundle_shift == 0)
    part.shadow = std::make_unique<ShadowCache>(part.spec.items);
  add_candidates(part);
  return policy;
}

std::unique_ptr<EvictionPolicy> SharePolicies::make(const SharePart& part, Slots capacity) const {
  const ShareSpec& spec = part.spec;
  const PolicyChoice& choice = *choice_for(part);
  const std::size_t items =
      part.numbers ? part.numbers->room() : std::max(spec.items, part.owner_of.size());
  auto policy =
      choice.make_eviction(items, capacity, policy_random(seed_, spec, part.policy_changes),
                           form_of(spec.use), spec.place.tier, spec.dataset);
  return explained(explain_, choice, std::move(policy), spec, part.numbers);
}

bool SharePolicies::reads_early() const {
  return std::any_of(choices_.begin(), choices_.end(),
                     [](const auto& choice) { return choice->entry->reads_early; });
}

void SharePolicies::change(const PolicyChoice& choice, std::size_t eviction) {
  choices_[eviction] = std::make_shared<const PolicyChoice>(choice);
  shares_.each([&](ShareId index) {
    if (eviction_of(shares_[index].spec) != eviction) return;
    shares_[index].own_choice.reset();
    swap(index);
  });
}

bool SharePolicies::change(const PolicyChoice& choice, std::size_t eviction, ShareId only) {
  if (!shares_.live(only) || eviction_of(shares_[only].spec) != eviction) return false;
  shares_[only].own_choice = std::make_shared<const PolicyChoice>(choice);
  swap(only);
  return true;
}

void SharePolicies::swap(ShareId index) {
  SharePart& part = shares_[index];
  ++part.policy_changes;
  auto policy = make(part, part.share->capacity());
  const auto& choice = choice_for(part);
  hand_over(*part.choice, part.share->policy(), *choice, *policy);
  part.share->swap_policy(std::move(policy));
  part.incoming_choice = choice;
  adopting_.push_back(index);
}

void SharePolicies::set_candidates(std::vector<Candidate> candidates) {
  candidates_ = std::move(candidates);
  shares_.each([&](ShareId index) { add_candidates(shares_[index]); });
}

// A share that numbers its items is so large that a candidate's memory would count.
void SharePolicies::add_candidates(SharePart& part) const {
  part.candidates.clear();
  const ShareSpec& spec = part.spec;
  if ((spec.use != ShareUse::encoded && spec.use != ShareUse::decoded) || part.numbers) return;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].eviction != eviction_of(spec)) continue;
    part.candidates.push_back(std::make_unique<PolicyShadow>(
        candidates_[i].choice, spec.items, policy_random(seed_, spec, kCandidates + i),
        form_of(spec.use), spec.place.tier, spec.dataset));
  }
}

bool SharePolicies::adopt(std::size_t limit, std::vector<Resident>& adopted) {
  if (adopting_.empty()) return false;
  const ShareId index = adopting_.back();
  SharePart& part = shares_[index];
  std::vector<ItemId> shown;
  if (part.share->adopt(limit, &shown)) {
    adopting_.pop_back();
    if (part.incoming_choice) part.choice = std::move(part.incoming_choice);
    part.incoming_choice.reset();
  }
  for (const ItemId item : shown) {
    const bool block = of_blocks(part.spec.use);
    adopted.push_back({index, item, block ? part.owner_of[item.value] : BlockIndex::none(),
                       block ? part.slot_of[item.value] : SlotId::none()});
  }
  return !adopting_.empty();
}

}  // namespace batchflow::engine
