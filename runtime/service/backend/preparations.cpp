#include "runtime/service/backend/preparations.h"

#include <algorithm>
#include <utility>

#include "core/order/replacement.h"
#include "fmt/format.h"

namespace batchflow::service {
namespace {

bool is_last_part(const engine::Prepare& command) {
  if (command.kept_to > 0) return command.kept_to == command.lineage.samples;
  if (command.ingredients.empty()) return true;
  return !command.mends && command.ingredients.back().index + 1 == command.lineage.samples;
}

// The order does not count: a share holds blocks of an order beside those that its jobs rehearse,
// which are drawn. A job that may read the one could ask for the other.
BlockSlots::Use use_of(const order::Lineage& lineage) {
  return {lineage.pipeline, lineage.block_samples,
          hash(lineage.dataset.value, lineage.pipeline.value, lineage.seed)};
}

}  // namespace

Preparations::Preparations(const BackendContext& context, std::uint32_t workers_most,
                           const memory::ScratchLimits& scratch, order::Expander& expander,
                           KeptSamples& kept, BlockSlots& slots, const Readings& readings,
                           MemoryWait& wait)
    : context_(context),
      expander_(expander),
      kept_(kept),
      slots_(slots),
      readings_(readings),
      wait_(wait),
      workers_most_(workers_most),
      pool_(
          kept.store(), scratch,
          [this](PreparationReport report) {
            {
              const std::lock_guard lock(made_mutex_);
              made_.push_back(std::move(report));
            }
            context_.post([this] { take_made(); });
          },
          [this](WorkerId worker) {
            context_.post([this, worker] { context_.inbox.add(engine::WorkerQuiesced{worker}); });
          }) {}

void Preparations::prepare(const engine::Prepare& command) {
  const BlockSlots::Use use = use_of(command.lineage);
  const std::optional<Slot> slot = slots_.take(command.share, command.slot, use);
  PreparationTask out = task_for(command);
  const Preparing entry{
      command.request,       command.lineage.dataset,  command.share,        command.slot, use,
      command.decoded_share, MemoryWait::Clock::now(), is_last_part(command)};
  if (slot) {
    out.slot = *slot;
    return hand_to_worker(std::move(out), entry);
  }
  wait_for_memory(std::move(out), entry);
}

// All but the slot.
PreparationTask Preparations::task_for(const engine::Prepare& command) {
  ServedPipeline& pipeline = context_.datasets.pipeline(command.lineage.pipeline);
  PreparationTask out;
  out.request = command.request;
  out.worker = command.worker;
  out.pipeline = pipeline.pipeline;
  out.layout = pipeline.layout(command.lineage.block_samples);
  out.lineage = command.lineage;
  const ServedDataset& dataset = context_.datasets.dataset(command.lineage.dataset);
  out.index = dataset.index;
  out.bundle_shift = dataset.bundle_shift;
  for (const order::Replacement& replacement : command.replacements) {
    std::vector<SampleId>& corrupt = corrupt_[command.lineage.pipeline.value];
    const auto at = std::lower_bound(corrupt.begin(), corrupt.end(), replacement.corrupt);
    if (at != corrupt.end() && *at == replacement.corrupt) continue;
    corrupt.insert(at, replacement.corrupt);
    ++corrupt_seen_;
  }
  const Digest prefix = pipeline.pipeline->info().prefix_hash;
  if (!command.decoded_share.is_none())
    kept_.open_decoded(command.lineage.dataset, prefix, command.decoded_share);
  out.stored_in = kept_.shares_of(command.lineage.dataset, 0);
  out.decoded_in = kept_.shares_of(command.lineage.dataset, prefix);
  add_samples(out, command);
  return out;
}

void Preparations::add_samples(PreparationTask& out, const engine::Prepare& command) {
  out.anew = !command.mends;
  if (command.kept_to > 0) {
    out.kept_from = command.kept_from;
    expander_.expand(command.lineage, out.index->samples(), command.kept_from, command.kept_to,
                     out.kept_samples);
    kept_.count_uses(command.lineage.dataset, out.kept_samples.size() - command.ingredients.size());
  } else if (command.ingredients.empty()) {
    std::vector<SampleId> ids;
    expander_.expand(command.lineage, out.index->samples(), ids);
    const Reading* reading = readings_.find(command.staging);
    engine::Ingredient one;
    one.staging = command.staging;
    out.samples.reserve(ids.size());
    for (std::uint32_t row = 0; row < ids.size(); ++row) {
      one.index = row;
      one.sample = ids[row];
      add_sample(out, command, one, ids[row], reading);
    }
    return;
  }
  out.samples.reserve(command.ingredients.size());
  for (const engine::Ingredient& one : command.ingredients) {
    const Reading* reading = one.staging.is_none() ? nullptr : readings_.find(one.staging);
    SampleId wanted = one.sample;
    for (const order::Replacement& replacement : command.replacements) {
      if (replacement.index == one.index) wanted = replacement.corrupt;
    }
    add_sample(out, command, one, wanted, reading);
  }
}

// A sample with no bytes where they should be is given none, and so turns out corrupt: the engine
// then reads it anew.
void Preparations::add_sample(PreparationTask& out, const engine::Prepare& command,
                              const engine::Ingredient& ingredient, SampleId wanted,
                              const Reading* reading) {
  PreparationTask::Sample sample = out.sample_of(ingredient, wanted);
  const SampleId used = ingredient.sample;
  if (reading) {
    const StagedSample* one = reading->find(used);
    if (one && one->memory) sample.input.bytes = {one->memory + one->lead, one->bytes};
    if (one && one->logged) {  // only the node with the log knows these
      sample.input.label = one->label;
      sample.bytes = one->bytes;
    }
    // The node that was to send it has let it go. It is no fault of the dataset.
    if (!one || !one->memory) {
      sample.is_kept = true;
    } else if (sample.input.decoded) {
      kept_.count_use(command.lineage.dataset, used, Form::decoded);
    }
  } else if (sample.is_kept && ingredient.form == Form::encoded && out.bundle_shift > 0) {
    kept_.count_uses(command.lineage.dataset, 1);
  } else if (sample.is_kept) {
    kept_.count_use(command.lineage.dataset, used, ingredient.form);
  }
  out.samples.push_back(std::move(sample));
}

void Preparations::hand_to_worker(PreparationTask&& task, const Preparing& entry) {
  if (preparing_.insert_or_assign(entry.request.id.value, entry).second)
    context_.stalls.preparing(entry.use.pipeline, 1);
  pool_.prepare(std::move(task));
}

// Blocks take turns with the workers: if none has got memory for this long, no block begins to
// wait.
void Preparations::wait_for_memory(PreparationTask&& task, const Preparing& entry) {
  wait_.note_short();
  if (wait_.is_over_for_all()) {
    give_up(entry);
  } else {
    waiting_.push_back({std::move(task), entry, {wait_, entry.use.pipeline}});
  }
}

// The engine refuses a job with blocks that fail again and again, because a worker waits with each.
// It does not refuse a job with batches that cannot be gathered, which holds up only itself.
void Preparations::give_up(const Preparing& entry) {
  context_.troubles.note(entry.use.pipeline, wait_.why_given_up("a block"));
  context_.inbox.add(engine::PreparationDone{entry.request, engine::Outcome::failed, {}});
}

void Preparations::retry(MemoryWait::Clock::time_point now) {
  for (Waiting& one : std::exchange(waiting_, {})) {
    const Preparing& entry = one.entry;
    if (wait_.is_over(std::min(entry.since, wait_.since()), now)) {
      give_up(entry);
    } else if (auto slot = slots_.take(entry.share, entry.slot, entry.use)) {
      one.task.slot = *slot;
      hand_to_worker(std::move(one.task), entry);
    } else {
      waiting_.push_back(std::move(one));
    }
  }
}

// A worker that leaves takes nothing more.
void Preparations::fail_waiting(WorkerId worker) {
  std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.task.worker != worker) return false;
    context_.inbox.add(engine::PreparationDone{one.entry.request, engine::Outcome::failed, {}});
    return true;
  });
}

