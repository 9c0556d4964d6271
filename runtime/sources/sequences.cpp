#include "runtime/sources/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/order/keys.h"
#include "runtime/sources/like_groups.h"

namespace batchflow::sources {
namespace {

constexpr std::string_view kConcat = "concat", kWhole = "whole", kBuckets = "buckets";

// Places of a row that no document has.
void leave(std::uint64_t places, std::vector<DocumentPiece>& pieces) {
  if (places > 0) pieces.push_back({DocumentPiece::kGap, 0, places});
}
// Of the last row they need not be said.
void trim(std::vector<DocumentPiece>& pieces) {
  while (!pieces.empty() && pieces.back().document == DocumentPiece::kGap) pieces.pop_back();
}

// What attention costs in a sequence: the squares of its documents.
std::uint64_t cost_of(const std::vector<DocumentPiece>& pieces) {
  std::uint64_t cost = 0;
  for (const DocumentPiece& piece : pieces) cost += piece.tokens * piece.tokens;
  return cost;
}

}  // namespace

const std::vector<std::string_view>& packing_names() {
  static const std::vector<std::string_view> names = {kConcat, kWhole, kBuckets};
  return names;
}

std::string SequenceRule::problem(std::uint64_t length) const {
  const auto& names = packing_names();
  if (std::find(names.begin(), names.end(), packing) == names.end())
    return fmt::format("packing '{}' is not known; write {}", packing, fmt::join(names, ", "));
  if (length == 0) return "packing needs the number of tokens of a sequence, as tokens=2048";
  if (length > kLengthMost)
    return fmt::format("a sequence has at most {} tokens, and {} were asked for", kLengthMost,
                       length);
  if (rows > 0 && packing != kWhole)
    return fmt::format("rows={} is for packing=whole, and this is {}; leave it out", rows, packing);
  if (rows > kLengthMost / length)
    return fmt::format("rows={} of {} tokens: a sample has at most {} tokens", rows, length,
                       kLengthMost);
  std::string wrong;
  documents_to_mix(mixture, wrong);
  if (!wrong.empty()) return fmt::format("mix={}: {}", mixture, wrong);
  if (end_token && *end_token > INT32_MAX)
    return fmt::format("the token {} does not fit into 32 bits with a sign", *end_token);
  return {};
}

std::string SequenceRule::text(std::uint64_t length) const {
  std::string text = fmt::format("tokens={}, packing={}, packing_seed={}", length, packing, seed);
  if (end_token) text += fmt::format(", end_token={}", *end_token);
  if (rows > 0) text += fmt::format(", rows={}", rows);
  std::string problem;
  for (const WeighedDocuments& one : documents_to_mix(mixture, problem))
    text += fmt::format(", {} weighs {}", one.name, one.weight);
  return text;
}

SequencePlan::SequencePlan(Lengths lengths, std::uint64_t documents, Digest version,
                           const SequenceRule& rule, std::uint64_t length,
                           std::span<const SampleRange> sources)
    : lengths_(std::move(lengths)),
      key_(order::documents_key(version, rule.seed)),
      length_(length),
      concat_(rule.packing == kConcat),
      buckets_(rule.packing == kBuckets),
      ends_(rule.end_token.has_value()),
      rows_(rule.rows),
      order_(order_of(rule, documents, sources)) {}

DocumentOrder SequencePlan::order_of(const SequenceRule& rule, std::uint64_t documents,
                                     std::span<const SampleRange> sources) const {
  if (rule.mixture.empty()) return {key_, documents};
  std::string problem;
  std::vector<double> weights;
  for (const WeighedDocuments& one : documents_to_mix(rule.mixture, problem))
    weights.push_back(one.weight);
  return {key_, sources, weights, [this](std::uint64_t document) { return tokens(document); }};
}

// False: all are packed.
bool SequencePlan::find_document() {
  if (!document_) document_ = order_.next();
  return document_.has_value();
}

bool SequencePlan::next(std::vector<DocumentPiece>& pieces) {
  pieces.clear();
  return concat_ ? next_of_all(pieces) : next_of_window(pieces);
}

// An empty document has no end either.
std::uint64_t SequencePlan::tokens(std::uint64_t document) const {
  const std::uint64_t tokens = lengths_(document);
  return tokens == 0 ? 0 : tokens + (ends_ ? 1 : 0);
}

// What is left at the end, less than a sequence, is left out.
bool SequencePlan::next_of_all(std::vector<DocumentPiece>& pieces) {
  std::uint64_t room = length_;
  while (room > 0 && find_document()) {
    const std::uint64_t document = *document_;
    const std::uint64_t all = tokens(document);
    const std::uint64_t taken = std::min(room, all - from_);
    if (taken > 0) pieces.push_back({document, from_, taken});
    room -= taken;
    from_ += taken;
    if (from_ < all) break;
    from_ = 0;
    document_.reset();
  }
  return room == 0;
}

bool SequencePlan::next_of_window(std::vector<DocumentPiece>& pieces) {
  if (given_ == packed_.size()) {
    fill_window();
    if (window_.empty()) return false;
    pack_window();
  }
  pieces = std::move(packed_[given_++]);
  return true;
}

// Documents that are longer than a sequence are cut every N tokens.
void SequencePlan::fill_window() {
  window_.clear();
  while (window_.size() < kWindow && find_document()) {
    const std::uint64_t document = *document_;
    const std::uint64_t all = tokens(document);
    const std::uint64_t taken = std::min(length_, all - from_);
    if (taken > 0) window_.push_back({document, from_, taken});
    from_ += taken;
    if (from_ < all) continue;
    from_ = 0;
    document_.reset();
  }
}

// The longest piece comes first.
void SequencePlan::pack_window() {
  std::stable_sort(window_.begin(), window_.end(),
                   [](const auto& a, const auto& b) { return a.tokens > b.tokens; });
  std::vector<std::vector<DocumentPiece>> made = buckets_ ? buckets() : best_fit();
  if (rows_ > 0) made = groups(std::move(made));
  // The first ones have the longest documents. Read one after the other, they come mixed.
  const order::Permutation mixed(hash(key_, windows_++), made.size());
  packed_.clear();
  for (std::uint64_t i = 0; i < made.size(); ++i) packed_.push_back(std::move(made[mixed(i)]));
  given_ = 0;
}

// Each piece comes into the fullest sequence that has room for it; of equally full ones into the
// oldest.
std::vector<std::vector<DocumentPiece>> SequencePlan::best_fit() const {
  std::vector<std::vector<DocumentPiece>> made;
  std::set<Open> open;
  for (const DocumentPiece& piece : window_) {
    const auto found = open.lower_bound({piece.tokens, 0});
    Open one{length_, static_cast<std::uint32_t>(made.size())};
    if (found == open.end()) {
      made.emplace_back();
    } else {
      one = *found;
      open.erase(found);
    }
    made[one.sequence].push_back(piece);
    one.room -= piece.tokens;
    if (one.room > 0) open.insert(one);
  }
  return made;
}

// As many rows as there is room for, each as wide as the first piece, which is the longest.
std::vector<std::vector<DocumentPiece>> SequencePlan::buckets() const {
  std::vector<std::vector<DocumentPiece>> made;
  for (std::size_t at = 0; at < window_.size();) {
    const std::uint64_t width = window_[at].tokens;
    std::vector<DocumentPiece>& bucket = made.emplace_back();
    for (std::uint64_t rows = length_ / width; rows > 0 && at < window_.size(); --rows, ++at) {
      bucket.push_back(window_[at]);
      leave(width - window_[at].tokens, bucket);
    }
    trim(bucket);
  }
  return made;
}

std::vector<std::vector<DocumentPiece>> SequencePlan::groups(
    std::vector<std::vector<DocumentPiece>> sequences) const {
  std::vector<std::uint64_t> costs;
  for (const auto& sequence : sequences) costs.push_back(cost_of(sequence));
  std::vector<std::vector<DocumentPiece>> made;
  for (const auto& group : groups_of_like_cost(costs, rows_)) {
    auto& pieces = made.emplace_back();
    for (const std::uint32_t sequence : group) {
      std::uint64_t room = length_;
      for (const DocumentPiece& piece : sequences[sequence]) {
        pieces.push_back(piece);
        room -= piece.tokens;
      }
      leave(room, pieces);
    }
    trim(pieces);
  }
  return made;
}

}  // namespace batchflow::sources
