// What jobs are promised of each place when they join, and what becomes of these promises.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/membership.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

// Whether the promises of each node can be raised by what the job needs with that many credits.
// `needed` and `available` do not include what has been promised already.
bool Membership::fits(const Job& job, std::uint32_t credits, std::uint64_t& needed,
                      std::uint64_t& available) const {
  const Stream& stream = s_.streams[job.stream];
  for (const StreamNode& part : stream.nodes) {
    const Slots ranks = ranks_on(job, part.node);
    if (ranks == 0) continue;
    const Place place = dram_of(part.node);
    const bool own = job.batch_samples > stream.block_samples;
    const Bytes batch = saturating_product(stream.sample_bytes, job.batch_samples);
    const Slots least = part.reserve + 1 + (own ? 0 : ranks * credits);
    const SharePart& share = s_.memory[part.share];
    const unsigned __int128 need =
        static_cast<unsigned __int128>(least - share.least) * share.spec.slot_bytes +
        more_staging(s_, stream, place) +
        (own ? static_cast<unsigned __int128>(ranks) * credits * batch : 0);
    const Bytes promised = s_.memory.promised(place);
    const Bytes capacity = s_.memory.capacity(place);
    const Bytes left = capacity > promised ? capacity - promised : 0;
    if (need <= left) continue;
    needed = need > UINT64_MAX ? UINT64_MAX : static_cast<std::uint64_t>(need);
    available = left;
    return false;
  }
  return fits_listed(job, credits, needed, available) && can_be_made(job, needed, available);
}

// How much staging memory batches of a listed order may take on the node.
Bytes Membership::listed_bytes(const Job& job, NodeId node, std::uint32_t credits) const {
  const Bytes batch =
      saturating_product(largest_staged(s_, s_.datasets[job.dataset]), job.batch_samples);
  return saturating_product(batch, std::uint64_t{ranks_on(job, node)} * credits);
}

// A listed order has no blocks: its batches hold what they have read until they are released.
bool Membership::fits_listed(const Job& job, std::uint32_t credits, std::uint64_t& needed,
                             std::uint64_t& available) const {
  if (job.order != Order::listed || !s_.config.count_staging) return true;
  for (const RankState& rank : job.ranks) {
    const Place place = dram_of(rank.node);
    const Bytes promised = s_.memory.promised(place);
    const Bytes capacity = s_.memory.capacity(place);
    const Bytes left = capacity > promised ? capacity - promised : 0;
    const Bytes need = listed_bytes(job, rank.node, credits);
    if (need <= left) continue;
    needed = need;
    available = left;
    return false;
  }
  return true;
}

void Membership::take_listed(Job& job) {
  if (job.order != Order::listed || !s_.config.count_staging) return;
  for (const RankState& rank : job.ranks) {
    const bool known = std::any_of(job.listed.begin(), job.listed.end(),
                                   [&](const Job::Listed& one) { return one.node == rank.node; });
    if (known) continue;
    job.listed.push_back({rank.node, listed_bytes(job, rank.node, job.credits)});
    s_.memory.promise_listed(dram_of(rank.node), job.listed.back().bytes);
    holders_[{rank.node, job.serial}] = job.index;
  }
}

// REQUIRES: none of the job's batches is out any more
void Membership::give_up_listed(Job& job) {
  for (const Job::Listed& one : job.listed) {
    s_.memory.give_back_listed(dram_of(one.node), one.bytes);
  }
  job.listed.clear();
}

