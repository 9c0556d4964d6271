#include "core/engine/second_workers.h"

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"

namespace batchflow::engine {

namespace {

// With fewer times one cannot tell what is late.
constexpr std::uint64_t kTimesLeast = 100;

}  // namespace

std::optional<Duration> SecondWorkers::late_after(const Stream& stream) const {
  if (s_.config.late_after_p99 == 0) return std::nullopt;
  if (stream.preparation_times.count() < kTimesLeast) return std::nullopt;
  const std::uint64_t p99 = stream.preparation_times.quantile(.99);
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 40;  // some 18 minutes
  return Duration(
      static_cast<std::int64_t>(std::min(p99, kLongest) * s_.config.late_after_p99 + 1));
}

// One alarm for each stream, for the preparation that began first: most are over when it fires.
void SecondWorkers::watch(Stream& stream, MakingIndex index) {
  const Making& making = s_.makings[index];
  if (making.second || !making.whole || making.mends) return;
  const auto limit = late_after(stream);
  if (!limit) return;
  stream.begun.push_back({index, making.serial, s_.now});
  if (stream.watched) return;
  stream.watched = true;
  s_.alarms.set(after(s_.now, *limit), {AlarmKind::late_prepare, stream.id.value, 0});
}

bool SecondWorkers::is_preparing(const Stream::Begun& begun) const {
  if (!s_.makings.live(begun.making)) return false;
  const Making& making = s_.makings[begun.making];
  return making.serial == begun.serial && making.preparing && making.prepare_since == begun.since &&
         making.other_making.is_none();
}

void SecondWorkers::look_for_late(StreamId index, const std::function<void(MakingIndex)>& send) {
  if (!s_.streams.live(index)) return;
  Stream& stream = s_.streams[index];
  stream.watched = false;
  const auto limit = late_after(stream);
  if (!limit) return;
  while (!stream.begun.empty()) {
    const Stream::Begun begun = stream.begun.front();
    if (is_preparing(begun)) {
      Instant next = after(begun.since, *limit);
      if (next <= s_.now) {
        // If no worker or slot is free, it is tried again later.
        if (!start(stream, begun.making, send)) next = after(s_.now, *limit);
      }
      if (next > s_.now) {
        stream.watched = true;
        s_.alarms.set(next, {AlarmKind::late_prepare, index.value, 0});
        return;
      }
    }
    stream.begun.pop_front();
  }
}

// False: there is no worker or slot to spare. A block has only one worker if it is prepared in
// parts, or if samples of it go into the cache of decoded ones: two workers would write to the same
// slots.
bool SecondWorkers::start(Stream& stream, MakingIndex index,
                          const std::function<void(MakingIndex)>& send) {
  const Making& first = s_.makings[index];
  const bool in_parts = !first.whole || first.mends;
  if (in_parts || !first.decoding.empty()) return true;  // nothing to try again
  Node& node = s_.nodes[first.node];
  if (!node.takes_work || node.idle.empty() || !node.ready.empty()) return false;
  StreamNode& part = part_on(stream, node.id);
  const Share& share = *s_.memory[part.share].share;
  if (part.ahead >= spare(s_, part)) return false;
  if (share.used() >= share.capacity() && share.evictable() == 0) return false;

  const BlockIndex block_index = s_.blocks.make();
  const auto taken = s_.memory.take(part.share, block_index, s_.evicted);
  if (!taken) {
    s_.blocks.release(block_index);
    return false;
  }
  drop_evicted(s_);
  const MakingIndex second_index = s_.makings.make();
  Making& making = s_.makings[index];
  Making& second = s_.makings[second_index];
  Block& block = s_.blocks[block_index];
  block = s_.blocks[making.block];
  block.serial = ++s_.serials;
  block.ref = {};
  block.item = taken->item;
  block.slot = taken->slot;
  block.making = second_index;
  block.grants = 0;
  block.charge = Charge::ahead;
  block.charged_job = JobIndex::none();
  ++part.ahead;

  second.block = block_index;
  second.node = making.node;
  second.remake = making.remake;
  second.serial = ++s_.serials;
  second.second = true;
  second.other_making = index;
  making.other_making = second_index;
  second.ingredients = making.ingredients;
  second.staging = making.staging;
  second.suspects = making.suspects;
  second.next = making.next;
  second.part = making.part;
  second.whole = true;
  second.pins = making.pins;
  for (const ItemPin& pin : second.pins) s_.memory[pin.share].share->pin(pin.item);
  second.pinned_all = making.pinned_all;
  if (!second.pinned_all.is_none()) s_.memory[second.pinned_all].share->pin_all();
  second.kept_from = making.kept_from;
  second.kept_to = making.kept_to;
  reads_.hold_likewise(making, second_index);
  BF_CHECK(second.waiting == 0);
  second.worker = workers_.take(making.node, second_index);
  ++node.started;
  ++s_.counters.second_workers;
  send(second_index);
  return true;
}

// The second worker was faster: its slot becomes the block's, and the first worker goes on with the
// other slot.
void SecondWorkers::use(MakingIndex second_index) {
  Making& second = s_.makings[second_index];
  const MakingIndex first_index = second.other_making;
  Making& first = s_.makings[first_index];
  Block& mine = s_.blocks[first.block];
  Block& other = s_.blocks[second.block];
  std::swap(mine.item, other.item);
  std::swap(mine.slot, other.slot);
  auto& owner_of = s_.memory[mine.share].owner_of;
  owner_of[mine.item.value] = first.block;
  owner_of[other.item.value] = second.block;
  std::swap(first.worker, second.worker);
  std::swap(first.request, second.request);
  std::swap(first.prepare_since, second.prepare_since);
  workers_.reassign(first.worker, first_index);
  workers_.reassign(second.worker, second_index);
  s_.requests.reassign(first.request, first_index.value);
  s_.requests.reassign(second.request, second_index.value);
}

// One of the two makings is over: they no longer refer to each other.
void SecondWorkers::separate(Making& making) {
  if (making.other_making.is_none()) return;
  s_.makings[making.other_making].other_making = MakingIndex::none();
  making.other_making = MakingIndex::none();
}

}  // namespace batchflow::engine
