#include "runtime/sources/index_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/order/permutation.h"
#include "runtime/sources/packed.h"

namespace batchflow::sources {

std::string_view IndexBuilder::path(std::uint32_t file) const {
  const auto& ends = parts.numbers[static_cast<std::size_t>(IndexSection::path_ends)];
  const std::uint64_t begin = file == 0 ? 0 : ends[file - 1];
  return std::string_view(parts.paths).substr(begin, ends[file] - 1 - begin);
}

DatasetFile IndexBuilder::open_file(std::uint32_t file) const {
  if (!root.store) return {root, path(file), is_public};
  const auto& marks = parts.numbers[static_cast<std::size_t>(IndexSection::file_marks)];
  const auto& bytes = parts.numbers[static_cast<std::size_t>(IndexSection::file_bytes)];
  return {root, path(file), objects::ObjectInfo{bytes[file], marks[file]}};
}

void IndexBuilder::add_file(std::string_view path, Bytes bytes, std::uint64_t mark) {
  if (files() == UINT32_MAX) refuse(path, "more than 2^32 files; put samples into shards");
  parts.paths += path;
  parts.paths += '\0';
  parts.list(IndexSection::path_ends).push_back(parts.paths.size());
  parts.list(IndexSection::file_bytes).push_back(bytes);
  hold(path.size() + 1 + 2 * sizeof(std::uint64_t));
  content.add(path);
  content.add(bytes);
  if (root.store) {
    parts.list(IndexSection::file_marks).push_back(mark);
    hold(sizeof(std::uint64_t));
    content.add(mark);
  }
  total_ += bytes;
}

void IndexBuilder::add_sample(std::uint64_t offset, Bytes bytes, std::int64_t label) {
  parts.list(IndexSection::offsets).push_back(offset);
  parts.list(IndexSection::sizes).push_back(bytes);
  // Most datasets have labels for all samples or for none. The list begins with the first label.
  auto& labels = parts.list(IndexSection::labels);
  if (label != kNoLabel || !labels.empty()) {
    labels.resize(samples(), static_cast<std::uint64_t>(kNoLabel));
    labels.push_back(static_cast<std::uint64_t>(label));
  }
  ++parts.head.samples;
  hold((labels.empty() ? 2 : 3) * sizeof(std::uint64_t));
  content.add(offset);
  content.add(bytes);
  content.add(static_cast<std::uint64_t>(label));
  tick(done_ + offset, total_);
}

void IndexBuilder::add_name(std::string_view name) {
  parts.names += name;
  parts.list(IndexSection::name_ends).push_back(parts.names.size());
  hold(name.size() + sizeof(std::uint64_t));
  content.add(name);
}

void IndexBuilder::add_sampled_contents() {
  if (root.store) return;  // the marks of its objects tell contents apart
  constexpr std::uint64_t kFiles = 1024, kPiecesMost = 16, kBytes = 4096;
  const std::uint64_t chosen = std::min<std::uint64_t>(files(), kFiles);
  for (std::uint64_t i = 0; i < chosen; ++i) {
    const auto file = static_cast<std::uint32_t>(i * files() / chosen);
    DatasetFile data(root, path(file), is_public);
    const std::uint64_t pieces = std::min(kPiecesMost, (data.size() + kBytes - 1) / kBytes);
    // The pieces reach from the first bytes to the last. They are all of a small file.
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      const Bytes room = data.size() > kBytes ? data.size() - kBytes : 0;
      content.add(data.view(
          pieces == 1 ? 0
                      : room / (pieces - 1) * piece + room % (pieces - 1) * piece / (pieces - 1),
          kBytes));
    }
    data.check_unchanged();
    tick(i, chosen);
  }
}

void IndexBuilder::note(std::string note) {
  if (parts.head.notes.size() < kNotesMost) {
    parts.head.notes.push_back(std::move(note));
  } else {
    ++more_notes_;
  }
}

void IndexBuilder::tick(std::uint64_t done, std::uint64_t total) {
  constexpr auto kBetween = std::chrono::milliseconds(50);
  if (!options.stop && !options.progress) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - reported_at_ < kBetween) return;
  reported_at_ = now;
  if (options.stop && options.stop())
    throw DatasetError(fmt::format("{}: stopped while it was being indexed", options.name));
  if (options.progress) options.progress(done, total, total == 0 ? "files found" : "bytes indexed");
}

void IndexBuilder::hold(Bytes bytes) {
  held_ += bytes;
  if (options.memory_most > 0 && held_ > options.memory_most)
    refuse(options.root.string(),
           fmt::format("its index takes more than the {} MiB that the index of a folder named by a "
                       "job may; give the service more memory (--memory), or have it serve this "
                       "folder by a name (--dataset NAME={})",
                       options.memory_most >> 20, options.root.string()));
}

void IndexBuilder::finish() {
  if (more_notes_ > 0) parts.head.notes.push_back(fmt::format("and {} more of these", more_notes_));
  if (samples() > order::kSamplesMost)
    refuse(options.root.string(), fmt::format("{} samples; at most {} can be served as one",
                                              samples(), order::kSamplesMost));
  auto& labels = parts.list(IndexSection::labels);
  if (!labels.empty()) labels.resize(samples(), static_cast<std::uint64_t>(kNoLabel));
  for (const std::string& name : parts.head.classes) content.add(name);
  parts.head.version = content.digest();
}

void IndexBuilder::refuse(std::string_view path, std::string_view problem) const {
  throw DatasetError(fmt::format("{}: {}: {}", options.name, path, problem));
}

}  // namespace batchflow::sources
