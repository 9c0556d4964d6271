#include "sim/world/watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/random.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

namespace {

std::uint64_t slot_key(ShareId share, SlotId slot) {
  return std::uint64_t{share.value} << 32 | slot.value;
}

}  // namespace

output::Waits waits(const Waited& waited, double ranks) {
  const auto seconds_of = [&](Cause cause) {
    return seconds(waited[static_cast<std::size_t>(cause)]) / ranks;
  };
  return {seconds_of(Cause::storage), seconds_of(Cause::drive),       seconds_of(Cause::network),
          seconds_of(Cause::cores),   seconds_of(Cause::preparation), seconds_of(Cause::delivery),
          seconds_of(Cause::other)};
}

Watch::Watch(const input::Scenario& scenario, const Workload& workload, const JobIds& ids,
             Timeline* timeline)
    : scenario_(scenario),
      workload_(workload),
      ids_(ids),
      timeline_(timeline),
      residency_(scenario.cluster.nodes.size()),
      workers_(scenario.cluster.nodes.size(), scenario.engine.workers_per_rank),
      jobs_(scenario.jobs.size()) {}

void Watch::step(Instant now, std::span<const engine::Event> events,
                 std::span<const engine::Command> commands) {
  now_ = now;
  for (const engine::Event& event : events) {
    std::visit([this](const auto& typed) { on(typed); }, event);
  }
  by_links_.clear();
  for (const engine::Command& command : commands) {
    std::visit([this](const auto& typed) { on(typed); }, command);
  }
}

void Watch::on(const engine::NodeLost& event) {
  residency_.lose(event.node);
  std::erase_if(decoded_at_, [&](const auto& one) { return one.second.node == event.node; });
  workers_.node_lost(event.node, now_);
}

// -------------------------------------------------------------------------------- commands ----

void Watch::on(const engine::Read& command) {
  Running read{Running::Kind::read, {now_, now_, 0}};
  const bool local = command.from.node == command.to.node;
  read.cause = command.from.tier == Tier::store  ? Cause::storage
               : command.from.tier == Tier::nvme ? Cause::drive
               : command.from.tier == Tier::gpu  ? Cause::delivery
               : local                           ? Cause::other
                                                 : Cause::network;
  read.block = command.lineage.name;
  read.number = read.block.block;
  read.block_key = block_key(command.lineage);
  if (timeline_ != nullptr) {
    read.lane = true;
    read.span.track = command.from.tier == Tier::store  ? lane("store", "read")
                      : command.from.tier == Tier::nvme ? lane(name_of(command.from.node), "drive")
                      : command.from.tier == Tier::gpu
                          ? lane(name_of(command.from.node), "gpu read")
                          : lane(name_of(command.to.node), "peer read");
  }
  if (!command.keep.is_none()) {
    read.items_share = command.keep;
    read.place = command.keep_at;
    read.form = command.form;
    read.bytes = workload_.bytes_of(command);
    dataset_of_[command.keep.value] = command.dataset;
    item_bytes_[command.keep.value] =
        command.form == Form::decoded
            ? workload_.preparation(command.lineage.pipeline).info.decoded_bytes
            : 0;
  }
  if (!command.held.is_none()) {
    read.worker = command.held;
    workers_.hold(command.held, stream_key(command.lineage), now_);
  }
  const auto [progress, is_first] = coming_.try_emplace(read.block_key);
  if (is_first) {
    progress->second.stream = stream_key(command.lineage);
    progress->second.full_before =
        workers_.full_until(command.to.node, progress->second.stream, now_);
  }
  ++reading_;
  running_[command.request.id.value] = std::move(read);
}

