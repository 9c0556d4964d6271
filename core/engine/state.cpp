#include "core/engine/state.h"

#include <algorithm>

#include "core/base/saturating.h"

namespace batchflow::engine {

namespace {

// This many entries of a permutation's table are made in the time in which one sample is looked up.
constexpr std::uint64_t kTablePlacesASample = 128;

std::vector<PolicyChoice> eviction_choices(const EngineConfig& config, const PolicyList& list) {
  std::vector<PolicyChoice> choices;
  for (const std::string& text : config.policies.eviction) {
    choices.push_back(list.choose(PolicyKind::eviction, text));
  }
  return choices;
}

}  // namespace

EngineState::EngineState(const EngineConfig& engine_config, const PolicyList& policies,
                         const Catalogues& known, const Explain& explain)
    : config(engine_config),
      list(policies),
      catalogues(known),
      random(hash(engine_config.seed)),
      memory(policies.choose(PolicyKind::allocation, engine_config.policies.allocation),
             eviction_choices(engine_config, policies), engine_config.seed, explain),
      buffers(policies) {
  // An ingredient that leaves while a block is made of it may have to be read again and again.
  config.count_staging = config.count_staging && config.hold_ingredients;
}

void EngineState::ask_again(Instant wanted, Instant& at, Alarm alarm) {
  constexpr Duration kLeast = std::chrono::microseconds(10);  // it cannot keep a backend busy
  if (wanted == kNever) return;
  wanted = std::max(wanted, after(now, kLeast));
  if (at > now && at <= wanted) return;
  at = wanted;
  alarms.set(at, alarm);
}

order::Lineage EngineState::lineage(const Block& block) const {
  const Stream& stream = streams[block.stream];
  order::Lineage lineage = this->lineage(stream, block.sizes, block.name);
  // Order::weighted: its samples do not follow from its name. Nor do those of a mixture, or of a
  // live order.
  const bool is_named = stream.family == Order::mixed || stream.family == Order::live;
  if (block.rehearsal || (!stream.names_samples() && !is_named)) lineage.order = Order::weighted;
  if (block.rehearsal) lineage.run_shift = 0;
  lineage.samples = block.samples;
  return lineage;
}

order::Lineage EngineState::lineage(const Stream& stream, const order::LaneSizes& sizes,
                                    const order::BlockName& name) const {
  const Dataset& dataset = datasets[stream.dataset];
  order::Lineage lineage;
  lineage.dataset = dataset.id;
  lineage.dataset_version = dataset.catalogue->version();
  lineage.pipeline = stream.pipeline_id;
  lineage.pipeline_hash = stream.pipeline->hash;
  lineage.order = stream.family;
  lineage.seed = stream.seed;
  lineage.block_samples = sizes.block_samples;
  lineage.lane_blocks = sizes.lane_blocks;
  lineage.name = name;
  lineage.samples = sizes.samples_of(name.lane, name.block);
  lineage.run_shift = stream.run_shift;
  return lineage;
}

void EngineState::expand(const Block& block, std::vector<order::Draw>& draws) {
  Stream& stream = streams[block.stream];
  const std::uint64_t first =
      (block.sizes.first_block_of(block.name.lane) + block.name.block) * block.sizes.block_samples;
  if (block.rehearsal) {
    draws.resize(block.samples);
    return block.rehearsal->fill(first, draws, rehearsed);
  }
  if (stream.names_samples()) {
    std::vector<SampleId>& ids = stream.scratch;
    const std::uint64_t before = expander.permutations().entries_made();
    expander.expand(lineage(block), datasets[stream.dataset].catalogue->samples(), ids);
    // So that no more than a table or two are made in one step.
    samples_looked_up += (expander.permutations().entries_made() - before) / kTablePlacesASample;
    draws.resize(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) draws[i] = {ids[i], 0};
    return;
  }
  // Any job with these weights in this epoch draws the same.
  for (const JobIndex index : stream.jobs) {
    const Job& job = jobs[index];
    for (const order::ChosenEpoch& epoch : job.chosen_epochs) {
      if (epoch.epoch() != block.name.generation) continue;
      draws.resize(block.samples);
      return epoch.fill(first, draws);
    }
    if (!job.drawn || job.drawn->generation() != block.name.generation || !job.drawn->has(first))
      continue;
    draws.resize(block.samples);
    return job.drawn->fill(first, draws);
  }
  check_failed("a job is in the epoch of the block", __FILE__, __LINE__, "");
}

void EngineState::promise_joined(const Job& job, const JobJoined& event) {
  Promise& promise = promises.add(Promise::Kind::joined, job.id);
  promise.join.join = event;
  promise.join.ranks.assign(event.ranks.begin(), event.ranks.end());
  promise.join.join.pipeline_hash = streams[job.stream].pipeline->hash;
  promise.join.position = job.committed;
  promise.join.buffer_policy = std::string(event.buffer_policy);
  promise.join.join.buffer_policy = {};
  promise.join.weights_policy = std::string(event.weights_policy);
  promise.join.join.weights_policy = {};
}

void EngineState::promise_resized(const Job& job) {
  Promise& promise = promises.add(Promise::Kind::resized, job.id);
  promise.batch_samples = job.batch_samples;
  for (const RankState& rank : job.ranks) promise.ranks.push_back(rank.node);
}

void EngineState::promise_committed(const Job& job, std::uint64_t step, std::uint32_t epoch,
                                    const std::vector<order::Slice>& committed,
                                    const std::vector<std::uint64_t>& indices,
                                    const std::vector<KeptExemplar>& kept) {
  Promise& promise = promises.add(Promise::Kind::committed, job.id);
  promise.step = step;
  promise.epoch = epoch;
  promise.slices = committed;
  promise.indices = indices;
  if (job.order == Order::relaxed) promise.sizes = job.committed.lanes().sizes;
  if (job.order == Order::weighted) {
    promise.weights = job.committed.fields().weights;
    promise.draws = job.committed.fields().draws;
  }
  promise.buffer = job.committed.fields().buffer;
  promise.kept = kept;
  if (job.buffer) promise.shown = job.buffer->shown();
}

void EngineState::promise_buffer(const Buffer& buffer, std::size_t last) {
  Promise& promise = promises.add(Promise::Kind::buffer, JobId::none());
  promise.buffer_name = buffer.name();
  promise.exemplars_most = buffer.exemplars_most();
  promise.buffer_policy = buffer.policy();
  promise.shown = buffer.shown();
  const auto all = buffer.exemplars();
  for (std::size_t i = all.size() - last; i < all.size(); ++i)
    promise.kept.push_back({static_cast<std::uint32_t>(i), all[i]});
}

void EngineState::promise_buffer_gone(const BufferName& name) {
  promises.add(Promise::Kind::buffer_gone, JobId::none()).buffer_name = name;
}

void EngineState::promise_mixture_changed(const Job& job, const order::MixtureChange& change) {
  Promise& promise = promises.add(Promise::Kind::mixture_changed, job.id);
  promise.change = change;
}

void EngineState::promise_epoch_finished(const Job& job, std::uint32_t epoch) {
  Promise& promise = promises.add(Promise::Kind::epoch_finished, job.id);
  promise.epoch = epoch;
}

void EngineState::promise_left(const Job& job) {
  promises.add(Promise::Kind::left, job.id);
}

}  // namespace batchflow::engine
