// Opening a dataset and the splits that a node serves of it.
//
// Each split is served under the name DATASET:SPLIT, beside the whole, as a dataset with a version
// of its own. Its files are the whole's, and so is the folder that a user must be able to read.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/service/node_config.h"
#include "runtime/sources/sample_index.h"

namespace batchflow {

// `NAME:RULE[:RULE...]`, where a rule is a fraction (`0.9`), `rest` (what the fraction of the split
// before leaves), or KEY=VALUE as in a configuration (`keys=0-49999`, `classes=cat+dog`). Throws
// ConfigError.
NodeSplit split_from_argument(std::string_view text, const std::vector<NodeSplit>& before);
// `name` and the keys of read_split_rule. Throws ConfigError.
NodeSplit read_split(ConfigSection& section, const std::vector<NodeSplit>& before);

struct OpenedIndex {
  std::string name;
  std::shared_ptr<SampleIndex> index;  // null: `problem` says why
  std::shared_ptr<Catalogue> catalogue;
  std::string problem;
  std::string closed;  // SourceOptions::closed
};
// The whole, then its splits in the order in which they were written. Builds or finds the index.
std::vector<OpenedIndex> open_with_splits(const NodeDataset& dataset,
                                          const std::filesystem::path& index_folder,
                                          const std::function<bool()>& stop);
// The names that these will have.
std::vector<std::string> served_names(const NodeDataset& dataset);

}  // namespace batchflow
