// Which eviction policy each share has: that of all shares of its kind, or one of its own.
//
// A policy that replaces another is shown what is resident, a part in each step. Beside the policy
// that decides, candidates may be shown the requests of a share; they decide nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/explain.h"
#include "core/engine/indices.h"
#include "core/engine/policy_list.h"
#include "core/engine/share_part.h"

namespace batchflow::engine {

// The random numbers of a share's policy. They follow from the engine's seed, from what the share
// is for, and from how often its policy was changed, and from nothing else.
Random policy_random(std::uint64_t engine_seed, const ShareSpec& spec, std::uint64_t changes);

class SharePolicies {
 public:
  using Shares = IndexedPool<SharePart, ShareId>;

  // `choices`: kEvictions of them. `explain` outlives it.
  SharePolicies(Shares& shares, std::vector<PolicyChoice> choices, std::uint64_t seed,
                const Explain& explain);

  // The policy of a share that begins, with all that watches it.
  std::unique_ptr<EvictionPolicy> begin(SharePart& part) const;
  void end(ShareId share) { std::erase(adopting_, share); }

  // Whether some share may want samples before they are requested.
  bool reads_early() const;
  bool is_own(ShareId share) const {
    return shares_.live(share) && shares_[share].own_choice != nullptr;
  }

  void change(const PolicyChoice& choice, std::size_t eviction);
  // Changes the policy of this share alone, until that of all shares is changed. False: the share
  // has no policy of that kind, or is gone.
  bool change(const PolicyChoice& choice, std::size_t eviction, ShareId only);
  // Continues the adoption of residents by new policies. True when more is left to do. Those that a
  // new policy was just shown are appended, so that it can be told what is known of them.
  bool adopt(std::size_t limit, std::vector<Resident>& adopted);

  // Policies that are shown the requests of all shares that they might serve, by eviction
  // (PolicyTexts). They replace those of the last call.
  struct Candidate {
    std::size_t eviction;
    std::shared_ptr<const PolicyChoice> choice;
  };
  void set_candidates(std::vector<Candidate> candidates);

 private:
  // The draws of candidates are of no policy that decides.
  static constexpr std::uint64_t kCandidates = 1'000'000;

  const std::shared_ptr<const PolicyChoice>& choice_for(const SharePart& part) const {
    return part.own_choice ? part.own_choice : choices_[eviction_of(part.spec)];
  }
  std::unique_ptr<EvictionPolicy> make(const SharePart& part, Slots capacity) const;
  void swap(ShareId share);
  void add_candidates(SharePart& part) const;

  Shares& shares_;
  std::vector<std::shared_ptr<const PolicyChoice>> choices_;
  std::vector<Candidate> candidates_;
  std::uint64_t seed_;
  const Explain& explain_;
  std::vector<ShareId> adopting_;
};

}  // namespace batchflow::engine
