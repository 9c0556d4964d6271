// The backend's reads: from the storage engine into staging memory, and from there to what is kept.
// What blocks are prepared from stays staged until the engine releases it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/engine/event.h"
#include "core/order/order.h"
#include "runtime/objects/range_reader.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/backend/busy_time.h"
#include "runtime/service/backend/kept_samples.h"
#include "runtime/service/backend/reading.h"
#include "runtime/service/backend/sample_staging.h"
#include "runtime/service/backend/spill_tier.h"
#include "runtime/storage/read_engine.h"

namespace batchflow::service {

class Readings {
 public:
  // Counts since the start.
  struct Counters {
    std::uint64_t samples = 0;
    std::uint64_t reads = 0;  // of the device or its cache; one may bring a bundle of samples
    Bytes bytes = 0;
    std::uint64_t errors = 0;
    std::uint64_t fetched = 0;  // samples, or bundles, from the memory of other nodes
    Bytes fetched_bytes = 0;
  };

  Readings(const BackendContext& context, const storage::ReadEngineOptions& options,
           order::Expander& expander, KeptSamples& kept, SpillTier& spill);

  void read(const engine::Read& command);
  // False: it is no read.
  bool cancel(const engine::Request& request);
  void release(const engine::Release& command);
  // Asks other nodes again for records that these could not send: call it now and then.
  void ask_again();

  // What has been read, or is being read; null: nothing.
  const Reading* find(RequestId id) const;
  // Whether something is read of the dataset, or for the pipeline, now.
  bool is_at(DatasetId dataset) const;
  bool is_at(PipelineId pipeline) const;
  std::string_view storage() const { return reader_.description(); }
  const SampleStaging& staging() const { return staging_; }
  const Counters& counters() const { return counters_; }
  // For how long anything was under way, as long as the node is up.
  std::uint64_t store_busy_ns() const { return store_busy_.total_ns(); }
  std::uint64_t fetching_ns() const { return fetching_.total_ns(); }

 private:
  void read_rest(std::uint32_t index, const engine::Read& command);
  Digest prefix_of(const engine::Read& command) const;
  void fetch(std::uint32_t index, const engine::Read& command);
  void fetch_records(std::uint32_t index);
  void take(Reading& reading, const std::optional<FetchedItems>& items);
  void move_to_pages(Reading& reading);
  bool keep_elsewhere(std::uint32_t index);
  std::uint32_t free_reading();
  void submit(std::uint32_t index);
  void free_staging(std::uint32_t index);
  storage::ReadPiece piece(std::uint32_t index, std::size_t row);
  storage::ReadPiece source_piece(std::uint32_t index, std::size_t row);
  storage::ReadPiece spill_piece(std::uint32_t index, std::size_t row);
  void send(std::span<const storage::ReadPiece> pieces);
  objects::RangePiece range_of(const storage::ReadPiece& piece) const;
  void done(std::span<const storage::ReadResult> results, const std::string& problem = {});
  void note_result(std::uint32_t index, StagedSample& one, const storage::ReadResult& result,
                   const std::string& problem);
  bool reads_again(std::uint32_t index, std::size_t row, const storage::ReadResult& result);
  bool write_spill(std::uint32_t index);
  void keep(const Reading& reading);
  void spill_written(const storage::ReadResult& result);
  void begin_timing(Reading& reading, BusyTime& time);
  void finish(std::uint32_t index);
  using ByRequest = std::unordered_map<std::uint64_t, std::uint32_t>;  // ids of requests
  // Frees its memory when nothing is read into it any more.
  void give_up(ByRequest::iterator found);

  const BackendContext& context_;
  order::Expander& expander_;
  KeptSamples& kept_;
  SpillTier& spill_;
  Counters counters_;
  BusyTime store_busy_;
  BusyTime fetching_;
  std::deque<Reading> readings_;  // never moved; reused
  std::vector<std::uint32_t> free_readings_;
  std::vector<std::uint32_t> unanswered_;  // readings of records, to be asked for again
  ByRequest reading_of_;
  std::vector<storage::ReadPiece> pieces_;  // scratch
  SampleStaging staging_;
  // Come last, so that their threads end before what they use.
  storage::ReadEngine reader_;
  std::unique_ptr<objects::RangeReader> ranges_;  // null: nothing of a store was read yet
};

}  // namespace batchflow::service
