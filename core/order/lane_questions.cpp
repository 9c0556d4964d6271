// Questions about lanes that change nothing, and the recount that checks the counts.
#include <algorithm>

#include "core/base/check.h"
#include "core/order/lanes.h"

namespace batchflow::order {

const Lanes::Member& Lanes::at(MemberId id) const {
  BF_CHECK_MSG(id.value < members_.size() && members_[id.value].used, "no such member");
  return members_[id.value];
}
Lanes::Member& Lanes::at(MemberId id) {
  return const_cast<Member&>(static_cast<const Lanes&>(*this).at(id));
}

bool Lanes::valid(BlockRef ref) const {
  return ref.pass < passes_.size() && passes_[ref.pass].serial == ref.serial && ref.serial != 0;
}
const Pass& Lanes::at(BlockRef ref) const {
  BF_CHECK_MSG(valid(ref), "the block's pass is gone");
  return passes_[ref.pass];
}
Pass& Lanes::at(BlockRef ref) {
  return const_cast<Pass&>(static_cast<const Lanes&>(*this).at(ref));
}

// ---------------------------------------------------------------------------------- members ----

const Lanes::Run& Lanes::newest_run(const Member& member) {
  return member.runs[member.runs[1].active ? 1 : 0];
}

std::uint32_t Lanes::tag(MemberId id) const {
  return at(id).tag;
}
bool Lanes::strict(MemberId id) const {
  return at(id).strict;
}
bool Lanes::in_epoch(MemberId id) const {
  return at(id).runs[0].active;
}
bool Lanes::next_epoch_begun(MemberId id) const {
  return at(id).runs[1].active;
}
std::uint64_t Lanes::blocks_left(MemberId id) const {
  return at(id).runs[0].untaken;
}

std::uint64_t Lanes::generation(MemberId id) const {
  return generations_[at(id).runs[0].generation].number;
}

const LaneSizes& Lanes::sizes(MemberId id) const {
  return generations_[at(id).runs[0].generation].sizes;
}

bool Lanes::needs(MemberId id, BlockRef ref) const {
  const Member& member = at(id);
  BF_CHECK(valid(ref));
  for (const Run& run : member.runs) {
    const std::uint32_t entry = pass_member_in(run, ref.pass);
    if (entry != kNoSlot) return !pass_members_[entry].taken.test(ref.block);
  }
  return false;
}

BlockRef Lanes::find(MemberId id, const BlockName& name) const {
  const Run& run = at(id).runs[0];
  for (const std::uint32_t slot : run.open) {
    const Pass& pass = passes_[pass_members_[slot].pass];
    if (pass.lane == name.lane && pass.number == name.pass && name.block < pass.blocks() &&
        generations_[pass.generation].number == name.generation)
      return {pass_members_[slot].pass, name.block, pass.serial};
  }
  return {};
}

LanePosition Lanes::position(MemberId id) const {
  const Member& member = at(id);
  BF_CHECK_MSG(!member.strict, "a strict position is an epoch and a count");
  const Run& run = member.runs[0];
  const Generation& generation = generations_[run.generation];
  LanePosition position;
  position.generation = generation.number;
  position.sizes = generation.sizes;
  position.passes = run.passes;
  position.had = Bitmap(generation.sizes.lanes(), true);
  run.needs.for_each([&](std::size_t lane) { position.had.reset(lane); });
  for (const std::uint32_t slot : run.open) {
    const Pass& pass = passes_[pass_members_[slot].pass];
    position.had.reset(pass.lane);
    position.open.push_back({pass.lane, pass.number, pass_members_[slot].taken});
  }
  return position;
}

// ----------------------------------------------------------------------------------- blocks ----

BlockName Lanes::name(BlockRef ref) const {
  const Pass& pass = at(ref);
  return {generations_[pass.generation].number, pass.lane, pass.number, ref.block};
}

const LaneSizes& Lanes::sizes(BlockRef ref) const {
  return generations_[at(ref).generation].sizes;
}

std::uint32_t Lanes::samples(BlockRef ref) const {
  return sizes(ref).samples_of(at(ref).lane, ref.block);
}

BlockState Lanes::state(BlockRef ref) const {
  return at(ref).states[ref.block];
}
std::uint32_t& Lanes::tag(BlockRef ref) {
  return at(ref).tags[ref.block];
}
std::uint32_t Lanes::needed(BlockRef ref) const {
  return at(ref).needed[ref.block];
}

std::uint32_t Lanes::may_join(BlockRef ref) const {
  const Pass& pass = at(ref);
  const Generation& generation = generations_[pass.generation];
  return (pass.may_be_joined() ? pass.wanted : 0) +
         (pass.number == 0 ? generation.strict_ahead[pass.lane] + strict_to_come(generation) : 0);
}

// The index of a block of pass 0 in the strict epoch.
std::uint64_t Lanes::sequence(const Pass& pass, std::size_t block) const {
  return generations_[pass.generation].sizes.first_block_of(pass.lane) + block;
}

// ---------------------------------------------------------------------------------- recount ----

void Lanes::check_consistency() const {
  for (std::uint32_t slot = 0; slot < members_.size(); ++slot) {
    const Member& member = members_[slot];
    if (!member.used) continue;
    std::uint32_t left = 0;
    for (const Run& run : member.runs) {
      if (run.active) check_run(member, run);
      for (const std::uint32_t open : run.open) {
        BF_CHECK(pass_members_[open].member == MemberId(slot));
        BF_CHECK(pass_members_[open].run == static_cast<std::uint32_t>(&run - member.runs.data()));
        left += pass_members_[open].untaken - pass_members_[open].dropped;
      }
    }
    BF_CHECK(member.left == left);
  }
  for (std::uint32_t slot = 0; slot < passes_.size(); ++slot)
    if (passes_[slot].serial != 0) check_pass(slot);
  for (std::uint32_t slot = 0; slot < generations_.size(); ++slot)
    if (generations_[slot].used) check_generation(slot);
}

std::uint32_t Lanes::count_strict_to_come(const Generation& generation) const {
  if (find_strict_generation(generation.number) !=
      find_generation(generation.number, generation.sizes)) {
    return 0;
  }
  std::uint32_t count = 0;
  for (std::uint32_t slot = 0; slot < members_.size(); ++slot) {
    const Member& member = members_[slot];
    const Run& run = newest_run(member);
    if (!member.used || !member.strict || !run.entered) continue;
    if (generations_[run.generation].number < generation.number && generation.number < member.end)
      ++count;
  }
  return count;
}

void Lanes::check_run(const Member& member, const Run& run) const {
  const Generation& generation = generations_[run.generation];
  BF_CHECK(run.entered && generation.used);
  std::uint64_t untaken = 0;
  std::uint32_t here = 0;
  for (const std::uint32_t slot : run.open) {
    const PassMember& entry = pass_members_[slot];
    const Pass& pass = passes_[entry.pass];
    BF_CHECK(pass.generation == run.generation && !run.needs.test(pass.lane));
    if (!member.strict) BF_CHECK(run.passes[pass.lane] == pass.number + 1);
    untaken += entry.untaken;
    here += entry.here;
  }
  if (member.strict) {
    for (std::uint32_t lane = run.next_lane; lane < generation.sizes.lanes(); ++lane)
      untaken += generation.sizes.blocks_of(lane);
    BF_CHECK(run.untaken == generation.sizes.blocks() - run.next_block);
    BF_CHECK(run.lanes_left == generation.sizes.lanes() - run.next_lane);
  } else {
    run.needs.for_each([&](std::size_t lane) {
      untaken += generation.sizes.blocks_of(static_cast<std::uint32_t>(lane));
    });
    BF_CHECK(run.lanes_left == run.needs.count());
  }
  BF_CHECK(run.untaken == untaken && run.here == here);
}

void Lanes::check_pass(std::uint32_t slot) const {
  const Pass& pass = passes_[slot];
  BF_CHECK(!pass.members.empty() || pass.here != 0);
  BF_CHECK(find_pass(generations_[pass.generation], pass.lane, pass.number) == slot);
  BF_CHECK(generations_[pass.generation].next_pass[pass.lane] > pass.number);
  std::vector<std::uint32_t> needed(pass.blocks(), 0);
  for (const std::uint32_t member_slot : pass.members) {
    const PassMember& entry = pass_members_[member_slot];
    PassMember recount{entry.member, entry.run, slot, 0, 0, 0, 0, {}, 0};
    for (std::uint32_t block = 0; block < pass.blocks(); ++block) {
      if (entry.taken.test(block)) continue;
      ++needed[block];
      ++recount.untaken;
      recount.here += is_here(pass.states[block]) ? 1 : 0;
      recount.dropped += pass.states[block] == BlockState::dropped ? 1 : 0;
    }
    BF_CHECK(entry.pass == slot && entry.untaken == recount.untaken && entry.untaken != 0);
    for (std::uint32_t w = 0; w < entry.first_word; ++w)
      BF_CHECK(entry.taken.word(w) == ~std::uint64_t{0});
    BF_CHECK(entry.here == recount.here && entry.dropped == recount.dropped);
  }
  BF_CHECK(pass.needed == needed && pass.wanted == count_wanting(pass));
  std::uint32_t here = 0, dropped = 0;
  for (std::uint32_t block = 0; block < pass.blocks(); ++block) {
    const BlockState state = pass.states[block];
    BF_CHECK(pass.here_blocks.test(block) == is_here(state));
    BF_CHECK(pass.dropped_blocks.test(block) == (state == BlockState::dropped));
    BF_CHECK(pass.absent_blocks.test(block) == (state == BlockState::absent));
    here += is_here(state) ? 1 : 0;
    dropped += state == BlockState::dropped ? 1 : 0;
  }
  BF_CHECK(pass.here == here && pass.dropped == dropped);
}

void Lanes::check_generation(std::uint32_t slot) const {
  const Generation& generation = generations_[slot];
  std::vector<Demand> demand(generation.sizes.lanes()), strict_demand = demand;
  std::vector<std::uint32_t> strict_ahead(generation.sizes.lanes(), 0);
  std::uint32_t runs = 0, lanes_left = 0, strict_lanes_left = 0;
  for (std::uint32_t at_member = 0; at_member < members_.size(); ++at_member) {
    const Member& member = members_[at_member];
    if (!member.used) continue;
    for (const Run& run : member.runs) {
      if (!run.entered || run.generation != slot) continue;
      ++runs;
      if (!run.active) continue;
      if (run.lanes_left != 0) ++(member.strict ? strict_lanes_left : lanes_left);
      run.needs.for_each([&](std::size_t lane) {
        Demand& lane_demand = (member.strict ? strict_demand : demand)[lane];
        ++lane_demand.members;
        lane_demand.hungry += member.hungry ? 1 : 0;
      });
      if (!member.strict) continue;
      for (auto lane = run.next_lane; lane < strict_ahead.size(); ++lane) ++strict_ahead[lane];
    }
  }
  std::uint32_t passes = 0;
  for (const auto& lane : generation.open) passes += static_cast<std::uint32_t>(lane.size());
  BF_CHECK(generation.demand == demand && generation.strict_demand == strict_demand);
  BF_CHECK(generation.strict_ahead == strict_ahead);
  BF_CHECK(strict_to_come(generation) == count_strict_to_come(generation));
  BF_CHECK(generation.runs == runs && generation.passes_alive == passes);
  BF_CHECK(generation.runs_with_lanes_left == lanes_left);
  BF_CHECK(generation.strict_runs_with_lanes_left == strict_lanes_left);
}

}  // namespace batchflow::order
