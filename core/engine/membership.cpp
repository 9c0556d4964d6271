#include "core/engine/membership.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/engine/books.h"
#include "core/engine/join_check.h"

namespace batchflow::engine {

namespace {

// More than any job is worth beside another. Weights come from outside.
constexpr double kWeightMost = 1e6;

}  // namespace

// ----------------------------------------------------------------------------------- joining ----

void Membership::refuse_join(JobId job, Refusal why, std::uint64_t needed,
                             std::uint64_t available) {
  s_.emit(Refuse{job, why, needed, available});
  s_.refused_joins.push_back(job);
}

void Membership::joined(const JobJoined& event) {
  const bool policy_chooses =
      event.order == Order::relaxed && !event.position && grants_.chooses_samples();
  const auto checked = check_join(s_, event, policy_chooses);
  if (const Refuse* why = std::get_if<Refuse>(&checked))
    return refuse_join(event.job, why->why, why->needed, why->available);
  const auto& [chosen, position] = std::get<JoinsAs>(checked);
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(event.dataset)];
  const JobIndex index = s_.jobs.make();
  Job& job = s_.jobs[index];
  job.index = index;
  job.serial = ++s_.serials;
  job.id = event.job;
  job.order = chosen ? Order::strict : event.order;
  job.chosen = chosen;
  job.batch_samples = event.batch_samples;
  job.drop_last = event.drop_last;
  // The end of a source is the end of the only epoch.
  job.epochs = event.keyed ? 0 : event.order == Order::live ? 1 : event.epochs;
  job.steps = event.steps;
  job.member = order::MemberId::none();
  job.committed = position;
  job.draws = epoch_samples_of(event, *dataset.catalogue, &position);
  job.has_shuffle_seed = event.has_shuffle_seed;
  job.multinomial = event.multinomial;
  job.weight = event.weight > 0 && event.weight < kWeightMost ? event.weight : 1;
  job.latency_target = std::clamp(event.latency_target, Duration(0), kLatencyTargetMost);
  job.user = event.user;
  job.node_local = event.node_local;
  job.rehearsed = event.rehearsed;
  job.fills_after = std::max(event.fills_after, Duration(0));
  job.fills_from = event.fills_from;
  job.fills_cut = event.fills_cut;
  job.reservoir = event.order == Order::live ? event.buffer_exemplars : 0;
  job.keyed = event.keyed;
  for (const NodeId node : event.ranks) {
    job.ranks.emplace_back();
    job.ranks.back().node = node;
  }
  job.dataset = s_.dataset_of.at(event.dataset);
  if (event.order == Order::weighted)
    job.weights =
        std::make_unique<order::Weights>(dataset.catalogue->samples(), order::weight_of_score(1));
  job.stream = streams_.stream_for(event, position, chosen);
  Stream& stream = s_.streams[job.stream];
  if (event.order == Order::listed) {
    streams_.open_homes(stream, event.ranks);
  } else {
    streams_.cover_nodes(stream, event.ranks);
  }
  const std::uint32_t credits = event.credits == 0 ? s_.config.credits : event.credits;
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
  if (!reserves_.reserve(job, credits, needed, available)) {
    const StreamId stream_id = job.stream;
    s_.jobs.release(index);
    streams_.close_if_empty(stream_id);
    return refuse_join(event.job, Refusal::no_room, needed, available);
  }
  stream.jobs.push_back(index);
  if (job.weights) s_.weighted_jobs.push_back(index);
  s_.job_of.set(event.job, index);
  reserves_.take(job);
  item_shares_.settle(dataset);
  if (event.buffer != 0) join_buffer(job, event, *dataset.catalogue);
  if (!event.weights_policy.empty()) mixture_weights_.follow(job, event);
  s_.promise_joined(job, event);
  joining_.push_back(index);
}

void Membership::join_buffer(Job& job, const JobJoined& event, const Catalogue& catalogue) {
  std::vector<BufferName> gone;
  job.buffer = &s_.buffers.join(event, catalogue, gone);
  for (const BufferName& name : gone) s_.promise_buffer_gone(name);
}

void Membership::draw_when_all_ask(Job& job) {
  if (drawn_epochs_.draw_first(job)) begin(job);
}

void Membership::begin(Job& job) {
  grants_.begin(job);
  dispatching_.level(job);
  commits_.end_epochs(job);
  s_.look_at(job.index);
}

// ----------------------------------------------------------------------- leaving and resizing ----