void Watch::on(const engine::Prepare& command) {
  Running running{Running::Kind::prepare, {now_, now_, 0}};
  running.cause = Cause::preparation;
  running.block = command.lineage.name;
  running.number = running.block.block;
  running.worker = command.worker;
  running.share = command.share;
  running.slot = command.slot;
  running.place = {command.node, Tier::dram, 0};
  const engine::PipelineInfo& info = workload_.preparation(command.lineage.pipeline).info;
  running.bytes = info.prepared_bytes * command.lineage.samples;
  item_bytes_[command.share.value] = info.prepared_bytes;
  const std::uint64_t stream = stream_key(command.lineage);
  const auto coming = coming_.find(block_key(command.lineage));
  if (coming != coming_.end()) {
    running.progress = coming->second;
    coming_.erase(coming);
  } else {
    running.progress.stream = stream;
    running.progress.full_before = workers_.full_until(command.node, stream, now_);
  }
  // Bytes that the read of another block has brought count as read for this block, too.
  RequestId last = RequestId::none();
  const auto use = [&](RequestId staging) {
    if (staging.is_none() || staging == last) return;
    last = staging;
    const auto found = staged_.find(staging.value);
    if (found == staged_.end()) return;
    if (!running.progress.read || running.progress.read->to < found->second.to)
      running.progress.read = found->second;
  };
  use(command.staging);
  std::uint64_t decoded = 0;
  for (const engine::Ingredient& ingredient : command.ingredients) {
    use(ingredient.staging);
    decoded += ingredient.keep_decoded;
  }
  if (decoded > 0) {
    running.items_share = command.decoded_share;
    running.items_place = decoded_at(command.decoded_share, command.node);
    running.items_bytes = decoded * info.decoded_bytes;
    item_bytes_[command.decoded_share.value] = info.decoded_bytes;
  }
  if (timeline_ != nullptr) {
    running.span.track =
        timeline_->track(name_of(command.node), fmt::format("worker {}", command.worker.value));
  }
  workers_.hold(command.worker, stream, now_);
  ++preparing_;
  running_[command.request.id.value] = std::move(running);
}

void Watch::on(const engine::Transfer& command) {
  Running copy{Running::Kind::gather, {now_, now_, 0}};
  copy.cause = command.from.node == command.to.node ? Cause::delivery : Cause::network;
  const auto from = slots_.find(slot_key(command.from_share, command.from_slot));
  if (from != slots_.end()) copy.progress = from->second;
  copy.share = command.to_share;
  copy.slot = command.to_slot;
  copy.place = command.to;
  copy.bytes = item_bytes_[command.from_share.value] *
               (command.offset_samples + command.slice.to - command.slice.from);
  if (timeline_ != nullptr) {
    copy.lane = true;
    copy.span.track = lane(name_of(command.to.node), "gather");
  }
  running_[command.request.id.value] = std::move(copy);
}

void Watch::on(const engine::Deliver& command) {
  Running running{Running::Kind::deliver, {now_, now_, 0}};
  running.number = command.step;
  JobSeen& job = seen(command.job);
  if (timeline_ != nullptr) {
    running.lane = true;
    running.span.track = lane(name_of(job.nodes[command.rank]), "deliver");
  }
  Batch batch{command.step, {}, running.span};
  const bool is_list = !command.ingredients.empty();  // which comes from no slot
  const auto from = is_list ? slots_.end() : slots_.find(slot_key(command.share, command.slot));
  if (from != slots_.end()) {
    batch.progress = from->second;
    job.stream = batch.progress.stream;
    workers_.set_ranks(*job.stream, job.ranks.size());
  }
  job.ranks[command.rank].batches.push_back(std::move(batch));
  running_[command.request.id.value] = std::move(running);
}

void Watch::on(const engine::Drop& command) {
  if (command.form == Form::prepared) {
    residency_.drop(command.share, command.slot);
    slots_.erase(slot_key(command.share, command.slot));
    return;
  }
  Bytes bytes = item_bytes_[command.share.value];
  if (bytes == 0) {
    const auto dataset = dataset_of_.find(command.share.value);
    if (dataset == dataset_of_.end()) return;
    bytes = workload_.data(dataset->second).catalogue->bytes(SampleId(command.item.value));
  }
  residency_.remove(command.place, command.form, bytes);
}

// ----------------------------------------------------------------------------- completions ----

