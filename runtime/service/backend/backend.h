// Carries out the engine's commands on a real node, and hands each to the part that it concerns.
// Readings read files, preparations have blocks prepared, gatherings put batches together; batches
// go to the jobs' connections. It decides nothing, and does nothing without a command.
//
// It lives on the service's thread. Other threads report through `Post`, which runs a function
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/event.h"
#include "core/order/order.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/backend/block_slots.h"
#include "runtime/service/backend/cache_memory.h"
#include "runtime/service/backend/gatherings.h"
#include "runtime/service/backend/kept_samples.h"
#include "runtime/service/backend/memory_wait.h"
#include "runtime/service/backend/preparations.h"
#include "runtime/service/backend/readings.h"
#include "runtime/service/backend/reports.h"
#include "runtime/service/backend/spill_tier.h"

namespace batchflow::service {

// Carries out the commands that are about jobs. Jobs implements it, and so do Warming, which stands
// before Jobs, and the ranks of an agent's node.
class JobCommands {
 public:
  virtual void admitted(const engine::Admit& command) = 0;
  virtual void refused(const engine::Refuse& command) = 0;
  // `slot` is null for a batch on another node. False: the rank's connection is gone, or takes
  // nothing now.
  virtual bool deliver(const engine::Deliver& command, const Slot* slot,
                       std::uint32_t slot_samples) = 0;
  virtual void epoch_ended(const engine::EpochEnded& command) = 0;
  virtual void mixture_set(const engine::MixtureSet& command) = 0;
  virtual void exemplars_set(const engine::ExemplarsSet& command) = 0;
  virtual void source_paced(const engine::SourcePaced& command) = 0;
  virtual void slab_gone(std::uint64_t slab) = 0;

 protected:
  ~JobCommands() = default;
};

// Counts since the start; bytes are those that were moved.
struct BackendCounters {
  std::uint64_t read_samples = 0;
  std::uint64_t device_reads = 0;  // one may bring a bundle of samples
  Bytes read_bytes = 0;
  std::uint64_t read_errors = 0;
  std::uint64_t fetched_samples = 0;  // from the memory of other nodes
  Bytes fetched_bytes = 0;
  std::uint64_t store_busy_ns = 0;  // in which anything was read from the store
  std::uint64_t fetching_ns = 0;    // or fetched from another node
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
  struct Options {
    NodeId node{0};
    std::uint32_t workers_most = 1;
    memory::ScratchLimits scratch;  // of all workers
    storage::ReadEngineOptions storage;
    SpillOptions spill;
    Say say;                 // what people should know of
    Peers* peers = nullptr;  // null: there are no other nodes
  };
  // `memory` is for blocks, batches and kept samples, and for the rings of ranks. Throws
  // ConfigError when the spill file cannot be made.
  Backend(const Options& options, CacheMemory& memory, Datasets& datasets, Inbox& inbox,
          JobCommands& jobs, StallBook& stalls, Post post);
  Backend(const Backend&) = delete;

  void carry_out(std::span<const engine::Command> commands);
  // Reports the timers that are due. next_timer() is when the next one is due.
  void fire_timers(Instant now);
  Instant next_timer() const { return timers_.empty() ? kNever : timers_.begin()->first; }
  // Both may change while it runs: the most workers, whatever the engine wants, and the budget.
  void set_workers_most(std::uint32_t workers) { preparations_.set_workers_most(workers); }
  void set_memory(Bytes bytes);
  // The prepared block in a slot, for a peer. Nothing: there is none.
  struct BlockView {
    Slot slot;
    std::shared_ptr<const batch::BlockLayout> layout;
    batch::BatchSpec spec;
    PipelineId pipeline;
    std::uint64_t audience = 0;
  };
  std::optional<BlockView> block(ShareId share, SlotId slot) const;
  // Where samples of the dataset are kept, for a peer.
  struct ItemsView {
    std::vector<ShareId> shares;
    std::shared_ptr<const sources::SampleIndex> index;
    std::uint8_t bundle_shift = 0;  // of what is kept; 0: each sample is an item
    bool spills = false;            // others may be in the spill file
  };
  ItemsView items(DatasetId dataset, Digest prefix) const;
  // Keeps what a peer has read, if there is memory for it. REQUIRES: each item is one part
  void keep(const KeptItems& items);
  // For peers, which have samples read from the spill file and written to it.
  SpillTier& spill_tier() { return spill_; }
  bool may_spill(DatasetId dataset) const { return spill() && context_.datasets.knows(dataset); }
  // The rank has released a gathered batch: its slot is free.
  void released(ShareId share, SlotId slot);
  // Tries again what waits for memory. Code that has given some back calls it, and so does a timer.
  void retry_waiting();
  void each_second() {
    retry_waiting();
    readings_.ask_again();
    slots_.give_back_unused();
  }
  // Ends the processes of steps that are given up, soon.
  void end_steps() { preparations_.end_steps(); }

