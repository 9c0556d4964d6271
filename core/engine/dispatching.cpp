#include "core/engine/dispatching.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"

namespace batchflow::engine {

namespace {

// How many needs are weighed in the time in which one sample is looked up.
constexpr std::size_t kNeedsASample = 8;

// REQUIRES: some <= all
Bytes fraction(Bytes bytes, std::uint64_t some, std::uint64_t all) {
  return static_cast<Bytes>(static_cast<unsigned __int128>(bytes) * some / all);
}

}  // namespace

// A stream has a share on each of many nodes, and shares seldom change.
Slots Dispatching::window(Stream& stream) {
  if (std::exchange(stream.window_as_of, s_.memory.resizes()) == s_.memory.resizes()) {
    return stream.window;
  }
  stream.window = 0;
  for (const StreamNode& part : stream.nodes) {
    stream.window += s_.memory[part.share].share->capacity();
  }
  return stream.window;
}

std::uint32_t Dispatching::depth(const Job& job) {
  Stream& stream = s_.streams[job.stream];
  const double per_step = static_cast<double>(job.ranks.size()) * job.batch_samples /
                          static_cast<double>(stream.block_samples);
  const auto most =
      static_cast<std::uint32_t>(std::min<Slots>(window(stream), s_.config.look_ahead_most));
  const JobView view{job.id,     static_cast<std::uint32_t>(job.ranks.size()),
                     job.step_s, stream.prepare_s,
                     per_step,   job.ranks.front().stall.stall_fraction(s_.now),
                     most,       s_.now,
                     job.weight, wanted_per_s(job),
                     job.user};
  const Asking asking(s_.memory.asked(), view);
  const std::uint32_t depth = scaling_->depth(view);
  if (depth <= most) return depth;
  ++refused_.scaling;
  return most;
}

// How many blocks the job may take until its last step, as far as it has said which that is. If it
// waits for more than these, it still gets them.
std::uint32_t Dispatching::blocks_to_its_end(const Job& job) const {
  if (job.steps == 0) return UINT32_MAX;
  const EpochRun& run = job.runs.back();
  const std::uint64_t left = job.steps > run.first_step ? job.steps - run.first_step : 0;
  const std::uint64_t here = std::min(left, run.steps);
  const std::uint64_t to = here > 0 ? run.plan.plain.step(here - 1).to : 0;
  const std::uint64_t samples = (to > run.plain.end() ? to - run.plain.end() : 0) +
                                (left - here) * run.plan.plain.step_samples();
  const std::uint32_t block = s_.streams[job.stream].block_samples;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>((samples + block - 1) / block, UINT32_MAX));
}

// A block that the job took, that is gone before the job had all of it, and that a batch waits for.
Grant* Dispatching::lost_grant(Job& job) {
  for (EpochRun& run : job.runs) {
    for (Sequence* one : run.sequences()) {
      for (Grant& grant : one->grants) {
        if (grant.wanted && !s_.at(grant.block)) return &grant;
      }
    }
  }
  return nullptr;
}

