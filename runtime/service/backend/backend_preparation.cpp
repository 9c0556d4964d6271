// The backend's part in preparation: what workers are handed, and what becomes of it.
#include <algorithm>
#include <utility>

#include "core/order/keys.h"
#include "fmt/format.h"
#include "runtime/service/backend/backend.h"

namespace batchflow::service {
namespace {

bool is_last_part(const engine::Prepare& order) {
  if (order.ingredients.empty()) return true;
  return !order.mends && order.ingredients.back().place + 1 == order.lineage.samples;
}

}  // namespace

std::optional<Slot> Backend::slot_of(ShareId share, SlotId slot, PipelineId pipeline,
                                     std::uint32_t samples, std::uint64_t audience) {
  constexpr int kTries = 8;  // workers may keep what has just been dropped for this
  shares_[share.value] = {pipeline, samples, audience};
  const Bytes bytes = datasets_.pipeline(pipeline).layout(samples)->bytes;
  std::optional<Slot> place = slots_.take(share, slot, bytes, audience);
  for (int i = 0; !place && i < kTries && drop_decoded(bytes); ++i)
    place = slots_.take(share, slot, bytes, audience);
  return place;
}

void Backend::on(const engine::Prepare& order) {
  const ServedDataset& dataset = datasets_.dataset(order.lineage.dataset);
  ServedPipeline& pipeline = datasets_.pipeline(order.lineage.pipeline);
  // The order does not count: a share holds blocks of an order beside those that its jobs rehearse,
  // which are drawn. A job that may read the one could ask for the other.
  const std::uint64_t audience =
      hash(order.lineage.dataset.value, order.lineage.pipeline.value, order.lineage.seed);
  const std::optional<Slot> slot = slot_of(order.share, order.slot, order.lineage.pipeline,
                                           order.lineage.block_samples, audience);
  PreparationOrder out;
  out.request = order.request;
  out.worker = order.worker;
  out.pipeline = pipeline.pipeline;
  out.layout = pipeline.layout(order.lineage.block_samples);
  for (const order::Replacement& replacement : order.replacements)
    corrupt_seen_ +=
        corrupt_[order.lineage.pipeline.value].insert(replacement.corrupt.value).second;
  const Digest prefix = pipeline.pipeline->info().prefix_hash;
  if (const ShareId share = order.decoded_share; !share.is_none()) {
    note_kept(order.lineage.dataset, prefix, share);
    // A share that is empty may have been closed and opened since it was measured.
    if (items_.sum(share).items == 0) decoded_[share.value] = {order.lineage.dataset};
  }
  out.stored_in = kept_in(order.lineage.dataset, 0);
  out.decoded_in = kept_in(order.lineage.dataset, prefix);
  const auto reading_of = [this](RequestId id) -> Reading* {
    const auto found = reading_of_.find(id.value);
    return found == reading_of_.end() ? nullptr : &readings_[found->second];
  };
  std::vector<SampleId> ids;
  if (order.lineage.order != Order::weighted)
    expander_.expand(order.lineage, dataset.index->samples(), ids);
  out.samples.reserve(std::max(ids.size(), order.ingredients.size()));
  if (order.ingredients.empty()) {
    Reading* reading = reading_of(order.staging);
    for (std::uint32_t place = 0; place < ids.size(); ++place)
      add_sample(out, order, dataset, place, ids[place], ids[place], 0, Form::encoded, reading);
  } else {
    out.anew = !order.mends;
    for (const engine::Ingredient& one : order.ingredients) {
      Reading* reading = one.staging.is_none() ? nullptr : reading_of(one.staging);
      SampleId wanted = one.sample;
      for (const order::Replacement& replacement : order.replacements) {
        if (replacement.place == one.place) wanted = replacement.corrupt;
      }
      add_sample(out, order, dataset, one.place, one.sample, wanted, one.occurrence, one.form,
                 reading);
      out.samples.back().keep_decoded = one.keep_decoded;
    }
  }
  const Preparing entry{order.request,
                        order.lineage.dataset,
                        order.lineage.pipeline,
                        order.share,
                        order.slot,
                        order.lineage.block_samples,
                        audience,
                        order.decoded_share,
                        Clock::now(),
                        is_last_part(order)};
  if (slot) {
    out.slot = *slot;
    return hand_to_worker(std::move(out), entry);
  }
  wait_for_memory(std::move(out), entry);
}

void Backend::hand_to_worker(PreparationOrder&& order, const Preparing& entry) {
  if (preparing_.insert_or_assign(entry.request.id.value, entry).second)
    stalls_.preparing(entry.pipeline, 1);
  workers_->prepare(std::move(order));
}

// A sample with no bytes where they should be is given none, and so turns out corrupt: the engine
// then reads it anew.
void Backend::add_sample(PreparationOrder& out, const engine::Prepare& order,
                         const ServedDataset& dataset, std::uint32_t place, SampleId used,
                         SampleId wanted, std::uint32_t occurrence, Form form, Reading* reading) {
  const order::KeyRoot root{order.lineage.dataset_version, order.lineage.seed};
  PreparationOrder::Sample sample;
  sample.place = place;
  sample.wanted = wanted;
  sample.input.sample = used;
  sample.input.decoded = form == Form::decoded;
  sample.input.label = dataset.index->label(used).value_or(-1);
  sample.input.draw_key =
      order.lineage.order == Order::weighted
          ? order::occurrence_draw_key(root, order.lineage.name.generation, wanted, occurrence)
          : order::draw_key(root, order.lineage.name.generation, order.lineage.name.pass, wanted);
  if (reading) {
    const Staged* one = staged(*reading, used);
    if (one && one->memory) sample.input.bytes = {one->memory + one->lead, one->bytes};
  } else {
    sample.is_kept = true;
    // A sample that was read for this same block is no hit.
    const bool fresh =
        form == Form::encoded &&
        fresh_.erase(std::uint64_t{order.lineage.dataset.value} << 32 | used.value) > 0;
    if (!fresh) ++(form == Form::decoded ? counters_.decoded_hits : counters_.encoded_hits);
  }
  if (form != Form::decoded) sample.bytes = dataset.index->extent(used).bytes;
  out.samples.push_back(std::move(sample));
}

void Backend::note_kept(DatasetId dataset, Digest prefix, ShareId share) {
  std::vector<ShareId>& shares = kept_in_[{dataset.value, prefix}];
  if (std::find(shares.begin(), shares.end(), share) != shares.end()) return;
  // The number may have belonged to another share before.
  for (auto& [of, others] : kept_in_) std::erase(others, share);
  decoded_.erase(share.value);
  items_.drop_all(share);
  shares.push_back(share);
}

// At first, pictures of unknown sizes are counted by a guess. If they are larger, they would take
// the memory of batches. If they are much smaller, memory would lie idle.
void Backend::measure_decoded() {
  constexpr std::uint64_t kSamplesLeast = 16;
  for (auto& [share, one] : decoded_) {
    const ItemStore::Sum sum = items_.sum(ShareId(share));
    if (sum.offered_items < kSamplesLeast) continue;
    const Bytes mean = sum.offered_bytes / sum.offered_items + 1;
    if (mean <= one.counted && mean >= one.counted - one.counted / 8) continue;
    one.counted = mean + mean / 64;
    inbox_.add(engine::DecodedMeasured{one.dataset, ShareId(share), one.counted});
  }
}

// What the engine grants to batches comes before what is kept beyond what the engine counts: until
// it is told their sizes, the samples of a block may take far more. The engine notices when a
// dropped sample is missed.
bool Backend::drop_decoded(Bytes bytes) {
  Bytes dropped = 0;
  for (const auto& [share, one] : decoded_) {
    if (dropped < bytes) dropped += items_.drop_some(ShareId(share), bytes - dropped);
  }
  return dropped > 0;
}

std::vector<ShareId> Backend::kept_in(DatasetId dataset, Digest prefix) const {
  const auto shares = kept_in_.find({dataset.value, prefix});
  return shares == kept_in_.end() ? std::vector<ShareId>() : shares->second;
}

void Backend::prepared(PreparationReport& report) {
  const auto found = preparing_.find(report.request.id.value);
  if (found == preparing_.end() || found->second.request != report.request) return;
  stalls_.preparing(found->second.pipeline, -1);
  const Preparing entry = found->second;
  preparing_.erase(found);
  if (!report.unbegun) {
    short_since_ = Clock::now();
  } else if (!entry.is_given_up &&
             std::find(working_.begin(), working_.end(), report.worker) != working_.end()) {
    return wait_for_memory(std::move(*report.unbegun), entry);
  }
  const ServedDataset& dataset = datasets_.dataset(entry.dataset);
  for (std::size_t i = 0; i < report.corrupt.size(); ++i)
    troubles_.note(
        entry.pipeline,
        fmt::format("dataset {}: sample {} ({}): {}", dataset.name, report.corrupt[i].value,
                    dataset.index->sample_name(report.corrupt[i]), report.problems[i]));
  if (report.outcome == engine::Outcome::failed && !report.problems.empty())
    troubles_.note(entry.pipeline,
                   fmt::format("dataset {}: {}", dataset.name, report.problems.front()));
  for (PreparationReport::Decoded& one : report.decoded) {
    const ItemId item(static_cast<std::uint32_t>(one.sample.value));
    if (!items_.put(entry.decoded_share, item, std::move(one.item), one.bytes))
      ++counters_.not_kept;
  }
  counters_.prepared_samples += report.samples;
  if (entry.ends) ++counters_.prepared_blocks;
  measure_decoded();
  inbox_.add(engine::PreparationDone{report.request, report.outcome,
                                     inbox_.keep(std::vector(report.corrupt))});
}

void Backend::on(const engine::SetWorkers& order) {
  workers_wanted_ = order.workers;
  settle_workers();
}

void Backend::set_workers_most(std::uint32_t workers) {
  options_.workers_most = workers;
  settle_workers();
}

void Backend::settle_workers() {
  const std::uint32_t wanted = std::min(workers_wanted_, options_.workers_most);
  while (working_.size() < wanted) {
    const WorkerId worker(next_worker_);
    if (!workers_->start(worker)) break;  // tried again by retry_waiting
    ++next_worker_;
    working_.push_back(worker);
    inbox_.add(engine::WorkerJoined{worker, options_.node});
  }
  while (working_.size() > wanted) {
    fail_waiting(working_.back());
    workers_->retire(working_.back());
    working_.pop_back();
  }
  workers_there_ = static_cast<std::uint32_t>(working_.size());
  stalls_.set_workers(workers_there_);
}

}  // namespace batchflow::service
