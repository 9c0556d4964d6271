#include "core/engine/preparation.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

// -------------------------------------------------------------------------------- starting ----

bool Preparation::room_for(const StreamNode& part, const Job& job, bool may_look_ahead,
                           Charge& as) const {
  const Share& share = *s_.memory[part.share].share;
  if (share.capacity() == 0) return false;
  if (share.used() >= share.capacity() && share.evictable() == 0) return false;
  if (may_look_ahead && room_ahead(s_, part)) {
    as = Charge::ahead;
    return true;
  }
  as = Charge::current;
  return job.is_waiting() && part.current.index == kNone;
}

// How many blocks on the node are the job's, for each of its ranks there.
double Preparation::supply(const Job& job, NodeId node) const {
  const auto here = std::count_if(job.charged.begin(), job.charged.end(), [&](std::uint32_t block) {
    return s_.blocks[block].node == node;
  });
  return static_cast<double>(here) / ranks_on(job, node);
}

std::optional<Preparation::Site> Preparation::site(const Stream& stream, const Job& job) {
  std::optional<Site> best;
  bool best_is_home = false;
  double best_load = 0;
  const std::uint32_t workers_most =
      s_.config.workers_per_rank * static_cast<std::uint32_t>(job.ranks.size());
  if (workers_most > 0 && job.makings >= workers_most) return std::nullopt;
  const bool may_look_ahead = job.ahead < quota(s_, stream, job);
  for (std::uint32_t i = 0; i < stream.nodes.size(); ++i) {
    const StreamNode& part = stream.nodes[i];
    const Node& node = s_.nodes[part.index];
    if (!node.takes_work || node.workers == 0) continue;
    const std::uint32_t most = s_.config.workers_held_during_reads
                                   ? node.workers
                                   : node.workers * s_.config.blocks_in_flight_per_worker;
    if (node.started >= most || !can_stage(s_, node, stream)) continue;
    Charge as = Charge::none;
    if (!room_for(part, job, may_look_ahead, as)) continue;
    const bool home = std::any_of(job.ranks.begin(), job.ranks.end(),
                                  [&](const RankState& rank) { return rank.node == part.node; });
    const double load = job.node_local && home ? supply(job, part.node)
                                               : static_cast<double>(node.started) / node.workers;
    const bool better = !best || (home != best_is_home ? home : load < best_load);
    if (!better) continue;
    best = Site{i, as};
    best_is_home = home;
    best_load = load;
  }
  return best;
}

void Preparation::fill_block(Block& block, const Stream& stream, const Need& need,
                             const StreamNode& part, Memory::Taken taken) {
  block.serial = ++s_.serials;
  block.stream = stream.id.value;
  block.ref = need.ref;
  if (need.grant) {
    block.rehearsal = need.grant->rehearsal;
    block.name = need.grant->name;
    block.sizes = need.grant->sizes;
    block.samples = block.sizes.samples_of(block.name.lane, block.name.block);
  } else {
    block.name = stream.lanes->name(need.ref);
    block.sizes = stream.lanes->sizes(need.ref);
    block.samples = stream.lanes->samples(need.ref);
  }
  block.share = part.share;
  block.item = taken.item;
  block.slot = taken.slot;
  block.node = part.node;
  block.since = s_.now;
}

