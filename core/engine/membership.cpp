#include "core/engine/membership.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/seed_group.h"
#include "core/order/block_size.h"

namespace batchflow::engine {

namespace {

Order family_of(Order order) {
  return order == Order::strict ? Order::relaxed : order;
}

// Whether a job can go on from there: its numbers must have room to grow, and its blocks must not
// be larger than any that are cut.
bool leaves_room(const order::Position& position) {
  constexpr std::uint32_t kEpochMost = 1u << 31;
  constexpr std::uint64_t kGenerationMost = order::LanePosition::kGenerationMost / 2;
  const order::LanePosition& lanes = position.lanes();
  return position.epoch() <= kEpochMost && lanes.generation <= kGenerationMost &&
         lanes.sizes.block_samples <= order::kBlockSamplesMost;
}

}  // namespace

// ----------------------------------------------------------------------------------- joining ----

std::optional<Refusal> Membership::objection(const JobJoined& event) const {
  const auto dataset = s_.dataset_of.find(event.dataset.value);
  if (dataset == s_.dataset_of.end()) return Refusal::unknown_dataset;
  if (s_.pipelines.count(event.pipeline.value) == 0) return Refusal::unknown_pipeline;
  if (event.ranks.empty() || event.batch_samples <= event.rehearsed) return Refusal::bad_request;
  if (s_.job_of.has(event.job.value)) return Refusal::bad_request;
  for (const NodeId node : event.ranks) {
    const std::uint32_t known = s_.node_of.find(node.value);
    if (known == kNone || !s_.memory.has(dram_of(node))) return Refusal::bad_request;
  }
  const bool drawn = event.order == Order::weighted || event.order == Order::listed;
  if ((event.node_local && event.order != Order::relaxed) || (event.rehearsed > 0 && drawn)) {
    return Refusal::wrong_order;
  }
  const std::uint64_t samples = s_.datasets[dataset->second].catalogue->samples();
  const std::uint64_t step = std::uint64_t{event.batch_samples} * event.ranks.size();
  if (event.order == Order::weighted &&
      (samples > order::kWeightedSamplesMost || event.draws > order::kWeightedSamplesMost)) {
    return Refusal::bad_request;
  }
  // An epoch without a step would end again and again, for ever.
  const std::uint64_t epoch =
      event.order == Order::weighted && event.draws > 0 ? event.draws : samples;
  if (event.drop_last && step > epoch) return Refusal::bad_request;
  return std::nullopt;
}

void Membership::refuse_join(JobId job, Refusal why, std::uint64_t needed,
                             std::uint64_t available) {
  s_.order(Refuse{job, why, needed, available});
  s_.refused_joins.push_back(job);
}

void Membership::joined(const JobJoined& event) {
  if (const auto why = objection(event)) {
    return refuse_join(event.job, *why, 0, 0);
  }
  const Digest pipeline = s_.pipelines.at(event.pipeline.value)->hash;
  if (event.pipeline_hash != 0 && event.pipeline_hash != pipeline) {
    return refuse_join(event.job, Refusal::unknown_pipeline, event.pipeline_hash, pipeline);
  }
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(event.dataset.value)];
  const std::uint64_t seed = seed_group(event);
  const Digest version = dataset.catalogue->version();
  const std::uint64_t samples = dataset.catalogue->samples();
  order::Position position(event.order, version, samples, seed);
  if (event.position) {
    if (!event.position->mismatch(version, samples, seed).empty() ||
        event.position->order() != event.order || !leaves_room(*event.position)) {
      const order::Position::Fields& theirs = event.position->fields();
      const bool by_version = theirs.dataset_version != version;
      return refuse_join(event.job, Refusal::bad_position,
                         by_version ? theirs.dataset_version : theirs.seed,
                         by_version ? version : seed);
    }
    position = *event.position;
  }

