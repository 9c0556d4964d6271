// The blocks that are kept for a job before a batch uses them: where one more may be made, and when
// one may be evicted. The rules stand in core/engine/books.h.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "core/engine/state.h"

namespace batchflow::engine {

class Charges {
 public:
  explicit Charges(EngineState& state) : s_(state) {}

  // Where the job's block can be made now, and how it is charged; nothing if it can be made
  // nowhere.
  struct Site {
    std::uint32_t part = 0;  // of the stream's nodes
    Charge charge = Charge::none;
  };
  // Where blocks of a stream can begin now: the same for all its jobs while nothing is started.
  struct OpenParts {
    std::vector<std::uint32_t> parts;
    // The sites of jobs that may use any node, by what they may ask for; found when a job asks.
    std::array<std::optional<std::optional<Site>>, 4> sites;
  };
  void open_parts(const Stream& stream, OpenParts& open) const;
  std::optional<Site> site(const Stream& stream, const Job& job, OpenParts& open) const;
  // How many blocks on the node are kept for the job.
  std::uint32_t blocks_of(const Job& job, NodeId node) const;
  // All nodes that the block could be made on now, for a policy to choose from.
  void sites(const Stream& stream, const Job& job, const OpenParts& open,
             std::vector<Site>& out) const;
  // Gives up blocks that were made because a job waited for them, once the job has what it needs.
  bool settle_current();
  // Releases the charge of a job, which leaves or starts over, on its blocks.
  void release_blocks_of(Job& job);
  // Shares shrink: blocks made ahead are kept only while there is room for that.
  void strip_ahead(std::span<const Place> places);
  void strip_ahead(StreamNode& part);

 private:
  std::optional<Site> best_site(const Stream& stream, const Job& job, bool may_look_ahead,
                                const OpenParts& open) const;
  double supply(const Job& job, NodeId node) const;
  bool has_all_workers(const Job& job) const;
  bool has_all_blocks(const Stream& stream, const Job& job, NodeId node) const;
  bool room_for(const StreamNode& part, const Job& job, bool may_look_ahead, Charge& as) const;
  bool may_take(const Stream& stream, const Job& job, const Block& block);

  EngineState& s_;
  mutable std::vector<order::Lanes::Candidate> candidates_;  // scratch
  std::vector<BlockIndex> resident_;                         // scratch
};

}  // namespace batchflow::engine
