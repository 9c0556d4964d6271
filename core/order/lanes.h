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
// The rules (docs/order.md, section 3) leave some cases open, which are decided here. The table of
// tests/core/lanes_sharing_test.cpp holds with these decisions:
//  - A pass is open to others while a member is in it: has joined it and has not yet taken all
//    of it. A pass that all members have left is not joined, though blocks of it may be here:
//    joining such passes cost jobs of unequal speed more.
//  - Of passes with equally many dropped blocks the newest is joined. A block counts as dropped
//    while it is gone, even if a member had it before. A remade block no longer counts as dropped.
//  - A member is hungry when the open lanes of both its epochs have at most L/2 blocks that are
//    neither taken nor dropped, beyond what the engine keeps ahead anyway (`set_look_ahead`). A
//    member needs a lane, in rule 4, when it has the lane before it in the running epoch or in
//    the one begun ahead.
//  - i of rule 4 counts the passes opened in the generation. After a restart it begins anew.
//  - A job that begins an epoch looks at the newest generation. If it comes from an older one, it
//    follows into the newest only if other jobs have lanes left there. Epochs spent in a
//    generation are not part of a position, and count anew after a restore.
//  - A job has a generation number in one cut only: draws do not depend on B and L, so a job
//    never goes from (g, B, L) to (g, B', L').
//  - A generation in which a lane has used its last pass takes no new epoch. A job that is in it
//    finishes by the least pass above its own last that no member has open; this pass is made
//    again from its lineage, and is new to the job. Where there is none, any open pass will do.
//  - A strict job needs the next lane of its sequence and no other, in pass 0. It attracts a
//    relaxed job only there, and its lanes count as left to join only for jobs new to that
//    generation. It counts as just starting while it is in its first lane.
//  - The span of `ready_window` counts blocks that are here or were taken. Blocks that were lost or
//    failed and are made again are listed but start no span, or jobs would wait for another's
//    remake.
//
// Costs: `next_need` and `take` are O(open lanes of the member + L/64), `candidates` is O(open
// lanes of the member x L/64). Reports of blocks are O(members of the pass). Opening or joining a
// lane adds O(V + open passes); turning hungry or beginning an epoch adds O(V). Nothing depends on
// N or on members elsewhere, except for a binary search among the strict members. Memory: passes
// that are open or have blocks here x L, members x (V + open lanes x L/8 bytes), generations in use
// x V.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "core/base/pool.h"
#include "core/base/types.h"
#include "core/order/block_name.h"
#include "core/order/generation.h"
#include "core/order/lane_position.h"
#include "core/order/lane_sizes.h"

