// Which slots of device memory are pinned by which processes.
//
// A job's process releases a slot once its device has done everything that reads it
// (runtime/gpu/release_queue.h). A process that ends, or loses its connection, may have given the
// device work that still reads. The driver has ended that work only when the process is no more. So
// its slots stay pinned until then.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/types.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::gpu {

using ProcessId = Id<struct ProcessTag, std::uint64_t>;

class SlotPins {
 public:
  // A slot may be pinned by several processes, and by one process several times.
  void pin(SlotId slot, ProcessId process) { ++pins_[process][slot]; }
  // False: the process has not pinned it.
  [[nodiscard]] bool release(SlotId slot, ProcessId process);
  bool is_pinned(SlotId slot) const;

  // The process is no longer heard. `life` is readable once it has ended (Peer::life).
  void forget(ProcessId process, protocol::Descriptor life);
  // Drops the pins of processes that have ended by now. Gives the slots that no process pins any
  // more.
  std::vector<SlotId> collect();

 private:
  std::map<ProcessId, std::map<SlotId, std::uint32_t>> pins_;
  std::map<ProcessId, protocol::Descriptor> ending_;
};

}  // namespace batchflow::gpu
