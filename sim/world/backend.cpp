#include "sim/world/backend.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/engine/unnamed_samples.h"
#include "sim/world/chance.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

Backend::Backend(const Parts& parts, CompletionHandler& handler)
    : kernel_(parts.kernel),
      tasks_(parts.tasks),
      platform_(parts.platform),
      scenario_(parts.scenario),
      workload_(parts.workload),
      reports_(parts.reports),
      counters_(parts.counters),
      watch_(parts.watch),
      live_(parts.live),
      handler_(handler),
      streamed_blocks_(parts.platform) {
  for (std::size_t i = 0; i < scenario_.cluster.nodes.size(); ++i)
    nodes_.push_back({0, 0, ReadQueue(scenario_.cluster.store.queue), {}});
  for (const Workload::Preparation& preparation : workload_.preparations()) {
    step_s_.emplace_back(preparation.steps.size(), 0.);
  }
}

void Backend::bring_up() {
  for (const Workload::Data& data : workload_.datasets()) {
    reports_.fact(engine::CatalogueKnown{data.id, data.version});
  }
  for (const Workload::Preparation& preparation : workload_.preparations()) {
    reports_.fact(engine::PipelineKnown{preparation.id, preparation.info.hash});
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const input::NodeModel& model = scenario_.cluster.nodes[i];
    const NodeId id(static_cast<std::uint32_t>(i));
    reports_.fact(engine::NodeJoined{id, model.workers > 0 ? model.workers : model.cores});
    reports_.fact(engine::CapacityChanged{{id, Tier::dram, 0}, model.cache});
    for (std::uint16_t gpu = 0; model.gpu.cache > 0 && gpu < model.gpus; ++gpu)
      reports_.fact(engine::CapacityChanged{{id, Tier::gpu, gpu}, model.gpu.cache});
    if (model.nvme > 0) reports_.fact(engine::CapacityChanged{{id, Tier::nvme, 0}, model.nvme});
  }
}

void Backend::carry_out(std::span<const engine::Command> commands) {
  for (const engine::Command& command : commands) {
    std::visit([this](const auto& typed) { on(typed); }, command);
  }
  for (const NodeId node : std::exchange(scaled_, {})) retire(node);
}

// A task that counts as carried out only as long as its command is not cancelled.
TaskId Backend::begin(const engine::Request& request, Then over) {
  const TaskId task = tasks_.begin([this, id = request.id.value, over = std::move(over)] {
    running_.erase(id);
    over();
  });
  running_[request.id.value] = {request.attempt, task};
  return task;
}

// ----------------------------------------------------------------------------------- reads ----

// A block has the same chance whichever job makes it, and at any time.
Random Backend::block_chance(Chance what, const order::Lineage& lineage, std::uint64_t more) const {
  const order::BlockName& name = lineage.name;
  return chance_of(scenario_.seed, what, lineage.dataset.value, lineage.seed, name.generation,
                   name.lane, name.pass, name.block, more);
}

Random Backend::read_chance(Chance what, const engine::Read& command) const {
  const std::uint64_t first = command.samples.empty() ? 0 : command.samples.front().value + 1;
  return block_chance(what, command.lineage, hash(first, command.request.attempt));
}

