// Datasets that tests make themselves: folders that go away, and writers of every format.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/npy.h"
#include "runtime/sources/sample_index.h"
#include "runtime/sources/tfrecord.h"
#include "tests/runtime/sources/tar_bytes.h"
#include "tests/temporary_folder.h"

namespace batchflow::test {

class Folder : public TemporaryFolder {
 public:
  void write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = *this / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }
  std::string read(std::string_view name) const {
    std::ostringstream out;
    out << std::ifstream(*this / name, std::ios::binary).rdbuf();
    return out.str();
  }
};

template <class T>
std::string little(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// -------------------------------------------------------------------------------- TFRecord ----

inline std::uint32_t masked(std::string_view bytes) {
  return sources::masked_crc32c(std::as_bytes(std::span(bytes)));
}
inline std::string tfrecord(std::string_view payload) {
  const std::string length = little(std::uint64_t{payload.size()});
  return length + little(masked(length)) + std::string(payload) + little(masked(payload));
}

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string message(std::uint64_t field, std::string_view bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string bytes_feature(std::string_view name, std::vector<std::string> values) {
  std::string list;
  for (const std::string& value : values) list += message(1, value);
  return message(1, message(1, name) + message(2, message(1, list)));
}
inline std::string int_feature(std::string_view name, std::vector<std::int64_t> values,
                               bool packed = true) {
  std::string run, single;
  for (const std::int64_t value : values) {
    run += varint(static_cast<std::uint64_t>(value));
    single += varint(1 << 3) + varint(static_cast<std::uint64_t>(value));
  }
  return message(1, message(1, name) + message(2, message(3, packed ? message(1, run) : single)));
}
inline std::string float_feature(std::string_view name, std::vector<float> values,
                                 bool packed = true) {
  std::string run, single;
  for (const float value : values) {
    run += little(value);
    single += varint(1 << 3 | 5) + little(value);
  }
  return message(1, message(1, name) + message(2, message(2, packed ? message(1, run) : single)));
}
// Of features, end to end.
inline std::string example(std::string_view features) {
  return message(1, features);
}

// ----------------------------------------------------------------------------------- NumPy ----

inline std::string npy(std::string_view type, std::string_view shape, std::string_view data,
                       unsigned version = 1, std::string_view order = "False") {
  return sources::npy_head(type, shape, version, order) + std::string(data);
}

// ----------------------------------------------------------------------------------- asking ----

inline sources::SourceOptions source(const std::filesystem::path& root, std::string format = "") {
  sources::SourceOptions options;
  options.name = "data";
  options.root = root;
  options.format = std::move(format);
  return options;
}

// The bytes of a sample, as a read of its extent gives them.
inline std::string bytes_of(const sources::SampleIndex& index, const std::filesystem::path& root,
                            std::uint64_t sample) {
  const sources::Extent extent = index.extent(SampleId(sample));
  std::string only;
  const protocol::Descriptor folder = sources::open_root(root, only);
  sources::DatasetFile file(folder.get(), index.path(extent.file));
  return std::string(sources::as_text(file.view(extent.offset, extent.bytes)));
}

inline std::string error_of(const sources::SourceOptions& options) {
  try {
    sources::open_index(options);
  } catch (const sources::DatasetError& error) {
    return error.what();
  }
  return "no error";
}

inline bool has_note(const sources::SampleIndex& index, std::string_view part) {
  for (const std::string& note : index.notes())
    if (note.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace batchflow::test
