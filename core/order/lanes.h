// The relaxed order of one stream: generations, lanes, passes, and which jobs need which block.
//
// A generation is a random cut of the dataset into blocks. A lane is L consecutive blocks of it. A
// pass cuts a lane's samples anew. A job's epoch is one generation, one pass of each lane, and
// every block of these once, in any order. So an epoch has each sample exactly once, whatever jobs
// join, leave, stall or lose. Members are the jobs of the stream: relaxed jobs, and strict jobs of
// the same seed group. Epoch e of a strict job is pass 0 of generation e, in sequence.
//
// This is state without time, bytes or sample ids. The engine drives it:
//
//   while (lanes.supply(m) < depth)             look-ahead, rules 2 to 5
//     switch (need = lanes.next_need(m); need.kind)
//       make:     start its preparation; lanes.making(need.block)
//       joined:   nothing to do, the supply has grown
//       nothing:  all of the epoch is had or here; lanes.begin_next_epoch(m), or stop
//   lanes.candidates(m, out); lanes.take(m, ref)         rule 1; ends an epoch with its last block
//   lanes.made(ref), lanes.failed(ref), lanes.dropped(ref)         as backends report
//
// A member may be in two epochs. It takes blocks of the running one. For the next one, blocks are
// made and lanes joined once the running one has nothing left to make or join.
//
// The rules, and what was decided where they leave a case open, stand in core/order/lane_rules.h.
//
// Costs: `next_need` and `take` are O(open lanes of the member + L/64), `candidates` is O(open
// lanes of the member x L/64). Reports of blocks are O(members of the pass). Opening or joining a
// lane adds O(V + open passes); turning hungry or beginning an epoch adds O(V). Nothing depends on
// N or on members elsewhere, except for a binary search among the strict members. Memory: passes
// that are open or have blocks here x L, members x (V + open lanes x L/8 bytes), generations in use
// x V.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/types.h"
#include "core/order/block_name.h"
#include "core/order/block_ref.h"
#include "core/order/lane_position.h"
#include "core/order/lane_sizes.h"

namespace batchflow::order {

class Lanes {
 public:
  struct Options {
    Digest dataset_version = 0;           // D
    std::uint64_t seed = 0;               // S
    LaneSizes sizes;                      // of generations opened from now on
    std::uint32_t generation_epochs = 8;  // UINT32_MAX: no limit
    std::uint32_t ready_window = 16;
    // Of a member. A position has room for 64: it lags behind by what is taken and not committed,
    // and a lane that was taken to its end is still open there.
    std::uint32_t open_lanes_most = 48;
    std::uint32_t passes_most = 254;  // a lane and generation
  };

  explicit Lanes(const Options& options);
  ~Lanes();

  // ---- members. `tag` is the engine's own. Each member begins its first epoch at once.

  MemberId add_relaxed(std::uint32_t tag);
  // Starts from a committed position, with the sizes that it holds.
  MemberId add_relaxed(std::uint32_t tag, const LanePosition& position);
  // Starts at block `first_block` of epoch `epoch`. Its lanes are cut as those of the members that
  // are in that epoch, or else as in new generations. Epochs below `end` follow in turn.
  MemberId add_strict(std::uint32_t tag, std::uint64_t epoch, std::uint64_t first_block,
                      std::uint64_t end = 0);
  void remove(MemberId member);

  // A job has reported this generation: new generations get greater numbers.
  void observe(std::uint64_t generation);  // REQUIRES: at most LanePosition::kGenerationMost
  // The blocks of a generation that is opened from now on.
  std::uint64_t blocks() const;
  // Sets the sizes of generations opened from now on; those begun keep theirs.
  void set_sizes(const LaneSizes& sizes);
  // How many blocks the engine keeps here ahead of the member; not counted against its hunger.
  void set_look_ahead(MemberId member, std::uint32_t blocks);

  // ---- rule 1: what a member may take now.

  struct Candidate {
    BlockRef block;
    std::uint32_t distance;  // in blocks from the oldest block the member has not taken
    bool ready;              // resident
    std::uint32_t tag;       // as tag() and needed() have them
    std::uint32_t needed;
  };
  // Lists blocks that are here, untaken by the member, and of lanes open to it in its running
  // epoch. Lanes come in the order opened, blocks by index, within `ready_window` of the oldest.
  // The distance counts blocks that are here or were taken, so no block overtakes another by more
  // than the window. Blocks that were lost and made again are listed too, but no span begins at
  // them. The list of a strict member is its sequence, as far as it is here without a gap.
  // `to_first_ready`: the list ends at the first ready block.
  void candidates(MemberId member, std::vector<Candidate>& out, bool to_first_ready = false) const;
  // Answers true if that was the last block of the member's epoch; the next epoch then runs, if
  // begun.
  // REQUIRES: resident, needed by the member in its running epoch; the next in sequence if strict
  bool take(MemberId member, BlockRef block);