void Backend::on(const engine::Read& command) {
  // Where a block stands for several epochs, kept samples are read for the first alone.
  const Workload::Preparation* const block = workload_.preparation_for(command);
  const std::uint64_t times = command.keep.is_none() && block != nullptr ? block->epochs : 1;
  const Bytes bytes = workload_.bytes_of(command) * times;
  const std::uint64_t per_item = workload_.data(command.dataset).samples_per_item * times;
  const std::uint64_t samples = workload_.items_of(command) * per_item;
  const Platform::Amount amount{command.bundle_shift > 0 ? Workload::reads_of(command) : samples,
                                bytes};
  const engine::Request request = command.request;
  if (block != nullptr && block->is_streamed) {
    count_read(command, samples, bytes);
    streamed_blocks_.add(command, kernel_.now(), amount);
    return reports_.completion(request.id, engine::ReadDone{request, engine::Outcome::done, {}});
  }
  const std::size_t to = index_of(command.to.node);
  const TaskId task = begin(request, [this, request, to] {
    if (tasks_.ended_by_transfer()) watch_.came_by_links(request.id);
    reports_.completion(request.id, engine::ReadDone{request, engine::Outcome::done, {}});
    nodes_[to].reads.leave(request.id.value);
  });
  running_.at(request.id.value).bytes = bytes;
  running_.at(request.id.value).reads_at = to;
  count_read(command, samples, bytes);
  const input::OverheadModel& overhead = scenario_.cluster.nodes[to].overhead;
  platform_.work(task, to,
                 overhead.read * static_cast<std::int64_t>(amount.operations) +
                     duration_of(overhead.read_ns_per_byte * static_cast<double>(bytes) * 1e-9));
  if (command.from.tier == Tier::store) {
    // An item that is kept on a drive is kept when it has been written there, which happens during
    // the read.
    nodes_[to].reads.enter(
        request.id.value, amount.operations,
        [this, task, to, amount, more = workload_.data(command.dataset).more_bytes,
         keeps = keeps_on_drive(command), at = command.keep_at,
         chance = read_chance(Chance::store_latency, command)](std::uint32_t ahead) {
          Platform::Amount begun = amount;
          begun.ahead = ahead;
          begun.bytes += more * amount.operations;
          platform_.read_store(task, to, begun, chance);
          if (keeps) platform_.write_nvme(task, index_of(at.node), amount.bytes);
          tasks_.go(task);
        });
    return;
  }
  const std::size_t from = index_of(command.from.node);
  if (command.from.tier == Tier::nvme)
    platform_.read_nvme(task, from, amount, read_chance(Chance::nvme_latency, command));
  if (command.from.tier == Tier::gpu) platform_.from_gpu(task, from, command.from.device, bytes);
  if (from != to) platform_.copy(task, from, to, bytes);
  if (keeps_on_drive(command)) platform_.write_nvme(task, index_of(command.keep_at.node), bytes);
  tasks_.go(task);
}

void Backend::count_read(const engine::Read& command, std::uint64_t samples, Bytes bytes) {
  if (command.from.tier == Tier::store) {
    counters_.storage_bytes += bytes;
    counters_.samples_read += samples;
    ++counters_.storage_reads;
    if (platform_.store_is_remote(index_of(command.to.node))) counters_.network_bytes += bytes;
  } else {
    if (command.from.tier == Tier::nvme) counters_.nvme_bytes += bytes;
    if (command.from.tier == Tier::gpu) counters_.gpu_read_bytes += bytes;
    if (command.from.node != command.to.node) counters_.network_bytes += bytes;
  }
  if (keeps_on_drive(command)) counters_.nvme_written_bytes += bytes;
}

// ---------------------------------------------------------------------------- preparations ----

// Which part of an item's samples is slow.
double Backend::slow_part(const Workload::Data& data, const Workload::Preparation& preparation,
                          SampleId item) const {
  std::uint64_t slow = 0;
  for (std::uint64_t i = 0; i < data.samples_per_item; ++i) {
    Random chance = chance_of(scenario_.seed, Chance::slow_sample, data.id.value,
                              item.value * data.samples_per_item + i);
    if (chance.unit() < preparation.slow.fraction) ++slow;
  }
  return static_cast<double>(slow) / static_cast<double>(data.samples_per_item);
}

// How many items' worth of samples are slow: of all items of the command, and of those that it
// decodes.
Backend::SlowItems Backend::slow_items(const engine::Prepare& command) {
  const Workload::Preparation& preparation = workload_.preparation(command.lineage.pipeline);
  SlowItems slow;
  if (preparation.slow.fraction <= 0) return slow;
  const Workload::Data& data = workload_.data(command.lineage.dataset);
  engine::unnamed_samples(command, data.catalogue->samples(), expander_, unnamed_);
  for (const SampleId item : unnamed_) slow.all += slow_part(data, preparation, item);
  slow.decoded = slow.all;
  for (const engine::Ingredient& ingredient : command.ingredients) {
    const double part = slow_part(data, preparation, ingredient.sample);
    slow.all += part;
    if (ingredient.form == Form::encoded) slow.decoded += part;
  }
  return slow;
}

Duration Backend::preparation_time(const engine::Prepare& command, std::uint64_t visits,
                                   std::uint64_t decodings) {
  const Workload::Preparation& preparation = workload_.preparation(command.lineage.pipeline);
  const engine::PipelineInfo& info = preparation.info;
  const SlowItems slow = slow_items(command);
  const double more = preparation.slow.times - 1;
  const auto epochs = static_cast<double>(preparation.epochs);
  const Duration mean = info.decode_cost * static_cast<std::int64_t>(decodings) +
                        info.augment_cost * static_cast<std::int64_t>(visits) +
                        scaled(info.decode_cost, more * slow.decoded * epochs) +
                        scaled(info.augment_cost, more * slow.all * epochs);
  Random chance = block_chance(Chance::preparation, command.lineage, command.request.attempt);
  const auto samples = static_cast<double>(preparation.stored(visits));
  const input::NodeModel& node = scenario_.cluster.nodes[index_of(command.node)];
  const double factor = preparation.spread.draw(chance, samples) /
                        (node.core_speed * workers_[command.worker.value].speed);
  return scaled(mean, factor);
}

