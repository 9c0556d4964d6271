#include "tests/driver/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace batchflow::test {

void violated(const std::string& what) {
  throw Violation(what);
}

namespace {

constexpr Duration kGrace = ms(200);

std::string name(Place place) {
  return fmt::format("node {} tier {} device {}", place.node.value, static_cast<int>(place.tier),
                     place.device);
}

}  // namespace

Machine::Machine(const Scenario& scenario) : scenario_(scenario) {}

// ------------------------------------------------------------------------------------- places ----

const DatasetPlan& Machine::dataset(DatasetId id) const {
  for (const DatasetPlan& plan : scenario_.datasets) {
    if (plan.id == id) return plan;
  }
  violated("a command about a dataset that the engine was never told of");
}

const engine::PipelineInfo& Machine::pipeline(PipelineId id) const {
  for (const PipelinePlan& plan : scenario_.pipelines) {
    if (plan.id == id) return plan.info;
  }
  violated("a command about a pipeline that the engine was never told of");
}

void Machine::set_capacity(Place place, Bytes bytes) {
  // What was in use when a place shrank may stay until it is let go of, and what was being made is
  // still written.
  limit_[place] = {std::max({bytes, capacity_[place], limit_[place].bytes}), now + kGrace};
  capacity_[place] = bytes;
}

// What is there was of that size all along; what is too much now may stay until it is let go of.
void Machine::measure_decoded(ShareId share, Bytes bytes) {
  decoded_bytes_[share.value] = bytes;
  for (auto& [key, item] : items_) {
    if (key.first != share.value) continue;
    used_[item.place] += bytes - item.bytes;
    item.bytes = bytes;
    set_capacity(item.place, capacity_[item.place]);
    limit_[item.place].bytes = std::max(limit_[item.place].bytes, used_[item.place]);
  }
}

std::vector<std::pair<DatasetId, ShareId>> Machine::decoded_shares() const {
  std::vector<std::pair<DatasetId, ShareId>> shares;
  for (const auto& [name, share] : shares_) {
    if (name.form == Form::decoded) shares.emplace_back(name.dataset, ShareId(share));
  }
  return shares;
}

Bytes Machine::used(Place place) const {
  const auto found = used_.find(place);
  return found == used_.end() ? 0 : found->second;
}

void Machine::add(Place place, Bytes bytes) {
  const Bytes held = used_[place] += bytes;
  Limit& limit = limit_[place];
  if (now > limit.until) limit.bytes = 0;
  if (held > std::max(limit.bytes, capacity_[place])) {
    violated(fmt::format("{} holds {} bytes of {}", name(place), held, capacity_[place]));
  }
}

void Machine::remove(Place place, Bytes bytes) {
  used_[place] -= bytes;
}

void Machine::lose_node(NodeId node) {
  std::erase_if(slots_, [&](const auto& entry) { return entry.second.place.node == node; });
  std::erase_if(items_, [&](const auto& entry) { return entry.second.place.node == node; });
  // Another share may have the number of one that is gone.
  for (const auto& [name, share] : shares_) {
    if (name.place.node == node) decoded_bytes_.erase(share);
  }
  std::erase_if(shares_, [&](const auto& entry) { return entry.first.place.node == node; });
  std::erase_if(used_, [&](const auto& entry) { return entry.first.node == node; });
  std::erase_if(capacity_, [&](const auto& entry) { return entry.first.node == node; });
  for (auto& [id, staging] : stagings_) {
    if (staging.node != node) continue;
    staged_ -= std::exchange(staging.held, 0);
    staging.samples.clear();
    staging.there = false;
  }
}

void Machine::clear() {
  slots_.clear();
  items_.clear();
  shares_.clear();
  decoded_bytes_.clear();
  used_.clear();
  staged_ = 0;
  stagings_.clear();
  preparations_.clear();
  running_preparations_.clear();
  copies_.clear();
  deliveries_.clear();
  listed_.clear();
  borrowed_.clear();
  // Weights that were asked for of the engine before count no more where no job was told of them.
  weighted_.clear();
}

// ------------------------------------------------------------------------------------- items ----

void Machine::enter_item(ItemKey key, const Item& item) {
  const auto [at, fresh] = items_.try_emplace(key, item);
  if (!fresh) {
    violated(fmt::format("item {} enters share {} twice", key.second, key.first));
  }
  add(item.place, item.bytes);
}

void Machine::erase_item(ItemKey key) {
  const auto found = items_.find(key);
  if (found == items_.end()) return;
  remove(found->second.place, found->second.bytes);
  items_.erase(found);
}

