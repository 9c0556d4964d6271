#include "runtime/service/datasets/datasets.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "core/order/lane_sizes.h"
#include "fmt/format.h"
#include "runtime/feeds/feed_index.h"
#include "runtime/prepare/picture_kinds.h"
#include "runtime/service/backend/slot_memory.h"
#include "runtime/sources/file_kinds.h"
#include "runtime/step/step_plugin.h"

namespace batchflow::service {
namespace {

// What one sample takes of the slot of a block, if the engine cuts blocks as large as it will:
// fields, keys, marks, and the gaps between them.
Bytes slot_bytes_a_sample(const batch::BatchSpec& spec, std::uint64_t samples,
                          const engine::EngineConfig& engine) {
  Bytes bytes = 17;
  for (const batch::Field& field : spec.fields)
    bytes += field.row_bytes() * field.rows_most() + (field.ragged ? 8 : 0);
  const auto block = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      order::block_samples_for(bytes, engine.block_bytes, samples, engine.blocks_least), samples));
  return (SlotMemory::slot_bytes(batch::BlockLayout(spec, block).bytes) + block - 1) / block;
}

}  // namespace

FileIdentity file_identity(int descriptor) {
  struct statx status {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &status) != 0) return {};
  FileIdentity id{std::uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino};
  if ((status.stx_mask & STATX_BTIME) != 0) {
    id.born_s = status.stx_btime.tv_sec;
    id.born_ns = status.stx_btime.tv_nsec;
  }
  return id;
}

void ServedDataset::release() {
  opened = nullptr;
  index = nullptr;
}

const storage::ReadGuard* ServedDataset::read_guard() const {
  static constexpr storage::ReadGuard kPublic{true, 0, 0};
  if (!is_brought()) return nullptr;
  if (opened->packed) return nullptr;  // the service's own files
  if (!opened->only.empty()) return &guard;
  return closed.empty() ? &kPublic : nullptr;
}

std::shared_ptr<const batch::BlockLayout> ServedPipeline::layout(std::uint32_t samples) {
  std::shared_ptr<const batch::BlockLayout>& made = layouts_[samples];
  if (!made) made = std::make_shared<const batch::BlockLayout>(spec, samples);
  return made;
}

ServedDataset& Datasets::add(std::string name, const std::filesystem::path& root,
                             std::shared_ptr<const sources::DataRoot> opened,
                             std::shared_ptr<sources::SampleIndex> index,
                             engine::Catalogue catalogue) {
  auto made = std::make_unique<ServedDataset>();
  made->id = DatasetId(static_cast<std::uint32_t>(datasets_.size()));
  made->name = std::move(name);
  made->root = root;
  add_again(*made, std::move(opened), std::move(index));
  made->bundle_shift = catalogue.bundle_shift();
  catalogues_.add(made->id, std::move(catalogue));
  served_.insert_or_assign(made->name, made->id);
  return *datasets_.emplace_back(std::move(made));
}

void Datasets::add_again(ServedDataset& dataset, std::shared_ptr<const sources::DataRoot> opened,
                         std::shared_ptr<sources::SampleIndex> index) {
  dataset.opened = std::move(opened);
  struct stat status {};
  if (dataset.opened) dataset.identity = file_identity(dataset.opened->shown());
  if (dataset.opened && fstat(dataset.opened->shown(), &status) == 0)
    dataset.guard = {false, status.st_dev, status.st_ino};
  dataset.is_feed = dynamic_cast<const feeds::FeedIndex*>(index.get()) != nullptr;
  dataset.version = index->version();
  dataset.listing = index->listing();
  dataset.index = std::move(index);
}