// How often items are decoded for the command: an item that is kept decoded is decoded once, for
// all epochs. Those that are no ingredients are encoded.
std::uint64_t Backend::decodings_of(const engine::Prepare& command) const {
  const std::uint64_t epochs = workload_.preparation(command.lineage.pipeline).epochs;
  std::uint64_t count = (command.samples() - command.ingredients.size()) * epochs;
  for (const engine::Ingredient& ingredient : command.ingredients) {
    if (ingredient.form == Form::encoded) count += ingredient.keep_decoded ? 1 : epochs;
  }
  return count;
}

void Backend::on(const engine::Prepare& command) {
  const Workload::Preparation& preparation = workload_.preparation(command.lineage.pipeline);
  Worker& worker = workers_[command.worker.value];
  // The engine learns in this same step that the worker is gone, and a later command gives the
  // preparation up.
  if (!worker.there) return;
  worker.busy = true;
  worker.request = command.request;
  worker.pipeline = command.lineage.pipeline;
  worker.visits = command.samples() * preparation.epochs;
  worker.decodings = decodings_of(command);
  worker.began = kernel_.now();
  worker.keeps_at = watch_.decoded_at(command.decoded_share, command.node);
  const auto kept = std::count_if(command.ingredients.begin(), command.ingredients.end(),
                                  [](const auto& one) { return one.keep_decoded; });
  worker.keeps = worker.keeps_at.tier == Tier::gpu
                     ? static_cast<std::uint64_t>(kept) * preparation.info.decoded_bytes
                     : 0;
  counters_.samples_requested += preparation.stored(worker.visits);
  counters_.samples_decoded += preparation.stored(worker.decodings);
  // Copies name the share alone.
  if (item_bytes_of_.size() <= command.share.value) item_bytes_of_.resize(command.share.value + 1);
  item_bytes_of_[command.share.value] = preparation.moved_bytes * preparation.epochs;
  if (preparation.is_streamed) return prepare_stream(command);
  const input::OverheadModel& overhead = scenario_.cluster.nodes[index_of(command.node)].overhead;
  prepare_for(command.worker.value, preparation_time(command, worker.visits, worker.decodings) +
                                        overhead.block + overhead.wake);
}

// Reads and cores work at once; but one after the other where a worker that reads does nothing
// else.
void Backend::prepare_stream(const engine::Prepare& command) {
  const std::uint32_t index = command.worker.value;
  Worker& worker = workers_[index];
  const std::size_t node = index_of(command.node);
  const std::uint32_t cores = scenario_.cluster.nodes[node].cores;
  const std::uint32_t most = workload_.preparation(worker.pipeline).cores_most;
  worker.core_s = seconds(preparation_time(command, worker.visits, worker.decodings));
  const auto over = [this, index, node] {
    watch_.waited_for(workers_[index].request.id, streamed_blocks_.cause_of(tasks_, node));
    prepared(index);
  };
  const auto work = [this, index, node, most](TaskId task) {
    running_.at(workers_[index].request.id.value).worker = index;
    platform_.prepare(task, node, workers_[index].core_s, most);
    keep_on_gpu(task, workers_[index]);
    tasks_.go(task);
  };
  const bool first_read = scenario_.engine.workers_held_during_reads;
  const TaskId task =
      first_read ? begin(command.request,
                         [this, index, over, work] { work(begin(workers_[index].request, over)); })
                 : begin(command.request, over);
  streamed_blocks_.start(command, task, block_chance(Chance::store_latency, command.lineage, 0),
                         most > 0 ? std::min(most, cores) : cores);
  if (!first_read) return work(task);
  running_.at(command.request.id.value).worker = index;
  tasks_.go(task);
}

// What is kept on a GPU goes there while the rest of the block is prepared.
void Backend::keep_on_gpu(TaskId task, const Worker& worker) {
  if (worker.keeps == 0) return;
  counters_.gpu_written_bytes += worker.keeps;
  platform_.to_gpu(task, index_of(worker.node), worker.keeps_at.device, worker.keeps);
}

