// Blocks and batches in the memory of nodes: what is prepared, gathered and handed out.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/order/keys.h"
#include "tests/driver/machine.h"

namespace batchflow::test {

namespace {

std::string name(std::pair<std::uint32_t, std::uint32_t> key) {
  return fmt::format("share {} slot {}", key.first, key.second);
}

std::string name(const order::BlockName& block) {
  return fmt::format("(g{} v{} r{} b{})", block.generation, block.lane, block.pass, block.block);
}

bool same_block(const order::Lineage& a, const order::Lineage& b) {
  return a.dataset == b.dataset && a.dataset_version == b.dataset_version &&
         a.pipeline_hash == b.pipeline_hash && a.order == b.order && a.seed == b.seed &&
         a.block_samples == b.block_samples && a.lane_blocks == b.lane_blocks && a.name == b.name &&
         a.samples == b.samples && a.run_shift == b.run_shift;
}

}  // namespace

std::uint64_t token(const order::Lineage& lineage, const order::Draw& visited, SampleId used) {
  const order::KeyRoot root{lineage.dataset_version, lineage.seed};
  const std::uint64_t generation = lineage.name.generation;
  const std::uint64_t key =
      is_drawn(lineage.order)
          ? order::occurrence_draw_key(root, lineage.order == Order::weighted ? generation : 0,
                                       visited.sample, visited.occurrence)
          : order::draw_key(root, generation, lineage.name.pass, visited.sample);
  return hash(lineage.pipeline_hash, used.value, key);
}

Machine::Slot& Machine::slot(SlotKey key, const char* what) {
  const auto found = slots_.find(key);
  if (found == slots_.end()) violated(fmt::format("{} {}, where nothing is", what, name(key)));
  return found->second;
}

// A slot is taken by the first command that writes to it, until it is dropped.
Machine::Slot& Machine::claim(SlotKey key, Place place, Bytes bytes) {
  const auto [at, fresh] = slots_.try_emplace(key);
  if (!fresh) violated(fmt::format("{} is written anew before it was dropped", name(key)));
  at->second.place = place;
  at->second.bytes = bytes;
  add(place, bytes);
  return at->second;
}

Machine::BlockKey Machine::key_of(const order::Lineage& lineage) {
  const order::BlockName& name = lineage.name;
  return {lineage.dataset_version,
          lineage.pipeline_hash,
          lineage.seed,
          lineage.block_samples,
          lineage.lane_blocks,
          name.generation,
          name.lane,
          name.pass,
          name.block,
          lineage.samples};
}

void Machine::forget_drawn(std::uint64_t seed) {
  std::erase_if(weighted_, [&](const auto& one) { return one.first[2] == seed; });
}

const std::vector<order::Draw>& Machine::contents(const order::Lineage& lineage) {
  if (is_drawn(lineage.order)) {
    const auto found = weighted_.find(key_of(lineage));
    if (found == weighted_.end()) violated(name(lineage.name) + " is used, but was never made");
    return found->second;
  }
  const std::uint64_t samples = dataset(lineage.dataset).samples;
  if (!order::valid_lineage(lineage, samples)) violated("a block that does not exist");
  expander_.expand(lineage, samples, ids_);
  contents_.clear();
  for (const SampleId id : ids_) contents_.push_back({id, 0});
  return contents_;
}

// Of a block that is made part by part, what each part tells.
void Machine::learn(const engine::Prepare& command) {
  if (!is_drawn(command.lineage.order)) return;
  constexpr SampleId kUnknown(UINT64_MAX);
  std::vector<order::Draw>& known = weighted_[key_of(command.lineage)];
  known.resize(command.lineage.samples, {kUnknown, 0});
  for (const engine::Ingredient& one : command.ingredients) {
    order::Draw draw{one.sample, one.occurrence};
    for (const order::Replacement& instead : command.replacements) {
      if (instead.index == one.index) draw.sample = instead.corrupt;
    }
    order::Draw& here = known.at(one.index);
    if (here.sample != kUnknown && here != draw) {
      violated(name(command.lineage.name) + " is made otherwise");
    }
    here = draw;
  }
}

// ------------------------------------------------------------------------------- preparation ----

std::vector<SampleId> Machine::prepare(const engine::Prepare& command) {
  const std::uint64_t id = command.request.id.value;
  const SlotKey key{command.share.value, command.slot.value};
  const engine::PipelineInfo& info = pipeline(command.lineage.pipeline);
  const Place dram{command.node, Tier::dram, 0};
  const bool again = command.request.attempt > 0;
  if (!again) {
    if (preparations_.count(id) != 0) violated("a request id is used twice");
    Slot& made = claim(key, dram,
                       std::max<Bytes>(1, info.prepared_bytes) *
                           std::min<std::uint64_t>(command.lineage.block_samples,
                                                   dataset(command.lineage.dataset).samples));
    made.block = true;
    made.prepare = id;
    made.lineage = command.lineage;
    made.tokens.assign(command.lineage.samples, 0);
  }
  Slot& target = slot(key, "a block is prepared again into");
  if (target.prepare != id || !same_block(target.lineage, command.lineage)) {
    violated(fmt::format("{} is prepared by two", name(key)));
  }
  if (target.writing || target.whole) violated(fmt::format("{} is written twice", name(key)));
  target.writing = true;
  Preparation& mine = preparations_[id];
  mine = {};
  mine.slot = key;
  mine.node = command.node;
  running_preparations_.insert(id);
  learn(command);
  const std::vector<order::Draw> draws = contents(command.lineage);
  if (draws.size() != command.lineage.samples) violated("a lineage that does not know its size");
  const auto take = [&](std::uint32_t index, SampleId used) {
    SampleId expected = draws.at(index).sample;
    for (const order::Replacement& replacement : command.replacements) {
      if (replacement.index != index) continue;
      if (replacement.corrupt != expected) violated("a replacement of what is not there");
      expected = replacement.used;
    }
    if (used != expected) violated("an ingredient that is not the lineage's");
    mine.tokens.emplace_back(index, token(command.lineage, draws[index], used));
    mine.used.emplace_back(index, used);
  };
  // The samples in bundles that the command names by their indices.
  std::vector<engine::Ingredient> all(command.ingredients.begin(), command.ingredients.end());
  for (std::uint32_t index = command.kept_from; index < command.kept_to; ++index) {
    const auto named = [index](const engine::Ingredient& one) { return one.index == index; };
    if (std::any_of(command.ingredients.begin(), command.ingredients.end(), named)) continue;
    engine::Ingredient one;
    one.index = index;
    one.sample = draws.at(index).sample;
    all.push_back(one);
  }
  if (all.empty()) {
    for (std::uint32_t index = 0; index < draws.size(); ++index) {
      if (!in_staging(command.staging, command.node, draws[index].sample, Form::encoded)) {
        violated("a block is prepared from staging memory that does not hold it");
      }
      mine.staged.emplace_back(command.staging.value, draws[index].sample);
      take(index, draws[index].sample);
    }
  }
  for (const engine::Ingredient& ingredient : all) {
    const DatasetId of = command.lineage.dataset;
    if (ingredient.form == Form::decoded && info.prefix_hash == 0) violated("no decoded form");
    if (!ingredient.staging.is_none()) {
      if (!in_staging(ingredient.staging, command.node, ingredient.sample, ingredient.form)) {
        violated(fmt::format("sample {} is not in the staging memory of its read",
                             ingredient.sample.value));
      }
      mine.staged.emplace_back(ingredient.staging.value, ingredient.sample);
    } else {
      const Digest prefix = ingredient.form == Form::decoded ? info.prefix_hash : 0;
      const ItemKey item = find_item(dram, ingredient.form, of, prefix, ingredient.sample);
      ++items_.at(item).readers;
      mine.sources.push_back(item);
    }
    take(ingredient.index, ingredient.sample);
    if (is_drawn(command.lineage.order) &&
        draws[ingredient.index].occurrence != ingredient.occurrence) {
      violated("an ingredient drawn as another visit");
    }
    if (!ingredient.keep_decoded) continue;
    if (command.decoded_share.is_none()) violated("decoded samples are to be kept nowhere");
    const Place kept_at = place_of_decoded(command.decoded_share, command.node);
    const auto share =
        shares_.try_emplace({kept_at, Form::decoded, of, info.prefix_hash}, UINT32_MAX).first;
    if (std::exchange(share->second, command.decoded_share.value) != command.decoded_share.value) {
      decoded_bytes_.erase(share->second);
    }
    const ItemKey item{command.decoded_share.value,
                       static_cast<std::uint32_t>(ingredient.sample.value)};
    const auto measured = decoded_bytes_.find(item.first);
    const Bytes bytes = measured == decoded_bytes_.end() ? info.decoded_bytes : measured->second;
    enter_item(item, {kept_at, Form::decoded, of, bytes, id});
    mine.decoded.push_back(item);
  }
  std::vector<SampleId> samples;
  for (const auto& [index, sample] : mine.used) samples.push_back(sample);
  return samples;
}

void Machine::end_preparation(std::uint64_t id, Preparation& preparation) {
  for (const ItemKey& key : preparation.sources) {
    if (const auto item = items_.find(key); item != items_.end()) --item->second.readers;
  }
  preparation.sources.clear();
  running_preparations_.erase(id);
}

void Machine::prepare_over(RequestId request, bool well, const std::vector<SampleId>& corrupt) {
  const auto bad = [&](SampleId sample) {
    return std::find(corrupt.begin(), corrupt.end(), sample) != corrupt.end();
  };
  Preparation& mine = preparations_.at(request.value);
  end_preparation(request.value, mine);
  for (const ItemKey& key : mine.decoded) {
    const auto item = items_.find(key);
    if (item == items_.end() || item->second.filler != request.value) continue;
    if (well && !bad(SampleId(key.second))) {
      item->second.there = true;
    } else {
      erase_item(key);
    }
  }
  mine.decoded.clear();
  const auto found = slots_.find(mine.slot);
  if (found == slots_.end()) return;  // with its node
  Slot& target = found->second;
  target.writing = false;
  if (!well) return;
  for (std::size_t i = 0; i < mine.tokens.size(); ++i) {
    target.tokens[mine.tokens[i].first] = bad(mine.used[i].second) ? 0 : mine.tokens[i].second;
  }
  target.whole = std::find(target.tokens.begin(), target.tokens.end(), 0) == target.tokens.end();
}

void Machine::prepare_cancelled(RequestId request, bool still_writing) {
  const auto found = preparations_.find(request.value);
  if (found == preparations_.end()) violated("the cancellation of a preparation there is not");
  Preparation& mine = found->second;
  end_preparation(request.value, mine);
  for (const ItemKey& key : mine.decoded) {
    const auto item = items_.find(key);
    if (item != items_.end() && item->second.filler == request.value) erase_item(key);
  }
  mine.decoded.clear();
  if (still_writing) return;
  if (const auto target = slots_.find(mine.slot); target != slots_.end()) {
    target->second.writing = false;
  }
}

void Machine::quiet(RequestId request) {
  const auto found = preparations_.find(request.value);
  if (found == preparations_.end()) return;
  const auto target = slots_.find(found->second.slot);
  if (target != slots_.end() && target->second.prepare == request.value) {
    target->second.writing = false;
  }
}

// -------------------------------------------------------------------------- batches and slots ----

void Machine::transfer(const engine::Transfer& command) {
  const SlotKey from{command.from_share.value, command.from_slot.value};
  const SlotKey to{command.to_share.value, command.to_slot.value};
  Slot& source = slot(from, "a copy from");
  if (!source.block || !source.whole || source.lineage.name != command.slice.name ||
      command.slice.to > source.tokens.size() || command.slice.from >= command.slice.to ||
      source.place != command.from) {
    violated(fmt::format("a copy of block {} from {}, which holds {} ({})",
                         name(command.slice.name), name(from), name(source.lineage.name),
                         source.whole));
  }
  if (slots_.count(to) == 0) {
    claim(to, command.to, 0);
  }
  Slot& target = slot(to, "a copy to");
  if (target.block) violated("a batch is gathered in the slot of a block");
  if (target.place != command.to) violated("a slot in two places");
  const std::uint32_t count = command.slice.to - command.slice.from;
  if (target.tokens.size() < command.offset_samples + count) {
    target.tokens.resize(command.offset_samples + count, 0);
    target.pending.resize(command.offset_samples + count, false);
    // At least what is written of it: how large the slot is, no command says.
    const engine::PipelineInfo& info = pipeline(slot(from, "a copy from").lineage.pipeline);
    const Bytes bytes = target.tokens.size() * std::max<Bytes>(1, info.prepared_bytes);
    add(target.place, bytes - target.bytes);
    target.bytes = bytes;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (target.tokens[command.offset_samples + i] != 0 ||
        target.pending[command.offset_samples + i]) {
      violated("a part of a batch is copied twice");
    }
    target.pending[command.offset_samples + i] = true;
  }
  ++slot(from, "a copy from").readers;
  copies_[command.request.id.value] = {from, to, command.slice.from, count, command.offset_samples};
}

void Machine::transfer_over(RequestId request, bool well) {
  const auto found = copies_.find(request.value);
  if (found == copies_.end()) return;
  const Copy copy = found->second;
  copies_.erase(found);
  const auto source = slots_.find(copy.from);
  const auto target = slots_.find(copy.to);
  if (source != slots_.end()) --source->second.readers;
  if (target == slots_.end()) return;
  for (std::uint32_t i = 0; i < copy.count; ++i) {
    target->second.pending[copy.offset + i] = false;
    if (well && source != slots_.end()) {
      target->second.tokens[copy.offset + i] = source->second.tokens[copy.first + i];
    }
  }
}

void Machine::deliver(const engine::Deliver& command, const std::vector<std::uint64_t>& expected) {
  const std::uint64_t id = command.request.id.value;
  if (deliveries_.count(id) != 0) {
    if (command.request.attempt == 0) violated("a request id is used twice");
    return;  // handed over again: it is held already
  }
  const SlotKey key{command.share.value, command.slot.value};
  Slot& source = slot(key, "a delivery from");
  if (source.place != command.place) violated("a delivery from another place");
  const std::uint32_t from = command.in_place ? command.slices.front().from : 0;
  // Of a live order, records and what fills up their batch are two slices.
  bool is_one = command.slices.size() <= 2;
  for (std::size_t i = 1; i < command.slices.size(); ++i) {
    const order::Slice& before = command.slices[i - 1];
    is_one = is_one && command.slices[i].name == before.name &&
             command.slices[i].from == before.to && command.slices[i].rehearsed != before.rehearsed;
  }
  if (command.in_place != source.block || (command.in_place && !is_one)) {
    violated("a delivery in place is a slice of one block, another of none");
  }
  if (source.block && !source.whole) violated("a delivery from a block that is not made");
  if (source.tokens.size() < from + expected.size() ||
      !std::equal(expected.begin(), expected.end(), source.tokens.begin() + from)) {
    violated(fmt::format("{} does not hold what is delivered from it", name(key)));
  }
  ++source.holders;
  deliveries_[id] = key;
}

void Machine::deliver_stored(const engine::Deliver& command, DatasetId dataset) {
  const std::uint64_t id = command.request.id.value;
  if (listed_.count(id) != 0) return;
  std::vector<ItemKey>& items = listed_[id];
  for (const engine::Ingredient& ingredient : command.ingredients) {
    if (!ingredient.staging.is_none()) {
      if (!in_staging(ingredient.staging, command.place.node, ingredient.sample, Form::encoded)) {
        violated("a stored sample is delivered from where it is not");
      }
      borrowed_[id].emplace_back(ingredient.staging.value, ingredient.sample);
      continue;
    }
    const ItemKey item = find_item(command.place, Form::encoded, dataset, 0, ingredient.sample);
    ++items_.at(item).readers;
    items.push_back(item);
  }
}

void Machine::let_go(RequestId delivery) {
  if (const auto listed = listed_.find(delivery.value); listed != listed_.end()) {
    for (const ItemKey& key : listed->second) {
      if (const auto item = items_.find(key); item != items_.end()) --item->second.readers;
    }
    listed_.erase(listed);
    borrowed_.erase(delivery.value);
    return;
  }
  const auto found = deliveries_.find(delivery.value);
  if (found == deliveries_.end()) return;
  const auto at = slots_.find(found->second);
  if (at != slots_.end()) --at->second.holders;
  deliveries_.erase(found);
}

void Machine::drop(const engine::Drop& command) {
  if (command.slot.is_none()) {
    const ItemKey key{command.share.value, command.item.value};
    const auto found = items_.find(key);
    if (found == items_.end()) {
      violated(
          fmt::format("item {} of share {} is dropped and is not there", key.second, key.first));
    }
    if (found->second.readers > 0) violated("an item is dropped while it is read");
    if (!found->second.there) violated("an item is dropped while it is brought");
    return erase_item(key);
  }
  const SlotKey key{command.share.value, command.slot.value};
  const Slot& gone = slot(key, "a drop of");
  if (gone.holders > 0) violated(fmt::format("{} is dropped while a rank has it", name(key)));
  if (gone.readers > 0) violated(fmt::format("{} is dropped while it is copied", name(key)));
  if (gone.writing) violated(fmt::format("{} is dropped while a worker writes to it", name(key)));
  if (std::find(gone.pending.begin(), gone.pending.end(), true) != gone.pending.end()) {
    violated(fmt::format("{} is dropped while something is copied into it", name(key)));
  }
  if (gone.place != command.place) violated("a drop in another place");
  remove(gone.place, gone.bytes);
  slots_.erase(key);
}

void Machine::check_idle() const {
  for (const auto& [id, staging] : stagings_) {
    if (staging.running || staging.staged || !staging.missing.empty()) {
      violated(fmt::format("the staging memory of read {:x} is never released", id));
    }
  }
  for (const auto& [key, slot] : slots_) {
    if (slot.holders > 0 || slot.readers > 0 || slot.writing) {
      violated(fmt::format("{} is still in use", name(key)));
    }
    if (!slot.block) violated(fmt::format("{} still holds a batch", name(key)));
  }
}

}  // namespace batchflow::test
