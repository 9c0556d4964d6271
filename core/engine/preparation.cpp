#include "core/engine/preparation.h"

#include <algorithm>

#include "core/check.h"
#include "core/engine/books.h"
#include "core/replacement.h"

namespace batchflow {

// -------------------------------------------------------------------------------- starting ----

bool Preparation::room_for(const Stream& stream, const StreamNode& part, const Job& job,
                           Charge& as) const {
  const Share& share = *s_.memory[part.share].share;
  if (share.capacity() == 0) return false;
  if (share.used() >= share.capacity() && share.evictable() == 0) return false;
  if (room_ahead(s_, stream, part, job)) {
    as = Charge::ahead;
    return true;
  }
  as = Charge::current;
  return job.waits && part.current.index == kNone;
}

std::optional<Preparation::Site> Preparation::site(const Stream& stream, const Job& job) {
  std::optional<Site> best;
  bool best_is_home = false;
  double best_load = 0;
  for (std::uint32_t i = 0; i < stream.nodes.size(); ++i) {
    const StreamNode& part = stream.nodes[i];
    const Node& node = s_.nodes[s_.node_of.at(part.node.value)];
    if (!node.takes_work || node.workers == 0) continue;
    const std::uint32_t most = s_.config.workers_held_during_reads
                                   ? node.workers
                                   : node.workers * s_.config.blocks_in_flight_per_worker;
    if (node.started >= most) continue;
    if (s_.config.workers_per_job > 0 && job.makings >= s_.config.workers_per_job) continue;
    Charge as = Charge::none;
    if (!room_for(stream, part, job, as)) continue;
    const bool home = std::any_of(job.ranks.begin(), job.ranks.end(),
                                  [&](const RankState& rank) { return rank.node == part.node; });
    const double load = static_cast<double>(node.started) / node.workers;
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
  // What was evicted for it may have been the last of its pass.
  if (!need.ref.is_none() && !stream.lanes->valid(need.ref)) need.ref = {};
  Block& block = s_.blocks[index];
  fill_block(block, stream, need, stream.nodes[site.part], *taken);
  charge(s_, index, site.charge, job);
  if (need.grant) {
    need.grant->block = {index, block.serial};
    need.grant->wanted = false;
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
  making.node = s_.node_of.at(block.node.value);
  making.remake = need.remake;
  making.since = s_.now;
  Node& node = s_.nodes[making.node];
  ++node.started;
  ++job.makings;
  ++job.served_blocks;
  if (s_.config.workers_held_during_reads && !node.idle.empty()) {
    making.worker = node.idle.back();
    node.idle.pop_back();
    s_.workers[making.worker].state = Worker::State::busy;
    s_.workers[making.worker].making = making_index;
  }
  if (items_.plain(stream)) {
    Reads::Spec spec;
    spec.dataset = s_.datasets[stream.dataset].id;
    spec.from = {NodeId::none(), Tier::store, 0};
    spec.to = {block.node, Tier::dram, 0};
    spec.node = making.node;
    spec.lineage = s_.lineage(block);
    if (making.worker != kNone) spec.held = s_.workers[making.worker].id;
    const std::uint32_t read = reads_.open(spec, {});
    reads_.use(read, making_index);
    making.staging = s_.reads[read].request.id;
  } else {
    s_.expand(block, draws_);
    items_.gather(making_index, draws_);
    s_.samples_gathered += draws_.size();
  }
  if (making.waiting == 0) making_ready(making_index);
  return true;
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

// A worker held by a making that waits may be what that one waits for, after workers were lost.
void Preparation::take_held_worker(std::uint32_t node_index) {
  for (std::uint32_t i = 0; i < s_.workers.size(); ++i) {
    Worker& worker = s_.workers[i];
    if (worker.node != node_index || worker.state != Worker::State::busy) continue;
    Making& making = s_.makings[worker.making];
    if (making.preparing || making.waiting == 0) continue;
    return free_worker(making);
  }
}

void Preparation::assign(std::uint32_t node_index) {
  Node& node = s_.nodes[node_index];
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
  order.ingredients =
      making.patch.empty() ? s_.arena.copy(making.ingredients) : s_.arena.copy(making.patch);
  for (const Making::Suspect& suspect : making.suspects) {
    if (suspect.used == suspect.original) continue;
    std::erase_if(block.replacements,
                  [&](const Replacement& old) { return old.place == suspect.place; });
    block.replacements.push_back({suspect.place, suspect.original, suspect.used});
  }
  if (!making.decoding.empty()) {
    order.decoded_share = s_.memory[making.decoding.front().share].id;
  }
  order.replacements = s_.arena.copy(block.replacements);
  s_.order(order);
}

void Preparation::free_worker(Making& making) {
  if (making.worker == kNone) return;
  Worker& worker = s_.workers[making.worker];
  if (worker.state == Worker::State::busy) {
    worker.state = Worker::State::idle;
    worker.making = kNone;
    s_.nodes[making.node].idle.push_back(making.worker);
  }
  making.worker = kNone;
  s_.room_changed = true;
}

void Preparation::prepared(const PreparationDone& event) {
  const Requests::Record* record = s_.requests.find(event.request, RequestKind::prepare);
  if (!record) return s_.stale();
  const std::uint32_t index = record->subject;
  Making& making = s_.makings[index];
  if (!making.preparing) return s_.stale();  // reported already
  making.preparing = false;
  const std::uint32_t node = making.node;
  if (event.outcome == Outcome::corrupt) {
    making.corrupt = true;
    if (!s_.config.workers_held_during_reads) free_worker(making);
    corrupt(index, event.failed);
  } else if (event.outcome == Outcome::failed) {
    free_worker(making);
    if (++making.attempts >= s_.config.read_attempts) {
      making_failed(index, Refusal::no_workers);
    } else {
      // A late report of this attempt must not count for the next.
      s_.requests.again(making.request);
      s_.alarms.set(s_.now + s_.config.retry_wait,
                    {AlarmKind::retry_prepare, index, making.serial});
    }
  } else {
    const double took = seconds(s_.now - making.prepare_since);
    smooth(s_.streams[s_.blocks[making.block].stream].prepare_s, took);
    smooth(s_.nodes[node].prepare_s, took);
    finish(index);
  }
  assign(node);
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
  items_.leave(making, index, true);
  --s_.nodes[making.node].started;
  if (s_.jobs.live(making.job)) --s_.jobs[making.job].makings;
  const std::uint32_t block_index = making.block;
  s_.makings.release(index);

  block.making = kNone;
  block.resident = true;
  block.since = s_.now;
  if (!block.ref.is_none()) stream.lanes->made(block.ref);
  // Nobody waits for it any more: its job left, or went on without it, while it was made.
  if (!is_charged_for_need(s_, block)) uncharge(s_, block);
  strip_ahead(node_of(stream, block.node));
  wake(block);
  tell_need(s_, block_index);
}

// Whoever may take the block, or waits to go on with it, is looked at before the step ends.
void Preparation::wake(const Block& block) {
  const Stream& stream = s_.streams[block.stream];
  if (!block.ref.is_none() && stream.lanes->valid(block.ref)) {
    stream.lanes->for_each_needing(block.ref,
                                   [&](MemberId member) { s_.touch(stream.lanes->tag(member)); });
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
  if (making.ready) std::erase(s_.nodes[making.node].ready, index);
  if (!writing) free_worker(making);
  items_.leave(making, index, false);
  --s_.nodes[making.node].started;
  if (s_.jobs.live(making.job)) --s_.jobs[making.job].makings;
  if (!block.ref.is_none()) stream.lanes->failed(block.ref);
  wake(block);
  lift_charge(s_, block);
  if (written && !writing && !s_.is_lost(block.node)) drop(block);
  return_slot(block, writing ? worker : kNone);
  s_.blocks.release(making.block);
  s_.makings.release(index);
  s_.room_changed = true;
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

// -------------------------------------------------------------------------------- corruption ----

// The worker could not decode some samples. Each is read anew from the store and tried again alone;
// a sample that fails on two reads of its own is corrupt, and the rule names who stands in.
void Preparation::corrupt(std::uint32_t index, std::span<const SampleId> failed) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  if (making.ingredients.empty()) {
    // So far the block was one read of all its samples; from here on they have names.
    s_.expand(block, draws_);
    for (std::uint32_t place = 0; place < draws_.size(); ++place) {
      Ingredient ingredient;
      ingredient.place = place;
      ingredient.sample = draws_[place].sample;
      ingredient.staging = making.staging;
      making.ingredients.push_back(ingredient);
    }
    making.staging = RequestId::none();
  }
  bool known = !failed.empty();
  for (const SampleId sample : failed) known = known && suspect(index, sample);
  // A report of samples that are not in the block is a broken worker, not a broken sample.
  if (!known) free_worker(making);
  if (!known) return making_failed(index, Refusal::no_workers);
  for (Making::Suspect& suspect : making.suspects) {
    if (suspect.settled || suspect.failures < 2) continue;
    if (condemn(making, suspect)) continue;
    free_worker(making);
    return abort(index);
  }
  look_again(index);
}

// A sample may stand in several places of a block: in its own, and in those of corrupt ones.
bool Preparation::suspect(std::uint32_t index, SampleId sample) {
  Making& making = s_.makings[index];
  // What was read for this block counts as a first read of the store; what a cache had does not.
  const bool read = std::any_of(making.reads.begin(), making.reads.end(), [&](std::uint32_t one) {
    const auto& samples = s_.reads[one].samples;
    return std::find(samples.begin(), samples.end(), sample) != samples.end();
  });
  bool found = false;
  for (Ingredient& ingredient : making.ingredients) {
    if (ingredient.sample != sample) continue;
    found = true;
    suspect(making, ingredient, read || !ingredient.staging.is_none());
    if (!ingredient.keep_decoded) continue;
    ingredient.keep_decoded = false;
    items_.give_up_decoding(index, sample);
  }
  if (found)
    items_.purge(s_.datasets[s_.streams[s_.blocks[making.block].stream].dataset].id, sample);
  return found;
}

void Preparation::suspect(Making& making, const Ingredient& ingredient, bool from_store) {
  auto known = std::find_if(making.suspects.begin(), making.suspects.end(),
                            [&](const auto& one) { return one.place == ingredient.place; });
  if (known == making.suspects.end()) {
    making.suspects.push_back({ingredient.place, ingredient.sample, ingredient.sample, 0, false});
    known = std::prev(making.suspects.end());
  }
  known->settled = false;
  if (from_store) ++known->failures;
}

// False: the dataset has too many corrupt samples, and its jobs end.
bool Preparation::condemn(Making& making, Making::Suspect& suspect) {
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  Dataset& dataset = s_.datasets[stream.dataset];
  const auto at = std::lower_bound(dataset.corrupt.begin(), dataset.corrupt.end(), suspect.used);
  if (at == dataset.corrupt.end() || *at != suspect.used) {
    dataset.corrupt.insert(at, suspect.used);
    ++s_.counters.corrupt_samples;
  }
  const std::uint64_t samples = dataset.catalogue->samples();
  const std::uint64_t most = std::max<std::uint64_t>(8, s_.config.corrupt_ratio_max.of(samples));
  const auto other = replacement({dataset.catalogue->version(), stream.seed}, block.name.generation,
                                 block.name.pass, suspect.original, samples, [&](SampleId sample) {
                                   return std::binary_search(dataset.corrupt.begin(),
                                                             dataset.corrupt.end(), sample);
                                 });
  if (dataset.corrupt.size() > most || !other) {
    failures.push_back(
        {block.stream, kNone, Refusal::too_many_corrupt, dataset.corrupt.size(), most});
    return false;
  }
  suspect.used = *other;
  suspect.failures = 0;
  return true;
}

// Reads the suspects from the store, each for this block alone, and prepares their places again.
void Preparation::look_again(std::uint32_t index) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  ids_.clear();
  making.patch.clear();
  std::vector<const Making::Suspect*> again;
  for (Making::Suspect& suspect : making.suspects) {
    if (suspect.settled) continue;
    suspect.settled = true;  // until the worker says otherwise
    again.push_back(&suspect);
    if (std::find(ids_.begin(), ids_.end(), suspect.used) == ids_.end()) {
      ids_.push_back(suspect.used);
    }
  }
  Reads::Spec spec;
  spec.dataset = s_.datasets[s_.streams[block.stream].dataset].id;
  spec.from = {NodeId::none(), Tier::store, 0};
  spec.to = {block.node, Tier::dram, 0};
  spec.node = making.node;
  spec.alone = true;
  spec.lineage = s_.lineage(block);
  const std::uint32_t read = reads_.open(spec, ids_);
  reads_.use(read, index);
  for (const Making::Suspect* suspect : again) {
    Ingredient& ingredient = making.ingredients[suspect->place];
    ingredient.sample = suspect->used;
    ingredient.form = Form::encoded;
    ingredient.staging = s_.reads[read].request.id;
    making.patch.push_back(ingredient);
  }
}

// ------------------------------------------------------------------------- workers and nodes ----

void Preparation::joined(const WorkerJoined& event) {
  const auto node = s_.node_of.find(event.node.value);
  if (node == s_.node_of.end()) return s_.protocol_error();
  if (const auto known = s_.worker_of.find(event.worker.value); known != s_.worker_of.end()) {
    const Worker::State state = s_.workers[known->second].state;
    if (state == Worker::State::idle || state == Worker::State::busy) return s_.protocol_error();
  }
  const auto index = static_cast<std::uint32_t>(s_.workers.size());
  s_.workers.push_back({event.worker, node->second, Worker::State::idle, kNone, {}});
  s_.worker_of[event.worker.value] = index;
  s_.nodes[node->second].idle.push_back(index);
  ++s_.nodes[node->second].workers;
  s_.room_changed = true;
  assign(node->second);
}

void Preparation::lost(const WorkerLost& event) {
  const auto found = s_.worker_of.find(event.worker.value);
  if (found == s_.worker_of.end()) return s_.protocol_error();
  Worker& worker = s_.workers[found->second];
  if (worker.state == Worker::State::lost || worker.state == Worker::State::quiesced) {
    return s_.protocol_error();
  }
  Node& node = s_.nodes[worker.node];
  std::erase(node.idle, found->second);
  --node.workers;
  const std::uint32_t making = worker.making;
  worker.state = Worker::State::lost;
  worker.making = kNone;
  if (making == kNone) return;
  if (!s_.makings[making].preparing) {
    // It only waited for reads: another worker takes its place.
    s_.makings[making].worker = kNone;
    return;
  }
  abort(making);
}

void Preparation::quiesced(const WorkerQuiesced& event) {
  const auto found = s_.worker_of.find(event.worker.value);
  if (found == s_.worker_of.end()) return s_.protocol_error();
  Worker& worker = s_.workers[found->second];
  if (worker.state == Worker::State::quiesced) return s_.protocol_error();
  if (worker.state != Worker::State::lost) lost({event.worker});
  worker.state = Worker::State::quiesced;
  for (const Resident& slot : worker.quarantine) {
    const SharePart& part = s_.memory[slot.share];
    s_.order(Drop{part.id, part.spec.place, Form::prepared, slot.item, slot.slot});
    s_.memory.give_back(slot.share, slot.item);
  }
  worker.quarantine.clear();
  s_.room_changed = true;
}

void Preparation::abandon(std::uint32_t stream) {
  for (std::uint32_t index = 0; index < s_.makings.size(); ++index) {
    if (!s_.makings.live(index) || s_.makings[index].preparing) continue;
    if (s_.blocks[s_.makings[index].block].stream == stream) abort(index);
  }
}

void Preparation::lose_node(std::uint32_t node_index) {
  for (Worker& worker : s_.workers) {
    if (worker.node == node_index) worker.state = Worker::State::quiesced;
  }
  reads_.lose_node(node_index, s_.nodes[node_index].id);
  for (std::uint32_t index = 0; index < s_.makings.size(); ++index) {
    if (s_.makings.live(index) && s_.makings[index].node == node_index) abort(index);
  }
  Node& node = s_.nodes[node_index];
  node.idle.clear();
  node.ready.clear();
  node.workers = 0;
  for (Worker& worker : s_.workers) {
    if (worker.node != node_index) continue;
    // Nothing on a lost node writes anywhere any more.
    for (const Resident& slot : worker.quarantine) s_.memory.give_back(slot.share, slot.item);
    worker.quarantine.clear();
    worker.state = Worker::State::quiesced;
    worker.making = kNone;
  }
}

// ------------------------------------------------------------------------------------ upkeep ----

// The block is among those the job may take next. If it has taken it, what begun batches have in it
// is being copied; if it may not take it yet, one that failed or was lost has to be made before.
bool Preparation::may_take(const Stream& stream, const Job& job, const Block& block) {
  if (block.ref.is_none() || job.member.is_none()) return false;
  stream.lanes->candidates(job.member, candidates_);
  return std::any_of(candidates_.begin(), candidates_.end(),
                     [&](const Lanes::Candidate& one) { return one.block == block.ref; });
}

bool Preparation::settle_current() {
  bool changed = false;
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (!s_.streams.live(index)) continue;
    Stream& stream = s_.streams[index];
    for (StreamNode& part : stream.nodes) {
      Block* block = s_.at(part.current);
      if (!block || !block->resident || block->transfers > 0) continue;
      Job& job = s_.jobs[block->charged_job];
      // A block that was taken and is gone comes first: earlier steps wait for it.
      if (job.waits_to_take && !job.lost_grants && may_take(stream, job, *block)) continue;
      if (room_ahead(s_, stream, part, job) && block->grants > 0) {
        const std::uint32_t of = part.current.index;
        lift_charge(s_, *block);
        charge(s_, of, Charge::ahead, job);
      } else {
        uncharge(s_, *block);
      }
      changed = true;
    }
  }
  return changed;
}

void Preparation::orphan(Job& job) {
  for (std::uint32_t index = 0; index < s_.makings.size(); ++index) {
    if (s_.makings.live(index) && s_.makings[index].job == job.index) {
      s_.makings[index].job = kNone;
    }
  }
  job.makings = 0;
  for (std::uint32_t index = 0; index < s_.blocks.size(); ++index) {
    if (!s_.blocks.live(index) || s_.blocks[index].charged_job != job.index) continue;
    Block& block = s_.blocks[index];
    if (block.resident) {
      uncharge(s_, block);
    } else if (block.charge == Charge::ahead) {
      --job.ahead;
      block.charged_job = kNone;
    } else {
      // In the making for a job that is gone: it goes on as work ahead for whoever needs it.
      StreamNode& part = node_of(s_.streams[block.stream], block.node);
      lift_charge(s_, block);
      block.charge = Charge::ahead;
      ++part.ahead;
    }
  }
}

void Preparation::strip_ahead() {
  for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
    if (!s_.streams.live(index)) continue;
    for (StreamNode& part : s_.streams[index].nodes) strip_ahead(part);
  }
}

// First those that nobody has taken.
void Preparation::strip_ahead(StreamNode& part) {
  const SharePart& share = s_.memory[part.share];
  const Slots room = share.target > part.reserve + 1 ? share.target - part.reserve - 1 : 0;
  for (const bool taken : {false, true}) {
    for (const std::uint32_t owner : share.owner_of) {
      if (part.ahead <= room) return;
      if (owner == kNone || !s_.blocks.live(owner)) continue;
      Block& block = s_.blocks[owner];
      if (!block.resident || block.charge != Charge::ahead) continue;
      if ((block.grants > 0) == taken) uncharge(s_, block);
    }
  }
}

}  // namespace batchflow
