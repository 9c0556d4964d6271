#include "sim/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/check.h"
#include "core/base/config_value.h"
#include "sim/numbers.h"

namespace batchflow::sim {

namespace {

std::string bytes_text(double bytes) {
  return size_text(static_cast<Bytes>(bytes));
}
std::string whole_text(double count) {
  return count_text(static_cast<std::uint64_t>(count));
}

std::string ratio_text(double ratio) {
  return fmt::format("{:.2f}", ratio);
}

const Figure kFigures[] = {
    {"makespan", "makespan_s", Better::less,
     [](const output::RunResult& run) { return run.makespan_s; }, time_text,
     "until the last job was done"},
    {"samples/s", "samples_per_s", Better::more,
     [](const output::RunResult& run) { return run.aggregate.samples_per_s; }, rate_text,
     "of all jobs together"},
    {"stall", "stall_fraction", Better::less,
     [](const output::RunResult& run) { return run.aggregate.stall_fraction; }, percent,
     "part of ranks' time in which they waited for a batch"},
    {"AU", "au", Better::more, [](const output::RunResult& run) { return run.aggregate.au; },
     percent, "compute time over time, the first step excluded"},
    {"hits", "hit_ratio", Better::more,
     [](const output::RunResult& run) { return run.aggregate.hit_ratio; }, percent,
     "part of the samples that preparation asked for and that were not read from the store"},
    {"from storage", "storage_bytes", Better::less,
     [](const output::RunResult& run) { return static_cast<double>(run.aggregate.storage_bytes); },
     bytes_text, "bytes read from the store"},
    {"kept at most", "cached_bytes_most", Better::none,
     [](const output::RunResult& run) {
       return static_cast<double>(run.aggregate.cached_bytes_most);
     },
     bytes_text, "bytes in the caches of all nodes, in all forms, at any moment"},
    {"prepared", "preparations", Better::less,
     [](const output::RunResult& run) { return static_cast<double>(run.aggregate.preparations); },
     whole_text, "samples prepared"},
    {"core time", "preparation_s", Better::less,
     [](const output::RunResult& run) { return run.aggregate.preparation_s; }, time_text,
     "of preparation"},
    {"JCT", "jct_s", Better::less, [](const output::RunResult& run) { return run.aggregate.jct_s; },
     time_text, "from a job's arrival to its end, mean of the jobs that were done"},
    {"JCT p95", "jct_p95_s", Better::less,
     [](const output::RunResult& run) { return run.aggregate.jct_p95_s; }, time_text,
     "the same, of which 95 in 100 jobs needed no more"},
    {"slowdown", "slowdown", Better::less,
     [](const output::RunResult& run) { return run.aggregate.slowdown; }, ratio_text,
     "the same over the time that the job's GPUs computed, mean of the jobs"},
    {"fairness", "fairness", Better::more,
     [](const output::RunResult& run) { return run.aggregate.fairness; }, ratio_text,
     "Jain's index of the jobs' speeds over those they would have without waiting: 1 if all lose "
     "the same part"},
    {"fairness of users", "user_fairness", Better::more,
     [](const output::RunResult& run) { return run.aggregate.user_fairness; }, ratio_text,
     "Jain's index of users' speeds while they have GPUs over those without waiting"},
    {"cost", "cost", Better::less, [](const output::RunResult& run) { return run.aggregate.cost; },
     price_text, "of the cluster for as long as the run took, by the prices of its file"},
    {"cost of 10^6 samples", "cost_per_million_samples", Better::less,
     [](const output::RunResult& run) { return run.aggregate.cost_per_million_samples; },
     price_text, "the same over the samples that jobs trained on"},
    {"repeats", "repeats", Better::none,
     [](const output::RunResult& run) { return static_cast<double>(run.aggregate.repeats); },
     whole_text, "deliveries of a prepared sample to a job that had it before"},
    {"fills", "fill_ratio", Better::less,
     [](const output::RunResult& run) { return run.aggregate.fill_ratio; }, percent,
     "part of the samples of live jobs that filled a step for which too few records had come"},
    {"thinned", "thinned_ratio", Better::less,
     [](const output::RunResult& run) { return run.aggregate.thinned_ratio; }, percent,
     "part of the records that were left out, since their log had no room"},
    {"lag p50", "lag_p50_s", Better::less,
     [](const output::RunResult& run) { return run.aggregate.lag_p50_s; }, time_text,
     "from where a record is made until a job trains on it, of the live job with the longest"},
    {"lag p99", "lag_p99_s", Better::less,
     [](const output::RunResult& run) { return run.aggregate.lag_p99_s; }, time_text,
     "the same, which 99 in 100 records did not pass"},
    {"classes", "buffer_classes", Better::more,
     [](const output::RunResult& run) { return run.aggregate.buffer_classes; }, ratio_text,
     "that have an exemplar in a job's buffer in the end, mean of the jobs"},
    {"evenness", "buffer_evenness", Better::more,
     [](const output::RunResult& run) { return run.aggregate.buffer_evenness; }, ratio_text,
     "exemplars of the rarest of these over those of the most frequent"},
    {"age", "buffer_age", Better::none,
     [](const output::RunResult& run) { return run.aggregate.buffer_age; }, ratio_text,
     "how many samples ago exemplars came, as a part of all that came: 0.5 for a uniform choice"}};

bool is_of_buffer(const Figure& figure) {
  return std::string_view(figure.field).starts_with("buffer_");
}
bool is_of_live(const Figure& figure) {
  const std::string_view field = figure.field;
  return field.starts_with("lag_") || field == "fill_ratio" || field == "thinned_ratio";
}
bool has_buffer(const output::JobResult& job) {
  return job.buffer.exemplars > 0;
}

}  // namespace

std::span<const Figure> figures() {
  return kFigures;
}

bool is_known(const output::RunResult& run, const Figure& figure) {
  // Files of older versions say nothing of costs.
  const bool is_cost = std::string_view(figure.field).starts_with("cost");
  if (is_of_live(figure) && run.sources.empty()) return false;
  if (is_of_buffer(figure) && std::none_of(run.jobs.begin(), run.jobs.end(), has_buffer))
    return false;
  return output::is_measured(run, fmt::format("aggregate.{}", figure.field)) &&
         !(is_cost && figure.value(run) == 0);
}

std::vector<const Figure*> figures_in(std::span<const output::RunResult> runs) {
  std::vector<const Figure*> known;
  for (const Figure& figure : kFigures) {
    const bool in_one = std::any_of(runs.begin(), runs.end(), [&](const output::RunResult& run) {
      return is_known(run, figure);
    });
    if (in_one) known.push_back(&figure);
  }
  return known;
}

const Figure& figure_named(const std::string& field) {
  std::vector<std::string_view> names;
  for (const Figure& figure : kFigures) {
    if (field == figure.field) return figure;
    names.emplace_back(figure.field);
  }
  const std::string nearest = nearest_name(field, names);
  throw ConfigError(fmt::format("no figure '{}'; write one of {}", field,
                                nearest.empty() ? fmt::format("{}", fmt::join(names, ", "))
                                                : "the JSON's fields, as " + nearest));
}

namespace {

// Up to ten degrees of freedom from the tables; above, the expansion below is within 0.0002.
constexpr double kStudent[] = {12.7062047, 4.3026527, 3.1824463, 2.7764451, 2.5705818,
                               2.4469119,  2.3646243, 2.3060041, 2.2621572, 2.2281389};

struct Spread {
  double mean = 0;
  double variance = 0;  // the variance of the mean: that of the values, over their number
};

Spread spread(std::span<const double> values) {
  Spread result;
  for (const double value : values) result.mean += value / static_cast<double>(values.size());
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  const auto count = static_cast<double>(values.size());
  result.variance = squares / (count - 1) / count;
  return result;
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

double student_t(double freedom) {
  BF_CHECK(freedom >= 1);
  if (freedom <= std::size(kStudent)) {
    const auto below = static_cast<std::size_t>(freedom);
    const double low = kStudent[below - 1];
    if (below == std::size(kStudent)) return low;
    return low + (freedom - static_cast<double>(below)) * (kStudent[below] - low);
  }
  // The expansion of Cornish and Fisher, from the quantile of the normal distribution.
  const double z = 1.959963985;
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  const double z7 = z5 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

Estimate estimate(std::span<const double> values) {
  const Spread all = spread(values);
  const double margin = values.size() < 2 ? kInfinite
                                          : student_t(static_cast<double>(values.size()) - 1) *
                                                std::sqrt(all.variance);
  return {all.mean, margin, values.size()};
}

Estimate paired_difference(std::span<const double> a, std::span<const double> b) {
  BF_CHECK(a.size() == b.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(b[i] - a[i]);
  return estimate(differences);
}

Estimate difference(std::span<const double> a, std::span<const double> b) {
  const Spread of_a = spread(a);
  const Spread of_b = spread(b);
  Estimate result{of_b.mean - of_a.mean, kInfinite, a.size() + b.size()};
  if (a.size() < 2 || b.size() < 2) return result;
  const double sum = of_a.variance + of_b.variance;
  if (sum == 0) {
    result.margin = 0;
    return result;
  }
  const double freedom = sum * sum /
                         (of_a.variance * of_a.variance / static_cast<double>(a.size() - 1) +
                          of_b.variance * of_b.variance / static_cast<double>(b.size() - 1));
  result.margin = student_t(freedom) * std::sqrt(sum);
  return result;
}

bool is_significant(const Estimate& difference) {
  return std::abs(difference.mean) > difference.margin;
}

std::string interval_text(std::size_t seeds, std::span<const output::RunResult> runs) {
  std::size_t alike = 0, pairs = 0;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].seed == runs[i - 1].seed || runs[i].label != runs[i - 1].label) continue;
    ++pairs;
    alike += runs[i].digest == runs[i - 1].digest && runs[i].makespan_s == runs[i - 1].makespan_s;
  }
  std::string text = fmt::format("means of {} seeds, with 95 % intervals (Student's t)", seeds);
  if (alike > 0)
    text += fmt::format(
        "; {} varied with the seed, so {} intervals say nothing: see `jitter` of the scenario",
        alike == pairs ? "nothing" : "not all", alike == pairs ? "the" : "their");
  return text + "\n";
}

}  // namespace batchflow::sim