bool Preparation::start(Job& job, Need need, Site site) {
  Stream& stream = s_.streams[job.stream];
  const std::uint32_t index = s_.blocks.make();
  const auto taken = s_.memory.take(stream.nodes[site.part].share, index, s_.evicted);
  if (!taken) {
    s_.blocks.release(index);
    return false;
  }
  drop_evicted(s_);
  // What was evicted for it may have been the last block of its pass.
  if (!need.ref.is_none() && !stream.lanes->valid(need.ref)) need.ref = {};
  Block& block = s_.blocks[index];
  fill_block(block, stream, need, stream.nodes[site.part], *taken);
  charge(s_, index, site.charge, job);
  if (need.grant) {
    need.grant->block = {index, block.serial};
    need.grant->wanted = false;
    need.grant->made = true;
    ++block.grants;
  }
  if (!block.ref.is_none()) {
    stream.lanes->tag(block.ref) = index;
    stream.lanes->making(block.ref);
  }

  const std::uint32_t making_index = s_.makings.make();
  Making& making = s_.makings[making_index];
  block.making = making_index;
  making.block = index;
  making.job = job.index;
  making.serial = ++s_.serials;
  making.node = stream.nodes[site.part].index;
  making.remake = need.remake;
  Node& node = s_.nodes[making.node];
  ++node.started;
  ++job.makings;
  job.last_served = making.serial;
  if (s_.config.workers_held_during_reads && !node.idle.empty()) {
    making.worker = node.idle.back();
    node.idle.pop_back();
    s_.workers[making.worker].state = Worker::State::busy;
    s_.workers[making.worker].making = making_index;
  }
  // By the time its turn comes, the epoch that a weighted block is drawn from may be over.
  if (!items_.plain(stream) || block.rehearsal) s_.expand(block, making.draws);
  wait_for_staging(making_index);
  return true;
}

// ----------------------------------------------------------------------------------- parts ----

void Preparation::wait_for_staging(std::uint32_t index) {
  Making& making = s_.makings[index];
  Node& node = s_.nodes[making.node];
  ++making.waiting;
  making.unstaged = true;
  node.unstaged.push_back(index);
  if (node.unstaged.size() == 1) stage_waiting(making.node);
}

// Whether there is staging memory for as much as a part may have, or for all that is left.
bool Preparation::staging_fits(const Making& making) const {
  if (!s_.config.count_staging) return true;
  const Node& node = s_.nodes[making.node];
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  const auto doubts = std::count_if(making.suspects.begin(), making.suspects.end(),
                                    [](const auto& one) { return !one.settled; });
  const std::uint64_t samples =
      doubts > 0 ? static_cast<std::uint64_t>(doubts) : block.samples - making.next;
  const Bytes rest = saturating_product(samples, largest_staged(s_, stream));
  return std::min(part_bytes(s_, node, stream), rest) <= s_.memory.staging(dram_of(node.id)).free();
}

void Preparation::stage_waiting(std::uint32_t node_index) {
  Node& node = s_.nodes[node_index];
  while (!node.unstaged.empty()) {
    if (s_.samples_gathered >= EngineState::kSamplesAStep) {
      s_.staging_changed(node_index);
      return s_.alarms.set(s_.now, {});
    }
    const std::uint32_t index = node.unstaged.front();
    const Making& making = s_.makings[index];
    // What was promised has been taken back; the block is made elsewhere.
    if (!can_stage(s_, node, s_.streams[s_.blocks[making.block].stream])) {
      abort(index);
      continue;
    }
    if (!staging_fits(making)) return;
    node.unstaged.pop_front();
    begin_part(index);
  }
}

bool Preparation::stage_waiting() {
  bool any = false;
  std::vector<std::uint32_t> changed;
  changed.swap(s_.nodes_to_stage);
  s_.sort_by_joining(changed);
  for (const std::uint32_t index : changed) {
    s_.nodes[index].staging_changed = false;
    const std::size_t before = s_.nodes[index].unstaged.size();
    stage_waiting(index);
    any = any || s_.nodes[index].unstaged.size() != before;
  }
  return any;
}

void Preparation::plan_staging() {
  for (const std::uint32_t index : std::exchange(s_.nodes_to_plan, {})) {
    Node& node = s_.nodes[index];
    node.staging_due = false;
    if (!node.lost) engine::plan_staging(s_, node);
    s_.staging_changed(index);
  }
}

void Preparation::begin_part(std::uint32_t index) {
  Making& making = s_.makings[index];
  const Node& node = s_.nodes[making.node];
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  making.unstaged = false;
  making.part = ++s_.serials;
  making.mends = has_doubts(making);
  const Bytes most = s_.config.count_staging ? std::min(part_bytes(s_, node, stream),
                                                        s_.memory.staging(dram_of(node.id)).free())
                                             : UINT64_MAX;
  if (making.mends) {
    look_again(index, most);
  } else if (!begin_plain(index, most)) {
    const std::uint32_t first = making.next;
    if (making.draws.empty()) s_.expand(block, making.draws);
    items_.gather(index, most);
    s_.samples_gathered += making.next - first;
    making.whole = first == 0 && making.next == block.samples;
    if (making.next == block.samples) making.draws.clear();
  }
  if (--making.waiting == 0) making_ready(index);
}

