#include "sim/report/over_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace batchflow::sim {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kCompute = 0;
constexpr std::size_t kIdle = std::size(kTimeParts) - 1;
constexpr std::size_t kOther = kIdle - 1;

}  // namespace

const TimePart kTimeParts[9] = {
    {"computes", "train", nullptr},
    {"waits for the store", "storage", &output::Waits::storage_s},
    {"waits for a drive", "drive", &output::Waits::drive_s},
    {"waits for the network", "network", &output::Waits::network_s},
    {"waits for a worker", "cores", &output::Waits::cores_s},
    {"waits for preparation", "preparation", &output::Waits::preparation_s},
    {"waits for delivery", "delivery", &output::Waits::delivery_s},
    {"waits for a command", "other", &output::Waits::other_s},
    {"waits for other ranks", "idle", nullptr}};

Spans::Spans(double until_s, std::size_t spans)
    : length_s(until_s > 0 ? until_s / static_cast<double>(spans) : 1), count(spans) {}

std::vector<double> Spans::middles() const {
  std::vector<double> middles;
  for (std::size_t i = 0; i < count; ++i) {
    middles.push_back((static_cast<double>(i) + 0.5) * length_s);
  }
  return middles;
}

double at_time(const output::RunResult& run, const Sum& sum, double time_s) {
  const auto& points = run.series;
  if (points.empty()) return 0;
  const auto after = std::lower_bound(
      points.begin(), points.end(), time_s,
      [](const output::SeriesPoint& point, double when) { return point.time_s < when; });
  if (after == points.end()) return sum(points.back());
  if (after == points.begin()) return sum(points.front());
  const output::SeriesPoint& before = after[-1];
  const double share = (time_s - before.time_s) / (after->time_s - before.time_s);
  return sum(before) + share * (sum(*after) - sum(before));
}

std::vector<double> rates(const output::RunResult& run, const Spans& spans, const Sum& sum) {
  std::vector<double> result;
  for (std::size_t i = 0; i < spans.count; ++i) {
    const double from = static_cast<double>(i) * spans.length_s;
    const double to = std::min(from + spans.length_s, run.makespan_s);
    result.push_back(to > from ? (at_time(run, sum, to) - at_time(run, sum, from)) / (to - from)
                               : kNone);
  }
  return result;
}

std::vector<double> levels(const output::RunResult& run, const Spans& spans, const Sum& level) {
  std::vector<double> result;
  for (const double when : spans.middles()) {
    result.push_back(when <= run.makespan_s ? at_time(run, level, when) : kNone);
  }
  return result;
}

std::vector<std::vector<double>> time_parts(const output::RunResult& run, const Spans& spans) {
  std::vector<std::vector<double>> parts(std::size(kTimeParts));
  parts[kCompute] =
      rates(run, spans, [](const output::SeriesPoint& point) { return point.compute_s; });
  parts[kIdle] = rates(run, spans, [](const output::SeriesPoint& point) { return point.idle_s; });
  const auto stalls =
      rates(run, spans, [](const output::SeriesPoint& point) { return point.stall_s; });
  for (std::size_t p = kCompute + 1; p < kIdle; ++p) {
    parts[p] = rates(run, spans, [wait = kTimeParts[p].wait](const output::SeriesPoint& point) {
      return point.waited.*wait;
    });
  }
  std::vector<double> shares(parts.size(), 0);
  shares[kOther] = 1;
  for (std::size_t i = spans.count; i-- > 0;) {
    double sum = 0;
    for (std::size_t p = kCompute + 1; p < kIdle; ++p) sum += parts[p][i];
    for (std::size_t p = kCompute + 1; p < kIdle; ++p) {
      if (sum > 0) shares[p] = parts[p][i] / sum;
      parts[p][i] = stalls[i] * shares[p];
    }
  }
  return parts;
}

std::vector<Part> parts_of(double compute_s, const output::Waits& waited, double idle_s) {
  std::vector<Part> parts;
  for (const TimePart& part : kTimeParts) {
    const double value = part.wait != nullptr                 ? waited.*part.wait
                         : part.color == std::string("train") ? compute_s
                                                              : idle_s;
    parts.push_back({part.name, part.color, value});
  }
  return parts;
}

const Resource kResources[5] = {
    {"GPUs", "c2", [](const output::SeriesPoint& point) { return point.compute_s; },
     [](const output::RunResult& run) { return static_cast<double>(run.cluster.gpus); }},
    {"cores", "c1", [](const output::SeriesPoint& point) { return point.busy_s; },
     [](const output::RunResult& run) { return static_cast<double>(run.cluster.cores); }},
    {"store", "c0",
     [](const output::SeriesPoint& point) { return static_cast<double>(point.storage_bytes); },
     [](const output::RunResult& run) { return run.cluster.store_bytes_per_s; }},
    {"network", "c3",
     [](const output::SeriesPoint& point) { return static_cast<double>(point.network_bytes); },
     [](const output::RunResult& run) { return run.cluster.network_bytes_per_s; }},
    {"PCIe", "c4",
     [](const output::SeriesPoint& point) { return static_cast<double>(point.pcie_bytes); },
     [](const output::RunResult& run) { return run.cluster.pcie_bytes_per_s; }}};

}  // namespace batchflow::sim
