// Opens a dataset's index: the one that was kept, if the dataset has not changed, or a new one.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "runtime/failpoint/failpoint.h"
#include "runtime/sources/kept_folder.h"
#include "runtime/sources/leftovers.h"
#include "runtime/sources/listing.h"
#include "runtime/sources/mds_index.h"
#include "runtime/sources/stored_index.h"
#include "runtime/sources/unpack.h"
#include "runtime/sources/write_sequences.h"

namespace batchflow::sources {
namespace {

constexpr Bytes kShardBytes = Bytes{1} << 30;

// Columns that the user names must be there to be served.
void check_columns(const SourceOptions& options, const SourceFormat& format) {
  const std::string& column = options.column.empty() ? options.label_column : options.column;
  if (column.empty() || format.columns) return;
  const bool has_parts =
      format.name == "webdataset" || format.name == "tfrecord" || format.name == "packed";
  throw DatasetError(fmt::format(
      "{}: {} '{}' is for tables, and this is read as {}, which has no columns; leave it out{}",
      options.root.string(), options.column.empty() ? "label" : "column", column, format.name,
      has_parts ? "; a pipeline names the part of a record that it works on (field: NAME)"
                : ", or write the format that the data has"));
}

IndexParts build(const SourceOptions& options, const DataRoot& root) {
  constexpr int kTries = 3;
  for (int tries = 1;; ++tries) {
    try {
      IndexBuilder builder(options, root);
      std::optional<MdsIndex> said;
      {
        const Listing listing = list_files(builder);
        const Taken taken = choose_format(builder, listing);
        check_columns(options, *taken.format);
        take_files(builder, listing, taken);
        if (taken.format->name == "mds" && !root.store) said.emplace(builder, listing);
        builder.release(listing.held());
      }
      source_format(options.name, builder.parts.head.format).index(builder);
      if (said) said->check_samples(builder);
      if (builder.samples() == 0)
        builder.refuse(options.root.string(),
                       fmt::format("no sample was found in {} files read as {}; write the format "
                                   "they have",
                                   builder.files(), builder.parts.head.format));
      builder.finish();
      return std::move(builder.parts);
    } catch (const DatasetChanged& changed) {
      if (tries == kTries)
        throw DatasetError(
            fmt::format("{}: it changes while it is being indexed ({}); start again "
                        "when it is complete",
                        options.name, changed.what()));
    }
  }
}

// The name is made from the open root, not from a path that may lead elsewhere by now.
std::filesystem::path index_path(const SourceOptions& options, const DataRoot& root) {
  ContentHash hash;
  hash.add(root.store ? root.store->url() : path_of(root.folder.get()));
  hash.add(root.only);
  if (!options.kept_for.empty()) hash.add(options.kept_for);
  hash.add(options.format);
  hash.add(options.tokens_per_sample);
  hash.add(options.token_type);
  hash.add(options.column);
  hash.add(options.label_column);
  if (options.documents) hash.add(std::uint64_t{1});
  return options.index_folder / fmt::format("{:016x}.bfindex", hash.digest());
}

// Writes the index to its file, whole or not at all. Answers what went wrong; empty: nothing.
std::string keep(const IndexParts& parts, const std::filesystem::path& path,
                 const StopAsked& stop) {
  constexpr std::size_t kAtOnce = std::size_t{64} << 20;
  const auto failed = [] { return std::string(std::strerror(errno)); };
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return error.message();
  remove_leftovers(path.parent_path(), path.filename().string() + ".tmp-");
  const std::filesystem::path temporary = fmt::format("{}.tmp-{}", path.string(), getpid());
  const protocol::Descriptor fd(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return failed();
  std::string problem;
  write_index(parts, [&](std::span<const std::byte> bytes) {
    while (!bytes.empty() && problem.empty()) {
      if (stop && stop()) {
        problem = "the service ends, or no job waits for it";
        return;
      }
      const ssize_t written = write(fd.get(), bytes.data(), std::min(bytes.size(), kAtOnce));
      if (written < 0 && errno != EINTR) problem = failed();
      if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  });
  if (BF_FAILPOINT("sources.index.write")) problem = std::strerror(ENOSPC);
  if (problem.empty() && fsync(fd.get()) != 0) problem = failed();
  if (BF_FAILPOINT("sources.index.rename")) problem = std::strerror(EIO);
  if (problem.empty() && rename(temporary.c_str(), path.c_str()) != 0) problem = failed();
  if (!problem.empty()) unlink(temporary.c_str());
  const protocol::Descriptor folder(
      open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) fsync(folder.get());
  return problem;
}

std::unique_ptr<StoredIndex> show(const SourceOptions& options, std::unique_ptr<IndexBytes> bytes,
                                  std::vector<std::string> notes, std::string& problem) {
  IndexView view;
  problem = view.read(bytes->span(), options.stop);
  if (!problem.empty()) return nullptr;
  return std::make_unique<StoredIndex>(options.name, std::move(bytes), std::move(view),
                                       std::move(notes));
}

std::unique_ptr<StoredIndex> open_in_place(const SourceOptions& options) {
  const auto& opened = options.opened;
  const DataRoot& root = *opened;
  if (!options.format.empty()) source_format(options.name, options.format);
  std::vector<std::string> notes;
  std::filesystem::path path;
  std::string problem;
  if (!options.index_folder.empty()) {
    path = index_path(options, root);
    if (auto bytes = IndexBytes::map(path)) {
      auto kept = show(options, std::move(bytes), {}, problem);
      if (kept) check_columns(options, source_format(options.name, kept->view().head().format));
      if (kept && is_unchanged(options, root, kept->view().head())) return kept;
      if (!kept)
        notes.push_back(fmt::format("{}: {}; the index was made again", path.string(), problem));
    }
  }
  const IndexParts parts = build(options, root);
  if (!path.empty()) {
    problem = keep(parts, path, options.stop);
    if (problem.empty()) {
      if (auto bytes = IndexBytes::map(path))
        if (auto kept = show(options, std::move(bytes), notes, problem)) return kept;
    }
    notes.push_back(
        fmt::format("{}: the index cannot be kept ({}), and is made again at each start",
                    path.string(), problem.empty() ? std::strerror(errno) : problem));
  }
  std::vector<std::byte> memory;
  write_index(parts, [&](std::span<const std::byte> bytes) { append(memory, bytes); });
  auto index = show(options, std::make_unique<IndexBytes>(std::move(memory)), notes, problem);
  if (!index) throw DatasetError(fmt::format("{}: {}", options.name, problem));
  return index;
}

// The index of what the files are unpacked to.
std::unique_ptr<StoredIndex> open_unpacked(const SourceOptions& options,
                                           const std::shared_ptr<const DataRoot>& opened,
                                           const NeedsUnpacking& needs) {
  if (options.refuses_closed)
    throw DatasetError(
        fmt::format("{}: its samples cannot be read one by one, and are unpacked to the service's "
                    "drive for its "
                    "own user alone; have the service serve it by a name (--dataset NAME={})",
                    options.name, options.root.string()));
  SourceOptions inner = options;
  inner.opened = unpacked(options, opened, needs);
  inner.root = path_of(inner.opened->folder.get());
  inner.format = needs.format;
  inner.closed = nullptr;
  try {
    auto index = open_in_place(inner);
    index->set_unpacked(inner.opened, needs.parts.head.listing);
    return index;
  } catch (const NeedsUnpacking&) {
    throw DatasetError(
        fmt::format("{}: what it was unpacked to cannot be read; remove {}, which another program "
                    "may have changed",
                    options.name, inner.root.string()));
  }
}

std::unique_ptr<StoredIndex> open_here_or_unpacked(const SourceOptions& options) {
  try {
    return open_in_place(options);
  } catch (const NeedsUnpacking& needs) {
    return open_unpacked(options, options.opened, needs);
  }
}

// The index of the sequences that the documents are packed into.
std::unique_ptr<SampleIndex> open_sequences(const SourceOptions& options) {
  SequenceRule rule = options.sequences;
  if (rule.packing.empty()) rule.packing = packing_names().front();
  if (const std::string problem = rule.problem(options.tokens_per_sample); !problem.empty())
    throw DatasetError(fmt::format("{}: {}", options.name, problem));
  if (options.index_folder.empty())
    throw DatasetError(fmt::format(
        "{}: its documents are packed into sequences, and there is no folder to write them to; "
        "have a service serve it, or write `batchflowctl pack --tokens {} --packing {}`",
        options.name, options.tokens_per_sample, rule.packing));
  if (options.refuses_closed)
    throw DatasetError(
        fmt::format("{}: its documents are packed into sequences, on the service's drive and for "
                    "its own user alone; have the service serve it by a name (--dataset NAME={},"
                    "tokens={})",
                    options.name, options.root.string(), options.tokens_per_sample));
  const auto documents = open_documents(options);
  const auto root = documents->unpacked() ? documents->unpacked() : options.opened;
  ContentHash of_rule, as_it_is;
  of_rule.add(rule.text(options.tokens_per_sample));
  of_rule.add(options.column);
  as_it_is.add(documents->version());
  as_it_is.add(documents->listing());
  SourceOptions inner = options;
  inner.opened =
      kept_folder(options, options.opened, {"sequences", of_rule.digest(), as_it_is.digest()},
                  [&](const std::filesystem::path& folder) {
                    write_sequences(*documents, *root, rule, options.tokens_per_sample,
                                    {folder, "documents", kShardBytes, "bfseq"}, options.stop,
                                    options.progress);
                  });
  inner.root = path_of(inner.opened->folder.get());
  inner.format = "sequences";
  inner.sequences = {};
  inner.tokens_per_sample = 0;
  inner.closed = nullptr;
  auto index = open_in_place(inner);
  index->set_unpacked(inner.opened, documents->listing());
  index->add_notes(documents->notes());
  return index;
}

}  // namespace

std::unique_ptr<StoredIndex> open_documents(const SourceOptions& options) {
  SourceOptions of_documents = options;
  of_documents.tokens_per_sample = 0;
  of_documents.sequences = {};
  of_documents.documents = true;
  if (!of_documents.opened) of_documents.opened = open_data(options.root);
  auto documents = open_here_or_unpacked(of_documents);
  const std::string problem =
      no_documents(*documents, documents->view().head().format == "megatron");
  if (!problem.empty()) throw DatasetError(fmt::format("{}: {}", options.name, problem));
  return documents;
}

std::unique_ptr<SampleIndex> open_index(const SourceOptions& options) {
  SourceOptions with_root = options;
  if (!with_root.opened) with_root.opened = open_data(options.root);
  if (!options.sequences.packing.empty()) return open_sequences(with_root);
  try {
    return open_here_or_unpacked(with_root);
  } catch (const WantsSequences&) {
    return open_sequences(with_root);
  }
}

}  // namespace batchflow::sources
