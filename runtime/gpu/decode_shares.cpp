#include "runtime/gpu/decode_shares.h"

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::gpu {
namespace {

constexpr double kNewest = 1.0 / 16;  // the weight of the newest measurement
constexpr double kLate = 1.25;        // times the others' 99th percentile
constexpr double kHandicapMost = 4;

std::int64_t percentile_99(std::vector<std::int64_t>& values) {
  const std::size_t at = (values.size() - 1) * 99 / 100;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace

const char* name_of(JpegWay way) {
  static constexpr const char* kNames[kJpegWays] = {"cpu", "host-huffman", "cuda", "hardware"};
  return kNames[static_cast<std::size_t>(way)];
}

DecodeShares::DecodeShares(const std::array<Way, kJpegWays>& ways,
                           std::optional<double> hardware_share)
    : hardware_share_(hardware_share) {
  for (std::size_t i = 0; i < kJpegWays; ++i) {
    ways_[i].lanes = ways[i].lanes;
    ways_[i].ns_each_unit = ways[i].ns_each_unit;
    ways_[i].latencies_ns.reserve(kWindow);
  }
}

double DecodeShares::waiting_ns(JpegWay way) const {
  const State& state = of(way);
  return static_cast<double>(state.waiting_units) * state.ns_each_unit / std::max(1u, state.lanes);
}

double DecodeShares::cost_ns(JpegWay way, std::uint64_t units) const {
  return static_cast<double>(units) * of(way).ns_each_unit;
}

double DecodeShares::expected_ns(const State& way, std::uint64_t units) const {
  const double before = static_cast<double>(way.waiting_units) / way.lanes;
  return (before + static_cast<double>(units)) * way.ns_each_unit + way.bias_ns;
}

JpegWays DecodeShares::fixed_share(JpegWays allowed) {
  const JpegWays others = allowed & static_cast<JpegWays>(~only(JpegWay::hardware));
  if (!hardware_share_ || !has(allowed, JpegWay::hardware) || !is_there(JpegWay::hardware))
    return allowed;
  hardware_due_ += *hardware_share_;
  if (hardware_due_ < 1) return others;
  hardware_due_ -= 1;
  return only(JpegWay::hardware);
}

DecodeShares::Choice DecodeShares::choose(std::uint64_t units, JpegWays allowed) {
  ++choices_;
  const JpegWays wanted = fixed_share(allowed);
  std::optional<JpegWay> best;
  double least = 0;
  // Where the share leaves no other way, the picture goes to any that it may.
  for (const JpegWays ways : {wanted, allowed}) {
    for (std::size_t i = 0; i < kJpegWays; ++i) {
      const auto way = static_cast<JpegWay>(i);
      const State& state = ways_[i];
      if (!has(ways, way) || state.lanes == 0) continue;
      if (choices_ - state.last_chosen > kTrial) return take(way, units);
      const double expected = expected_ns(state, units) * state.handicap;
      if (best && expected >= least) continue;
      best = way;
      least = expected;
    }
    if (best) break;
  }
  BF_CHECK(best);
  return take(*best, units);
}

DecodeShares::Choice DecodeShares::take(JpegWay way, std::uint64_t units) {
  State& state = of(way);
  const Choice choice{way, static_cast<std::int64_t>(expected_ns(state, units))};
  state.waiting_units += units;
  state.last_chosen = choices_;
  ++state.chosen;
  return choice;
}

DecodeShares::Choice DecodeShares::move(const Choice& from, JpegWay to, std::uint64_t units) {
  failed(from, units);
  return take(to, units);
}

void DecodeShares::served(JpegWay way, std::uint64_t units, std::int64_t busy_ns) {
  if (units == 0 || busy_ns <= 0) return;
  State& state = of(way);
  const double rate = static_cast<double>(busy_ns) / static_cast<double>(units);
  state.ns_each_unit += (rate - state.ns_each_unit) * (state.measured ? kNewest : 1.0);
  state.measured = true;
}

void DecodeShares::failed(const Choice& choice, std::uint64_t units) {
  State& state = of(choice.way);
  BF_CHECK(state.waiting_units >= units);
  state.waiting_units -= units;
}

void DecodeShares::finished(const Choice& choice, std::uint64_t units, std::int64_t latency_ns) {
  failed(choice, units);
  State& state = of(choice.way);
  // The bias is part of what was expected, so it changes by what is still wrong.
  const auto wrong = static_cast<double>(latency_ns - choice.expected_ns);
  state.bias_ns = std::max(0.0, state.bias_ns + wrong * kNewest / 4);
  if (state.latencies_ns.size() < kWindow)
    state.latencies_ns.push_back(latency_ns);
  else
    state.latencies_ns[state.next] = latency_ns;
  state.next = (state.next + 1) % kWindow;
  if (++finished_ % kPeriod == 0) change_handicaps();
}

void DecodeShares::change_handicaps() {
  for (State& state : ways_) {
    if (state.latencies_ns.size() < kWindowLeast) continue;
    std::vector<std::int64_t> own = state.latencies_ns, others;
    for (const State& other : ways_)
      if (&other != &state)
        others.insert(others.end(), other.latencies_ns.begin(), other.latencies_ns.end());
    if (others.size() < kWindowLeast) continue;
    const bool late = static_cast<double>(percentile_99(own)) >
                      kLate * static_cast<double>(percentile_99(others));
    state.handicap = std::clamp(state.handicap * (late ? 1.1 : 0.97), 1.0, kHandicapMost);
  }
}

}  // namespace batchflow::gpu