// One read for the whole block, without a look at any sample, if nothing could be kept or shared.
bool Preparation::begin_plain(std::uint32_t index, Bytes most) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  if (making.next > 0 || block.rehearsal || !items_.plain(stream)) return false;
  const Bytes all = saturating_product(block.samples, largest_staged(s_, stream));
  if (all > most) return false;
  Reads::Spec spec;
  spec.dataset = s_.datasets[stream.dataset].id;
  spec.from = {NodeId::none(), Tier::store, 0};
  spec.to = {block.node, Tier::dram, 0};
  spec.node = making.node;
  spec.lineage = s_.lineage(block);
  spec.all = s_.config.count_staging ? all : 0;
  if (making.worker != kNone) spec.held = s_.workers[making.worker].id;
  const std::uint32_t read = reads_.open(spec, {});
  reads_.own(read, index);
  making.staging = s_.reads[read].request.id;
  making.draws.clear();
  making.next = block.samples;
  making.whole = true;
  return true;
}

// A worker has made the part, except for what it could not decode.
void Preparation::end_part(std::uint32_t index) {
  Making& making = s_.makings[index];
  items_.leave(making, index, true);
  making.ingredients.clear();
  making.staging = RequestId::none();
  making.attempts = 0;
}

// --------------------------------------------------------------------------------- progress ----

void Preparation::making_ready(std::uint32_t index) {
  Making& making = s_.makings[index];
  BF_CHECK(!making.ready);
  if (s_.nodes[making.node].lost) return;  // it ends with its node, in a moment
  if (making.worker != kNone) return order_prepare(index);
  making.ready = true;
  s_.nodes[making.node].ready.push_back(index);
  assign(making.node);
}

// After workers were lost, a making may wait for a worker that another waiting making holds.
void Preparation::take_held_worker(std::uint32_t node_index) {
  for (const std::uint32_t index : s_.nodes[node_index].staff) {
    const Worker& worker = s_.workers[index];
    if (worker.state != Worker::State::busy) continue;
    Making& making = s_.makings[worker.making];
    if (making.preparing || making.waiting == 0) continue;
    return free_worker(making);
  }
}

void Preparation::assign(std::uint32_t node_index) {
  Node& node = s_.nodes[node_index];
  s_.changed_on(node_index);
  if (!node.ready.empty() && node.idle.empty() && s_.config.workers_held_during_reads) {
    take_held_worker(node_index);
  }
  while (!node.ready.empty() && !node.idle.empty()) {
    const std::uint32_t index = node.ready.front();
    node.ready.pop_front();
    Making& making = s_.makings[index];
    making.ready = false;
    making.worker = node.idle.back();
    node.idle.pop_back();
    s_.workers[making.worker].state = Worker::State::busy;
    s_.workers[making.worker].making = index;
    order_prepare(index);
  }
}

void Preparation::order_prepare(std::uint32_t index) {
  Making& making = s_.makings[index];
  Block& block = s_.blocks[making.block];
  Prepare order;
  order.request = making.request.is_none() ? s_.requests.open(RequestKind::prepare, index)
                                           : s_.requests.again(making.request);
  making.request = order.request.id;
  making.preparing = true;
  making.prepare_since = s_.now;
  order.worker = s_.workers[making.worker].id;
  order.node = block.node;
  order.lineage = s_.lineage(block);
  order.share = s_.memory[block.share].id;
  order.slot = block.slot;
  order.staging = making.staging;
  order.ingredients = s_.arena.copy(making.ingredients);
  order.mends = making.mends;
  for (const Making::Suspect& suspect : making.suspects) {
    if (suspect.used == suspect.original) continue;
    std::erase_if(block.replacements,
                  [&](const order::Replacement& old) { return old.place == suspect.place; });
    block.replacements.push_back({suspect.place, suspect.original, suspect.used});
  }
  if (!making.decoding.empty()) {
    order.decoded_share = s_.memory[making.decoding.front().share].id;
  }
  order.replacements = s_.arena.copy(block.replacements);
  s_.order(order);
  watch(s_.streams[block.stream], index);
}

