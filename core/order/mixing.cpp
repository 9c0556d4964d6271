#include "core/order/mixing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/order/permutation.h"

namespace batchflow::order {
namespace {

// No source can be farther from its due: a change of the weights may give it what others were due,
// and no more.
constexpr __int128 kBehindMost = static_cast<__int128>(Mixing::kSourcesMost) * Mixture::kWhole;

std::string parts_problem(std::span<const std::uint64_t> parts, std::size_t sources) {
  if (parts.size() != sources)
    return fmt::format("{} weights for {} sources", parts.size(), sources);
  std::uint64_t left = Mixture::kWhole;
  for (const std::uint64_t part : parts) {
    if (part > left) return "weights that add up to more than the whole";
    left -= part;
  }
  return left == 0 ? "" : "weights that add up to less than the whole";
}

std::string sources_problem(std::vector<SampleRange> sources, std::uint64_t samples) {
  if (sources.empty() || sources.size() > Mixing::kSourcesMost)
    return fmt::format("{} sources; a mixture has 1 to {}", sources.size(), Mixing::kSourcesMost);
  std::sort(sources.begin(), sources.end(),
            [](const SampleRange& a, const SampleRange& b) { return a.first < b.first; });
  std::uint64_t end = 0;
  for (const SampleRange& source : sources) {
    if (source.samples == 0) return "a source without samples";
    if (source.first.value < end) return "two sources have samples in common";
    if (source.first.value > samples || source.samples > samples - source.first.value)
      return fmt::format("a source ends behind the {} samples of the dataset", samples);
    end = source.first.value + source.samples;
  }
  return "";
}

std::string states_problem(const Mixing::Fields& fields) {
  std::vector<std::uint64_t> parts;
  std::uint64_t drawn = 0;
  __int128 behind = 0;
  for (const Mixture::State& state : fields.states) {
    parts.push_back(state.part);
    if (state.taken > Mixing::kDrawsMost - drawn) return "more draws than a mixture has";
    drawn += state.taken;
    if (state.behind > kBehindMost || state.behind < -kBehindMost)
      return "a source that is too far from its due";
    // Others were given what it was due, or at some time no source could give an item.
    if (state.part == 0 && state.behind != 0) return "a source without weight that is due samples";
    behind += state.behind;
  }
  if (behind != 0) return "sources that are due more, or less, than was drawn";
  return parts_problem(parts, fields.sources.size());
}

std::uint64_t zigzag_of(__int128 value) {
  const auto small = static_cast<std::int64_t>(value);
  return (static_cast<std::uint64_t>(small) << 1) ^ static_cast<std::uint64_t>(small >> 63);
}
std::int64_t value_of_zigzag(std::uint64_t code) {
  return static_cast<std::int64_t>(code >> 1) ^ -static_cast<std::int64_t>(code & 1);
}

}  // namespace

Mixing::Fields Mixing::beginning(std::vector<SampleRange> sources,
                                 std::span<const std::uint64_t> parts) {
  Fields fields;
  fields.sources = std::move(sources);
  for (const std::uint64_t part : parts) fields.states.push_back({part, 0, 0});
  return fields;
}

std::optional<Mixing> Mixing::from(Fields fields, std::uint64_t samples, std::string& problem) {
  problem = sources_problem(fields.sources, samples);
  if (problem.empty()) problem = states_problem(fields);
  if (!problem.empty()) return std::nullopt;
  std::vector<MixtureChange> changes = std::move(fields.changes);
  fields.changes.clear();
  Mixing mixing(std::move(fields));
  for (MixtureChange& change : changes) {
    problem = mixing.problem_of(change, 0);
    const bool in_turn = mixing.changes_.empty() || mixing.changes_.back().at <= change.at;
    if (problem.empty() && !in_turn) problem = "changes of the weights that are not in their order";
    if (!problem.empty()) return std::nullopt;
    mixing.changes_.push_back(std::move(change));
  }
  mixing.change_now();
  return mixing;
}

Mixing::Mixing(Fields&& fields)
    : sources_(std::move(fields.sources)),
      shuffled_(fields.shuffled),
      may_change_(fields.may_change),
      mixture_(fields.states),
      soonest_(fields.soonest) {}

Mixing::Fields Mixing::fields() const {
  Fields fields;
  fields.sources = sources_;
  fields.shuffled = shuffled_;
  fields.may_change = may_change_;
  for (std::uint32_t i = 0; i < mixture_.sources(); ++i)
    fields.states.push_back({mixture_.part(i), mixture_.taken(i), mixture_.behind(i)});
  fields.changes = changes_;
  fields.soonest = soonest_;
  return fields;
}

void Mixing::take() {
  mixture_.take(1);
  change_now();
}

void Mixing::change_now() {
  while (!changes_.empty() && changes_.front().at == drawn()) {
    mixture_.set_parts(changes_.front().parts);
    changes_.erase(changes_.begin());
  }
}

std::vector<std::uint64_t> Mixing::last_parts() const {
  if (!changes_.empty()) return changes_.back().parts;
  std::vector<std::uint64_t> parts;
  for (std::uint32_t i = 0; i < mixture_.sources(); ++i) parts.push_back(mixture_.part(i));
  return parts;
}

bool Mixing::may_draw(std::uint32_t source) const {
  return may_change_ || part(source) > 0 ||
         std::any_of(changes_.begin(), changes_.end(),
                     [&](const MixtureChange& change) { return change.parts[source] > 0; });
}

std::size_t Mixing::changes_left() const {
  const std::size_t most = std::min(kChangesMost, kChangedPartsMost / sources_.size());
  return most - std::min(most, changes_.size());
}

std::string Mixing::problem_of(const MixtureChange& change) const {
  return problem_of(change, soonest_);
}

std::string Mixing::problem_of(const MixtureChange& change, std::uint64_t soonest) const {
  if (change.at < std::max(soonest, drawn()))
    return fmt::format("weights from draw {} on, and none can change before draw {}", change.at,
                       std::max(soonest, drawn()));
  if (change.at > kDrawsMost) return "weights from a draw on that no mixture has";
  if (changes_left() == 0)
    return fmt::format("{} changes of the weights are to come already", changes_.size());
  return parts_problem(change.parts, sources_.size());
}

void Mixing::change(MixtureChange change) {
  BF_CHECK(problem_of(change).empty());
  if (change.soon) soonest_ = change.at;
  const auto place =
      std::upper_bound(changes_.begin(), changes_.end(), change.at,
                       [](std::uint64_t at, const MixtureChange& known) { return at < known.at; });
  changes_.insert(place, std::move(change));
  change_now();
}

Digest Mixing::digest() const {
  Digest digest = hash(sources_.size(), shuffled_ ? 1 : 0, may_change_ ? 1 : 0, soonest_);
  for (std::uint32_t i = 0; i < mixture_.sources(); ++i)
    digest = hash(digest, sources_[i].first.value, sources_[i].samples, mixture_.part(i),
                  mixture_.taken(i), zigzag_of(mixture_.behind(i)));
  for (const MixtureChange& change : changes_) {
    digest = hash(digest, change.at);
    for (const std::uint64_t part : change.parts) digest = hash(digest, part);
  }
  return digest;
}

void encode(const Mixing& mixing, std::vector<std::byte>& out) {
  const Mixing::Fields fields = mixing.fields();
  ByteWriter writer(out);
  writer.u8(static_cast<std::uint8_t>((fields.shuffled ? 1 : 0) | (fields.may_change ? 2 : 0)));
  writer.count(fields.sources.size());
  for (std::size_t i = 0; i < fields.sources.size(); ++i) {
    writer.count(fields.sources[i].first.value);
    writer.count(fields.sources[i].samples);
    writer.count(fields.states[i].part);
    writer.count(fields.states[i].taken);
    writer.count(zigzag_of(fields.states[i].behind));
  }
  writer.count(fields.soonest);
  writer.count(fields.changes.size());
  for (const MixtureChange& change : fields.changes) encode(change, out);
}

std::optional<Mixing> decode_mixing(std::span<const std::byte> bytes, std::uint64_t samples,
                                    std::string& problem) {
  ByteReader reader(bytes);
  Mixing::Fields fields;
  const std::uint8_t flags = reader.u8();
  if (flags > 3) reader.fail();
  fields.shuffled = (flags & 1) != 0;
  fields.may_change = (flags & 2) != 0;
  const std::uint64_t sources = reader.count(Mixing::kSourcesMost);
  for (std::uint64_t i = 0; i < sources && reader.ok(); ++i) {
    const SampleId first(reader.count(kSamplesMost));
    fields.sources.push_back({first, reader.count(kSamplesMost)});
    Mixture::State& state = fields.states.emplace_back();
    state.part = reader.count(Mixture::kWhole);
    state.taken = reader.count(Mixing::kDrawsMost);
    state.behind = value_of_zigzag(reader.count());
  }
  fields.soonest = reader.count(Mixing::kDrawsMost);
  const std::uint64_t changes = reader.count(Mixing::kChangesMost);
  for (std::uint64_t i = 0; i < changes && reader.ok(); ++i)
    fields.changes.push_back(read_mixture_change(reader));
  if (!reader.ok() || !reader.at_end()) {
    problem = "these bytes are not one whole mixture";
    return std::nullopt;
  }
  return Mixing::from(std::move(fields), samples, problem);
}

void encode(const MixtureChange& change, std::vector<std::byte>& out) {
  ByteWriter writer(out);
  writer.u8(change.soon ? 1 : 0);
  writer.count(change.at);
  writer.count(change.parts.size());
  for (const std::uint64_t part : change.parts) writer.count(part);
}

MixtureChange read_mixture_change(ByteReader& reader) {
  MixtureChange change;
  const std::uint8_t soon = reader.u8();
  if (soon > 1) reader.fail();
  change.soon = soon == 1;
  change.at = reader.count(Mixing::kDrawsMost);
  const std::uint64_t parts = reader.count(Mixing::kSourcesMost);
  for (std::uint64_t i = 0; i < parts && reader.ok(); ++i)
    change.parts.push_back(reader.count(Mixture::kWhole));
  return change;
}

}  // namespace batchflow::order
