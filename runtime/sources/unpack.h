// Files with samples that are not read singly: Parquet, Arrow with compressed buffers, MDS shards
// that are compressed, video. Each is unpacked once, into a folder beside the indices, and is read
// there.
//
// Parquet and Arrow are unpacked by pyarrow, in processes that are confined: they read the one file
// and write the other, both of which they are given open. So is video, by batchflow-video-split.
// MDS shards are unpacked here.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/sources/dataset_file.h"
#include "runtime/sources/index_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// Thrown while an index is made: what the files must be unpacked to, and which they are.
struct NeedsUnpacking {
  enum class By { pyarrow_parquet, pyarrow_arrow, here, video };
  By by = By::here;
  std::string format;  // that the unpacked files have
  IndexParts parts;    // with the files and the listing
};

// The root with the unpacked files, unpacked now unless that was done before. It shows the same
// descriptor as `root`. Throws DatasetError, DatasetChanged.
std::shared_ptr<const DataRoot> unpacked(const SourceOptions& options,
                                         const std::shared_ptr<const DataRoot>& root,
                                         const NeedsUnpacking& needs);

// How names of files of groups of frames end, and how their bytes begin. What is written there
// another way needs another number, so that old ones are made anew.
inline constexpr std::string_view kVideoGroups = ".bfvideo";
inline constexpr std::string_view kVideoMagic = "BFVIDEO2";

// Whether `path` is a compressed MDS shard, and its name without that ending.
bool is_zipped_shard(std::string_view path);

}  // namespace batchflow::sources