void Preparation::free_worker(Making& making) {
  if (making.worker == kNone) return;
  Worker& worker = s_.workers[making.worker];
  if (worker.state == Worker::State::busy) {
    worker.state = Worker::State::idle;
    worker.making = kNone;
    s_.nodes[making.node].idle.push_back(making.worker);
  }
  s_.room_on(making.node);
  making.worker = kNone;
}

void Preparation::prepared(const PreparationDone& event) {
  const Requests::Record* record = s_.requests.find(event.request, RequestKind::prepare);
  if (!record) return s_.stale();
  std::uint32_t index = record->subject;
  if (!s_.makings[index].preparing) return s_.stale();  // reported already
  Outcome outcome = event.outcome;
  if (outcome == Outcome::corrupt && !are_of_block(s_.makings[index], event.failed)) {
    s_.protocol_error();
    outcome = Outcome::failed;
  }
  const std::uint32_t node = s_.makings[index].node;
  if (const std::uint32_t twin = s_.makings[index].twin; twin != kNone) {
    // Of two workers, the first that makes the block counts; a failure of one does not.
    const bool done = outcome == Outcome::done;
    if (s_.makings[index].second ? done : outcome == Outcome::failed) {
      use_second(s_.makings[index].second ? index : twin);
      index = twin;
    }
  }
  if (s_.makings[index].second) {
    s_.makings[index].preparing = false;
    abort(index);
    return assign(node);
  }
  Making& making = s_.makings[index];
  making.preparing = false;
  const bool cancelled = std::exchange(making.cancelled, false);
  if (outcome == Outcome::corrupt) {
    if (!s_.config.workers_held_during_reads) free_worker(making);
    corrupt(index, event.failed);
  } else if (outcome == Outcome::failed) {
    free_worker(making);
    if (s_.streams[s_.blocks[making.block].stream].jobs.empty()) {
      abort(index);
      return assign(node);
    }
    // What was given up on demand is no failure: its stream has jobs again.
    if (!cancelled && ++making.attempts >= s_.config.read_attempts) {
      making_failed(index, Refusal::no_workers);
    } else {
      // A late report of this attempt must not count for the next one.
      s_.requests.again(making.request);
      s_.alarms.set(after(s_.now, s_.config.retry_wait),
                    {AlarmKind::retry_prepare, index, making.serial});
    }
  } else {
    const double took = seconds(s_.now - making.prepare_since);
    const Block& block = s_.blocks[making.block];
    Stream& stream = s_.streams[block.stream];
    making.prepared_s += took;
    if (has_doubts(making) || making.next < block.samples) {
      if (!s_.config.workers_held_during_reads) free_worker(making);
      go_on(index);
      return assign(node);
    }
    if (making.whole || making.mends) {
      stream.preparation_times.add(
          static_cast<std::uint64_t>((s_.now - making.prepare_since).count()));
    }
    smooth(stream.prepare_s, making.prepared_s);
    smooth(s_.nodes[node].prepare_s, making.prepared_s);
    finish(index);
  }
  assign(node);
}

// What is made of the block stays. Its jobs may be gone meanwhile.
void Preparation::go_on(std::uint32_t index) {
  end_part(index);
  if (s_.streams[s_.blocks[s_.makings[index].block].stream].jobs.empty()) {
    free_worker(s_.makings[index]);
    return abort(index);
  }
  wait_for_staging(index);
}

// The making no longer waits for its turn for staging memory.
void Preparation::stop_waiting(std::uint32_t index) {
  Making& making = s_.makings[index];
  if (!std::exchange(making.unstaged, false)) return;
  std::erase(s_.nodes[making.node].unstaged, index);
  --making.waiting;
  s_.staging_changed(making.node);
}