void Machine::adopt(const engine::Adopt& command) {
  if (command.prefix == 0) return;
  // Another share may have had the number.
  std::erase_if(shares_, [&](const auto& entry) { return entry.second == command.share.value; });
  decoded_bytes_.erase(command.share.value);
  shares_[{command.place, Form::decoded, command.dataset, command.prefix}] = command.share.value;
}

Place Machine::place_of_decoded(ShareId share, NodeId node) const {
  for (const auto& [name, number] : shares_) {
    const Place& place = name.place;
    if (number == share.value && name.form == Form::decoded && place.node == node &&
        place.tier == Tier::gpu)
      return place;
  }
  return {node, Tier::dram, 0};
}

Machine::ItemKey Machine::find_item(Place place, Form form, DatasetId dataset, Digest prefix,
                                    SampleId sample) const {
  const auto share = shares_.find({place, form, dataset, prefix});
  const std::string what = fmt::format("sample {} of dataset {} ({}) at {}", sample.value,
                                       dataset.value, static_cast<int>(form), name(place));
  if (share == shares_.end()) violated(what + " is used, but nothing was ever kept there");
  const bool in_bundle = form == Form::encoded && place.tier == Tier::dram;
  const ItemKey key{share->second,
                    static_cast<std::uint32_t>(
                        sample.value >> (in_bundle ? this->dataset(dataset).bundle_shift : 0))};
  const auto found = items_.find(key);
  if (found == items_.end() || !found->second.there) violated(what + " is used, but is not there");
  return key;
}

// ------------------------------------------------------------------------------------- reads ----

Bytes Machine::bytes_of(const Staging& staging) const {
  const DatasetPlan& plan = dataset(staging.dataset);
  Bytes sum = 0;
  for (const SampleId sample : staging.samples) {
    sum += staging.form == Form::decoded ? staging.decoded
           : staging.bundles             ? plan.bundle_bytes(sample)
                                         : plan.bytes_of(sample);
  }
  return sum;
}

// What a read brings takes memory from when it is commanded, wherever it is kept afterwards.
void Machine::hold(Staging& staging, Bytes bytes) {
  remove(staging.at, staging.held);
  staged_ = staged_ - staging.held + bytes;
  staged_most_ = std::max(staged_most_, staged_);
  staging.held = bytes;
  add(staging.at, bytes);
}

// Decoded samples of a share have one size, which may have been measured since they came.
Bytes Machine::decoded_bytes(const engine::Read& command) const {
  const Digest prefix = pipeline(command.lineage.pipeline).prefix_hash;
  return items_
      .at(find_item(command.from, command.form, command.dataset, prefix, command.samples.front()))
      .bytes;
}

// The same where it is to be kept.
Bytes Machine::kept_decoded_bytes(const engine::Read& command) const {
  const auto measured = decoded_bytes_.find(command.keep.value);
  return measured == decoded_bytes_.end() ? pipeline(command.lineage.pipeline).decoded_bytes
                                          : measured->second;
}

void Machine::read(const engine::Read& command) {
  Staging& staging = stagings_[command.request.id.value];
  if (staging.running) violated("a read is commanded again while it runs");
  const bool again = command.request.attempt > 0;
  if (!again && staging.there) violated("a request id is used twice");
  staging.node = command.to.node;
  staging.dataset = command.dataset;
  staging.form = command.form;
  const bool rest = again && !staging.missing.empty();
  if (rest) {
    if (!std::equal(staging.missing.begin(), staging.missing.end(), command.samples.begin(),
                    command.samples.end()))
      violated("a read that failed in part is not commanded again for the rest");
  } else {
    staging.samples.assign(command.samples.begin(), command.samples.end());
    if (staging.samples.empty()) {
      for (const order::Draw& draw : contents(command.lineage))
        staging.samples.push_back(draw.sample);
    }
  }
  const std::vector<SampleId>& samples = rest ? staging.missing : staging.samples;
  staging.at = command.to;
  staging.bundles = command.bundle_shift > 0;
  if (command.form == Form::decoded && !again) staging.decoded = decoded_bytes(command);
  if (command.bundle_shift > 0) {
    const bool kept_here = command.keep_at == command.to;
    if (command.bundle_shift != dataset(command.dataset).bundle_shift || !kept_here ||
        command.samples.empty())
      violated("bundles are read that are not to be kept where they are read to");
    for (const SampleId first : command.samples) {
      if (first.value % (std::uint64_t{1} << command.bundle_shift) != 0)
        violated("a bundle does not begin with its first sample");
    }
  }
  hold(staging, bytes_of(staging));
  staging.staged = command.keep.is_none() || command.keep_at != command.to;
  staging.running = true;
  staging.listed = command.lineage.samples == 0;
  staging.from = command.from;
  const Digest prefix =
      command.form == Form::decoded ? pipeline(command.lineage.pipeline).prefix_hash : 0;
  if (command.from.tier == Tier::store) {
    for (const SampleId first : samples) {
      samples_read_from_store += std::min<std::uint64_t>(
          std::uint64_t{1} << command.bundle_shift, dataset(command.dataset).samples - first.value);
    }
  } else {
    for (const SampleId sample : samples) {
      const ItemKey key = find_item(command.from, command.form, command.dataset, prefix, sample);
      ++items_.at(key).readers;
      staging.sources.push_back(key);
    }
  }
  if (command.keep.is_none() || rest) return;
  const auto share =
      shares_.try_emplace({command.keep_at, command.form, command.dataset, prefix}, UINT32_MAX)
          .first;
  if (std::exchange(share->second, command.keep.value) != command.keep.value)
    decoded_bytes_.erase(share->second);
  for (const SampleId sample : staging.samples) {
    const Bytes unit = scenario_.config.item_slot_bytes;
    const DatasetPlan& plan = dataset(command.dataset);
    const Bytes stored =
        command.bundle_shift > 0 ? plan.bundle_bytes(sample) : plan.bytes_of(sample);
    const Bytes whole = (stored + unit - 1) / unit * unit;
    const Bytes bytes = prefix == 0 ? whole : kept_decoded_bytes(command);
    const ItemKey key{command.keep.value, engine::item_of(sample, command.bundle_shift).value};
    enter_item(key,
               {command.keep_at, command.form, command.dataset, bytes, command.request.id.value});
    staging.kept.push_back(key);
  }
}

