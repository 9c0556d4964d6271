#include "sim/world/watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/random.h"
#include "sim/world/sim_time.h"

namespace batchflow::sim {

namespace {

std::uint64_t slot_key(ShareId share, SlotId slot) {
  return std::uint64_t{share.value} << 32 | slot.value;
}

}  // namespace

Waits waits(const Waited& waited, double ranks) {
  const auto of = [&](Cause cause) {
    return seconds(waited[static_cast<std::size_t>(cause)]) / ranks;
  };
  return {of(Cause::storage),     of(Cause::drive),    of(Cause::network), of(Cause::cores),
          of(Cause::preparation), of(Cause::delivery), of(Cause::other)};
}

Watch::Watch(const Scenario& scenario, const Workload& workload, Timeline* timeline)
    : scenario_(scenario),
      workload_(workload),
      timeline_(timeline),
      residency_(scenario.cluster.nodes.size()),
      node_gates_(scenario.cluster.nodes.size()),
      jobs_(scenario.jobs.size()) {}

void Watch::step(Instant now, std::span<const Event> events, std::span<const Command> commands) {
  now_ = now;
  for (const Event& event : events) {
    std::visit([this](const auto& one) { on(one); }, event);
  }
  by_links_.clear();
  for (const Command& command : commands) {
    std::visit([this](const auto& one) { on(one); }, command);
  }
}

const Waited& Watch::waited(JobId job) const {
  return jobs_[job.value].waited;
}

TotalTime Watch::busy(Instant now) const {
  return all_nodes_.used + TotalTime(now - all_nodes_.since) * all_nodes_.busy;
}

// --------------------------------------------------------------------------------- workers ----

void Watch::change(Gate& gate, int busy, int limit) {
  gate.full = gate.full_until(now_);
  gate.used += TotalTime(now_ - gate.since) * gate.busy;
  gate.busy += static_cast<std::uint32_t>(busy);
  gate.limit += static_cast<std::uint32_t>(limit);
  gate.since = now_;
}

void Watch::change_node(NodeId node, int busy, int limit) {
  change(node_gates_[node.value], busy, limit);
  change(all_nodes_, busy, limit);
}

// Where each job has workers of its own, those of the others are no help to it.
Watch::Gate& Watch::gate(NodeId node, std::uint64_t stream) {
  if (scenario_.engine.workers_per_rank == 0) return node_gates_[node.value];
  Gate& gate = stream_gates_[stream];
  // Of one rank, until it is known whose stream it is.
  if (gate.limit == 0) gate.limit = scenario_.engine.workers_per_rank;
  return gate;
}

void Watch::on(const WorkerJoined& event) {
  workers_.resize(std::max<std::size_t>(workers_.size(), event.worker.value + 1));
  workers_[event.worker.value] = {event.node};
  change_node(event.node, 0, 1);
}

void Watch::worker_gone(WorkerId id) {
  Worker& worker = workers_[id.value];
  if (!worker.there) return;  // lost before it was quiet
  worker.there = false;
  change_node(worker.node, 0, -1);
}

void Watch::on(const NodeLost& event) {
  residency_.lose(event.node);
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].node == event.node) worker_gone(WorkerId(i));
  }
}

void Watch::hold(WorkerId id, std::uint64_t stream) {
  Worker& worker = workers_[id.value];
  if (worker.uses++ > 0) return;
  worker.stream = stream;
  change_node(worker.node, 1, 0);
  if (scenario_.engine.workers_per_rank > 0) change(gate(worker.node, stream), 1, 0);
}

void Watch::let_go(WorkerId id) {
  Worker& worker = workers_[id.value];
  if (--worker.uses > 0) return;
  change_node(worker.node, -1, 0);
  if (scenario_.engine.workers_per_rank > 0) change(gate(worker.node, worker.stream), -1, 0);
}

// ---------------------------------------------------------------------------------- orders ----

