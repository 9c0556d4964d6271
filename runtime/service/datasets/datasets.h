// The datasets that are served, and the pipelines compiled for them: what the ids in commands mean.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/types.h"
#include "core/engine/catalogue.h"
#include "core/engine/engine_config.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/service/control/node_config.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/sample_index.h"
#include "runtime/storage/read_engine.h"

namespace batchflow::service {

// Identifies the folder or file at a path: if another one is there later, it has another
// FileIdentity.
struct FileIdentity {
  std::uint64_t device = 0, number = 0;
  std::int64_t born_s = 0, born_ns = 0;  // 0 where the file system does not tell
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
// The FileIdentity of what the descriptor has open.
FileIdentity file_identity(int descriptor);

struct ServedDataset {
  DatasetId id;
  std::string name;
  std::filesystem::path root;
  std::shared_ptr<const sources::DataRoot>
      opened;          // what is there: shown, indexed and read; null: let go
  std::string closed;  // if a job brought it: the first path below it that other users cannot read
  std::string pipeline;  // for jobs that name none
  std::string format;    // as the node file or the job names it; empty: found out
  std::uint64_t tokens = 0;
  std::shared_ptr<sources::SampleIndex> index;  // null: let go
  Digest version = 0, listing = 0;              // digests of the index
  std::uint8_t bundle_shift = 0;                // of the catalogue
  FileIdentity identity;                        // identity of the opened folder or file
  storage::ReadGuard guard;                     // what the file must be, if a job brought a file
  Bytes apart = 0;                              // memory that was set apart for it
  bool pinned = false;                          // kept although no job reads it
  bool removed = false;  // no job may join it any more; those that read it go on
  uid_t brought_by = 0;  // the user, if a job brought it
  Instant used{};        // last use, if a job brought it
  bool is_feed = false;
  NodeId log_at = NodeId::none();  // of a feed: the node with its log; none: this node
  NodeDataset asked;               // what was opened, for agents to open the same
  std::size_t part = 0;            // which of the whole and its splits it is

  ServedDataset() = default;
  bool is_brought() const { return is_brought_name(name); }
  // What its files must be when they are read: files that a job has brought may be replaced later.
  // Null: they only have to lie below the root.
  const storage::ReadGuard* read_guard() const;
  // Lets go of its index and folder, but not of what is cached of it. REQUIRES: nothing reads it
  void release();
  ServedDataset(const ServedDataset&) = delete;
  ServedDataset& operator=(const ServedDataset&) = delete;
};

// What a pipeline was compiled from.
struct PipelineText {
  std::string yaml;
  std::string file;                   // that holds it; empty: a job brought it
  std::optional<uid_t> functions_of;  // the user of a job that brought functions in it
};

struct ServedPipeline {
  PipelineId id;
  std::string name;
  DatasetId dataset;
  std::shared_ptr<const prepare::Pipeline> pipeline;  // null: let go
  batch::BatchSpec spec;                              // the batches that it makes
  Digest hash = 0;                                    // hash of all its steps
  bool brought = false;                               // a job brought it, as a text
  PipelineText text;                                  // for agents, which set up the same
  Instant used{};  // last use, if a job brought it or its dataset
  // Layouts by the number of samples that they have room for; each is made once.
  std::shared_ptr<const batch::BlockLayout> layout(std::uint32_t samples);

 private:
  std::map<std::uint32_t, std::shared_ptr<const batch::BlockLayout>> layouts_;
};

using ServedId = std::variant<DatasetId, PipelineId>;

class Datasets {
 public:
  ServedDataset& add(std::string name, const std::filesystem::path& root,
                     std::shared_ptr<const sources::DataRoot> opened,
                     std::shared_ptr<sources::SampleIndex> index, engine::Catalogue catalogue);
  // The dataset was let go, and is the same as it was. `opened` is null for a feed with its log on
  // another node.
  void add_again(ServedDataset& dataset, std::shared_ptr<const sources::DataRoot> opened,
                 std::shared_ptr<sources::SampleIndex> index);
  // What a sample takes of a slot depends on the blocks that the engine will cut. A pipeline of the
  // same name that was let go is used again.
  ServedPipeline& add(std::string name, DatasetId dataset,
                      std::unique_ptr<prepare::Pipeline> pipeline,
                      const engine::EngineConfig& engine);

  // An agent has the ids of its coordinator. These take an id each, and hold nothing.
  ServedDataset& add_unknown_dataset();
  ServedPipeline& add_unknown_pipeline();

  // No job may join it any more; those that read it go on.
  void remove(ServedDataset& dataset);
  // Datasets that are removed and pipelines that are let go are not found.
  ServedDataset* find(std::string_view name);
  ServedDataset* find(const std::filesystem::path& root);
  ServedPipeline* find(std::string_view name, DatasetId dataset);
  ServedDataset& dataset(DatasetId id) { return *datasets_.at(id.value); }
  const ServedDataset& dataset(DatasetId id) const { return *datasets_.at(id.value); }
  bool knows(DatasetId id) const { return id.value < datasets_.size() && dataset(id).index; }
  bool knows(PipelineId id) const { return id.value < pipelines_.size() && pipeline(id).pipeline; }
  ServedPipeline& pipeline(PipelineId id) { return *pipelines_.at(id.value); }
  const ServedPipeline& pipeline(PipelineId id) const { return *pipelines_.at(id.value); }
  const std::vector<std::unique_ptr<ServedDataset>>& all() const { return datasets_; }
  const std::vector<std::unique_ptr<ServedPipeline>>& pipelines() const { return pipelines_; }

  const engine::Catalogues& catalogues() const { return catalogues_; }

  // Whether another pipeline than this one has the step, too.
  bool any_other_has(const step::StepPlugin& step, const prepare::Pipeline& pipeline) const;
  // What the processes of its steps take, for each worker, without steps that others have, too.
  Bytes own_step_bytes(const prepare::Pipeline& pipeline) const;

 private:
  std::vector<std::unique_ptr<ServedDataset>> datasets_;    // by id
  std::vector<std::unique_ptr<ServedPipeline>> pipelines_;  // by id
  std::map<std::string, DatasetId, std::less<>> served_;    // those that are not removed
  std::map<std::pair<std::uint32_t, std::string>, PipelineId> compiled_;  // by dataset and name
  engine::Catalogues catalogues_;
};

// What a job's user should know of the data when the job begins. The job's script prints it.
// `is_default`: the job has named no pipeline. `corrupt_most`: how many corrupt samples end the
// job.
std::vector<std::string> data_notes(const sources::SampleIndex& index,
                                    const prepare::Pipeline& pipeline, bool is_default,
                                    std::uint64_t corrupt_most);

}  // namespace batchflow::service
