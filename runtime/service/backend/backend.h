// Carries out the engine's commands on a real node: reads files, has blocks prepared, gathers
// batches and hands them to the jobs' sessions. It decides nothing, and does nothing without a
// command.
//
// It lives on the service's thread. Other threads report through `Post`, which runs a function
// there.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/engine/event.h"
#include "core/order/order.h"
#include "runtime/service/backend/cache_report.h"
#include "runtime/service/backend/copier.h"
#include "runtime/service/backend/item_store.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/service/backend/own_pages.h"
#include "runtime/service/backend/slot_memory.h"
#include "runtime/service/backend/spill.h"
#include "runtime/service/backend/stalls.h"
#include "runtime/service/backend/troubles.h"
#include "runtime/service/backend/worker_pool.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/inbox.h"
#include "runtime/service/log/service_log.h"
#include "runtime/storage/read_engine.h"

namespace batchflow::service {

// What the backend reports to: the jobs.
class Customer {
 public:
  virtual void admitted(const engine::Admit& order) = 0;
  virtual void refused(const engine::Refuse& order) = 0;
  // False: the rank's session is gone, or takes nothing now.
  virtual bool deliver(const engine::Deliver& order, const Slot& slot,
                       std::uint32_t slot_samples) = 0;
  virtual void epoch_ended(const engine::EpochEnded& order) = 0;
  virtual void slab_gone(std::uint64_t slab) = 0;

 protected:
  ~Customer() = default;
};

// Counts since the start; bytes are those that were moved.
struct BackendCounters {
  std::uint64_t read_samples = 0;
  Bytes read_bytes = 0;
  std::uint64_t read_errors = 0;
  std::uint64_t prepared_samples = 0;
  std::uint64_t prepared_blocks = 0;
  std::uint64_t decoded_hits = 0;  // samples prepared from their decoded form
  std::uint64_t encoded_hits = 0;  // from their stored form, out of the cache
  std::uint64_t copied_samples = 0;
  std::uint64_t delivered_batches = 0;
  std::uint64_t delivered_samples = 0;
  std::uint64_t unregistered_staging = 0;  // samples that found no room in the staging memory
  std::uint64_t not_kept = 0;              // samples that were to be kept, and found no memory
  std::uint64_t no_memory = 0;  // blocks and batches that had to wait for memory, or got none
};

class Backend {
 public:
  using Post = std::function<void(std::function<void()>)>;

  struct Options {
    NodeId node{0};
    std::uint32_t workers_most = 1;
    memory::ScratchLimits scratch;  // of all workers
    storage::ReadEngineOptions storage;
    SpillOptions spill;
    Say say;  // what people should know of
  };
  // `budget` is for blocks, batches and kept samples, and for the rings of ranks. Throws
  // ConfigError when the spill file cannot be made.
  Backend(const Options& options, MemoryBudget& budget, Datasets& datasets, Inbox& inbox,
          Customer& customer, StallBook& stalls, Post post);
  ~Backend();

  void carry_out(std::span<const engine::Command> commands);
  // Reports the timers that are due. next_timer() is when the next one is due.
  void fire_timers(Instant now);
  Instant next_timer() const { return timers_.empty() ? kNever : timers_.begin()->first; }
  // These may differ from what it began with: fewer workers than the engine wants, another budget.
  void set_workers_most(std::uint32_t workers);
  void set_memory(Bytes bytes);
  // The rank has released a gathered batch: its slot is free.
  void released(ShareId share, SlotId slot);
  // Tries again what waits for memory. Code that has given some back calls it, and so does a timer.
  void retry_waiting();

