// The backend's preparations: the blocks that workers make, those that wait for memory, and the
// workers themselves.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/engine/event.h"
#include "core/order/order.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/backend/block_slots.h"
#include "runtime/service/backend/kept_samples.h"
#include "runtime/service/backend/memory_wait.h"
#include "runtime/service/backend/readings.h"
#include "runtime/service/backend/worker_pool.h"

namespace batchflow::service {

class Preparations {
 public:
  // Counts since the start.
  struct Counters {
    std::uint64_t samples = 0;
    std::uint64_t blocks = 0;
  };

  // `scratch` is for all workers together.
  Preparations(const BackendContext& context, std::uint32_t workers_most,
               const memory::ScratchLimits& scratch, order::Expander& expander, KeptSamples& kept,
               BlockSlots& slots, const Readings& readings, MemoryWait& wait);

  void prepare(const engine::Prepare& command);
  // The engine waits for what becomes of a preparation: until then its worker may write to the
  // slot.
  void cancel(const engine::Request& request);
  // Tries the blocks again that wait for memory.
  void retry(MemoryWait::Clock::time_point now);

  // There are as many workers as the engine wants, but no more than `most`.
  void set_workers(std::uint32_t wanted);
  void set_workers_most(std::uint32_t most);
  // Starts the workers that could not be started, and retires those that are too many.
  void settle_workers();
  // Ends the processes of steps that are given up, soon.
  void end_steps() { pool_.end_steps(); }

  std::uint32_t workers() const { return static_cast<std::uint32_t>(working_.size()); }
  Duration busy() const { return pool_.busy(); }
  // Whether something is prepared of the dataset, or by the pipeline, or waits to be.
  bool is_at(DatasetId dataset) const;
  bool is_at(PipelineId pipeline) const;
  // How many corrupt samples in a range the blocks of a pipeline have wanted, and how many those of
  // all pipelines.
  std::uint64_t corrupt_of(PipelineId pipeline, SampleRange range) const;
  std::uint64_t corrupt_seen() const { return corrupt_seen_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Preparing {
    engine::Request request;
    DatasetId dataset;
    ShareId share;
    SlotId slot;
    BlockSlots::Use use;
    ShareId decoded_share;  // of what is kept decoded
    MemoryWait::Clock::time_point since;
    bool ends = true;          // the block's last part
    bool is_given_up = false;  // the engine wants it no more
  };
  struct Waiting {  // a block that waits for memory
    PreparationTask task;
    Preparing entry;
    MemoryWait::Waiter waiter;
  };

  PreparationTask task_for(const engine::Prepare& command);
  void add_samples(PreparationTask& out, const engine::Prepare& command);
  void add_sample(PreparationTask& out, const engine::Prepare& command,
                  const engine::Ingredient& ingredient, SampleId wanted, const Reading* reading);
  void hand_to_worker(PreparationTask&& task, const Preparing& entry);
  void wait_for_memory(PreparationTask&& task, const Preparing& entry);
  void give_up(const Preparing& entry);
  void fail_waiting(WorkerId worker);
  void take_made();
  void prepared(PreparationReport& report);
  void note_troubles(PipelineId pipeline, DatasetId dataset, const PreparationReport& report);
  template <class IsOf>
  bool any(IsOf&& is_of) const;

  const BackendContext& context_;
  order::Expander& expander_;
  KeptSamples& kept_;
  BlockSlots& slots_;
  const Readings& readings_;
  MemoryWait& wait_;
  Counters counters_;
  std::unordered_map<std::uint64_t, Preparing> preparing_;  // by request id
  std::deque<Waiting> waiting_;
  std::map<std::uint32_t, std::vector<SampleId>> corrupt_;  // by pipeline; ascending
  std::uint64_t corrupt_seen_ = 0;

  std::mutex made_mutex_;
  std::deque<PreparationReport> made_;  // not within what is posted: reports hold items

  std::uint32_t workers_most_;
  std::uint32_t workers_wanted_ = 0;  // by the engine
  std::uint32_t next_worker_ = 0;
  std::vector<WorkerId> working_;
  // Comes last, so that its threads end before what they use.
  WorkerPool pool_;
};

}  // namespace batchflow::service
