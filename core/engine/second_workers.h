// A block that is late is given to a second worker: the bytes are the same, and the first result is
// used.
//
// The second preparation is a making and a block of its own, into a slot of its own, which counts
// as made ahead. It holds what the first one reads from until its worker has reported, even if the
// block was delivered long before. If it finishes first, only the slots are exchanged.
#pragma once

#include <functional>
#include <optional>

#include "core/engine/reads.h"
#include "core/engine/state.h"
#include "core/engine/workers.h"

namespace batchflow::engine {

class SecondWorkers {
 public:
  SecondWorkers(EngineState& state, Reads& reads, Workers& workers)
      : s_(state), reads_(reads), workers_(workers) {}

  // The making is being prepared from now on: it may turn out to be late.
  void watch(Stream& stream, MakingIndex making);
  // Blocks of the stream may be late. Calls `send` for each new making of a late block.
  void look_for_late(StreamId stream, const std::function<void(MakingIndex)>& send);
  // The second worker was faster.
  void use(MakingIndex second);
  // One of the two makings is over.
  void separate(Making& making);

 private:
  std::optional<Duration> late_after(const Stream& stream) const;
  bool is_preparing(const Stream::Begun& begun) const;
  bool start(Stream& stream, MakingIndex making, const std::function<void(MakingIndex)>& send);

  EngineState& s_;
  Reads& reads_;
  Workers& workers_;
};

}  // namespace batchflow::engine
