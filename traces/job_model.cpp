#include "traces/job_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "core/base/config_value.h"

namespace batchflow::traces {
namespace {

constexpr std::int64_t kHourNs = 3600 * kNanosPerSecond;
constexpr std::int64_t kDayNs = 24 * kHourNs;

// Rounded down, also before 1970.
std::int64_t floor_of(std::int64_t value, std::int64_t unit) {
  const std::int64_t quotient = value / unit;
  return value % unit < 0 ? quotient - 1 : quotient;
}

// 0 is Monday. A relative time begins on a Monday, because made traces do.
std::size_t weekday_of(TimeBase base, std::int64_t day) {
  constexpr std::int64_t kMondayOf1970 = 4;  // 1970 began on a Thursday
  const std::int64_t days = base == TimeBase::relative ? day : day - kMondayOf1970;
  return static_cast<std::size_t>(days - 7 * floor_of(days, 7));
}

void fit_arrivals(const JobTrace& trace, SynthModel& model) {
  const std::int64_t first = floor_of(trace.jobs.front().submit_ns, kDayNs);
  const std::int64_t last = floor_of(trace.jobs.back().submit_ns, kDayNs);
  std::array<double, 7> days{};  // how often each weekday comes
  for (std::int64_t day = first; day <= std::min(last, first + 70'000); ++day) {
    ++days[weekday_of(trace.time_base, day)];
  }
  model.weekdays.fill(0);
  model.hours.fill(0);
  for (const JobRecord& job : trace.jobs) {
    const std::int64_t day = floor_of(job.submit_ns, kDayNs);
    ++model.weekdays[weekday_of(trace.time_base, day)];
    ++model.hours[static_cast<std::size_t>((job.submit_ns - day * kDayNs) / kHourNs)];
  }
  const double usual =
      static_cast<double>(trace.jobs.size()) / static_cast<double>(last - first + 1);
  for (std::size_t i = 0; i < 7; ++i) {
    model.weekdays[i] = days[i] == 0 ? usual : model.weekdays[i] / days[i];
  }
}

// Expectation maximisation from the two halves of the sample, over a histogram of it, because it
// takes many rounds where the parts overlap. REQUIRES: logs is not empty.
std::array<Lognormal, 2> fit_mixture(const std::vector<double>& logs) {
  constexpr int kRounds = 3000;
  constexpr std::size_t kBins = 400;
  constexpr double kLeastSd = 0.05;
  const auto [least, most] = std::minmax_element(logs.begin(), logs.end());
  const double width = std::max(*most - *least, kLeastSd) / kBins;
  struct Bin {
    double count = 0, log = 0;
  };
  std::vector<Bin> bins(kBins);
  double mean = 0, variance = 0;
  const auto n = static_cast<double>(logs.size());
  for (double x : logs) {
    Bin& bin = bins[std::min(static_cast<std::size_t>((x - *least) / width), kBins - 1)];
    ++bin.count;
    bin.log += x;
    mean += x / n;
  }
  for (double x : logs) variance += (x - mean) * (x - mean) / n;
  std::erase_if(bins, [](const Bin& bin) { return bin.count == 0; });
  for (Bin& bin : bins) bin.log /= bin.count;
  const double sd = std::max(std::sqrt(variance), kLeastSd);
  std::array<Lognormal, 2> mixture = {Lognormal{0.5, mean - sd / 2, sd},
                                      Lognormal{0.5, mean + sd / 2, sd}};
  const auto density = [](const Lognormal& part, double x) {
    const double z = (x - part.mean_log) / part.sd_log;
    return part.weight / part.sd_log * std::exp(-z * z / 2);
  };
  for (int round = 0; round < kRounds; ++round) {
    std::array<double, 2> weight{}, sum{}, squares{};
    for (const Bin& bin : bins) {
      const double a = density(mixture[0], bin.log), b = density(mixture[1], bin.log);
      const double share = a + b > 0 ? a / (a + b) : 0.5;
      for (std::size_t part = 0; part < 2; ++part) {
        const double w = bin.count * (part == 0 ? share : 1 - share);
        weight[part] += w;
        sum[part] += w * bin.log;
        squares[part] += w * bin.log * bin.log;
      }
    }
    for (std::size_t part = 0; part < 2; ++part) {
      if (weight[part] < 1e-9 * n) continue;  // it has vanished
      const double centre = sum[part] / weight[part];
      const double spread = std::max(squares[part] / weight[part] - centre * centre, 0.0);
      mixture[part] = {weight[part] / n, centre, std::max(std::sqrt(spread), kLeastSd)};
    }
  }
  return mixture;
}

void fit_durations(const JobTrace& trace, SynthModel& model) {
  constexpr std::size_t kLeastSample = 30;
  std::array<std::vector<double>, SynthModel::kDurationClasses> logs;
  std::vector<double> all;
  model.longest_s = 1;
  for (const JobRecord& job : trace.jobs) {
    if (!job.has_duration()) continue;
    const double seconds =
        std::max(static_cast<double>(job.duration_ns) / static_cast<double>(kNanosPerSecond), 1.0);
    model.longest_s = std::max(model.longest_s, seconds);
    logs[SynthModel::duration_class(job.gpus_hundredths)].push_back(std::log(seconds));
    all.push_back(std::log(seconds));
  }
  if (all.empty()) {
    throw ConfigError(fmt::format(
        "{}: none of its jobs has a duration; name a trace of jobs that ended", trace.name));
  }
  const std::array<Lognormal, 2> overall = fit_mixture(all);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    model.durations[i] = logs[i].size() < kLeastSample ? overall : fit_mixture(logs[i]);
  }
}

// The share of the jobs that the first tenth of `users` have at that exponent.
double share_of_first_tenth(std::uint32_t users, double exponent) {
  double first = 0, all = 0;
  for (std::uint32_t k = 1; k <= users; ++k) {
    const double weight = std::pow(k, -exponent);
    all += weight;
    if (k <= (users + 9) / 10) first += weight;
  }
  return first / all;
}

void fit_users(const JobTrace& trace, SynthModel& model) {
  std::map<TextId, std::uint32_t> users, queues;
  for (const JobRecord& job : trace.jobs) {
    if (job.user != kNoText) ++users[job.user];
    if (job.queue != kNoText) ++queues[job.queue];
  }
  if (!queues.empty()) model.queues = static_cast<std::uint32_t>(queues.size());
  if (users.empty()) return;
  model.users = static_cast<std::uint32_t>(users.size());
  std::vector<double> counts;
  double all = 0, first = 0;
  for (const auto& [user, jobs] : users) {
    counts.push_back(jobs);
    all += jobs;
  }
  std::sort(counts.rbegin(), counts.rend());
  for (std::size_t k = 0; k < (counts.size() + 9) / 10; ++k) first += counts[k];
  double least = 0, most = 4;
  for (int round = 0; round < 40; ++round) {
    const double middle = (least + most) / 2;
    (share_of_first_tenth(model.users, middle) < first / all ? least : most) = middle;
  }
  model.user_exponent = (least + most) / 2;
}

Lognormal lognormal(double weight, double median_s, double sd_log) {
  return {weight, std::log(median_s), sd_log};
}

}  // namespace

std::size_t SynthModel::duration_class(std::uint32_t gpus_hundredths) {
  if (gpus_hundredths == 0) return 0;
  if (gpus_hundredths <= 100) return 1;
  if (gpus_hundredths <= 400) return 2;
  return gpus_hundredths <= 800 ? 3 : 4;
}

SynthModel usual_job_model() {
  SynthModel model;
  model.weekdays = {1.1, 1.15, 1.15, 1.15, 1.1, 0.7, 0.65};
  for (std::size_t hour = 0; hour < 24; ++hour) {  // least at four, most at four in the afternoon
    model.hours[hour] =
        1 - 0.45 * std::cos((static_cast<double>(hour) - 4) * std::numbers::pi / 12);
  }
  model.sizes = {{100, .858},   {200, .043},   {300, .004},   {400, .038},
                 {600, .002},   {800, .045},   {1200, .001},  {1600, .006},
                 {2400, .0005}, {3200, .0015}, {6400, .0007}, {12800, .0003}};
  model.durations[0] = {lognormal(.80, 300, 1.6), lognormal(.20, 7200, 1.5)};
  model.durations[1] = {lognormal(.85, 600, 1.6), lognormal(.15, 36'000, 1.5)};
  model.durations[2] = {lognormal(.70, 600, 1.8), lognormal(.30, 54'000, 1.5)};
  model.durations[3] = {lognormal(.60, 900, 1.8), lognormal(.40, 86'400, 1.4)};
  model.durations[4] = {lognormal(.60, 900, 1.8), lognormal(.40, 100'000, 1.3)};
  model.longest_s = 60 * 86'400;
  model.users = 300;
  model.user_exponent = 1.05;
  model.queues = 14;
  model.statuses[static_cast<std::size_t>(JobStatus::completed)] = .69;
  model.statuses[static_cast<std::size_t>(JobStatus::cancelled)] = .14;
  model.statuses[static_cast<std::size_t>(JobStatus::failed)] = .17;
  return model;
}

SynthModel fit_job_model(const JobTrace& trace) {
  SynthModel model = usual_job_model();
  fit_durations(trace, model);
  fit_arrivals(trace, model);
  std::map<std::uint32_t, double> sizes;
  std::array<double, kJobStatuses> statuses{};
  for (const JobRecord& job : trace.jobs) {
    ++sizes[job.gpus_hundredths];
    ++statuses[static_cast<std::size_t>(job.status)];
  }
  model.sizes.clear();
  for (const auto& [gpus, jobs] : sizes) model.sizes.push_back({gpus, jobs});
  fit_users(trace, model);
  // Jobs that had not ended when the log was taken get one of the other statuses.
  for (JobStatus open : {JobStatus::unknown, JobStatus::running, JobStatus::pending}) {
    statuses[static_cast<std::size_t>(open)] = 0;
  }
  const bool any = std::any_of(statuses.begin(), statuses.end(), [](double n) { return n > 0; });
  if (any) model.statuses = statuses;
  return model;
}

}  // namespace batchflow::traces
