// The index of a dataset version: for each sample its bytes in a file, its name and its label. An
// index is built once, kept in a file, and mapped from there. It never changes: a changed dataset
// gets another index with another version.
//
// In every format, an encoded sample is one run of bytes of one file. `RecordKind` says how its
// fields are found (runtime/sources/record.h).
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

#include "core/base/types.h"
#include "core/engine/catalogue.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/sources/sequences.h"

namespace batchflow::sources {

enum class RecordKind : std::uint8_t {
  whole,     // the file is the sample: a picture, or any bytes
  tar,       // tar headers and members of one WebDataset sample, one after the other
  example,   // a TFRecord with its checksums; the payload is a tf.train.Example
  packed,    // a record of the format that `batchflowctl pack` writes
  rows,      // dense numbers: a row of a .npy file, or a run of tokens
  value,     // the value of one column of a table: a picture, any bytes, or numbers
  sequence,  // a packed record with tokens of documents (runtime/sources/sequence_record.h)
};

struct Extent {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  Bytes bytes = 0;
};

// The end of every note about lost samples.
inline constexpr std::string_view kLost = "copy the file again to have all";

// Sums over all samples of an index.
struct IndexSums {
  Bytes total = 0;
  Bytes largest = 1;
  std::uint64_t labelled = 0;
  // How many samples that are whole files have each ending, such as ".jpg": in lower case, from the
  // last dot of the name on; "" without a dot.
  std::map<std::string, std::uint64_t, std::less<>> endings;
};

// Long work asks this now and then, and ends with an error when the answer is true.
using StopAsked = std::function<bool()>;
// Called for each sample of a long list. It throws DatasetError when the work is to stop.
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

struct DataRoot;  // runtime/sources/dataset_file.h

class SampleIndex {
 public:
  virtual ~SampleIndex() = default;

  virtual const std::string& name() const = 0;
  virtual Digest version() const = 0;  // D
  // This also changes when a file is added, removed or written to without a change of the version.
  virtual Digest listing() const { return version(); }
  virtual RecordKind kind() const = 0;
  virtual std::uint64_t samples() const = 0;
  // The fields of a batch of samples as they are stored. Empty where samples are whole files, and
  // where samples of tars and examples have parts that make no batch; then notes() says why.
  virtual const batch::BatchSpec& stored_fields() const = 0;
  virtual const std::vector<std::string>& classes() const = 0;

  // REQUIRES: sample < samples()
  virtual Extent extent(SampleId sample) const = 0;
  virtual std::optional<std::int64_t> label(SampleId sample) const = 0;
  virtual std::string sample_name(SampleId sample) const = 0;

  virtual std::uint32_t files() const = 0;
  // Below the root; a zero byte follows.
  virtual std::string_view path(std::uint32_t file) const = 0;
  virtual Bytes file_bytes(std::uint32_t file) const = 0;
  // The mark that an object of a store must still have when it is read; 0: it is no object.
  virtual std::uint64_t file_mark(std::uint32_t) const { return 0; }

  // The size of every sample, where all have the same size and none has a label. Then no code has
  // to look at each sample.
  virtual std::optional<Bytes> uniform_bytes() const { return std::nullopt; }
  // True: each sample begins where the one before it ends, or in a further file.
  virtual bool is_dense() const { return false; }
  // The memory that the index takes, without pages of its file.
  virtual Bytes memory_bytes() const { return 0; }

  // Where its files are, if they were unpacked from others; null: below the dataset's own root.
  virtual std::shared_ptr<const DataRoot> unpacked() const { return nullptr; }

  // What the engine knows of the dataset version.
  virtual engine::Catalogue catalogue() const = 0;
  // Notes for people: files that were passed over, a tar that was cut, an index that was made
  // again.
  virtual std::vector<std::string> notes() const { return {}; }

  // The first call looks through all samples, unless they are uniform. That may take long. Throws
  // DatasetError when it is to stop.
  const IndexSums& sums(const StopAsked& stop = {}) const;

 protected:
  // The sums, if the index does not have to look at its samples for them.
  virtual std::optional<IndexSums> known_sums() const { return std::nullopt; }

 private:
  mutable std::once_flag summed_;
  mutable IndexSums sums_;
};

// The progress of long work, for a progress bar: `done` of `total` (0: not known yet), counted in
// `what`.
using IndexProgress =
    std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)>;

struct SourceOptions {
  std::string name;
  std::filesystem::path root;           // a folder, or the only file
  std::string format;                   // one of source_formats(); empty: it is found out
  std::filesystem::path index_folder;   // where indices are kept; empty: only in memory
  std::filesystem::path unpack_folder;  // for what must be unpacked; empty: index_folder
  std::uint64_t tokens_per_sample = 0;  // of token files, and of sequences
  SequenceRule sequences;               // how documents become sequences
  bool documents = false;               // what is opened is to become sequences
  std::string token_type;               // u16 or u32; empty: as the file's name ends
  std::string column;        // of tables: the column that is the sample; empty: found out
  std::string label_column;  // the column that is its label
  // The root, if it is open already; null: `root` is opened.
  std::shared_ptr<const DataRoot> opened;
  StopAsked stop;
  IndexProgress progress;
  // If not null, it becomes the first path below the root that is a link, or that not all users of
  // the machine may read. If it becomes empty, only files that all users may read are opened later.
  std::string* closed = nullptr;
  bool refuses_closed = false;  // the first such path is an error
  std::string kept_for;         // a name; each name has indices of its own
  Bytes memory_most = 0;        // that may be taken while the index is made; 0: any
};

// The index of the dataset as it is now. It is read from its file if the dataset has not changed
// since, else built again. Throws DatasetError.
std::unique_ptr<SampleIndex> open_index(const SourceOptions& options);

// The folder that holds all files of a dataset: its root or, if that is a file, the folder of the
// file; then `only` becomes the file's name. Throws DatasetError.
std::filesystem::path root_folder(const std::filesystem::path& root, std::string* only = nullptr);

// The names for SourceOptions::format, with what each reads, for messages and help.
struct SourceFormatName {
  std::string_view name;
  std::string_view reads;
};
std::vector<SourceFormatName> source_formats();

// What is wrong with a dataset, and what to do about it.
class DatasetError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace batchflow::sources