  const std::uint32_t index = s_.jobs.make();
  Job& job = s_.jobs[index];
  job.index = index;
  job.serial = ++s_.serials;
  job.id = event.job;
  job.order = event.order;
  job.batch_samples = event.batch_samples;
  job.drop_last = event.drop_last;
  job.epochs = event.epochs;
  job.steps = event.steps;
  job.member = order::MemberId::none();
  job.committed = position;
  job.draws = event.order == Order::weighted && event.draws > 0 ? event.draws : samples;
  job.multinomial = event.multinomial;
  job.node_local = event.node_local;
  job.rehearsed = event.rehearsed;
  for (const NodeId node : event.ranks) {
    job.ranks.emplace_back();
    job.ranks.back().node = node;
  }
  job.dataset = s_.dataset_of.at(event.dataset.value);
  if (event.order == Order::weighted)
    job.weights = std::make_unique<order::Weights>(samples, order::weight_of_score(1));
  job.stream = stream_for(event, position);
  Stream& stream = s_.streams[job.stream];
  if (event.order == Order::listed) {
    open_homes(stream, event.ranks);
  } else {
    cover_nodes(stream, event.ranks);
  }
  const std::uint32_t credits = event.credits == 0 ? s_.config.credits : event.credits;
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
  if (!reserve(job, credits, needed, available)) {
    const std::uint32_t of = job.stream;
    s_.jobs.release(index);
    close_if_empty(of);
    return refuse_join(event.job, Refusal::no_room, needed, available);
  }
  stream.jobs.push_back(index);
  if (job.weights) s_.weighted_jobs.push_back(index);
  s_.job_of.set(event.job.value, index);
  take_reserve(job);
  items_.settle(dataset);
  s_.promise_joined(job, event);
  joining_.push_back(index);
}

// An epoch is drawn when all ranks have asked for a batch: by then they have reported the scores
// that they know. If the weights of before are lost, an epoch that was begun begins again.
void Membership::asked(Job& job) {
  // A job whose weights are all zero is refused before the step ends, and draws nothing until then.
  const bool begins = job.weights && !job.drawn && !job.to_refuse && job.weights->settled() &&
                      job.state == Job::State::running;
  const bool all_ask = std::all_of(job.ranks.begin(), job.ranks.end(),
                                   [](const RankState& rank) { return rank.credits > 0; });
  if (!begins || !all_ask || !grants_.freeze_newest(job)) return;
  draw(s_, job, job.committed.epoch());
  begin(job);
}

void Membership::begin(Job& job) {
  grants_.begin(job);
  dispatching_.level(job);
  delivery_.end_epochs(job);
  s_.touch(job.index);
}

// If streams are not shared, a job that resumes keeps the order it had.
std::uint64_t Membership::seed_group(const JobJoined& event) const {
  const bool own = !s_.config.share_streams && !event.has_shuffle_seed && event.position &&
                   event.order != Order::strict && event.order != Order::sequential;
  return own ? event.position->fields().seed : seed_group_of(event, s_.config.share_streams);
}

std::uint32_t Membership::stream_for(const JobJoined& event, const order::Position& position) {
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(event.dataset.value)];
  const Order family = family_of(event.order);
  const bool alone = !s_.config.share_streams || family == Order::listed;
  // Jobs that draw from the same weights in different ways have nothing in common.
  const bool weighted = family == Order::weighted;
  const std::uint64_t draws = weighted ? hash(event.draws, event.multinomial ? 1 : 0) : 0;
  const std::uint32_t block = block_samples(event, position);
  const std::uint64_t key =
      hash(dataset.id.value, dataset.catalogue->version(), event.pipeline.value,
           s_.pipelines.at(event.pipeline.value)->hash, position.fields().seed,
           static_cast<std::uint64_t>(family), draws, block, alone ? event.job.value + 1 : 0);
  for (const std::uint32_t index : dataset.streams) {
    if (s_.streams[index].sharing_key == key) return index;
  }
  return make_stream(event, position.fields().seed, key, block);
}

Bytes Membership::sample_bytes(const JobJoined& event) const {
  const PipelineInfo& pipeline = *s_.pipelines.at(event.pipeline.value);
  const Catalogue& catalogue = *s_.datasets[s_.dataset_of.at(event.dataset.value)].catalogue;
  return std::max<Bytes>(
      1, pipeline.prepared_bytes ? pipeline.prepared_bytes : catalogue.mean_bytes());
}

