#include "runtime/sources/source_format.h"

#include <fmt/format.h>

#include <initializer_list>

#include "core/base/config_value.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/tar.h"
#include "runtime/sources/tfrecord.h"
#include "runtime/sources/unpack.h"

namespace batchflow::sources {
namespace {

bool ends_with(std::string_view path, std::initializer_list<std::string_view> endings) {
  const auto is_end = [&](std::string_view ending) {
    if (path.size() < ending.size()) return false;
    const std::string_view end = path.substr(path.size() - ending.size());
    for (std::size_t i = 0; i < end.size(); ++i) {
      const char c = end[i] >= 'A' && end[i] <= 'Z' ? static_cast<char>(end[i] + 32) : end[i];
      if (c != ending[i]) return false;
    }
    return true;
  };
  for (const std::string_view ending : endings)
    if (is_end(ending)) return true;
  return false;
}

// The endings that torchvision's ImageFolder takes.
bool is_picture(std::string_view path) {
  return ends_with(path,
                   {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"});
}

bool is_tar(std::string_view path) {
  return ends_with(path, {".tar"});
}
bool begins_tar(ByteView& file) {
  std::string long_name;
  TarMember member;
  return TarWalker(file, &long_name).next(member) == TarStep::member;
}

// TensorFlow's own writers name shards `train-00000-of-01024`.
bool is_tfrecord(std::string_view path) {
  if (path.find(".tfrecord", path.rfind('/') + 1) != std::string_view::npos) return true;
  constexpr std::string_view kShape = "-00000-of-00000";
  if (path.size() <= kShape.size()) return false;
  const std::string_view end = path.substr(path.size() - kShape.size());
  for (std::size_t i = 0; i < end.size(); ++i) {
    const bool digit = end[i] >= '0' && end[i] <= '9';
    if (kShape[i] == '0' ? !digit : end[i] != kShape[i]) return false;
  }
  return true;
}
bool begins_tfrecord(ByteView& file) {
  const auto head = file.view(0, kTfRecordHead);
  return head.size() == kTfRecordHead && tfrecord_length(head).has_value();
}

bool is_packed(std::string_view path) {
  return ends_with(path, {".bfpack"});
}
bool begins_packed(ByteView& file) {
  return as_text(file.view(0, kPackedMagic.size())) == kPackedMagic;
}

bool is_mds(std::string_view path) {
  return ends_with(path, {".mds"}) || is_zipped_shard(path);
}

bool is_arrow(std::string_view path) {
  return ends_with(path, {".arrow", ".feather", ".ipc"});
}
bool begins_arrow(ByteView& file) {
  return as_text(file.view(0, 6)) == "ARROW1";
}

bool is_parquet(std::string_view path) {
  return ends_with(path, {".parquet"});
}
bool begins_parquet(ByteView& file) {
  return as_text(file.view(0, 4)) == "PAR1";
}

bool is_numpy(std::string_view path) {
  return ends_with(path, {".npy"});
}
bool begins_numpy(ByteView& file) {
  return as_text(file.view(0, 6)) == std::string_view("\x93NUMPY", 6);
}

bool is_sequences(std::string_view path) {
  return ends_with(path, {".bfseq"});
}

// Either alone may hold anything: guess_format() wants both.
bool is_megatron(std::string_view path) {
  return ends_with(path, {".bin", ".idx"});
}

bool is_video(std::string_view path) {
  return ends_with(path, {".mp4", ".m4v", ".mov", ".mkv", ".webm", kVideoGroups});
}

bool is_tokens(std::string_view path) {
  return ends_with(path, {".u16", ".u32"});
}

}  // namespace

const std::vector<SourceFormat>& source_format_table() {
  static const std::vector<SourceFormat> table = {
      {"images", "pictures; folders at the root are classes", is_picture, nullptr, true,
       index_whole_files},
      {"webdataset", "tar files; members that differ behind the first dot are one sample", is_tar,
       begins_tar, false, index_tar_shards},
      {"tfrecord", "TFRecord files of tf.train.Example", is_tfrecord, begins_tfrecord, false,
       index_tfrecords},
      {"packed", "files that `batchflowctl pack` wrote", is_packed, begins_packed, false,
       index_packed_shards},
      {"mds", "shards of MosaicML Streaming; a column of a row is a sample", is_mds, nullptr, false,
       index_mds_shards, true},
      {"arrow",
       "Arrow's files and streams, as Hugging Face's datasets keep them; a column of a row "
       "is a sample",
       is_arrow, begins_arrow, false, index_arrow_files, true},
      {"parquet", "Parquet files; a column of a row is a sample", is_parquet, begins_parquet, false,
       index_parquet_files, true},
      {"numpy", ".npy files of one shape; a row is a sample", is_numpy, begins_numpy, false,
       index_numpy_files},
      {"tokens", "numbers of 16 or 32 bits; a run of so many as `tokens` says is a sample",
       is_tokens, nullptr, false, index_token_files},
      {"megatron", "NAME.bin and NAME.idx of Megatron-LM; a document of tokens is a sample",
       is_megatron, nullptr, false, index_megatron_files},
      {"sequences", "documents that were packed into sequences; each is a sample", is_sequences,
       nullptr, false, index_sequence_shards},
      {"video",
       "MP4, QuickTime, Matroska and WebM; a group of frames is a sample, folders at the root are "
       "classes",
       is_video, nullptr, true, index_video_files, false, true},
      {"files", "any files; each is a sample, folders at the root are classes", nullptr, nullptr,
       true, index_whole_files},
  };
  return table;
}

std::vector<SourceFormatName> source_formats() {
  std::vector<SourceFormatName> names;
  for (const SourceFormat& format : source_format_table())
    names.push_back({format.name, format.reads});
  return names;
}

const SourceFormat& source_format(std::string_view dataset, std::string_view name) {
  std::vector<std::string_view> names;
  for (const SourceFormat& format : source_format_table()) {
    if (format.name == name) return format;
    names.push_back(format.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw DatasetError(
      fmt::format("{}: format '{}' is not known; write {}", dataset, name,
                  nearest.empty() ? fmt::format("{}", fmt::join(names, ", ")) : nearest));
}

}  // namespace batchflow::sources
