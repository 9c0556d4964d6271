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
    of(entry->copy.urgency).waiting.push_back(std::move(entry));
}

std::optional<Bundle> CopyQueue::next() {
  for (std::size_t i = 0; i < kUrgencies; ++i) {
    const Kind& kind = kinds_[i];
    if (!kind.waiting.empty() && kind.in_flight.size() < settings_.pieces_in_flight)
      return make_bundle(static_cast<Urgency>(i));
    // A copy engine stays with a stream for as long as there is something on it, were it for a
    // second. So what is less urgent must end before the engine turns to this.
    if (!kind.waiting.empty() || !kind.in_flight.empty()) return std::nullopt;
  }
  return std::nullopt;
}

Bundle CopyQueue::make_bundle(Urgency urgency) {
  Kind& kind = of(urgency);
  Bundle bundle;
  bundle.urgency = urgency;
  kind.in_flight.emplace_back();
  Bytes bytes = 0;
  while (!kind.waiting.empty() && add_part(kind, bundle, bytes)) {
  }
  return bundle;
}

// Adds what comes next to a bundle. False: nothing can be added after it, or not even this.
bool CopyQueue::add_part(Kind& kind, Bundle& bundle, Bytes& bytes) {
  const std::shared_ptr<Entry> entry = kind.waiting.front();
  const Piece& piece = entry->copy.pieces[entry->piece];
  const Bytes left = piece.bytes - entry->offset;
  const bool is_small = left <= settings_.small_bytes;
  if (!bundle.pieces.empty() && (!is_small || bytes + left > settings_.piece_bytes ||
                                 bundle.pieces.size() == settings_.together_most))
    return false;
  const Bytes now = std::min(left, settings_.piece_bytes);
  bundle.pieces.push_back({piece.to + entry->offset, piece.from + entry->offset, now});
  bytes += now;
  Entries& entries = kind.in_flight.back();
  if (entries.empty() || entries.back() != entry) {
    entries.push_back(entry);
    ++entry->bundles;
  }
  entry->offset += now;
  if (entry->offset == piece.bytes) {
    entry->offset = 0;
    ++entry->piece;
  }
  if (entry->has_begun()) kind.waiting.pop_front();
  return is_small;
}

void CopyQueue::confirm(Urgency urgency) {
  Kind& kind = of(urgency);
  BF_CHECK(!kind.in_flight.empty());
  const Entries entries = std::move(kind.in_flight.front());
  kind.in_flight.pop_front();
  end_bundle(entries);
}

void CopyQueue::refuse(Urgency urgency, const std::string& problem) {
  Kind& kind = of(urgency);
  BF_CHECK(!kind.in_flight.empty());
  const Entries entries = std::move(kind.in_flight.back());
  kind.in_flight.pop_back();
  for (const auto& entry : entries) stop(kind, entry, problem);
  end_bundle(entries);
}

void CopyQueue::end_bundle(const Entries& entries) {
  for (const auto& entry : entries)
    if (--entry->bundles == 0 && entry->has_begun()) finish(*entry);
}

// The copy goes no further.
void CopyQueue::stop(Kind& kind, const std::shared_ptr<Entry>& entry, const std::string& problem) {
  if (entry->problem.empty()) entry->problem = problem;
  if (!entry->has_begun()) std::erase(kind.waiting, entry);
  entry->piece = entry->copy.pieces.size();
}

void CopyQueue::fail_waiting(const std::string& problem) {
  for (Kind& kind : kinds_) {
    for (const auto& entry : Entries(kind.waiting.begin(), kind.waiting.end())) {
      stop(kind, entry, problem);
      if (entry->bundles == 0) finish(*entry);
    }
  }
}

void CopyQueue::fail_all(const std::string& problem) {
  fail_waiting(problem);
  for (Kind& kind : kinds_) {
    while (!kind.in_flight.empty()) {
      const Entries entries = std::move(kind.in_flight.front());
      kind.in_flight.pop_front();
      for (const auto& entry : entries) stop(kind, entry, problem);
      end_bundle(entries);
    }
  }
}

void CopyQueue::finish(Entry& entry) {
  finished_.push_back({std::move(entry.copy), std::move(entry.problem)});
}

bool CopyQueue::has_in_flight() const {
  return std::any_of(kinds_.begin(), kinds_.end(),
                     [](const Kind& kind) { return !kind.in_flight.empty(); });
}

bool CopyQueue::has_waiting() const {
  return std::any_of(kinds_.begin(), kinds_.end(),
                     [](const Kind& kind) { return !kind.waiting.empty(); });
}

}  // namespace batchflow::gpu
