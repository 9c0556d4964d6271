#include "core/engine/membership.h"

#include <algorithm>

#include "core/block_size.h"
#include "core/check.h"
#include "core/engine/books.h"

namespace batchflow {

namespace {

Place dram_of(NodeId node) {
  return {node, Tier::dram, 0};
}

std::uint32_t ranks_on(const Job& job, NodeId node) {
  return static_cast<std::uint32_t>(
      std::count_if(job.ranks.begin(), job.ranks.end(),
                    [&](const RankState& rank) { return rank.node == node; }));
}

Order family_of(Order order) {
  return order == Order::strict ? Order::relaxed : order;
}

}  // namespace

// ----------------------------------------------------------------------------------- joining ----

std::optional<Refusal> Membership::objection(const JobJoined& event) const {
  const auto dataset = s_.dataset_of.find(event.dataset.value);
  if (dataset == s_.dataset_of.end()) return Refusal::unknown_dataset;
  if (s_.pipelines.count(event.pipeline.value) == 0) return Refusal::unknown_pipeline;
  if (event.ranks.empty() || event.batch_samples == 0) return Refusal::bad_request;
  if (s_.job_of.count(event.job.value) != 0) return Refusal::bad_request;
  for (const NodeId node : event.ranks) {
    const auto known = s_.node_of.find(node.value);
    if (known == s_.node_of.end() || !s_.memory.has(dram_of(node))) return Refusal::bad_request;
  }
  const std::uint64_t samples = s_.datasets[dataset->second].catalogue->samples();
  const std::uint64_t step = std::uint64_t{event.batch_samples} * event.ranks.size();
  if (event.order == Order::weighted &&
      (samples > kWeightedSamplesMost || event.draws > kWeightedSamplesMost)) {
    return Refusal::bad_request;
  }
  // An epoch that has no step at all would end for ever.
  const std::uint64_t epoch =
      event.order == Order::weighted && event.draws > 0 ? event.draws : samples;
  if (event.drop_last && step > epoch) return Refusal::bad_request;
  return std::nullopt;
}

void Membership::joined(const JobJoined& event) {
  if (const auto why = objection(event)) {
    s_.order(Refuse{event.job, *why, 0, 0});
    return;
  }
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(event.dataset.value)];
  const std::uint64_t seed = seed_group(event);
  const Digest version = dataset.catalogue->version();
  const std::uint64_t samples = dataset.catalogue->samples();
  Position position(event.order, version, samples, seed);
  if (event.position) {
    if (!event.position->mismatch(version, samples, seed).empty() ||
        event.position->order() != event.order) {
      const Position::Fields& theirs = event.position->fields();
      const bool by_version = theirs.dataset_version != version;
      s_.order(Refuse{event.job, Refusal::bad_position,
                      by_version ? theirs.dataset_version : theirs.seed,
                      by_version ? version : seed});
      return;
    }
    position = *event.position;
  }

  const std::uint32_t index = s_.jobs.make();
  Job& job = s_.jobs[index];
  job.index = index;
  job.serial = ++s_.serials;
  job.id = event.job;
  job.user = event.user;
  job.order = event.order;
  job.batch_samples = event.batch_samples;
  job.drop_last = event.drop_last;
  job.epochs = event.epochs;
  job.weight = event.weight;
  job.member = MemberId::none();
  job.committed = position;
  job.draws = event.order == Order::weighted && event.draws > 0 ? event.draws : samples;
  job.multinomial = event.multinomial;
  for (const NodeId node : event.ranks) {
    job.ranks.emplace_back();
    job.ranks.back().node = node;
  }
  job.dataset = s_.dataset_of.at(event.dataset.value);
  if (event.order == Order::weighted) begin_weights(job, samples);
  job.stream = stream_for(event, position);
  Stream& stream = s_.streams[job.stream];
  if (event.order == Order::listed) {
    for (const NodeId node : event.ranks) {
      items_.open_shares(s_.node_of.at(node.value), dataset, *stream.pipeline);
    }
  } else {
    cover_nodes(stream, event.ranks);
  }
  const std::uint32_t credits = event.credits == 0 ? s_.config.credits : event.credits;
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
  if (!reserve(job, credits, needed, available)) {
    s_.order(Refuse{event.job, Refusal::no_room, needed, available});
    const std::uint32_t of = job.stream;
    s_.jobs.release(index);
    close_if_empty(of);
    return;
  }
  stream.jobs.push_back(index);
  if (job.weights) s_.weighted_jobs.push_back(index);
  s_.job_of[event.job.value] = index;
  take_reserve(job);
  items_.count_jobs();
  s_.promise_joined(job, event);
  joining_.push_back(index);
}

