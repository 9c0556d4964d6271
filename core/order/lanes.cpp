#include "core/order/lanes.h"

#include <utility>

#include "core/base/check.h"
#include "core/order/changed_needs.h"
#include "core/order/generations.h"
#include "core/order/lane_demand.h"
#include "core/order/lane_members.h"
#include "core/order/lane_passes.h"
#include "core/order/lane_rules.h"
#include "core/order/strict_epochs.h"

namespace batchflow::order {

// Each part changes only what it owns:
//
//   Generations    which generations there are, and how each is cut
//   LanePasses     passes, the states of their blocks, and what each member in them has taken
//   ChangedNeeds   lanes in which members need other blocks than before, until they are visited
//   StrictEpochs   the generations that strict members will come to
//   LaneDemand     how many members need each lane, and may yet join each pass
//   LaneMembers    members: their epochs, the lanes they have had, their hunger
//   LaneRules      nothing: what a member takes and opens, what is made for it
//
// A part is called by those below it alone.
struct Lanes::Parts {
  explicit Parts(const Options& its_options) : options(its_options) {}

  const Options options;  // the sizes of new generations are with those
  Generations generations;
  LanePasses passes;
  ChangedNeeds changed{generations, passes};
  StrictEpochs strict{generations, changed};
  LaneDemand demand{passes, changed};
  LaneMembers members{generations, passes, demand, strict, changed};
  LaneRules rules{options, generations, passes, demand, strict};
};

Lanes::Lanes(const Options& options) : parts_(std::make_unique<Parts>(options)) {
  BF_CHECK(options.passes_most >= 1 && options.passes_most <= 254);
  BF_CHECK(options.generation_epochs >= 1 && options.ready_window >= 1);
  BF_CHECK(options.open_lanes_most >= 1);
  set_sizes(options.sizes);
}

Lanes::~Lanes() = default;

// ------------------------------------------------------------------------ sizes, generations ----

void Lanes::observe(std::uint64_t generation) {
  BF_CHECK(generation <= LanePosition::kGenerationMost);
  parts_->generations.observe(generation);
}

std::uint64_t Lanes::blocks() const {
  return parts_->generations.new_sizes().blocks();
}

void Lanes::set_sizes(const LaneSizes& sizes) {
  BF_CHECK(sizes.samples > 0 && sizes.block_samples > 0 && sizes.lane_blocks > 0);
  if (parts_->generations.new_sizes() == sizes) return;
  parts_->generations.set_new_sizes(sizes);
  for (const std::uint64_t number : parts_->generations.cut_otherwise())
    parts_->strict.choice_changed(number);
}

// ---------------------------------------------------------------------- members, and epochs ----

MemberId Lanes::add_relaxed(std::uint32_t tag) {
  const MemberId id = parts_->members.add(tag);
  begin_next_epoch(id);
  return id;
}

MemberId Lanes::add_relaxed(std::uint32_t tag, const LanePosition& position) {
  if (position.sizes.samples == 0) return add_relaxed(tag);
  BF_CHECK(position.consistent(parts_->options.passes_most));
  observe(position.generation);
  const MemberId id = parts_->members.add(tag, position);
  if (!in_epoch(id)) begin_next_epoch(id);
  return id;
}

MemberId Lanes::add_strict(std::uint32_t tag, std::uint64_t epoch, std::uint64_t first_block,
                           std::uint64_t end) {
  BF_CHECK(first_block < blocks());
  return parts_->members.add_strict(tag, epoch, parts_->generations.strict_sizes(epoch),
                                    first_block, end);
}

void Lanes::remove(MemberId member) {
  parts_->members.remove(member);
}

void Lanes::set_look_ahead(MemberId member, std::uint32_t blocks) {
  parts_->members.set_look_ahead(member, blocks);
}

bool Lanes::may_begin_next_epoch(MemberId member) const {
  return parts_->rules.may_begin_next_epoch(parts_->members.at(member));
}

void Lanes::begin_next_epoch(MemberId id) {
  const LaneMember& member = parts_->members.at(id);
  if (member.strict) return begin_next_epoch(id, generation(id) + 1);
  BF_CHECK(may_begin_next_epoch(id));
  const LaneRules::Cut next = parts_->rules.next_generation(member.runs[0]);
  parts_->members.begin_epoch(id, next.generation, next.sizes);
}

void Lanes::begin_next_epoch(MemberId id, std::uint64_t generation) {
  BF_CHECK(strict(id) && may_begin_next_epoch(id));
  parts_->members.begin_epoch(id, generation, parts_->generations.strict_sizes(generation));
}

void Lanes::end_epoch(MemberId member) {
  parts_->members.end_epoch(member);
}

// ------------------------------------------------------------------------ what the rules say ----

void Lanes::candidates(MemberId member, std::vector<Candidate>& out, bool to_first_ready) const {
  parts_->rules.candidates(parts_->members.at(member), out, to_first_ready);
}

std::uint32_t Lanes::supply(MemberId member) const {
  return parts_->rules.supply(parts_->members.at(member));
}

bool Lanes::take(MemberId member, BlockRef block) {
  return parts_->members.take(member, block);
}

Lanes::Need Lanes::next_need(MemberId id) {
  const LaneRules& rules = parts_->rules;
  const LaneMember& member = parts_->members.at(id);
  for (const std::uint32_t number : {0u, 1u}) {
    const LaneRun& run = member.runs[number];
    if (!run.active) continue;
    if (const Need need = rules.next_block(member, run); need.kind != Need::Kind::nothing)
      return need;
    if (const auto lane = rules.next_lane(member, run)) {
      const std::uint32_t slot = parts_->members.open_lane(id, number, lane->lane, lane->pass);
      return rules.first_need(member, parts_->passes.member(slot));
    }
    if (const Need need = rules.lost_block(run); need.kind != Need::Kind::nothing) return need;
  }
  return {};
}

// -------------------------------------------------------------------- what became of blocks ----

void Lanes::making(BlockRef block) {
  const BlockState before = state(block);
  BF_CHECK(!is_here(before));
  parts_->members.change_state(
      block, before == BlockState::dropped ? BlockState::remaking : BlockState::making);
}

void Lanes::made(BlockRef block) {
  const BlockState before = state(block);
  BF_CHECK(before == BlockState::making || before == BlockState::remaking);
  parts_->members.change_state(block, BlockState::resident);
}

void Lanes::failed(BlockRef block) {
  const BlockState before = state(block);
  BF_CHECK(before == BlockState::making || before == BlockState::remaking);
  parts_->members.change_state(
      block, before == BlockState::making ? BlockState::absent : BlockState::dropped);
}

void Lanes::dropped(BlockRef block) {
  BF_CHECK(state(block) == BlockState::resident);
  parts_->members.change_state(block, BlockState::dropped);
}

// ---------------------------------------------------------------------------------- members ----

std::uint32_t Lanes::tag(MemberId member) const {
  return parts_->members.at(member).tag;
}
bool Lanes::strict(MemberId member) const {
  return parts_->members.at(member).strict;
}
bool Lanes::in_epoch(MemberId member) const {
  return parts_->members.at(member).runs[0].active;
}
bool Lanes::next_epoch_begun(MemberId member) const {
  return parts_->members.at(member).runs[1].active;
}
std::uint64_t Lanes::blocks_left(MemberId member) const {
  return parts_->members.at(member).runs[0].untaken;
}
bool Lanes::is_to_come(MemberId member, std::uint32_t lane) const {
  return parts_->members.at(member).runs[0].needs.test(lane);
}

std::uint64_t Lanes::generation(MemberId member) const {
  return parts_->generations[parts_->members.at(member).runs[0].generation].number;
}

const LaneSizes& Lanes::sizes(MemberId member) const {
  return parts_->generations[parts_->members.at(member).runs[0].generation].sizes;
}

bool Lanes::needs(MemberId id, BlockRef block) const {
  const LaneMember& member = parts_->members.at(id);
  BF_CHECK(valid(block));
  for (const LaneRun& run : member.runs) {
    const std::uint32_t slot = parts_->members.find_open(run, block.pass);
    if (slot != kNone) return !parts_->passes.member(slot).taken.test(block.block);
  }
  return false;
}

BlockRef Lanes::find(MemberId member, const BlockName& name) const {
  const LanePasses& passes = parts_->passes;
  for (const LaneRun::Open& open : parts_->members.at(member).runs[0].open) {
    const std::uint32_t slot = passes.member(open.member).pass;
    const Pass& pass = passes[slot];
    if (pass.lane == name.lane && pass.number == name.pass && name.block < pass.blocks() &&
        parts_->generations[pass.generation].number == name.generation)
      return {slot, name.block, pass.serial};
  }
  return {};
}

LanePosition Lanes::position(MemberId id) const {
  const LaneMember& member = parts_->members.at(id);
  BF_CHECK_MSG(!member.strict, "a strict position is an epoch and a count");
  const LaneRun& run = member.runs[0];
  const Generation& generation = parts_->generations[run.generation];
  LanePosition position;
  position.generation = generation.number;
  position.sizes = generation.sizes;
  position.passes = run.passes;
  position.had = Bitmap(generation.sizes.lanes(), true);
  run.needs.for_each([&](std::size_t lane) { position.had.reset(lane); });
  for (const LaneRun::Open& open : run.open) {
    const PassMember& in_pass = parts_->passes.member(open.member);
    const Pass& pass = parts_->passes[in_pass.pass];
    position.had.reset(pass.lane);
    position.open.push_back({pass.lane, pass.number, in_pass.taken});
  }
  return position;
}

// ----------------------------------------------------------------------------------- blocks ----

bool Lanes::valid(BlockRef block) const {
  return parts_->passes.valid(block);
}

BlockName Lanes::name(BlockRef block) const {
  const Pass& pass = parts_->passes.at(block);
  return {parts_->generations[pass.generation].number, pass.lane, pass.number, block.block};
}

const LaneSizes& Lanes::sizes(BlockRef block) const {
  return parts_->generations[parts_->passes.at(block).generation].sizes;
}

std::uint32_t Lanes::samples(BlockRef block) const {
  return sizes(block).samples_of(parts_->passes.at(block).lane, block.block);
}

BlockState Lanes::state(BlockRef block) const {
  return parts_->passes.at(block).states[block.block];
}
std::uint32_t& Lanes::tag(BlockRef block) {
  return parts_->passes.tag(block);
}
std::uint32_t Lanes::needed(BlockRef block) const {
  return parts_->passes.at(block).needed[block.block];
}

std::uint32_t Lanes::may_join(BlockRef block) const {
  const Pass& pass = parts_->passes.at(block);
  const LaneDemand& demand = parts_->demand;
  const std::uint32_t relaxed = pass.may_be_joined() ? demand.wanted(block.pass) : 0;
  if (pass.number != 0) return relaxed;
  return relaxed + demand.at(pass.generation).lanes[pass.lane].strict_ahead +
         parts_->strict.to_come(parts_->generations[pass.generation]);
}

MemberId Lanes::next_needing(BlockRef block, std::size_t& from) const {
  const LanePasses& passes = parts_->passes;
  const std::vector<std::uint32_t>& members = passes[block.pass].members;
  while (from < members.size()) {
    const PassMember& member = passes.member(members[from++]);
    if (!member.taken.test(block.block)) return member.member;
  }
  return MemberId::none();
}

bool Lanes::find_changed_needs(std::size_t limit, std::vector<BlockRef>& found) {
  return parts_->changed.visit(limit, found);
}

void Lanes::on_changed_needs(std::function<void()> report) {
  parts_->changed.on_change(std::move(report));
}

// ------------------------------------------------------------------------------- statistics ----

std::size_t Lanes::members() const {
  return parts_->members.used();
}
std::size_t Lanes::open_passes() const {
  return parts_->passes.used();
}
std::size_t Lanes::generations() const {
  return parts_->generations.used();
}

void Lanes::check_consistency() const {
  parts_->passes.check();
  parts_->members.check();
}

}  // namespace batchflow::order
