// What a run tells the check of room: what jobs ask for, what ranks still read, which nodes can
// prepare.
#include <algorithm>

#include "core/base/random.h"
#include "core/order/live_epoch.h"
#include "tests/driver/driver.h"

namespace batchflow::test {

namespace {

// What the largest sample takes where it is read: all sectors that it may touch.
Bytes largest_staged(const engine::EngineConfig& config, const DatasetPlan& dataset) {
  const Bytes largest = dataset.largest_bytes();
  const Bytes sector = config.staging_sector_bytes;
  return sector == 1 ? largest : (largest + 2 * sector - 1) / sector * sector;
}

}  // namespace

// At its join; it stays in the stream it came to.
RoomCheck::Asked Driver::asked_of(const Client& client) const {
  const JobPlan& plan = client.plan;
  const DatasetPlan& dataset = dataset_of(client);
  const engine::PipelineInfo& pipeline = scenario_.pipelines[plan.pipeline.value - 1].info;
  const Bytes sample =
      std::max<Bytes>(1, pipeline.prepared_bytes ? pipeline.prepared_bytes : dataset.bytes);
  std::uint32_t block = block_samples_of(config_, sample, dataset.samples);
  // Within a generation of larger blocks its slots hold those.
  const order::LanePosition& lanes = client.position.lanes();
  if (client.position.has_generation() && !lanes.at_epoch_start() && !lanes.epoch_done()) {
    block = std::max(block, lanes.sizes.block_samples);
  }
  if (plan.order == Order::live) block = order::live_block_samples(client.batch_samples, block);
  const bool weighted = plan.order == Order::weighted;
  const auto& mixing = client.position.fields().mixing;
  const bool alone = !config_.share_streams || plan.order == Order::listed ||
                     plan.order == Order::live || is_chosen(plan) ||
                     (mixing && mixing->may_change());
  std::uint64_t drawn_alike = weighted ? plan.draws : 0;
  if (mixing) {
    drawn_alike = client.position.fields().draws;
    for (const SampleRange& source : mixing->sources())
      drawn_alike = hash(drawn_alike, source.first.value, source.samples);
  }
  RoomCheck::Asked asked;
  asked.job = client.id;
  asked.prepares = plan.order != Order::listed;
  asked.block = sample * block;
  const Bytes largest = largest_staged(config_, dataset);
  // Where memory is set apart for reads, it is promised whole; a sample that is larger has its own.
  const Bytes apart = config_.staging_bytes;
  asked.staged = !config_.count_staging ? 0 : largest > apart ? apart + largest : apart;
  asked.sample = asked.prepares ? sample : config_.count_staging ? largest : 0;
  asked.stream = {
      dataset.id.value,
      plan.pipeline.value,
      client.position.fields().seed,
      static_cast<std::uint64_t>(plan.order == Order::strict ? Order::relaxed : plan.order),
      drawn_alike,
      weighted && plan.multinomial ? 1u : 0u,
      block,
      alone ? client.id.value + 1 : 0};
  return asked;
}

void Driver::ask_for_room(Client& client, std::uint32_t credits) {
  client.asked.ranks = client.nodes;
  client.asked.batch = client.asked.sample * client.batch_samples;
  client.asked.credits = std::min(credits, engine::kCreditsMost);
  room_.asks(client.asked);
}

void Driver::let_go(const Held& batch) {
  machine_.let_go(batch.request);
  let_go_.push_back(batch.room);
}

// Batches of steps that count no more keep their memory until their ranks have let go of them, and
// reads of a listed order that are under way until they are over. Whether their job is in, the
// reads do not tell.
std::vector<RoomCheck::Leftover> Driver::leftovers() const {
  std::vector<RoomCheck::Leftover> left = let_go_;
  for (const Client& client : clients_) {
    const bool in = client.state == Client::State::running;
    for (const Held& one : client.held) {
      if (!in || one.incarnation != client.incarnation) left.push_back(one.room);
    }
  }
  machine_.each_listed_read([&](NodeId node, Bytes bytes) { left.push_back({node, bytes}); });
  return left;
}

// As the engine knows it whatever it heard first in this step.
std::vector<NodeId> Driver::preparing() const {
  std::vector<NodeId> nodes;
  for (const Node& node : nodes_) {
    const bool works = std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
      return entry.second.node == node.plan.id && entry.second.alive && entry.second.joined < now_;
    });
    if (node.up && !node.rests && works) nodes.push_back(node.plan.id);
  }
  return nodes;
}

// As soon as they have their workers.
std::vector<NodeId> Driver::may_prepare() const {
  std::vector<NodeId> nodes;
  for (const Node& node : nodes_) {
    if (node.up && !node.rests && node.plan.cores > 0) nodes.push_back(node.plan.id);
  }
  return nodes;
}

void Driver::set_capacity(Place place, Bytes bytes) {
  machine_.set_capacity(place, bytes);
  if (place.tier == Tier::dram) room_.set_capacity(place.node, bytes);
  report(engine::CapacityChanged{place, bytes});
}

}  // namespace batchflow::test