ServedPipeline& Datasets::add(std::string name, DatasetId dataset,
                              std::unique_ptr<prepare::Pipeline> pipeline,
                              const engine::EngineConfig& engine) {
  const std::pair key(dataset.value, name);
  if (const auto before = compiled_.find(key); before != compiled_.end()) {
    ServedPipeline& one = this->pipeline(before->second);
    if (!one.pipeline && one.spec == pipeline->spec() && one.hash == pipeline->info().hash) {
      one.pipeline = std::move(pipeline);
      return one;
    }
  }
  auto made = std::make_unique<ServedPipeline>();
  made->id = PipelineId(static_cast<std::uint32_t>(pipelines_.size()));
  made->name = std::move(name);
  made->dataset = dataset;
  engine::PipelineInfo info = pipeline->info();
  info.prepared_bytes =
      slot_bytes_a_sample(pipeline->spec(), datasets_.at(dataset.value)->index->samples(), engine);
  catalogues_.add(made->id, info);
  made->spec = pipeline->spec();
  made->hash = info.hash;
  made->pipeline = std::move(pipeline);
  compiled_.insert_or_assign(key, made->id);
  return *pipelines_.emplace_back(std::move(made));
}

ServedDataset& Datasets::add_unknown_dataset() {
  auto made = std::make_unique<ServedDataset>();
  made->id = DatasetId(static_cast<std::uint32_t>(datasets_.size()));
  made->removed = true;
  return *datasets_.emplace_back(std::move(made));
}

ServedPipeline& Datasets::add_unknown_pipeline() {
  auto made = std::make_unique<ServedPipeline>();
  made->id = PipelineId(static_cast<std::uint32_t>(pipelines_.size()));
  return *pipelines_.emplace_back(std::move(made));
}

ServedDataset* Datasets::find(std::string_view name) {
  const auto found = served_.find(name);
  return found == served_.end() ? nullptr : &dataset(found->second);
}

// A configured dataset comes before one that was brought.
ServedDataset* Datasets::find(const std::filesystem::path& root) {
  ServedDataset* brought = nullptr;
  for (const auto& [name, id] : served_) {
    ServedDataset& one = dataset(id);
    if (one.root != root) continue;
    if (!one.is_brought()) return &one;
    if (one.name == root) brought = &one;  // the whole, read as it is
  }
  return brought;
}

void Datasets::remove(ServedDataset& dataset) {
  dataset.removed = true;
  served_.erase(dataset.name);
}

ServedPipeline* Datasets::find(std::string_view name, DatasetId dataset) {
  const auto found = compiled_.find({dataset.value, std::string(name)});
  if (found == compiled_.end()) return nullptr;
  ServedPipeline& one = pipeline(found->second);
  return one.pipeline ? &one : nullptr;
}

bool Datasets::any_other_has(const step::StepPlugin& step,
                             const prepare::Pipeline& pipeline) const {
  return std::any_of(pipelines_.begin(), pipelines_.end(), [&](const auto& one) {
    if (!one->pipeline || one->pipeline.get() == &pipeline) return false;
    const auto steps = one->pipeline->plugins();
    return std::any_of(steps.begin(), steps.end(),
                       [&](const auto& its) { return its.get() == &step; });
  });
}

Bytes Datasets::own_step_bytes(const prepare::Pipeline& pipeline) const {
  Bytes bytes = 0;
  for (const auto& step : pipeline.plugins())
    if (!any_other_has(*step, pipeline)) bytes += step->bytes_each();
  return bytes;
}

std::vector<std::string> data_notes(const sources::SampleIndex& index,
                                    const prepare::Pipeline& pipeline, bool is_default,
                                    std::uint64_t corrupt_most) {
  const bool decodes = pipeline.info().decode_cost > Duration(0);
  if (index.kind() != sources::RecordKind::whole) return {};
  if (!decodes && is_default)
    return {
        fmt::format("its samples are the bytes of its files, {}, as they are: no pipeline was "
                    "named, and none is usual for them; write pipeline= for what is to be made "
                    "of them, or pipeline='bytes' to have them so (docs/datasets.md)",
                    sources::endings_text(index, true))};
  const std::uint64_t corrupt = sources::undecodable_samples(index);
  if (!decodes || corrupt == 0) return {};
  return {fmt::format(
      "{} of {} samples cannot be decoded: {}; {} can. Another sample stands in the place of each"
      "{}; convert them, or leave them out (docs/python.md)",
      corrupt, index.samples(), sources::endings_text(index, false), prepare::decoded_kinds(),
      corrupt > corrupt_most
          ? fmt::format(", and more than {} end the job (corrupt_ratio_max)", corrupt_most)
          : "")};
}

}  // namespace batchflow::service