const std::vector<SampleId>& Machine::reads(RequestId request) const {
  const Staging& staging = stagings_.at(request.value);
  return staging.missing.empty() ? staging.samples : staging.missing;
}

void Machine::read_over(RequestId request, bool well, std::vector<SampleId> failed) {
  Staging& staging = stagings_.at(request.value);
  staging.running = false;
  for (const ItemKey& key : staging.sources) {
    if (const auto item = items_.find(key); item != items_.end()) --item->second.readers;
  }
  staging.sources.clear();
  if (!failed.empty()) staging.missing = std::move(failed);
  // What was read of it stays until the rest is there.
  if (!well && !staging.missing.empty()) return;
  staging.missing.clear();
  for (const ItemKey& key : staging.kept) {
    const auto item = items_.find(key);
    if (item == items_.end() || item->second.filler != request.value) continue;
    if (well) {
      item->second.there = true;
    } else {
      erase_item(key);
    }
  }
  staging.kept.clear();
  staging.there = well;
  if (!well || !staging.staged) hold(staging, 0);
  if (well && !staging.staged) stagings_.erase(request.value);
}

void Machine::check_unused(std::uint64_t read, const std::vector<SampleId>& samples) const {
  const auto is_one = [&](SampleId sample) {
    return std::find(samples.begin(), samples.end(), sample) != samples.end();
  };
  for (const auto& [delivery, staged] : borrowed_) {
    for (const auto& [of, sample] : staged) {
      if (of == read && is_one(sample))
        violated(fmt::format("staging memory of delivery {:x} is released", delivery));
    }
  }
  for (const std::uint64_t id : running_preparations_) {
    for (const auto& [of, sample] : preparations_.at(id).staged) {
      if (of == read && is_one(sample))
        violated(fmt::format("staging memory is released while preparation {:x} reads it", id));
    }
  }
}

void Machine::release(const engine::Release& command) {
  const std::uint64_t id = command.request.id.value;
  const auto found = stagings_.find(id);
  if (found == stagings_.end()) violated("the release of a read that has no staging memory");
  Staging& staging = found->second;
  if (staging.running) violated("staging memory is released while it is read into");
  if (!command.samples.empty()) {
    const std::vector<SampleId> gone(command.samples.begin(), command.samples.end());
    check_unused(id, gone);
    for (const SampleId sample : gone) {
      const auto at = std::find(staging.samples.begin(), staging.samples.end(), sample);
      if (at == staging.samples.end()) violated("the release of a sample that is not there");
      staging.samples.erase(at);
    }
    return hold(staging, bytes_of(staging));
  }
  check_unused(id, staging.samples);
  for (const ItemKey& key : staging.kept) {
    const auto item = items_.find(key);
    if (item != items_.end() && item->second.filler == id) erase_item(key);
  }
  hold(staging, 0);
  stagings_.erase(found);
}

bool Machine::in_staging(RequestId request, NodeId node, SampleId sample, Form form) const {
  const auto found = stagings_.find(request.value);
  if (found == stagings_.end()) violated("staging memory is used after its release");
  const Staging& staging = found->second;
  return staging.there && staging.staged && staging.node == node && staging.form == form &&
         std::find(staging.samples.begin(), staging.samples.end(), sample) != staging.samples.end();
}

}  // namespace batchflow::test