void Watch::over(RequestId id, engine::Outcome outcome) {
  const auto found = running_.find(id.value);
  if (found == running_.end()) return;
  Running running = std::move(found->second);
  running_.erase(found);
  running.span.to = now_;
  if (running.lane) timeline_->free_lane(running.span.track);
  if (!running.worker.is_none()) workers_.release(running.worker, now_);
  const bool done = outcome != engine::Outcome::failed;
  switch (running.kind) {
    case Running::Kind::read:
      --reading_;
      draw(Timeline::What::read, running.span, running.number, running.block);
      if (done) read_done(id, running);
      break;
    case Running::Kind::prepare:
      --preparing_;
      draw(Timeline::What::prepare, running.span, running.number, running.block);
      if (done) prepared(running);
      break;
    case Running::Kind::gather:
      draw(Timeline::What::gather, running.span, 0);
      if (done) gathered(running);
      break;
    case Running::Kind::deliver:
      draw(Timeline::What::deliver, running.span, running.number);
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

void Watch::prepared(Running& running) {
  residency_.put(running.share, running.slot, running.place, running.bytes);
  if (!running.items_share.is_none()) {
    residency_.add(running.items_place, Form::decoded, running.items_bytes);
  }
  running.progress.prepared = Sourced{running.span, running.cause};
  running.progress.gathered.reset();
  slots_[slot_key(running.share, running.slot)] = std::move(running.progress);
}

// The rank waited for the part that came last.
void Watch::gathered(Running& copy) {
  residency_.grow(copy.share, copy.slot, copy.place, copy.bytes);
  copy.progress.gathered = Sourced{copy.span, copy.cause};
  slots_[slot_key(copy.share, copy.slot)] = std::move(copy.progress);
}

// ----------------------------------------------------------------------------------- ranks ----

void Watch::set_ranks(JobId id, std::span<const NodeId> ranks) {
  JobSeen& job = seen(id);
  job.nodes.assign(ranks.begin(), ranks.end());
  job.ranks.assign(ranks.size(), {});
  if (!workers_.are_shared()) return;  // its group is not known yet
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    job.ranks[i].full_before = workers_.full_until(job.nodes[i], 0, now_);
  }
}

void Watch::spent(JobId id, Rank rank, std::uint64_t step, Doing doing, Instant from, Instant now) {
  JobSeen& job = seen(id);
  if (rank >= job.ranks.size()) return;  // it left before the engine knew of it
  std::vector<Batch>& batches = job.ranks[rank].batches;
  const auto batch = std::find_if(batches.begin(), batches.end(),
                                  [&](const Batch& sent) { return sent.step == step; });
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
  if (doing == Doing::idle && (workers_.are_shared() || job.stream)) {
    job.ranks[rank].full_before = workers_.full_until(job.nodes[rank], job.stream.value_or(0), now);
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
  const BlockProgress progress = batch != nullptr ? batch->progress : BlockProgress{};
  if (batch != nullptr) back_to(Cause::delivery, batch->delivered.from);
  if (progress.gathered) {
    back_to(Cause::other, progress.gathered->to);
    back_to(progress.gathered->cause, progress.gathered->from);
  }
  if (progress.prepared) {
    back_to(Cause::other, progress.prepared->to);
    back_to(progress.prepared->cause, progress.prepared->from);
  }
  if (progress.read) {
    back_to(Cause::cores, progress.read->to);
    back_to(progress.read->cause, progress.read->from);
  }
  const std::optional<Duration>& full_before = job.ranks[rank].full_before;
  if (full_before && progress.prepared) {
    const Duration full = std::max(progress.full_before - *full_before, Duration(0));
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
  return timeline_->track("job " + scenario_.jobs[ids_.index_of(job)].name,
                          fmt::format("rank {}", rank));
}

void Watch::draw(Timeline::What what, const Span& span, std::uint64_t number,
                 order::BlockName block) {
  if (timeline_ != nullptr) {
    timeline_->add({what, span.track, span.from, span.to, number, block});
  }
}

void Watch::draw_flow(const Batch& batch, Track rank, Instant trained) {
  std::vector<Timeline::Point> points;
  if (batch.progress.read)
    points.emplace_back(batch.progress.read->track, batch.progress.read->from);
  if (batch.progress.prepared)
    points.emplace_back(batch.progress.prepared->track, batch.progress.prepared->from);
  if (batch.progress.gathered)
    points.emplace_back(batch.progress.gathered->track, batch.progress.gathered->from);
  points.emplace_back(batch.delivered.track, batch.delivered.from);
  points.emplace_back(rank, trained);
  timeline_->add_flow(points);
}

}  // namespace batchflow::world