void Backend::prepare_for(std::uint32_t index, Duration time) {
  Worker& worker = workers_[index];
  const std::size_t at = index_of(worker.node);
  const input::NodeModel& model = scenario_.cluster.nodes[at];
  worker.ends = kernel_.now() + time;
  // Pages that are there for the first time. Watched for all nodes together, and charged where the
  // next block is prepared.
  const Bytes most = watch_.cached_most();
  const double touched = static_cast<double>(most - std::exchange(touched_bytes_, most));
  const Duration more = duration_of(model.overhead.touch_ns_per_byte * touched * 1e-9);
  const TaskId task = begin(worker.request, [this, index] {
    turn_over(index);
    prepared(index);
  });
  running_.at(worker.request.id.value).worker = index;
  keep_on_gpu(task, worker);
  if (model.workers_help) {
    worker.core_s = seconds(time + more);
    worker.waits = task;
    nodes_[at].turns.push_back(index);
    if (nodes_[at].turns.front() == index) take_turn(at);
    return;
  }
  if (model.processors > 0) {
    platform_.prepare(task, at, seconds(time), 1);
    platform_.work(task, at, more);
  } else {
    tasks_.add_delay(task, time + more);
  }
  tasks_.go(task);
}

// All workers of the node prepare the block that was asked for first.
void Backend::take_turn(std::size_t node) {
  const Worker& worker = workers_[nodes_[node].turns.front()];
  platform_.prepare(worker.waits, node, worker.core_s,
                    std::min<std::uint32_t>(
                        scenario_.cluster.nodes[node].cores,
                        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, worker.visits))));
  tasks_.go(worker.waits);
}

// The block is prepared, or given up.
void Backend::turn_over(std::uint32_t index) {
  const std::size_t node = index_of(workers_[index].node);
  std::deque<std::uint32_t>& turns = nodes_[node].turns;
  const auto found = std::find(turns.begin(), turns.end(), index);
  if (found == turns.end()) return;
  const bool first = found == turns.begin();
  turns.erase(found);
  if (first && !turns.empty()) take_turn(node);
}

// The work of one core.
Duration Backend::core_time(const Worker& worker) const {
  return worker.core_s > 0 ? duration_of(worker.core_s) : kernel_.now() - worker.began;
}

void Backend::prepared(std::uint32_t index) {
  Worker& worker = workers_[index];
  counters_.samples_prepared += workload_.preparation(worker.pipeline).stored(worker.visits);
  ++counters_.blocks_prepared;
  const Duration took = core_time(worker);
  counters_.preparation += took;
  count_steps(worker, took);
  worker.busy = false;
  reports_.completion(worker.request.id,
                      engine::PreparationDone{worker.request, engine::Outcome::done, {}});
  match_workers(worker.node);
}

// Each step has its part of the time that a preparation took.
void Backend::count_steps(const Worker& worker, Duration took) {
  const auto& steps = workload_.preparation(worker.pipeline).steps;
  std::vector<double>& step_s = step_s_[worker.pipeline.value - 1];
  double sum = 0;
  const auto cost = [&](const Workload::PipelineStep& step) {
    return seconds(step.cost) *
           static_cast<double>(step.decodes ? worker.decodings : worker.visits);
  };
  for (const Workload::PipelineStep& step : steps) sum += cost(step);
  for (std::size_t i = 0; sum > 0 && i < steps.size(); ++i) {
    step_s[i] += seconds(took) * cost(steps[i]) / sum;
  }
}

std::vector<output::StepResult> Backend::step_results() const {
  std::vector<output::StepResult> results;
  for (std::size_t i = 0; i < step_s_.size(); ++i) {
    const Workload::Preparation& preparation = workload_.preparations()[i];
    for (std::size_t step = 0; step < step_s_[i].size(); ++step) {
      results.push_back({scenario_.pipelines[static_cast<std::size_t>(preparation.pipeline)].name,
                         scenario_.datasets[static_cast<std::size_t>(preparation.dataset)].name,
                         preparation.steps[step].name, step_s_[i][step]});
    }
  }
  return results;
}

void Backend::set_worker_speed(WorkerId id, double factor) {
  Worker& worker = workers_[id.value];
  const double longer = worker.speed / factor;
  worker.speed = factor;
  if (!worker.busy) return;
  tasks_.cancel(running_.at(worker.request.id.value).task);
  turn_over(id.value);
  prepare_for(id.value, scaled(worker.ends - kernel_.now(), longer));
}

void Backend::match_workers(NodeId id) {
  hire(id);
  retire(id);
}

// A worker comes at once.
void Backend::hire(NodeId id) {
  Node& node = nodes_[index_of(id)];
  for (; node.there < node.wanted; ++node.there) {
    reports_.fact(engine::WorkerJoined{WorkerId(static_cast<std::uint32_t>(workers_.size())), id});
    workers_.emplace_back().node = id;
  }
}

