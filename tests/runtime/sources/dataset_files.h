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
#include "runtime/sources/sample_index.h"
#include "runtime/sources/tfrecord.h"

namespace batchflow::test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "bf-sources-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  void write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }
  std::string read(std::string_view name) const {
    std::ostringstream out;
    out << std::ifstream(path_ / name, std::ios::binary).rdbuf();
    return out.str();
  }

 private:
  std::filesystem::path path_;
};

template <class T>
std::string little(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// ------------------------------------------------------------------------------------- tar ----

inline std::string tar_header(std::string_view name, std::uint64_t bytes, char type,
                              std::string_view prefix = "") {
  std::string header(512, '\0');
  header.replace(0, std::min<std::size_t>(name.size(), 100), name.substr(0, 100));
  header.replace(100, 8, std::string("0000644\0", 8));
  header.replace(124, 12, fmt::format("{:011o} ", bytes));
  header[156] = type;
  header.replace(257, 8, std::string("ustar\00000", 8));
  header.replace(345, prefix.size(), prefix);
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

inline std::string tar_blocks(std::string_view bytes) {
  std::string blocks(bytes);
  blocks.resize((bytes.size() + 511) / 512 * 512);
  return blocks;
}

inline std::string tar_member(std::string_view name, std::string_view bytes, char type = '0') {
  return tar_header(name, bytes.size(), type) + tar_blocks(bytes);
}
inline std::string gnu_member(std::string_view name, std::string_view bytes) {
  const std::string text = std::string(name) + '\0';
  return tar_header("././@LongLink", text.size(), 'L') + tar_blocks(text) + tar_member(name, bytes);
}
inline std::string pax_line(std::string_view key, std::string_view value) {
  std::size_t length = key.size() + value.size() + 3;
  while (fmt::format("{} {}={}\n", length, key, value).size() != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}
inline std::string pax_member(std::string_view name, std::string_view bytes) {
  const std::string lines = pax_line("mtime", "1.5") + pax_line("path", name);
  return tar_header("PaxHeaders/x", lines.size(), 'x') + tar_blocks(lines) +
         tar_member("short", bytes);
}
inline std::string tar_end() {
  return std::string(1024, '\0');
}

// -------------------------------------------------------------------------------- TFRecord ----

inline std::uint32_t masked(std::string_view bytes) {
  return masked_crc32c(std::as_bytes(std::span(bytes)));
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
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type, order, shape);
  const std::size_t begin = version == 1 ? 10 : 12;
  while ((begin + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  const std::string length = version == 1 ? little(static_cast<std::uint16_t>(text.size()))
                                          : little(static_cast<std::uint32_t>(text.size()));
  return "\x93NUMPY" + std::string(1, static_cast<char>(version)) + std::string(1, '\0') + length +
         text + std::string(data);
}

// ----------------------------------------------------------------------------------- asking ----

inline SourceOptions source(const std::filesystem::path& root, std::string format = "") {
  SourceOptions options;
  options.name = "data";
  options.root = root;
  options.format = std::move(format);
  return options;
}

// The bytes of a sample, as a read of its extent gives them.
inline std::string bytes_of(const SampleIndex& index, const std::filesystem::path& root,
                            std::uint64_t sample) {
  const Extent extent = index.extent(SampleId(sample));
  std::string only;
  const Descriptor folder = open_root(root, only);
  DatasetFile file(folder.get(), index.path(extent.file));
  return std::string(as_text(file.view(extent.offset, extent.bytes)));
}

inline std::string error_of(const SourceOptions& options) {
  try {
    open_index(options);
  } catch (const DatasetError& error) {
    return error.what();
  }
  return "no error";
}

inline bool has_note(const SampleIndex& index, std::string_view part) {
  for (const std::string& note : index.notes())
    if (note.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace batchflow::test
