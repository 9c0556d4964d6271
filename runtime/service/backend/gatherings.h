// The backend's gatherings: batches that cross blocks, which the copier puts together piece by
// piece, and pieces that wait for memory.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/backend/block_slots.h"
#include "runtime/service/backend/copier.h"
#include "runtime/service/backend/memory_wait.h"

namespace batchflow::service {

class Gatherings {
 public:
  Gatherings(const BackendContext& context, BlockSlots& slots, MemoryWait& wait);

  void gather(const engine::Transfer& command);
  // False: nothing of it is being copied.
  bool cancel(const engine::Request& request);
  // The batch in this slot is no more.
  void forget(ShareId share, SlotId slot) { batches_.erase({share.value, slot.value}); }
  // Tries the pieces again that wait for memory.
  void retry(MemoryWait::Clock::time_point now);

  std::uint64_t samples() const { return samples_; }  // copied since the start

 private:
  using Time = MemoryWait::Clock::time_point;
  using SlotKey = std::pair<std::uint32_t, std::uint32_t>;  // share and slot
  // What a piece is copied from: a slot, or what another node has sent.
  struct Source {
    const std::byte* memory = nullptr;
    std::shared_ptr<const void> holds;
    PipelineId pipeline;
    std::uint64_t audience = 0;
    std::uint32_t samples = 0;  // of its layout
    std::uint32_t first = 0;    // of these, the first of the piece
  };
  struct Copying {
    engine::Transfer command;
    Source source;
    Time since;
  };
  struct Waiting {  // a piece that waits for memory
    Copying entry;
    MemoryWait::Waiter waiter;
  };
  struct Batch {  // a ragged one: its pieces are copied in turn
    std::uint32_t next = 0;
    std::vector<CopyTask> waiting;
  };

  void fetch(const engine::Transfer& command);
  void gather(const Copying& entry);
  void wait_for_memory(const Copying& entry);
  void begin(CopyTask&& copy, SlotKey to);
  void copied(engine::Request request, engine::Outcome outcome);
  void copy_next(Batch& batch, std::uint32_t end);

  const BackendContext& context_;
  BlockSlots& slots_;
  MemoryWait& wait_;
  std::uint64_t samples_ = 0;
  std::map<SlotKey, Batch> batches_;
  std::deque<Waiting> waiting_;
  std::unordered_map<std::uint64_t, Copying> copying_;  // by request id
  // Of pieces that come from other nodes: the attempts, by request id.
  std::unordered_map<std::uint64_t, std::uint32_t> fetching_;
  std::map<std::uint64_t, SlotKey> copy_to_;  // of pieces of ragged batches
  // Comes last, so that its thread ends before what it uses.
  Copier copier_;
};

}  // namespace batchflow::service
