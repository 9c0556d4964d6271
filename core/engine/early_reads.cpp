#include "core/engine/early_reads.h"

#include <algorithm>
#include <utility>

#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/read_groups.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

namespace {

// Of one read: what a job waits for meanwhile is not far behind it.
constexpr std::size_t kSamplesMost = 64;
constexpr Bytes kUnlimited = UINT64_MAX;

}  // namespace

void EarlyReads::go_on() {
  looked_at_.clear();
  looked_at_.swap(s_.nodes_to_read_early);
  s_.sort_by_joining(looked_at_);
  for (const NodeIndex node : looked_at_) {
    s_.nodes[node].store_idle = false;
    if (s_.memory.eviction().reads_early()) go_on(node);
  }
}

void EarlyReads::go_on(NodeIndex index) {
  const Node& node = s_.nodes[index];
  if (node.lost || node.store_reads > 0 || !node.wait_for_staging.empty()) return;
  bool more = false;
  for (const StreamId stream : node.streams) {
    const DatasetIndex dataset = s_.streams[stream].dataset;
    const ItemCache* cache = item_shares_.cache(index, s_.datasets[dataset].id, 0);
    if (cache == nullptr) continue;
    for (const ShareId share : cache->shares) {
      const Found found = look_ahead(index, dataset, share);
      if (found == Found::some) return;
      more = more || found == Found::more_to_look_at;
      if (s_.samples_looked_up >= EngineState::kSamplesAStep) break;
    }
  }
  if (!more) return;
  s_.store_is_idle(index);
  s_.alarms.set(s_.now, {});
}

// A job with an order that says what comes next; null: there is none.
const Job* EarlyReads::reader(const Dataset& dataset) const {
  for (const StreamId index : dataset.streams) {
    const Stream& stream = s_.streams[index];
    if (!stream.names_samples() || !stream.lanes) continue;
    for (const JobIndex each : stream.jobs) {
      const Job& job = s_.jobs[each];
      if (job.state != Job::State::running || job.member.is_none()) continue;
      if (stream.lanes->in_epoch(job.member)) return &job;
    }
  }
  return nullptr;
}

EarlyReads::Found EarlyReads::look_ahead(NodeIndex node, DatasetIndex dataset, ShareId share) {
  const SharePart& part = s_.memory[share];
  if (!part.choice->entry->reads_early || part.share->adopting()) return Found::nothing;
  if (part.share->capacity() == 0 || part.share->residents() == part.spec.items) {
    return Found::nothing;
  }
  const Job* job = reader(s_.datasets[dataset]);
  if (job == nullptr) return Found::nothing;
  if (cursors_.size() <= share.value) cursors_.resize(share.value + 1);
  Cursor& cursor = cursors_[share.value];
  return settle(cursor, *job) ? look_at_block(node, *job, share, cursor) : Found::nothing;
}

// Brings the cursor to where the job is. False: there is nothing ahead of it that is known. A
// strict job's next epoch is known, too; in which generation a relaxed job will be is not.
bool EarlyReads::settle(Cursor& cursor, const Job& job) const {
  const order::Lanes& lanes = *s_.streams[job.stream].lanes;
  const order::LaneSizes& sizes = lanes.sizes(job.member);
  const std::uint64_t epoch = job.lanes_epoch;
  if (cursor.job != job.serial || cursor.epoch < epoch) cursor = {job.serial, epoch, 0, 0};
  if (job.order != Order::relaxed && cursor.epoch == epoch) {
    const std::uint64_t taken = sizes.blocks() - lanes.blocks_left(job.member);
    const std::uint64_t made = taken + lanes.supply(job.member);
    if (cursor.block < made) cursor = {job.serial, epoch, made, 0};
  }
  if (cursor.block < sizes.blocks()) return true;
  const bool last = job.epochs != 0 && cursor.epoch + 1 >= job.epochs;
  if (job.order == Order::relaxed || last || cursor.epoch > epoch) return false;
  cursor = {job.serial, epoch + 1, 0, 0};
  return true;
}