void Preparations::cancel(const engine::Request& request) {
  std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.entry.request != request) return false;
    context_.inbox.add(engine::PreparationDone{request, engine::Outcome::failed, {}});
    return true;
  });
  const auto found = preparing_.find(request.id.value);
  if (found == preparing_.end() || found->second.request != request) return;
  found->second.is_given_up = true;
  pool_.cancel(request);
}

void Preparations::take_made() {
  std::unique_lock lock(made_mutex_);
  PreparationReport report = std::move(made_.front());
  made_.pop_front();
  lock.unlock();
  prepared(report);
}

void Preparations::prepared(PreparationReport& report) {
  const auto found = preparing_.find(report.request.id.value);
  if (found == preparing_.end() || found->second.request != report.request) return;
  const Preparing entry = found->second;
  context_.stalls.preparing(entry.use.pipeline, -1);
  preparing_.erase(found);
  if (!report.unbegun) {
    wait_.note_progress();
  } else if (!entry.is_given_up &&
             std::find(working_.begin(), working_.end(), report.worker) != working_.end()) {
    return wait_for_memory(std::move(*report.unbegun), entry);
  }
  note_troubles(entry.use.pipeline, entry.dataset, report);
  for (PreparationReport::Decoded& one : report.decoded)
    kept_.put(entry.decoded_share, engine::item_of(one.sample, 0), std::move(one.item), one.bytes);
  counters_.samples += report.samples;
  if (entry.ends) ++counters_.blocks;
  kept_.measure_decoded();
  context_.inbox.add(engine::PreparationDone{report.request, report.outcome,
                                             context_.inbox.keep(std::vector(report.corrupt))});
}