namespace batchflow::order {

// A block of an open pass, for O(1) access. Valid while the block is here (in preparation or
// resident) or a member has its pass open.
struct BlockRef {
  std::uint32_t pass = UINT32_MAX;
  std::uint32_t block = 0;
  std::uint64_t serial = 0;
  bool is_none() const { return pass == UINT32_MAX; }
  friend constexpr bool operator==(const BlockRef&, const BlockRef&) = default;
};

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
  std::uint64_t blocks() const { return options_.sizes.blocks(); }
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
  bool is_to_come(MemberId member, std::uint32_t lane) const {
    return at(member).runs[0].needs.test(lane);
  }
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
    const Pass& pass = passes_[block.pass];
    for (const std::uint32_t slot : pass.members)
      if (!pass_members_[slot].taken.test(block.block)) visit(pass_members_[slot].member);
  }

  // Calls visit(BlockRef) for each block where `needed` or `may_join` has changed by more than what
  // was done with the block itself (a member takes it, it is made). It visits the blocks that are
  // here, lane by lane, until it has visited at least `limit`; the rest waits for the next call.
  // True when nothing is left.
  template <class Visit>
  bool visit_changed_needs(std::size_t limit, Visit visit) {
    for (std::size_t visited = 0; !changed_.empty() || visit_next_generation();) {
      if (visited >= limit) return false;
      ++visited;
      if (changed_.empty()) continue;
      const auto [slot, lane] = changed_.back();
      changed_.pop_back();
      Generation& generation = generations_[slot];
      generation.changed[lane] = false;
      for (const std::uint32_t pass : generation.open[lane]) {
        passes_[pass].here_blocks.for_each([&](std::size_t block) {
          ++visited;
          visit(BlockRef{pass, static_cast<std::uint32_t>(block), passes_[pass].serial});
        });
      }
    }
    return true;
  }

  // `report` is called whenever there begins to be something to visit.
  void on_changed_needs(std::function<void()> report) { report_changed_needs_ = std::move(report); }

  // ---- sizes, for tests and statistics.

  std::size_t members() const { return members_.used(); }
  std::size_t open_passes() const { return passes_.used(); }
  std::size_t generations() const { return generations_.used(); }
  // Recounts everything that is kept by increments, and BF_CHECKs that it agrees.
  void check_consistency() const;

 private:
  static constexpr std::uint32_t kNoSlot = UINT32_MAX;

  // One epoch of a member. Entered: it holds its generation. Active: not all of it is taken.
  struct Run {
    bool entered = false;
    bool active = false;
    std::uint32_t generation = 0;      // slot
    std::uint32_t epochs = 0;          // of this member in this generation, this one included
    std::vector<std::uint8_t> passes;  // relaxed, a lane: last pass used + 1
    Bitmap needs;                      // lanes neither had nor open; strict: the next lane alone
    std::uint32_t lanes_left = 0;      // lanes neither had nor open
    std::uint64_t untaken = 0;         // blocks
    std::uint32_t here = 0;            // of those
    std::vector<std::uint32_t> open;   // pass members, in the order opened
    std::uint32_t passed = 0;          // blocks of lanes finished after the last of those
    std::uint32_t next_lane = 0;       // strict: not open yet
    std::uint64_t next_block = 0;      // strict: in sequence, not taken yet
  };
  struct Member {
    // Strict: it is known to come to the generations between these two numbers.
    std::uint64_t comes_after = 0;
    std::uint64_t comes_before = 0;
    bool used = false;
    bool strict = false;
    bool hungry = false;
    std::uint32_t tag = 0;
    std::uint32_t look_ahead = 0;
    std::uint64_t end = 0;    // strict: its epochs, as far as they are known to follow, are below
    std::uint32_t left = 0;   // untaken and not dropped, in its open lanes
    std::array<Run, 2> runs;  // the running epoch (or the one just ended) and the next
  };

  const Member& at(MemberId member) const;
  Member& at(MemberId member);
  const Pass& at(BlockRef block) const;
  Pass& at(BlockRef block);

  MemberId new_member(std::uint32_t tag, bool strict);
  void resume(MemberId member, const LanePosition& position);
  void update_hunger(Member& member);
  static const Run& newest_run(const Member& member);

  void start(Member& member, Run& run);
  void use_up(Member& member, Run& run, std::uint32_t lane);
  void stop(Member& member, Run& run);
  void end_running_epoch(Member& member);
  void change_demand(const Member& member, const Run& run, int by);
  void change_demand(const Member& member, const Run& run, int by, std::uint32_t lane);
  Demand& demand(const Member& member, const Run& run, std::uint32_t lane);
  void change_strict_ahead(const Run& run, int by);
  std::uint32_t count_wanting(const Pass& pass) const;
  void began(std::uint64_t number);
  void note_strict(Member& member, bool there);
  std::uint32_t strict_to_come(const Generation& generation) const;
  std::uint32_t count_strict_to_come(const Generation& generation) const;
  void strict_to_come_changed(std::uint64_t from, std::uint64_t to);
  void strict_choice_changed(std::uint64_t number);
  bool visit_next_generation();
  void all_needs_changed(std::uint32_t generation);
  void needs_changed(std::uint32_t generation, std::uint32_t lane);
  void report_changed_needs();

  std::span<const std::uint32_t> numbered(std::uint64_t number) const;
  std::uint32_t find_generation(std::uint64_t number, const LaneSizes& sizes) const;
  std::uint32_t find_strict_generation(std::uint64_t epoch) const;
  std::uint32_t use_strict_generation(std::uint64_t epoch);
  std::uint32_t use_generation(std::uint64_t number, const LaneSizes& sizes);
  void enter(Run& run, std::uint32_t generation);
  void leave(Run& run);
  void free_generation_if_done(std::uint32_t generation);
  std::uint32_t choose_generation(const Run& previous);
  bool may_begin_in(std::uint32_t generation, const Run& previous) const;
  std::uint64_t new_generation_number() const;

  void list_strict(const Run& run, std::vector<Candidate>& out, bool to_first_ready) const;
  void list_relaxed(const Run& run, std::vector<Candidate>& out, bool to_first_ready) const;
  Candidate candidate(const PassMember& entry, std::size_t block, std::uint32_t distance) const;

  Need want_relaxed(MemberId member, std::uint32_t run);
  Need want_strict(MemberId member, std::uint32_t run);
  Need make(const PassMember& entry, std::size_t block) const;
  std::uint32_t open_lane(MemberId member, std::uint32_t run);
  std::uint32_t pass_to_join(const Run& run, bool any) const;
  std::uint32_t pass_to_open(const Member& member, const Run& run);
  std::int64_t value_to_others(const Generation& generation, const Member& member,
                               std::uint32_t lane) const;
  std::uint32_t pass_number(const Generation& generation, const Run& run, std::uint32_t lane) const;

  void change_state(BlockRef block, BlockState state);
  std::uint32_t find_pass(const Generation& generation, std::uint32_t lane,
                          std::uint32_t number) const;
  std::uint32_t find_or_open_pass(std::uint32_t generation, std::uint32_t lane,
                                  std::uint32_t number);
  void free_pass_if_done(std::uint32_t pass);
  std::uint32_t join_pass(MemberId member, std::uint32_t run, std::uint32_t pass,
                          const Bitmap* taken);
  void leave_pass(std::uint32_t pass_member);
  std::uint32_t pass_member_in(const Run& run, std::uint32_t pass) const;
  std::size_t first_missing(const PassMember& entry) const;
  std::uint32_t sequence_here(const Run& run) const;
  std::uint64_t sequence(const Pass& pass, std::size_t block) const;

  void check_run(const Member& member, const Run& run) const;
  void check_pass(std::uint32_t slot) const;
  void check_generation(std::uint32_t slot) const;

  Options options_;
  std::uint64_t next_generation_ = 0;  // above all that were opened or reported
  std::uint64_t serials_ = 0;
  SlotTable<Member> members_;
  SlotTable<Generation> generations_;
  SlotTable<Pass> passes_;
  SlotTable<PassMember> pass_members_;
  struct Lane {
    std::uint32_t generation;  // slot
    std::uint32_t lane;
  };
  std::vector<Lane> changed_;  // their blocks are needed by others than before
  // The lanes of generations with numbers from the first up to the second are to be added to
  // `changed_`.
  std::uint64_t changed_from_ = 0;
  std::uint64_t changed_to_ = 0;
  std::function<void()> report_changed_needs_;
  // The slots of the generations in use, by number. A number has several where they are cut into
  // other sizes, which is rare.
  std::map<std::uint64_t, std::vector<std::uint32_t>> by_number_;
  std::set<std::uint64_t> cut_otherwise_;
  // `comes_after` and `comes_before` of all strict members, sorted: they tell how many come to a
  // generation without a look at each.
  std::vector<std::uint64_t> strict_after_;
  std::vector<std::uint64_t> strict_before_;
  // Epochs of strict members that are in their first lane, by generation number.
  std::map<std::uint64_t, std::uint32_t> strict_beginning_;
};

}  // namespace batchflow::order