// B, by the configuration. But a job that resumes within a generation of larger blocks needs slots
// that hold those.
std::uint32_t Membership::block_samples(const JobJoined& event,
                                        const order::Position& position) const {
  const Catalogue& catalogue = *s_.datasets[s_.dataset_of.at(event.dataset.value)].catalogue;
  std::uint32_t block = order::block_samples_for(sample_bytes(event), s_.config.block_bytes,
                                                 catalogue.samples(), s_.config.blocks_least);
  const order::LanePosition& lanes = position.lanes();
  if (position.has_generation() && !lanes.at_epoch_start() && !lanes.epoch_done()) {
    block = std::max(block, lanes.sizes.block_samples);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(block, catalogue.samples()));
}

std::uint32_t Membership::make_stream(const JobJoined& event, std::uint64_t seed, std::uint64_t key,
                                      std::uint32_t block_samples) {
  const std::uint32_t index = s_.streams.make();
  Stream& stream = s_.streams[index];
  stream.id = StreamId(index);
  stream.dataset = s_.dataset_of.at(event.dataset.value);
  stream.pipeline_id = event.pipeline;
  stream.pipeline = s_.pipelines.at(event.pipeline.value);
  stream.family = family_of(event.order);
  stream.seed = seed;
  stream.sharing_key = key;
  Dataset& dataset = s_.datasets[stream.dataset];
  dataset.streams.push_back(index);
  stream.sample_bytes = sample_bytes(event);
  stream.block_samples = block_samples;
  stream.block_bytes = saturating_product(stream.sample_bytes, stream.block_samples);
  order::Lanes::Options options;
  options.dataset_version = dataset.catalogue->version();
  options.seed = seed;
  options.generation_epochs = s_.config.generation_epochs;
  options.ready_window = s_.config.ready_window;
  stream.epoch_samples = stream.family == Order::weighted && event.draws > 0
                             ? event.draws
                             : dataset.catalogue->samples();
  options.sizes = {stream.epoch_samples, stream.block_samples, 1};
  stream.lanes = std::make_unique<order::Lanes>(options);
  stream.lanes->on_changed_needs([this, index] { s_.needs_changed(index); });
  return index;
}

// A stream has a share on each node where it has ranks, and on those that help it.
void Membership::cover_nodes(Stream& stream, std::span<const NodeId> ranks) {
  for (const NodeId node : ranks) add_node(stream, node);
  add_helpers(stream);
  for (const StreamNode& part : stream.nodes) {
    if (stream.jobs.empty() && !part.standby) standby_nodes_.push_back(part.index);
  }
  open_homes(stream, ranks);
  items_.settle(s_.datasets[stream.dataset]);
  maybe_stranded_.push_back(stream.id.value);
}

// Nodes, or those that can prepare, until there are enough. They are the same for all streams of a
// dataset, and are found as the homes of samples are: a node that leaves changes no other.
// `enough(index)`: no more are needed, not even this one.
template <class Enough>
std::vector<NodeId> Membership::nodes_for(std::uint32_t dataset, bool to_prepare, Enough enough) {
  std::vector<std::uint32_t> chosen;
  for (const std::uint32_t index : ranked(dataset)) {
    const Node& node = s_.nodes[index];
    if (!node.takes_work || !node.has_memory || (to_prepare && node.workers == 0)) continue;
    if (enough(index)) break;
    chosen.push_back(index);
  }
  // So that the nodes of a small cluster stand in the order in which they joined.
  s_.sort_by_joining(chosen);
  std::vector<NodeId> nodes;
  for (const std::uint32_t index : chosen) nodes.push_back(s_.nodes[index].id);
  return nodes;
}