// Without the scores of before, a weighted epoch that was begun begins again.
void Membership::begin_weights(Job& job, std::uint64_t samples) {
  job.weights = std::make_unique<Weights>(samples, weight_of_score(1));
  const Position::Fields& was = job.committed.fields();
  const bool goes_on =
      was.consumed > 0 && was.draws == job.draws && was.weights == job.weights->frozen().digest();
  if (!goes_on) {
    job.committed =
        Position(Order::weighted, was.dataset_version, was.samples, was.seed, was.epoch);
  }
  draw(s_, job, was.epoch);
}

std::uint64_t Membership::seed_group(const JobJoined& event) {
  if (event.has_shuffle_seed) return hash(1, event.shuffle_seed);
  return event.order == Order::strict || event.order == Order::sequential ? 0 : hash(2, event.user);
}

std::uint32_t Membership::stream_for(const JobJoined& event, const Position& position) {
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(event.dataset.value)];
  const Order family = family_of(event.order);
  const bool alone = !s_.config.share_streams || family == Order::listed;
  const std::uint64_t draws = family == Order::weighted ? event.draws : 0;
  const std::uint64_t key =
      hash(dataset.id.value, dataset.catalogue->version(), event.pipeline.value,
           s_.pipelines.at(event.pipeline.value)->hash, position.fields().seed,
           static_cast<std::uint64_t>(family), draws, alone ? event.job.value + 1 : 0);
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (s_.streams.live(index) && s_.streams[index].sharing_key == key) return index;
  }
  return make_stream(event, position.fields().seed, key);
}

std::uint32_t Membership::make_stream(const JobJoined& event, std::uint64_t seed,
                                      std::uint64_t key) {
  const std::uint32_t index = s_.streams.make();
  Stream& stream = s_.streams[index];
  stream.id = StreamId(index);
  stream.dataset = s_.dataset_of.at(event.dataset.value);
  stream.pipeline_id = event.pipeline;
  stream.pipeline = s_.pipelines.at(event.pipeline.value);
  stream.family = family_of(event.order);
  stream.seed = seed;
  stream.sharing_key = key;
  Dataset& dataset = s_.datasets[stream.dataset];
  ++dataset.streams;
  const Bytes bytes = stream.pipeline->prepared_bytes ? stream.pipeline->prepared_bytes
                                                      : dataset.catalogue->mean_bytes();
  stream.sample_bytes = std::max<Bytes>(1, bytes);
  stream.block_samples = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      block_samples_for(stream.sample_bytes, s_.config.block_bytes), dataset.catalogue->samples()));
  stream.block_bytes = stream.sample_bytes * stream.block_samples;
  Lanes::Options options;
  options.dataset_version = dataset.catalogue->version();
  options.seed = seed;
  options.generation_epochs = s_.config.generation_epochs;
  options.ready_window = s_.config.ready_window;
  stream.epoch_samples = stream.family == Order::weighted && event.draws > 0
                             ? event.draws
                             : dataset.catalogue->samples();
  options.sizes = {stream.epoch_samples, stream.block_samples, 1};
  stream.lanes = std::make_unique<Lanes>(options);
  return index;
}

// A stream has a share on each node where it has ranks, and on each node that can prepare for it.
void Membership::cover_nodes(Stream& stream, std::span<const NodeId> ranks) {
  for (const NodeId node : ranks) add_node(stream, node);
  for (const Node& node : s_.nodes) {
    if (node.takes_work && node.workers > 0 && s_.memory.has(dram_of(node.id))) {
      add_node(stream, node.id);
    }
  }
  size_lanes(stream);
}

void Membership::add_node(Stream& stream, NodeId node) {
  for (const StreamNode& part : stream.nodes) {
    if (part.node == node) return;
  }
  const Dataset& dataset = s_.datasets[stream.dataset];
  items_.open_shares(s_.node_of.at(node.value), dataset, *stream.pipeline);
  StreamNode part;
  part.node = node;
  const std::uint64_t blocks =
      (dataset.catalogue->samples() + stream.block_samples - 1) / stream.block_samples;
  items_.count_jobs();
  part.share = s_.memory.add_share({dram_of(node), ShareUse::blocks, dataset.id,
                                    stream.pipeline->hash, stream.block_bytes, 0, blocks});
  stream.nodes.push_back(part);
}

