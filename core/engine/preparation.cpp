#include "core/engine/preparation.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/engine/books.h"

namespace batchflow::engine {

namespace {

// How many samples are drawn in the time in which one is looked up.
constexpr std::size_t kDrawnASample = 2;

}  // namespace

// -------------------------------------------------------------------------------- starting ----

void Preparation::fill_block(Block& block, const Stream& stream, const Need& need,
                             const StreamNode& part, Memory::Taken taken) {
  block.serial = ++s_.serials;
  block.stream = stream.id;
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

bool Preparation::start(Job& job, Need need, Charges::Site site) {
  Stream& stream = s_.streams[job.stream];
  const BlockIndex index = s_.blocks.make();
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
  if (stream.chosen && !block.rehearsal)
    selection_.choose_samples(job, block, stream.nodes[site.part].index);
  charge(s_, index, site.charge, job);
  if (need.grant) {
    need.grant->block = {index, block.serial};
    need.grant->wanted = false;
    need.grant->made = true;
    ++block.grants;
  }
  if (!block.ref.is_none()) {
    stream.lanes->tag(block.ref) = index.value;
    stream.lanes->making(block.ref);
  }

  const MakingIndex making_index = s_.makings.make();
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
    making.worker = workers_.take(making.node, making_index);
  }
  // By the time its turn comes, the epoch that a weighted block is drawn from may be over.
  const bool unlooked =
      kept_items_.plain(stream) || !kept_items_.whole(stream, making.node).is_none();
  if (!unlooked || block.rehearsal) {
    s_.expand(block, making.draws);
    s_.samples_looked_up += making.draws.size() / kDrawnASample;
  }
  parts_.wait(making_index);
  return true;
}

// --------------------------------------------------------------------------------- progress ----

// What a part's time says of the costs of its samples.
void Preparation::learn_costs(Stream& stream, const Making& making, double took) {
  if (making.mends) return;
  const auto decoded = static_cast<double>(
      std::count_if(making.ingredients.begin(), making.ingredients.end(),
                    [](const Ingredient& one) { return one.form == Form::decoded; }));
  const std::size_t all = making.kept_to > 0           ? making.kept_to - making.kept_from
                          : making.ingredients.empty() ? s_.blocks[making.block].samples
                                                       : making.ingredients.size();
  stream.costs.add(static_cast<double>(all) - decoded, decoded, took);
}

void Preparation::making_ready(MakingIndex index) {
  Making& making = s_.makings[index];
  BF_CHECK(!making.ready);
  if (s_.nodes[making.node].lost) return;  // it ends with its node, in a moment
  if (!making.worker.is_none()) return send_preparation(index);
  making.ready = true;
  s_.nodes[making.node].ready.push_back(index);
  assign(making.node);
}

void Preparation::assign(NodeIndex node_index) {
  Node& node = s_.nodes[node_index];
  s_.changed_on(node_index);
  if (!node.ready.empty() && node.idle.empty() && s_.config.workers_held_during_reads) {
    // After workers were lost, it may be that another making which waits holds one.
    const MakingIndex holder = workers_.holder_that_waits(node_index);
    if (!holder.is_none()) free_worker(s_.makings[holder]);
  }
  while (!node.ready.empty() && !node.idle.empty()) {
    const MakingIndex index = node.ready.front();
    node.ready.pop_front();
    Making& making = s_.makings[index];
    making.ready = false;
    making.worker = workers_.take(node_index, index);
    send_preparation(index);
  }
}

// The ingredients that a worker does not find by the block's name among what is kept as stored.
const std::vector<Ingredient>& Preparation::beside_bundles(const Making& making) {
  beside_bundles_.clear();
  for (const Ingredient& one : making.ingredients) {
    const bool in_bundle = one.form == Form::encoded && one.staging.is_none() && !one.keep_decoded;
    if (!in_bundle) beside_bundles_.push_back(one);
  }
  return beside_bundles_;
}

void Preparation::send_preparation(MakingIndex index) {
  Making& making = s_.makings[index];
  Block& block = s_.blocks[making.block];
  Prepare command;
  command.request = making.request.is_none() ? s_.requests.open(RequestKind::prepare, index.value)
                                             : s_.requests.again(making.request);
  making.request = command.request.id;
  making.preparing = true;
  making.prepare_since = s_.now;
  command.worker = s_.workers[making.worker].id;
  command.node = block.node;
  command.lineage = s_.lineage(block);
  command.share = block.share;
  command.slot = block.slot;
  command.staging = making.staging;
  command.kept_from = making.kept_from;
  command.kept_to = making.kept_to;
  command.ingredients =
      s_.arena.copy(making.kept_to == 0 ? making.ingredients : beside_bundles(making));
  command.mends = making.mends;
  for (const Making::Suspect& suspect : making.suspects) {
    if (suspect.used == suspect.original) continue;
    std::erase_if(block.replacements,
                  [&](const order::Replacement& old) { return old.index == suspect.index; });
    block.replacements.push_back({suspect.index, suspect.original, suspect.used});
  }
  if (!making.decoding.empty()) {
    command.decoded_share = making.decoding.front().share;
  }
  command.replacements = s_.arena.copy(block.replacements);
  s_.emit(command);
  second_workers_.watch(s_.streams[block.stream], index);
}

void Preparation::free_worker(Making& making) {
  if (making.worker.is_none()) return;
  workers_.release(making.worker);
  s_.room_on(making.node);
  making.worker = WorkerIndex::none();
}

// What it has made of the part stays. Its corrupt samples are tried again, or replaced.
void Preparation::corrupt(MakingIndex index, std::span<const SampleId> failed) {
  Making& making = s_.makings[index];
  suspects_.report(index, failed);
  second_workers_.separate(making);  // the other finds them as they are, too
  parts_.end(index);
  if (const auto failure = suspects_.replace_corrupt(making)) {
    failures.push_back(*failure);
    free_worker(making);
    return abort(index);
  }
  if (!Suspects::has_doubts(making) && making.next == s_.blocks[making.block].samples)
    return finish(index);
  parts_.wait(index);
}

void Preparation::prepared(const PreparationDone& event) {
  const Requests::OpenRequest* record = s_.requests.find(event.request, RequestKind::prepare);
  if (!record) return s_.stale();
  MakingIndex index(record->subject);
  if (!s_.makings[index].preparing) return s_.stale();  // reported already
  Outcome outcome = event.outcome;
  if (outcome == Outcome::corrupt && !suspects_.are_of_block(s_.makings[index], event.failed)) {
    s_.protocol_error();
    outcome = Outcome::failed;
  }
  const NodeIndex node = s_.makings[index].node;
  if (const MakingIndex other_making = s_.makings[index].other_making; !other_making.is_none()) {
    // Of two workers, the first that makes the block counts; a failure of one does not.
    const bool done = outcome == Outcome::done;
    if (s_.makings[index].second ? done : outcome == Outcome::failed) {
      second_workers_.use(s_.makings[index].second ? index : other_making);
      index = other_making;
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
                    {AlarmKind::retry_prepare, index.value, making.serial});
    }
  } else {
    const double took = seconds(s_.now - making.prepare_since);
    const Block& block = s_.blocks[making.block];
    Stream& stream = s_.streams[block.stream];
    making.prepared_s += took;
    learn_costs(stream, making, took);
    if (Suspects::has_doubts(making) || making.next < block.samples) {
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
void Preparation::go_on(MakingIndex index) {
  parts_.end(index);
  if (s_.streams[s_.blocks[s_.makings[index].block].stream].jobs.empty()) {
    free_worker(s_.makings[index]);
    return abort(index);
  }
  parts_.wait(index);
}

void Preparation::retry(MakingIndex index, std::uint64_t serial) {
  if (!s_.makings.live(index) || s_.makings[index].serial != serial) return;
  const NodeIndex node = s_.makings[index].node;
  making_ready(index);
  assign(node);
}

void Preparation::finish(MakingIndex index) {
  Making& making = s_.makings[index];
  Block& block = s_.blocks[making.block];
  Stream& stream = s_.streams[block.stream];
  ++s_.counters.preparations;
  if (making.remake) {
    ++s_.counters.remakes;
    stream.remade.add(s_.now);
  }
  stream.made.add(s_.now, block.samples);
  s_.nodes[making.node].made.add(s_.now, block.samples);
  s_.requests.close(making.request);
  free_worker(making);
  second_workers_.separate(making);
  parts_.stop_waiting(index);
  items_.leave(making, index, true);
  --s_.nodes[making.node].started;
  if (s_.jobs.live(making.job)) --s_.jobs[making.job].makings;
  const BlockIndex block_index = making.block;
  s_.makings.release(index);

  block.making = MakingIndex::none();
  block.resident = true;
  block.since = s_.now;
  if (!block.ref.is_none()) stream.lanes->made(block.ref);
  // No job waits for it any more: its job left, or went on without it, while it was made.
  if (!is_charged_for_need(s_, block)) uncharge(s_, block);
  charges_.strip_ahead(part_on(stream, block.node));
  resume_waiting(block);
  report_takers(s_, block_index);
}

// Each job that may take the block, or waits to go on with it, is looked at before the step ends.
void Preparation::resume_waiting(const Block& block) {
  look_at_needing(s_, block);
  if (block.grants > 0) {
    for (const JobIndex job : s_.streams[block.stream].jobs) s_.look_at(job);
  } else if (!block.charged_job.is_none()) {
    s_.look_at(block.charged_job);
  }
}

// The block will not come. Its slot is free, unless a worker may still write to it.
void Preparation::abort(MakingIndex index) {
  Making& making = s_.makings[index];
  Block& block = s_.blocks[making.block];
  Stream& stream = s_.streams[block.stream];
  const bool writing = making.preparing;
  const bool written = !making.request.is_none();
  const WorkerIndex worker = making.worker;
  BF_CHECK(!writing || s_.workers[worker].state == Worker::State::lost ||
           s_.nodes[making.node].lost);
  if (!making.request.is_none()) {
    if (writing) s_.emit(Cancel{s_.requests.latest(making.request)});
    s_.requests.close(making.request);
  }
  second_workers_.separate(making);
  if (making.ready) std::erase(s_.nodes[making.node].ready, index);
  if (!writing) free_worker(making);
  parts_.stop_waiting(index);
  items_.leave(making, index, false);
  --s_.nodes[making.node].started;
  if (s_.jobs.live(making.job)) --s_.jobs[making.job].makings;
  if (!block.ref.is_none()) stream.lanes->failed(block.ref);
  resume_waiting(block);
  lift_charge(s_, block);
  if (written && !writing && !s_.is_lost(block.node)) {
    const Place place = s_.memory[block.share].spec.place;
    s_.emit(Drop{block.share, place, Form::prepared, block.item, block.slot});
  }
  return_slot(block, writing ? worker : WorkerIndex::none());
  s_.room_on(making.node);
  s_.blocks.release(making.block);
  s_.makings.release(index);
}

void Preparation::return_slot(Block& block, WorkerIndex worker) {
  if (!worker.is_none()) {
    workers_.quarantine(worker, {block.share, block.item, BlockIndex::none(), block.slot});
    s_.memory[block.share].owner_of[block.item.value] = BlockIndex::none();
    return;
  }
  s_.memory.give_back(block.share, block.item);
}

void Preparation::making_failed(MakingIndex index, std::optional<Refusal> why) {
  const Making& making = s_.makings[index];
  const StreamId stream = s_.blocks[making.block].stream;
  abort(index);
  if (why) failures.push_back({stream, *why, 0, 0});
}

// ------------------------------------------------------------------------ workers and nodes ----

void Preparation::joined(const WorkerJoined& event) {
  const NodeIndex node = workers_.joined(event);
  if (!node.is_none()) assign(node);
}

void Preparation::lost(const WorkerLost& event) {
  const WorkerIndex worker = workers_.find(event.worker);
  if (worker.is_none() || s_.workers[worker].state == Worker::State::lost) {
    return s_.protocol_error();
  }
  MakingIndex making = workers_.lost(worker);
  if (making.is_none()) return;
  if (!s_.makings[making].preparing) {
    // It only waited for reads: another worker takes its place.
    s_.makings[making].worker = WorkerIndex::none();
    return;
  }
  const MakingIndex other_making = s_.makings[making].other_making;
  if (!other_making.is_none() && !s_.makings[making].second) {
    // The other making may still make the block.
    second_workers_.use(other_making);
    making = other_making;
  }
  abort(making);
}

void Preparation::quiesced(const WorkerQuiesced& event) {
  const WorkerIndex worker = workers_.find(event.worker);
  if (worker.is_none()) return s_.protocol_error();
  if (s_.workers[worker].state != Worker::State::lost) lost({event.worker});
  workers_.quiesced(worker);
}

void Preparation::abandon(StreamId stream) {
  s_.makings.each([&](MakingIndex index) {
    Making& making = s_.makings[index];
    if (s_.blocks[making.block].stream != stream) return;
    if (!making.preparing) {
      abort(index);
    } else if (!std::exchange(making.cancelled, true)) {
      s_.emit(Cancel{s_.requests.latest(making.request)});
    }
  });
}

void Preparation::lose_node(NodeIndex node_index) {
  workers_.stop(node_index);
  reads_.lose_node(node_index, s_.nodes[node_index].id);
  s_.makings.each([&](MakingIndex index) {
    if (s_.makings[index].node == node_index) abort(index);
  });
  s_.nodes[node_index].ready.clear();
  s_.nodes[node_index].wait_for_staging.clear();
  workers_.forget_all(node_index);
}

void Preparation::forget_job(Job& job) {
  s_.makings.each([&](MakingIndex index) {
    if (s_.makings[index].job == job.index) {
      s_.makings[index].job = JobIndex::none();
    }
  });
  job.makings = 0;
}

}  // namespace batchflow::engine
