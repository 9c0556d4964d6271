#include "core/engine/allocation.h"

#include <algorithm>
#include <utility>

#include "core/base/random.h"

namespace batchflow::engine {

namespace {

// The members of a share or a part that are looked at stand at its beginning.
void prefetch(const void* what) {
  const char* const at = static_cast<const char*>(what);
  for (const int line : {0, 64, 128}) __builtin_prefetch(at + line);
}

}  // namespace

Allocation::Allocation(const PolicyChoice& choice, std::uint64_t seed, const Explain& explain,
                       Asked& asked)
    : choice_(choice), seed_(seed), explain_(explain), asked_(asked) {
  change(choice);
}

void Allocation::change(const PolicyChoice& choice) {
  const PolicyChoice before = std::exchange(choice_, choice);
  const auto last = std::move(policy_);
  policy_ =
      explained(explain_, choice_, choice_.make<MakeAllocation>(Random(hash(seed_, 5, ++made_))));
  if (last) hand_over(before, *last, choice_, *policy_);
}

Instant Allocation::plan(Instant now, Place place, Bytes room, std::span<const ShareId> of_place,
                         Shares& shares) {
  views_.clear();
  // Each lies elsewhere in memory: all are fetched before the first is looked at.
  for (const ShareId id : of_place) prefetch(&shares[id]);
  for (const ShareId id : of_place) prefetch(shares[id].share.get());
  for (const ShareId id : of_place) show(now, shares[id], id);
  slots_.assign(views_.size(), 0);
  PlaceView view{place, room, views_, now};
  if (complete_ && (policy_->wants_measures() || explain_)) complete_(view, views_, shares);
  {
    const Asking asking(asked_, view);
    policy_->allocate(view, slots_);
  }
  if (exceeds(room)) {
    ++refused_;
    for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i] = views_[i].slots_now;
  }
  raise_to_promises(room, of_place, shares);
  keep_idle(room, of_place, shares);
  for (std::size_t i = 0; i < slots_.size(); ++i) shares[of_place[i]].target = slots_[i];
  for (const ShareId id : of_place) shares[id].needed_most = shares[id].needed;
  return policy_->ask_again();
}

void Allocation::show(Instant now, SharePart& share, ShareId id) {
  const auto& counters = share.share->counters();
  const std::uint64_t requests = counters.hits + counters.misses;
  if (requests == 0) {
    share.seen = now;
  } else if (now > share.seen) {
    const double passed = static_cast<double>((now - share.seen).count()) * 1e-9;
    share.requests.was(share.seen, now,
                       static_cast<double>(requests - share.requests_seen) / passed);
    share.hits.was(share.seen, now, static_cast<double>(counters.hits - share.hits_seen) / passed);
    share.requests_seen = requests;
    share.hits_seen = counters.hits;
    share.seen = now;
  }
  ShareView& view = views_.emplace_back();
  view.share = id;
  view.form = form_of(share.spec.use);
  view.dataset = share.spec.dataset;
  view.slot_bytes = share.spec.slot_bytes;
  view.slots_now = share.share->capacity();
  view.slots_used = share.share->used();
  view.slots_least = share.least;
  view.slots_ahead = share.ahead;
  view.slots_all = share.spec.slots_all;
  view.jobs = share.jobs;
  view.ranks = share.ranks;
  view.requests_per_s = share.requests.at(now);
  view.hit_ratio =
      view.requests_per_s > 0 ? std::min(1.0, share.hits.at(now) / view.requests_per_s) : 0.0;
}

bool Allocation::exceeds(Bytes room) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] > room / views_[i].slot_bytes) return true;
    room -= slots_[i] * views_[i].slot_bytes;
  }
  return false;
}

// Raises each share to its promise. The slots for this come from all shares above their promises,
// in proportion.
void Allocation::raise_to_promises(Bytes room, std::span<const ShareId> of_place,
                                   const Shares& shares) {
  unsigned __int128 least_bytes = 0;
  unsigned __int128 extra_bytes = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const SharePart& share = shares[of_place[i]];
    slots_[i] = std::max(slots_[i], share.least);
    least_bytes += static_cast<unsigned __int128>(share.least) * share.spec.slot_bytes;
    extra_bytes += static_cast<unsigned __int128>(slots_[i] - share.least) * share.spec.slot_bytes;
  }
  const unsigned __int128 left = room > least_bytes ? room - least_bytes : 0;
  if (extra_bytes <= left) return;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const SharePart& share = shares[of_place[i]];
    // left <= 2^64 and extra slots <= 2^64, so the product fits.
    const unsigned __int128 extra = slots_[i] - share.least;
    slots_[i] = share.least + static_cast<Slots>(extra * left / extra_bytes);
  }
}

// Shares without jobs get what is left over, most recently read first: a job that comes back, or
// the next one of a search, finds its samples there. Each view of a share costs time in a plan, so
// they are few.
void Allocation::keep_idle(Bytes room, std::span<const ShareId> of_place, const Shares& shares) {
  constexpr std::size_t kIdleMost = 32;
  idle_.clear();
  unsigned __int128 given = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const SharePart& share = shares[of_place[i]];
    given += static_cast<unsigned __int128>(slots_[i]) * share.spec.slot_bytes;
    if (share.jobs == 0 && share.idle_since > 0 && share.share->used() > slots_[i])
      idle_.push_back(i);
  }
  std::sort(idle_.begin(), idle_.end(), [&](std::size_t a, std::size_t b) {
    return shares[of_place[a]].idle_since > shares[of_place[b]].idle_since;
  });
  if (idle_.size() > kIdleMost) idle_.resize(kIdleMost);
  Bytes left = given < room ? room - static_cast<Bytes>(given) : 0;
  for (const std::size_t i : idle_) {
    const SharePart& share = shares[of_place[i]];
    const Slots more =
        std::min<Slots>(share.share->used() - slots_[i], left / share.spec.slot_bytes);
    slots_[i] += more;
    left -= more * share.spec.slot_bytes;
  }
}

}  // namespace batchflow::engine
