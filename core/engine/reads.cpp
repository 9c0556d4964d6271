#include "core/engine/reads.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/books.h"
#include "core/engine/item_caches.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

namespace {

// Waiters are makings and listed batches; the highest bit tells them apart.
constexpr std::uint32_t kListed = 1u << 31;
// An item is brought by a read or, with the highest bit, by a making.
constexpr std::uint32_t kMaking = 1u << 31;

std::uint64_t coming_key(ShareId share, ItemId item) {
  return std::uint64_t{share.value} << 32 | item.value;
}

}  // namespace

ReadIndex Reads::open(const Spec& spec, std::span<const SampleId> samples) {
  const ReadIndex index = reads_.make();
  OpenRead& read = reads_[index];
  read.request = s_.requests.open(RequestKind::read, index.value);
  read.dataset = spec.dataset;
  read.from = spec.from;
  read.to = spec.to;
  read.form = spec.form;
  read.keep = spec.keep;
  read.source = spec.source;
  read.node = spec.node;
  read.held = spec.held;
  read.lineage = spec.lineage;
  read.listed = spec.listed;
  if (!spec.keep.is_none()) read.bundle_shift = s_.memory[spec.keep].spec.bundle_shift;
  // Other streams care for a read into no share only if they use the same dataset. A bundle is
  // found in its share.
  read.shared =
      !spec.alone && read.bundle_shift == 0 &&
      (!spec.keep.is_none() || s_.datasets[s_.dataset_of.at(spec.dataset)].streams.size() > 1);
  read.samples.assign(samples.begin(), samples.end());
  if (read.shared) shown_.show(read, index);
  if (!spec.keep.is_none()) {
    for (const SampleId sample : samples)
      coming_.set(coming_key(spec.keep, item_of(sample, read.bundle_shift)), index.value);
    coming_to_.set(spec.keep.value,
                   coming_to(spec.keep) + static_cast<std::uint32_t>(samples.size()));
  }
  if (!spec.source.is_none() && !spec.source_pinned) {
    const SharePart& source = s_.memory[spec.source];
    for (const SampleId sample : samples) source.share->pin(source.spec.item_of(sample));
  }
  read.staged = spec.keep.is_none() || s_.memory[spec.keep].spec.place != spec.to;
  if (read.from.tier == Tier::store) ++s_.nodes[read.node].store_reads;
  count(read, spec);
  if (spec.after.is_none() || reads_[spec.after].done) {
    send_read(read);
  } else {
    reads_[spec.after].followers.push_back({index, read.request.id});
  }
  return index;
}

void Reads::begin_followers(ReadIndex index) {
  std::vector<OpenRead::Follower> followers;
  followers.swap(reads_[index].followers);
  for (const OpenRead::Follower& one : followers) {
    if (!reads_.live(one.read) || reads_[one.read].request.id != one.id) continue;
    if (!reads_[one.read].done) send_read(reads_[one.read]);
  }
}

void Reads::end_followers(ReadIndex index, std::optional<Refusal> why) {
  std::vector<OpenRead::Follower> followers;
  followers.swap(reads_[index].followers);
  for (const OpenRead::Follower& one : followers) {
    if (!reads_.live(one.read) || reads_[one.read].request.id != one.id) continue;
    if (!reads_[one.read].done) end_without_result(one.read, why);
  }
}

// ---------------------------------------------------------------------- the bytes of a read ----

void Reads::count(OpenRead& read, const Spec& spec) {
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(spec.dataset)];
  const bool uniform = dataset.catalogue->is_uniform() && read.bundle_shift == 0;
  read.each = spec.each > 0 ? spec.each : uniform ? largest_staged(s_, dataset) : 0;
  if (spec.listed || !s_.config.count_staging) return;
  if (read.samples.empty()) {
    read.counted = spec.all;
  } else if (read.each > 0) {
    read.counted = read.each * read.samples.size();
  } else {
    for (const SampleId sample : read.samples) read.counted += bytes_of(read, sample);
  }
  stage(s_, read.node, read.counted);
}

Bytes Reads::bytes_of(const OpenRead& read, SampleId sample) const {
  if (read.each > 0) return read.each;
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(read.dataset)];
  return read.bundle_shift > 0 ? staged_bundle_bytes(s_, dataset, sample)
                               : staged_bytes(s_, dataset, sample);
}

void Reads::uncount(OpenRead& read, Bytes bytes) {
  if (read.listed || !s_.config.count_staging) return;
  bytes = std::min(bytes, read.counted);  // nothing any more of a lost node
  read.counted -= bytes;
  unstage(s_, read.node, bytes);
}

