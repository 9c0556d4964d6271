#include "runtime/service/jobs/job.h"

#include <algorithm>
#include <chrono>

#include "core/base/random.h"
#include "core/order/position_json.h"
#include "core/order/rehearsal.h"

namespace batchflow::service {

void RankEnd::end_if_far_enough() {
  if (!job->ends_after || consumed < *job->ends_after) return;
  peer->end();
}

bool ServedJob::has_left() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const RankEnd* end) { return !end || end->left; });
}

std::uint64_t ServedJob::steps_per_epoch() const {
  if (request.order == Order::live) return 0;  // nothing says when a source ends
  const std::uint32_t rehearsed = buffer_samples > 0 ? request.order_options.rehearsed : 0;
  return order::RehearsalPlan::split(
             {epoch_samples(), 0, request.world_size, request.batch_samples, request.drop_last},
             rehearsed)
      .steps();
}

std::uint64_t ServedJob::epoch_samples() const {
  if (position && position->fields().mixing) return position->epoch_samples();
  const std::uint64_t draws = request.order_options.draws;
  return draws > 0 ? draws : dataset->index->samples();
}

bool ServedJob::allows_ideal() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const RankEnd* end) { return end && end->request.allows_ideal; });
}

bool ServedJob::has_had_all() const {
  // The end of a source is the end of the only epoch.
  if (request.order == Order::live && position->epoch() > 0) return true;
  return (request.epochs > 0 && position->epoch() >= request.epochs) ||
         (request.steps > 0 && request.steps_given >= request.steps);
}

// Of this user alone. A buffer without a name is that of jobs with this job's name.
std::uint64_t ServedJob::buffer_number() const {
  const std::string& given = request.order_options.buffer_name;
  std::uint64_t number = hash(user, given.empty() ? 1 : 0);
  for (const char one : given.empty() ? name : given)
    number = hash(number, static_cast<unsigned char>(one));
  return number | 1;
}

engine::JobJoined ServedJob::joined() const {
  engine::JobJoined event;
  event.job = id;
  event.user = hash(user);
  event.dataset = dataset->id;
  event.pipeline = pipeline->id;
  event.order = request.order;
  event.has_shuffle_seed = request.shuffle_seed.has_value();
  event.shuffle_seed = request.shuffle_seed.value_or(0);
  event.batch_samples = request.batch_samples;
  event.drop_last = request.drop_last;
  event.epochs = request.epochs;
  event.steps = steps_left;
  event.latency_target =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(request.latency_target_s));
  event.draws = request.order_options.draws;
  event.multinomial = request.order_options.multinomial;
  event.node_local = request.order_options.node_local;
  event.runs = request.order_options.runs;
  event.rehearsed = request.order_options.rehearsed;
  event.buffer_exemplars = request.order_options.buffer_exemplars;
  if (event.buffer_exemplars > 0 && event.order != Order::live) {
    event.buffer = buffer_number();
    event.buffer_policy = request.order_options.buffer_policy;
  }
  event.fills_after = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(request.order_options.fills_after_s));
  event.fills_from = request.order_options.fills_from;
  event.fills_cut = request.order_options.fills_cut;
  event.keyed = request.order_options.keyed;
  event.weights_policy = request.order_options.weights_policy;
  event.pipeline_hash = request.pipeline_hash;
  return event;
}

std::vector<SampleRange> ServedJob::ranges() const {
  const std::optional<order::Mixing>& mixing = position->fields().mixing;
  if (!mixing) return {{SampleId(0), dataset->index->samples()}};
  std::vector<SampleRange> ranges;
  for (std::uint32_t source = 0; source < mixing->sources().size(); ++source)
    if (mixing->may_draw(source)) ranges.push_back(mixing->sources()[source]);
  return ranges;
}

protocol::JoinAnswer ServedJob::admission(const RankEnd& end) const {
  protocol::JoinAnswer admission;
  admission.job = name;
  admission.dataset_version = dataset->index->version();
  admission.dataset_samples = dataset->index->samples();
  admission.seed = position->fields().seed;
  admission.pipeline_hash = pipeline->pipeline->info().hash;
  admission.steps_per_epoch = steps_per_epoch();
  admission.classes = static_cast<std::uint32_t>(dataset->index->classes().size());
  admission.spec = pipeline->pipeline->spec();
  admission.state = order::to_json(*position);
  admission.order_options = request.order_options;
  // Notes count the whole dataset, and sources of a mixture have bounds of their own.
  const std::uint64_t corrupt_most =
      request.order == Order::mixed ? UINT64_MAX : corrupt_bounds.front().most;
  admission.notes =
      data_notes(*dataset->index, *pipeline->pipeline, end.request.pipeline.empty(), corrupt_most);
  return admission;
}

}  // namespace batchflow::service