const std::vector<std::uint32_t>& Membership::ranked(std::uint32_t dataset) {
  if (ranked_.size() <= dataset) ranked_.resize(dataset + 1);
  Ranked& ranked = ranked_[dataset];
  std::vector<std::uint32_t>& nodes = ranked.nodes;
  if (std::exchange(ranked.as_of, s_.nodes_changed) == s_.nodes_changed) return nodes;
  nodes.clear();
  for (std::uint32_t index = 0; index < s_.nodes.size(); ++index) {
    if (!s_.nodes[index].lost) nodes.push_back(index);
  }
  const Digest version = s_.datasets[dataset].catalogue->version();
  const auto score = [&](std::uint32_t index) {
    const NodeId node = s_.nodes[index].id;
    return std::tuple(hash(version, node.value), node);
  };
  std::sort(nodes.begin(), nodes.end(),
            [&](std::uint32_t a, std::uint32_t b) { return score(a) < score(b); });
  return nodes;
}

bool Membership::add_helpers(Stream& stream) {
  bool added = false;
  std::uint32_t helpers = 0;
  const auto enough = [&](std::uint32_t /*node*/) { return helpers++ == s_.config.helper_nodes; };
  for (const NodeId node : nodes_for(stream.dataset, true, enough)) {
    added = add_node(stream, node) || added;
  }
  return added;
}

// The nodes that keep samples of a dataset stay the same, whichever jobs train on it and wherever,
// so that what is kept is found. They are its helpers, and more nodes of their kind until these
// hold the dataset twice. Without helpers, or if each node keeps what it reads, they are the nodes
// of the ranks.
bool Membership::open_homes(Stream& stream, std::span<const NodeId> ranks) {
  const Dataset& dataset = s_.datasets[stream.dataset];
  const auto open = [&](NodeId node) {
    return items_.open_shares(s_.node_of.at(node.value), dataset, *stream.pipeline);
  };
  bool opened = false;
  if (!s_.config.share_nodes || s_.config.helper_nodes == 0) {
    for (const NodeId node : ranks) opened = open(node) || opened;
    return opened;
  }
  const Bytes twice = saturating_product(2, dataset.catalogue->total_bytes());
  Bytes room = 0;
  std::uint32_t homes = 0;
  const auto enough = [&](std::uint32_t node) {
    if (homes >= s_.config.helper_nodes && room > twice) return true;
    ++homes;
    room = saturating_sum(room, items_.room_of(s_.nodes[node].id));
    return false;
  };
  for (const NodeId node : nodes_for(stream.dataset, false, enough)) opened = open(node) || opened;
  return opened;
}

bool Membership::add_node(Stream& stream, NodeId node) {
  for (const StreamNode& part : stream.nodes) {
    if (part.node == node) return false;
  }
  const Dataset& dataset = s_.datasets[stream.dataset];
  StreamNode part;
  part.node = node;
  const std::uint64_t blocks =
      (dataset.catalogue->samples() + stream.block_samples - 1) / stream.block_samples;
  part.share = s_.memory.add_share({dram_of(node), ShareUse::blocks, dataset.id,
                                    stream.pipeline->hash, stream.block_bytes, 0, blocks});
  part.index = s_.node_of.at(node.value);
  stream.nodes.push_back(part);
  s_.nodes[part.index].streams.push_back(stream.id.value);
  standby_nodes_.push_back(part.index);
  return true;
}

// Lanes fit into half of the window that the allocation policy plans for the stream.
void Membership::size_lanes(Stream& stream) {
  s_.memory.plan_now(s_.now);
  Slots window = 0;
  for (const StreamNode& part : stream.nodes) window += s_.memory[part.share].target;
  order::LaneSizes sizes{stream.epoch_samples, stream.block_samples, 1};
  sizes.lane_blocks = order::lane_blocks_for(sizes.blocks(), std::max<Slots>(1, window));
  stream.lanes->set_sizes(sizes);
}

// ----------------------------------------------------------------------- leaving and resizing ----

// Gives up what is not committed. Batches that live ranks still read keep their memory until they
// are released; those of dead ranks are free.
void Membership::start_over(Job& job, bool all_ranks_gone) {
  dispatching_.forget(job);
  delivery_.abandon(job, all_ranks_gone);
  preparation_.orphan(job);
  if (!job.runs.empty()) grants_.withdraw(job);
  s_.room_everywhere();  // others may go on that were held back for its sake
  for (const RankState& rank : job.ranks) {
    job.committed_step = std::max(job.committed_step, rank.next_step);
  }
}

