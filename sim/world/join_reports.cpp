#include "sim/world/join_reports.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/engine/seed_group.h"
#include "core/order/mixing.h"
#include "core/order/permutation.h"
#include "sim/world/chance.h"
#include "sim/world/live_sources.h"
#include "sim/world/reports.h"

namespace batchflow::world {

namespace {

std::uint64_t hash_of(const std::string& name) {
  std::uint64_t value = 0;
  for (const char c : name) value = hash(value, static_cast<unsigned char>(c));
  return value;
}

}  // namespace

void JoinReports::joined(std::uint32_t index, const Job& job) {
  const input::JobModel& model = *job.model;
  engine::JobJoined event;
  event.job = job.id;
  event.user = hash_of(model.user);
  event.dataset = world_.workload.dataset(model);
  event.pipeline = world_.workload.pipeline(model);
  event.order = model.order;
  event.has_shuffle_seed = model.has_shuffle_seed;
  event.shuffle_seed = model.shuffle_seed;
  event.batch_samples = job.rank_batch();
  event.drop_last = model.drop_last;
  event.epochs = model.epochs / static_cast<std::uint32_t>(job.preparation->epochs);
  event.steps = model.steps > 0 ? model.steps - job.steps_done : 0;
  event.credits = model.credits;
  event.weight = model.weight;
  event.latency_target = model.latency_target;
  event.node_local = model.node_local;
  event.runs = model.runs;
  event.rehearsed = world_.scenario.in_items(model, model.rehearsed);
  if (!model.rehearsal_policy.empty()) {
    event.buffer = index + 1;  // a job that comes back has its own
    event.buffer_exemplars = world_.scenario.in_items(model, model.exemplars);
    event.buffer_policy = model.rehearsal_policy;
  }
  event.weights_policy = model.mixture.policy;
  if (model.order == Order::live) {
    event.fills_after = model.live.fills_after;
    event.fills_from = world_.live.fills_from(model);
    event.fills_cut = model.live.fills_cut;
    event.buffer_exemplars = world_.scenario.in_items(model, model.exemplars);
    event.epochs = 1;
  }
  event.ranks = world_.reports.keep(job.nodes);
  const bool has_position = job.checkpoint.position && model.order != Order::listed;
  if (has_position) event.position = &*job.checkpoint.position;
  if (model.mixture.sources > 0 && !event.position)
    event.position = &world_.reports.keep(std::vector{mixture_position(job, event)}).front();
  if (model.live.from_newest && model.order == Order::live && !event.position)
    event.position = &world_.reports.keep(std::vector{newest_position(event)}).front();
  world_.reports.fact(event);
  exemplars(index, job);
}

// The next record that comes.
order::Position JoinReports::newest_position(const engine::JobJoined& event) const {
  const Workload::Data& data = world_.workload.data(event.dataset);
  return order::Position::live(data.version, data.catalogue->samples(),
                               engine::seed_group_of(event, 0),
                               world_.live.find(event.dataset)->end());
}

// Where a job begins its mixture.
order::Position JoinReports::mixture_position(const Job& job,
                                              const engine::JobJoined& event) const {
  const input::MixtureModel& mixture = job.model->mixture;
  const Workload::Data& data = world_.workload.data(event.dataset);
  const std::uint64_t items = data.catalogue->samples();
  std::vector<SampleRange> sources;
  for (std::uint64_t i = 0; i < mixture.sources; ++i) {
    const std::uint64_t first = items * i / mixture.sources;
    sources.push_back({SampleId(first), items * (i + 1) / mixture.sources - first});
  }
  order::Mixing::Fields fields =
      order::Mixing::beginning(std::move(sources), order::Mixture::parts_of(mixture.weights(0)));
  fields.may_change = mixture.change_every > 0 || !mixture.policy.empty();
  for (const input::MixtureModel::Scheduled& one : mixture.schedule)
    fields.changes.push_back(
        {one.at / data.samples_per_item, order::Mixture::parts_of(mixture.weights(0, one.skew))});
  std::string problem;
  auto mixing = order::Mixing::from(std::move(fields), items, problem);
  BF_CHECK_MSG(mixing.has_value(), problem.c_str());
  const std::uint64_t draws = mixture.draws / data.samples_per_item;
  return order::Position::mixed(std::move(*mixing), data.version, items,
                                engine::seed_group_of(event, 0), draws > 0 ? draws : items);
}

void JoinReports::resized(const Job& job) {
  world_.reports.fact(engine::JobResized{job.id, job.rank_batch(), world_.reports.keep(job.nodes)});
}

// Draws samples at random, none twice; the draw depends on the job alone.
void JoinReports::exemplars(std::uint32_t index, const Job& job) {
  const input::JobModel& model = *job.model;
  if (model.exemplars == 0 || !model.rehearsal_policy.empty() || model.order == Order::live) return;
  const input::Scenario& scenario = world_.scenario;
  const input::DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(model.dataset)];
  const order::Permutation chosen(chance_of(scenario.seed, Chance::exemplars, index).draw(),
                                  scenario.items(dataset));
  const std::uint32_t count = scenario.in_items(model, model.exemplars);
  for (std::uint32_t first = 0; first < count; first += engine::kExemplarsAtOnce) {
    std::vector<SampleId> some;
    const auto end = std::min<std::uint32_t>(count, first + engine::kExemplarsAtOnce);
    for (std::uint32_t i = first; i < end; ++i) some.emplace_back(chosen(i));
    world_.reports.fact(engine::ExemplarsReported{
        job.id, first == 0, first, world_.reports.keep(std::move(some)), end < count});
  }
}

}  // namespace batchflow::world
