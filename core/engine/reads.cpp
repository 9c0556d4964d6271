#include "core/engine/reads.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/engine/books.h"
#include "core/saturating.h"

namespace batchflow {

namespace {

// Waiters are makings and listed batches; the highest bit tells them apart.
constexpr std::uint32_t kListed = 1u << 31;
// Who brings an item is a read or, with the highest bit, a making.
constexpr std::uint32_t kMaking = 1u << 31;

std::uint64_t coming_key(std::uint32_t share, ItemId item) {
  return std::uint64_t{share} << 32 | item.value;
}

ItemId item_of(SampleId sample) {
  return ItemId(static_cast<std::uint32_t>(sample.value));
}

}  // namespace

std::uint64_t Reads::sample_key(std::uint32_t shared, SampleId sample, Form form) {
  static_assert(kSamplesMost < std::uint64_t{1} << 40);
  BF_CHECK(shared < 1u << 23 && sample.value < std::uint64_t{1} << 40);
  return std::uint64_t{form == Form::decoded} << 63 | std::uint64_t{shared} << 40 | sample.value;
}

std::uint32_t Reads::open(const Spec& spec, std::span<const SampleId> samples) {
  const std::uint32_t index = s_.reads.make();
  ReadJob& read = s_.reads[index];
  read.request = s_.requests.open(RequestKind::read, index);
  read.dataset = spec.dataset;
  read.from = spec.from;
  read.to = spec.to;
  read.form = spec.form;
  read.keep = spec.keep;
  read.source = spec.source;
  read.node = spec.node;
  read.held = spec.held;
  read.lineage = spec.lineage;
  // What goes into no share concerns other streams alone.
  read.shared =
      !spec.alone &&
      (spec.keep != kNone || s_.datasets[s_.dataset_of.at(spec.dataset.value)].streams.size() > 1);
  read.samples.assign(samples.begin(), samples.end());
  if (read.shared) show_samples(index);
  if (spec.keep != kNone) {
    for (const SampleId sample : samples)
      coming_.set(coming_key(spec.keep, item_of(sample)), index);
  }
  if (spec.source != kNone && !spec.source_pinned) {
    for (const SampleId sample : samples) s_.memory[spec.source].share->pin(item_of(sample));
  }
  read.staged = spec.keep == kNone || s_.memory[spec.keep].spec.place != spec.to;
  order(read);
  return index;
}

void Reads::order(ReadJob& read) {
  const SharePart* kept = read.keep == kNone ? nullptr : &s_.memory[read.keep];
  const std::vector<SampleId>& samples = read.missing.empty() ? read.samples : read.missing;
  s_.order(Read{read.request, read.dataset, read.from, read.to, read.form,
                kept ? kept->id : ShareId::none(), kept ? kept->spec.place : Place{}, read.held,
                read.lineage, s_.arena.copy(samples)});
  ++s_.counters.reads;
  s_.counters.samples_read += samples.empty() ? read.lineage.samples : samples.size();
}

std::uint32_t Reads::find(std::uint32_t node, DatasetId dataset, SampleId sample, Form form) const {
  const std::uint32_t shared = shared_at_.find(shared_key(node, dataset));
  return shared == kNone ? kNone : in_flight_.find(sample_key(shared, sample, form));
}

Reads::Bringer Reads::bringer(std::uint32_t share, ItemId item) const {
  const std::uint32_t found = coming_.find(coming_key(share, item));
  if (found == kNone) return {};
  if (found & kMaking) return {kNone, found & ~kMaking, false};
  return {found, kNone, s_.reads[found].done};
}

void Reads::begin_decoding(std::uint32_t share, ItemId item, std::uint32_t making) {
  coming_.set(coming_key(share, item), making | kMaking);
}

void Reads::end_decoding(std::uint32_t share, ItemId item) {
  coming_.erase(coming_key(share, item));
}

void Reads::forget_items(const ReadJob& read) {
  if (read.keep == kNone) return;
  for (const SampleId sample : read.samples) coming_.erase(coming_key(read.keep, item_of(sample)));
}

void Reads::use(std::uint32_t index, std::uint32_t making_index) {
  ReadJob& read = s_.reads[index];
  Making& making = s_.makings[making_index];
  if (std::find(making.reads.begin(), making.reads.end(), index) != making.reads.end()) return;
  making.reads.push_back(index);
  ++read.holders;
  if (read.done) return;
  read.waiters.push_back(making_index);
  ++making.waiting;
}

void Reads::use_listed(std::uint32_t index, std::uint32_t batch_index) {
  ReadJob& read = s_.reads[index];
  Batch& batch = s_.batches[batch_index];
  if (std::find(batch.reads.begin(), batch.reads.end(), index) != batch.reads.end()) return;
  batch.reads.push_back(index);
  ++read.holders;
  if (read.done) return;
  read.waiters.push_back(batch_index | kListed);
  ++batch.waiting_reads;
}

void Reads::leave(Making& making, std::uint32_t index) {
  for (const std::uint32_t read_index : making.reads) {
    ReadJob& read = s_.reads[read_index];
    std::erase(read.waiters, index);
    BF_CHECK(read.holders > 0);
    --read.holders;
    release_if_unused(read_index);
  }
  making.reads.clear();
}

void Reads::leave_listed(Batch& batch, std::uint32_t index) {
  for (const std::uint32_t read_index : batch.reads) {
    ReadJob& read = s_.reads[read_index];
    std::erase(read.waiters, index | kListed);
    --read.holders;
    release_if_unused(read_index);
  }
  batch.reads.clear();
}

void Reads::show_samples(std::uint32_t index) {
  const ReadJob& read = s_.reads[index];
  const std::uint64_t here = shared_key(read.node, read.dataset);
  std::uint32_t shared = shared_at_.find(here);
  if (shared == kNone) shared_at_.set(here, shared = shared_.make());
  ++shared_[shared].reads;
  for (const SampleId sample : read.samples)
    in_flight_.set(sample_key(shared, sample, read.form), index);
}

void Reads::forget_samples(std::uint32_t index) {
  ReadJob& read = s_.reads[index];
  if (!std::exchange(read.shared, false)) return;
  const std::uint64_t here = shared_key(read.node, read.dataset);
  const std::uint32_t shared = shared_at_.at(here);
  // Another read of the same sample may have taken its place.
  for (const SampleId sample : read.samples)
    in_flight_.erase(sample_key(shared, sample, read.form), index);
  if (--shared_[shared].reads > 0) return;
  shared_at_.erase(here);
  shared_.release(shared);
}

// A read into a share is over when it is done; one into staging when nobody holds it. What is there
// of one that was given up half done is needed no more.
void Reads::release_if_unused(std::uint32_t index) {
  ReadJob& read = s_.reads[index];
  if (!read.done || read.holders > 0) return;
  if (read.staged || read.in_part) {
    s_.order(Release{s_.requests.latest(read.request.id)});
    forget_samples(index);
  }
  s_.requests.close(read.request.id);
  s_.reads.release(index);
}

void Reads::done(const ReadDone& event) {
  const Requests::Record* record = s_.requests.find(event.request, RequestKind::read);
  if (!record) return s_.stale();
  const std::uint32_t index = record->subject;
  ReadJob& read = s_.reads[index];
  if (read.done) return s_.stale();
  if (event.outcome != Outcome::done) return fail(index, event.failed);
  read.done = true;
  read.in_part = false;
  if (!read.staged) forget_samples(index);
  forget_items(read);
  unpin(read);
  std::swap(told_, read.waiters);
  for (const std::uint32_t waiter : told_) {
    if (waiter & kListed) {
      Batch& batch = s_.batches[waiter & ~kListed];
      if (--batch.waiting_reads == 0) listener_.listed_ready(waiter & ~kListed);
    } else {
      Making& making = s_.makings[waiter];
      BF_CHECK(making.waiting > 0);
      if (--making.waiting == 0) listener_.making_ready(waiter);
    }
  }
  told_.clear();
  if (s_.reads.live(index)) release_if_unused(index);
}

// Whether all of them were asked for by the last attempt. A read without a list is a block's, and
// those who wait for it are makings of that block.
bool Reads::are_of(const ReadJob& read, std::span<const SampleId> failed) {
  asked_ = read.missing.empty() ? read.samples : read.missing;
  if (asked_.empty()) {
    s_.expand(s_.blocks[s_.makings[read.waiters.front()].block], draws_);
    for (const Draw& draw : draws_) asked_.push_back(draw.sample);
  }
  std::sort(asked_.begin(), asked_.end());
  return std::all_of(failed.begin(), failed.end(), [&](SampleId sample) {
    return std::binary_search(asked_.begin(), asked_.end(), sample);
  });
}

// An I/O error is never taken for corruption: what was not read is ordered again, later each time,
// and those who wait are told only when the attempts are used up. Without any it ends here.
void Reads::fail(std::uint32_t index, std::span<const SampleId> failed) {
  ReadJob& read = s_.reads[index];
  ++s_.counters.failed_reads;
  read.request = s_.requests.again(read.request.id);
  read.in_part |= !failed.empty();
  if (read.waiters.empty()) return end_without_result(index, std::nullopt);
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
    s_.alarms.set(after(s_.now, wait), {AlarmKind::retry_read, index, read.request.id.value});
    return;
  }
  if (read.source != kNone) return give_up_copies(index);
  end_without_result(index, Refusal::storage_failed);
}

