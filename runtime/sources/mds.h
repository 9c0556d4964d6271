// The format of MosaicML Streaming's shards (MDS), and what is in one.
//
//   shard := samples (4), offsets (4 each, one more than samples), the columns as JSON, samples
//   sample := the sizes of its columns that have no fixed size (4 each), its columns
//
// A shard says itself what its columns are, so index.json is not needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/sources/byte_view.h"
#include "runtime/sources/columns.h"

namespace batchflow::sources {

struct MdsShard {
  std::vector<std::uint32_t> offsets;  // of each sample, and the end of the last
  std::vector<Column> columns;
  std::vector<std::optional<Bytes>> fixed;  // for each column, its size in every sample
  std::uint64_t samples() const { return offsets.size() - 1; }
  Bytes head_bytes() const;  // the sizes at the begin of a sample
};

// Answers what is wrong with the shard; empty: nothing. It takes at most `memory_most` bytes.
std::string read_mds(ByteView& file, MdsShard& shard, Bytes memory_most);

// Where a column lies within a sample. False: the sample's sizes do not fit together.
struct MdsPlace {
  Bytes offset = 0;
  Bytes bytes = 0;
};
// `head` is the begin of the sample, of head_bytes().
bool find_mds_columns(const MdsShard& shard, std::span<const std::byte> head, Bytes sample_bytes,
                      std::vector<MdsPlace>& places);

// The whole number in a column's bytes; none: there is none.
std::optional<std::int64_t> mds_number(const Column& column, std::span<const std::byte> bytes);

}  // namespace batchflow::sources