// The read's job is about to give up the memory that was set apart for it, and the read is still
// under way.
void Reads::set_apart(OpenRead& read) {
  if (!s_.config.count_staging || read.counted > 0) return;
  for (const SampleId sample : read.samples) read.counted += bytes_of(read, sample);
  s_.memory.promise_listed(dram_of(s_.nodes[read.node].id), read.counted);
}

void Reads::give_back_apart(OpenRead& read) {
  if (!read.listed || read.counted == 0) return;
  s_.memory.give_back_listed(dram_of(s_.nodes[read.node].id), std::exchange(read.counted, 0));
}

// Whether anything that holds the read is on the node to which it goes.
// REQUIRES: the read is under way
bool Reads::has_holder_here(const OpenRead& read) const {
  return std::any_of(read.waiters.begin(), read.waiters.end(), [&](std::uint32_t waiter) {
    return waiter & kListed ? batches_[BatchIndex(waiter & ~kListed)].node == read.to.node
                            : s_.makings[MakingIndex(waiter)].node == read.node;
  });
}

// What an attempt to read these from another node has to bring.
Bytes Reads::carried_bytes(const OpenRead& read, std::span<const SampleId> samples) const {
  if (read.form == Form::decoded)
    return saturating_product(samples.size(), s_.memory[read.source].spec.slot_bytes);
  const Catalogue& catalogue = *s_.datasets[s_.dataset_of.at(read.dataset)].catalogue;
  if (catalogue.is_uniform()) return saturating_product(samples.size(), catalogue.largest_bytes());
  Bytes bytes = 0;
  for (const SampleId sample : samples) bytes = saturating_sum(bytes, catalogue.bytes(sample));
  return bytes;
}

void Reads::send_read(OpenRead& read) {
  const Place keep_at = read.keep.is_none() ? Place{} : s_.memory[read.keep].spec.place;
  const std::vector<SampleId>& samples = read.missing.empty() ? read.samples : read.missing;
  Read command{read.request, read.dataset, read.from, read.to,      read.form,
               read.keep,    keep_at,      read.held, read.lineage, s_.arena.copy(samples)};
  command.bundle_shift = read.bundle_shift;
  if (!read.source.is_none())
    set_out(s_, read.on_way, read.from, read.to, carried_bytes(read, samples));
  read.sent = true;
  s_.emit(command);
  ++s_.counters.reads;
  s_.counters.samples_read += samples.empty() ? read.lineage.samples : samples.size();
}

Reads::Provider Reads::provider(ShareId share, ItemId item) const {
  const std::uint32_t found = coming_.find(coming_key(share, item));
  if (found == kNone) return {};
  if (found & kMaking) return {ReadIndex::none(), MakingIndex(found & ~kMaking), false};
  return {ReadIndex(found), MakingIndex::none(), reads_[ReadIndex(found)].done};
}

void Reads::begin_decoding(ShareId share, ItemId item, MakingIndex making) {
  coming_.set(coming_key(share, item), making.value | kMaking);
}

void Reads::end_decoding(ShareId share, ItemId item) {
  coming_.erase(coming_key(share, item));
}

void Reads::forget_items(const OpenRead& read) {
  if (read.keep.is_none()) return;
  for (const SampleId sample : read.samples)
    coming_.erase(coming_key(read.keep, item_of(sample, read.bundle_shift)));
  const std::uint32_t left = coming_to(read.keep) - static_cast<std::uint32_t>(read.samples.size());
  if (left > 0) {
    coming_to_.set(read.keep.value, left);
  } else {
    coming_to_.erase(read.keep.value);
  }
}

// ------------------------------------------------------------------------ holders of a read ----

// True: the read is new to the holder, which waits for it unless it is done.
bool Reads::add(ReadHolds& held, ReadIndex index, std::uint32_t waiter, bool all) {
  const auto known = std::find_if(held.reads.begin(), held.reads.end(),
                                  [&](const ReadHold& one) { return one.read == index; });
  if (known != held.reads.end()) return false;
  held.reads.push_back({index, all});
  OpenRead& read = reads_[index];
  ++read.holders;
  if (all) ++read.owners;
  if (read.done) return false;
  read.waiters.push_back(waiter);
  return true;
}

void Reads::wait_for(ReadIndex read, MakingIndex index) {
  Making& making = s_.makings[index];
  if (add(making.held, read, index.value, false)) ++making.waiting;
}

