#include "tests/driver/mixture_check.h"

#include <fmt/format.h>

#include <utility>

#include "tests/driver/machine.h"

namespace batchflow::test {
namespace {

constexpr __int128 kWhole = __int128{1} << 32;

}  // namespace

MixtureCheck::MixtureCheck(order::KeyRoot root, std::vector<SampleRange> sources,
                           std::vector<std::uint64_t> parts)
    : root_(root) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sources_.emplace_back().samples = sources[i];
    sources_.back().part = parts[i];
  }
}

void MixtureCheck::changed(std::uint64_t at, std::vector<std::uint64_t> parts) {
  if (at < now_) violated(fmt::format("weights from draw {} on, after {} draws", at, now_));
  if (at == now_) {
    change(parts);
  } else {
    changes_.emplace(at, std::move(parts));
  }
}

void MixtureCheck::change(const std::vector<std::uint64_t>& parts) {
  __int128 freed = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    sources_[i].part = parts[i];
    if (parts[i] == 0) freed += std::exchange(sources_[i].due, 0);
  }
  __int128 rest = freed;
  for (Source& source : sources_) {
    const __int128 share = freed * source.part / kWhole;
    source.due += share;
    rest -= share;
  }
  for (Source& source : sources_) {
    if (source.part == 0) continue;
    source.due += rest;
    break;
  }
  ++changes_made_;
}

// Of the sources that would not be ahead by a whole sample, the one that is due another first.
std::size_t MixtureCheck::next() const {
  std::size_t best = sources_.size();
  __int128 soonest = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (source.part == 0 || source.due + source.part <= 0) continue;
    const __int128 missing = kWhole - source.due;
    __int128 time = missing / source.part;
    if (time * source.part < missing) ++time;
    time = std::max<__int128>(time, -static_cast<__int128>(now_));
    if (best < sources_.size() && time >= soonest) continue;
    best = i;
    soonest = time;
  }
  if (best == sources_.size()) violated("no source may come");
  return best;
}

void MixtureCheck::count(SampleId sample, std::uint64_t pass) {
  Source& source = sources_[next()];
  const std::uint64_t expected_pass = source.had / source.samples.samples;
  if (source.pass != expected_pass) {
    source.pass = expected_pass;
    source.order = order::Permutation(
        hash(10, root_.dataset_version, root_.seed, source.samples.first.value, expected_pass),
        source.samples.samples);
  }
  const std::uint64_t expected =
      source.samples.first.value + source.order(source.had % source.samples.samples);
  if (sample.value != expected || pass != expected_pass) {
    violated(fmt::format("draw {} of a mixture is sample {} of pass {}, and should be {} of {}",
                         now_, sample.value, pass, expected, expected_pass));
  }
  ++source.had;
  ++now_;
  source.due -= kWhole;
  for (Source& one : sources_) one.due += one.part;
  for (; !changes_.empty() && changes_.begin()->first == now_; changes_.erase(changes_.begin()))
    change(changes_.begin()->second);
}

SampleRange MixtureCheck::source_of(SampleId sample) const {
  for (const Source& source : sources_) {
    if (sample >= source.samples.first &&
        sample.value - source.samples.first.value < source.samples.samples)
      return source.samples;
  }
  violated(fmt::format("sample {} is of no source", sample.value));
}

}  // namespace batchflow::test
