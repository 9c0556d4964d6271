// A SampleIndex over the bytes of an index file, mapped or in memory.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/sources/index_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// Bytes in memory or in a mapped file, which do not move.
class IndexBytes {
 public:
  explicit IndexBytes(std::vector<std::byte> memory) : memory_(std::move(memory)) {}
  // Maps a file; null, with errno, where it cannot be mapped.
  static std::unique_ptr<IndexBytes> map(const std::filesystem::path& file);
  ~IndexBytes();
  IndexBytes(const IndexBytes&) = delete;
  IndexBytes& operator=(const IndexBytes&) = delete;
  std::span<const std::byte> span() const { return mapped_.data() ? mapped_ : memory_; }
  Bytes memory_bytes() const { return memory_.size(); }

 private:
  explicit IndexBytes(std::span<const std::byte> mapped) : mapped_(mapped) {}
  std::vector<std::byte> memory_;
  std::span<const std::byte> mapped_;
};

class StoredIndex final : public SampleIndex {
 public:
  // REQUIRES: `view` shows `bytes`
  StoredIndex(std::string name, std::unique_ptr<IndexBytes> bytes, IndexView view,
              std::vector<std::string> notes);

  const std::string& name() const override { return name_; }
  Digest version() const override { return view_.head().version; }
  Digest listing() const override { return listing_ ? *listing_ : view_.head().listing; }
  RecordKind kind() const override { return view_.head().kind; }
  std::uint64_t samples() const override { return view_.head().samples; }
  const batch::BatchSpec& stored_fields() const override { return view_.head().fields; }
  const std::vector<std::string>& classes() const override { return view_.head().classes; }
  Extent extent(SampleId sample) const override;
  std::optional<std::int64_t> label(SampleId sample) const override;
  std::string sample_name(SampleId sample) const override;
  std::uint32_t files() const override { return view_.files(); }
  std::string_view path(std::uint32_t file) const override;
  Bytes file_bytes(std::uint32_t file) const override;
  std::uint64_t file_mark(std::uint32_t file) const override { return view_.file_mark(file); }
  std::optional<Bytes> uniform_bytes() const override;
  bool is_dense() const override { return kind() == RecordKind::rows; }
  Bytes memory_bytes() const override { return bytes_->memory_bytes(); }
  engine::Catalogue catalogue() const override { return catalogue_of(*this); }
  std::vector<std::string> notes() const override { return notes_; }
  void add_notes(const std::vector<std::string>& more) {
    notes_.insert(notes_.end(), more.begin(), more.end());
  }

  const IndexView& view() const { return view_; }
  std::shared_ptr<const DataRoot> unpacked() const override { return unpacked_; }
  // `listing` is that of the files that were unpacked: the unpacked ones have other times on each
  // node.
  void set_unpacked(std::shared_ptr<const DataRoot> root, Digest listing) {
    unpacked_ = std::move(root);
    listing_ = listing;
  }

  // The catalogue of any index. It has labels where each sample has one that can be a class. Throws
  // DatasetError, also when it is to stop.
  static engine::Catalogue catalogue_of(const SampleIndex& index, const StopAsked& stop = {});

 private:
  std::string name_;
  std::unique_ptr<IndexBytes> bytes_;
  IndexView view_;
  std::vector<std::string> notes_;
  std::shared_ptr<const DataRoot> unpacked_;
  std::optional<Digest> listing_;
};

// The index of the documents of a dataset, each a list of whole numbers. Throws DatasetError.
std::unique_ptr<StoredIndex> open_documents(const SourceOptions& options);

}  // namespace batchflow::sources