  // ---- rules 2 to 5: what should be made.

  struct Need {
    enum class Kind : std::uint8_t { make, joined, nothing };
    Kind kind = Kind::nothing;
    BlockRef block;           // to make
    bool remake = false;      // it was made in this pass before
    bool next_epoch = false;  // it is for the epoch after the running one
  };
  // Joins or opens a lane if the rules say so. The answer stays the same until something changes.
  // Of two epochs the running one comes first, since a block of it may have been lost.
  Need next_need(MemberId member);
  // True when the next epoch is not begun, and the running one has nothing left to make or join.
  bool may_begin_next_epoch(MemberId member) const;
  // REQUIRES: may_begin_next_epoch(member)
  void begin_next_epoch(MemberId member);
  // The same for a strict member with epochs that have numbers of their own (a weighted order).
  void begin_next_epoch(MemberId member, std::uint64_t generation);
  // Gives up what is left of the running epoch (a tail that is left out), as if it had been taken.
  // REQUIRES: in_epoch(member)
  void end_epoch(MemberId member);

  // ---- what became of blocks.

  void making(BlockRef block);   // REQUIRES: absent or dropped
  void made(BlockRef block);     // REQUIRES: making or remaking
  void failed(BlockRef block);   // or cancelled. REQUIRES: making or remaking
  void dropped(BlockRef block);  // REQUIRES: resident

  // ---- questions about members.

  std::uint32_t tag(MemberId member) const;
  bool strict(MemberId member) const;
  bool in_epoch(MemberId member) const;  // false: ended, and the next not begun
  bool next_epoch_begun(MemberId member) const;
  std::uint64_t generation(MemberId member) const;   // of the running epoch, else the last one
  const LaneSizes& sizes(MemberId member) const;     // likewise
  std::uint64_t blocks_left(MemberId member) const;  // untaken in the running epoch
  // Untaken blocks that are here in lanes open to the member. The next epoch counts only while the
  // running one misses no block. Of a strict member: as far as its sequence is here without a gap.
  std::uint32_t supply(MemberId member) const;
  // The member has neither had the lane in its running epoch, nor opened it.
  bool is_to_come(MemberId member, std::uint32_t lane) const;
  // The member has the block's pass open and has not taken the block.
  bool needs(MemberId member, BlockRef block) const;
  // A block of a lane that is open to the member in its running epoch; or none.
  BlockRef find(MemberId member, const BlockName& name) const;
  // The position by the blocks taken. What is open for the next epoch is left out.
  LanePosition position(MemberId member) const;

  // ---- questions about blocks, O(1).

  bool valid(BlockRef block) const;
  BlockName name(BlockRef block) const;
  const LaneSizes& sizes(BlockRef block) const;
  std::uint32_t samples(BlockRef block) const;
  BlockState state(BlockRef block) const;
  std::uint32_t& tag(BlockRef block);
  // Members that have the block's pass open and have not taken the block.
  std::uint32_t needed(BlockRef block) const;
  // Members that may yet join the block's pass: relaxed ones by rule 3, if it is open to others;
  // and if it is pass 0, strict ones that have its lane before them, in this epoch or in a later
  // one.
  std::uint32_t may_join(BlockRef block) const;
  // Calls visit(MemberId) for each member that needs the block, in the order they came to its pass.
  template <class Visit>
  void for_each_needing(BlockRef block, Visit visit) const {
    std::size_t from = 0;
    for (MemberId member = next_needing(block, from); !member.is_none();
         member = next_needing(block, from))
      visit(member);
  }

  // Calls visit(BlockRef) for each block where `needed` or `may_join` has changed by more than what
  // was done with the block itself (a member takes it, it is made). It visits the blocks that are
  // here, lane by lane, until it has visited at least `limit`; the rest waits for the next call.
  // True when nothing is left.
  template <class Visit>
  bool visit_changed_needs(std::size_t limit, Visit visit) {
    found_.clear();
    const bool all = find_changed_needs(limit, found_);
    for (const BlockRef block : found_) visit(block);
    return all;
  }

  // `report` is called whenever there begins to be something to visit.
  void on_changed_needs(std::function<void()> report);

  // ---- sizes, for tests and statistics.

  std::size_t members() const;
  std::size_t open_passes() const;
  std::size_t generations() const;
  // Recounts everything that is kept by increments, and BF_CHECKs that it agrees.
  void check_consistency() const;

 private:
  struct Parts;

  MemberId next_needing(BlockRef block, std::size_t& from) const;  // none: there are no more
  bool find_changed_needs(std::size_t limit, std::vector<BlockRef>& found);

  std::unique_ptr<Parts> parts_;
  std::vector<BlockRef> found_;
};

}  // namespace batchflow::order