  // At the end: see cache_memory.h.
  void put_aside() { kept_.put_aside(); }
  // Calls `report` with events that say what was put aside of the dataset. Their lists live for the
  // call.
  void report_kept(DatasetId dataset,
                   const std::function<void(const engine::SamplesKept&)>& report) const;

  BackendCounters counters() const;
  std::vector<CacheShare> cache() const;
  const KeptSamples& kept() const { return kept_; }
  const BlockSlots& slots() const { return slots_; }
  const Readings& readings() const { return readings_; }
  const Preparations& preparations() const { return preparations_; }
  const Spill* spill() const { return spill_.file(); }  // null: there is none
  MemoryBudget& budget() { return context_.budget; }
  std::size_t waits_for_memory() const { return wait_.waiters(); }
  // Samples that could not be prepared, and why.
  const Troubles& troubles() const { return troubles_; }
  std::uint64_t corrupt_of(PipelineId pipeline, SampleRange range) const {
    return preparations_.corrupt_of(pipeline, range);
  }
  std::uint64_t corrupt_seen() const { return preparations_.corrupt_seen(); }
  // Whether something is read of the dataset, or prepared by the pipeline, now.
  template <class Id>
  bool is_at(Id id) const {
    return readings_.is_at(id) || preparations_.is_at(id);
  }

 private:
  void on(const engine::Admit& command) { jobs_.admitted(command); }
  void on(const engine::Refuse& command) { jobs_.refused(command); }
  void on(const engine::Read& command) { readings_.read(command); }
  void on(const engine::Prepare& command) { preparations_.prepare(command); }
  void on(const engine::Transfer& command) { gatherings_.gather(command); }
  void on(const engine::Deliver& command);
  void on(const engine::Drop& command);
  void on(const engine::Cancel& command);
  void on(const engine::Release& command) { readings_.release(command); }
  void on(const engine::EpochEnded& command) { jobs_.epoch_ended(command); }
  void on(const engine::MixtureSet& command) { jobs_.mixture_set(command); }
  void on(const engine::ExemplarsSet& command) { jobs_.exemplars_set(command); }
  void on(const engine::SourcePaced& command) { jobs_.source_paced(command); }
  void on(const engine::SetWorkers& command) { preparations_.set_workers(command.workers); }
  void on(const engine::SetTimer& command) { timers_.emplace(command.at, command.timer); }
  void on(const engine::LetGo&) {}  // of other nodes
  void on(const engine::Adopt& command);

  JobCommands& jobs_;
  Troubles troubles_;
  const BackendContext context_;
  order::Expander expander_;
  std::multimap<Instant, TimerId> timers_;
  std::uint64_t delivered_batches_ = 0;
  std::uint64_t delivered_samples_ = 0;
  Bytes needed_before_ = 0;  // of the budget, when commands were last carried out

  KeptSamples kept_;
  BlockSlots slots_;
  SpillTier spill_;
  MemoryWait wait_;
  // Parts with threads come last, so that these end before what they use: first the workers, which
  // end what they are making from what the reader has staged.
  Readings readings_;
  Gatherings gatherings_;
  Preparations preparations_;
};

}  // namespace batchflow::service
