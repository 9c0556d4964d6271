#include "runtime/service/backend/warming.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/random.h"
#include "runtime/service/jobs/refusals.h"

namespace batchflow::service {
namespace {

constexpr std::uint32_t kBatchSamples = 64;
// For policies that ask: the stalls of all other jobs count for more.
constexpr double kWeight = 1e-6;

}  // namespace

Warming::Status* Warming::find_job(JobId job) {
  const auto found = warmed_.find(job.value);
  return found == warmed_.end() ? nullptr : &found->second;
}

bool Warming::begin(const ServedDataset& dataset, const ServedPipeline& pipeline) {
  const auto same = [&](const auto& one) {
    return one.second.dataset == dataset.name && one.second.pipeline == pipeline.name;
  };
  if (std::any_of(warmed_.begin(), warmed_.end(),
                  [&](const auto& one) { return same(one) && !one.second.over; }))
    return false;
  std::erase_if(warmed_, same);
  const std::uint64_t samples = dataset.index->samples();
  warmed_[next_] = {dataset.id, pipeline.id, dataset.name, pipeline.name, 0, samples, false, {}};
  engine::JobJoined event;
  event.job = JobId(next_++);
  event.user = hash(geteuid());
  event.dataset = dataset.id;
  event.pipeline = pipeline.id;
  event.order = Order::sequential;
  event.batch_samples = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBatchSamples, samples));
  // It leaves after its first epoch. If it said so in advance, the engine would keep nothing for
  // it.
  event.epochs = 0;
  event.weight = kWeight;
  event.ranks = inbox_.keep(std::vector<NodeId>{NodeId(0)});
  inbox_.add(event);
  return true;
}

bool Warming::reads(DatasetId dataset) const {
  return std::any_of(warmed_.begin(), warmed_.end(),
                     [&](const auto& one) { return one.second.id == dataset && !one.second.over; });
}

bool Warming::uses(PipelineId pipeline) const {
  return std::any_of(warmed_.begin(), warmed_.end(), [&](const auto& one) {
    return one.second.pipeline_id == pipeline && !one.second.over;
  });
}

std::vector<Warming::Status> Warming::status() const {
  std::vector<Status> all;
  for (const auto& [job, one] : warmed_) all.push_back(one);
  return all;
}

void Warming::admitted(const engine::Admit& command) {
  if (!find_job(command.job)) return jobs_.admitted(command);
  inbox_.add(engine::BatchWanted{command.job, 0, command.credits});
}

void Warming::refused(const engine::Refuse& command) {
  Status* const one = find_job(command.job);
  if (!one) return jobs_.refused(command);
  one->over = true;
  one->problem = refusal_text(command);
}

bool Warming::deliver(const engine::Deliver& command, const Slot* slot,
                      std::uint32_t slot_samples) {
  Status* const one = find_job(command.job);
  if (!one) return jobs_.deliver(command, slot, slot_samples);
  for (const order::Slice& slice : command.slices) {
    if (!slice.filler && command.epoch == 0) one->samples += slice.to - slice.from;
  }
  // Not before the engine has been told that the batch is delivered.
  post_([this, job = command.job, step = command.step, in_place = command.in_place,
         share = command.share, slot_id = command.slot] {
    if (!in_place) backend_->released(share, slot_id);
    const Status* const still = find_job(job);
    if (!still || still->over) return;  // the engine knows it no more
    inbox_.add(engine::BatchConsumed{job, 0, step});
    inbox_.add(engine::SlotReleased{job, 0, step});
    inbox_.add(engine::BatchWanted{job, 0, 1});
  });
  return true;
}

void Warming::epoch_ended(const engine::EpochEnded& command) {
  Status* const one = find_job(command.job);
  if (!one) return jobs_.epoch_ended(command);
  if (one->over) return;
  one->over = true;
  inbox_.add_left(command.job, one->id, one->pipeline_id);
}

}  // namespace batchflow::service
