#include "runtime/service/datasets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/block_size.h"
#include "fmt/format.h"
#include "runtime/service/slot_memory.h"

namespace batchflow {
namespace {

// Of the slot of a block of the size that the engine will choose: fields, keys, marks, and what is
// left empty between them.
Bytes slot_bytes_a_sample(const BatchSpec& spec, std::uint64_t samples,
                          const EngineConfig& engine) {
  Bytes bytes = 17;
  for (const Field& field : spec.fields)
    bytes += field.row_bytes() * field.rows_most() + (field.ragged ? 8 : 0);
  const auto block = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      block_samples_for(bytes, engine.block_bytes, samples, engine.blocks_least), samples));
  return (SlotMemory::slot_bytes(BlockLayout(spec, block).bytes) + block - 1) / block;
}

}  // namespace

void ServedDataset::let_go() {
  if (root_descriptor >= 0) close(root_descriptor);
  root_descriptor = -1;
  index = nullptr;
}

std::shared_ptr<const BlockLayout> ServedPipeline::layout(std::uint32_t samples) {
  std::shared_ptr<const BlockLayout>& made = layouts_[samples];
  if (!made) made = std::make_shared<const BlockLayout>(spec, samples);
  return made;
}

ServedDataset& Datasets::add(std::string name, const std::filesystem::path& root,
                             std::shared_ptr<SampleIndex> index, Catalogue catalogue) {
  auto made = std::make_unique<ServedDataset>();
  made->id = DatasetId(static_cast<std::uint32_t>(datasets_.size()));
  made->name = std::move(name);
  made->root = root;
  add_again(*made, std::move(index));
  catalogues_.add(made->id, std::move(catalogue));
  return *datasets_.emplace_back(std::move(made));
}

void Datasets::add_again(ServedDataset& dataset, std::shared_ptr<SampleIndex> index) {
  const std::filesystem::path folder = root_folder(dataset.root, &dataset.only);
  dataset.root_descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dataset.root_descriptor < 0) {
    throw DatasetError(fmt::format("{}: cannot be opened: {}; let the service's user read it",
                                   folder.string(), std::generic_category().message(errno)));
  }
  dataset.version = index->version();
  dataset.listing = index->listing();
  dataset.index = std::move(index);
}

ServedPipeline& Datasets::add(std::string name, DatasetId dataset,
                              std::unique_ptr<Pipeline> pipeline, const EngineConfig& engine) {
  for (const auto& one : pipelines_) {
    const bool same = !one->pipeline && one->name == name && one->dataset == dataset;
    if (!same || one->spec != pipeline->spec() || one->hash != pipeline->info().hash) continue;
    one->pipeline = std::move(pipeline);
    return *one;
  }
  auto made = std::make_unique<ServedPipeline>();
  made->id = PipelineId(static_cast<std::uint32_t>(pipelines_.size()));
  made->name = std::move(name);
  made->dataset = dataset;
  PipelineInfo info = pipeline->info();
  info.prepared_bytes =
      slot_bytes_a_sample(pipeline->spec(), datasets_.at(dataset.value)->index->samples(), engine);
  catalogues_.add(made->id, info);
  made->spec = pipeline->spec();
  made->hash = info.hash;
  made->pipeline = std::move(pipeline);
  return *pipelines_.emplace_back(std::move(made));
}

ServedDataset* Datasets::find(std::string_view name) {
  const auto found = std::find_if(datasets_.begin(), datasets_.end(), [&](const auto& one) {
    return !one->removed && one->name == name;
  });
  return found == datasets_.end() ? nullptr : found->get();
}

ServedDataset* Datasets::find(const std::filesystem::path& root) {
  const auto found = std::find_if(datasets_.begin(), datasets_.end(), [&](const auto& one) {
    return !one->removed && one->root == root;
  });
  return found == datasets_.end() ? nullptr : found->get();
}

ServedPipeline* Datasets::find(std::string_view name, DatasetId dataset) {
  const auto found = std::find_if(pipelines_.begin(), pipelines_.end(), [&](const auto& one) {
    return one->pipeline && one->name == name && one->dataset == dataset;
  });
  return found == pipelines_.end() ? nullptr : found->get();
}

}  // namespace batchflow