void Reads::wait_for_listed(ReadIndex read, BatchIndex index) {
  Batch& batch = batches_[index];
  if (add(batch.reads, read, index.value | kListed, false)) ++batch.waiting_reads;
}

void Reads::own(ReadIndex read, MakingIndex index) {
  Making& making = s_.makings[index];
  if (add(making.held, read, index.value, true)) ++making.waiting;
}

void Reads::own_listed(ReadIndex read, BatchIndex index) {
  Batch& batch = batches_[index];
  if (add(batch.reads, read, index.value | kListed, true)) ++batch.waiting_reads;
}

// A holder of the whole read, and one that wants the sample twice, hold it already.
void Reads::hold(ReadHolds& held, ShownIndex shown) {
  ++shown_[shown].holders;
  held.samples.push_back(shown);
}

void Reads::hold(ShownIndex shown, MakingIndex making) {
  wait_for(shown_[shown].read, making);
  hold(s_.makings[making].held, shown);
}

void Reads::hold_listed(ShownIndex shown, BatchIndex batch) {
  wait_for_listed(shown_[shown].read, batch);
  hold(batches_[batch].reads, shown);
}

void Reads::hold_likewise(const Making& first, MakingIndex index) {
  Making& second = s_.makings[index];
  for (const ReadHold& one : first.held.reads) {
    BF_CHECK(!add(second.held, one.read, index.value, one.all));
  }
  for (const ShownIndex shown : first.held.samples) hold(second.held, shown);
}

void Reads::leave(Making& making, MakingIndex index) {
  leave(making.held, index.value);
}

void Reads::leave_listed(Batch& batch, BatchIndex index) {
  leave(batch.reads, index.value | kListed);
}

void Reads::leave(ReadHolds& held, std::uint32_t waiter) {
  for (const ReadHold& one : held.reads) {
    OpenRead& read = reads_[one.read];
    std::erase(read.waiters, waiter);
    BF_CHECK(read.holders > 0);
    --read.holders;
    if (one.all) --read.owners;
  }
  for (const ShownIndex shown : held.samples) --shown_[shown].holders;
  // The samples of reads that others own; those of one read go into one command.
  unheld_.clear();
  for (const ShownIndex shown : held.samples) {
    const ShownSample& sample = shown_[shown];
    const OpenRead& read = reads_[sample.read];
    const bool goes_on = read.holders > 0 && read.done && !read.failed;
    if (goes_on && read.owners == 0 && sample.holders == 0) unheld_.push_back(shown);
  }
  held.samples.clear();
  std::sort(unheld_.begin(), unheld_.end(), [&](ShownIndex a, ShownIndex b) {
    const ShownSample& one = shown_[a];
    const ShownSample& other = shown_[b];
    return one.read != other.read ? one.read < other.read : one.index < other.index;
  });
  unheld_.erase(std::unique(unheld_.begin(), unheld_.end()), unheld_.end());
  for (std::size_t from = 0; from < unheld_.size();) {
    const ReadIndex read = shown_[unheld_[from]].read;
    std::size_t to = from;
    while (to < unheld_.size() && shown_[unheld_[to]].read == read) ++to;
    release_samples(read, std::span(unheld_).subspan(from, to - from));
    from = to;
  }
  for (const ReadHold& one : held.reads) {
    const OpenRead& read = reads_[one.read];
    if (one.all && read.owners == 0 && read.holders > 0 && read.done && !read.failed) {
      release_unheld(one.read);
    }
    if (read.listed && !read.done && !has_holder_here(read)) set_apart(reads_[one.read]);
    close_if_unused(one.read);
  }
  held.reads.clear();
}

// The holder gives up a read that has come to nothing, and keeps all others.
void Reads::let_go(ReadHolds& held, ReadIndex index) {
  OpenRead& read = reads_[index];
  std::erase_if(held.samples, [&](ShownIndex shown) {
    if (shown_[shown].read != index) return false;
    --shown_[shown].holders;
    return true;
  });
  std::erase_if(held.reads, [&](const ReadHold& one) {
    if (one.read != index) return false;
    --read.holders;
    if (one.all) --read.owners;
    return true;
  });
}

// Releases some samples of the read, while others are held.
void Reads::release_samples(ReadIndex index, std::span<const ShownIndex> shown) {
  OpenRead& read = reads_[index];
  gone_.clear();
  Bytes bytes = 0;
  for (const ShownIndex one : shown) {
    const SampleId sample = read.samples[shown_[one].index];
    gone_.push_back(sample);
    bytes += bytes_of(read, sample);
  }
  shown_.release(read, shown);
  if (!s_.nodes[read.node].lost) {
    s_.emit(Release{s_.requests.latest(read.request.id), s_.arena.copy(gone_)});
  }
  uncount(read, bytes);
}

