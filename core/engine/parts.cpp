#include "core/engine/parts.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "core/base/config_value.h"

namespace batchflow::engine {

void Engine::Parts::on(const ScoresReported& event) {
  Job* live_job = job(event.job);
  if (!live_job) return;
  if (event.scores.size() > kScoresMost) return s.protocol_error();
  const Dataset& dataset = s.datasets[live_job->dataset];
  const std::span<const float> weights = selection.weigh(*live_job, event.scores);
  for (std::size_t i = 0; i < event.scores.size(); ++i) {
    const SampleId sample = event.scores[i].sample;
    if (sample.value >= dataset.catalogue->samples()) {
      s.protocol_error();
      continue;
    }
    item_shares.scored(dataset.id, sample, weights[i]);
    if (live_job->weights) live_job->weights->report(sample, order::weight_of_score(weights[i]));
  }
}

void Engine::Parts::on(const ExemplarsReported& event) {
  Job* live_job = job(event.job);
  if (!live_job) return;
  const std::uint64_t samples = s.datasets[live_job->dataset].catalogue->samples();
  const bool known = std::all_of(event.samples.begin(), event.samples.end(),
                                 [&](SampleId sample) { return sample.value < samples; });
  if (live_job->rehearsed == 0 || !known || event.samples.size() > kExemplarsAtOnce ||
      !live_job->exemplars.report(event.anew, event.first, event.samples, event.more)) {
    s.protocol_error();
  }
}

void Engine::Parts::change_policy(const PolicyName& name, const PolicyChoice& choice) {
  switch (name.kind) {
    case PolicyKind::allocation:
      return s.memory.change_allocation(choice);
    case PolicyKind::eviction:
      for (const std::size_t one : name.evictions) s.memory.eviction().change(choice, one);
      return;
    case PolicyKind::selection:
      return selection.change(
          make_next<MakeSelection>(selection_choice, selection.policy(), choice));
    case PolicyKind::dispatch:
      return dispatching.change_dispatch(
          make_next<MakeDispatch>(dispatch_choice, dispatching.dispatch_policy(), choice));
    case PolicyKind::scaling:
      return dispatching.change_scaling(
          make_next<MakeScaling>(scaling_choice, dispatching.scaling_policy(), choice));
  }
}

// Of one share or stream alone.
bool Engine::Parts::change_policy(const PolicyName& name, const PolicyChoice& choice,
                                  std::uint32_t only) {
  if (name.kind == PolicyKind::eviction) {
    const ShareId share(only);
    return std::any_of(name.evictions.begin(), name.evictions.end(), [&](std::size_t one) {
      return s.memory.eviction().change(choice, one, share);
    });
  }
  const StreamId stream(only);
  if (name.kind != PolicyKind::selection || !s.streams.live(stream)) return false;
  auto own = std::make_unique<OwnSelection>(choice, nullptr);
  own->policy = make<MakeSelection>(own->choice, s.random.split(++policies_made));
  s.streams[stream].own_selection = std::move(own);
  return true;
}

void Engine::Parts::on(const PolicyChanged& event) {
  try {
    const auto [kind, text] = split_policy(event.text);
    const PolicyScope scope = policy_scope(kind);
    const PolicyName name = policy_name(scope.name);
    const PolicyChoice choice = s.list.choose(name.kind, text);
    if (!scope.only) {
      change_policy(name, choice);
    } else if (!change_policy(name, choice, *scope.only)) {
      return s.stale();  // what it was meant for is no more
    }
  } catch (const ConfigError&) {
    return s.protocol_error();  // the backend checks texts before it sends them
  }
  s.room_everywhere();  // what the old policy held back is offered to the new one
  s.jobs.each([&](JobIndex index) { s.look_at(index); });
}

void Engine::Parts::on(const ConfigurationChanged& event) {
  const EngineConfig before = s.config;
  try {
    change_setting(s.config, event.text);
  } catch (const ConfigError&) {
    return s.protocol_error();
  }
  const auto sharing = [](const EngineConfig& config) {
    return std::tuple(config.share_streams, config.share_nodes, config.helper_nodes,
                      config.workers_per_rank, config.workers_held_during_reads);
  };
  if (sharing(before) == sharing(s.config)) return;
  if (before.share_nodes != s.config.share_nodes) item_shares.sharing_changed();
  streams.sharing_changed();
  s.room_everywhere();
  s.jobs.each([&](JobIndex index) { s.look_at(index); });
}

}  // namespace batchflow::engine