// One that is to go finishes what it has.
void Backend::retire(NodeId id) {
  Node& node = nodes_[index_of(id)];
  for (std::uint32_t i = 0; i < workers_.size() && node.there > node.wanted; ++i) {
    Worker& worker = workers_[i];
    if (worker.node != id || worker.busy || !worker.there) continue;
    worker.there = false;
    --node.there;
    reports_.gone(WorkerId(i));
  }
}

void Backend::change_cores(NodeId id, std::int64_t more) {
  Node& node = nodes_[index_of(id)];
  node.wanted = static_cast<std::uint32_t>(node.wanted + more);
  match_workers(id);
}

void Backend::on(const engine::SetWorkers& command) {
  nodes_[index_of(command.node)].wanted = command.workers;
  hire(command.node);
  scaled_.push_back(command.node);  // other commands may be for workers that are to go
}

// --------------------------------------------------------------------------------- batches ----

void Backend::on(const engine::Transfer& command) {
  const engine::Request request = command.request;
  const std::uint64_t items = command.slice.to - command.slice.from;
  const Bytes bytes = items * item_bytes_of_.at(command.from_share.value);
  const TaskId task = begin(request, [this, request] {
    reports_.completion(request.id, engine::TransferDone{request, engine::Outcome::done});
  });
  const std::size_t from = index_of(command.from.node);
  const std::size_t to = index_of(command.to.node);
  (from == to ? counters_.copied_bytes : counters_.network_bytes) += bytes;
  platform_.copy(task, from, to, bytes);
  tasks_.go(task);
}

void Backend::on(const engine::Deliver& command) {
  Delivered batch{command.job, command.rank, command.step, command.epoch, command.last_of_epoch};
  const Workload::Preparation& preparation = handler_.preparation(command.job);
  for (const order::Slice& slice : command.slices) {
    std::uint64_t& kind = slice.rehearsed ? batch.rehearsed
                          : slice.filler  ? batch.fillers
                                          : batch.samples;
    kind += preparation.visits(slice.to - slice.from);
  }
  batch.samples += preparation.visits(command.ingredients.size());  // of a list
  batch.drawn.assign(command.samples.begin(), command.samples.end());
  counters_.repeats += preparation.visits(command.repeats);
  const engine::Request request = command.request;
  const TaskId task = begin(request, [this, request, batch] {
    reports_.completion(request.id, engine::DeliveryDone{request, engine::Outcome::done});
    handler_.delivered(batch);
  });
  std::uint64_t items = command.ingredients.size();
  for (const order::Slice& slice : command.slices) items += slice.to - slice.from;
  const Bytes bytes = items * preparation.moved_bytes * preparation.epochs;
  const std::size_t node = handler_.node_of(command.job, command.rank);
  const input::OverheadModel& overhead = scenario_.cluster.nodes[node].overhead;
  const double samples = static_cast<double>(batch.samples + batch.fillers + batch.rehearsed);
  platform_.work(
      task, node,
      overhead.batch + overhead.wake + duration_of(overhead.ns_per_sample * samples * 1e-9));
  const std::vector<std::size_t> gpus = handler_.gpus_of(command.job, command.rank);
  for (std::size_t i = 0; i < gpus.size(); ++i)
    platform_.to_gpu(task, node, gpus[i], bytes * (i + 1) / gpus.size() - bytes * i / gpus.size());
  tasks_.go(task);
}

void Backend::on(const engine::Cancel& command) {
  const auto found = running_.find(command.request.id.value);
  if (found == running_.end() || found->second.attempt != command.request.attempt) return;
  tasks_.cancel(found->second.task);
  if (found->second.reads_at != kNone)
    nodes_[found->second.reads_at].reads.leave(command.request.id.value);
  counters_.cancelled_read_bytes += found->second.bytes;
  if (found->second.worker != kNone) {
    Worker& worker = workers_[found->second.worker];
    worker.busy = false;
    turn_over(found->second.worker);
    const std::int64_t cores = scenario_.cluster.nodes[index_of(worker.node)].cores;
    counters_.cancelled_preparation +=
        std::min(core_time(worker), (kernel_.now() - worker.began) * cores);
    reports_.completion(command.request.id,
                        engine::PreparationDone{command.request, engine::Outcome::failed, {}});
    scaled_.push_back(worker.node);  // it may be one that is to go
  }
  running_.erase(found);
}

void Backend::on(const engine::SetTimer& command) {
  kernel_.at(command.at, [this, id = command.timer] { reports_.fact(engine::TimerFired{id}); });
}

}  // namespace batchflow::world
