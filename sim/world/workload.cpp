#include "sim/world/workload.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace batchflow::world {

namespace {

// A name stands for content here: the same name is the same data in every run.
Digest version_of(const input::DatasetModel& dataset, std::uint32_t samples_per_item) {
  Digest digest = hash(dataset.samples, dataset.bytes, samples_per_item);
  for (const char c : dataset.name) digest = hash(digest, static_cast<unsigned char>(c));
  return digest;
}

void draw_sizes(const input::DatasetModel& dataset, const input::Scenario& scenario,
                engine::Catalogue::Parts& parts) {
  parts.bytes.reserve(parts.samples);
  Random random(hash(scenario.seed, parts.version));
  for (std::uint64_t i = 0; i < parts.samples; ++i) {
    const double factor = dataset.bytes_spread.draw(random, scenario.samples_per_item(dataset));
    parts.bytes.push_back(std::max<Bytes>(
        1, static_cast<Bytes>(std::llround(static_cast<double>(parts.uniform_bytes) * factor))));
    if (parts.bundle_shift == 0) continue;
    parts.bundle_bytes.resize((i >> parts.bundle_shift) + 1);
    parts.bundle_bytes.back() += parts.bytes.back();
  }
}

// Where an engine fills the buffer of a mixture, the sources of that are the classes.
void label(const input::Scenario& scenario, const input::DatasetModel& dataset,
           engine::Catalogue::Parts& parts) {
  for (const input::JobModel& job : scenario.jobs) {
    const std::uint64_t sources = job.mixture.sources;
    const bool is_of = &scenario.datasets[static_cast<std::size_t>(job.dataset)] == &dataset;
    if (!is_of || sources == 0 || job.rehearsal_policy.empty() || parts.classes > 0) continue;
    parts.classes = static_cast<std::uint32_t>(sources);
    for (std::uint64_t source = 0; source < sources; ++source)
      parts.labels.resize(parts.samples * (source + 1) / sources,
                          static_cast<std::uint32_t>(source));
  }
}

engine::Catalogue make_catalogue(const input::DatasetModel& dataset,
                                 const input::Scenario& scenario, Digest version) {
  const Bytes bytes = scenario.item_bytes(dataset);
  const std::uint64_t items = scenario.items(dataset);
  engine::Catalogue::Parts parts;
  parts.name = dataset.name;
  parts.version = version;
  parts.samples = items;
  parts.uniform_bytes = bytes;
  while (dataset.bundle > 0 && bytes << (parts.bundle_shift + 1) <= dataset.bundle &&
         parts.bundle_shift < engine::Catalogue::kBundleShiftMost) {
    ++parts.bundle_shift;
  }
  if (dataset.bytes_spread.ratio > 0) draw_sizes(dataset, scenario, parts);
  label(scenario, dataset, parts);
  std::string problem;
  auto catalogue = engine::Catalogue::from(std::move(parts), problem);
  if (!catalogue) throw ConfigError("dataset '" + dataset.name + "': " + problem);
  return std::move(*catalogue);
}

}  // namespace

std::uint64_t stream_key(const order::Lineage& lineage) {
  return hash(lineage.dataset.value, lineage.pipeline.value, lineage.seed);
}

std::uint64_t block_key(const order::Lineage& lineage) {
  const order::BlockName& name = lineage.name;
  return hash(stream_key(lineage), name.generation, name.lane, name.pass, name.block);
}

std::uint64_t Workload::key(const input::JobModel& job) {
  return static_cast<std::uint64_t>(job.dataset) << 32 | static_cast<std::uint32_t>(job.pipeline);
}

Workload::Workload(const input::Scenario& scenario) {
  for (const input::DatasetModel& dataset : scenario.datasets) {
    const DatasetId id(static_cast<std::uint32_t>(datasets_.size() + 1));
    const std::uint32_t per_item = scenario.samples_per_item(dataset);
    const Digest version = version_of(dataset, per_item);
    const engine::Catalogue& catalogue =
        catalogues_.add(id, make_catalogue(dataset, scenario, version));
    datasets_.push_back({id, version, &catalogue, dataset.compute_only, per_item,
                         std::max(dataset.read_bytes, dataset.bytes) - dataset.bytes});
  }
  for (const input::JobModel& job : scenario.jobs) {
    const PipelineId id(static_cast<std::uint32_t>(preparations_.size() + 1));
    if (!pipeline_of_.emplace(key(job), id).second) continue;
    const input::PipelineModel& model = scenario.pipelines[static_cast<std::size_t>(job.pipeline)];
    const input::DatasetModel& dataset = scenario.datasets[static_cast<std::size_t>(job.dataset)];
    const std::uint32_t per_item = scenario.samples_per_item(dataset);
    engine::PipelineInfo info = model.info(dataset.bytes, per_item);
    const Bytes moved = dataset.compute_only ? 0 : info.prepared_bytes;
    if (model.items_per_block > 0) {
      info.prepared_bytes = std::max<Bytes>(1, scenario.engine.block_bytes / model.items_per_block);
    }
    catalogues_.add(id, info);
    std::vector<PipelineStep> steps;
    for (const input::AppliedStep& applied : model.applied(dataset.bytes)) {
      steps.push_back({applied.step->name, applied.cost * per_item, applied.before_random});
    }
    const std::uint64_t epochs =
        model.epochs_per_block > 0 ? model.epochs_per_block : scenario.grain.epochs_per_block;
    preparations_.push_back({id, job.dataset, job.pipeline, info, model.spread, model.slow,
                             std::move(steps), moved, epochs, per_item, model.items_per_block > 0,
                             model.cores_most});
  }
}

std::uint64_t Workload::reads_of(const engine::Read& command) {
  return command.samples.empty() ? command.lineage.samples : command.samples.size();
}

std::uint64_t Workload::items_of(const engine::Read& command) const {
  if (command.bundle_shift == 0) return reads_of(command);
  const std::uint64_t all = data(command.dataset).catalogue->samples();
  std::uint64_t items = 0;
  for (const SampleId first : command.samples)
    items += std::min(all - first.value, std::uint64_t{1} << command.bundle_shift);
  return items;
}

// Where a command names its block alone, its items are not looked at: they have the mean size.
Bytes Workload::bytes_of(const engine::Read& command) const {
  if (data(command.dataset).compute_only) return 0;
  const std::uint64_t items = items_of(command);
  if (command.form == Form::decoded) {
    return items * preparation(command.lineage.pipeline).info.decoded_bytes;
  }
  const engine::Catalogue& catalogue = *data(command.dataset).catalogue;
  if (catalogue.is_uniform() || command.samples.empty()) {
    const auto all = static_cast<unsigned __int128>(catalogue.total_bytes()) * items;
    return static_cast<Bytes>(all / catalogue.samples());
  }
  Bytes bytes = 0;
  for (const SampleId sample : command.samples) {
    bytes += command.bundle_shift > 0 ? catalogue.bundle_bytes(sample.value >> command.bundle_shift)
                                      : catalogue.bytes(sample);
  }
  return bytes;
}

DatasetId Workload::dataset(const input::JobModel& job) const {
  return datasets_[static_cast<std::size_t>(job.dataset)].id;
}

PipelineId Workload::pipeline(const input::JobModel& job) const {
  return pipeline_of_.at(key(job));
}

}  // namespace batchflow::world
