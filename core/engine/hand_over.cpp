#include "core/engine/hand_over.h"

#include <algorithm>
#include <optional>

#include "core/engine/books.h"
#include "core/engine/read_groups.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

namespace {

constexpr std::size_t kReadsMost = 4;     // under way from one node
constexpr std::size_t kSamplesMost = 64;  // of one read
constexpr std::uint32_t kLookedAtAStep = 2048;
// A node that has no room for a copy now may have some then.
constexpr Duration kAgainAfter = std::chrono::milliseconds(5);

}  // namespace

void HandOver::begin(NodeIndex node) {
  forget(node);
  Leaving leaving{node, {}, 0, {}};
  for (std::uint32_t index = 0; index < s_.datasets.size(); ++index) {
    const ItemCaches& caches = item_shares_.caches(s_.datasets[DatasetIndex(index)].id);
    for (const ItemCache* cache = caches.first(node); cache != nullptr;
         cache = caches.next(*cache)) {
      leaving.shares.insert(leaving.shares.end(), cache->shares.rbegin(), cache->shares.rend());
    }
  }
  leaving_.push_back(std::move(leaving));
}

void HandOver::forget(NodeIndex node) {
  std::erase_if(leaving_, [node](const Leaving& one) { return one.node == node; });
}

void HandOver::go_on() {
  for (std::size_t i = 0; i < leaving_.size();) {
    Leaving& leaving = leaving_[i];
    std::erase_if(leaving.reads, [this](const auto& read) {
      return !reads_.is_under_way(read.first, read.second);
    });
    while (!leaving.shares.empty()) {
      const ShareId share = leaving.shares.back();
      if (s_.memory.live(share) && !copy_some(leaving, share)) break;
      leaving.shares.pop_back();
      leaving.item = 0;
    }
    if (!leaving.shares.empty() || is_under_way(leaving)) {
      ++i;
      continue;
    }
    const NodeIndex node = leaving.node;
    leaving_.erase(leaving_.begin() + static_cast<std::ptrdiff_t>(i));
    item_shares_.let_go(node);
    s_.emit(LetGo{s_.nodes[node].id});
  }
}

bool HandOver::is_under_way(const Leaving& leaving) const {
  return !leaving.reads.empty() || s_.nodes[leaving.node].started > 0;
}

// A pipeline that begins with what the samples of the share have been through. None: no job has
// one.
PipelineId HandOver::pipeline_of(const SharePart& part) const {
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(part.spec.dataset)];
  for (const StreamId index : dataset.streams) {
    const Stream& stream = s_.streams[index];
    if (part.spec.prefix == 0 || stream.pipeline->prefix_hash == part.spec.prefix)
      return stream.pipeline_id;
  }
  return PipelineId::none();
}

bool HandOver::copy_some(Leaving& leaving, ShareId share) {
  if (leaving.reads.size() >= kReadsMost) return false;
  const SharePart& part = s_.memory[share];
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(part.spec.dataset)];
  const ItemCaches& caches = item_shares_.caches(dataset.id);
  const std::optional<Placement> homes = item_shares_.homes_without_leaving(dataset);
  const PipelineId pipeline = pipeline_of(part);
  if (!homes || (part.spec.prefix != 0 && pipeline.is_none())) return true;
  parcels_.clear();
  gone_.clear();
  bool is_full = false;
  std::uint32_t looked_at = 0;
  for (; leaving.item < part.spec.items && looked_at < kLookedAtAStep && !is_full; ++looked_at) {
    const ItemId item(leaving.item++);
    if (!part.share->resident(item) || !reads_.provider(share, item).is_none()) continue;
    const SampleId first(std::uint64_t{item.value} << part.spec.bundle_shift);
    const NodeIndex home = s_.node_of.at(homes->owner(
        dataset.catalogue->version(), first_in_bundle(first, dataset.catalogue->bundle_shift())));
    const ItemCache* const cache = caches.find(home, part.spec.prefix);
    const ShareId to = cache ? room_for(item, part, dataset, *cache) : ShareId::none();
    if (to.is_none()) continue;
    is_full = !add(item, dataset, to);
    if (is_full) --leaving.item;
  }
  for (const Parcel& parcel : parcels_) {
    if (parcel.samples.empty()) continue;
    const Form form = part.spec.prefix == 0 ? Form::encoded : Form::decoded;
    const NodeIndex node = s_.node_of.at(s_.memory[parcel.to].spec.place.node);
    Reads::Spec spec = read_spec(s_, {share, parcel.to, form}, dataset.id, node);
    spec.lineage.dataset = dataset.id;
    spec.lineage.pipeline = pipeline;
    const ReadIndex read = reads_.open(spec, parcel.samples);
    leaving.reads.push_back({read, s_.reads[read].request.id});
    s_.counters.samples_handed_over += parcel.samples.size() << part.spec.bundle_shift;
  }
  if (leaving.item >= part.spec.items) return true;
  // Else a read that ends is the reason to go on.
  if (!is_full || leaving.reads.empty())
    s_.alarms.set(after(s_.now, is_full ? kAgainAfter : Duration(0)), {});
  return false;
}

// What leaves memory may come to a drive, and the other way round.
ShareId HandOver::room_for(ItemId item, const SharePart& from, const Dataset& dataset,
                           const ItemCache& to) const {
  if (item_shares_.has_on_gpu(to, SampleId(item.value))) return ShareId::none();
  for (const ShareId index : {to.dram, to.nvme}) {
    if (index.is_none()) continue;
    const SharePart& part = s_.memory[index];
    if (part.spec.bundle_shift != from.spec.bundle_shift) continue;
    // Decoded samples are kept in memory alone.
    if (part.spec.prefix != 0 && part.spec.place.tier == Tier::nvme) continue;
    // A pipeline may say of the same first steps that they make samples of another size.
    if (part.spec.prefix != 0 && part.spec.slot_bytes != from.spec.slot_bytes) continue;
    if (part.share->resident(item)) return ShareId::none();
    if (part.share->used() + slots_of(*dataset.catalogue, part.spec, item) <=
        part.share->capacity())
      return index;
  }
  return ShareId::none();
}

// False: there is no staging memory for it now, or this was enough for one step.
bool HandOver::add(ItemId item, const Dataset& dataset, ShareId to) {
  const SharePart& part = s_.memory[to];
  Share& share = *part.share;
  const SampleId first(std::uint64_t{item.value} << part.spec.bundle_shift);
  const Bytes staged = part.spec.prefix != 0        ? staged_bytes(s_, part.spec.slot_bytes)
                       : part.spec.bundle_shift > 0 ? staged_bundle_bytes(s_, dataset, first)
                                                    : staged_bytes(s_, dataset, first);
  auto parcel = std::find_if(parcels_.begin(), parcels_.end(),
                             [&](const Parcel& one) { return one.to == to; });
  if (parcel == parcels_.end()) {
    parcels_.push_back({to, {}, 0});
    parcel = parcels_.end() - 1;
  }
  const Bytes free = s_.config.count_staging
                         ? s_.memory.staging(dram_of(part.spec.place.node)).free() / 2
                         : UINT64_MAX;
  if (parcel->samples.size() == kSamplesMost) return false;
  if (saturating_sum(parcel->staged, staged) > free) return false;
  Access access{item, slots_of(*dataset.catalogue, part.spec, item)};
  access.at = s_.now;
  // There is room, so nothing leaves for it.
  if (!share.insert_forced(access, gone_)) return true;
  share.pin(item);  // for the read that will bring it
  parcel->samples.push_back(first);
  parcel->staged += staged;
  return true;
}

}  // namespace batchflow::engine