// Gives up what is not committed. Batches that ranks still read keep their memory until they are
// released; those of ranks that are gone are free.
void Membership::start_over(Job& job, bool all_ranks_gone) {
  dispatching_.forget(job);
  delivery_.abandon(job, all_ranks_gone);
  preparation_.forget_job(job);
  charges_.release_blocks_of(job);
  if (!job.runs.empty()) grants_.withdraw(job);
  s_.room_everywhere();  // others may go on that were held back for its sake
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

// The job's ranks may still read what they were handed: that memory is free when they have released
// it.
void Membership::refuse(Job& job, Refusal why, std::uint64_t needed, std::uint64_t available) {
  if (job.state == Job::State::refused) return;
  s_.emit(Refuse{job.id, why, needed, available});
  start_over(job, false);
  end_service(job);
  job.state = Job::State::refused;
  job.moves = false;
  refused_.push_back(job.index);
}

void Membership::end_service(Job& job) {
  s_.promise_left(job);
  if (job.buffer) s_.buffers.leave(*std::exchange(job.buffer, nullptr));
  reserves_.give_up(job);
  std::erase(s_.streams[job.stream].jobs, job.index);
  std::erase(s_.weighted_jobs, job.index);
  drawn_epochs_.leave(job);
  item_shares_.settle(s_.datasets[s_.streams[job.stream].dataset]);
  streams_.close_if_empty(job.stream);
}

void Membership::forget(Job& job) {
  reserves_.forget(job);
  s_.job_of.erase(job.id);
  s_.jobs.release(job.index);
}

void Membership::rank_lost(Job& job, Rank rank) {
  if (rank >= job.ranks.size() || job.ranks[rank].lost) return s_.protocol_error();
  if (job.state == Job::State::refused) {
    job.ranks[rank].lost = true;
    return delivery_.abandon_rank(job, rank);
  }
  job.ranks[rank].lost = true;
  job.moves = false;
  const bool first = job.state != Job::State::degraded;
  const bool was_running = job.state == Job::State::running;
  if (was_running) start_over(job, false);
  delivery_.abandon_rank(job, rank);
  job.state = Job::State::degraded;
  if (first) {
    job.lost_serial = ++s_.serials;
    s_.alarms.set(after(s_.now, s_.config.rank_timeout),
                  {AlarmKind::rank_timeout, job.index.value, job.lost_serial});
  }
}

void Membership::timed_out(JobIndex index, std::uint64_t serial) {
  if (!s_.jobs.live(index) || s_.jobs[index].state != Job::State::degraded) return;
  if (s_.jobs[index].lost_serial == serial) refuse(s_.jobs[index], Refusal::rank_lost, 0, 0);
}

void Membership::resized(Job& job, const JobResized& event) {
  if (job.state == Job::State::refused) return s_.stale();
  const std::uint64_t step = std::uint64_t{event.batch_samples} * event.ranks.size();
  const bool nodes_known = std::all_of(event.ranks.begin(), event.ranks.end(), [&](NodeId node) {
    return s_.node_of.has(node) && s_.memory.has(dram_of(node));
  });
  // The draws of a live job are those of a generation, which has one step at least.
  const bool has_no_step = job.drop_last && job.order != Order::live && step > job.draws;
  if (step == 0 || !nodes_known || job.order == Order::listed || job.keyed || has_no_step ||
      event.batch_samples <= job.rehearsed) {
    return refuse(job, Refusal::bad_request, 0, 0);
  }
  if (job.state == Job::State::running) start_over(job, false);
  reserves_.give_up(job);
  const std::uint32_t credits = job.credits;
  job.batch_samples = event.batch_samples;
  job.ranks.clear();
  for (const NodeId node : event.ranks) {
    job.ranks.emplace_back();
    job.ranks.back().node = node;
    job.ranks.back().next_step = job.ranks.back().consumed_steps = job.committed_step;
  }
  s_.promise_resized(job);
  job.told_buffer = 0;  // not to these ranks
  streams_.cover_nodes(s_.streams[job.stream], event.ranks);
  job.state = Job::State::resizing;
  job.moves = false;
  job.credits = std::max(credits, s_.config.credits);
  ++job.numbering;
  joining_.push_back(job.index);
}

// -------------------------------------------------------------------------------- moving ----

// The job's epoch is over, and its next one is in the stream that it would come to if it joined
// now. It has consumed all that it was given; what its ranks still read stays where it is.
void Membership::move(Job& job) {
  const StreamId from = job.stream;
  const StreamId to = streams_.stream_for(as_joined(job), job.committed, false);
  std::vector<NodeId> nodes;
  for (const RankState& rank : job.ranks) nodes.push_back(rank.node);
  streams_.cover_nodes(s_.streams[to], nodes);
  if (!has_room_in(job, to)) {
    job.stays = true;
    streams_.close_if_empty(to);
    return s_.look_at(job.index);
  }
  dispatching_.forget(job);
  delivery_.hold(job);
  preparation_.forget_job(job);
  charges_.release_blocks_of(job);
  grants_.withdraw(job);
  reserves_.give_up(job);
  std::erase(s_.streams[from].jobs, job.index);
  streams_.close_if_empty(from);
  job.stream = to;
  s_.streams[to].jobs.push_back(job.index);
  reserves_.take(job);
  item_shares_.settle(s_.datasets[job.dataset]);
  job.state = Job::State::joining;
  job.moves = true;
  joining_.push_back(job.index);
  s_.room_everywhere();
}

JobJoined Membership::as_joined(const Job& job) const {
  const Stream& stream = s_.streams[job.stream];
  JobJoined event;
  event.job = job.id;
  event.dataset = s_.datasets[stream.dataset].id;
  event.pipeline = stream.pipeline_id;
  event.order = job.order;
  event.runs = stream.run_shift > 0;
  return event;
}

// Beside what it has. A job never gets fewer credits than its ranks count on.
bool Membership::has_room_in(Job& job, StreamId to) {
  const StreamId from = std::exchange(job.stream, to);
  const std::uint32_t credits = job.credits;
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
  const bool fits = reserves_.reserve(job, credits, needed, available) && job.credits == credits;
  job.credits = credits;
  job.stream = from;
  return fits;
}

// A job that was resized may have to wait until its ranks have released what they had before.
bool Membership::reserve_resized(Job& job) {
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
  const std::uint32_t credits = job.credits;
  if (!reserves_.reserve(job, credits, needed, available)) {
    job.credits = credits;
    if (job.held.empty()) {
      refuse(job, Refusal::no_room, needed, available);
    } else {
      joining_.push_back(job.index);
    }
    return false;
  }
  job.state = Job::State::joining;
  reserves_.take(job);
  return true;
}

// ------------------------------------------------------------------------------ each step ----

void Membership::begin_step() {
  constexpr std::size_t kRefusalsAStep = 8;  // each looks at all streams of its dataset
  refusals_left_ = kRefusalsAStep;
  std::erase_if(over_promised_, [&](const Place& place) { return keep_promises(place); });
}

bool Membership::make_way() {
  const bool changed = streams_.stand_by();
  if (!over_promised_.empty()) s_.alarms.set(s_.now, {});
  return streams_.free_unused() || changed;
}

bool Membership::settle() {
  bool changed = make_way();
  for (const JobIndex index : std::exchange(s_.moving_jobs, {})) {
    if (!s_.jobs.live(index) || s_.jobs[index].state != Job::State::running) continue;
    if (!is_to_move(s_, s_.jobs[index])) continue;
    move(s_.jobs[index]);
    changed = true;
  }
  streams_.find_stranded();
  std::vector<JobIndex> waiting;
  waiting.swap(joining_);
  for (const JobIndex index : waiting) {
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
  std::erase_if(refused_, [&](JobIndex index) {
    if (!s_.jobs[index].held.empty()) return false;
    forget(s_.jobs[index]);
    return true;
  });
  return changed;
}

void Membership::admit(Job& job) {
  Stream& stream = s_.streams[job.stream];
  job.state = Job::State::running;
  if (job.order != Order::listed) streams_.size_lanes(stream);
  if (!job.moves) tell_buffer(s_, job);  // how many steps an epoch has depends on it
  if (!std::exchange(job.moves, false))
    s_.emit(Admit{job.id, stream.id, job.credits, stream.block_samples, job.committed_step});
  if (job.order == Order::mixed && !job.mixed) drawn_epochs_.begin_mixture(job);
  if (drawn_epochs_.is_settled(job) && job.order != Order::listed && (!job.weights || job.drawn))
    begin(job);
  s_.look_at(job.index);
}

void Membership::settle_mixtures(std::uint64_t most) {
  for (const JobIndex index : drawn_epochs_.settle(most)) {
    if (s_.jobs[index].state == Job::State::running) begin(s_.jobs[index]);
  }
}

void Membership::still_stranded(StreamId index, std::uint64_t serial) {
  if (!s_.streams.live(index) || s_.streams[index].stranded != serial) return;
  const std::vector<JobIndex> jobs = s_.streams[index].jobs;
  for (const JobIndex job : jobs) refuse(s_.jobs[job], Refusal::no_workers, 0, 0);
}

// If a place has become too small for its promises, the youngest are taken back. False: some in
// this step, and others in the next.
bool Membership::keep_promises(Place place) {
  for (;;) {
    const Bytes promised = s_.memory.promised(place);
    const Bytes capacity = s_.memory.capacity(place);
    if (promised <= capacity) return true;
    const JobIndex youngest = reserves_.youngest_on(place.node);
    if (youngest.is_none()) {
      streams_.give_up_standby(place);
      return true;
    }
    if (refusals_left_ == 0) return false;
    --refusals_left_;
    Job& job = s_.jobs[youngest];
    const Bytes own_bytes = reserves_.promised_to(job, place);
    const Bytes missing = promised - capacity;
    refuse(job, Refusal::no_room, own_bytes, own_bytes > missing ? own_bytes - missing : 0);
  }
}

void Membership::capacity_changed(Place place) {
  if (!keep_promises(place)) over_promised_.push_back(place);
}

void Membership::lose_node(NodeId node) {
  s_.jobs.each([&](JobIndex index) {
    Job& job = s_.jobs[index];
    for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
      if (job.ranks[rank].node == node && !job.ranks[rank].lost) rank_lost(job, rank);
    }
  });
  s_.jobs.each([&](JobIndex index) {
    delivery_.abandon_node(s_.jobs[index], node);
    reserves_.forget_node(s_.jobs[index], node);
  });
}

}  // namespace batchflow::engine
