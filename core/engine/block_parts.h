// The parts of makings. Each part waits for its turn for staging memory (core/engine/staging.h),
// and then for its reads.
#pragma once

#include "core/engine/items.h"
#include "core/engine/kept_items.h"
#include "core/engine/state.h"
#include "core/engine/suspects.h"

namespace batchflow::engine {

class BlockParts {
 public:
  BlockParts(EngineState& state, Reads& reads, Items& items, const KeptItems& kept_items,
             Suspects& suspects)
      : s_(state), reads_(reads), items_(items), kept_items_(kept_items), suspects_(suspects) {}

  // The making waits for its turn to begin its next part.
  void wait(MakingIndex making);
  // The making stops waiting.
  void stop_waiting(MakingIndex making);
  // A worker has made the part, except for what it could not decode.
  void end(MakingIndex making);
  // Begins parts that waited for staging memory, where there is some now. True if any was begun.
  bool stage_waiting();
  // Fits staging memory to the streams and workers of nodes.
  void plan_staging();

 private:
  void stage_waiting(NodeIndex node);
  bool staging_fits(const Making& making) const;
  void begin(MakingIndex making);
  bool begin_plain(MakingIndex making, Bytes most);
  bool begin_kept(MakingIndex making);
  bool names_samples(const Making& making) const;

  EngineState& s_;
  Reads& reads_;
  Items& items_;
  const KeptItems& kept_items_;
  Suspects& suspects_;
};

}  // namespace batchflow::engine