// Lanes fit into half of the window that the allocation policy means the stream to have.
void Membership::size_lanes(Stream& stream) {
  s_.memory.plan_now();
  Slots window = 0;
  for (const StreamNode& part : stream.nodes) window += s_.memory[part.share].target;
  LaneSizes sizes{stream.epoch_samples, stream.block_samples, 1};
  sizes.lane_blocks = lane_blocks_for(sizes.blocks(), std::max<Slots>(1, window));
  stream.lanes->set_sizes(sizes);
}

// ---------------------------------------------------------------------------------- reserves ----

// Whether the promises of each node can be raised by what the job needs with so many credits.
bool Membership::fits(const Job& job, std::uint32_t credits, std::uint64_t& needed,
                      std::uint64_t& available) const {
  const Stream& stream = s_.streams[job.stream];
  for (const StreamNode& part : stream.nodes) {
    const Slots ranks = ranks_on(job, part.node);
    if (ranks == 0) continue;
    const Place place = dram_of(part.node);
    const bool own = job.batch_samples > stream.block_samples;
    const Bytes batch = stream.sample_bytes * job.batch_samples;
    const Slots least = part.reserve + 1 + (own ? 0 : ranks * credits);
    const SharePart& share = s_.memory[part.share];
    const Bytes others = s_.memory.promised(place) - share.least * share.spec.slot_bytes;
    const unsigned __int128 need =
        static_cast<unsigned __int128>(least) * share.spec.slot_bytes +
        (own ? static_cast<unsigned __int128>(ranks) * credits * batch : 0);
    const Bytes capacity = s_.memory.capacity(place);
    const Bytes left = capacity > others ? capacity - others : 0;
    if (need <= left) continue;
    needed = need > UINT64_MAX ? UINT64_MAX : static_cast<std::uint64_t>(need);
    available = left;
    return false;
  }
  return can_be_made(job, needed, available);
}

// A node that prepares must have a slot for a block: where the job has ranks, or any other.
bool Membership::can_be_made(const Job& job, std::uint64_t& needed,
                             std::uint64_t& available) const {
  const Stream& stream = s_.streams[job.stream];
  const auto prepares = [](const Node& node) { return node.takes_work && node.workers > 0; };
  if (std::none_of(s_.nodes.begin(), s_.nodes.end(), prepares)) return true;
  needed = stream.block_bytes;
  available = 0;
  for (const StreamNode& part : stream.nodes) {
    if (!prepares(s_.nodes[s_.node_of.at(part.node.value)])) continue;
    if (ranks_on(job, part.node) > 0 || part.jobs > 0 || part.standby) return true;
    const Bytes promised = s_.memory.promised(dram_of(part.node));
    const Bytes capacity = s_.memory.capacity(dram_of(part.node));
    const Bytes left = capacity > promised ? capacity - promised : 0;
    if (needed <= left) return true;
    available = std::max(available, left);
  }
  return false;
}

void Membership::promise(const StreamNode& part) {
  keep_promise(s_, part);
  standby_due_ = true;
}

// Streams are promised a slot on each node that can prepare, as long as there is room for it.
bool Membership::stand_by() {
  if (!standby_due_) return false;
  standby_due_ = false;
  bool changed = false;
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (!s_.streams.live(index) || s_.streams[index].jobs.empty()) continue;
    for (StreamNode& part : s_.streams[index].nodes) {
      const Place place = dram_of(part.node);
      if (part.jobs > 0 || part.standby) continue;
      if (s_.nodes[s_.node_of.at(part.node.value)].workers == 0) continue;
      if (s_.memory.promised(place) + s_.streams[index].block_bytes > s_.memory.capacity(place)) {
        continue;
      }
      part.standby = true;
      s_.memory.promise(part.share, 1);
      changed = true;
    }
  }
  return changed;
}