// The makings that commanded the read no longer need it, but others hold some of its samples.
void Reads::release_unheld(ReadIndex index) {
  const OpenRead& read = reads_[index];
  if (!read.staged) return;
  unheld_.clear();
  for (const ShownIndex shown : read.shown) {
    if (!shown.is_none() && shown_[shown].holders == 0) unheld_.push_back(shown);
  }
  if (!unheld_.empty()) release_samples(index, unheld_);
}

// A read into a share is over when it is done; a read into staging, when nothing holds any of it.
// What a read that was given up half-way has brought is no longer needed.
void Reads::close_if_unused(ReadIndex index) {
  OpenRead& read = reads_[index];
  if (!read.done || read.holders > 0) return;
  if (read.sent && (read.staged || read.in_part)) {
    s_.emit(Release{s_.requests.latest(read.request.id)});
  }
  if (read.staged || read.in_part) shown_.hide(read);
  give_back_apart(read);
  uncount(read, read.counted);
  shown_.release(read);
  s_.requests.close(read.request.id);
  reads_.release(index);
}

// ------------------------------------------------------------------------- results of reads ----

void Reads::done(const ReadDone& event) {
  const Requests::OpenRequest* record = s_.requests.find(event.request, RequestKind::read);
  if (!record) return s_.stale();
  const ReadIndex index(record->subject);
  OpenRead& read = reads_[index];
  if (read.done) return s_.stale();
  leave_link(s_, read.on_way, event.outcome == Outcome::done);
  if (event.outcome != Outcome::done) return fail(index, event.failed);
  end(read);
  read.in_part = false;
  if (read.from.tier == Tier::store) {
    const Catalogue& catalogue = *s_.datasets[s_.dataset_of.at(read.dataset)].catalogue;
    const std::size_t samples = read.samples.empty() ? read.lineage.samples : read.samples.size();
    s_.nodes[read.node].store_bytes.add(s_.now, static_cast<double>(samples << read.bundle_shift) *
                                                    static_cast<double>(catalogue.mean_bytes()));
  }
  if (!read.staged) {
    shown_.hide(read);
    uncount(read, read.counted);
  }
  forget_items(read);
  unpin(read);
  begin_followers(index);
  std::swap(notified_, read.waiters);
  for (const std::uint32_t waiter : notified_) {
    if (waiter & kListed) {
      Batch& batch = batches_[BatchIndex(waiter & ~kListed)];
      if (--batch.waiting_reads == 0) listener_.listed_ready(BatchIndex(waiter & ~kListed));
    } else {
      const MakingIndex waits(waiter);
      Making& making = s_.makings[waits];
      BF_CHECK(making.waiting > 0);
      if (--making.waiting == 0) listener_.making_ready(waits);
    }
  }
  notified_.clear();
  if (!reads_.live(index)) return;
  if (read.owners == 0 && read.holders > 0) release_unheld(index);
  close_if_unused(index);
}

// Whether the last attempt asked for all of these samples. A read without a list is for a block,
// and makings of that block wait for it.
bool Reads::are_of(const OpenRead& read, std::span<const SampleId> failed) {
  asked_ = read.missing.empty() ? read.samples : read.missing;
  if (asked_.empty()) {
    s_.expand(s_.blocks[s_.makings[MakingIndex(read.waiters.front())].block], draws_);
    for (const order::Draw& draw : draws_) asked_.push_back(draw.sample);
  }
  std::sort(asked_.begin(), asked_.end());
  return std::all_of(failed.begin(), failed.end(), [&](SampleId sample) {
    return std::binary_search(asked_.begin(), asked_.end(), sample);
  });
}

// An I/O error is never taken for corruption. What was not read is commanded again, later each
// time. Makings that wait are told only when all attempts are used up. Without any waiter the read
// ends here.
void Reads::fail(ReadIndex index, std::span<const SampleId> failed) {
  OpenRead& read = reads_[index];
  ++s_.counters.failed_reads;
  read.request = s_.requests.again(read.request.id);
  read.in_part |= !failed.empty();
  if (read.waiters.empty() && read.followers.empty())
    return end_without_result(index, std::nullopt);
  if (!are_of(read, failed)) {
    s_.protocol_error();
  } else if (!failed.empty() && failed.size() < asked_.size()) {
    read.missing.assign(failed.begin(), failed.end());
    std::sort(read.missing.begin(), read.missing.end());
    read.missing.erase(std::unique(read.missing.begin(), read.missing.end()), read.missing.end());
  }
  if (++read.attempts < s_.config.read_attempts) {
    const std::int64_t times = std::int64_t{1} << std::min(read.attempts - 1, 10u);
    const Duration wait = std::min(s_.config.retry_wait, Duration::max() / times) * times;
    s_.alarms.set(after(s_.now, wait), {AlarmKind::retry_read, index.value, read.request.id.value});
    return;
  }
  if (!read.source.is_none()) return give_up_copies(index);
  end_without_result(index, Refusal::storage_failed);
}