  const BackendCounters& counters() const { return counters_; }
  std::string_view storage() const { return reader_->description(); }
  Bytes item_bytes() const { return items_.bytes(); }
  Bytes slot_bytes() const { return slots_.bytes(); }
  Bytes staged_bytes() const { return staged_bytes_; }            // by reads, in whole sectors
  Bytes staged_bytes_most() const { return staged_bytes_most_; }  // at any time
  MemoryBudget& budget() { return budget_; }
  const Spill* spill() const { return spill_.get(); }  // null: there is none
  std::uint32_t workers() const { return workers_there_; }
  Duration preparing() const { return workers_->busy(); }
  // Samples that could not be prepared, and why.
  const Troubles& troubles() const { return troubles_; }
  // Samples that are corrupt to a pipeline and that one of its blocks wanted; and the number of
  // these for all pipelines.
  std::uint64_t corrupt_of(PipelineId pipeline) const {
    const auto found = corrupt_.find(pipeline.value);
    return found == corrupt_.end() ? 0 : found->second.size();
  }
  std::uint64_t corrupt_seen() const { return corrupt_seen_; }
  // Whether something is read of the dataset, or prepared by the pipeline, now.
  bool is_at(DatasetId dataset) const {
    return any_at([dataset](const auto& one) { return one.dataset == dataset; });
  }
  bool is_at(PipelineId pipeline) const {
    return any_at([pipeline](const auto& one) { return one.pipeline == pipeline; });
  }
  // Ends the processes of steps that are given up, soon.
  void end_steps() { workers_->end_steps(); }
  std::size_t waits_for_memory() const { return unplaced_.size() + ungathered_.size(); }
  std::vector<CacheShare> cache() const;

 private:
  using Clock = std::chrono::steady_clock;
  // One sample of a read: where its bytes are once they are there.
  struct Staged {
    SampleId sample;
    std::byte* memory = nullptr;  // null: it is released
    OwnPages own;                 // where the engine of reads had none
    Bytes room = 0;
    Bytes lead = 0;
    Bytes bytes = 0;
    bool failed = false;
    bool spilled = false;      // is read from the spill file
    bool heals = false;        // should have been there: is written anew
    Digest sum = 0;            // that it must have then
    std::uint32_t record = 0;  // of the spill file, while it is written
  };
  struct Reading {
    engine::Request request;
    DatasetId dataset;
    PipelineId pipeline;
    ShareId keep = ShareId::none();
    bool staged = true;  // until it is released
    bool from_spill = false;
    bool to_spill = false;
    bool written = false;  // to the spill file, as far as it is to be
    bool cancelled = false;
    std::uint32_t left = 0;  // reads, then writes
    std::vector<Staged> samples;
    std::size_t found_last = 0;  // of these, as blocks ask for them in the same order
  };
  struct Preparing {
    engine::Request request;
    DatasetId dataset;
    PipelineId pipeline;
    ShareId share;
    SlotId slot;
    std::uint32_t samples;
    std::uint64_t audience;
    ShareId decoded_share;  // of what is kept decoded
    Clock::time_point since;
    bool ends = true;  // the block's last part
    bool is_given_up = false;
  };
  struct Unplaced {  // a block that waits for memory
    PreparationOrder order;
    Preparing entry;
    StallBook::Shortage shortage;
  };
  template <class Of>
  bool any_at(Of&& of) const {
    return std::any_of(readings_.begin(), readings_.end(),
                       [&](const Reading& one) { return !one.samples.empty() && of(one); }) ||
           std::any_of(preparing_.begin(), preparing_.end(),
                       [&](const auto& one) { return of(one.second); }) ||
           std::any_of(unplaced_.begin(), unplaced_.end(),
                       [&](const Unplaced& one) { return of(one.entry); });
  }
  struct Copying {
    engine::Transfer order;
    PipelineId pipeline;
    Clock::time_point since;
  };
  struct Ungathered {  // a piece of a batch that does
    Copying entry;
    StallBook::Shortage shortage;
  };
  struct Gathering {  // a ragged batch: its pieces are copied in turn
    std::uint32_t next = 0;
    std::vector<CopyOrder> waiting;
  };
  struct ShareInfo {
    PipelineId pipeline;
    std::uint32_t slot_samples = 0;
    std::uint64_t audience = 0;  // names the stream
  };

  void on(const engine::Admit& order) { customer_.admitted(order); }
  void on(const engine::Refuse& order) { customer_.refused(order); }
  void on(const engine::Read& order);
  void on(const engine::Prepare& order);
  void on(const engine::Transfer& order) { gather(order, Clock::now()); }
  void on(const engine::Deliver& order);
  void on(const engine::Drop& order);
  void on(const engine::Cancel& order);
  void on(const engine::Release& order);
  void on(const engine::EpochEnded& order) { customer_.epoch_ended(order); }
  void on(const engine::SetWorkers& order);
  void on(const engine::SetTimer& order);

