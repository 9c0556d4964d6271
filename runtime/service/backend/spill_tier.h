// The backend's second tier: what is read from the spill file and written to it, and what becomes
// of that. The readings own the memory that the bytes go to or come from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/backend/reading.h"
#include "runtime/service/backend/spill.h"
#include "runtime/storage/read_engine.h"

namespace batchflow::service {

class SpillTier {
 public:
  // `file` outlives it; null: there is no tier.
  SpillTier(const BackendContext& context, Spill* file) : context_(context), file_(file) {}
  // What is in the file stays there for the next engine. REQUIRES: nothing reads or writes it now
  ~SpillTier();
  SpillTier(const SpillTier&) = delete;

  // `share` keeps samples of the dataset from here on.
  void open(ShareId share, DatasetId dataset) { file_->open(share, dataset); }
  void drop(ShareId share, ItemId item) { file_->drop(share, item); }
  // What is there of the dataset from before this engine.
  std::vector<SampleId> kept_before(DatasetId dataset) const;
  // It is in this share from now on.
  void adopt(DatasetId dataset, ShareId share);

  // How to read the sample. The piece has no memory and no tag yet.
  struct Read {
    storage::ReadPiece piece;
    Digest sum = 0;  // that the bytes must have
  };
  // Empty: the sample should have been there, and is not.
  std::optional<Read> read(DatasetId dataset, SampleId sample);
  // The same for a peer, which asks for what may be elsewhere: nothing is counted.
  std::optional<Read> find(DatasetId dataset, SampleId sample) const;
  // Whether the sample was read as it was written. If not, it counts as missing.
  bool is_sound(DatasetId dataset, const StagedSample& sample, const storage::ReadResult& result);
  // The same for what find() has answered. The sample may have left since.
  bool is_sound(DatasetId dataset, SampleId sample, const Read& read,
                const storage::ReadResult& result);

  struct Write {
    storage::ReadPiece piece;
    std::uint32_t entry = 0;
  };
  // Empty: there is no room for the sample, or it has no bytes.
  std::optional<Write> write(DatasetId dataset, const StagedSample& sample);
  // The write has ended. `dropped`: the read that it was for has been given up.
  void written(DatasetId dataset, const StagedSample& sample, const storage::ReadResult& result,
               bool dropped);

  const Spill* file() const { return file_; }           // null: there is none
  std::uint64_t not_kept() const { return not_kept_; }  // samples that found no room

 private:
  void report_change();

  const BackendContext& context_;
  Spill* const file_;
  std::uint64_t not_kept_ = 0;
};

}  // namespace batchflow::service
