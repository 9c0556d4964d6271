// Why a block that no batch uses stays: small operations on the books of a stream's share.
//
// A share of C slots with a reserve of R holds at any time:
//  - at most R slots used by batches, among them those of void steps that ranks still read,
//  - at most C - R - 1 blocks charged as made ahead,
//  - at most one block charged as current,
//  - and blocks without a charge, which may be evicted at once.
//
// C and R change, and then what is charged as ahead is weighed again. A batch takes its slot when
// the first of its blocks is resident, unless it is delivered in place, and is gathered block by
// block. The current block is kept only while its job could take it at once. So a block that a job
// waits for has a slot, and so has the batch that it goes into.
//
// What blocks are made from is read into staging memory, of which at least one sample of each
// dataset is promised (core/engine/staging.h). A block is made part by part, and holds no staging
// memory while it waits for its turn. So every part that has begun comes to an end, and every
// making has its turn: a block that a job waits for can be made, and jobs cannot stop each other.
// Batches of listed orders hold what they have read until their ranks release it. They have memory
// of their own, set apart when the job joins.
#pragma once

#include <algorithm>
#include <utility>

#include "core/base/seconds.h"
#include "core/engine/state.h"

namespace batchflow::engine {

inline Place dram_of(NodeId node) {
  return {node, Tier::dram, 0};
}

inline std::uint32_t ranks_on(const Job& job, NodeId node) {
  return static_cast<std::uint32_t>(
      std::count_if(job.ranks.begin(), job.ranks.end(),
                    [&](const RankState& rank) { return rank.node == node; }));
}

// A running mean in which the latest value counts for a fifth. It uses additions and
// multiplications alone, so that it has the same bits on every machine.
inline void smooth(double& mean, double value) {
  mean = mean == 0 ? value : mean + 0.2 * (value - mean);
}

// How many samples a job would train on each second if it never waited; 0: not measured yet.
inline double wanted_per_s(const Job& job) {
  return job.step_s > 0 ? static_cast<double>(job.ranks.size()) * job.batch_samples / job.step_s
                        : 0;
}

// Whether the job goes on in another stream when its epoch ends. It does if the configuration,
// which said whether it shares a stream when it joined, says otherwise now. Jobs of orders without
// lanes in common stay.
inline bool is_to_move(const EngineState& s, const Job& job) {
  const bool has_lanes = job.order != Order::listed && !is_drawn(job.order) && !job.chosen;
  return has_lanes && !job.stays && s.streams[job.stream].alone == s.config.share_streams;
}

// N, or how many draws an epoch of the job has; for a live job, more than it will ever have.
// `position`: where the job begins, if that is known.
inline std::uint64_t epoch_samples_of(const JobJoined& event, const Catalogue& catalogue,
                                      const order::Position* position) {
  if (event.order == Order::live) return order::kLiveBlocksMost;
  const std::uint64_t draws = event.order == Order::mixed && position ? position->fields().draws
                              : event.order == Order::weighted        ? event.draws
                                                                      : 0;
  return draws > 0 ? draws : catalogue.samples();
}

inline StreamNode& part_on(Stream& stream, NodeId node) {
  const auto found = std::find_if(stream.nodes.begin(), stream.nodes.end(),
                                  [&](const StreamNode& part) { return part.node == node; });
  BF_CHECK(found != stream.nodes.end());
  return *found;
}

// How many blocks the worker of a single job may have made ahead, the one in preparation included.
// Data loaders, too, prefetch two batches a worker.
inline constexpr Slots kAheadPerWorker = 2;

// Promises the stream's share what it needs: for batches, and for one block in preparation.
inline void keep_promise(EngineState& s, const StreamNode& part) {
  s.memory.promise(part.share, part.jobs > 0 || part.reserve > 0 ? part.reserve + 1
                               : part.standby                    ? 1
                                                                 : 0);
  s.memory.set_jobs(part.share, static_cast<std::uint32_t>(part.jobs),
                    part.ranks * s.config.workers_per_rank * kAheadPerWorker,
                    static_cast<std::uint32_t>(part.ranks));
  s.plan_staging(part.index);
}

// The slots that work ahead of need may take in all.
inline Slots spare(const EngineState& s, const StreamNode& part) {
  const Slots capacity = s.memory[part.share].share->capacity();
  return capacity > part.reserve + 1 ? capacity - part.reserve - 1 : 0;
}

// What one job may have of these slots, wherever its blocks are: on each node its ranks' part. So
// no job can keep the others from looking ahead.
inline Slots quota(const EngineState& s, const Stream& stream, const Job& job) {
  Slots sum = 0;
  auto reserved = job.reserved.begin();  // a subsequence of the stream's nodes
  for (const StreamNode& part : stream.nodes) {
    if (reserved == job.reserved.end()) break;
    if (reserved->node != part.node) continue;
    sum += spare(s, part) * reserved->ranks / part.ranks;
    ++reserved;
  }
  return std::max<Slots>(1, sum);
}

inline bool room_ahead(const EngineState& s, const StreamNode& part) {
  return part.ahead < spare(s, part);
}

// REQUIRES: the block's item is pinned once for its charge.
inline void charge(EngineState& s, BlockIndex index, Charge as, Job& job) {
  Block& block = s.blocks[index];
  BF_CHECK(block.charge == Charge::none && as != Charge::none);
  StreamNode& part = part_on(s.streams[block.stream], block.node);
  block.charge = as;
  block.charged_job = job.index;
  block.charged_at = static_cast<std::uint32_t>(job.charged.size());
  job.charged.push_back(index);
  if (as == Charge::ahead) {
    ++part.ahead;
    ++job.ahead;
  } else {
    BF_CHECK(part.current.index.is_none());
    part.current = {index, block.serial};
    block.current_at = static_cast<std::uint32_t>(s.current_blocks.size());
    s.current_blocks.push_back(index);
  }
}

// Removes a pin of the item. If nothing could leave before, something can begin now.
inline void unpin(EngineState& s, ShareId share_index, ItemId item) {
  Share& share = *s.memory[share_index].share;
  const bool stuck = share.evictable() == 0;
  share.unpin(item);
  if (stuck && share.evictable() > 0) s.room_on(s.memory[share_index].spec.place.node);
}

// The charge stays, but it is no longer on the account of its job.
inline void disown(EngineState& s, Block& block) {
  if (block.charged_job.is_none()) return;
  Job& job = s.jobs[block.charged_job];
  if (block.charge == Charge::ahead) --job.ahead;
  const BlockIndex last = job.charged.back();
  job.charged[block.charged_at] = last;
  s.blocks[last].charged_at = block.charged_at;
  job.charged.pop_back();
  block.charged_job = JobIndex::none();
}

// Removes the charge, but leaves its pin.
inline void lift_charge(EngineState& s, Block& block) {
  if (block.charge == Charge::none) return;
  StreamNode& part = part_on(s.streams[block.stream], block.node);
  if (block.charge == Charge::ahead) {
    --part.ahead;
  } else {
    part.current = {};
    const BlockIndex last = s.current_blocks.back();
    s.current_blocks[block.current_at] = last;
    s.blocks[last].current_at = block.current_at;
    s.current_blocks.pop_back();
  }
  s.room_on(block.node);
  disown(s, block);
  block.charge = Charge::none;
}

// From now on the block may be evicted, unless a batch uses it.
inline void uncharge(EngineState& s, Block& block) {
  if (block.charge == Charge::none) return;
  lift_charge(s, block);
  s.memory[block.share].share->unpin(block.item);
}

// The job that it is charged to has yet to take it, or a job that took it has not had all of it.
inline bool is_charged_for_need(const EngineState& s, const Block& block) {
  if (block.grants > 0) return true;
  if (block.charged_job.is_none() || block.ref.is_none()) return false;
  const Job& job = s.jobs[block.charged_job];
  const order::Lanes& lanes = *s.streams[block.stream].lanes;
  return !job.member.is_none() && lanes.valid(block.ref) && lanes.needs(job.member, block.ref);
}

// How many jobs the block is still good for: those that will take it, those that took it and have
// not had all of it, and those that may yet join its pass.
inline std::uint32_t takers_of(const EngineState& s, const Block& block) {
  if (block.ref.is_none()) return block.grants;
  const order::Lanes& lanes = *s.streams[block.stream].lanes;
  if (!lanes.valid(block.ref)) return block.grants;
  return block.grants + lanes.needed(block.ref) + lanes.may_join(block.ref);
}

// Bytes set out from one node to another. What stays on a node uses no link, and what comes from a
// store is not counted: the engine does not know whether a link is in its way.
inline void set_out(EngineState& s, OnWay& way, const Place& from, const Place& to, Bytes bytes) {
  if (from.tier == Tier::store || from.node == to.node) return;
  way = {bytes, s.now, s.node_of.at(from.node), s.node_of.at(to.node)};
  s.nodes[way.from].out.begin(bytes);
  s.nodes[way.to].in.begin(bytes);
}

// They have come, or nothing came of them.
inline void leave_link(EngineState& s, OnWay& way, bool came) {
  const OnWay gone = std::exchange(way, {});
  if (gone.bytes == 0) return;
  for (Link* link : {&s.nodes[gone.from].out, &s.nodes[gone.to].in}) {
    link->end(gone.bytes);
    if (came) link->carried(gone.since, s.now, gone.bytes);
  }
}

// Tells the eviction policy how many jobs the resident block is still good for.
inline void report_takers(EngineState& s, Block& block, std::uint32_t takers) {
  SharePart& part = s.memory[block.share];
  part.needed += takers > 0 ? 1 : 0;
  part.needed -= block.reported_takers > 0 ? 1 : 0;
  part.needed_most = std::max(part.needed_most, part.needed);
  block.reported_takers = takers;
  part.share->needed(block.item, takers);
}
inline void report_takers(EngineState& s, BlockIndex index) {
  Block& block = s.blocks[index];
  if (block.resident) report_takers(s, block, takers_of(s, block));
}

// The same, but only if the number has changed. When a job takes a block, there is one grant more
// and one job less that has yet to take it.
inline void report_changed_takers(EngineState& s, Block& block) {
  if (!block.resident) return;
  const std::uint32_t takers = takers_of(s, block);
  if (takers != block.reported_takers) report_takers(s, block, takers);
}

// Jobs that have yet to take the block are looked at again.
inline void look_at_needing(EngineState& s, const Block& block) {
  const order::Lanes& lanes = *s.streams[block.stream].lanes;
  if (block.ref.is_none() || !lanes.valid(block.ref)) return;
  lanes.for_each_needing(block.ref,
                         [&](order::MemberId member) { s.look_at(JobIndex(lanes.tag(member))); });
}

// The block's slot is used for something else.
inline void forget_block(EngineState& s, BlockIndex index) {
  const Block& block = s.blocks[index];
  order::Lanes& lanes = *s.streams[block.stream].lanes;
  look_at_needing(s, block);
  if (block.reported_takers > 0) --s.memory[block.share].needed;
  if (!block.ref.is_none() && lanes.valid(block.ref)) lanes.dropped(block.ref);
  s.blocks.release(index);
}

// The same, and its slot is free from now on.
inline void drop_block(EngineState& s, BlockIndex index) {
  s.memory.give_back(s.blocks[index].share, s.blocks[index].item);
  forget_block(s, index);
}

// Carries out what shares have evicted: commands to drop it, and the books of blocks.
inline void drop_evicted(EngineState& s) {
  for (const Resident& gone : s.evicted) {
    const SharePart& part = s.memory[gone.share];
    if (!s.is_lost(part.spec.place.node)) {
      s.emit(Drop{gone.share, part.spec.place, form_of(part.spec.use), gone.item, gone.slot});
    }
    if (gone.owner.is_none()) continue;
    const Block& block = s.blocks[gone.owner];
    BF_CHECK(block.resident && block.charge == Charge::none);
    forget_block(s, gone.owner);
    ++s.counters.dropped_blocks;
  }
  s.evicted.clear();
}

// Says what the job rehearses from, if its ranks do not know.
inline void tell_buffer(EngineState& s, Job& job) {
  if (!job.buffer) return;
  const auto exemplars = job.buffer->whole();
  if (!exemplars || exemplars->digest == job.told_buffer) return;
  job.told_buffer = exemplars->digest;
  // The lists belong to the exemplars, which live until the next step.
  s.lent.emplace_back(exemplars, &exemplars->samples);
  s.emit(ExemplarsSet{job.id, exemplars->samples, exemplars->weights});
}

}  // namespace batchflow::engine