bool Membership::reserve(Job& job, std::uint32_t credits_wanted, std::uint64_t& needed,
                         std::uint64_t& available) {
  for (std::uint32_t credits = credits_wanted; credits > 0; --credits) {
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
    job.reserved.push_back({part.node, own ? 0 : ranks * job.credits});
    ++part.jobs;
    promise(part);
  }
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
    for (StreamNode& part : stream.nodes) {
      if (part.node != reserved.node) continue;
      part.reserve -= reserved.slots;
      --part.jobs;
      promise(part);
    }
  }
  job.reserved.clear();
  for (const std::uint32_t share : job.batch_shares) {
    // Batches that are still read keep their share until the last is released.
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
  if (job.order != Order::listed) {
    size_lanes(stream);
    grants_.begin(job);
    stream.needs_stale = true;
  }
  s_.order(Admit{job.id, stream.id, job.credits, stream.block_samples, job.committed_step});
  if (job.order != Order::listed) delivery_.end_epochs(job);
  s_.touch(job.index);
}

bool Membership::settle() {
  bool changed = stand_by();
  std::vector<std::uint32_t> waiting;
  waiting.swap(joining_);
  for (const std::uint32_t index : waiting) {
    if (!s_.jobs.live(index) || s_.jobs[index].state != Job::State::joining) continue;
    if (s_.jobs[index].waits_for_held) {
      if (!reserve_resized(s_.jobs[index])) continue;
      changed = true;  // what it was promised is still to be planned for
    }
    const bool ready = std::all_of(s_.jobs[index].reserved.begin(), s_.jobs[index].reserved.end(),
                                   [&](const Job::Reserved& reserved) {
                                     return s_.memory.promises_kept(dram_of(reserved.node));
                                   });
    if (!ready) {
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

// ----------------------------------------------------------------------- leaving and resizing ----

// Gives up what is not committed. Batches that live ranks still read keep their memory until they
// are released; those of dead ones are free.
void Membership::start_over(Job& job, bool all_ranks_gone) {
  dispatching_.forget(job);
  delivery_.abandon(job, all_ranks_gone);
  preparation_.orphan(job);
  if (!job.runs.empty()) grants_.withdraw(job);
  s_.room_changed = true;  // others may go on that were held back for its sake
  for (const RankState& rank : job.ranks) {
    job.committed_step = std::max(job.committed_step, rank.next_step);
  }
}

void Membership::left(Job& job) {
  start_over(job, true);
  if (job.state != Job::State::refused) end_service(job);
  std::erase(refused_, job.index);
  forget(job);
}

// Its ranks may still read what they were handed: that memory is free when they have let go.
void Membership::refuse(Job& job, Refusal why, std::uint64_t needed, std::uint64_t available) {
  if (job.state == Job::State::refused) return;
  s_.order(Refuse{job.id, why, needed, available});
  start_over(job, false);
  end_service(job);
  job.state = Job::State::refused;
  refused_.push_back(job.index);
}

void Membership::end_service(Job& job) {
  s_.promise_left(job);
  give_up_reserve(job);
  std::erase(s_.streams[job.stream].jobs, job.index);
  std::erase(s_.weighted_jobs, job.index);
  items_.count_jobs();
  close_if_empty(job.stream);
}

void Membership::forget(Job& job) {
  for (const std::uint32_t share : job.retired_shares) s_.memory.remove_share(share);
  s_.job_of.erase(job.id.value);
  s_.jobs.release(job.index);
}

void Membership::rank_lost(Job& job, Rank rank) {
  if (rank >= job.ranks.size() || job.ranks[rank].lost) return s_.protocol_error();
  if (job.state == Job::State::refused) {
    job.ranks[rank].lost = true;
    return delivery_.abandon_rank(job, rank);
  }
  job.ranks[rank].lost = true;
  const bool first = job.state != Job::State::degraded;
  const bool was_running = job.state == Job::State::running;
  if (was_running) start_over(job, false);
  delivery_.abandon_rank(job, rank);
  job.state = Job::State::degraded;
  if (first) {
    job.lost_serial = ++s_.serials;
    s_.alarms.set(s_.now + s_.config.rank_timeout,
                  {AlarmKind::rank_timeout, job.index, job.lost_serial});
  }
}

void Membership::timed_out(std::uint32_t index, std::uint64_t serial) {
  if (!s_.jobs.live(index) || s_.jobs[index].state != Job::State::degraded) return;
  if (s_.jobs[index].lost_serial == serial) refuse(s_.jobs[index], Refusal::rank_lost, 0, 0);
}

void Membership::resized(Job& job, const JobResized& event) {
  if (job.state == Job::State::refused) return s_.stale();
  const std::uint64_t step = std::uint64_t{event.batch_samples} * event.ranks.size();
  const bool nodes_known = std::all_of(event.ranks.begin(), event.ranks.end(), [&](NodeId node) {
    return s_.node_of.count(node.value) != 0 && s_.memory.has(dram_of(node));
  });
  if (step == 0 || !nodes_known || job.order == Order::listed ||
      (job.drop_last && step > job.draws)) {
    return refuse(job, Refusal::bad_request, 0, 0);
  }
  if (job.state == Job::State::running) start_over(job, false);
  give_up_reserve(job);
  const std::uint32_t credits = job.credits;
  job.batch_samples = event.batch_samples;
  job.ranks.clear();
  for (const NodeId node : event.ranks) {
    job.ranks.emplace_back();
    job.ranks.back().node = node;
    job.ranks.back().next_step = job.ranks.back().consumed_steps = job.committed_step;
  }
  cover_nodes(s_.streams[job.stream], event.ranks);
  job.state = Job::State::joining;
  job.credits = std::max(credits, s_.config.credits);
  ++job.numbering;
  job.waits_for_held = true;
  joining_.push_back(job.index);
}

// A job that was resized may have to wait until its ranks have let go of what they had before.
bool Membership::reserve_resized(Job& job) {
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
  const std::uint32_t credits = job.credits;
  if (!reserve(job, credits, needed, available)) {
    job.credits = credits;
    if (job.held.empty()) {
      refuse(job, Refusal::no_room, needed, available);
    } else {
      joining_.push_back(job.index);
    }
    return false;
  }
  job.waits_for_held = false;
  take_reserve(job);
  return true;
}

// -------------------------------------------------------------------------- streams at their end
// ----

void Membership::close_if_empty(std::uint32_t index) {
  if (!s_.streams[index].jobs.empty()) return;
  preparation_.abandon(index);
  if (std::find(closing_.begin(), closing_.end(), index) == closing_.end())
    closing_.push_back(index);
}

// True: it is gone, or in use again.
bool Membership::try_free(std::uint32_t index) {
  Stream& stream = s_.streams[index];
  if (!stream.jobs.empty()) return true;
  bool busy = false;
  for (const StreamNode& part : stream.nodes) {
    drop_blocks(stream, part.node, false);
    busy = busy || s_.memory[part.share].share->used() > 0;
  }
  if (busy) return false;
  for (const StreamNode& part : stream.nodes) s_.memory.remove_share(part.share);
  --s_.datasets[stream.dataset].streams;
  s_.streams.release(index);
  return true;
}

// Drops the stream's resident blocks on a node: those nobody uses, or all when the node is lost.
void Membership::drop_blocks(Stream& stream, NodeId node, bool lost) {
  for (const StreamNode& part : stream.nodes) {
    if (part.node != node) continue;
    const SharePart& share = s_.memory[part.share];
    for (std::uint32_t item = 0; item < share.owner_of.size(); ++item) {
      const std::uint32_t owner = share.owner_of[item];
      if (owner == kNone || !s_.blocks.live(owner) || !s_.blocks[owner].resident) continue;
      Block& block = s_.blocks[owner];
      if (!lost && share.share->pinned(ItemId(item))) continue;
      if (lost) {
        delivery_.lost_block({owner, block.serial});
        lift_charge(s_, block);
      }
      if (!block.ref.is_none() && stream.lanes->valid(block.ref)) {
        stream.lanes->for_each_needing(
            block.ref, [&](MemberId member) { s_.touch(stream.lanes->tag(member)); });
        stream.lanes->dropped(block.ref);
      }
      for (const std::uint32_t job : stream.jobs) s_.touch(job);
      if (!lost)
        s_.order(Drop{share.id, share.spec.place, Form::prepared, ItemId(item), block.slot});
      s_.memory.give_back(part.share, ItemId(item));
      s_.blocks.release(owner);
    }
  }
}

// ------------------------------------------------------------------------------------- nodes ----

void Membership::node_joined(const NodeJoined& event) {
  if (s_.node_of.count(event.node.value) != 0) return s_.protocol_error();
  s_.node_of[event.node.value] = static_cast<std::uint32_t>(s_.nodes.size());
  Node node;
  node.id = event.node;
  node.cores = event.cores;
  s_.nodes.push_back(std::move(node));
}

void Membership::node_quiesced(const NodeQuiesced& event) {
  const auto found = s_.node_of.find(event.node.value);
  if (found == s_.node_of.end()) return s_.protocol_error();
  s_.nodes[found->second].takes_work = false;
}

// Streams prepare on every node that can.
void Membership::worker_joined(NodeId node) {
  if (s_.node_of.count(node.value) == 0 || !s_.memory.has(dram_of(node))) return;
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (!s_.streams.live(index) || s_.streams[index].jobs.empty()) continue;
    if (s_.streams[index].family != Order::listed) add_node(s_.streams[index], node);
  }
  standby_due_ = true;
}

void Membership::capacity_changed(const CapacityChanged& event) {
  if (event.place.tier != Tier::store && s_.node_of.count(event.place.node.value) == 0) {
    return s_.protocol_error();
  }
  const bool known = s_.memory.has(event.place);
  s_.memory.set_capacity(event.place, event.bytes);
  standby_due_ = true;
  if (known) return keep_promises(event.place);
  if (event.place.tier == Tier::dram &&
      s_.nodes[s_.node_of.at(event.place.node.value)].workers > 0) {
    worker_joined(event.place.node);
  }
}

// A place that has become too small for its promises: the youngest of them are taken back.
void Membership::keep_promises(Place place) {
  for (;;) {
    const Bytes promised = s_.memory.promised(place);
    const Bytes capacity = s_.memory.capacity(place);
    if (promised <= capacity) return;
    Job* youngest = nullptr;
    for (std::uint32_t index = 0; index < s_.jobs.size(); ++index) {
      if (!s_.jobs.live(index)) continue;
      Job& job = s_.jobs[index];
      const bool here =
          std::any_of(job.reserved.begin(), job.reserved.end(),
                      [&](const Job::Reserved& reserved) { return reserved.node == place.node; });
      if (here && (youngest == nullptr || job.serial > youngest->serial)) youngest = &job;
    }
    if (youngest == nullptr) return give_up_standby(place);
    refuse(*youngest, Refusal::no_room, promised, capacity);
  }
}

void Membership::give_up_standby(Place place) {
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (!s_.streams.live(index)) continue;
    for (StreamNode& part : s_.streams[index].nodes) {
      if (dram_of(part.node) != place || part.jobs > 0) continue;
      part.standby = false;
      promise(part);
    }
  }
}

// What the job had on a node that is gone.
void Membership::forget_node(Job& job, NodeId node) {
  delivery_.abandon_node(job, node);
  std::erase_if(job.reserved, [&](const Job::Reserved& reserved) { return reserved.node == node; });
  for (auto* shares : {&job.batch_shares, &job.retired_shares}) {
    for (const std::uint32_t share : *shares) {
      if (s_.memory[share].spec.place.node == node) s_.memory.remove_share(share);
    }
    std::erase_if(*shares, [&](std::uint32_t share) { return !s_.memory.live(share); });
  }
}

void Membership::node_lost(const NodeLost& event) {
  const auto found = s_.node_of.find(event.node.value);
  if (found == s_.node_of.end()) return s_.protocol_error();
  const std::uint32_t node = found->second;
  s_.nodes[node].takes_work = false;
  s_.nodes[node].lost = true;
  for (std::uint32_t index = 0; index < s_.jobs.size(); ++index) {
    if (!s_.jobs.live(index)) continue;
    for (Rank rank = 0; rank < s_.jobs[index].ranks.size(); ++rank) {
      RankState& state = s_.jobs[index].ranks[rank];
      if (state.node == event.node && !state.lost) rank_lost(s_.jobs[index], rank);
    }
  }
  for (std::uint32_t index = 0; index < s_.jobs.size(); ++index) {
    if (s_.jobs.live(index)) forget_node(s_.jobs[index], event.node);
  }
  preparation_.lose_node(node);
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (!s_.streams.live(index)) continue;
    Stream& stream = s_.streams[index];
    drop_blocks(stream, event.node, true);
    for (const StreamNode& part : stream.nodes) {
      if (part.node == event.node) s_.memory.remove_share(part.share);
    }
    std::erase_if(stream.nodes, [&](const StreamNode& part) { return part.node == event.node; });
  }
  items_.close_shares(node);
  s_.memory.forget_node(event.node);
  s_.node_of.erase(found);
}

}  // namespace batchflow
