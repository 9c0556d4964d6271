// The threads that prepare blocks. The engine knows each as a worker.
//
// They run at a lower priority than everything that delivers: with all cores busy preparing, a
// batch that is ready still reaches its job within microseconds. A worker makes one block at a
// time, sample after sample, into the slot that it was given.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/event.h"
#include "core/order/block_name.h"
#include "runtime/memory/scratch.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/service/backend/item_store.h"
#include "runtime/service/backend/slot_memory.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::service {

// A block to make, or samples of it to make anew.
struct PreparationTask {
  struct Sample {
    prepare::Preparer::Input input;
    bool is_kept = false;     // `input.bytes` are in the cache
    std::uint32_t index = 0;  // in the block
    SampleId wanted;          // the corrupt one that it stands for, or itself
    bool keep_decoded = false;
    Bytes bytes = 0;  // that stored ones must have; other than that it is corrupt
  };
  engine::Request request;
  WorkerId worker;
  std::shared_ptr<const prepare::Pipeline> pipeline;
  std::shared_ptr<const batch::BlockLayout> layout;
  Slot slot;
  bool anew =
      true;  // samples in turn, after those before them; false: some of those that are there
  std::vector<Sample> samples;
  order::Lineage lineage;
  std::shared_ptr<const sources::SampleIndex> index;
  std::uint8_t bundle_shift = 0;  // in which stored samples are kept
  // The samples of the block from index `in_bundles_from` on that are kept in bundles, except those
  // that stand in `samples`, which are in ascending order then. A worker adds them.
  std::vector<SampleId> in_bundles;
  std::uint32_t in_bundles_from = 0;
  // Where samples of the dataset are kept, as stored and as this pipeline decodes them.
  std::vector<ShareId> stored_in, decoded_in;
  bool is_given_up = false;  // before it was begun

  // What an ingredient of the block is made of. `wanted` is its sample, or the corrupt one that it
  // stands for.
  Sample sample_of(const engine::Ingredient& ingredient, SampleId wanted) const;
  // Puts what is kept in bundles among `samples`.
  void add_in_bundles();
};

struct PreparationReport {
  engine::Request request;
  WorkerId worker;
  engine::Outcome outcome = engine::Outcome::done;
  std::vector<SampleId> corrupt;
  std::vector<std::string> problems;  // of these, in turn; of a failure, why
  Duration took{0};
  std::uint32_t samples = 0;
  // Decoded samples to keep. A preparation that was given up meanwhile has none, since its share
  // may belong to others by now. Null if there was no memory.
  struct Decoded {
    SampleId sample;
    Bytes bytes = 0;
    ItemStore::Item item;
  };
  std::vector<Decoded> decoded;
  // A preparation that could not begin or end because the machine has no memory for it.
  std::optional<PreparationTask> unbegun;
};

class WorkerPool {
 public:
  using Report = std::function<void(PreparationReport)>;  // on a worker's thread
  using Quiet = std::function<void(WorkerId)>;

  // What is kept decoded is copied into memory of `items`. All outlive the pool.
  WorkerPool(ItemStore& items, const memory::ScratchLimits& scratch, Report report, Quiet quiet);
  ~WorkerPool();  // gives up what is being made, after the step of a sample that it is at

  // False: this process may have no more threads.
  [[nodiscard]] bool start(WorkerId worker);
  // The worker finishes what it is making, calls Quiet, and ends.
  void retire(WorkerId worker);
  void prepare(PreparationTask task);
  // It is reported as failed, without a problem, unless it was at its end: soon, after the step of
  // a sample that it is at.
  void cancel(engine::Request request);
  // Each ends its processes of steps that are given up, when it has made what it is making.
  void end_steps();
  // How long all workers together have been preparing.
  Duration busy() const { return Duration(busy_ns_.load(std::memory_order_relaxed)); }

 private:
  struct Worker {
    WorkerId id;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<PreparationTask> tasks;
    engine::Request current;  // is being made
    std::atomic<bool> gives_up{false};
    bool ending = false;
    bool ends_steps = false;
    std::thread thread;
  };
  void run(Worker& worker);
  // The same of one for which memory runs out; then `preparer` is another.
  PreparationReport attempt(PreparationTask& task, std::unique_ptr<prepare::Preparer>& preparer,
                            const std::atomic<bool>& gives_up);
  PreparationReport carry_out(PreparationTask& task, prepare::Preparer& preparer,
                              const std::atomic<bool>& gives_up);
  void find_kept(const PreparationTask& task, std::size_t first,
                 std::vector<ItemStore::Item>& found) const;

  ItemStore& items_;
  const std::shared_ptr<memory::ScratchBudget> scratch_;
  Report report_;
  Quiet quiet_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<std::int64_t> busy_ns_{0};
};

}  // namespace batchflow::service
