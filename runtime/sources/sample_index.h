// A dataset version as the runtime knows it: which bytes of which file each sample is, what it is
// called, and its label. Built once by a source (folder, tar shards, ...), kept in a file, mapped
// from there, and immutable: a changed dataset is another index with another version.
//
// An encoded sample is one run of bytes of one file, whatever the source; `RecordKind` says how the
// fields are found in it (runtime/sources/record.h), which is the first thing a pipeline does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/catalogue.h"
#include "core/types.h"
#include "runtime/batch/batch_spec.h"

namespace batchflow {

enum class RecordKind : std::uint8_t {
  whole,    // the file is the sample: a picture, or any bytes
  tar,      // tar headers and members of one WebDataset sample, one after the other
  example,  // a TFRecord with its checksums; the payload is a tf.train.Example
  packed,   // a record of our own format
  rows,     // dense numbers: a row of a .npy file, or a run of tokens
};

struct Extent {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  Bytes bytes = 0;
};

// How a note ends that tells of samples that are lost.
inline constexpr std::string_view kLost = "copy the file anew to have all";

// Over all samples of an index.
struct IndexSums {
  Bytes total = 0;
  Bytes largest = 1;
  std::uint64_t labelled = 0;
  // Of samples that are whole files: how many there are of each kind, by the lower case of what is
  // behind the last dot of their names, with it; "" where there is none.
  std::map<std::string, std::uint64_t, std::less<>> endings;
};

// Asked now and then during long work, which ends with an error when the answer is true.
using StopAsked = std::function<bool()>;
// For each sample in turn of a long list: throws DatasetError when the work is to stop.
class StopCheck {
 public:
  explicit StopCheck(const StopAsked& stop) : stop_(stop) {}
  void operator()() {
    constexpr std::uint32_t kBetween = 1 << 16;
    if (++passed_ % kBetween == 0) now();
  }
  void now() const;

 private:
  const StopAsked& stop_;
  std::uint32_t passed_ = 0;
};

class SampleIndex {
 public:
  virtual ~SampleIndex() = default;

  virtual const std::string& name() const = 0;
  virtual Digest version() const = 0;  // D
  // Another one when a file has come, gone, or been written to, though it is the same to its
  // version.
  virtual Digest listing() const { return version(); }
  virtual RecordKind kind() const = 0;
  virtual std::uint64_t samples() const = 0;
  // What a batch of samples as they are stored would have. Empty: a file is its bytes; samples of
  // tars and examples have parts that make no batch, and notes() says why.
  virtual const BatchSpec& stored_fields() const = 0;
  virtual const std::vector<std::string>& classes() const = 0;

  // REQUIRES: sample < samples()
  virtual Extent extent(SampleId sample) const = 0;
  virtual std::optional<std::int64_t> label(SampleId sample) const = 0;
  virtual std::string sample_name(SampleId sample) const = 0;

  virtual std::uint32_t files() const = 0;
  virtual std::string_view path(std::uint32_t file) const = 0;  // below the root; a zero follows
  virtual Bytes file_bytes(std::uint32_t file) const = 0;

  // The size of every sample where all have the same and none has a label: then nothing needs to
  // look at each of them.
  virtual std::optional<Bytes> uniform_bytes() const { return std::nullopt; }
  // How much memory it takes, beside pages of its file.
  virtual Bytes memory_bytes() const { return 0; }

  // What the engine needs to know of it.
  virtual Catalogue catalogue() const = 0;
  // What people should know of it: files passed over, a tar that was cut, an index made anew.
  virtual std::vector<std::string> notes() const { return {}; }

  // Looks through all samples when it is first called, unless they are uniform: do that where it
  // may take its time. Throws DatasetError when it is to stop.
  const IndexSums& sums(const StopAsked& stop = {}) const;

 private:
  mutable std::once_flag summed_;
  mutable IndexSums sums_;
};

// Of a long piece of work, for a progress bar: done of how many (0: not known yet), in `what`.
using IndexProgress =
    std::function<void(std::uint64_t done, std::uint64_t of, std::string_view what)>;

struct DataRoot;  // runtime/sources/dataset_file.h

struct SourceOptions {
  std::string name;
  std::filesystem::path root;           // a folder, or the one file there is
  std::string format;                   // one of source_formats(); empty: found out
  std::filesystem::path index_folder;   // where indices are kept; empty: in memory alone
  std::uint64_t tokens_per_sample = 0;  // token files
  std::string token_type;               // u16 or u32; empty: by the file's ending
  // Where it is open already; null: `root` is looked up.
  std::shared_ptr<const DataRoot> opened;
  StopAsked stop;
  IndexProgress progress;
  // Where not null: becomes the first path below the root that not everybody on the machine may
  // read, or a link's; empty if there is none. Then files are opened only as long as that is so.
  std::string* closed = nullptr;
  bool refuses_closed = false;  // it ends with an error as soon as it meets such a path
  std::string kept_for;         // indices are kept apart for each
  Bytes memory_most = 0;        // that may be taken while the index is made; 0: any
};

// The index of what is there now: from its file if that is still true of the dataset, else built
// anew. Throws DatasetError.
std::unique_ptr<SampleIndex> open_index(const SourceOptions& options);

// The folder that all paths of a dataset are below: its root or, where that is a file, the one it
// lies in; then `only` is the file's name. Throws DatasetError.
std::filesystem::path root_folder(const std::filesystem::path& root, std::string* only = nullptr);

// Names for SourceOptions::format, and what each reads: for messages and help.
struct SourceFormatName {
  std::string_view name;
  std::string_view reads;
};
std::vector<SourceFormatName> source_formats();

// What is wrong with a dataset and what to do about it.
class DatasetError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace batchflow