// One of the nodes that can prepare for the job must have a slot for a block: a node of its ranks,
// or any other. If no node prepares, one may do so later: the job waits as a stranded job does.
bool Membership::can_be_made(const Job& job, std::uint64_t& needed,
                             std::uint64_t& available) const {
  const Stream& stream = s_.streams[job.stream];
  bool any = false;
  needed = stream.block_bytes;
  available = 0;
  for (const StreamNode& part : stream.nodes) {
    const Node& node = s_.nodes[part.index];
    if (!node.takes_work || node.workers == 0) continue;
    any = true;
    if (ranks_on(job, part.node) > 0 || part.jobs > 0 || part.standby) return true;
    const Bytes here =
        saturating_sum(stream.block_bytes, more_staging(s_, stream, dram_of(part.node)));
    const Bytes promised = s_.memory.promised(dram_of(part.node));
    const Bytes capacity = s_.memory.capacity(dram_of(part.node));
    const Bytes left = capacity > promised ? capacity - promised : 0;
    if (here <= left) return true;
    if (left >= available) {
      needed = here;
      available = left;
    }
  }
  return !any;
}

void Membership::promise(const StreamNode& part) {
  keep_promise(s_, part);
  standby_nodes_.push_back(part.index);
}

// Promises streams a slot on each of their nodes that can prepare, as long as there is room for it.
bool Membership::stand_by() {
  if (std::exchange(helpers_due_, false)) {
    for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
      if (!s_.streams.live(index) || s_.streams[index].jobs.empty()) continue;
      Stream& stream = s_.streams[index];
      if (stream.family == Order::listed) continue;
      add_helpers(stream);
      if (open_homes(stream, {})) items_.settle(s_.datasets[stream.dataset]);
    }
  }
  if (standby_nodes_.empty()) return false;
  s_.sort_by_joining(standby_nodes_);
  standby_nodes_.erase(std::unique(standby_nodes_.begin(), standby_nodes_.end()),
                       standby_nodes_.end());
  bool changed = false;
  for (const std::uint32_t node : std::exchange(standby_nodes_, {})) {
    const std::vector<std::uint32_t>& streams = s_.nodes[node].streams;
    maybe_stranded_.insert(maybe_stranded_.end(), streams.begin(), streams.end());
    changed = stand_by(s_.nodes[node]) || changed;
  }
  return changed;
}

bool Membership::stand_by(const Node& node) {
  if (node.lost || node.workers == 0) return false;
  const Place place = dram_of(node.id);
  bool changed = false;
  for (const std::uint32_t index : node.streams) {
    Stream& stream = s_.streams[index];
    StreamNode& part = node_of(stream, node.id);
    if (stream.jobs.empty() || part.jobs > 0 || part.standby) continue;
    const Bytes needed = saturating_sum(stream.block_bytes, more_staging(s_, stream, place));
    if (saturating_sum(s_.memory.promised(place), needed) > s_.memory.capacity(place)) continue;
    part.standby = true;
    s_.memory.promise(part.share, 1);
    raise_staging(s_, stream, place);
    s_.plan_staging(part.index);
    changed = true;
  }
  return changed;
}

bool Membership::reserve(Job& job, std::uint32_t credits_wanted, std::uint64_t& needed,
                         std::uint64_t& available) {
  for (std::uint32_t credits = std::min(credits_wanted, kCreditsMost); credits > 0; --credits) {
    job.credits = credits;
    if (fits(job, credits, needed, available)) return true;
  }
  return false;
}

void Membership::take_reserve(Job& job) {
  Stream& stream = s_.streams[job.stream];
  const bool own = job.batch_samples > stream.block_samples;
  for (StreamNode& part : stream.nodes) {
    const Slots ranks = ranks_on(job, part.node);
    if (ranks == 0) continue;
    if (own) {
      const std::uint32_t share = s_.memory.add_share(
          {dram_of(part.node), ShareUse::batches, s_.datasets[stream.dataset].id, 0,
           stream.sample_bytes * job.batch_samples, 0, ranks * job.credits});
      s_.memory.promise(share, ranks * job.credits);
      job.batch_shares.push_back(share);
    } else {
      part.reserve += ranks * job.credits;
    }
    job.reserved.push_back({part.node, ranks, own ? 0 : ranks * job.credits});
    holders_[{part.node, job.serial}] = job.index;
    ++part.jobs;
    part.ranks += ranks;
    promise(part);
    raise_staging(s_, stream, dram_of(part.node));
  }
  take_listed(job);
}