// A cached copy that cannot be read is none, and never the only one: who waits begins anew, and
// finds the samples elsewhere, in the end in the store.
void Reads::give_up_copies(std::uint32_t index) {
  const std::uint32_t source = s_.reads[index].source;
  const std::vector<SampleId> samples = s_.reads[index].samples;
  end_without_result(index, std::nullopt);
  Share& share = *s_.memory[source].share;
  for (const SampleId sample : samples) {
    const ItemId item = item_of(sample);
    // Whoever has it pinned finds out for himself.
    if (!share.resident(item) || share.pinned(item)) continue;
    share.remove(item, Removal::invalidated);
    s_.evicted.push_back({source, item});
  }
  drop_evicted(s_);
}

// Nobody finds it any more, and its items leave their share once those who wait have been told.
void Reads::end_without_result(std::uint32_t index, std::optional<Refusal> why) {
  ReadJob& read = s_.reads[index];
  forget_samples(index);
  read.done = true;
  const std::uint32_t keep = read.keep;
  const std::vector<SampleId> samples = read.samples;
  std::vector<std::uint32_t> waiters;
  waiters.swap(read.waiters);
  ++read.holders;  // it outlives the calls below
  for (const std::uint32_t waiter : waiters) {
    if (waiter & kListed) {
      listener_.listed_failed(waiter & ~kListed, why);
    } else {
      listener_.making_failed(waiter, why);
    }
  }
  forget_items(s_.reads[index]);
  unpin(s_.reads[index]);
  if (keep != kNone) {
    for (const SampleId sample : samples) {
      s_.memory[keep].share->remove(item_of(sample), Removal::invalidated);
    }
  }
  --s_.reads[index].holders;
  release_if_unused(index);
}

void Reads::unpin(ReadJob& read) {
  for (const std::uint32_t share : {read.keep, read.source}) {
    if (share == kNone) continue;
    for (const SampleId sample : read.samples) s_.memory[share].share->unpin(item_of(sample));
  }
}

void Reads::retry(std::uint32_t index, std::uint64_t serial) {
  if (!s_.reads.live(index) || s_.reads[index].request.id.value != serial) return;
  if (!s_.reads[index].done) order(s_.reads[index]);
}

void Reads::lose_node(std::uint32_t node, NodeId id) {
  for (std::uint32_t index = 0; index < s_.reads.size(); ++index) {
    if (!s_.reads.live(index)) continue;
    ReadJob& read = s_.reads[index];
    if (read.done) continue;  // who holds its staging memory goes with the node
    if (read.keep != kNone && s_.memory[read.keep].spec.place.node == id) {
      forget_items(read);
      read.keep = kNone;  // with the share
      if (read.node != node && read.from.node != id) continue;
    }
    if (read.node != node && read.from.node != id) continue;
    s_.order(Cancel{s_.requests.latest(read.request.id)});
    read.request = s_.requests.again(read.request.id);
    end_without_result(index, std::nullopt);
  }
}

}  // namespace batchflow