void Preparations::note_troubles(PipelineId pipeline, DatasetId id,
                                 const PreparationReport& report) {
  const ServedDataset& dataset = context_.datasets.dataset(id);
  for (std::size_t i = 0; i < report.corrupt.size(); ++i) {
    if (report.problems[i].empty()) continue;
    context_.troubles.note(
        pipeline,
        fmt::format("dataset {}: sample {} ({}): {}", dataset.name, report.corrupt[i].value,
                    dataset.index->sample_name(report.corrupt[i]), report.problems[i]));
  }
  if (report.outcome == engine::Outcome::failed && !report.problems.empty())
    context_.troubles.note(pipeline,
                           fmt::format("dataset {}: {}", dataset.name, report.problems.front()));
}

void Preparations::set_workers(std::uint32_t wanted) {
  workers_wanted_ = wanted;
  settle_workers();
}

void Preparations::set_workers_most(std::uint32_t most) {
  workers_most_ = most;
  settle_workers();
}

void Preparations::settle_workers() {
  const std::uint32_t wanted = std::min(workers_wanted_, workers_most_);
  while (working_.size() < wanted) {
    const WorkerId worker(next_worker_);
    if (!pool_.start(worker)) break;  // tried again later
    ++next_worker_;
    working_.push_back(worker);
    context_.inbox.add(engine::WorkerJoined{worker, context_.node});
  }
  while (working_.size() > wanted) {
    fail_waiting(working_.back());
    pool_.retire(working_.back());
    working_.pop_back();
  }
  context_.stalls.set_workers(workers());
}

template <class IsOf>
bool Preparations::any(IsOf&& is_of) const {
  return std::any_of(preparing_.begin(), preparing_.end(),
                     [&](const auto& one) { return is_of(one.second); }) ||
         std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& one) { return is_of(one.entry); });
}

bool Preparations::is_at(DatasetId dataset) const {
  return any([dataset](const Preparing& one) { return one.dataset == dataset; });
}

bool Preparations::is_at(PipelineId pipeline) const {
  return any([pipeline](const Preparing& one) { return one.use.pipeline == pipeline; });
}

std::uint64_t Preparations::corrupt_of(PipelineId pipeline, SampleRange range) const {
  const auto found = corrupt_.find(pipeline.value);
  return found == corrupt_.end() ? 0 : order::samples_in(found->second, range);
}

}  // namespace batchflow::service
