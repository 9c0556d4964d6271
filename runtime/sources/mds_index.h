// What index.json files say of the MDS shards beside them. Shards say themselves what they hold, so
// this only checks: no shard may be missing, cut, of another writing, or there without being named.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/types.h"
#include "runtime/sources/listing.h"

namespace batchflow::sources {

class MdsIndex {
 public:
  // Reads the index.json files of a folder, and compares them with its files. Throws DatasetError.
  MdsIndex(IndexBuilder& builder, const Listing& listing);

  // Called once the samples of all files have been found. Throws DatasetError.
  void check_samples(const IndexBuilder& builder) const;

 private:
  struct Named {
    std::string by;  // the index.json
    std::uint64_t samples = 0;
  };

  void read(IndexBuilder& builder, std::string_view path);
  void check_file(IndexBuilder& builder, const std::string& by, const std::string& path,
                  Bytes bytes) const;

  std::map<std::string, Bytes, std::less<>> there_;  // all shards, compressed ones too
  std::map<std::string, Named, std::less<>> named_;
};

}  // namespace batchflow::sources