std::optional<Preparation::Need> Dispatching::next_need(Job& job) {
  if (grants_.gets_nothing(job)) return std::nullopt;
  Stream& stream = s_.streams[job.stream];
  order::Lanes& lanes = *stream.lanes;
  if (job.lost_grants) {
    if (Grant* grant = lost_grant(job)) {
      Preparation::Need need;
      need.grant = grant;
      need.remake = grant->made;
      // As long as its pass is open, the remade block is for all jobs that need it.
      if (!grant->ref.is_none() && lanes.valid(grant->ref)) {
        if (order::is_here(lanes.state(grant->ref))) {
          adopt(*grant, BlockIndex(lanes.tag(grant->ref)));
          s_.look_at(job.index);
          return next_need(job);
        }
        need.ref = grant->ref;
      }
      return need;
    }
    job.lost_grants = false;
  }
  const std::uint32_t ahead = std::min(depth(job), blocks_to_its_end(job));
  const std::uint32_t target = std::max(ahead, grants_.missing_blocks(job));
  lanes.set_look_ahead(job.member, ahead);
  while (lanes.supply(job.member) < target) {
    const order::Lanes::Need need = lanes.next_need(job.member);
    // Which samples a block of a live order has is known when they have come.
    if (need.kind == order::Lanes::Need::Kind::make && !drawn_epochs_.is_decided(job, need.block))
      break;
    if (need.kind == order::Lanes::Need::Kind::make)
      return Preparation::Need{need.block, nullptr, need.remake};
    if (need.kind == order::Lanes::Need::Kind::joined) {
      s_.look_at(job.index);
      continue;
    }
    // A drawn epoch is not known before the last one is committed.
    if (job.drawn || is_to_move(s_, job)) break;
    // All blocks may be taken long before their batches are delivered.
    const std::uint32_t next = job.lanes_epoch + (lanes.in_epoch(job.member) ? 1 : 0);
    if (job.epochs != 0 && next >= job.epochs) break;
    if (!lanes.may_begin_next_epoch(job.member)) break;
    lanes.begin_next_epoch(job.member);
  }
  if (!job.is_waiting()) {
    if (Grant* grant = grants_.rehearsal_ahead(job)) {
      Preparation::Need need;
      need.grant = grant;
      return need;
    }
  }
  return std::nullopt;
}

// The block was made again for another job: the grant refers to it from now on.
void Dispatching::adopt(Grant& grant, BlockIndex index) {
  grant.block = {index, s_.blocks[index].serial};
  ++s_.blocks[index].grants;
  report_takers(s_, index);
}

WorkCandidate Dispatching::view_of(Job& job, const Preparation::Need& need) {
  const Stream& stream = s_.streams[job.stream];
  WorkCandidate view{};
  view.job = job.id;
  view.stream = stream.id;
  view.asked = job.asked;
  view.distance = job.is_waiting() ? 0 : stream.lanes->supply(job.member);
  view.depth = depth(job);
  double buffered = view.distance;
  for (const RankState& rank : job.ranks) {
    const bool waits = std::any_of(rank.batches.begin(), rank.batches.end(), [&](BatchIndex batch) {
      return s_.batches[batch].state == Batch::State::assembling;
    });
    if (waits && job.is_waiting()) ++view.waiting;
  }
  const double per_step = static_cast<double>(job.ranks.size()) * job.batch_samples /
                          static_cast<double>(stream.block_samples);
  const double until_s = per_step > 0 ? buffered / per_step * job.step_s : 0;
  view.deadline = after(s_.now, Duration(static_cast<std::int64_t>(std::min(until_s, 1e8) * 1e9)));
  view.needed_by =
      need.ref.is_none() ? 1 : stream.lanes->needed(need.ref) + stream.lanes->may_join(need.ref);
  view.cached = item_shares_.cached(stream);
  view.prepare_s = stream.prepare_s;
  for (const RankState& rank : job.ranks) {
    view.stall_fraction = std::max(view.stall_fraction, rank.stall.stall_fraction(s_.now));
  }
  view.last_served = job.last_served;
  view.weight = job.weight;
  view.latency_target = job.latency_target;
  view.recent_stall = job.ranks.front().stall.recently(s_.now);
  view.wanted_per_s = wanted_per_s(job);
  view.blocks_left = job.member.is_none() ? 0 : stream.lanes->blocks_left(job.member);
  view.block_bytes = stream.block_bytes;
  view.window = stream.window;  // counted for the depth
  view.remake = need.remake;
  view.user = job.user;
  return view;
}

void Dispatching::put(Job& job, const Preparation::Need& need) {
  if (job.candidate_slot == kNone) {
    job.candidate_slot = static_cast<std::uint32_t>(needs_.size());
    job.asked = ++asked_;
    needs_.push_back({job.index, need, {}});
    ++s_.streams[job.stream].needs;
  }
  s_.room_changed = true;
  open(job);
  JobNeed& mine = needs_[job.candidate_slot];
  mine.what = need;
  mine.view = view_of(job, need);
}

// The job's need must be weighed again: it, or where it could be made, has changed.
void Dispatching::open(const Job& job) {
  JobNeed& need = needs_[job.candidate_slot];
  if (!std::exchange(need.open, true)) open_.push_back(job.index);
}