void Membership::give_up_reserve(Job& job) {
  Stream& stream = s_.streams[job.stream];
  // What ranks still read of void steps stays covered, batch by batch.
  for (const std::uint32_t index : job.held) {
    Batch& batch = s_.batches[index];
    const Block* block = batch.in_place ? s_.at(batch.pieces.front().block) : nullptr;
    const std::uint32_t share = block ? block->share : batch.share;
    for (StreamNode& part : stream.nodes) {
      if (part.share != share || batch.reserved != kNone) continue;
      batch.reserved = share;
      ++part.reserve;
    }
  }
  for (const Job::Reserved& reserved : job.reserved) {
    holders_.erase({reserved.node, job.serial});
    for (StreamNode& part : stream.nodes) {
      if (part.node != reserved.node) continue;
      part.reserve -= reserved.slots;
      --part.jobs;
      part.ranks -= reserved.ranks;
      promise(part);
    }
  }
  job.reserved.clear();
  for (const Job::Listed& one : job.listed) holders_.erase({one.node, job.serial});
  if (job.held.empty()) give_up_listed(job);
  for (const std::uint32_t share : job.batch_shares) {
    // Batches that are still read keep their share until the last one is released.
    if (s_.memory[share].share->used() > 0) {
      s_.memory.promise(share, s_.memory[share].share->used());
      job.retired_shares.push_back(share);
    } else {
      s_.memory.remove_share(share);
    }
  }
  job.batch_shares.clear();
}

void Membership::admit(Job& job) {
  Stream& stream = s_.streams[job.stream];
  job.state = Job::State::running;
  if (job.order != Order::listed) size_lanes(stream);
  s_.order(Admit{job.id, stream.id, job.credits, stream.block_samples, job.committed_step});
  if (job.order != Order::listed && (!job.weights || job.drawn)) begin(job);
  s_.touch(job.index);
}

// Whether no node that prepares has, or will have, a slot for the stream's blocks.
static bool is_stranded(const EngineState& s, const Stream& stream) {
  return std::none_of(stream.nodes.begin(), stream.nodes.end(), [&](const StreamNode& part) {
    const Node& node = s.nodes[part.index];
    return node.takes_work && node.workers > 0 && (part.jobs > 0 || part.standby);
  });
}

// Workers may come back, and memory may become free. But ranks wait for an answer no longer than
// for another rank.
void Membership::find_stranded() {
  if (std::exchange(stranded_due_, false)) {
    maybe_stranded_.resize(s_.streams.size());
    std::iota(maybe_stranded_.begin(), maybe_stranded_.end(), 0u);
  }
  std::sort(maybe_stranded_.begin(), maybe_stranded_.end());
  maybe_stranded_.erase(std::unique(maybe_stranded_.begin(), maybe_stranded_.end()),
                        maybe_stranded_.end());
  for (const std::uint32_t index : std::exchange(maybe_stranded_, {})) {
    if (!s_.streams.live(index) || s_.streams[index].family == Order::listed) continue;
    Stream& stream = s_.streams[index];
    bool stranded = !stream.jobs.empty() && is_stranded(s_, stream);
    if (stranded) {
      // Other nodes may be the first that can prepare now.
      add_helpers(stream);
      if (open_homes(stream, {})) items_.settle(s_.datasets[stream.dataset]);
      stand_by();
      stranded = is_stranded(s_, stream);
    }
    if (stranded == (stream.stranded != 0)) continue;
    stream.stranded = stranded ? ++s_.serials : 0;
    if (!stranded) continue;
    s_.alarms.set(after(s_.now, s_.config.rank_timeout),
                  {AlarmKind::stranded, index, stream.stranded});
  }
}

void Membership::still_stranded(std::uint32_t index, std::uint64_t serial) {
  if (!s_.streams.live(index) || s_.streams[index].stranded != serial) return;
  const std::vector<std::uint32_t> jobs = s_.streams[index].jobs;
  for (const std::uint32_t job : jobs) refuse(s_.jobs[job], Refusal::no_workers, 0, 0);
}

