// Writes the packed format of docs/packed.md, from values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/batch/batch_spec.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/packed.h"

namespace batchflow::sources {

struct PackOptions {
  std::filesystem::path folder;
  std::string name;  // shards are NAME-00000.bfpack, ...
  Bytes shard_bytes = Bytes{1} << 30;
  std::string_view ending = "bfpack";
};

// Writes shards. A shard gets its name only when it is whole, and the last shard says that it is
// the last. So files of an interrupted packing are never taken for a dataset. Functions throw only
// DatasetError.
class PackWriter {
 public:
  PackWriter(PackOptions options, batch::BatchSpec fields, std::vector<std::string> classes);
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  // One value for each field, in order: its elements; for a ragged field whole rows. A field
  // `label` of type i64 without a shape is also the sample's label in the index.
  void add(std::span<const std::span<const std::byte>> values);
  // Must be called at the end. REQUIRES: at least one record was added
  void close();

  std::uint64_t records() const { return records_; }

 private:
  // Throws where they are no values of the fields.
  Bytes record_bytes(std::span<const std::span<const std::byte>> values) const;
  void open_shard();
  void close_shard(bool last);
  void flush();
  std::filesystem::path shard_path() const;
  [[noreturn]] void failed(const std::string& path) const;

  PackOptions options_;
  PackedHeader header_;
  protocol::Descriptor fd_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> index_;  // of the open shard
  Bytes written_ = 0;             // of the open shard, with those in buffer_
  std::uint64_t shard_records_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace batchflow::sources