// A cached copy that cannot be read counts as missing; it is never the only one. Makings that wait
// for it begin anew, and find the samples elsewhere: in the end, in the store.
void Reads::give_up_copies(ReadIndex index) {
  const ShareId source = reads_[index].source;
  const std::vector<SampleId> samples = reads_[index].samples;
  end_without_result(index, std::nullopt);
  Share& share = *s_.memory[source].share;
  for (const SampleId sample : samples) {
    const ItemId item = s_.memory[source].spec.item_of(sample);
    // A making that has it pinned will notice by itself.
    if (!share.resident(item) || share.pinned(item)) continue;
    share.remove(item, Removal::invalidated);
    s_.evicted.push_back({source, item});
  }
  drop_evicted(s_);
}

// Nothing more comes of the read.
void Reads::end(OpenRead& read) {
  read.done = true;
  leave_link(s_, read.on_way, false);
  if (read.from.tier != Tier::store) return;
  BF_CHECK(s_.nodes[read.node].store_reads > 0);
  if (--s_.nodes[read.node].store_reads == 0) s_.store_is_idle(read.node);
}

// Nothing finds the read any more. Its items leave their share once the makings that wait have been
// told.
void Reads::end_without_result(ReadIndex index, std::optional<Refusal> why) {
  OpenRead& read = reads_[index];
  shown_.hide(read);
  end(read);
  read.failed = true;
  const ShareId keep = read.keep;
  const std::vector<SampleId> samples = read.samples;
  std::vector<std::uint32_t> waiters;
  waiters.swap(read.waiters);
  ++read.holders;  // it outlives the calls below
  for (const std::uint32_t waiter : waiters) {
    if (waiter & kListed) {
      const BatchIndex batch(waiter & ~kListed);
      listener_.listed_failed(batch, index, why);
      if (!why) let_go(batches_[batch].reads, index);
    } else {
      listener_.making_failed(MakingIndex(waiter), why);
    }
  }
  end_followers(index, why);
  forget_items(reads_[index]);
  unpin(reads_[index]);
  if (!keep.is_none()) {
    for (const SampleId sample : samples) {
      s_.memory[keep].share->remove(s_.memory[keep].spec.item_of(sample), Removal::invalidated);
    }
  }
  --reads_[index].holders;
  close_if_unused(index);
}

void Reads::unpin(OpenRead& read) {
  for (const ShareId share : {read.keep, read.source}) {
    if (share.is_none()) continue;
    const SharePart& part = s_.memory[share];
    for (const SampleId sample : read.samples) part.share->unpin(part.spec.item_of(sample));
  }
}

void Reads::retry(ReadIndex index, std::uint64_t serial) {
  if (!reads_.live(index) || reads_[index].request.id.value != serial) return;
  if (!reads_[index].done) send_read(reads_[index]);
}

void Reads::lose_node(NodeIndex node, NodeId id) {
  reads_.each([&](ReadIndex index) {
    OpenRead& read = reads_[index];
    if (read.done) {
      uncount_lost(index, node);
      return;
    }
    if (!read.keep.is_none() && s_.memory[read.keep].spec.place.node == id) {
      forget_items(read);
      read.keep = ShareId::none();  // with the share
      if (read.node != node && read.from.node != id) return;
    }
    if (read.node != node && read.from.node != id) return;
    if (read.sent) {
      s_.emit(Cancel{s_.requests.latest(read.request.id)});
      read.request = s_.requests.again(read.request.id);
    }
    end_without_result(index, std::nullopt);
    uncount_lost(index, node);
  });
}

// Makings and batches of other nodes may hold what they waited for here, and its memory is gone.
void Reads::uncount_lost(ReadIndex index, NodeIndex node) {
  if (!reads_.live(index) || reads_[index].node != node) return;
  OpenRead& read = reads_[index];
  if (read.listed) {
    give_back_apart(read);
  } else {
    uncount(read, read.counted);
  }
}

}  // namespace batchflow::engine
