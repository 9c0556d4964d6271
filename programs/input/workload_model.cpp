#include "programs/input/workload_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/random.h"

namespace batchflow::input {

namespace {

constexpr Bytes kBytesMost = Bytes{1} << 60;  // of a dataset: sums of sizes fit 64 bits

// Names become digests: another name, or other steps, is other data.
Digest digest_of(std::string_view text, Digest before = 0) {
  Digest digest = hash(before, text.size());
  for (const char c : text) digest = hash(digest, static_cast<unsigned char>(c));
  return digest;
}

Digest digest_of(const StepModel& step, Digest before) {
  return hash(digest_of(step.name, before), step.random, step.cost.count(), step.output.bytes,
              step.output.ratio.parts);
}

template <class Model>
void refuse_twice(config::ConfigSection& section, const std::vector<Model>& models,
                  const std::string& name) {
  for (const Model& model : models) {
    if (model.name == name) section.refuse("name", "two have it", "rename one");
  }
}

std::string read_name(config::ConfigSection& section) {
  section.require("name", "the name that jobs use");
  return section.text("name", "");
}

StepModel read_step(config::ConfigSection& section) {
  StepModel step;
  section.require("name", "the name of the step in reports");
  step.name = section.text("name", "");
  step.random = section.flag("random", step.random);
  step.cost = section.duration("cost", step.cost);
  step.ns_per_byte = section.number("ns_per_byte", 0);
  step.output = section.size("output", step.output);
  return step;
}

}  // namespace

bool PipelineModel::decodes() const {
  return std::any_of(steps.begin(), steps.end(), [](const StepModel& step) {
    return step.name.find("decode") != std::string::npos;
  });
}

std::vector<AppliedStep> PipelineModel::applied(Bytes stored_bytes) const {
  std::vector<AppliedStep> all;
  Bytes bytes = stored_bytes;
  bool before_random = true;
  for (const StepModel& step : steps) {
    before_random = before_random && !step.random;
    const auto by_size = Duration(std::llround(step.ns_per_byte * static_cast<double>(bytes)));
    bytes = std::max<Bytes>(1, step.output.of(bytes));
    all.push_back({&step, step.cost + by_size, bytes, before_random});
  }
  return all;
}

engine::PipelineInfo PipelineModel::info(Bytes stored_bytes, std::uint32_t samples) const {
  engine::PipelineInfo info;
  info.hash = hash(digest_of(name), stored_bytes, samples);
  info.prepared_bytes = stored_bytes * samples;
  Digest prefix = 0;
  for (const AppliedStep& one : applied(stored_bytes)) {
    info.hash = digest_of(*one.step, info.hash);
    info.has_random = info.has_random || one.step->random;
    info.prepared_bytes = one.output * samples;
    (one.before_random ? info.decode_cost : info.augment_cost) += one.cost * samples;
    if (!one.before_random) continue;
    prefix = digest_of(*one.step, prefix);
    info.decoded_bytes = one.output * samples;
  }
  info.prefix_hash = hash(prefix, stored_bytes, samples);
  return info;
}

Duration JobModel::work() const {
  const auto steps_most = static_cast<std::int64_t>(std::min<std::uint64_t>(steps, INT32_MAX));
  return step.count() <= INT64_MAX / std::max<std::int64_t>(1, steps_most) ? step * steps_most
                                                                           : Duration::max();
}

DatasetModel read_dataset(config::ConfigSection& entry) {
  DatasetModel dataset;
  entry.require("samples", "how many there are");
  dataset.samples = static_cast<std::uint64_t>(entry.integer("samples", 1, 1, 1'000'000'000'000));
  dataset.compute_only = entry.flag("compute_only", dataset.compute_only);
  if (!dataset.compute_only) {
    entry.require("bytes", "the mean bytes of a stored sample, as 115kb; or compute_only: true");
  } else if (entry.has("bytes")) {
    entry.refuse("bytes", "a dataset that is compute_only stores nothing", "leave it out");
  }
  dataset.bytes = entry.bytes("bytes", 1, 1);
  if (dataset.bytes > kBytesMost / dataset.samples) {
    entry.refuse("bytes", "all samples together are more than 2^60 bytes", "write less");
  }
  dataset.bytes_spread = read_spread(entry, "bytes");
  dataset.format = entry.choice("format", {"raw", "jpeg"}, dataset.format);
  return dataset;
}

std::vector<DatasetModel> read_datasets(config::ConfigSection& section) {
  std::vector<DatasetModel> datasets;
  section.require("datasets", "a list of datasets");
  section.sections("datasets", [&](config::ConfigSection& entry) {
    const std::string name = read_name(entry);
    refuse_twice(entry, datasets, name);
    datasets.push_back(read_dataset(entry));
    datasets.back().name = name;
  });
  return datasets;
}

std::vector<StepModel> read_steps(config::ConfigSection& section) {
  std::vector<StepModel> steps;
  section.sections("steps", [&](config::ConfigSection& step) { steps.push_back(read_step(step)); });
  return steps;
}

std::vector<PipelineModel> read_pipelines(config::ConfigSection& section) {
  std::vector<PipelineModel> pipelines;
  section.require("pipelines", "a list of pipelines");
  section.sections("pipelines", [&](config::ConfigSection& entry) {
    PipelineModel pipeline;
    pipeline.name = read_name(entry);
    refuse_twice(entry, pipelines, pipeline.name);
    pipeline.steps = read_steps(entry);
    pipeline.spread = read_spread(entry, "cost");
    pipelines.push_back(std::move(pipeline));
  });
  return pipelines;
}

}  // namespace batchflow::input