void Watch::on(const Read& order) {
  Running read{Running::Kind::read, {now_, now_, 0}};
  const bool local = order.from.node == order.to.node;
  read.cause = order.from.tier == Tier::store  ? Cause::storage
               : order.from.tier == Tier::nvme ? Cause::drive
               : local                         ? Cause::other
                                               : Cause::network;
  read.block = order.lineage.name;
  read.number = read.block.block;
  read.block_key = block_key(order.lineage);
  if (timeline_ != nullptr) {
    read.lane = true;
    read.span.track = order.from.tier == Tier::store  ? lane("store", "read")
                      : order.from.tier == Tier::nvme ? lane(name_of(order.from.node), "drive")
                                                      : lane(name_of(order.to.node), "peer read");
  }
  if (!order.keep.is_none()) {
    read.items_share = order.keep;
    read.place = order.keep_at;
    read.form = order.form;
    read.bytes = workload_.bytes_of(order);
    dataset_of_[order.keep.value] = order.dataset;
    item_bytes_[order.keep.value] =
        order.form == Form::decoded
            ? workload_.preparation(order.lineage.pipeline).info.decoded_bytes
            : 0;
  }
  if (!order.held.is_none()) {
    read.worker = order.held;
    hold(order.held, stream_key(order.lineage));
  }
  const auto [way, is_first] = coming_.try_emplace(read.block_key);
  if (is_first) {
    way->second.stream = stream_key(order.lineage);
    way->second.full_before = gate(order.to.node, way->second.stream).full_until(now_);
  }
  ++reading_;
  running_[order.request.id.value] = std::move(read);
}

void Watch::on(const Prepare& order) {
  Running one{Running::Kind::prepare, {now_, now_, 0}};
  one.cause = Cause::preparation;
  one.block = order.lineage.name;
  one.number = one.block.block;
  one.worker = order.worker;
  one.share = order.share;
  one.slot = order.slot;
  one.place = {order.node, Tier::dram, 0};
  const PipelineInfo& info = workload_.preparation(order.lineage.pipeline).info;
  one.bytes = info.prepared_bytes * order.lineage.samples;
  item_bytes_[order.share.value] = info.prepared_bytes;
  const std::uint64_t stream = stream_key(order.lineage);
  const auto coming = coming_.find(block_key(order.lineage));
  if (coming != coming_.end()) {
    one.way = coming->second;
    coming_.erase(coming);
  } else {
    one.way.stream = stream;
    one.way.full_before = gate(order.node, stream).full_until(now_);
  }
  // Bytes that another block's read had brought count as read for this one, too.
  RequestId last = RequestId::none();
  const auto use = [&](RequestId staging) {
    if (staging.is_none() || staging == last) return;
    last = staging;
    const auto found = staged_.find(staging.value);
    if (found == staged_.end()) return;
    if (!one.way.read || one.way.read->to < found->second.to) one.way.read = found->second;
  };
  use(order.staging);
  std::uint64_t decoded = 0;
  for (const Ingredient& ingredient : order.ingredients) {
    use(ingredient.staging);
    decoded += ingredient.keep_decoded;
  }
  if (decoded > 0) {
    one.items_share = order.decoded_share;
    one.items_bytes = decoded * info.decoded_bytes;
    item_bytes_[order.decoded_share.value] = info.decoded_bytes;
  }
  if (timeline_ != nullptr) {
    one.span.track =
        timeline_->track(name_of(order.node), fmt::format("worker {}", order.worker.value));
  }
  hold(order.worker, stream);
  ++preparing_;
  running_[order.request.id.value] = std::move(one);
}

void Watch::on(const Transfer& order) {
  Running copy{Running::Kind::gather, {now_, now_, 0}};
  copy.cause = order.from.node == order.to.node ? Cause::delivery : Cause::network;
  const auto from = slots_.find(slot_key(order.from_share, order.from_slot));
  if (from != slots_.end()) copy.way = from->second;
  copy.share = order.to_share;
  copy.slot = order.to_slot;
  copy.place = order.to;
  copy.bytes = item_bytes_[order.from_share.value] *
               (order.offset_samples + order.slice.to - order.slice.from);
  if (timeline_ != nullptr) {
    copy.lane = true;
    copy.span.track = lane(name_of(order.to.node), "gather");
  }
  running_[order.request.id.value] = std::move(copy);
}

