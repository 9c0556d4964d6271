#include "runtime/sources/document_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/base/random.h"
#include "core/order/mixing.h"

namespace batchflow::sources {

std::vector<WeighedDocuments> documents_to_mix(const std::string& text, std::string& problem) {
  std::vector<WeighedDocuments> all;
  bool any = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('+'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t colon = part.rfind(':');
    WeighedDocuments one{std::string(part.substr(0, colon)), -1};
    const std::string_view weight = colon == std::string_view::npos ? "" : part.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(weight.data(), weight.data() + weight.size(), one.weight);
    const bool is_known = std::any_of(all.begin(), all.end(),
                                      [&](const auto& other) { return other.name == one.name; });
    if (one.name.empty() || is_known || error != std::errc() ||
        end != weight.data() + weight.size() || !std::isfinite(one.weight) || one.weight < 0) {
      problem = fmt::format(
          "'{}' is no source with its weight; write each once, as web:0.7+code:0.3", part);
      return {};
    }
    any = any || one.weight > 0;
    all.push_back(std::move(one));
  }
  if (!all.empty() && !any) problem = "all weights are 0, so no document is packed";
  if (all.size() > order::Mixing::kSourcesMost)
    problem = fmt::format("{} sources; write {} at most", all.size(), order::Mixing::kSourcesMost);
  if (!problem.empty()) return {};
  // The same sequences, in whatever order they were written.
  std::sort(all.begin(), all.end(),
            [](const auto& one, const auto& other) { return one.name < other.name; });
  return all;
}

DocumentOrder::DocumentOrder(std::uint64_t key, std::uint64_t documents) {
  sources_.push_back({0, order::Permutation(key, documents)});
}

DocumentOrder::DocumentOrder(std::uint64_t key, std::span<const SampleRange> ranges,
                             std::span<const double> weights, Tokens tokens)
    : tokens_(std::move(tokens)) {
  std::vector<std::uint32_t> lengths;
  for (const SampleRange& range : ranges) {
    const std::uint64_t first = range.first.value;
    sources_.push_back({first, order::Permutation(hash(key, first), range.samples)});
    lengths.push_back(find_next(sources_.back()));
  }
  mixture_.emplace(order::Mixture::parts_of(weights), lengths);
}

// Its length; 1 where there is none, which nothing takes.
std::uint32_t DocumentOrder::find_next(Source& source) const {
  while (source.given < source.order.size()) {
    const std::uint64_t document = source.first + source.order(source.given++);
    const std::uint64_t tokens = tokens_(document);
    if (tokens == 0) continue;
    source.document = document;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, order::Mixture::kLengthMost));
  }
  source.document = std::nullopt;
  return 1;
}

std::optional<std::uint64_t> DocumentOrder::next() {
  if (!mixture_) {
    Source& all = sources_.front();
    if (all.given == all.order.size()) return std::nullopt;
    return all.order(all.given++);
  }
  Source& source = sources_[mixture_->next()];
  const std::optional<std::uint64_t> document = source.document;
  if (document) mixture_->take(find_next(source));
  return document;
}

}  // namespace batchflow::sources
