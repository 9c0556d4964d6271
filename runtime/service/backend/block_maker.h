// The task that a worker gets, what it reports, and how it makes the samples of the task.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
    bool is_kept = false;       // `input.bytes` are in the cache
    std::uint32_t index = 0;    // in the block
    SampleId wanted;            // the corrupt one that it stands for, or itself
    bool keep_decoded = false;  // its decoded form is to be kept
    Bytes bytes = 0;            // that stored ones must have; other than that it is corrupt
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
  // The samples of the block from index `kept_from` on that are kept as stored, except those
  // that stand in `samples`, which are in ascending order then. A worker adds them.
  std::vector<SampleId> kept_samples;
  std::uint32_t kept_from = 0;
  // Where samples of the dataset are kept, as stored and as this pipeline decodes them.
  std::vector<ShareId> stored_in, decoded_in;
  bool is_given_up = false;  // before it was begun
  std::uint64_t number = 0;  // of the pool's tasks, in the order in which they came

  // What an ingredient of the block is made of. `wanted` is its sample, or the corrupt one that it
  // stands for.
  Sample sample_of(const engine::Ingredient& ingredient, SampleId wanted) const;
  // Puts `kept_samples` among `samples`.
  void add_kept_samples();
};

struct PreparationReport {
  engine::Request request;
  WorkerId worker;
  engine::Outcome outcome = engine::Outcome::done;
  std::vector<SampleId> corrupt;
  std::vector<std::string>
      problems;  // why each is corrupt, in turn; empty: it was not there. Or why the task failed
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
  // Set: the preparation could not begin or end, because the machine has no memory for it.
  std::optional<PreparationTask> unbegun;
};

// Makes samples of one task into its slot, by a preparer of its own. Several makers may share a
// task, each with other samples of it, unless a field is ragged.
class BlockMaker {
 public:
  // Samples are found and made this many at a time.
  static constexpr std::size_t kAtOnce = 64;

  // REQUIRES: task.slot is filled. All outlive the maker; `preparer` may become another between two
  // calls.
  BlockMaker(ItemStore& items, const PreparationTask& task,
             const std::unique_ptr<prepare::Preparer>& preparer, const std::atomic<bool>& gives_up);
  BlockMaker(const BlockMaker&) = delete;

  // Makes samples [first, last) and adds to the report what came of them. False: the task fails,
  // and the report says why, or it was given up. Throws std::bad_alloc. REQUIRES: last <= first +
  // kAtOnce
  bool make(std::size_t first, std::size_t last, PreparationReport& report);
  // After the last sample of a task that one maker made.
  void end();
  static bool has_ragged_field(const PreparationTask& task);

 private:
  void find_kept(std::size_t first, std::size_t last);
  void expect(std::size_t first, std::size_t last);
  prepare::Preparer::Input input_of(const PreparationTask::Sample& sample,
                                    const ItemStore::Item& held) const;
  static bool is_whole(const PreparationTask::Sample& sample, const prepare::Preparer::Input& input,
                       bool is_held);
  void make_no_rows(std::uint32_t index);

  ItemStore& items_;
  const PreparationTask& task_;
  const std::unique_ptr<prepare::Preparer>& preparer_;
  const std::atomic<bool>& gives_up_;
  const bool ragged_;  // a field of the block is
  const bool apart_;   // a sample is made apart, and then inserted
  const batch::BlockWriter block_;
  batch::BlockLayout one_;
  memory::ScratchMemory scratch_;
  PreparationReport::Decoded decoded_;
  prepare::Preparer::KeepDecoded keep_;
  std::vector<ItemStore::Item> kept_;
};

}  // namespace batchflow::service