void Dispatching::open_where_room_is() {
  if (std::exchange(s_.room_anywhere, false)) {
    for (const JobNeed& need : needs_) open(s_.jobs[need.job]);
  }
  for (const NodeIndex index : s_.nodes_with_room) {
    Node& node = s_.nodes[index];
    node.has_room = false;
    for (const StreamId stream : node.streams) {
      if (s_.streams[stream].needs == 0) continue;
      for (const JobIndex job : s_.streams[stream].jobs) {
        if (s_.jobs[job].candidate_slot != kNone) open(s_.jobs[job]);
      }
    }
  }
  s_.nodes_with_room.clear();
}

std::optional<Charges::Site> Dispatching::site(const Job& job) {
  const Stream& stream = s_.streams[job.stream];
  if (open_parts_.size() <= stream.id.value) open_parts_.resize(stream.id.value + 1);
  OpenParts& open = open_parts_[stream.id.value];
  if (std::exchange(open.as_of, looks_) != looks_) charges_.open_parts(stream, open);
  return charges_.site(stream, job, open);
}

// Shows the nodes on which the job's block could be made. What is read from other nodes and what
// goes to them follows from what nodes keep and from where ranks are: to say it of this block
// alone, its samples would have to be looked up for each node.
void Dispatching::view_nodes(const Job& job, const WorkCandidate& work) {
  const Stream& stream = s_.streams[job.stream];
  const Dataset& dataset = s_.datasets[stream.dataset];
  const Bytes kept = item_shares_.kept_for_others(stream);
  Slots all_ranks = 0;
  for (const StreamNode& part : stream.nodes) all_ranks += part.ranks;
  node_views_.clear();
  for (const Charges::Site& one : possible_) {
    const StreamNode& part = stream.nodes[one.part];
    const Node& node = s_.nodes[part.index];
    NodeCandidate& view = node_views_.emplace_back();
    view.node = part.node;
    view.ranks = ranks_on(job, part.node);
    view.workers = node.workers;
    view.started = node.started;
    view.ahead = charges_.blocks_of(job, part.node);
    view.kept = item_shares_.kept_on(part.index, dataset);
    view.in_per_s = node.in.bytes_per_s(s_.now);
    view.out_per_s = node.out.bytes_per_s(s_.now);
    view.coming = node.in.on_way();
    view.going = node.out.on_way();
    if (kept > 0) {
      const Bytes here = item_shares_.kept_for_others(part.index, stream);
      const std::uint64_t samples = dataset.catalogue->samples();
      view.to_fetch = fraction(kept - std::min(kept, here),
                               std::min<std::uint64_t>(stream.block_samples, samples), samples);
    }
    if (job.node_local) {
      view.to_send = view.ranks > 0 ? 0 : stream.block_bytes;
    } else if (all_ranks > 0) {
      const Bytes all = saturating_product(stream.block_bytes, work.needed_by);
      view.to_send = fraction(all, all_ranks - part.ranks, all_ranks);
    }
  }
}

// Where the policy wants the job's block made. REQUIRES: nothing was started since `site`.
Charges::Site Dispatching::choose_site(const Job& job, const WorkCandidate& work,
                                       Charges::Site usual) {
  const Stream& stream = s_.streams[job.stream];
  charges_.sites(stream, job, open_parts_[stream.id.value], possible_);
  if (possible_.size() < 2) return usual;
  view_nodes(job, work);
  const NodesView view{work, node_views_};
  const Asking asking(s_.memory.asked(), view);
  const std::size_t choice = dispatch_->choose_node(view);
  if (choice < possible_.size()) return possible_[choice];
  ++refused_.dispatch;
  return usual;
}

void Dispatching::check_consistency() {
  if (s_.room_changed || s_.starts_put_off) return;
  ++looks_;
  for (const JobNeed& need : needs_) BF_CHECK(need.open || !site(s_.jobs[need.job]));
}

