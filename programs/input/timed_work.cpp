#include "programs/input/timed_work.h"

#include <set>
#include <tuple>

namespace batchflow::input {

MeanAndJitter mean_and_jitter(const std::vector<double>& values) {
  MeanAndJitter result;
  if (values.empty()) return result;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) result.mean += value / count;
  if (values.size() < 2 || result.mean <= 0) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.jitter = std::sqrt(squares / (count - 1)) / result.mean;
  return result;
}

namespace {

// Calls visit(from, to, those under way) for each time between two changes.
template <class Visit>
void visit_stretches(const std::vector<TimedWork>& works, Visit visit) {
  struct Change {
    Instant at;
    bool begins;
    std::size_t which;
  };
  std::vector<Change> changes;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (works[i].to <= works[i].from) continue;
    changes.push_back({works[i].from, true, i});
    changes.push_back({works[i].to, false, i});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.at, a.begins, a.which) < std::tie(b.at, b.begins, b.which);
  });
  std::set<std::size_t> now;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (changes[i].begins) {
      now.insert(changes[i].which);
    } else {
      now.erase(changes[i].which);
    }
    if (i + 1 < changes.size() && !now.empty() && changes[i + 1].at > changes[i].at)
      visit(changes[i].at, changes[i + 1].at, now);
  }
}

}  // namespace

std::optional<ObservedStore> estimate_store(std::vector<TimedWork> reads) {
  std::erase_if(reads, [](const TimedWork& one) {
    return one.to <= one.from || one.operations <= 0 || one.bytes <= 0;
  });
  if (reads.empty()) return std::nullopt;
  // What an operation takes where the store has little else to do: of the fastest tenth.
  std::vector<double> each;
  for (const TimedWork& one : reads) each.push_back(seconds_of(one.to - one.from) / one.operations);
  const auto tenth = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 10);
  std::nth_element(each.begin(), tenth, each.end());
  ObservedStore store{*tenth, 0};
  // The rate while most reads were under way, and how much longer an operation took then.
  struct Stretch {
    std::size_t readers;
    double time_s;
    double bytes;
    double operations;
  };
  std::vector<Stretch> stretches;
  double busy_s = 0;
  visit_stretches(reads, [&](Instant from, Instant to, const std::set<std::size_t>& now) {
    Stretch one{now.size(), seconds_of(to - from), 0, 0};
    for (const std::size_t i : now) {
      const double part = one.time_s / seconds_of(reads[i].to - reads[i].from);
      one.bytes += part * reads[i].bytes;
      one.operations += part * reads[i].operations;
    }
    busy_s += one.time_s;
    stretches.push_back(one);
  });
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.readers > b.readers; });
  double time_s = 0, bytes = 0, operations = 0, reader_s = 0;
  for (const Stretch& one : stretches) {
    if (time_s >= busy_s / 4) break;
    time_s += one.time_s;
    bytes += one.bytes;
    operations += one.operations;
    reader_s += one.time_s * static_cast<double>(one.readers);
  }
  constexpr double kIsLimit = 1.3;  // an operation took that much longer than with little to do
  if (time_s > 0 && operations > 0 && reader_s / operations > kIsLimit * store.latency_s)
    store.bytes_per_s = bytes / time_s;
  return store;
}

std::vector<double> core_seconds(const std::vector<TimedWork>& preparations, std::size_t workers,
                                 bool has_help) {
  std::vector<double> alone(preparations.size()), helped(preparations.size());
  visit_stretches(preparations, [&](Instant from, Instant to, const std::set<std::size_t>& now) {
    const double time_s = seconds_of(to - from);
    const double cores =
        static_cast<double>(std::max(workers, now.size())) / static_cast<double>(now.size());
    for (const std::size_t i : now) {
      alone[i] += time_s;
      helped[i] += time_s * cores;
    }
  });
  for (std::size_t i = 0; i < preparations.size(); ++i) {
    const double samples = std::max(1., preparations[i].operations);
    alone[i] /= samples;
    helped[i] /= samples;
  }
  const double jitter_alone = mean_and_jitter(alone).jitter;
  const double jitter_helped = mean_and_jitter(helped).jitter;
  constexpr double kSure = 0.8;  // of the greater: else both explain the times
  if (jitter_alone < kSure * jitter_helped) return alone;
  if (jitter_helped < kSure * jitter_alone) return helped;
  return has_help ? helped : alone;
}

}  // namespace batchflow::input