void Preparation::retry(std::uint32_t index, std::uint64_t serial) {
  if (!s_.makings.live(index) || s_.makings[index].serial != serial) return;
  const std::uint32_t node = s_.makings[index].node;
  making_ready(index);
  assign(node);
}

void Preparation::finish(std::uint32_t index) {
  Making& making = s_.makings[index];
  Block& block = s_.blocks[making.block];
  Stream& stream = s_.streams[block.stream];
  ++s_.counters.preparations;
  if (making.remake) ++s_.counters.remakes;
  s_.requests.close(making.request);
  free_worker(making);
  part_twins(making);
  stop_waiting(index);
  items_.leave(making, index, true);
  --s_.nodes[making.node].started;
  if (s_.jobs.live(making.job)) --s_.jobs[making.job].makings;
  const std::uint32_t block_index = making.block;
  s_.makings.release(index);

  block.making = kNone;
  block.resident = true;
  block.since = s_.now;
  if (!block.ref.is_none()) stream.lanes->made(block.ref);
  // No job waits for it any more: its job left, or went on without it, while it was made.
  if (!is_charged_for_need(s_, block)) uncharge(s_, block);
  strip_ahead(node_of(stream, block.node));
  wake(block);
  tell_need(s_, block_index);
}

// Each job that may take the block, or waits to go on with it, is looked at before the step ends.
void Preparation::wake(const Block& block) {
  const Stream& stream = s_.streams[block.stream];
  if (!block.ref.is_none() && stream.lanes->valid(block.ref)) {
    stream.lanes->for_each_needing(
        block.ref, [&](order::MemberId member) { s_.touch(stream.lanes->tag(member)); });
  }
  if (block.grants > 0) {
    for (const std::uint32_t job : stream.jobs) s_.touch(job);
  } else if (block.charged_job != kNone) {
    s_.touch(block.charged_job);
  }
}

// The block will not come. Its slot is free, unless a worker may still write to it.
void Preparation::abort(std::uint32_t index) {
  Making& making = s_.makings[index];
  Block& block = s_.blocks[making.block];
  Stream& stream = s_.streams[block.stream];
  const bool writing = making.preparing;
  const bool written = !making.request.is_none();
  const std::uint32_t worker = making.worker;
  BF_CHECK(!writing || s_.workers[worker].state == Worker::State::lost ||
           s_.nodes[making.node].lost);
  if (!making.request.is_none()) {
    if (writing) s_.order(Cancel{s_.requests.latest(making.request)});
    s_.requests.close(making.request);
  }
  part_twins(making);
  if (making.ready) std::erase(s_.nodes[making.node].ready, index);
  if (!writing) free_worker(making);
  stop_waiting(index);
  items_.leave(making, index, false);
  --s_.nodes[making.node].started;
  if (s_.jobs.live(making.job)) --s_.jobs[making.job].makings;
  if (!block.ref.is_none()) stream.lanes->failed(block.ref);
  wake(block);
  lift_charge(s_, block);
  if (written && !writing && !s_.is_lost(block.node)) drop(block);
  return_slot(block, writing ? worker : kNone);
  s_.room_on(making.node);
  s_.blocks.release(making.block);
  s_.makings.release(index);
}

void Preparation::drop(const Block& block) {
  const SharePart& part = s_.memory[block.share];
  s_.order(Drop{part.id, part.spec.place, Form::prepared, block.item, block.slot});
}

void Preparation::return_slot(Block& block, std::uint32_t worker) {
  if (worker != kNone) {
    s_.workers[worker].quarantine.push_back({block.share, block.item, kNone, block.slot});
    s_.memory[block.share].owner_of[block.item.value] = kNone;
    return;
  }
  s_.memory.give_back(block.share, block.item);
}

void Preparation::making_failed(std::uint32_t index, std::optional<Refusal> why) {
  const Making& making = s_.makings[index];
  const std::uint32_t stream = s_.blocks[making.block].stream;
  abort(index);
  if (why) failures.push_back({stream, kNone, *why, 0, 0});
}

}  // namespace batchflow::engine
