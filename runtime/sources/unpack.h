// Files with samples that cannot be read singly: Parquet, Arrow with compressed buffers, MDS shards
// that are compressed, video. Each is unpacked once, into a folder beside the indices, and is read
// there.
//
// Parquet and Arrow are unpacked by pyarrow, in processes that are confined: they get two open
// files, and read the one and write the other. So is video, by batchflow-video-split. MDS shards
// are unpacked here.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/sources/dataset_file.h"
#include "runtime/sources/index_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// Thrown while an index is made: which files must be unpacked, and to which format.
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

// How the names of files with groups of frames end, and how their bytes begin. A change of what is
// written there needs another number, so that old files are made anew.
inline constexpr std::string_view kVideoGroups = ".bfvideo";
inline constexpr std::string_view kVideoMagic = "BFVIDEO2";

// Whether `path` names a compressed MDS shard.
bool is_zipped_shard(std::string_view path);

}  // namespace batchflow::sources
