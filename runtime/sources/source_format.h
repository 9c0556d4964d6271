// The formats of datasets, as a table: which files each takes, and how it indexes them.
//
// To add a format, write its function in index_files.cpp, index_shards.cpp, index_columns.cpp or
// index_documents.cpp, and its line in source_format.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/sources/index_builder.h"

namespace batchflow::sources {

struct SourceFormat {
  std::string_view name;
  std::string_view reads;
  // Whether a file is of this format, by the ending of its name. Null: the format is taken only
  // when it is asked for, or when no other fits.
  bool (*takes)(std::string_view path);
  // The same by the file's first bytes; null: they show nothing.
  bool (*begins)(ByteView& file);
  // Folders at the root are classes, if there are any.
  bool classes;
  // Completes the builder's parts. The builder has the files already.
  void (*index)(IndexBuilder& builder);
  bool columns = false;     // its samples are rows of tables
  bool only_asked = false;  // it is taken only when it is asked for
};

const std::vector<SourceFormat>& source_format_table();
// For an unknown name it throws DatasetError, which says the nearest one.
const SourceFormat& source_format(std::string_view dataset, std::string_view name);

void index_whole_files(IndexBuilder& builder);
void index_tar_shards(IndexBuilder& builder);
void index_tfrecords(IndexBuilder& builder);
void index_packed_shards(IndexBuilder& builder);
void index_arrow_files(IndexBuilder& builder);
void index_parquet_files(IndexBuilder& builder);
void index_mds_shards(IndexBuilder& builder);
void index_numpy_files(IndexBuilder& builder);
void index_token_files(IndexBuilder& builder);
void index_megatron_files(IndexBuilder& builder);
void index_sequence_shards(IndexBuilder& builder);
void index_video_files(IndexBuilder& builder);

}  // namespace batchflow::sources
