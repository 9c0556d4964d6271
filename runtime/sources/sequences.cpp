#include "runtime/sources/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/order/keys.h"

namespace batchflow::sources {
namespace {

constexpr std::string_view kConcat = "concat", kWhole = "whole";

}  // namespace

const std::vector<std::string_view>& packing_names() {
  static const std::vector<std::string_view> names = {kConcat, kWhole};
  return names;
}

std::string SequenceRule::problem(std::uint64_t length) const {
  const auto& names = packing_names();
  if (std::find(names.begin(), names.end(), packing) == names.end())
    return fmt::format("packing '{}' is not known; write {}", packing, fmt::join(names, " or "));
  if (length == 0) return "packing needs the number of tokens of a sequence, as tokens=2048";
  if (length > kLengthMost)
    return fmt::format("a sequence has at most {} tokens, and {} were asked for", kLengthMost,
                       length);
  if (end_token && *end_token > INT32_MAX)
    return fmt::format("the token {} does not fit into 32 bits with a sign", *end_token);
  return {};
}

std::string SequenceRule::text(std::uint64_t length) const {
  std::string text = fmt::format("tokens={}, packing={}, packing_seed={}", length, packing, seed);
  if (end_token) text += fmt::format(", end_token={}", *end_token);
  return text;
}

SequencePlan::SequencePlan(Lengths lengths, std::uint64_t documents, Digest version,
                           const SequenceRule& rule, std::uint64_t length)
    : lengths_(std::move(lengths)),
      order_(order::documents_key(version, rule.seed), documents),
      key_(order::documents_key(version, rule.seed)),
      length_(length),
      whole_(rule.packing == kWhole),
      ends_(rule.end_token.has_value()) {}

bool SequencePlan::next(std::vector<DocumentPiece>& pieces) {
  pieces.clear();
  return whole_ ? next_of_window(pieces) : next_of_all(pieces);
}

// An empty document has no end either.
std::uint64_t SequencePlan::tokens(std::uint64_t document) const {
  const std::uint64_t tokens = lengths_(document);
  return tokens == 0 ? 0 : tokens + (ends_ ? 1 : 0);
}

// What is left at the end, less than a sequence, is left out.
bool SequencePlan::next_of_all(std::vector<DocumentPiece>& pieces) {
  std::uint64_t room = length_;
  while (room > 0 && at_ < order_.size()) {
    const std::uint64_t document = order_(at_);
    const std::uint64_t all = tokens(document);
    const std::uint64_t taken = std::min(room, all - from_);
    if (taken > 0) pieces.push_back({document, from_, taken});
    room -= taken;
    from_ += taken;
    if (from_ < all) break;
    from_ = 0;
    ++at_;
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
  while (window_.size() < kWindow && at_ < order_.size()) {
    const std::uint64_t document = order_(at_);
    const std::uint64_t all = tokens(document);
    const std::uint64_t taken = std::min(length_, all - from_);
    if (taken > 0) window_.push_back({document, from_, taken});
    from_ += taken;
    if (from_ < all) continue;
    from_ = 0;
    ++at_;
  }
}

// Best fit: the longest piece first, each into the fullest sequence that has room for it; of
// equally full ones into the oldest.
void SequencePlan::pack_window() {
  std::stable_sort(window_.begin(), window_.end(),
                   [](const auto& a, const auto& b) { return a.tokens > b.tokens; });
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
  // The first sequences have the longest documents. Read one after the other, they come mixed.
  const order::Permutation mixed(hash(key_, windows_++), made.size());
  packed_.clear();
  for (std::uint64_t i = 0; i < made.size(); ++i) packed_.push_back(std::move(made[mixed(i)]));
  given_ = 0;
}

}  // namespace batchflow::sources