void Dispatching::forget(Job& job) {
  const std::uint32_t slot = job.candidate_slot;
  if (slot == kNone) return;
  job.candidate_slot = kNone;
  --s_.streams[job.stream].needs;
  if (needs_[slot].open) std::erase(open_, job.index);
  if (slot + 1 < needs_.size()) {
    needs_[slot] = needs_.back();
    s_.jobs[needs_[slot].job].candidate_slot = slot;
  }
  needs_.pop_back();
}

void Dispatching::review(Job& job) {
  // A job has moved on: what the policy held back may be allowed now.
  if (std::exchange(held_back_, false)) s_.room_changed = true;
  if (job.state != Job::State::running || job.order == Order::listed) return forget(job);
  const auto need = next_need(job);
  if (need) {
    put(job, *need);
  } else {
    forget(job);
  }
}

// The block was made for another job, or is no longer needed.
bool Dispatching::met(const JobNeed& need) {
  if (need.what.grant && s_.at(need.what.grant->block)) return true;
  if (need.what.ref.is_none()) return false;
  const order::Lanes& lanes = *s_.streams[s_.jobs[need.job].stream].lanes;
  return !lanes.valid(need.what.ref) || order::is_here(lanes.state(need.what.ref));
}

// The policy waits only for time to pass: nothing else may happen until then.
void Dispatching::wake_policy() {
  s_.ask_again(dispatch_->ask_again(), wake_at_, {AlarmKind::ask_dispatch});
}

// The policy's answer. If that is none of the candidates, the built-in default chooses: the need
// that arose first.
std::size_t Dispatching::choose() {
  const DispatchView view{s_.now, views_};
  const Asking asking(s_.memory.asked(), view);
  const std::size_t choice = dispatch_->next(view);
  if (choice == kNoChoice || choice < views_.size()) return choice;
  ++refused_.dispatch;
  shown_when_refused_ = views_;
  const auto arose_before = [](const auto& a, const auto& b) { return a.asked < b.asked; };
  return static_cast<std::size_t>(std::min_element(views_.begin(), views_.end(), arose_before) -
                                  views_.begin());
}

bool Dispatching::start_some() {
  bool any = false;
  held_back_ = false;
  leads_.measure_again();  // until this call ends they stay: no job takes a block in it
  open_where_room_is();
  while (!open_.empty()) {
    if (s_.samples_looked_up >= EngineState::kSamplesAStep) {
      s_.starts_put_off = true;
      s_.alarms.set(s_.now, {});
      return any;
    }
    views_.clear();
    startable_.clear();
    sites_.clear();
    ++looks_;
    // A need that could not be started still cannot be, until something makes room.
    std::erase_if(open_, [&](JobIndex index) {
      const Job& job = s_.jobs[index];
      JobNeed& need = needs_[job.candidate_slot];
      const auto site = this->site(job);
      need.open = site.has_value();
      if (!site) return true;
      views_.push_back(need.view);
      views_.back().lead = leads_.lead(job);
      startable_.push_back(index);
      sites_.push_back(*site);
      return false;
    });
    if (views_.empty()) {
      held_since_ = kNever;
      return any;
    }
    s_.samples_looked_up += views_.size() / kNeedsASample;
    const std::size_t choice = choose();
    if (choice == kNoChoice) {
      held_back_ = true;
      const bool waited_for = std::any_of(views_.begin(), views_.end(),
                                          [](const WorkCandidate& one) { return one.waiting > 0; });
      held_since_ = waited_for ? std::min(held_since_, s_.now) : kNever;
      wake_policy();
      return any;
    }
    held_since_ = kNever;
    Job& job = s_.jobs[startable_[choice]];
    // What it needed when it was looked at may have been made by now, or be of no use.
    review(job);
    if (job.candidate_slot == kNone) continue;
    const JobNeed need = needs_[job.candidate_slot];
    forget(job);
    if (met(need)) {
      s_.look_at(job.index);
      any = true;
      continue;
    }
    const Charges::Site site = dispatch_->chooses_nodes()
                                   ? choose_site(job, views_[choice], sites_[choice])
                                   : sites_[choice];
    if (!preparation_.start(job, need.what, site)) {
      s_.look_at(job.index);
      return any;
    }
    any = true;
    review(job);
    // Other jobs may have needed the same block, which is being made now.
    if (!need.what.ref.is_none()) {
      const order::Lanes& lanes = *s_.streams[job.stream].lanes;
      lanes.for_each_needing(need.what.ref, [&](order::MemberId member) {
        Job& other = s_.jobs[JobIndex(lanes.tag(member))];
        if (other.candidate_slot != kNone && other.index != job.index) review(other);
      });
    }
  }
  return any;
}