void Watch::on(const Deliver& order) {
  Running one{Running::Kind::deliver, {now_, now_, 0}};
  one.number = order.step;
  JobSeen& job = jobs_[order.job.value];
  if (timeline_ != nullptr) {
    one.lane = true;
    one.span.track = lane(name_of(job.nodes[order.rank]), "deliver");
  }
  Batch batch{order.step, {}, one.span};
  const auto from = slots_.find(slot_key(order.share, order.slot));
  if (from != slots_.end()) {
    batch.way = from->second;
    job.stream = batch.way.stream;
    stream_gates_[*job.stream].limit =
        scenario_.engine.workers_per_rank * static_cast<std::uint32_t>(job.ranks.size());
  }
  job.ranks[order.rank].batches.push_back(std::move(batch));
  running_[order.request.id.value] = std::move(one);
}

void Watch::on(const Drop& order) {
  if (order.form == Form::prepared) {
    residency_.drop(order.share, order.slot);
    slots_.erase(slot_key(order.share, order.slot));
    return;
  }
  Bytes bytes = item_bytes_[order.share.value];
  if (bytes == 0) {
    const auto dataset = dataset_of_.find(order.share.value);
    if (dataset == dataset_of_.end()) return;
    bytes = workload_.data(dataset->second).catalogue->bytes(SampleId(order.item.value));
  }
  residency_.remove(order.place, order.form, bytes);
}

// ----------------------------------------------------------------------------- completions ----

void Watch::over(RequestId id, Outcome outcome) {
  const auto found = running_.find(id.value);
  if (found == running_.end()) return;
  Running one = std::move(found->second);
  running_.erase(found);
  one.span.to = now_;
  if (one.lane) timeline_->free_lane(one.span.track);
  if (!one.worker.is_none()) let_go(one.worker);
  const bool done = outcome != Outcome::failed;
  switch (one.kind) {
    case Running::Kind::read:
      --reading_;
      draw(Timeline::What::read, one.span, one.number, one.block);
      if (done) read_done(id, one);
      break;
    case Running::Kind::prepare:
      --preparing_;
      draw(Timeline::What::prepare, one.span, one.number, one.block);
      if (done) prepared(one);
      break;
    case Running::Kind::gather:
      draw(Timeline::What::gather, one.span, 0);
      if (done) gathered(one);
      break;
    case Running::Kind::deliver:
      draw(Timeline::What::deliver, one.span, one.number);
      break;
  }
}

void Watch::read_done(RequestId id, Running& read) {
  if (std::find(by_links_.begin(), by_links_.end(), id) != by_links_.end()) {
    read.cause = Cause::network;
  }
  const Sourced span{read.span, read.cause};
  if (!read.items_share.is_none()) {
    residency_.add(read.place, read.form, read.bytes);
  } else {
    staged_[id.value] = span;
  }
  const auto coming = coming_.find(read.block_key);
  if (coming != coming_.end()) coming->second.read = span;  // the last one counts
}

void Watch::prepared(Running& one) {
  residency_.put(one.share, one.slot, one.place, one.bytes);
  if (!one.items_share.is_none()) {
    residency_.add(one.place, Form::decoded, one.items_bytes);
  }
  one.way.prepared = Sourced{one.span, one.cause};
  one.way.gathered.reset();
  slots_[slot_key(one.share, one.slot)] = std::move(one.way);
}

// The part that comes last is the one that was waited for.
void Watch::gathered(Running& copy) {
  residency_.grow(copy.share, copy.slot, copy.place, copy.bytes);
  copy.way.gathered = Sourced{copy.span, copy.cause};
  slots_[slot_key(copy.share, copy.slot)] = std::move(copy.way);
}

// ----------------------------------------------------------------------------------- ranks ----

void Watch::seat(JobId id, std::span<const NodeId> ranks) {
  JobSeen& job = jobs_[id.value];
  job.nodes.assign(ranks.begin(), ranks.end());
  job.ranks.assign(ranks.size(), {});
  if (scenario_.engine.workers_per_rank > 0) return;  // its gate is not known yet
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    job.ranks[i].full_before = node_gates_[job.nodes[i].value].full_until(now_);
  }
}

