#include "runtime/service/backend/preparations.h"

#include <algorithm>
#include <utility>

#include "core/order/keys.h"
#include "fmt/format.h"

namespace batchflow::service {
namespace {

bool is_last_part(const engine::Prepare& order) {
  if (order.ingredients.empty()) return true;
  return !order.mends && order.ingredients.back().place + 1 == order.lineage.samples;
}

BlockSlots::Use use_of(const order::Lineage& lineage) {
  // Strict jobs and relaxed ones of one seed group share blocks.
  const Order family = lineage.order == Order::strict ? Order::relaxed : lineage.order;
  return {lineage.pipeline, lineage.block_samples,
          hash(lineage.dataset.value, lineage.pipeline.value, lineage.seed,
               static_cast<std::uint64_t>(family))};
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

void Preparations::prepare(const engine::Prepare& order) {
  const BlockSlots::Use use = use_of(order.lineage);
  const std::optional<Slot> slot = slots_.take(order.share, order.slot, use);
  PreparationOrder out = order_for(order);
  const Preparing entry{
      order.request,       order.lineage.dataset,    order.share,        order.slot, use,
      order.decoded_share, MemoryWait::Clock::now(), is_last_part(order)};
  if (slot) {
    out.slot = *slot;
    return hand_to_worker(std::move(out), entry);
  }
  wait_for_memory(std::move(out), entry);
}

// All but the slot.
PreparationOrder Preparations::order_for(const engine::Prepare& order) {
  ServedPipeline& pipeline = context_.datasets.pipeline(order.lineage.pipeline);
  PreparationOrder out;
  out.request = order.request;
  out.worker = order.worker;
  out.pipeline = pipeline.pipeline;
  out.layout = pipeline.layout(order.lineage.block_samples);
  for (const order::Replacement& replacement : order.replacements)
    corrupt_seen_ +=
        corrupt_[order.lineage.pipeline.value].insert(replacement.corrupt.value).second;
  const Digest prefix = pipeline.pipeline->info().prefix_hash;
  if (!order.decoded_share.is_none())
    kept_.open_decoded(order.lineage.dataset, prefix, order.decoded_share);
  out.stored_in = kept_.shares_of(order.lineage.dataset, 0);
  out.decoded_in = kept_.shares_of(order.lineage.dataset, prefix);
  add_samples(out, order);
  return out;
}

void Preparations::add_samples(PreparationOrder& out, const engine::Prepare& order) {
  const ServedDataset& dataset = context_.datasets.dataset(order.lineage.dataset);
  std::vector<SampleId> ids;
  if (order.lineage.order != Order::weighted)
    expander_.expand(order.lineage, dataset.index->samples(), ids);
  out.samples.reserve(std::max(ids.size(), order.ingredients.size()));
  if (order.ingredients.empty()) {
    const Reading* reading = readings_.find(order.staging);
    engine::Ingredient one;
    for (std::uint32_t row = 0; row < ids.size(); ++row) {
      one.place = row;
      one.sample = ids[row];
      add_sample(out, order, one, ids[row], reading);
    }
    return;
  }
  out.anew = !order.mends;
  for (const engine::Ingredient& one : order.ingredients) {
    const Reading* reading = one.staging.is_none() ? nullptr : readings_.find(one.staging);
    SampleId wanted = one.sample;
    for (const order::Replacement& replacement : order.replacements) {
      if (replacement.place == one.place) wanted = replacement.corrupt;
    }
    add_sample(out, order, one, wanted, reading);
  }
}

// A sample with no bytes where they should be is given none, and so turns out corrupt: the engine
// then reads it anew.
void Preparations::add_sample(PreparationOrder& out, const engine::Prepare& order,
                              const engine::Ingredient& ingredient, SampleId wanted,
                              const Reading* reading) {
  const DatasetId dataset = order.lineage.dataset;
  const sources::SampleIndex& index = *context_.datasets.dataset(dataset).index;
  const order::KeyRoot root{order.lineage.dataset_version, order.lineage.seed};
  const SampleId used = ingredient.sample;
  PreparationOrder::Sample sample;
  sample.place = ingredient.place;
  sample.wanted = wanted;
  sample.keep_decoded = ingredient.keep_decoded;
  sample.input.sample = used;
  sample.input.decoded = ingredient.form == Form::decoded;
  sample.input.label = index.label(used).value_or(-1);
  sample.input.draw_key =
      order.lineage.order == Order::weighted
          ? order::occurrence_draw_key(root, order.lineage.name.generation, wanted,
                                       ingredient.occurrence)
          : order::draw_key(root, order.lineage.name.generation, order.lineage.name.pass, wanted);
  if (reading) {
    const StagedSample* one = reading->find(used);
    if (one && one->memory) sample.input.bytes = {one->memory + one->lead, one->bytes};
  } else {
    sample.is_kept = true;
    kept_.count_use(dataset, used, ingredient.form);
  }
  if (ingredient.form != Form::decoded) sample.bytes = index.extent(used).bytes;
  out.samples.push_back(std::move(sample));
}

void Preparations::hand_to_worker(PreparationOrder&& order, const Preparing& entry) {
  if (preparing_.insert_or_assign(entry.request.id.value, entry).second)
    context_.stalls.preparing(entry.use.pipeline, 1);
  pool_.prepare(std::move(order));
}

// Blocks take turns with the workers: if none has got memory for this long, no block begins to
// wait.
void Preparations::wait_for_memory(PreparationOrder&& order, const Preparing& entry) {
  wait_.note_short();
  if (wait_.is_over_for_all()) {
    give_up(entry);
  } else {
    waiting_.push_back({std::move(order), entry, {wait_, entry.use.pipeline}});
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
      one.order.slot = *slot;
      hand_to_worker(std::move(one.order), entry);
    } else {
      waiting_.push_back(std::move(one));
    }
  }
}

// A worker that leaves takes nothing more.
void Preparations::fail_waiting(WorkerId worker) {
  std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.order.worker != worker) return false;
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
    kept_.put(entry.decoded_share, one.sample, std::move(one.item), one.bytes);
  counters_.samples += report.samples;
  if (entry.ends) ++counters_.blocks;
  kept_.measure_decoded();
  context_.inbox.add(engine::PreparationDone{report.request, report.outcome,
                                             context_.inbox.keep(std::vector(report.corrupt))});
}

void Preparations::note_troubles(PipelineId pipeline, DatasetId id,
                                 const PreparationReport& report) {
  const ServedDataset& dataset = context_.datasets.dataset(id);
  for (std::size_t i = 0; i < report.corrupt.size(); ++i)
    context_.troubles.note(
        pipeline,
        fmt::format("dataset {}: sample {} ({}): {}", dataset.name, report.corrupt[i].value,
                    dataset.index->sample_name(report.corrupt[i]), report.problems[i]));
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

template <class Of>
bool Preparations::any(Of&& of) const {
  return std::any_of(preparing_.begin(), preparing_.end(),
                     [&](const auto& one) { return of(one.second); }) ||
         std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& one) { return of(one.entry); });
}

bool Preparations::is_at(DatasetId dataset) const {
  return any([dataset](const Preparing& one) { return one.dataset == dataset; });
}

bool Preparations::is_at(PipelineId pipeline) const {
  return any([pipeline](const Preparing& one) { return one.use.pipeline == pipeline; });
}

std::uint64_t Preparations::corrupt_of(PipelineId pipeline) const {
  const auto found = corrupt_.find(pipeline.value);
  return found == corrupt_.end() ? 0 : found->second.size();
}

}  // namespace batchflow::service
