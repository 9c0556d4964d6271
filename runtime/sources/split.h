// Parts of a dataset by a stated rule: the splits, subsets and filters of docs/batches.md.
//
// A split has an index of its own, with its own version. Its samples are numbered from 0, in the
// order in which they are in the whole dataset. It keeps the index of the whole dataset alive, and
// has the same files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "programs/config/config.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// A sample is in the split if all conditions that are given hold.
struct SplitRule {
  struct Range {  // both ends are in it
    std::uint64_t first = 0;
    std::uint64_t last = UINT64_MAX;
  };
  std::string folder;                // below the root
  std::filesystem::path subset;      // a file of names or keys, one a line
  std::optional<Range> keys;         // in the whole dataset
  std::optional<Ratio> fraction;     // of the samples, by a hash of their names
  bool rest = false;                 // those that the fraction leaves out
  std::vector<std::string> classes;  // names
  std::optional<Range> bytes;        // of a sample as stored
  config::SourceLine source;         // for errors
};

// Reads the keys folder, subset, keys, fraction, part, classes and bytes. A subset's path is
// relative to the folder of the configuration. Throws ConfigError.
SplitRule read_split_rule(config::ConfigSection& section);

struct SplitBounds {
  StopAsked stop;
  Bytes memory_most = 0;  // of the list of its samples; 0: any
};
// Throws DatasetError where the rule names what is not there, or no sample is in the split.
std::unique_ptr<SampleIndex> make_split(std::shared_ptr<const SampleIndex> whole,
                                        const SplitRule& rule, std::string name,
                                        const SplitBounds& bounds = {});

}  // namespace batchflow::sources
