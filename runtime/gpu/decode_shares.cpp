#include "runtime/gpu/decode_shares.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::gpu {
namespace {

// Rates are those of about as many pictures: with fewer, a slow one would send the next batches
// elsewhere.
constexpr double kRemembered = 256;

std::int64_t percentile_99(std::vector<std::int64_t> values) {
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
    ways_[i].later_ns.reserve(kWindow);
  }
}

double DecodeShares::waiting_ns(JpegWay way) const {
  const State& state = state_of(way);
  return static_cast<double>(state.waiting_units) * state.ns_each_unit / std::max(1u, state.lanes);
}

double DecodeShares::cost_ns(JpegWay way, std::uint64_t units) const {
  return static_cast<double>(units) * state_of(way).ns_each_unit;
}

double DecodeShares::expected_ns(const State& way, std::uint64_t units) const {
  const double before = static_cast<double>(way.waiting_units) / way.lanes;
  return (before + static_cast<double>(units)) * way.ns_each_unit;
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
      const double expected = expected_ns(state, units) + state.late_ns;
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
  State& state = state_of(way);
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

void DecodeShares::served(JpegWay way, std::size_t pictures, std::uint64_t units,
                          std::int64_t busy_ns) {
  if (units == 0 || busy_ns <= 0) return;
  State& state = state_of(way);
  const double kept = std::max(0.5, 1 - static_cast<double>(pictures) / kRemembered);
  state.busy_ns = state.busy_ns * kept + static_cast<double>(busy_ns);
  state.served_units = state.served_units * kept + static_cast<double>(units);
  state.ns_each_unit = state.busy_ns / state.served_units;
}

void DecodeShares::failed(const Choice& choice, std::uint64_t units) {
  State& state = state_of(choice.way);
  BF_CHECK(state.waiting_units >= units);
  state.waiting_units -= units;
}

void DecodeShares::finished(const Choice& choice, std::uint64_t units, std::int64_t latency_ns) {
  failed(choice, units);
  State& state = state_of(choice.way);
  const std::int64_t later_ns = latency_ns - choice.expected_ns;
  if (state.later_ns.size() < kWindow)
    state.later_ns.push_back(later_ns);
  else
    state.later_ns[state.finished % kWindow] = later_ns;
  if (++state.finished % kPeriod == 0)
    state.late_ns = static_cast<double>(percentile_99(state.later_ns));
  state.used = true;
  if (++finished_ % kUnused == 0) forget_unused();
}

void DecodeShares::forget_unused() {
  constexpr double kKept = 0.9;
  for (State& state : ways_) {
    if (!std::exchange(state.used, false)) {
      state.late_ns *= kKept;
      state.later_ns.clear();
      state.finished = 0;
    }
  }
}

}  // namespace batchflow::gpu
