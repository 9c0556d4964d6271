// The formats datasets come in, as a table: what files each takes and how it indexes them.
//
// To add one: write its function beside its like in index_*.cpp, and its line in source_format.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/sources/index_builder.h"

namespace batchflow {

struct SourceFormat {
  std::string_view name;
  std::string_view reads;
  // By a file's ending; null: it is chosen only when asked for, or when nothing else fits.
  bool (*takes)(std::string_view path);
  // By a file's first bytes; null: they tell nothing.
  bool (*begins)(ByteView& file);
  // Folders at the root are classes, if there are any.
  bool classes;
  // Completes the builder's parts. Its files are there.
  void (*index)(IndexBuilder& builder);
};

const std::vector<SourceFormat>& source_format_table();
// Throws DatasetError with the nearest name for one that is not there.
const SourceFormat& source_format(std::string_view dataset, std::string_view name);

void index_whole_files(IndexBuilder& builder);
void index_tar_shards(IndexBuilder& builder);
void index_tfrecords(IndexBuilder& builder);
void index_packed_shards(IndexBuilder& builder);
void index_numpy_files(IndexBuilder& builder);
void index_token_files(IndexBuilder& builder);

}  // namespace batchflow
