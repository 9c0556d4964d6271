// Parts of a dataset by a stated rule: the splits, subsets and filters of docs/batches.md.
//
// A split is an index of its own, with its samples numbered anew from 0 in the order of the whole's
// and a version of its own. It is a view: the whole lives as long, files are the whole's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/config_value.h"
#include "runtime/sources/sample_index.h"

namespace batchflow {

// All that is given must hold.
struct SplitRule {
  struct Range {  // both ends are in it
    std::uint64_t first = 0;
    std::uint64_t last = UINT64_MAX;
  };
  std::string folder;                // below the root
  std::filesystem::path subset;      // a file of names or keys, one a line
  std::optional<Range> keys;         // of the whole
  std::optional<Ratio> fraction;     // of the names, by a hash
  bool rest = false;                 // what the fraction leaves
  std::vector<std::string> classes;  // names
  std::optional<Range> bytes;        // of a sample as stored
  ConfigPlace place;                 // for errors
};

// Keys folder, subset, keys, fraction, part, classes, bytes. A subset's path is relative to the
// configuration's folder. Throws ConfigError.
SplitRule read_split_rule(ConfigSection& section);

struct SplitBounds {
  StopAsked stop;
  Bytes memory_most = 0;  // of the list of its samples; 0: any
};
// Throws DatasetError where the rule names what is not there, or leaves nothing.
std::unique_ptr<SampleIndex> make_split(std::shared_ptr<const SampleIndex> whole,
                                        const SplitRule& rule, std::string name,
                                        const SplitBounds& bounds = {});

}  // namespace batchflow