void Watch::spent(JobId id, Rank rank, std::uint64_t step, Doing doing, Instant from, Instant now) {
  JobSeen& job = jobs_[id.value];
  if (rank >= job.ranks.size()) return;  // it left before the engine was told of it
  std::vector<Batch>& batches = job.ranks[rank].batches;
  const auto batch = std::find_if(batches.begin(), batches.end(),
                                  [&](const Batch& one) { return one.step == step; });
  const bool known = batch != batches.end();
  if (doing == Doing::stall) {
    const Waited split = why(job, rank, known ? &*batch : nullptr, from, now);
    for (std::size_t i = 0; i < split.size(); ++i) {
      job.waited[i] += split[i];
      waited_[i] += split[i];
    }
  }
  const bool trained = doing == Doing::compute && known;
  if (timeline_ != nullptr && (now > from || trained)) {
    const Span span{from, now, track_of(id, rank)};
    constexpr Timeline::What kWhat[] = {Timeline::What::stall, Timeline::What::train,
                                        Timeline::What::idle};
    draw(kWhat[static_cast<std::size_t>(doing)], span, step);
    if (trained) draw_flow(*batch, span.track, from);
  }
  if (trained) batches.erase(batch);
  if (doing == Doing::idle && (scenario_.engine.workers_per_rank == 0 || job.stream)) {
    job.ranks[rank].full_before = gate(job.nodes[rank], job.stream.value_or(0)).full_until(now);
  }
}

// Backwards from now, each part as far as it lies within the wait.
Waited Watch::why(const JobSeen& job, Rank rank, const Batch* batch, Instant from,
                  Instant now) const {
  Waited waited{};
  Instant until = now;
  const auto back_to = [&](Cause cause, Instant when) {
    const Instant begin = std::clamp(when, from, until);
    waited[static_cast<std::size_t>(cause)] += until - begin;
    until = begin;
  };
  const Way way = batch != nullptr ? batch->way : Way{};
  if (batch != nullptr) back_to(Cause::delivery, batch->delivered.from);
  if (way.gathered) {
    back_to(Cause::other, way.gathered->to);
    back_to(way.gathered->cause, way.gathered->from);
  }
  if (way.prepared) {
    back_to(Cause::other, way.prepared->to);
    back_to(way.prepared->cause, way.prepared->from);
  }
  if (way.read) {
    back_to(Cause::cores, way.read->to);
    back_to(way.read->cause, way.read->from);
  }
  const std::optional<Duration>& full_before = job.ranks[rank].full_before;
  if (full_before && way.prepared) {
    const Duration full = std::max(way.full_before - *full_before, Duration(0));
    back_to(Cause::cores, until - full);
  }
  back_to(Cause::other, from);
  return waited;
}

// -------------------------------------------------------------------------------- timeline ----

const std::string& Watch::name_of(NodeId node) const {
  return scenario_.cluster.nodes[node.value].name;
}

Track Watch::lane(const std::string& process, const char* kind) {
  return timeline_->take_lane(process, kind);
}

Track Watch::track_of(JobId job, Rank rank) {
  return timeline_->track("job " + scenario_.jobs[job.value].name, fmt::format("rank {}", rank));
}

void Watch::draw(Timeline::What what, const Span& span, std::uint64_t number, BlockName block) {
  if (timeline_ != nullptr) {
    timeline_->add({what, span.track, span.from, span.to, number, block});
  }
}

void Watch::draw_flow(const Batch& batch, Track rank, Instant trained) {
  std::vector<Timeline::Point> points;
  if (batch.way.read) points.emplace_back(batch.way.read->track, batch.way.read->from);
  if (batch.way.prepared) points.emplace_back(batch.way.prepared->track, batch.way.prepared->from);
  if (batch.way.gathered) points.emplace_back(batch.way.gathered->track, batch.way.gathered->from);
  points.emplace_back(batch.delivered.track, batch.delivered.from);
  points.emplace_back(rank, trained);
  timeline_->add_flow(points);
}

}  // namespace batchflow::sim