void Membership::left(Job& job) {
  start_over(job, true);
  if (job.state != Job::State::refused) end_service(job);
  std::erase(refused_, job.index);
  forget(job);
}

// The job's ranks may still read what they were handed: that memory is free when they have released
// it.
void Membership::refuse(Job& job, Refusal why, std::uint64_t needed, std::uint64_t available) {
  if (job.state == Job::State::refused) return;
  s_.order(Refuse{job.id, why, needed, available});
  start_over(job, false);
  end_service(job);
  job.state = Job::State::refused;
  refused_.push_back(job.index);
}

void Membership::end_service(Job& job) {
  s_.promise_left(job);
  give_up_reserve(job);
  std::erase(s_.streams[job.stream].jobs, job.index);
  std::erase(s_.weighted_jobs, job.index);
  items_.settle(s_.datasets[s_.streams[job.stream].dataset]);
  close_if_empty(job.stream);
}

void Membership::forget(Job& job) {
  give_up_listed(job);
  for (const std::uint32_t share : job.retired_shares) s_.memory.remove_share(share);
  s_.job_of.erase(job.id.value);
  s_.jobs.release(job.index);
}

void Membership::rank_lost(Job& job, Rank rank) {
  if (rank >= job.ranks.size() || job.ranks[rank].lost) return s_.protocol_error();
  if (job.state == Job::State::refused) {
    job.ranks[rank].lost = true;
    return delivery_.abandon_rank(job, rank);
  }
  job.ranks[rank].lost = true;
  const bool first = job.state != Job::State::degraded;
  const bool was_running = job.state == Job::State::running;
  if (was_running) start_over(job, false);
  delivery_.abandon_rank(job, rank);
  job.state = Job::State::degraded;
  if (first) {
    job.lost_serial = ++s_.serials;
    s_.alarms.set(after(s_.now, s_.config.rank_timeout),
                  {AlarmKind::rank_timeout, job.index, job.lost_serial});
  }
}

void Membership::timed_out(std::uint32_t index, std::uint64_t serial) {
  if (!s_.jobs.live(index) || s_.jobs[index].state != Job::State::degraded) return;
  if (s_.jobs[index].lost_serial == serial) refuse(s_.jobs[index], Refusal::rank_lost, 0, 0);
}

void Membership::resized(Job& job, const JobResized& event) {
  if (job.state == Job::State::refused) return s_.stale();
  const std::uint64_t step = std::uint64_t{event.batch_samples} * event.ranks.size();
  const bool nodes_known = std::all_of(event.ranks.begin(), event.ranks.end(), [&](NodeId node) {
    return s_.node_of.has(node.value) && s_.memory.has(dram_of(node));
  });
  if (step == 0 || !nodes_known || job.order == Order::listed ||
      (job.drop_last && step > job.draws) || event.batch_samples <= job.rehearsed) {
    return refuse(job, Refusal::bad_request, 0, 0);
  }
  if (job.state == Job::State::running) start_over(job, false);
  give_up_reserve(job);
  const std::uint32_t credits = job.credits;
  job.batch_samples = event.batch_samples;
  job.ranks.clear();
  for (const NodeId node : event.ranks) {
    job.ranks.emplace_back();
    job.ranks.back().node = node;
    job.ranks.back().next_step = job.ranks.back().consumed_steps = job.committed_step;
  }
  s_.promise_resized(job);
  cover_nodes(s_.streams[job.stream], event.ranks);
  job.state = Job::State::resizing;
  job.credits = std::max(credits, s_.config.credits);
  ++job.numbering;
  joining_.push_back(job.index);
}

// A job that was resized may have to wait until its ranks have released what they had before.
bool Membership::reserve_resized(Job& job) {
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
  const std::uint32_t credits = job.credits;
  if (!reserve(job, credits, needed, available)) {
    job.credits = credits;
    if (job.held.empty()) {
      refuse(job, Refusal::no_room, needed, available);
    } else {
      joining_.push_back(job.index);
    }
    return false;
  }
  job.state = Job::State::joining;
  take_reserve(job);
  return true;
}

}  // namespace batchflow::engine