// Whether the sample would be kept in this share of the node, and nothing brings it yet.
bool EarlyReads::may_come(NodeIndex node, const Dataset& dataset, const Stream& stream,
                          ShareId share, SampleId sample) const {
  const SharePart& part = s_.memory[share];
  if (part.share->resident(part.spec.item_of(sample))) return false;
  const ItemCaches& caches = item_shares_.caches(dataset.id);
  if (caches.homes()) {
    if (item_shares_.home_of(dataset, sample, node) != node) return false;
    const auto has_it = [&](const ItemCache* cache) { return item_shares_.has(*cache, sample); };
    if (std::any_of(from_before_.begin(), from_before_.end(), has_it)) return false;
  }
  const ItemCache* stored = caches.find(node, 0);
  const ItemCache* decoded =
      stream.pipeline->decodes() ? caches.find(node, stream.pipeline->prefix_hash) : nullptr;
  for (const ItemCache* cache : {stored, decoded}) {
    if (cache != nullptr && item_shares_.has(*cache, sample)) return false;
  }
  return reads_.shown().find(node, dataset.id, sample, Form::encoded).is_none();
}

EarlyReads::Found EarlyReads::look_at_block(NodeIndex node, const Job& job, ShareId share,
                                            Cursor& cursor) {
  const Stream& stream = s_.streams[job.stream];
  const Dataset& dataset = s_.datasets[stream.dataset];
  const order::Lanes& lanes = *stream.lanes;
  const order::LaneSizes& sizes = lanes.sizes(job.member);
  const auto lane = static_cast<std::uint32_t>(cursor.block / sizes.lane_blocks);
  if (job.order == Order::relaxed && !lanes.is_to_come(job.member, lane)) {
    ++s_.samples_looked_up;
    cursor = {cursor.job, cursor.epoch, sizes.first_block_of(lane + 1), 0};
    return Found::more_to_look_at;
  }
  const order::BlockName name{lanes.generation(job.member) + (cursor.epoch - job.lanes_epoch), lane,
                              0, static_cast<std::uint32_t>(cursor.block % sizes.lane_blocks)};
  const order::Lineage lineage = s_.lineage(stream, sizes, name);
  s_.expander.expand(lineage, dataset.catalogue->samples(), cursor.sample, lineage.samples, order_);
  s_.samples_looked_up += order_.size();
  future_.look_at(dataset);

  const SharePart& part = s_.memory[share];
  const std::uint8_t shift = part.spec.bundle_shift;
  const StagingPart& staging = s_.memory.staging(dram_of(s_.nodes[node].id));
  const Bytes most = s_.config.count_staging ? staging.free() / 2 : kUnlimited;
  Bytes bytes = 0;
  bool stopped = false;
  found_.clear();
  gone_.clear();
  from_before_.clear();
  item_shares_.find_from_before(dataset, *stream.pipeline, from_before_);
  for (const SampleId sample : order_) {
    ++cursor.sample;
    if (!may_come(node, dataset, stream, share, sample)) continue;
    const ItemId item = part.spec.item_of(sample);
    const Bytes stored = stored_bytes(*dataset.catalogue, part.spec, item);
    const Bytes staged = staged_bytes(s_, stored);
    Access access{item, slots_for(stored, part.spec.slot_bytes)};
    if (access.slots > kItemSlotsMost) continue;
    stopped = found_.size() == kSamplesMost || saturating_sum(bytes, staged) > most;
    if (!stopped) {
      access.at = s_.now;
      access.job = job.id;
      if (part.wants_next_uses(1)) access.next_use = future_.next_use(0, sample);
      const EarlyRead answer = part.share->insert_early(access, gone_);
      stopped = answer == EarlyRead::stop;
      if (answer == EarlyRead::yes) {
        part.share->pin(item);  // for the read that will bring it
        bytes += staged;
        found_.push_back(first_in_bundle(sample, shift));
      }
    }
    if (!stopped) continue;
    --cursor.sample;
    break;
  }
  if (cursor.sample == lineage.samples) cursor = {cursor.job, cursor.epoch, cursor.block + 1, 0};
  for (const ItemId item : gone_) s_.evicted.push_back({share, item});
  drop_evicted(s_);
  if (found_.empty()) return stopped ? Found::nothing : Found::more_to_look_at;
  Reads::Spec spec = read_spec(s_, {ShareId::none(), share}, dataset.id, node);
  spec.lineage = lineage;  // of the block that wants them first
  reads_.open(spec, found_);
  s_.counters.samples_read_early += found_.size();
  return Found::some;
}

}  // namespace batchflow::engine
