// Folders beside the indices, for what is made of a dataset once: what its files are unpacked to,
// and the sequences that its documents are packed into.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/sources/dataset_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

struct KeptFolder {
  std::string_view kind;  // `unpacked`, `sequences`
  Digest what = 0;        // what is made, whatever the dataset holds now
  Digest as_it_is = 0;    // the dataset as it is now
};

// A root with the files that `make` puts into a new folder, or has put there before. It shows the
// same descriptor as `root`, the dataset's own. What was made of an earlier state of the dataset
// stays for a day. REQUIRES: options.index_folder or unpack_folder is not empty. Throws
// DatasetError, and what `make` throws.
std::shared_ptr<const DataRoot> kept_folder(
    const SourceOptions& options, const std::shared_ptr<const DataRoot>& root,
    const KeptFolder& folder, const std::function<void(const std::filesystem::path&)>& make);

// Throws DatasetError by errno.
[[noreturn]] void fail_to_write(std::string_view path, std::string_view what);
// Writes all bytes. Throws DatasetError, which names `path`.
void write_all(int to, std::span<const std::byte> bytes, std::string_view path);

}  // namespace batchflow::sources
