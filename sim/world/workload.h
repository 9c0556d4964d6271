// The datasets and pipelines of a scenario in the units of the engine: catalogues at the beginning,
// ids that name them, and the sizes and costs that the backend uses.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/catalogue.h"
#include "core/engine/event.h"
#include "programs/input/scenario.h"

namespace batchflow::world {

// Keys of a stream's blocks, and of one block.
std::uint64_t stream_key(const order::Lineage& lineage);
std::uint64_t block_key(const order::Lineage& lineage);

// Whether the read is also written to a drive, and kept there.
inline bool keeps_on_drive(const engine::Read& command) {
  return !command.keep.is_none() && command.keep_at.tier == Tier::nvme;
}

class Workload {
 public:
  explicit Workload(const input::Scenario& scenario);

  const engine::Catalogues& catalogues() const { return catalogues_; }
  DatasetId dataset(const input::JobModel& job) const;
  PipelineId pipeline(const input::JobModel& job) const;

  struct Data {
    DatasetId id;
    Digest version;
    const engine::Catalogue* catalogue;
    bool compute_only;  // its samples are not read
    std::uint64_t samples_per_item;
    Bytes more_bytes;  // that an operation takes of the store beside what it is for
  };
  struct PipelineStep {
    std::string name;
    Duration cost;  // of an item
    bool decodes;   // not for an item that is decoded already
  };
  // A pipeline as it is applied to one dataset.
  struct Preparation {
    PipelineId id;
    int dataset;
    int pipeline;
    engine::PipelineInfo info;
    input::Spread spread;
    input::SlowSamples slow;
    std::vector<PipelineStep> steps;
    Bytes moved_bytes;       // of a prepared item, on its way to a rank
    std::uint64_t epochs;    // that a block stands for
    std::uint64_t per_item;  // stored samples
    bool is_streamed;        // a block stands for many that come one after the other
    std::uint32_t cores_most;

    // Samples of `items`: as they are stored, and as they are visited in all epochs.
    std::uint64_t stored(std::uint64_t items) const { return items * per_item; }
    std::uint64_t visits(std::uint64_t items) const { return stored(items) * epochs; }
  };
  const std::vector<Data>& datasets() const { return datasets_; }
  const std::vector<Preparation>& preparations() const { return preparations_; }
  const Data& data(DatasetId id) const { return datasets_[id.value - 1]; }
  const Preparation& preparation(PipelineId id) const { return preparations_[id.value - 1]; }
  const Preparation& preparation(const input::JobModel& job) const {
    return preparation(pipeline(job));
  }
  // How the block is prepared that the read is for; null: it is for a list.
  const Preparation* preparation_for(const engine::Read& read) const {
    const PipelineId id = read.lineage.pipeline;
    return id == PipelineId() ? nullptr : &preparation(id);
  }
  // How many items a read asks for, by how many operations (one a bundle), and their bytes.
  std::uint64_t items_of(const engine::Read& command) const;
  static std::uint64_t reads_of(const engine::Read& command);
  Bytes bytes_of(const engine::Read& command) const;

 private:
  static std::uint64_t key(const input::JobModel& job);

  engine::Catalogues catalogues_;
  std::vector<Data> datasets_;
  std::vector<Preparation> preparations_;
  std::unordered_map<std::uint64_t, PipelineId> pipeline_of_;  // looked up, never walked
};

}  // namespace batchflow::world
