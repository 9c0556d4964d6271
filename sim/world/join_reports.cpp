#include "sim/world/join_reports.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/order/permutation.h"
#include "sim/world/chance.h"
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
  event.ranks = world_.reports.keep(job.nodes);
  if (job.checkpoint.position) event.position = &*job.checkpoint.position;
  world_.reports.fact(event);
  exemplars(index, job);
}

void JoinReports::resized(const Job& job) {
  world_.reports.fact(engine::JobResized{job.id, job.rank_batch(), world_.reports.keep(job.nodes)});
}

// Draws samples at random, none twice; the draw depends on the job alone.
void JoinReports::exemplars(std::uint32_t index, const Job& job) {
  const input::JobModel& model = *job.model;
  if (model.exemplars == 0) return;
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
