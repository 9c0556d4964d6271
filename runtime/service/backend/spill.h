// The second tier of the cache: samples as they are stored, in one file on a local drive.
//
// The file has no name, so that nothing is left when the process is killed. It outlives the engines
// that it keeps samples for. The storage engine writes and reads it, and so do the connections of
// other nodes (runtime/service/cluster/peer_spill.h); this class knows what lies where. Each sample
// has whole pages, as the engine counts, and a checksum. A sample that is not read back as it was
// written counts as missing, and comes from the source again. A drive that fails or fills up makes
// the tier smaller, or ends it. The engine is told, and only the copies are lost.
//
// Used on the service's thread alone.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/flat_map.h"
#include "core/base/types.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/storage/free_pages.h"

namespace batchflow::service {

struct SpillOptions {
  std::filesystem::path path;  // a folder; empty: no second tier
  Bytes bytes = 0;
  bool operator==(const SpillOptions&) const = default;
};

// Counts since the engine began.
struct SpillCounters {
  std::uint64_t read_samples = 0;  // found, and as they were written
  Bytes read_bytes = 0;
  std::uint64_t written_samples = 0;
  Bytes written_bytes = 0;
  std::uint64_t missed = 0;      // should have been there: read from the source
  std::uint64_t mismatched = 0;  // of these: not what was written
  std::uint64_t errors = 0;      // reads and writes that failed
};

class Spill {
 public:
  static constexpr Bytes kLeast = Bytes{16} << 20;

  // Makes the folder and the file. Throws ConfigError when there can be no file at all; note() has
  // anything else to say, such as that it is smaller than asked for. The table of the samples in it
  // takes memory of `budget`, 128 bytes each.
  Spill(const SpillOptions& options, MemoryBudget& budget);
  // Whether it is what these options ask for, and still of use: it has not been given up, and its
  // folder is there.
  bool is_still(const SpillOptions& options) const;

  int descriptor() const { return file_.get(); }
  const std::string& note() const { return note_; }
  std::string description() const;  // for people: the note, or how large it is, and where
  // What the engine may keep here. It is less than the file, since each sample needs pages in a
  // row.
  Bytes capacity() const { return capacity_; }
  Bytes used() const { return pages_used_ * storage::FreePages::kPage; }
  const SpillCounters& counters() const { return counters_; }

  // `share` keeps samples of the dataset from here on.
  void open(ShareId share, DatasetId dataset) {
    datasets_[share.value] = dataset;
    sums_[dataset.value].share = share;
  }
  struct Sum {
    ShareId share;  // the last that was opened
    std::uint64_t items = 0;
    Bytes bytes = 0;
  };
  const std::map<std::uint32_t, Sum>& sums() const { return sums_; }  // by dataset
  struct Found {
    std::uint64_t offset = 0;
    Bytes bytes = 0;
    Digest sum = 0;
  };
  // Empty: the sample is not there, or not yet.
  std::optional<Found> find(DatasetId dataset, SampleId sample) const;
  // Where to write the sample, instead of any copy it had; empty when there is no room.
  struct Writing {
    std::uint32_t entry;
    std::uint64_t offset;
  };
  std::optional<Writing> begin(DatasetId dataset, SampleId sample, Bytes bytes);
  // The write has ended. `error` is its errno, or 0; after an error the pages are free.
  void end(std::uint32_t entry, Digest sum, int error);
  void drop(DatasetId dataset, SampleId sample);
  void drop(ShareId share, ItemId item);

  // No engine knows any more what is here. It stays, by the versions of its datasets, until its
  // room is needed; what was being written is dropped. `version_of` answers nothing for a dataset
  // that was let go, and then its samples are dropped, too.
  void put_aside(const std::function<std::optional<Digest>(DatasetId)>& version_of);
  std::vector<SampleId> aside(Digest version) const;
  // The share has it from now on, beside what the share has already.
  void adopt(Digest version, DatasetId dataset, ShareId share);

  // The sample was read as it was written.
  void was_read(Bytes bytes);
  // It should have been there, and is not.
  void missed() { ++counters_.missed; }
  // It was not what was written, or could not be read (errno): it is missed, too.
  void failed(DatasetId dataset, SampleId sample, int error);
  // What to tell the engine and people after failures: the new capacity, and why.
  struct Change {
    Bytes capacity;
    std::string why;
  };
  std::optional<Change> take_change();

 private:
  struct Entry {
    std::uint64_t key = 0;
    Digest sum = 0;
    std::uint32_t page = 0;
    std::uint32_t bytes = 0;
    bool writing = false;  // its bytes are not there yet
    bool dropped = false;  // while it was being written
  };
  static std::uint64_t key(DatasetId dataset, SampleId sample) {
    return std::uint64_t{dataset.value} << 32 | sample.value;
  }
  static DatasetId dataset_in(std::uint64_t key) {
    return DatasetId(static_cast<std::uint32_t>(key >> 32));
  }
  void count(std::uint32_t entry);
  void free(std::uint32_t entry);
  void give_back(std::uint32_t entry);
  bool drop_aside();
  void shrink(Bytes capacity, std::string why);
  void count_fault(int error);

  const SpillOptions asked_;
  MemoryBudget& budget_;
  std::vector<MemoryCharge> memory_;  // of the entries
  protocol::Descriptor file_;
  std::string path_;
  std::string note_;
  Bytes capacity_ = 0;
  std::optional<Change> change_;
  std::uint64_t faults_ = 0;
  SpillCounters counters_;
  storage::FreePages::Page pages_used_ = 0;
  storage::FreePages free_pages_{0};
  FlatMap where_;  // an entry
  std::deque<Entry> entries_;
  std::vector<std::uint32_t> free_entries_;
  std::map<std::uint32_t, DatasetId> datasets_;  // by share
  std::map<std::uint32_t, Sum> sums_;
  using Samples = std::map<std::uint64_t, std::uint32_t>;  // their entries
  std::map<Digest, Samples> aside_;                        // by the version of the dataset
};

}  // namespace batchflow::service
