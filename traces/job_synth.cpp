#include "traces/job_synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <queue>

#include "core/base/config_value.h"
#include "core/base/parameters.h"
#include "core/base/random.h"
#include "traces/generator.h"

namespace batchflow::traces {
namespace {

constexpr std::int64_t kSecondsPerDay = 86'400;
constexpr TraceTime kBeginNs = 17'532 * kSecondsPerDay * kNanosPerSecond;  // 2018-01-01, a Monday

// Parts of the seed, one for each thing that is drawn: a new part changes no other.
enum Part : std::uint64_t { kArrivals, kSizes, kDurations, kUsers, kStatuses };

// Draws an index by weight.
class Weights {
 public:
  void add(double weight) { sums_.push_back(sums_.empty() ? weight : sums_.back() + weight); }
  std::size_t draw(Random& random) const {
    const double x = random.unit() * sums_.back();
    const auto at = std::upper_bound(sums_.begin(), sums_.end(), x) - sums_.begin();
    return std::min(static_cast<std::size_t>(at), sums_.size() - 1);
  }
  bool any() const { return !sums_.empty() && sums_.back() > 0; }

 private:
  std::vector<double> sums_;
};

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
  return radius * std::cos(2 * std::numbers::pi * random.unit());
}

std::vector<TraceTime> arrivals(const SynthModel& model, const SynthOptions& options,
                                Random random) {
  Weights hours;  // of all days
  for (std::uint64_t hour = 0; hour < 24 * options.days; ++hour) {
    hours.add(model.weekdays[hour / 24 % 7] * model.hours[hour % 24]);
  }
  std::vector<TraceTime> times(options.jobs);
  for (TraceTime& time : times) {
    const auto seconds = static_cast<std::int64_t>(3600 * hours.draw(random) + random.below(3600));
    time = kBeginNs + seconds * kNanosPerSecond;
  }
  std::sort(times.begin(), times.end());
  return times;
}

std::int64_t duration_ns(const SynthModel& model, std::uint32_t gpus, Random& random) {
  const auto& mixture = model.durations[SynthModel::duration_class(gpus)];
  const double total = mixture[0].weight + mixture[1].weight;
  const Lognormal& part = random.unit() * total < mixture[0].weight ? mixture[0] : mixture[1];
  const double seconds = std::exp(part.mean_log + part.sd_log * normal(random));
  return std::llround(std::clamp(seconds, 1.0, model.longest_s)) * kNanosPerSecond;
}

// First come, first served: no job starts before a job that came earlier.
void start_jobs(std::vector<JobRecord>& jobs, std::uint64_t gpus) {
  using End = std::pair<TraceTime, std::uint32_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> running;
  std::uint64_t free = 100 * gpus;
  TraceTime now = kNoTime;
  for (JobRecord& job : jobs) {
    now = std::max(now, job.submit_ns);
    while (!running.empty() && (running.top().first <= now || free < job.gpus_hundredths)) {
      now = std::max(now, running.top().first);
      free += running.top().second;
      running.pop();
    }
    job.start_ns = now;
    free -= job.gpus_hundredths;
    running.emplace(now + job.duration_ns, job.gpus_hundredths);
  }
}

std::vector<TextId> names(Texts& texts, std::string_view kind, std::uint32_t count) {
  std::vector<TextId> ids;
  for (std::uint32_t i = 1; i <= count; ++i)
    ids.push_back(texts.intern(fmt::format("{}{}", kind, i)));
  return ids;
}

using Type = Parameter::Type;
constexpr Parameter kParameters[] = {
    {"jobs", Type::integer, "100000", "jobs", 1, 1e7},
    {"days", Type::integer, "75", "days in which they are submitted", 1, 3650},
    {"gpus", Type::integer, "2490", "GPUs of the cluster", 1, 1e6},
    {"seed", Type::integer, "1", "another seed, another trace", 0, 9e18}};

}  // namespace

JobTrace synthesize_jobs(const SynthModel& model, const SynthOptions& options) {
  constexpr std::size_t kReportEvery = 1 << 14;
  JobTrace trace;
  trace.name = "gen:cluster";
  trace.format = "synth";
  trace.time_base = TimeBase::local;
  Weights sizes, users, statuses;
  std::vector<std::uint32_t> gpus;
  for (const SynthModel::Size& size : model.sizes) {
    if (size.gpus_hundredths > 100 * options.gpus) continue;
    sizes.add(size.weight);
    gpus.push_back(size.gpus_hundredths);
  }
  if (!sizes.any()) {
    throw ConfigError(fmt::format("no job fits {} GPUs; make the cluster larger", options.gpus));
  }
  for (std::uint32_t k = 1; k <= model.users; ++k) users.add(std::pow(k, -model.user_exponent));
  for (double weight : model.statuses) statuses.add(weight);
  const std::vector<TextId> user_names = names(trace.texts, "user", model.users);
  const std::vector<TextId> queue_names = names(trace.texts, "queue", model.queues);

  const Random random(options.seed);
  const std::vector<TraceTime> times = arrivals(model, options, random.split(kArrivals));
  Random size_draws = random.split(kSizes), duration_draws = random.split(kDurations);
  Random user_draws = random.split(kUsers), status_draws = random.split(kStatuses);
  trace.jobs.reserve(options.jobs);
  for (std::size_t i = 0; i < options.jobs; ++i) {
    if (options.progress && i % kReportEvery == 0) {
      options.progress(static_cast<double>(i) / static_cast<double>(options.jobs));
    }
    JobRecord& job = trace.jobs.emplace_back();
    job.id = trace.texts.keep(fmt::format("job{}", i + 1));
    job.submit_ns = times[i];
    job.gpus_hundredths = gpus[sizes.draw(size_draws)];
    job.duration_ns = duration_ns(model, job.gpus_hundredths, duration_draws);
    const std::size_t user = users.draw(user_draws);
    job.user = user_names[user];
    job.queue = queue_names[mix(user) % queue_names.size()];
    job.status = static_cast<JobStatus>(statuses.draw(status_draws));
  }
  start_jobs(trace.jobs, options.gpus);
  trace.rows = trace.jobs.size();
  return trace;
}

JobTrace open_job_trace(const std::string& name, const JobReadOptions& options) {
  if (!is_generator(name)) return read_job_trace(name, options);
  if (generator_kind(name) != "cluster") {
    throw ConfigError(
        fmt::format("'{}' makes no jobs; write gen:cluster, or the name of a file", name));
  }
  const Parameters parameters = generator_parameters(name, kParameters);
  const auto number = [&](std::string_view parameter) {
    return static_cast<std::uint64_t>(parameters.integer(parameter));
  };
  SynthOptions synth{number("jobs"), number("days"), number("gpus"), number("seed"),
                     options.progress};
  JobTrace trace = synthesize_jobs(usual_job_model(), synth);
  trace.name = name;
  return trace;
}

}  // namespace batchflow::traces
