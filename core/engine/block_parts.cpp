#include "core/engine/block_parts.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

namespace {

// How many samples are let go in the time in which one is looked up.
constexpr std::size_t kLetGoASample = 4;

}  // namespace

void BlockParts::wait(MakingIndex index) {
  Making& making = s_.makings[index];
  Node& node = s_.nodes[making.node];
  ++making.waiting;
  making.waits_for_staging = true;
  node.wait_for_staging.push_back(index);
  if (node.wait_for_staging.size() == 1) stage_waiting(making.node);
}

// The making no longer waits for its turn for staging memory.
void BlockParts::stop_waiting(MakingIndex index) {
  Making& making = s_.makings[index];
  if (!std::exchange(making.waits_for_staging, false)) return;
  std::erase(s_.nodes[making.node].wait_for_staging, index);
  --making.waiting;
  s_.staging_changed(making.node);
}

// Whether there is staging memory for as much as a part may have, or for all that is left.
bool BlockParts::staging_fits(const Making& making) const {
  if (!s_.config.count_staging) return true;
  const Node& node = s_.nodes[making.node];
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  const auto doubts = std::count_if(making.suspects.begin(), making.suspects.end(),
                                    [](const auto& one) { return !one.settled; });
  const std::uint64_t samples =
      doubts > 0 ? static_cast<std::uint64_t>(doubts) : block.samples - making.next;
  const Bytes rest = saturating_product(samples, largest_staged(s_, stream));
  return std::min(part_bytes(s_, node, stream), rest) <= s_.memory.staging(dram_of(node.id)).free();
}

void BlockParts::stage_waiting(NodeIndex node_index) {
  Node& node = s_.nodes[node_index];
  while (!node.wait_for_staging.empty()) {
    if (s_.samples_looked_up >= EngineState::kSamplesAStep) {
      s_.staging_changed(node_index);
      return s_.alarms.set(s_.now, {});
    }
    const MakingIndex index = node.wait_for_staging.front();
    const Making& making = s_.makings[index];
    // What was promised has been taken back; the block is made elsewhere.
    if (!can_stage(s_, node, s_.streams[s_.blocks[making.block].stream])) {
      reads_.listener().making_failed(index, std::nullopt);
      continue;
    }
    if (!staging_fits(making)) return;
    node.wait_for_staging.pop_front();
    begin(index);
  }
}

bool BlockParts::stage_waiting() {
  bool any = false;
  std::vector<NodeIndex> changed;
  changed.swap(s_.nodes_to_stage);
  s_.sort_by_joining(changed);
  for (const NodeIndex index : changed) {
    s_.nodes[index].staging_changed = false;
    const std::size_t before = s_.nodes[index].wait_for_staging.size();
    stage_waiting(index);
    any = any || s_.nodes[index].wait_for_staging.size() != before;
  }
  return any;
}

void BlockParts::plan_staging() {
  for (const NodeIndex index : std::exchange(s_.nodes_to_plan, {})) {
    Node& node = s_.nodes[index];
    node.staging_due = false;
    if (!node.lost) engine::plan_staging(s_, node);
    s_.staging_changed(index);
  }
}

void BlockParts::begin(MakingIndex index) {
  Making& making = s_.makings[index];
  const Node& node = s_.nodes[making.node];
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  making.waits_for_staging = false;
  making.part = ++s_.serials;
  making.mends = Suspects::has_doubts(making);
  const Bytes most = s_.config.count_staging ? std::min(part_bytes(s_, node, stream),
                                                        s_.memory.staging(dram_of(node.id)).free())
                                             : UINT64_MAX;
  if (making.mends) {
    suspects_.look_again(index, most);
  } else if (!begin_plain(index, most) && !begin_kept(index)) {
    const std::uint32_t first = making.next;
    if (making.draws.empty()) s_.expand(block, making.draws);
    items_.look_up(index, most);
    s_.samples_looked_up += making.next - first;
    making.whole = first == 0 && making.next == block.samples;
    if (names_samples(making)) {
      making.kept_from = first;
      making.kept_to = making.next;
    }
    if (making.next == block.samples) making.draws.clear();
  }
  if (--making.waiting == 0) reads_.listener().making_ready(index);
}

// Whether a worker can find the samples of the block in bundles that are kept, by the block's name.
bool BlockParts::names_samples(const Making& making) const {
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  const Dataset& dataset = s_.datasets[stream.dataset];
  return dataset.catalogue->has_bundles() && stream.names_samples() && !block.rehearsal &&
         making.suspects.empty();
}

// No sample is looked at if all of the dataset is kept as it is stored.
bool BlockParts::begin_kept(MakingIndex index) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  if (making.next > 0 || block.rehearsal) return false;
  const ShareId share = kept_items_.whole(s_.streams[block.stream], making.node);
  if (share.is_none()) return false;
  items_.use_whole(making, share);
  making.draws.clear();
  making.kept_from = 0;
  making.kept_to = making.next = block.samples;
  making.whole = true;
  return true;
}

// One read for the whole block, without a look at any sample, if nothing could be kept or shared.
bool BlockParts::begin_plain(MakingIndex index, Bytes most) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  if (making.next > 0 || block.rehearsal || !kept_items_.plain(stream)) return false;
  const Bytes all = saturating_product(block.samples, largest_staged(s_, stream));
  if (all > most) return false;
  Reads::Spec spec;
  spec.dataset = s_.datasets[stream.dataset].id;
  spec.from = {NodeId::none(), Tier::store, 0};
  spec.to = {block.node, Tier::dram, 0};
  spec.node = making.node;
  spec.lineage = s_.lineage(block);
  spec.all = s_.config.count_staging ? all : 0;
  if (!making.worker.is_none()) spec.held = s_.workers[making.worker].id;
  const ReadIndex read = reads_.open(spec, {});
  reads_.own(read, index);
  making.staging = s_.reads[read].request.id;
  making.draws.clear();
  making.next = block.samples;
  making.whole = true;
  return true;
}

void BlockParts::end(MakingIndex index) {
  Making& making = s_.makings[index];
  s_.samples_looked_up += making.ingredients.size() / kLetGoASample;
  items_.leave(making, index, true);
  making.ingredients.clear();
  making.staging = RequestId::none();
  making.kept_from = making.kept_to = 0;
  making.attempts = 0;
}

}  // namespace batchflow::engine
