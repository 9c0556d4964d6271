#include "core/engine/reserves.h"

#include <algorithm>
#include <utility>

#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

// ----------------------------------------------------------------------- what is promised ----

// Whether the promises of each node can be raised by what the job needs with that many credits.
// `needed` and `available` do not include what has been promised already.
bool Reserves::fits(const Job& job, std::uint32_t credits, std::uint64_t& needed,
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
Bytes Reserves::listed_bytes(const Job& job, NodeId node, std::uint32_t credits) const {
  const Bytes batch =
      saturating_product(largest_staged(s_, s_.datasets[job.dataset]), job.batch_samples);
  return saturating_product(batch, std::uint64_t{ranks_on(job, node)} * credits);
}

// A listed order has no blocks: its batches hold what they have read until they are released.
bool Reserves::fits_listed(const Job& job, std::uint32_t credits, std::uint64_t& needed,
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

// One of the nodes that can prepare for the job must have a slot for a block: a node of its ranks,
// or any other. If no node prepares, one may do so later: the job waits as a stranded job does.
bool Reserves::can_be_made(const Job& job, std::uint64_t& needed, std::uint64_t& available) const {
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

bool Reserves::reserve(Job& job, std::uint32_t credits_wanted, std::uint64_t& needed,
                       std::uint64_t& available) {
  for (std::uint32_t credits = std::min(credits_wanted, kCreditsMost); credits > 0; --credits) {
    job.credits = credits;
    if (fits(job, credits, needed, available)) return true;
  }
  return false;
}

void Reserves::take(Job& job) {
  Stream& stream = s_.streams[job.stream];
  const bool own = job.batch_samples > stream.block_samples;
  for (StreamNode& part : stream.nodes) {
    const Slots ranks = ranks_on(job, part.node);
    if (ranks == 0) continue;
    if (own) {
      const ShareId share = s_.memory.add_share(
          {dram_of(part.node), ShareUse::batches, s_.datasets[stream.dataset].id, 0,
           stream.sample_bytes * job.batch_samples, 0, ranks * job.credits});
      s_.memory.promise(share, ranks * job.credits);
      job.batch_shares.push_back(share);
    } else {
      part.reserve += ranks * job.credits;
    }
    job.reserved.push_back({part.node, ranks, own ? 0 : ranks * job.credits});
    holders_[{part.node, job.serial}] = job.index;
    s_.nodes[part.index].jobs.push_back(job.index);
    ++part.jobs;
    part.ranks += ranks;
    streams_.promise(part);
    raise_staging(s_, stream, dram_of(part.node));
  }
  take_listed(job);
}

void Reserves::take_listed(Job& job) {
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

Bytes Reserves::promised_to(const Job& job, Place place) const {
  Bytes bytes = 0;
  const auto count = [&](ShareId index, Slots slots) {
    const SharePart& share = s_.memory[index];
    if (share.spec.place == place) bytes += slots * share.spec.slot_bytes;
  };
  for (const Job::Reserved& one : job.reserved) {
    for (const StreamNode& part : s_.streams[job.stream].nodes)
      if (part.node == one.node) count(part.share, one.slots);
  }
  for (const ShareId share : job.batch_shares) count(share, s_.memory[share].least);
  for (const Job::Listed& one : job.listed) bytes += dram_of(one.node) == place ? one.bytes : 0;
  return bytes;
}

// --------------------------------------------------------------------- what is given up ----

// What ranks still read of void steps stays covered, batch by batch.
void Reserves::cover_held(const Job& job, Stream& stream) {
  for (const BatchIndex index : job.held) {
    Batch& batch = batches_[index];
    const Block* block = batch.in_place ? s_.at(batch.pieces.front().block) : nullptr;
    const ShareId share = block ? block->share : batch.share;
    for (StreamNode& part : stream.nodes) {
      if (part.share != share || !batch.reserved.is_none()) continue;
      batch.reserved = share;
      ++part.reserve;
    }
  }
}

void Reserves::uncover(EngineState& s, Batch& batch) {
  if (batch.reserved.is_none()) return;
  // Its job may have gone on in another stream.
  for (StreamNode& part : s.streams[s.memory[batch.reserved].stream].nodes) {
    if (part.share != batch.reserved) continue;
    --part.reserve;
    keep_promise(s, part);
    s.room_on(part.node);
  }
  batch.reserved = ShareId::none();
}

void Reserves::free_retired(EngineState& s, Job& job, ShareId share) {
  const auto retired = std::find(job.retired_shares.begin(), job.retired_shares.end(), share);
  if (retired == job.retired_shares.end() || s.memory[share].share->used() > 0) return;
  s.memory.remove_share(share);
  job.retired_shares.erase(retired);
}

void Reserves::forget(Job& job) {
  give_up_listed(job);
  for (const ShareId share : job.retired_shares) s_.memory.remove_share(share);
}

void Reserves::forget_node(Job& job, NodeId node) {
  const auto is_there = [&](const Job::Reserved& reserved) { return reserved.node == node; };
  if (std::erase_if(job.reserved, is_there) > 0) {
    std::erase(s_.nodes[s_.node_of.at(node)].jobs, job.index);
  }
  std::erase_if(job.listed, [&](const Job::Listed& one) { return one.node == node; });
  holders_.erase({node, job.serial});
  for (auto* shares : {&job.batch_shares, &job.retired_shares}) {
    for (const ShareId share : *shares) {
      if (s_.memory[share].spec.place.node == node) s_.memory.remove_share(share);
    }
    std::erase_if(*shares, [&](ShareId share) { return !s_.memory.live(share); });
  }
}

JobIndex Reserves::youngest_on(NodeId node) const {
  const auto after = holders_.upper_bound({node, UINT64_MAX});
  const auto youngest = after == holders_.begin() ? holders_.end() : std::prev(after);
  return youngest == holders_.end() || youngest->first.first != node ? JobIndex::none()
                                                                     : youngest->second;
}

void Reserves::give_up(Job& job) {
  Stream& stream = s_.streams[job.stream];
  cover_held(job, stream);
  for (const Job::Reserved& reserved : job.reserved) {
    holders_.erase({reserved.node, job.serial});
    for (StreamNode& part : stream.nodes) {
      if (part.node != reserved.node) continue;
      part.reserve -= reserved.slots;
      std::erase(s_.nodes[part.index].jobs, job.index);
      --part.jobs;
      part.ranks -= reserved.ranks;
      streams_.promise(part);
    }
  }
  job.reserved.clear();
  for (const Job::Listed& one : job.listed) holders_.erase({one.node, job.serial});
  if (job.held.empty()) give_up_listed(job);
  for (const ShareId share : job.batch_shares) {
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

// REQUIRES: none of the job's batches is out any more
void Reserves::give_up_listed(Job& job) {
  for (const Job::Listed& one : job.listed) {
    s_.memory.give_back_listed(dram_of(one.node), one.bytes);
  }
  job.listed.clear();
}

}  // namespace batchflow::engine
