#include "core/engine/mixture_weights.h"

#include <algorithm>
#include <memory>
#include <string>

#include "core/base/config_value.h"

namespace batchflow::engine {

bool MixtureWeights::may_follow(const EngineState& s, const JobJoined& event) {
  if (event.order != Order::mixed || !event.position->fields().mixing->may_change()) return false;
  try {
    s.list.choose(PolicyKind::mixture, event.weights_policy);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

void MixtureWeights::follow(Job& job, const JobJoined& event) {
  job.loss_weights =
      std::make_unique<LossWeights>(event.weights_policy, s_.list, *job.committed.fields().mixing);
}

void MixtureWeights::changed(Job& job, const MixtureChanged& event) {
  if (job.state == Job::State::refused) return s_.stale();
  const auto& mixing = job.committed.fields().mixing;
  if (!mixing || !mixing->may_change()) return s_.protocol_error();
  // Clients count their changes, but ranks that ask at the same time may ask for one too many.
  // Every change that is to come where the job is drawn is also to come where it is committed.
  if (mixing->changes_left() == 0) return s_.stale();
  const std::uint64_t soonest = job.mixed ? job.mixed->soonest() : mixing->soonest();
  const order::MixtureChange change{
      std::max(event.at, soonest), {event.parts.begin(), event.parts.end()}, event.at < soonest};
  const std::string problem =
      job.mixed ? job.mixed->problem_of(change) : mixing->problem_of(change);
  if (!problem.empty() || !job.committed.change(change).empty()) return s_.protocol_error();
  if (job.mixed) job.mixed->change(change);
  s_.promise_mixture_changed(job, change);
  s_.emit(MixtureSet{job.id, change.at, s_.arena.copy(change.parts), change.soon});
}

void MixtureWeights::losses_reported(Job& job, const LossesReported& event) {
  if (job.state == Job::State::refused) return s_.stale();
  if (!job.loss_weights || event.losses.size() != job.loss_weights->sources())
    return s_.protocol_error();
  job.loss_weights->report(event.losses);
  const std::uint64_t refused = job.loss_weights->refused();
  const auto parts = job.loss_weights->decide(job.id, *job.committed.fields().mixing);
  s_.refused_weights += job.loss_weights->refused() - refused;
  if (parts) changed(job, {job.id, 0, *parts});
}

}  // namespace batchflow::engine