bool Membership::make_way() {
  bool changed = stand_by();
  if (!over_promised_.empty()) s_.alarms.set(s_.now, {});
  for (std::size_t i = 0; i < closing_.size();) {
    if (try_free(closing_[i])) {
      closing_.erase(closing_.begin() + static_cast<std::ptrdiff_t>(i));
      changed = true;
    } else {
      ++i;
    }
  }
  return changed;
}

bool Membership::settle() {
  bool changed = make_way();
  find_stranded();
  std::vector<std::uint32_t> waiting;
  waiting.swap(joining_);
  for (const std::uint32_t index : waiting) {
    if (!s_.jobs.live(index)) continue;
    if (s_.jobs[index].state == Job::State::resizing) {
      if (!reserve_resized(s_.jobs[index])) continue;
      changed = true;  // what it was promised is still to be planned for
    }
    if (s_.jobs[index].state != Job::State::joining) continue;
    const Job& job = s_.jobs[index];
    const auto kept = [&](const auto& one) { return s_.memory.promises_kept(dram_of(one.node)); };
    if (!std::all_of(job.reserved.begin(), job.reserved.end(), kept) ||
        !std::all_of(job.listed.begin(), job.listed.end(), kept)) {
      joining_.push_back(index);
      continue;
    }
    admit(s_.jobs[index]);
    changed = true;
  }
  std::erase_if(refused_, [&](std::uint32_t index) {
    if (!s_.jobs[index].held.empty()) return false;
    forget(s_.jobs[index]);
    return true;
  });
  return changed;
}

Bytes Membership::promised_to(const Job& job, Place place) const {
  Bytes bytes = 0;
  const auto count = [&](std::uint32_t index, Slots slots) {
    const SharePart& share = s_.memory[index];
    if (share.spec.place == place) bytes += slots * share.spec.slot_bytes;
  };
  for (const Job::Reserved& one : job.reserved) {
    for (const StreamNode& part : s_.streams[job.stream].nodes)
      if (part.node == one.node) count(part.share, one.slots);
  }
  for (const std::uint32_t share : job.batch_shares) count(share, s_.memory[share].least);
  for (const Job::Listed& one : job.listed) bytes += dram_of(one.node) == place ? one.bytes : 0;
  return bytes;
}

void Membership::begin_step() {
  constexpr std::size_t kDropsAStep = 1024;
  constexpr std::size_t kRefusalsAStep = 8;  // each looks at all streams of its data set
  drops_left_ = kDropsAStep;
  refusals_left_ = kRefusalsAStep;
  std::erase_if(over_promised_, [&](const Place& place) { return keep_promises(place); });
}

// If a place has become too small for its promises, the youngest are taken back. False: some in
// this step, and others in the next.
bool Membership::keep_promises(Place place) {
  for (;;) {
    const Bytes promised = s_.memory.promised(place);
    const Bytes capacity = s_.memory.capacity(place);
    if (promised <= capacity) return true;
    const auto after = holders_.upper_bound({place.node, UINT64_MAX});
    const auto youngest = after == holders_.begin() ? holders_.end() : std::prev(after);
    if (youngest == holders_.end() || youngest->first.first != place.node) {
      give_up_standby(place);
      return true;
    }
    if (refusals_left_ == 0) return false;
    --refusals_left_;
    Job& job = s_.jobs[youngest->second];
    const Bytes its = promised_to(job, place);
    const Bytes missing = promised - capacity;
    refuse(job, Refusal::no_room, its, its > missing ? its - missing : 0);
  }
}

void Membership::give_up_standby(Place place) {
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (!s_.streams.live(index)) continue;
    stranded_due_ = true;
    for (StreamNode& part : s_.streams[index].nodes) {
      if (dram_of(part.node) != place || part.jobs > 0) continue;
      part.standby = false;
      promise(part);
    }
  }
}

}  // namespace batchflow::engine
