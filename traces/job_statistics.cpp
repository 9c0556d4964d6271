#include "traces/job_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_map>

namespace batchflow::traces {
namespace {

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(kNanosPerSecond);
}

// The classes are 0, below 1, 1, 2, 3-4, 5-8, and so on by powers of two.
std::size_t class_of(const JobRecord& job) {
  if (job.gpus_hundredths == 0) return 0;
  if (job.gpus_hundredths < 100) return 1;
  return 2 + static_cast<std::size_t>(std::bit_width((job.gpus_hundredths - 1) / 100));
}
GpuClass class_at(std::size_t index) {
  if (index == 0) return {};
  if (index == 1) return {.least = 0.01, .most = 0.99};
  const double most = std::ldexp(1.0, static_cast<int>(index) - 2);
  return {.least = index < 4 ? most : most / 2 + 1, .most = most};
}

// The most GPUs in use at any instant, in hundredths.
double most_at_once(const JobTrace& trace) {
  std::vector<std::pair<TraceTime, std::int64_t>> changes;
  for (const JobRecord& job : trace.jobs) {
    if (!job.has_duration() || job.gpus_hundredths == 0) continue;
    const TraceTime start = job.has_start() ? job.start_ns : job.submit_ns;
    changes.emplace_back(start, job.gpus_hundredths);
    changes.emplace_back(start + job.duration_ns, -std::int64_t{job.gpus_hundredths});
  }
  std::sort(changes.begin(), changes.end());  // at one instant, ends come before beginnings
  std::int64_t now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return static_cast<double>(most) / 100;
}

std::uint64_t distinct_ids(const JobTrace& trace) {
  std::vector<std::size_t> hashes;
  hashes.reserve(trace.jobs.size());
  for (const JobRecord& job : trace.jobs) {
    if (job.id != kNoText) hashes.push_back(std::hash<std::string_view>()(trace.text(job.id)));
  }
  std::sort(hashes.begin(), hashes.end());
  return static_cast<std::uint64_t>(std::unique(hashes.begin(), hashes.end()) - hashes.begin());
}

using Counts = std::unordered_map<TextId, std::uint64_t>;

}  // namespace

Quantiles quantiles_of(std::vector<double> values) {
  Quantiles result;
  result.count = values.size();
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {  // the nearest rank
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  result.least = values.front();
  result.p10 = at(0.10);
  result.p25 = at(0.25);
  result.p50 = at(0.50);
  result.p75 = at(0.75);
  result.p90 = at(0.90);
  result.p99 = at(0.99);
  result.most = values.back();
  result.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return result;
}

JobStatistics job_statistics(const JobTrace& trace) {
  JobStatistics result;
  std::vector<double> gpus, durations, waits, gaps;
  Counts users, queues;
  std::vector<GpuClass> classes;
  for (const JobRecord& job : trace.jobs) {
    ++result.jobs;
    ++result.statuses[static_cast<std::size_t>(job.status)];
    result.jobs_with_start += job.has_start();
    result.jobs_with_duration += job.has_duration();
    result.jobs_tried_again += job.attempts > 1;
    result.fractional_jobs += job.gpus_hundredths % 100 != 0;
    if (job.user != kNoText) ++users[job.user];
    if (job.queue != kNoText) ++queues[job.queue];
    if (job.has_start()) waits.push_back(seconds(job.start_ns - job.submit_ns));
    if (result.last_submit_ns != kNoTime) {
      gaps.push_back(seconds(job.submit_ns - result.last_submit_ns));
    } else {
      result.first_submit_ns = job.submit_ns;
    }
    result.last_submit_ns = job.submit_ns;
    const std::size_t class_index = class_of(job);
    while (classes.size() <= class_index) classes.push_back(class_at(classes.size()));
    ++classes[class_index].jobs;
    if (job.has_duration()) {
      const TraceTime start = job.has_start() ? job.start_ns : job.submit_ns;
      result.last_end_ns = std::max(result.last_end_ns, start + job.duration_ns);
    }
    if (job.gpus_hundredths == 0) continue;
    ++result.gpu_jobs;
    gpus.push_back(job.gpus());
    if (!job.has_duration()) continue;
    durations.push_back(seconds(job.duration_ns));
    classes[class_index].gpu_hours += job.gpus() * durations.back() / 3600;
  }
  std::erase_if(classes, [](const GpuClass& gpu_class) { return gpu_class.jobs == 0; });
  for (const GpuClass& gpu_class : classes) result.gpu_hours += gpu_class.gpu_hours;
  result.gpu_classes = std::move(classes);
  result.users = users.size();
  result.queues = queues.size();
  std::uint64_t busiest = 0;
  for (const auto& [user, jobs] : users) busiest = std::max(busiest, jobs);
  if (busiest > 0) {
    result.jobs_of_busiest_user_share =
        static_cast<double>(busiest) / static_cast<double>(result.jobs);
  }
  result.distinct_ids = distinct_ids(trace);
  result.gpus_at_once_most = most_at_once(trace);
  result.gpus = quantiles_of(std::move(gpus));
  result.duration_s = quantiles_of(std::move(durations));
  result.wait_s = quantiles_of(std::move(waits));
  result.interarrival_s = quantiles_of(std::move(gaps));
  return result;
}

}  // namespace batchflow::traces
