#include "core/engine/charges.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/engine/books.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

bool Charges::room_for(const StreamNode& part, const Job& job, bool may_look_ahead,
                       Charge& as) const {
  if (may_look_ahead && room_ahead(s_, part)) {
    as = Charge::ahead;
    return true;
  }
  as = Charge::current;
  return job.is_waiting() && part.current.index.is_none();
}

// How many blocks on the node are the job's, for each of its ranks there.
double Charges::supply(const Job& job, NodeId node) const {
  const auto here = std::count_if(job.charged.begin(), job.charged.end(),
                                  [&](BlockIndex block) { return s_.blocks[block].node == node; });
  return static_cast<double>(here) / ranks_on(job, node);
}

void Charges::open_parts(const Stream& stream, std::vector<std::uint32_t>& open) const {
  open.clear();
  for (std::uint32_t i = 0; i < stream.nodes.size(); ++i) {
    const StreamNode& part = stream.nodes[i];
    const Node& node = s_.nodes[part.index];
    if (!node.takes_work || node.workers == 0) continue;
    if (node.started >= blocks_at_once(s_, node) || !can_stage(s_, node, stream)) continue;
    const Share& share = *s_.memory[part.share].share;
    if (share.capacity() == 0) continue;
    if (share.used() < share.capacity() || share.evictable() > 0) open.push_back(i);
  }
}

std::optional<Charges::Site> Charges::site(const Stream& stream, const Job& job,
                                           std::span<const std::uint32_t> open) const {
  if (open.empty()) return std::nullopt;
  std::optional<Site> best;
  bool best_has_ranks = false;
  double best_load = 0;
  const std::uint32_t workers_most =
      s_.config.workers_per_rank * static_cast<std::uint32_t>(job.ranks.size());
  if (workers_most > 0 && job.makings >= workers_most) return std::nullopt;
  const bool may_look_ahead = job.ahead < quota(s_, stream, job);
  for (const std::uint32_t i : open) {
    const StreamNode& part = stream.nodes[i];
    const Node& node = s_.nodes[part.index];
    Charge as = Charge::none;
    if (!room_for(part, job, may_look_ahead, as)) continue;
    const bool has_ranks =
        std::any_of(job.ranks.begin(), job.ranks.end(),
                    [&](const RankState& rank) { return rank.node == part.node; });
    const double load = job.node_local && has_ranks
                            ? supply(job, part.node)
                            : static_cast<double>(node.started) / node.workers;
    const bool better = !best || (has_ranks != best_has_ranks ? has_ranks : load < best_load);
    if (!better) continue;
    best = Site{i, as};
    best_has_ranks = has_ranks;
    best_load = load;
  }
  return best;
}

// Whether the block is among those that the job may take next. If the job has taken it, begun
// batches are being copied from it. If the job may not take it yet, a block that failed or was lost
// must be made before.
bool Charges::may_take(const Stream& stream, const Job& job, const Block& block) {
  if (block.ref.is_none() || job.member.is_none()) return false;
  stream.lanes->candidates(job.member, candidates_);
  return std::any_of(candidates_.begin(), candidates_.end(),
                     [&](const order::Lanes::Candidate& one) { return one.block == block.ref; });
}

bool Charges::settle_current() {
  bool changed = false;
  resident_.clear();
  for (const BlockIndex index : s_.current_blocks) {
    if (s_.blocks[index].resident) resident_.push_back(index);
  }
  for (const BlockIndex index : resident_) {
    Block& block = s_.blocks[index];
    if (block.transfers > 0) continue;
    Stream& stream = s_.streams[block.stream];
    Job& job = s_.jobs[block.charged_job];
    // A block that was taken and is gone comes first: earlier steps wait for it.
    if (job.waits == Job::Waits::to_take && !job.lost_grants && may_take(stream, job, block))
      continue;
    const bool room = room_ahead(s_, part_on(stream, block.node));
    if (room && job.ahead < quota(s_, stream, job) && block.grants > 0) {
      lift_charge(s_, block);
      charge(s_, index, Charge::ahead, job);
    } else {
      uncharge(s_, block);
    }
    changed = true;
  }
  return changed;
}

void Charges::release_blocks_of(Job& job) {
  while (!job.charged.empty()) {
    Block& block = s_.blocks[job.charged.back()];
    if (block.resident) {
      uncharge(s_, block);
    } else if (block.charge == Charge::ahead) {
      disown(s_, block);
    } else {
      // It is being made for a job that is gone: it goes on as work ahead for any job that needs
      // it.
      lift_charge(s_, block);
      block.charge = Charge::ahead;
      ++part_on(s_.streams[block.stream], block.node).ahead;
    }
  }
}

void Charges::strip_ahead(std::span<const Place> places) {
  for (const Place& place : places) {
    const NodeIndex node = s_.node_of.find(place.node);
    if (node.is_none() || place.tier != Tier::dram) continue;
    for (const StreamId stream : s_.nodes[node].streams) {
      strip_ahead(part_on(s_.streams[stream], place.node));
    }
  }
}

// Blocks that no job has taken come first.
void Charges::strip_ahead(StreamNode& part) {
  if (part.ahead == 0) return;
  const SharePart& share = s_.memory[part.share];
  const Slots room = share.target > part.reserve + 1 ? share.target - part.reserve - 1 : 0;
  for (const bool taken : {false, true}) {
    for (const BlockIndex owner : share.owner_of) {
      if (part.ahead <= room) return;
      if (owner.is_none() || !s_.blocks.live(owner)) continue;
      Block& block = s_.blocks[owner];
      if (!block.resident || block.charge != Charge::ahead) continue;
      if ((block.grants > 0) == taken) uncharge(s_, block);
    }
  }
}

}  // namespace batchflow::engine