  void settle_workers();
  void submit(std::uint32_t index);
  void read_rest(std::uint32_t index, const engine::Read& order);
  storage::ReadPiece source_piece(std::uint32_t index, std::size_t place);
  storage::ReadPiece spill_piece(std::uint32_t index, std::size_t place);
  bool reads_again(std::uint32_t index, std::size_t place, const storage::ReadResult& result);
  bool write_spill(std::uint32_t index);
  void spill_written(const storage::ReadResult& result);
  void tell_spill();
  void hand_to_worker(PreparationOrder&& order, const Preparing& entry);
  void fail_waiting(WorkerId worker);
  void read_done(std::span<const storage::ReadResult> results);
  void finish_read(std::uint32_t index);
  bool stage(Staged& one);
  void unstage(Staged& one);
  void free_staging(std::uint32_t index);
  void note_kept(DatasetId dataset, Digest prefix, ShareId share);
  void measure_decoded();
  bool drop_decoded(Bytes bytes);
  std::vector<ShareId> kept_in(DatasetId dataset, Digest prefix) const;
  void add_sample(PreparationOrder& out, const engine::Prepare& order, const ServedDataset& dataset,
                  std::uint32_t place, SampleId used, SampleId wanted, std::uint32_t occurrence,
                  Form form, Reading* reading);
  static Staged* staged(Reading& reading, SampleId sample);
  void take_made();
  void prepared(PreparationReport& report);
  void gather(const engine::Transfer& order, Clock::time_point since);
  void copied(engine::Request request, engine::Outcome outcome);
  void note_short();
  void wait_for_memory(PreparationOrder&& order, const Preparing& entry);
  void say_no_memory();
  void give_up(const Preparing& entry);
  std::optional<Slot> slot_of(ShareId share, SlotId slot, PipelineId pipeline,
                              std::uint32_t samples, std::uint64_t audience);

  Options options_;
  Datasets& datasets_;
  Inbox& inbox_;
  Customer& customer_;
  StallBook& stalls_;
  Post post_;
  BackendCounters counters_;
  Troubles troubles_;
  MemoryBudget& budget_;
  Bytes staged_bytes_ = 0;
  Bytes staged_bytes_most_ = 0;
  Bytes used_before_ = 0;  // of it, when orders were last carried out
  SlotMemory slots_;
  ItemStore items_;
  std::unique_ptr<Spill> spill_;
  order::Expander expander_;
  std::map<std::uint32_t, ShareInfo> shares_;  // of blocks and batches
  // Shares in which samples of a dataset are kept: as stored (prefix 0), or as a prefix of
  // pipelines leaves them.
  std::map<std::pair<std::uint32_t, Digest>, std::vector<ShareId>> kept_in_;
  struct DecodedShare {
    DatasetId dataset;
    Bytes counted = 0;  // for a sample by the engine, as far as it was told; 0: never
  };
  std::map<std::uint32_t, DecodedShare> decoded_;  // by share
  std::multimap<Instant, TimerId> timers_;
  // Since when nothing that waits for memory has got any, and when something last waited.
  Clock::time_point short_since_, short_last_;
  Clock::time_point say_no_memory_after_;

  std::map<std::uint32_t, std::unordered_set<std::uint64_t>> corrupt_;  // by pipeline
  std::uint64_t corrupt_seen_ = 0;
  std::unordered_set<std::uint64_t> fresh_;  // samples read and not used yet

  std::deque<Reading> readings_;  // never moved; reused
  std::vector<std::uint32_t> free_readings_;
  std::vector<storage::ReadPiece> pieces_;                       // scratch
  std::unordered_map<std::uint64_t, std::uint32_t> reading_of_;  // by request id
  std::unordered_map<std::uint64_t, Preparing> preparing_;       // by request id
  std::deque<Unplaced> unplaced_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Gathering> gathering_;  // by share and slot
  std::deque<Ungathered> ungathered_;                                       // waits for memory
  std::unordered_map<std::uint64_t, Copying> copying_;                      // by request id
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> copy_to_;

  std::mutex made_mutex_;
  std::deque<PreparationReport> made_;  // here, as they hold items

  std::uint32_t workers_there_ = 0;
  std::uint32_t workers_wanted_ = 0;  // by the engine
  std::uint32_t next_worker_ = 0;
  std::vector<WorkerId> working_;

  // Threads come last, so that they end before what they use.
  std::unique_ptr<storage::ReadEngine> reader_;
  std::unique_ptr<Copier> copier_;
  std::unique_ptr<WorkerPool> workers_;
};

}  // namespace batchflow::service
