#include "core/engine/item_shares.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/flat_map.h"
#include "core/engine/placement.h"

namespace batchflow::engine {

namespace {

// Completes the share of a form: how many items there are, and what all of them take.
ShareSpec item_share(ShareSpec spec, const Catalogue& catalogue) {
  spec.items = spec.slots_all = catalogue.samples();
  if (spec.use == ShareUse::decoded) return spec;
  // A drive reads single samples as fast as bundles, and is for what memory cannot keep.
  spec.bundle_shift = spec.place.tier == Tier::dram ? catalogue.bundle_shift() : 0;
  const Bytes slot = spec.slot_bytes;
  if (spec.bundle_shift > 0) spec.items = catalogue.bundles();
  if (catalogue.is_uniform()) {
    const Bytes each = spec.bundle_shift > 0 ? catalogue.bundle_bytes(0) : catalogue.mean_bytes();
    spec.slots_all = saturating_product(spec.items, slots_for(each, slot));
  } else {
    // Each begins a slot, so items of different sizes need at most one slot more each.
    spec.slots_all = saturating_sum(spec.items, slots_for(catalogue.total_bytes(), slot));
  }
  return spec;
}

}  // namespace

const ItemCaches& ItemShares::caches(DatasetId dataset) const {
  static const ItemCaches kNoneYet;
  const DatasetIndex index = s_.dataset_of.at(dataset);
  return index.value < caches_.size() ? caches_[index.value] : kNoneYet;
}

const ItemCache* ItemShares::cache(NodeIndex node, DatasetId dataset, Digest prefix) const {
  return s_.nodes[node].lost ? nullptr : caches(dataset).find(node, prefix);
}

NodeIndex ItemShares::home_of(const Dataset& dataset, SampleId sample, NodeIndex node) const {
  const ItemCaches& caches = this->caches(dataset.id);
  if (!caches.homes()) return node;
  const Catalogue& catalogue = *dataset.catalogue;
  const SampleId first = first_in_bundle(sample, catalogue.bundle_shift());
  return s_.node_of.at(caches.homes()->member(caches.home_of(catalogue.version(), first)));
}

std::uint64_t ItemShares::samples_kept(const Dataset& dataset) const {
  std::uint64_t samples = 0;
  for (const ItemCache& cache : caches(dataset.id).all()) {
    if (cache.prefix != 0 || cache.dram.is_none()) continue;
    const SharePart& part = s_.memory[cache.dram];
    const Bytes bytes = saturating_product(part.target, part.spec.slot_bytes);
    samples = saturating_sum(samples, bytes / std::max<Bytes>(1, dataset.catalogue->mean_bytes()));
  }
  return samples;
}

bool ItemShares::open_shares(NodeIndex node, const Dataset& dataset, const PipelineInfo& pipeline) {
  if (dataset.catalogue->bundles() > kCachedItemsMost) return false;
  caches_.resize(s_.datasets.size());
  ItemCaches& caches = caches_[s_.dataset_of.at(dataset.id).value];
  bool opened = false;
  const auto open = [&](ShareUse use, Digest prefix, Bytes slot_bytes) {
    if (caches.find(node, prefix)) return;
    opened = true;
    ItemCache made{node, prefix};
    const auto add = [&](Place place) {
      const ShareSpec spec =
          item_share({place, use, dataset.id, prefix, slot_bytes}, *dataset.catalogue);
      if (s_.memory.has(place) && spec.items <= kCachedItemsMost)
        made.add(place.tier, begin_share(spec));
    };
    for (const Tier tier : {Tier::dram, Tier::nvme}) add({s_.nodes[node].id, tier, 0});
    for (std::uint16_t gpu = 0; use == ShareUse::decoded && gpu < s_.nodes[node].gpus; ++gpu)
      add({s_.nodes[node].id, Tier::gpu, gpu});
    caches.add(made);
    if (prefix == 0) caches.homes_known = false;
  };
  open(ShareUse::encoded, 0, s_.config.item_slot_bytes);
  if (pipeline.decodes()) open(ShareUse::decoded, pipeline.prefix_hash, pipeline.decoded_bytes);
  return opened;
}

// A command that keeps decoded samples names the share alone. Where that may be on a GPU, the
// backend is told where it is.
ShareId ItemShares::begin_share(const ShareSpec& spec) {
  const ShareId share = s_.memory.add_share(spec);
  if (spec.use == ShareUse::decoded && s_.nodes[s_.node_of.at(spec.place.node)].gpus > 0)
    s_.emit(Adopt{spec.place, share, spec.dataset, spec.prefix});
  return share;
}

void ItemShares::close_shares(NodeIndex node) {
  for (ItemCaches& caches : caches_) {
    if (caches.first(node) == nullptr) continue;
    for (const ItemCache* cache = caches.first(node); cache != nullptr;
         cache = caches.next(*cache)) {
      for (const ShareId share : cache->shares) {
        // Makings elsewhere that used what was here lose their pins on it, not their bytes.
        s_.makings.each([&](MakingIndex index) {
          std::erase_if(s_.makings[index].pins,
                        [&](const ItemPin& pin) { return pin.share == share; });
          ShareId& all = s_.makings[index].pinned_all;
          if (all == share) all = ShareId::none();
        });
        s_.memory.remove_share(share);
      }
    }
    caches.remove_node(node);
    settle_homes(caches);
  }
}

void ItemShares::settle(const Dataset& dataset) {
  const std::uint32_t index = s_.dataset_of.at(dataset.id).value;
  if (index >= caches_.size()) return;
  if (!caches_[index].homes_known) settle_homes(caches_[index]);
  count_jobs(dataset);
}

// Counts the jobs that read what is kept: all jobs of the dataset that use the form. If nodes share
// nothing: those on the node, and one for jobs that may come there.
void ItemShares::count_jobs(const Dataset& dataset) {
  FlatMap here;                                           // jobs of a node
  std::vector<std::pair<Digest, std::uint32_t>> readers;  // of each form; 0: as it is stored
  const auto readers_of = [&](Digest prefix) -> std::uint32_t& {
    const auto found = std::find_if(readers.begin(), readers.end(),
                                    [&](const auto& one) { return one.first == prefix; });
    return found != readers.end() ? found->second : readers.emplace_back(prefix, 0).second;
  };
  for (const StreamId index : dataset.streams) {
    const Stream& stream = s_.streams[index];
    if (stream.jobs.empty()) continue;
    const auto jobs = static_cast<std::uint32_t>(stream.jobs.size());
    readers_of(0) += jobs;
    if (stream.pipeline->prefix_hash != 0) readers_of(stream.pipeline->prefix_hash) += jobs;
    if (s_.config.share_nodes) continue;
    for (const StreamNode& part : stream.nodes) {
      const NodeIndex node = s_.node_of.at(part.node);
      const std::uint32_t before = here.find(node.value);
      here.set(node.value, (before == kNone ? 0 : before) + jobs);
    }
  }
  for (const ItemCache& cache : caches(dataset.id).all()) {
    std::uint32_t jobs = readers_of(cache.prefix) + (dataset.kept_always ? 1 : 0);
    if (!s_.config.share_nodes && jobs > 0) {
      const std::uint32_t own = here.find(cache.node.value);
      jobs = own == kNone ? 1 : std::min(own, jobs);
    }
    for (const ShareId share : cache.shares) s_.memory.set_jobs(share, jobs);
  }
}

void ItemShares::drop_idle(const Dataset& dataset) {
  for (const ItemCache& cache : caches(dataset.id).all()) {
    for (const ShareId share : cache.shares) s_.memory.drop_idle(share);
  }
}

void ItemShares::close_unused(std::span<const ShareId> shares) {
  for (const ShareId index : shares) {
    if (!s_.memory.live(index) || !s_.memory.unused(index)) continue;
    const ShareSpec spec = s_.memory[index].spec;
    ItemCaches& caches = caches_[s_.dataset_of.at(spec.dataset).value];
    const NodeIndex node = s_.node_of.at(spec.place.node);
    const ItemCache* cache = caches.find(node, spec.prefix);
    BF_CHECK(cache != nullptr);
    const std::vector<ShareId> all = cache->shares;
    const bool in_use = std::any_of(all.begin(), all.end(),
                                    [&](ShareId share) { return !s_.memory.unused(share); });
    if (in_use) continue;
    caches.remove(node, spec.prefix);
    for (const ShareId share : all) s_.memory.remove_share(share);
    if (spec.prefix == 0) settle_homes(caches);
  }
}

// Once nothing is left from before the engine, this costs nothing.
void ItemShares::find_from_before(const Dataset& dataset, const PipelineInfo& pipeline,
                                  std::vector<const ItemCache*>& out) const {
  if (s_.memory.from_before() == 0) return;
  const auto has_some = [&](ShareId share) { return s_.memory[share].share->from_before() > 0; };
  for (const ItemCache& cache : caches(dataset.id).all()) {
    if (cache.prefix != 0 && !(pipeline.decodes() && cache.prefix == pipeline.prefix_hash))
      continue;
    if (!s_.nodes[cache.node].lost &&
        std::any_of(cache.shares.begin(), cache.shares.end(), has_some))
      out.push_back(&cache);
  }
}

bool ItemShares::has(const ItemCache& cache, SampleId sample) const {
  return std::any_of(cache.shares.begin(), cache.shares.end(),
                     [&](ShareId share) { return is_in(share, sample); });
}

bool ItemShares::is_in(ShareId share, SampleId sample) const {
  const SharePart& part = s_.memory[share];
  return part.share->resident(part.spec.item_of(sample));
}

bool ItemShares::has_on_gpu(const ItemCache& cache, SampleId sample) const {
  return std::any_of(cache.gpus.begin(), cache.gpus.end(),
                     [&](ShareId share) { return is_in(share, sample); });
}

// The one with the most room; of those with equally much, each comes first in turn.
ShareId ItemShares::gpu_for(const ItemCache& cache, std::uint64_t turn) const {
  ShareId best = ShareId::none();
  for (std::size_t i = 0; i < cache.gpus.size(); ++i) {
    const ShareId share = cache.gpus[(turn + i) % cache.gpus.size()];
    if (best.is_none() || room_in(share) > room_in(best)) best = share;
  }
  return best;
}

Slots ItemShares::room_in(ShareId share) const {
  const Share& of = *s_.memory[share].share;
  return of.capacity() - std::min(of.capacity(), of.used());
}

Bytes ItemShares::room_of(NodeId node) const {
  Bytes room = 0;
  for (const Tier tier : {Tier::dram, Tier::nvme})
    room = saturating_sum(room, s_.memory.capacity({node, tier, 0}));
  for (std::uint16_t gpu = 0; gpu < s_.nodes[s_.node_of.at(node)].gpus; ++gpu)
    room = saturating_sum(room, s_.memory.capacity({node, Tier::gpu, gpu}));
  return room;
}

// The nodes that cache the dataset, or what they hold, have changed: a new membership epoch. If
// nodes share nothing there are no homes: each keeps what it reads itself.
void ItemShares::settle_homes(ItemCaches& caches) {
  caches.homes_known = true;
  caches.set_homes(std::nullopt);
  if (!s_.config.share_nodes) return;
  const auto members = keepers(caches, [](const Node& node) { return node.let_go; });
  if (members.size() > 1) caches.set_homes(Placement(++epochs_, members));
}

// Nodes that keep the dataset, but for those that leave.
template <class Leaves>
std::vector<Placement::NodeWeight> ItemShares::keepers(const ItemCaches& caches,
                                                       Leaves leaves) const {
  std::vector<Placement::NodeWeight> members;
  for (const ItemCache& cache : caches.all()) {
    const Node& node = s_.nodes[cache.node];
    if (cache.prefix == 0 && !leaves(node)) members.push_back({node.id, room_of(node.id)});
  }
  return members;
}

std::optional<Placement> ItemShares::homes_without_leaving(const Dataset& dataset) const {
  const ItemCaches& caches = this->caches(dataset.id);
  if (!caches.homes()) return std::nullopt;
  const auto members = keepers(caches, [](const Node& node) { return !node.takes_work; });
  if (members.empty()) return std::nullopt;
  return Placement(caches.homes()->epoch(), members);
}

void ItemShares::let_go(NodeIndex node) {
  s_.nodes[node].let_go = true;
  for (ItemCaches& caches : caches_) {
    if (caches.first(node) != nullptr) settle_homes(caches);
  }
}

// A node holds more, or less, than before: it is the home of more, or fewer, samples. The copies of
// samples that move leave as policies say.
void ItemShares::capacity_changed(Place place) {
  const NodeIndex node = s_.node_of.at(place.node);
  for (std::uint32_t index = 0; index < caches_.size(); ++index) {
    if (caches_[index].first(node) == nullptr) continue;
    open_late(caches_[index], place);
    settle_homes(caches_[index]);
    count_jobs(s_.datasets[DatasetIndex(index)]);
  }
}

void ItemShares::sharing_changed() {
  for (std::uint32_t index = 0; index < caches_.size(); ++index) {
    settle_homes(caches_[index]);
    count_jobs(s_.datasets[DatasetIndex(index)]);
  }
}

// A drive or a GPU that comes later than the first job gets the shares that it would have had.
void ItemShares::open_late(ItemCaches& caches, Place place) {
  if (place.tier == Tier::dram) return;
  const NodeIndex node = s_.node_of.at(place.node);
  for (const ItemCache* cache = caches.first(node); cache; cache = caches.next(*cache)) {
    const bool is_there =
        std::any_of(cache->shares.begin(), cache->shares.end(),
                    [&](ShareId share) { return s_.memory[share].spec.place == place; });
    if (is_there || cache->dram.is_none() || (place.tier == Tier::gpu && cache->prefix == 0))
      continue;
    ShareSpec spec = s_.memory[cache->dram].spec;
    spec.place = place;
    spec = item_share(spec, *s_.datasets[s_.dataset_of.at(spec.dataset)].catalogue);
    if (spec.items <= kCachedItemsMost) caches.add_share(*cache, place.tier, begin_share(spec));
  }
}

double ItemShares::cached(const Stream& stream) const {
  const Dataset& dataset = s_.datasets[stream.dataset];
  std::size_t encoded = 0;
  std::size_t decoded = 0;
  for (const ItemCache& cache : caches(dataset.id).all()) {
    if (cache.prefix != 0 && cache.prefix != stream.pipeline->prefix_hash) continue;
    for (const ShareId share : cache.shares) {
      (cache.prefix == 0 ? encoded : decoded) += s_.memory[share].share->residents()
                                                 << s_.memory[share].spec.bundle_shift;
    }
  }
  // The last bundle may have fewer samples than the others.
  return std::min(1.0, static_cast<double>(std::max(encoded, decoded)) /
                           static_cast<double>(dataset.catalogue->samples()));
}

double ItemShares::kept_on(NodeIndex node, const Dataset& dataset) const {
  const ItemCache* cache = this->cache(node, dataset.id, 0);
  if (cache == nullptr || cache->dram.is_none()) return 0;
  const SharePart& part = s_.memory[cache->dram];
  return static_cast<double>(part.share->residents()) / static_cast<double>(part.spec.items);
}

Bytes ItemShares::kept_for_others(NodeIndex node, const Stream& stream) const {
  const Dataset& dataset = s_.datasets[stream.dataset];
  std::uint64_t encoded = 0;
  std::uint64_t decoded = 0;
  const ItemCaches& caches = this->caches(dataset.id);
  for (const ItemCache* cache = caches.first(node); cache; cache = caches.next(*cache)) {
    if (cache->prefix != 0 && cache->prefix != stream.pipeline->prefix_hash) continue;
    for (const ShareId share : cache->shares) {
      const SharePart& part = s_.memory[share];
      (cache->prefix == 0 ? encoded : decoded) += std::uint64_t{part.share->residents()}
                                                  << part.spec.bundle_shift;
    }
  }
  return saturating_sum(
      saturating_product(decoded, stream.pipeline->decoded_bytes),
      saturating_product(encoded - std::min(encoded, decoded), dataset.catalogue->mean_bytes()));
}

Bytes ItemShares::kept_for_others(const Stream& stream) const {
  const ItemCaches& caches = this->caches(s_.datasets[stream.dataset].id);
  Bytes sum = 0;
  if (!caches.homes()) return sum;
  for (const ItemCache& cache : caches.all()) {
    if (cache.prefix == 0) sum = saturating_sum(sum, kept_for_others(cache.node, stream));
  }
  return sum;
}

void ItemShares::purge(DatasetId dataset, SampleId sample) {
  for (const ItemCache& cache : caches(dataset).all()) {
    for (const ShareId index : cache.shares) {
      Share& share = *s_.memory[index].share;
      const ItemId item = s_.memory[index].spec.item_of(sample);
      // A making that has it pinned will notice by itself.
      if (!share.resident(item) || share.pinned(item)) continue;
      share.remove(item, Removal::invalidated);
      s_.emit(Drop{index, s_.memory[index].spec.place,
                   cache.prefix == 0 ? Form::encoded : Form::decoded, item});
    }
  }
}

void ItemShares::epoch_began(const Job& job, std::uint32_t epoch) {
  const Stream& stream = s_.streams[job.stream];
  const auto tell = [&](ShareId share) { s_.memory[share].share->epoch_began(job.id, epoch); };
  for (const ItemCache& cache : caches(s_.datasets[job.dataset].id).all()) {
    if (cache.prefix != 0 && cache.prefix != stream.pipeline->prefix_hash) continue;
    for (const ShareId share : cache.shares) tell(share);
  }
  for (const StreamNode& part : stream.nodes) tell(part.share);
}

void ItemShares::scored(DatasetId dataset, SampleId sample, float score) {
  for (const ItemCache& cache : caches(dataset).all()) {
    for (const ShareId index : cache.shares) {
      const SharePart& part = s_.memory[index];
      // The score of one sample says nothing of the bundle that it is in.
      if (part.spec.bundle_shift == 0) part.share->scored(part.spec.item_of(sample), score);
    }
  }
}

}  // namespace batchflow::engine