// The recent stall of the job on the node that stalls most. Stalls are smoothed over far longer
// than this interval.
void Dispatching::measure_stalls(Node& node) {
  constexpr Duration kInterval = std::chrono::milliseconds(100);
  if (s_.now < node.stall_measured + kInterval) return;
  node.stall_measured = s_.now;
  node.busy_part = node.busy.at(s_.now);
  node.waiting_part = node.waits_for_reads.at(s_.now);
  node.made_per_s = node.made.per_second(s_.now);
  node.stall_fraction = 0;
  wanted_.clear();
  for (const JobIndex index : node.jobs) {
    const Job& job = s_.jobs[index];
    std::size_t here = 0;
    for (const RankState& rank : job.ranks) {
      if (rank.node != node.id) continue;
      ++here;
      node.stall_fraction = std::max(node.stall_fraction, rank.stall.stall_fraction(s_.now));
    }
    double& wanted = wanted_[job.stream];
    wanted = std::max(wanted, wanted_per_s(job) * static_cast<double>(here) /
                                  static_cast<double>(std::max<std::size_t>(1, job.ranks.size())));
  }
  node.wanted_per_s = 0;
  for (const auto& [stream, wanted] : wanted_) node.wanted_per_s += wanted;
}

void Dispatching::scale() {
  const bool has_jobs = s_.job_of.size() != 0;
  if (std::exchange(had_jobs_, has_jobs) != has_jobs) scale_all_ = true;
  if (std::exchange(scale_all_, false)) {
    s_.nodes.each([&](NodeIndex index) { s_.changed_on(index); });
  }
  s_.sort_by_joining(s_.changed_nodes);
  for (const NodeIndex index : s_.changed_nodes) {
    s_.nodes[index].changed = false;
    if (s_.nodes[index].takes_work) scale(s_.nodes[index]);
  }
  s_.changed_nodes.clear();
}

// What limits the node: its workers, or what it reads.
void Dispatching::measure_load(Node& node) {
  if (node.workers == 0) return;
  const double workers = node.workers;
  const auto idle = static_cast<double>(node.idle.size());
  const std::size_t at_work = node.ready.size() + node.workers - node.idle.size();
  const double busy = 1 - idle / workers;
  const double waits = node.started > at_work ? idle / workers : 0;
  if (busy != node.busy.value()) node.busy.set(s_.now, busy);
  if (waits != node.waits_for_reads.value()) node.waits_for_reads.set(s_.now, waits);
}

void Dispatching::scale(Node& node) {
  measure_stalls(node);
  measure_load(node);
  NodeView view{};
  view.node = node.id;
  view.workers_now = node.workers;
  view.workers_most = node.cores;
  view.busy = node.workers - static_cast<std::uint32_t>(node.idle.size());
  view.ready_to_prepare = static_cast<std::uint32_t>(node.ready.size());
  view.prepare_s = node.prepare_s;
  view.stall_fraction = node.stall_fraction;
  view.now = s_.now;
  view.busy_part = node.busy_part;
  view.waits_for_reads = node.waiting_part;
  view.made_per_s = node.made_per_s;
  view.wanted_per_s = node.wanted_per_s;
  const std::uint32_t answer = [&] {
    const Asking asking(s_.memory.asked(), view);
    return scaling_->workers(view);
  }();
  // A node without a worker would measure nothing, and so never get one again.
  const std::uint32_t least = had_jobs_ && node.cores > 0 ? 1 : 0;
  const std::uint32_t wanted = std::min(std::max(answer, least), node.cores);
  if (answer != wanted) ++refused_.scaling;
  if (wanted == node.workers_wanted) return;
  node.workers_wanted = wanted;
  s_.emit(SetWorkers{node.id, wanted});
}

}  // namespace batchflow::engine
