#include "core/engine/items.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/check.h"
#include "core/engine/books.h"
#include "core/engine/placement.h"
#include "core/engine/staging.h"
#include "core/engine/suspects.h"

namespace batchflow::engine {

namespace {

// Memory for looking up samples is requested for this many at once, while as many before them are
// looked up.
constexpr std::uint32_t kPrefetched = 16;

}  // namespace

void Items::look_up(MakingIndex making_index, Bytes most) {
  Making& making = s_.makings[making_index];
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  const std::vector<order::Draw>& draws = making.draws;
  const bool some_corrupt = !s_.datasets[stream.dataset].corrupt_by(stream.pipeline_id).empty();
  look_around(making_index);
  staging_most_ = most;
  staging_taken_ = 0;
  making.ingredients.clear();
  making.ingredients.reserve(draws.size() - making.next);
  // Drawn samples come often. A sample that replaces a corrupt one may be in the block itself, too.
  const bool with_replacement = is_drawn(stream.family) || block.rehearsal || some_corrupt;
  if (with_replacement) first_indices_.clear(draws.size() - making.next);
  announce(making);
  for (std::uint32_t at = 0; making.next < draws.size(); ++at, ++making.next) {
    const std::uint32_t index = making.next;
    if (at % kPrefetched == 0) prefetch(std::span(draws).subspan(index));
    Ingredient& ingredient = making.ingredients.emplace_back();
    ingredient.index = index;
    ingredient.sample = draws[index].sample;
    ingredient.occurrence = static_cast<std::uint32_t>(draws[index].occurrence);
    if (some_corrupt) Suspects::stand_in(s_, making, ingredient);
    Bytes bytes = staged_alone(ingredient.sample);
    if (around_.bundle_shift > 0) {
      const Bytes bundle = staged_bundle_bytes(s_, *around_.dataset, ingredient.sample);
      if (bundle <= staging_most_) bytes = bundle;
    }
    if (at > 0 && saturating_sum(staging_taken_, bytes) > staging_most_) {
      if (some_corrupt) Suspects::forget_stand_in(making, index);
      making.ingredients.pop_back();
      break;
    }
    if (with_replacement) {
      // The bytes are wanted once, however often the sample was drawn.
      const std::uint32_t first = first_indices_.first_index(ingredient.sample, at);
      if (first != at) {
        firsts_.push_back({at, first});
        continue;
      }
    }
    look_up_one(making_index, at);
  }
  drop_evicted(s_);
  send_groups(making_index);
  share_firsts(making);
  if (!s_.config.hold_ingredients) release_ingredients(making);
}

// Tells policies that want to know what the part will request of memory, as things are now.
void Items::announce(const Making& making) {
  if (around_.placed != nullptr) return;
  const auto part_of = [&](const ItemCache* cache) -> const SharePart* {
    return cache == nullptr || cache->dram.is_none() ? nullptr : &s_.memory[cache->dram];
  };
  const SharePart* const decoded = part_of(around_.homes[0].decoded);
  const SharePart* const encoded = part_of(around_.homes[0].encoded);
  const auto wants = [](const SharePart* part) {
    return part != nullptr && part->spec.bundle_shift == 0 && part->share->capacity() > 0 &&
           part->share->wants_announcements();
  };
  const bool wants_decoded = wants(decoded), wants_encoded = wants(encoded);
  if (!wants_decoded && !wants_encoded) return;
  std::vector<Access> of_decoded, of_encoded;
  Bytes taken = 0;  // of staging memory
  const std::span<const order::Draw> draws = std::span(making.draws).subspan(making.next);
  for (std::size_t at = 0; at < draws.size(); ++at) {
    const order::Draw& draw = draws[at];
    if (at % kPrefetched == 0) prefetch(draws.subspan(at));
    const Bytes staged = staged_alone(draw.sample);
    if (taken > 0 && saturating_sum(taken, staged) > staging_most_) break;
    admission_.next_sample();
    const auto request = [&](const SharePart& part, Bytes bytes) {
      const ItemId item = part.spec.item_of(draw.sample);
      const bool kept = part.share->resident(item);
      const Slots slots = kept ? part.share->slots(item) : slots_for(bytes, part.spec.slot_bytes);
      return std::pair(admission_.access_to(part, item, draw.sample, slots), kept);
    };
    if (decoded != nullptr) {
      const auto [access, kept] = request(*decoded, decoded->spec.slot_bytes);
      if (!kept && item_shares_.has_on_gpu(*around_.homes[0].decoded, draw.sample)) continue;
      if (wants_decoded) of_decoded.push_back(access);
      if (kept) continue;
    }
    if (encoded == nullptr) continue;
    auto [access, kept] = request(*encoded, admission_.stored_bytes(draw.sample));
    const bool under_way = !kept && around_.under_way &&
                           !reads_.shown()
                                .find(making.node, around_.dataset->id, draw.sample, Form::encoded)
                                .is_none();
    if (!kept && !under_way) taken += staged;
    if (!wants_encoded || under_way || access.slots > kItemSlotsMost) continue;
    access.kept_decoded = !kept && decoded != nullptr && decoded->share->capacity() > 0;
    of_encoded.push_back(access);
  }
  if (wants_decoded) decoded->share->announce(of_decoded);
  if (wants_encoded) encoded->share->announce(of_encoded);
}

// `draws`: the sample that is looked up now, and all behind it.
void Items::prefetch(std::span<const order::Draw> draws) const {
  if (draws.size() <= kPrefetched) return;
  draws = draws.subspan(kPrefetched);
  draws = draws.first(std::min<std::size_t>(draws.size(), kPrefetched));
  for (const SharePart* part : around_.likely) {
    for (const order::Draw& draw : draws) part->share->prefetch(part->spec.item_of(draw.sample));
  }
}

void Items::release_ingredients(Making& making) {
  for (std::size_t i = 0; i < making.pins.size(); ++i) {
    if (i + kPrefetched < making.pins.size()) {
      const ItemPin& soon = making.pins[i + kPrefetched];
      s_.memory[soon.share].share->prefetch(soon.item);
    }
    s_.memory[making.pins[i].share].share->unpin(making.pins[i].item);
  }
  making.pins.clear();
  if (const ShareId all = std::exchange(making.pinned_all, ShareId::none()); !all.is_none()) {
    s_.memory[all].share->unpin_all();
  }
}

// Finds once what is the same for all samples of a block.
void Items::look_around(MakingIndex making_index) {
  const Making& making = s_.makings[making_index];
  const Stream& stream = s_.streams[s_.blocks[making.block].stream];
  const Dataset& dataset = s_.datasets[stream.dataset];
  const ItemCaches& caches = item_shares_.caches(dataset.id);
  groups_.clear();
  firsts_.clear();
  if (new_bundles_.size() > 0) new_bundles_ = {};
  brought_.clear();
  if (brought_by_.size() > 0) brought_by_ = {};
  around_.dataset = &dataset;
  around_.bytes = dataset.catalogue->is_uniform() ? dataset.catalogue->largest_bytes() : 0;
  around_.staged = staged_bytes(s_, around_.bytes);
  around_.bundle_shift = dataset.catalogue->bundle_shift();
  around_.placed = caches.homes() ? &caches : nullptr;
  around_.homes_of = caches.homes() ? caches.homes()->members() : 1;
  around_.runs = stream.run_shift > 0 && !s_.blocks[making.block].rehearsal;
  // Where nodes share nothing, which of them comes to a sample next is not known.
  const bool by_this_node = caches.homes() || std::all_of(caches.all().begin(), caches.all().end(),
                                                          [&](const ItemCache& cache) {
                                                            return cache.node == making.node;
                                                          });
  around_.foreseen = stream.names_samples() && by_this_node;
  around_.foretold = by_this_node;
  around_.under_way = reads_.shown().any(making.node, dataset.id);
  around_.job = s_.jobs.live(making.job) ? s_.jobs[making.job].id : JobId::none();
  admission_.look_at(around_, lane_of(s_.blocks[making.block]));
  around_.homes.clear();
  around_.likely.clear();
  const auto add = [&](NodeIndex node) {
    const bool lost = s_.nodes[node].lost;
    const Digest prefix = stream.pipeline->prefix_hash;
    const bool decodes = stream.pipeline->decodes();
    around_.homes.push_back({node, lost ? nullptr : caches.find(node, 0),
                             lost || !decodes ? nullptr : caches.find(node, prefix)});
  };
  if (around_.placed == nullptr) {
    add(making.node);
  } else {
    for (std::size_t i = 0; i < caches.homes()->members(); ++i) {
      add(s_.node_of.at(caches.homes()->member(i)));
    }
  }
  around_.from_before.clear();
  if (around_.placed != nullptr)
    item_shares_.find_from_before(dataset, *stream.pipeline, around_.from_before);
  // Where the samples of a block are most likely to be looked up.
  for (const ItemCache* cache = caches.first(making.node); cache != nullptr;
       cache = caches.next(*cache)) {
    for (const ShareId index : cache->shares) around_.likely.push_back(&s_.memory[index]);
  }
}

// The lane of all samples that are looked up for the block. None: there may be samples of other
// lanes, such as those that replace corrupt ones, and the first of a bundle.
std::optional<Future::Lane> Items::lane_of(const Block& block) const {
  const Stream& stream = s_.streams[block.stream];
  const Dataset& dataset = s_.datasets[stream.dataset];
  if (stream.family != Order::relaxed || !stream.names_samples() || block.rehearsal ||
      dataset.catalogue->bundle_shift() > 0 || !dataset.corrupt_by(stream.pipeline_id).empty()) {
    return {};
  }
  return Future::Lane{&stream, block.name.generation, block.sizes, block.name.lane};
}

Bytes Items::staged_alone(SampleId sample) const {
  return around_.bytes > 0 ? around_.staged : staged_bytes(s_, *around_.dataset, sample);
}

// REQUIRES: look_around(making)
void Items::look_up_one(MakingIndex making_index, std::uint32_t at) {
  Making& making = s_.makings[making_index];
  Ingredient& ingredient = making.ingredients[at];
  admission_.next_sample();
  ingredient.form = Form::encoded;
  ingredient.staging = RequestId::none();
  ingredient.keep_decoded = false;
  const Dataset& dataset = *around_.dataset;
  const SampleId sample = ingredient.sample;
  const Around::Home& home =
      around_.homes[around_.placed == nullptr
                        ? 0
                        : around_.placed->home_of(dataset.catalogue->version(),
                                                  first_in_bundle(sample, around_.bundle_shift))];

  if (home.decoded && use_cached(making_index, at, sample, *home.decoded, Form::decoded)) return;
  if (use_from_before(making_index, at, sample, home.node, Form::decoded)) return;
  const bool kept_decoded =
      home.decoded && home.node == making.node && admit_decoded(making_index, at, *home.decoded);
  const std::uint8_t bundle_shift = around_.bundle_shift;
  if (bundle_shift > 0) {
    // This part reads the bundle already.
    if (const auto first = new_bundles_.find(sample.value >> bundle_shift); first != kNone) {
      if (around_.runs) {
        const SharePart& part = s_.memory[home.encoded->dram];
        const ItemId item = part.spec.item_of(sample);
        admission_.hit(part, admission_.access_to(part, item, sample, part.share->slots(item)));
      }
      firsts_.push_back({at, first});
      return;
    }
  }
  if (bundle_shift > 0 && use_brought(making_index, at, home)) return;
  if (home.encoded && use_cached(making_index, at, sample, *home.encoded, Form::encoded)) return;
  if (around_.under_way && use_under_way(making_index, at)) return;
  if (use_from_before(making_index, at, sample, home.node, Form::encoded)) return;
  if (bundle_shift > 0 && home.encoded && home.node != making.node && bring_bundle(home, sample) &&
      use_brought(making_index, at, home))
    return;
  if (bundle_shift > 0 && home.encoded && home.node == making.node &&
      admission_.admit_bundle(*home.encoded, sample,
                              staging_most_ - std::min(staging_most_, staging_taken_))) {
    staging_taken_ += staged_bundle_bytes(s_, dataset, sample);
    new_bundles_.set(sample.value >> bundle_shift, at);
    groups_.add({ShareId::none(), home.encoded->dram}, first_in_bundle(sample, bundle_shift), at);
    return;
  }
  staging_taken_ += staged_alone(sample);
  groups_.add(
      {ShareId::none(), home.encoded ? admission_.admit_encoded(*home.encoded, sample, kept_decoded)
                                     : ShareId::none()},
      sample, at);
}

// Another making decodes the sample. If that fails, it must be read for this one.
void Items::set_apart(Making& making, SampleId sample) {
  const Bytes bytes = staged_alone(sample);
  staging_taken_ += bytes;
  making.set_apart += bytes;
  stage(s_, making.node, bytes);
}

// Most samples are not there: that is found without a look at anything else.
bool Items::use_cached(MakingIndex making, std::uint32_t at, SampleId sample,
                       const ItemCache& cache, Form form) {
  const auto use = [&](ShareId share) {
    if (share.is_none()) return false;
    const SharePart& part = s_.memory[share];
    return part.share->resident(part.spec.item_of(sample)) && use_resident(making, at, share, form);
  };
  return use(cache.dram) || use(cache.nvme) ||
         std::any_of(cache.gpus.begin(), cache.gpus.end(), use);
}

// Uses a copy that is on another node than the sample's home.
bool Items::use_from_before(MakingIndex making, std::uint32_t at, SampleId sample, NodeIndex home,
                            Form form) {
  return std::any_of(
      around_.from_before.begin(), around_.from_before.end(), [&](const ItemCache* cache) {
        return cache->node != home && (cache->prefix != 0) == (form == Form::decoded) &&
               use_cached(making, at, sample, *cache, form);
      });
}

// The home of the bundle, on another node, is to read it. False: it cannot.
bool Items::bring_bundle(const Around::Home& home, SampleId sample) {
  const Bytes staged = staged_bundle_bytes(s_, *around_.dataset, sample);
  const auto index = static_cast<std::uint32_t>(&home - around_.homes.data());
  const auto found = std::find_if(brought_.begin(), brought_.end(),
                                  [index](const Brought& one) { return one.home == index; });
  const Bytes free = s_.config.count_staging
                         ? s_.memory.staging(dram_of(s_.nodes[home.node].id)).free()
                         : UINT64_MAX;
  const Bytes before = found == brought_.end() ? 0 : found->staged;
  if (!admission_.admit_bundle(*home.encoded, sample, free - std::min(free, before))) return false;
  Brought& bringer =
      found == brought_.end() ? brought_.emplace_back(Brought{index, {}, 0}) : *found;
  bringer.firsts.push_back(first_in_bundle(sample, around_.bundle_shift));
  bringer.staged += staged;
  brought_by_.set(sample.value >> around_.bundle_shift,
                  static_cast<std::uint32_t>(&bringer - brought_.data()));
  return true;
}

// The part has the sample's bundle read at its home, and takes the sample from there.
bool Items::use_brought(MakingIndex making_index, std::uint32_t at, const Around::Home& home) {
  Making& making = s_.makings[making_index];
  const SampleId sample = making.ingredients[at].sample;
  const std::uint32_t index = brought_by_.find(sample.value >> around_.bundle_shift);
  if (index == kNone) return false;
  const ShareId share = home.encoded->dram;
  const SharePart& part = s_.memory[share];
  const ItemId item = part.spec.item_of(sample);
  part.share->pin(item);
  if (s_.config.hold_ingredients) making.pins.push_back({share, item});
  staging_taken_ += staged_alone(sample);
  groups_.add({share, ShareId::none(), Form::encoded, ReadIndex::none(), index}, sample, at);
  return true;
}

// False: the sample is resident in the share, and cannot be used.
bool Items::use_resident(MakingIndex making_index, std::uint32_t at, ShareId index, Form form) {
  Making& making = s_.makings[making_index];
  Ingredient& ingredient = making.ingredients[at];
  const SharePart& part = s_.memory[index];
  const ItemId item = part.spec.item_of(ingredient.sample);
  Share& share = *part.share;
  const Place here{s_.nodes[making.node].id, Tier::dram, 0};
  // What is yet to come is pinned by what brings it.
  const Reads::Provider provider =
      share.pinned(item) ? reads_.provider(index, item) : Reads::Provider{};
  const Access access = admission_.access_to(part, item, ingredient.sample, share.slots(item));
  admission_.hit(part, access);
  admission_.follow(part, access, true);
  // A part waits only for older ones, so no two parts wait for each other.
  const bool younger =
      !provider.making.is_none() && s_.makings[provider.making].part >= making.part;
  if (provider.in_vain || younger) return false;
  if (part.spec.place == here) {
    pin(making, index, item);
    ingredient.form = form;
    if (!provider.read.is_none()) reads_.wait_for(provider.read, making_index);
    if (!provider.making.is_none()) {
      set_apart(making, ingredient.sample);
      s_.makings[provider.making].dependents.push_back(making_index);
      making.makers.push_back(provider.making);
      ++making.waiting;
    }
    return true;
  }
  // It is on another node or device, or a read brings it there and this one follows. What is still
  // being decoded for that place is read from the store to here.
  if (!provider.making.is_none()) return false;
  ingredient.form = form;
  if (around_.under_way && use_under_way(making_index, at)) return true;
  // A decoded copy may be much larger than the stored sample.
  const Bytes bytes = form == Form::decoded ? staged_bytes(s_, part.spec.slot_bytes)
                                            : staged_alone(ingredient.sample);
  if (form == Form::decoded && saturating_sum(staging_taken_, bytes) > staging_most_) {
    ingredient.form = Form::encoded;
    return false;
  }
  staging_taken_ += bytes;
  // The read pins the item from its command on; so does the making, if it holds its ingredients.
  share.pin(item);
  if (s_.config.hold_ingredients) making.pins.push_back({index, item});
  groups_.add({index, ShareId::none(), form, provider.read}, ingredient.sample, at);
  return true;
}

void Items::use_whole(Making& making, ShareId share) {
  Share& kept = *s_.memory[share].share;
  kept.count_hits(s_.blocks[making.block].samples);
  for (const std::unique_ptr<PolicyShadow>& one : s_.memory[share].candidates)
    one->count_whole(s_.blocks[making.block].samples);
  if (!s_.config.hold_ingredients) return;
  kept.pin_all();
  making.pinned_all = share;
}

void Items::pin(Making& making, ShareId share, ItemId item) {
  s_.memory[share].share->pin(item);
  making.pins.push_back({share, item});
}

// A read to this node has the sample already, staged or under way.
// REQUIRES: around_.under_way
bool Items::use_under_way(MakingIndex making_index, std::uint32_t at) {
  Making& making = s_.makings[making_index];
  Ingredient& ingredient = making.ingredients[at];
  const ShownIndex shown =
      reads_.shown().find(making.node, around_.dataset->id, ingredient.sample, ingredient.form);
  if (shown.is_none()) return false;
  const ReadIndex index = reads_.shown()[shown].read;
  const OpenRead& read = s_.reads[index];
  // What is read for a listed order is in memory of that order.
  if (read.staged && read.listed) return false;
  if (read.staged) {
    reads_.hold(shown, making_index);
    ingredient.staging = read.request.id;
  } else {
    reads_.wait_for(index, making_index);
    pin(making, read.keep, item_of(ingredient.sample, read.bundle_shift));
  }
  return true;
}

// What leaves memory is not moved to a GPU, so none leaves for what has room there.
bool Items::admit_decoded(MakingIndex making, std::uint32_t at, const ItemCache& cache) {
  if (cache.gpus.empty()) return admit_decoded(making, at, cache.dram);
  if (item_shares_.has(cache, s_.makings[making].ingredients[at].sample)) return false;
  const ShareId gpu = item_shares_.gpu_for(cache, s_.blocks[s_.makings[making].block].serial);
  const bool gpu_first = item_shares_.room_in(gpu) > 0 &&
                         (cache.dram.is_none() || item_shares_.room_in(cache.dram) == 0);
  const std::array<ShareId, 2> both{gpu_first ? gpu : cache.dram, gpu_first ? cache.dram : gpu};
  return std::any_of(both.begin(), both.end(),
                     [&](ShareId share) { return admit_decoded(making, at, share); });
}

// A command names one share for all that it keeps decoded.
bool Items::admit_decoded(MakingIndex making_index, std::uint32_t at, ShareId index) {
  Making& making = s_.makings[making_index];
  Ingredient& ingredient = making.ingredients[at];
  if (index.is_none()) return false;
  if (!making.decoding.empty() && making.decoding.front().share != index) return false;
  const SharePart& part = s_.memory[index];
  const ItemId item = part.spec.item_of(ingredient.sample);
  if (!admission_.admit(index, admission_.access_to(part, item, ingredient.sample, 1)))
    return false;
  part.share->pin(item);
  making.decoding.push_back({index, item});
  reads_.begin_decoding(index, item, making_index);
  ingredient.keep_decoded = true;
  return true;
}

void Items::send_groups(MakingIndex making_index) {
  Making& making = s_.makings[making_index];
  std::vector<ReadIndex> brought;
  for (const Brought& one : brought_) {
    const Around::Home& home = around_.homes[one.home];
    Reads::Spec spec =
        read_spec(s_, {ShareId::none(), home.encoded->dram}, around_.dataset->id, home.node);
    spec.lineage = s_.lineage(s_.blocks[making.block]);
    brought.push_back(reads_.open(spec, one.firsts));
  }
  for (const ReadGroups::Group& group : groups_.all()) {
    Reads::Spec spec = read_spec(s_, group.source, around_.dataset->id, making.node);
    if (group.source.brought < brought.size()) spec.after = brought[group.source.brought];
    if (!making.worker.is_none()) spec.held = s_.workers[making.worker].id;
    spec.source_pinned = !s_.config.hold_ingredients;
    spec.lineage = s_.lineage(s_.blocks[making.block]);
    const ReadIndex read = reads_.open(spec, group.samples);
    reads_.own(read, making_index);
    const bool staged = s_.reads[read].staged;
    for (const std::uint32_t at : group.ingredients) {
      Ingredient& ingredient = making.ingredients[at];
      if (staged) {
        ingredient.staging = s_.reads[read].request.id;
      } else {
        // The read holds its items until it is done; they must stay until they have been used.
        pin(making, spec.keep, s_.memory[spec.keep].spec.item_of(ingredient.sample));
      }
    }
  }
  groups_.clear();
  brought_.clear();
  if (brought_by_.size() > 0) brought_by_ = {};
}

// The part is over. What it decoded for the cache stays if it went well, and goes if not.
void Items::leave(Making& making, MakingIndex index, bool well) {
  release_ingredients(making);
  for (const ItemPin& pin : making.decoding) {
    if (!well) continue;
    reads_.end_decoding(pin.share, pin.item);
    s_.memory[pin.share].share->unpin(pin.item);
  }
  for (const MakingIndex maker : making.makers) std::erase(s_.makings[maker].dependents, index);
  making.makers.clear();
  std::vector<MakingIndex> dependents;
  dependents.swap(making.dependents);
  for (const MakingIndex dependent : dependents) std::erase(s_.makings[dependent].makers, index);
  if (!well) {
    for (const MakingIndex dependent : dependents) retry_without(s_.makings[dependent], making);
    for (const ItemPin& pin : making.decoding) {
      const SharePart& part = s_.memory[pin.share];
      reads_.end_decoding(pin.share, pin.item);
      part.share->remove(pin.item, Removal::invalidated);
    }
  }
  making.decoding.clear();
  unstage(s_, making.node, std::exchange(making.set_apart, 0));
  reads_.leave(making, index);
  for (const MakingIndex dependent : dependents) {
    look_up_again(dependent);
    if (--s_.makings[dependent].waiting == 0) reads_.listener().making_ready(dependent);
  }
}

// What `failed` was to decode will not come: removes the pins on it; look_up_again finds another
// way.
void Items::retry_without(Making& making, const Making& failed) {
  std::erase_if(making.pins, [&](const ItemPin& pin) {
    return std::any_of(failed.decoding.begin(), failed.decoding.end(), [&](const ItemPin& item) {
      return item.share == pin.share && item.item == pin.item;
    });
  });
}

void Items::give_up_decoding(MakingIndex index, SampleId sample) {
  Making& making = s_.makings[index];
  const auto found = std::find_if(
      making.decoding.begin(), making.decoding.end(),
      [&](const ItemPin& pin) { return pin.item == s_.memory[pin.share].spec.item_of(sample); });
  if (found == making.decoding.end()) return;
  const ItemPin pin = *found;
  making.decoding.erase(found);
  const SharePart& part = s_.memory[pin.share];
  reads_.end_decoding(pin.share, pin.item);
  for (const MakingIndex dependent : making.dependents) {
    std::erase_if(s_.makings[dependent].pins, [&](const ItemPin& other) {
      return other.share == pin.share && other.item == pin.item;
    });
  }
  part.share->remove(pin.item, Removal::invalidated);
}

void Items::look_up_again(MakingIndex making_index) {
  Making& making = s_.makings[making_index];
  if (s_.nodes[making.node].lost) return;  // it ends with its node, in a moment
  look_around(making_index);
  // A large block has thousands of both.
  std::vector<ItemId> held;
  for (const ItemPin& pin : making.pins) {
    if (s_.memory[pin.share].spec.use == ShareUse::decoded) held.push_back(pin.item);
  }
  std::sort(held.begin(), held.end());
  FlatMap again;  // where they are, by item
  for (std::uint32_t at = 0; at < making.ingredients.size(); ++at) {
    const Ingredient& ingredient = making.ingredients[at];
    if (ingredient.form != Form::decoded || !ingredient.staging.is_none()) continue;
    const ItemId item = item_of(ingredient.sample, 0);  // decoded ones are alone
    if (std::binary_search(held.begin(), held.end(), item)) continue;
    if (const std::uint32_t first = again.find(item.value); first != kNone) {
      firsts_.push_back({at, first});
      continue;
    }
    again.set(item.value, at);
    // Now it takes the memory that was set apart for it.
    staging_most_ = staged_bytes(s_, *around_.dataset, ingredient.sample);
    staging_taken_ = 0;
    const Bytes apart = std::min(making.set_apart, staging_most_);
    making.set_apart -= apart;
    unstage(s_, making.node, apart);
    look_up_one(making_index, at);
  }
  drop_evicted(s_);
  send_groups(making_index);
  share_firsts(making);
  if (!s_.config.hold_ingredients) release_ingredients(making);
}

// A sample that is wanted more than once is read once.
void Items::share_firsts(Making& making) {
  for (const auto& [at, first] : firsts_) {
    making.ingredients[at].form = making.ingredients[first].form;
    making.ingredients[at].staging = making.ingredients[first].staging;
  }
}

}  // namespace batchflow::engine
