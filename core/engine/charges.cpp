#include "core/engine/charges.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/engine/books.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

namespace {

std::uint64_t part_of(std::uint64_t samples, std::uint32_t ranks, const Job& job) {
  return (samples * ranks + job.ranks.size() - 1) / job.ranks.size();
}

// How many samples of the epoch the job's ranks on the node have yet to be granted, beside the rest
// of the block that is open there.
std::uint64_t samples_left(const Job& job, const EpochRun& run, NodeId node) {
  const order::StepPlan& plan = run.plan.plain;
  const std::uint64_t index = run.plain.end();
  const std::uint64_t steps = plan.steps();
  const std::uint64_t step = (index - plan.consumed) / plan.step_samples();
  if (step >= steps) return 0;
  std::uint64_t left = 0;
  for (Rank rank = 0; rank < plan.ranks; ++rank) {
    if (job.ranks[rank].node != node) continue;
    const order::IndexRange own = plan.batch(step, rank).own;
    left += own.to - std::clamp(index, own.from, own.to);
  }
  const std::uint64_t behind = plan.step(steps - 1).to - plan.step(step).to;
  left += part_of(behind, ranks_on(job, node), job);
  for (const EpochRun::Open& open : run.open) {
    if (open.node != node) continue;
    const Grant& grant = run.plain.grant(open.grant);
    left -= std::min<std::uint64_t>(left, grant.to - grant.from);
  }
  return left;
}

}  // namespace

bool Charges::room_for(const StreamNode& part, const Job& job, bool may_look_ahead,
                       Charge& as) const {
  if (may_look_ahead && room_ahead(s_, part)) {
    as = Charge::ahead;
    return true;
  }
  as = Charge::current;
  return job.is_waiting() && part.current.index.is_none();
}

std::uint32_t Charges::blocks_of(const Job& job, NodeId node) const {
  return static_cast<std::uint32_t>(
      std::count_if(job.charged.begin(), job.charged.end(),
                    [&](BlockIndex block) { return s_.blocks[block].node == node; }));
}

// How many blocks on the node are the job's, for each of its ranks there.
double Charges::supply(const Job& job, NodeId node) const {
  return static_cast<double>(blocks_of(job, node)) / ranks_on(job, node);
}

void Charges::open_parts(const Stream& stream, OpenParts& open) const {
  open.parts.clear();
  open.sites = {};
  const Bytes staged = s_.config.count_staging ? largest_staged(s_, stream) : 0;
  for (std::uint32_t i = 0; i < stream.nodes.size(); ++i) {
    const StreamNode& part = stream.nodes[i];
    const Node& node = s_.nodes[part.index];
    if (!node.takes_work || node.workers == 0) continue;
    if (node.started >= blocks_at_once(s_, node) || node.staging->room() < staged) continue;
    const Share& share = *s_.memory[part.share].share;
    if (share.capacity() == 0) continue;
    if (share.used() < share.capacity() || share.evictable() > 0) open.parts.push_back(i);
  }
}

std::optional<Charges::Site> Charges::site(const Stream& stream, const Job& job,
                                           OpenParts& open) const {
  if (open.parts.empty() || has_all_workers(job)) return std::nullopt;
  const bool may_look_ahead = job.ahead < quota(s_, stream, job);
  if (job.node_local) return best_site(stream, job, may_look_ahead, open);
  auto& site = open.sites[(may_look_ahead ? 1 : 0) + (job.is_waiting() ? 2 : 0)];
  if (!site) site = best_site(stream, job, may_look_ahead, open);
  return *site;
}

std::optional<Charges::Site> Charges::best_site(const Stream& stream, const Job& job,
                                                bool may_look_ahead, const OpenParts& open) const {
  std::optional<Site> best;
  bool best_has_ranks = false;
  double best_load = 0;
  for (const std::uint32_t i : open.parts) {
    const StreamNode& part = stream.nodes[i];
    const Node& node = s_.nodes[part.index];
    Charge as = Charge::none;
    const bool enough = has_all_blocks(stream, job, part.node);
    if (!room_for(part, job, may_look_ahead && !enough, as)) continue;
    // All jobs of the stream take the block, wherever they are. If it were made beside the job that
    // asks, the node of the job that is ahead of the others would send every block to all of them.
    const bool has_ranks = job.node_local ? ranks_on(job, part.node) > 0 : part.jobs > 0;
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

// Workers are counted by job, and the job has its part of them.
bool Charges::has_all_workers(const Job& job) const {
  const std::uint32_t most =
      s_.config.workers_per_rank * static_cast<std::uint32_t>(job.ranks.size());
  return most > 0 && job.makings >= most;
}

// A node-local job, near the end of its epoch: what is here and not taken is all that the ranks of
// the node will take. One more would cross to other nodes.
bool Charges::has_all_blocks(const Stream& stream, const Job& job, NodeId node) const {
  if (!job.node_local || job.member.is_none() || job.runs.empty()) return false;
  const order::Lanes& lanes = *stream.lanes;
  const EpochRun& run = job.runs.back();
  if (job.lanes_epoch != run.epoch || lanes.next_epoch_begun(job.member)) return false;
  if (lanes.blocks_left(job.member) > s_.config.ready_window) return false;
  if (ranks_on(job, node) == 0) return false;
  lanes.candidates(job.member, candidates_);
  const auto here = std::count_if(candidates_.begin(), candidates_.end(),
                                  [&](const order::Lanes::Candidate& one) {
                                    return s_.blocks[BlockIndex(one.tag)].node == node;
                                  });
  const std::uint64_t block_samples = lanes.sizes(job.member).block_samples;
  return static_cast<std::uint64_t>(here) * block_samples >= samples_left(job, run, node);
}

void Charges::sites(const Stream& stream, const Job& job, const OpenParts& open,
                    std::vector<Site>& out) const {
  out.clear();
  if (has_all_workers(job)) return;
  const bool may_look_ahead = job.ahead < quota(s_, stream, job);
  for (const std::uint32_t part : open.parts) {
    Site site{part, Charge::none};
    const StreamNode& node = stream.nodes[part];
    const bool enough = has_all_blocks(stream, job, node.node);
    if (room_for(node, job, may_look_ahead && !enough, site.charge)) out.push_back(site);
  }
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
