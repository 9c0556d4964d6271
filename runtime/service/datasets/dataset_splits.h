// Opens a dataset and the splits that a node serves of it.
//
// Each split is served under the name DATASET:SPLIT, beside the whole, as a dataset with a version
// of its own. Its files are those of the whole, and so is the folder that a user must be able to
// read.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/service/control/node_config.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::service {

// `NAME:RULE[:RULE...]`. A rule is a fraction (`0.9`), `rest` (what the split before leaves by its
// fraction), or KEY=VALUE as in a configuration (`keys=0-49999`, `classes=cat+dog`). Throws
// ConfigError.
NodeSplit split_from_argument(std::string_view text, const std::vector<NodeSplit>& before);
// Reads `name` and the keys of read_split_rule. Throws ConfigError.
NodeSplit read_split(config::ConfigSection& section, const std::vector<NodeSplit>& before);

struct OpenedIndex {
  std::string name;
  std::shared_ptr<const sources::DataRoot> root;
  std::shared_ptr<sources::SampleIndex> index;  // null: `problem` says why
  std::shared_ptr<engine::Catalogue> catalogue;
  std::string problem;
  std::string closed;  // SourceOptions::closed, of what a job has brought
};
// The user of the job that has named a dataset by its path, and what opening it may cost.
struct Requester {
  uid_t user = 0;
  bool is_trusted = true;                          // the service's own user, or root
  std::shared_ptr<const sources::DataRoot> shown;  // what it has shown; null: the path is looked up
  Bytes memory_most = 0;                           // of an index in the making; 0: any
  std::uint64_t samples_most = 0;                  // 0: any
};
// Answers the whole, then its splits in the order in which they were written. Builds or finds the
// index.
std::vector<OpenedIndex> open_with_splits(const NodeDataset& dataset, const Requester& requester,
                                          const std::filesystem::path& index_folder,
                                          const sources::StopAsked& stop);
// The names that the whole and its splits will have.
std::vector<std::string> served_names(const NodeDataset& dataset);

}  // namespace batchflow::service
