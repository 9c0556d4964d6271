#include "core/engine/streams.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/staging.h"
#include "core/order/lane_sizes.h"

namespace batchflow::engine {

namespace {

// Blocks of live orders may be small. Where memory comes in pages, of which each is a sector of
// storage, a block takes whole ones, and has its keys beside its samples.
Bytes in_pages(const EngineConfig& config, Bytes block_bytes) {
  const Bytes page = config.staging_sector_bytes;
  return saturating_sum(block_bytes, 2 * (page - 1)) / page * page;
}

// More than a rank may hold.
constexpr std::uint64_t kKeyedBlocksMost = 2 * kCreditsMost;

Order family_of(Order order) {
  return order == Order::strict ? Order::relaxed : order;
}

// Whether no node that prepares has, or will have, a slot for the stream's blocks.
bool is_stranded(const EngineState& s, const Stream& stream) {
  return std::none_of(stream.nodes.begin(), stream.nodes.end(), [&](const StreamNode& part) {
    const Node& node = s.nodes[part.index];
    return node.takes_work && node.workers > 0 && (part.jobs > 0 || part.standby);
  });
}

}  // namespace

// ------------------------------------------------------------------------------ coming ----

StreamId Streams::stream_for(const JobJoined& event, const order::Position& position, bool chosen) {
  const Dataset& dataset = datasets_[s_.dataset_of.at(event.dataset)];
  const Order family = family_of(event.order);
  // Weights that may change are those of one job.
  const order::Position::Fields& at = position.fields();
  const bool changes = at.mixing && at.mixing->may_change();
  // What a live job has had by now depends on when it asked.
  const bool alone = !s_.config.share_streams || family == Order::listed || chosen || changes ||
                     family == Order::live;
  // Jobs that draw from the same weights in different ways have nothing in common.
  const bool weighted = family == Order::weighted;
  std::uint64_t draws = weighted ? hash(event.draws, event.multinomial ? 1 : 0) : 0;
  if (at.mixing) {
    draws = at.draws;
    for (const SampleRange& source : at.mixing->sources())
      draws = hash(draws, source.first.value, source.samples);
  }
  const std::uint32_t block = block_samples(event, position);
  const std::uint64_t key =
      hash(dataset.id.value, dataset.catalogue->version(), event.pipeline.value,
           s_.pipelines.at(event.pipeline.value)->hash, at.seed, static_cast<std::uint64_t>(family),
           draws, block, alone ? event.job.value + 1 : 0);
  for (const StreamId index : dataset.streams) {
    if (s_.streams[index].sharing_key == key) return index;
  }
  const StreamId made = make_stream(event, position, key, block);
  s_.streams[made].alone = alone;
  s_.streams[made].chosen = chosen;
  return made;
}

Bytes Streams::sample_bytes(const EngineState& s, const JobJoined& event) {
  const PipelineInfo& pipeline = *s.pipelines.at(event.pipeline.value);
  const Catalogue& catalogue = *s.datasets[s.dataset_of.at(event.dataset)].catalogue;
  return std::max<Bytes>(
      1, pipeline.prepared_bytes ? pipeline.prepared_bytes : catalogue.mean_bytes());
}

std::uint32_t Streams::planned_block_samples(const EngineState& s, const JobJoined& event) {
  const Catalogue& catalogue = *s.datasets[s.dataset_of.at(event.dataset)].catalogue;
  const std::uint32_t block = order::block_samples_for(sample_bytes(s, event), s.config.block_bytes,
                                                       catalogue.samples(), s.config.blocks_least);
  return event.order == Order::live ? order::live_block_samples(event.batch_samples, block) : block;
}

// A job that resumes within a generation of larger blocks needs slots that hold those.
std::uint32_t Streams::block_samples(const JobJoined& event,
                                     const order::Position& position) const {
  const Catalogue& catalogue = *datasets_[s_.dataset_of.at(event.dataset)].catalogue;
  std::uint32_t block = planned_block_samples(s_, event);
  if (event.order == Order::live) return block;
  const order::LanePosition& lanes = position.lanes();
  if (position.has_generation() && !lanes.at_epoch_start() && !lanes.epoch_done()) {
    block = std::max(block, lanes.sizes.block_samples);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(block, catalogue.samples()));
}

StreamId Streams::make_stream(const JobJoined& event, const order::Position& position,
                              std::uint64_t key, std::uint32_t block_samples) {
  const std::uint64_t seed = position.fields().seed;
  const StreamId index = s_.streams.make();
  Stream& stream = s_.streams[index];
  stream.id = index;
  stream.dataset = s_.dataset_of.at(event.dataset);
  stream.pipeline_id = event.pipeline;
  stream.pipeline = s_.pipelines.at(event.pipeline.value);
  stream.family = family_of(event.order);
  stream.seed = seed;
  if (event.runs) stream.run_shift = datasets_[stream.dataset].catalogue->bundle_shift();
  stream.sharing_key = key;
  Dataset& dataset = datasets_[stream.dataset];
  dataset.streams.push_back(index);
  stream.sample_bytes = sample_bytes(s_, event);
  stream.block_samples = block_samples;
  stream.block_bytes = saturating_product(stream.sample_bytes, stream.block_samples);
  stream.keyed = event.keyed;
  if (stream.family == Order::live) stream.block_bytes = in_pages(s_.config, stream.block_bytes);
  order::Lanes::Options options;
  options.dataset_version = dataset.catalogue->version();
  options.seed = seed;
  options.generation_epochs = s_.config.generation_epochs;
  options.ready_window = s_.config.ready_window;
  stream.epoch_samples = epoch_samples_of(event, *dataset.catalogue, &position);
  if (const auto& mixing = position.fields().mixing) {
    stream.mixed_sources.assign(mixing->sources().begin(), mixing->sources().end());
    std::sort(stream.mixed_sources.begin(), stream.mixed_sources.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  options.sizes = {stream.epoch_samples, stream.block_samples, 1};
  stream.lanes = std::make_unique<order::Lanes>(options);
  stream.lanes->on_changed_needs([this, index] { s_.needs_changed(index); });
  return index;
}

// ------------------------------------------------------------------------- their nodes ----

// A stream has a share on each node where it has ranks, and on those that help it.
void Streams::cover_nodes(Stream& stream, std::span<const NodeId> ranks) {
  for (const NodeId node : ranks) add_node(stream, node);
  add_helpers(stream);
  for (const StreamNode& part : stream.nodes) {
    if (stream.jobs.empty() && !part.standby) standby_nodes_.push_back(part.index);
  }
  open_homes(stream, ranks);
  item_shares_.settle(datasets_[stream.dataset]);
  maybe_stranded_.push_back(stream.id);
}

bool Streams::add_helpers(Stream& stream) {
  // A node that is too small for one block, whatever else there is on it, is no help. It is asked
  // only where there is no other, so that a job is told how much is missing.
  const Bytes least = saturating_sum(stream.block_bytes, staging_of(s_, stream));
  bool added = false;
  for (const Bytes room : {least, Bytes{0}}) {
    std::uint32_t helpers = 0;
    const auto may = [&](const Node& node) {
      return node.workers > 0 && s_.memory.capacity(dram_of(node.id)) >= room;
    };
    const auto enough = [&](NodeIndex /*node*/) { return helpers++ == s_.config.helper_nodes; };
    for (const NodeId node : ranking_.first(stream.dataset, may, enough)) {
      added = add_node(stream, node) || added;
    }
    if (helpers > 0) break;
  }
  return added;
}

// The nodes that keep samples of a dataset stay the same, whichever jobs train on it and wherever,
// so that what is kept is found. They are its helpers, and more nodes of their kind until these
// hold the dataset twice, and are as many as the nodes that read from them. Without helpers, or if
// each node keeps what it reads, they are the nodes of the ranks.
bool Streams::open_homes(Stream& stream, std::span<const NodeId> ranks) {
  const Dataset& dataset = datasets_[stream.dataset];
  const auto open = [&](NodeId node) {
    return item_shares_.open_shares(s_.node_of.at(node), dataset, *stream.pipeline);
  };
  bool opened = false;
  if (!s_.config.share_nodes || s_.config.helper_nodes == 0) {
    for (const NodeId node : ranks) opened = open(node) || opened;
    return opened;
  }
  const std::size_t readers = std::set<NodeId>(ranks.begin(), ranks.end()).size();
  const std::size_t least = std::max<std::size_t>(s_.config.helper_nodes, readers);
  const Bytes twice = saturating_product(2, dataset.catalogue->total_bytes());
  Bytes room = 0;
  std::size_t homes = 0;
  const auto enough = [&](NodeIndex node) {
    if (homes >= least && room > twice) return true;
    ++homes;
    room = saturating_sum(room, item_shares_.room_of(s_.nodes[node].id));
    return false;
  };
  const auto any = [](const Node&) { return true; };
  for (const NodeId node : ranking_.first(stream.dataset, any, enough))
    opened = open(node) || opened;
  return opened;
}

bool Streams::add_node(Stream& stream, NodeId node) {
  for (const StreamNode& part : stream.nodes) {
    if (part.node == node) return false;
  }
  const Dataset& dataset = datasets_[stream.dataset];
  StreamNode part;
  part.node = node;
  const std::uint64_t all =
      (dataset.catalogue->samples() + stream.block_samples - 1) / stream.block_samples;
  // What a keyed job was given is of no more use: it asks again, for another draw.
  const std::uint64_t blocks = stream.keyed ? kKeyedBlocksMost
                               : stream.family == Order::live
                                   ? std::max<std::uint64_t>(all, order::kLiveBlocksMost)
                                   : all;
  part.share = s_.memory.add_share({dram_of(node), ShareUse::blocks, dataset.id,
                                    stream.pipeline->hash, stream.block_bytes, 0, blocks});
  s_.memory[part.share].stream = stream.id;
  part.index = s_.node_of.at(node);
  stream.nodes.push_back(part);
  s_.nodes[part.index].streams.push_back(stream.id);
  standby_nodes_.push_back(part.index);
  return true;
}

// Lanes fit into half of the window that the allocation policy plans for the stream.
void Streams::size_lanes(Stream& stream) {
  s_.memory.plan_now(s_.now);
  Slots window = 0;
  for (const StreamNode& part : stream.nodes) window += s_.memory[part.share].target;
  order::LaneSizes sizes{stream.epoch_samples, stream.block_samples, 1};
  sizes.lane_blocks = order::lane_blocks_for(sizes.blocks(), std::max<Slots>(1, window));
  if (stream.run_shift > 0) {
    const std::uint64_t kept = item_shares_.samples_kept(datasets_[stream.dataset]);
    sizes.lane_blocks = order::lane_blocks_of_runs(sizes, stream.run_shift, window, kept);
  }
  stream.lanes->set_sizes(sizes);
}

void Streams::begin_step() {
  constexpr std::size_t kDropsAStep = 1024;
  drops_left_ = kDropsAStep;
}

// --------------------------------------------------------------------- what nodes promise ----

void Streams::promise(const StreamNode& part) {
  keep_promise(s_, part);
  standby_nodes_.push_back(part.index);
}

void Streams::sharing_changed() {
  helpers_due_ = true;
  s_.streams.each([&](StreamId index) {
    for (const StreamNode& part : s_.streams[index].nodes) promise(part);
  });
}

// Promises streams a slot on each of their nodes that can prepare, as long as there is room for it.
bool Streams::stand_by() {
  if (std::exchange(helpers_due_, false)) {
    s_.streams.each([&](StreamId index) {
      Stream& stream = s_.streams[index];
      if (stream.jobs.empty()) return;
      if (stream.family != Order::listed) add_helpers(stream);
      if (open_homes(stream, {})) item_shares_.settle(datasets_[stream.dataset]);
    });
  }
  if (standby_nodes_.empty()) return false;
  s_.sort_by_joining(standby_nodes_);
  standby_nodes_.erase(std::unique(standby_nodes_.begin(), standby_nodes_.end()),
                       standby_nodes_.end());
  bool changed = false;
  for (const NodeIndex node : std::exchange(standby_nodes_, {})) {
    const std::vector<StreamId>& streams = s_.nodes[node].streams;
    maybe_stranded_.insert(maybe_stranded_.end(), streams.begin(), streams.end());
    changed = stand_by(s_.nodes[node]) || changed;
  }
  return changed;
}

bool Streams::stand_by(const Node& node) {
  if (node.lost || node.workers == 0) return false;
  const Place place = dram_of(node.id);
  bool changed = false;
  for (const StreamId index : node.streams) {
    Stream& stream = s_.streams[index];
    StreamNode& part = part_on(stream, node.id);
    if (stream.jobs.empty() || part.jobs > 0 || part.standby) continue;
    const Bytes needed = saturating_sum(stream.block_bytes, more_staging(s_, stream, place));
    if (saturating_sum(s_.memory.promised(place), needed) > s_.memory.capacity(place)) continue;
    part.standby = true;
    s_.memory.promise(part.share, 1);
    raise_staging(s_, stream, place);
    s_.plan_staging(part.index);
    changed = true;
  }
  return changed;
}

void Streams::give_up_standby(Place place) {
  s_.streams.each([&](StreamId index) {
    stranded_due_ = true;
    for (StreamNode& part : s_.streams[index].nodes) {
      if (dram_of(part.node) != place || part.jobs > 0) continue;
      part.standby = false;
      promise(part);
    }
  });
}

// Workers may come back, and memory may become free. But ranks wait for an answer no longer than
// for another rank.
void Streams::find_stranded() {
  if (std::exchange(stranded_due_, false)) {
    s_.streams.each([&](StreamId index) { maybe_stranded_.push_back(index); });
  }
  std::sort(maybe_stranded_.begin(), maybe_stranded_.end());
  maybe_stranded_.erase(std::unique(maybe_stranded_.begin(), maybe_stranded_.end()),
                        maybe_stranded_.end());
  for (const StreamId index : std::exchange(maybe_stranded_, {})) {
    if (!s_.streams.live(index) || s_.streams[index].family == Order::listed) continue;
    Stream& stream = s_.streams[index];
    bool stranded = !stream.jobs.empty() && is_stranded(s_, stream);
    if (stranded) {
      // Other nodes may be the first that can prepare now.
      add_helpers(stream);
      if (open_homes(stream, {})) item_shares_.settle(datasets_[stream.dataset]);
      stand_by();
      stranded = is_stranded(s_, stream);
    }
    if (stranded == (stream.stranded != 0)) continue;
    stream.stranded = stranded ? ++s_.serials : 0;
    if (!stranded) continue;
    s_.alarms.set(after(s_.now, s_.config.rank_timeout),
                  {AlarmKind::stranded, index.value, stream.stranded});
  }
}

// ------------------------------------------------------------------------------- going ----

void Streams::close_if_empty(StreamId index) {
  Stream& stream = s_.streams[index];
  if (!stream.jobs.empty()) return;
  preparation_.abandon(index);
  // The stream no longer needs help: the slots promised for that are free for others at once.
  for (StreamNode& part : stream.nodes) {
    part.standby = false;
    keep_promise(s_, part);
  }
  if (std::find(closing_.begin(), closing_.end(), index) == closing_.end())
    closing_.push_back(index);
}

bool Streams::free_unused() {
  bool any = false;
  for (std::size_t i = 0; i < closing_.size();) {
    if (try_free(closing_[i])) {
      closing_.erase(closing_.begin() + static_cast<std::ptrdiff_t>(i));
      any = true;
    } else {
      ++i;
    }
  }
  return any;
}

// True: the stream is gone, or in use again.
bool Streams::try_free(StreamId index) {
  Stream& stream = s_.streams[index];
  if (!stream.jobs.empty()) return true;
  bool busy = false;
  for (const StreamNode& part : stream.nodes) {
    drop_unused(part);
    busy = busy || s_.memory[part.share].share->used() > 0;
  }
  if (busy) return false;
  for (const StreamNode& part : stream.nodes) {
    s_.memory.remove_share(part.share);
    std::erase(s_.nodes[part.index].streams, index);
  }
  std::erase(datasets_[stream.dataset].streams, index);
  s_.streams.release(index);
  return true;
}

// Drops blocks of a stream without jobs that nothing uses, as far as this step may drop any.
void Streams::drop_unused(const StreamNode& part) {
  const SharePart& share = s_.memory[part.share];
  for (;;) {
    const ItemId item = share.share->lowest_unpinned();
    if (item.is_none()) return;
    if (drops_left_ == 0) return s_.alarms.set(s_.now, {});
    --drops_left_;
    const BlockIndex owner = share.owner_of[item.value];
    s_.emit(Drop{part.share, share.spec.place, Form::prepared, item, s_.blocks[owner].slot});
    drop_block(s_, owner);
  }
}

void Streams::lose_node(NodeId node) {
  s_.streams.each([&](StreamId index) {
    Stream& stream = s_.streams[index];
    lose_blocks(stream, node);
    for (const StreamNode& part : stream.nodes) {
      if (part.node == node) s_.memory.remove_share(part.share);
    }
    std::erase_if(stream.nodes, [&](const StreamNode& part) { return part.node == node; });
  });
  s_.nodes[s_.node_of.at(node)].streams.clear();
}

// Loses all blocks of the stream that were on a lost node.
void Streams::lose_blocks(Stream& stream, NodeId node) {
  bool any = false;
  for (const StreamNode& part : stream.nodes) {
    if (part.node != node) continue;
    for (const BlockIndex owner : s_.memory[part.share].owner_of) {
      if (owner.is_none() || !s_.blocks.live(owner) || !s_.blocks[owner].resident) continue;
      assembly_.lost_block({owner, s_.blocks[owner].serial});
      lift_charge(s_, s_.blocks[owner]);
      drop_block(s_, owner);
      any = true;
    }
  }
  for (const JobIndex job : stream.jobs) {
    if (any) s_.look_at(job);
  }
}

}  // namespace batchflow::engine
