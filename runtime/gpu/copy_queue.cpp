#include "runtime/gpu/copy_queue.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::gpu {

void CopyQueue::add(Copy copy) {
  std::erase_if(copy.pieces, [](const Piece& piece) { return piece.bytes == 0; });
  auto entry = std::make_shared<Entry>();
  entry->copy = std::move(copy);
  if (entry->has_begun())
    finish(*entry);
  else
    waiting(entry->copy.urgency).push_back(std::move(entry));
}

std::optional<Bundle> CopyQueue::next() {
  for (std::size_t i = 0; i < kUrgencies; ++i) {
    const auto urgency = static_cast<Urgency>(i);
    if (waiting(urgency).empty()) continue;
    if (!may_begin(urgency)) return std::nullopt;
    return make_bundle(urgency);
  }
  return std::nullopt;
}

bool CopyQueue::may_begin(Urgency urgency) const {
  const auto before = std::count_if(in_flight_.begin(), in_flight_.end(),
                                    [&](const InFlight& one) { return one.urgency <= urgency; });
  return static_cast<std::size_t>(before) < settings_.pieces_in_flight;
}

Bundle CopyQueue::make_bundle(Urgency urgency) {
  Bundle bundle;
  bundle.urgency = urgency;
  in_flight_.push_back({urgency, {}});
  Bytes bytes = 0;
  while (!waiting(urgency).empty() && add_part(bundle, bytes)) {
  }
  return bundle;
}

// Adds what comes next to a bundle. False: nothing can be added after it, or not even this.
bool CopyQueue::add_part(Bundle& bundle, Bytes& bytes) {
  Entries& waiting_here = waiting(bundle.urgency);
  const std::shared_ptr<Entry> entry = waiting_here.front();
  const Piece& piece = entry->copy.pieces[entry->piece];
  const Bytes left = piece.bytes - entry->offset;
  const bool is_small = left <= settings_.small_bytes;
  if (!bundle.pieces.empty() && (!is_small || bytes + left > settings_.piece_bytes ||
                                 bundle.pieces.size() == settings_.together_most))
    return false;
  const Bytes now = std::min(left, settings_.piece_bytes);
  bundle.pieces.push_back({piece.to + entry->offset, piece.from + entry->offset, now});
  bytes += now;
  Entries& entries = in_flight_.back().entries;
  if (entries.empty() || entries.back() != entry) {
    entries.push_back(entry);
    ++entry->bundles;
  }
  entry->offset += now;
  if (entry->offset == piece.bytes) {
    entry->offset = 0;
    ++entry->piece;
  }
  if (entry->has_begun()) waiting_here.pop_front();
  return is_small;
}

void CopyQueue::confirm() {
  BF_CHECK(!in_flight_.empty());
  const Entries entries = std::move(in_flight_.front().entries);
  in_flight_.pop_front();
  end_bundle(entries);
}

void CopyQueue::refuse(const std::string& problem) {
  BF_CHECK(!in_flight_.empty());
  const Entries entries = std::move(in_flight_.back().entries);
  in_flight_.pop_back();
  for (const auto& entry : entries) stop(entry, problem);
  end_bundle(entries);
}

void CopyQueue::end_bundle(const Entries& entries) {
  for (const auto& entry : entries)
    if (--entry->bundles == 0 && entry->has_begun()) finish(*entry);
}

// The copy goes no further.
void CopyQueue::stop(const std::shared_ptr<Entry>& entry, const std::string& problem) {
  if (entry->problem.empty()) entry->problem = problem;
  if (!entry->has_begun()) std::erase(waiting(entry->copy.urgency), entry);
  entry->piece = entry->copy.pieces.size();
}

void CopyQueue::fail_waiting(const std::string& problem) {
  for (const Entries& kind : waiting_) {
    for (const auto& entry : Entries(kind)) {
      stop(entry, problem);
      if (entry->bundles == 0) finish(*entry);
    }
  }
}

void CopyQueue::fail_all(const std::string& problem) {
  fail_waiting(problem);
  while (!in_flight_.empty()) refuse(problem);
}

void CopyQueue::finish(Entry& entry) {
  finished_.push_back({std::move(entry.copy), std::move(entry.problem)});
}

bool CopyQueue::has_waiting() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const Entries& kind) { return !kind.empty(); });
}

}  // namespace batchflow::gpu
