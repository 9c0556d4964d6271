#include "sim/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/base/config_error.h"
#include "sim/run_report.h"
#include "sim/sizes.h"

namespace batchflow::sim {

namespace {

std::string bytes_text(double bytes) {
  return size_text(static_cast<Bytes>(bytes));
}
std::string whole_text(double count) {
  return count_text(static_cast<std::uint64_t>(count));
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
     "share of ranks' time in which they waited for a batch"},
    {"AU", "au", Better::more, [](const output::RunResult& run) { return run.aggregate.au; },
     percent, "compute time over time, the first step excluded"},
    {"hits", "hit_ratio", Better::more,
     [](const output::RunResult& run) { return run.aggregate.hit_ratio; }, percent,
     "share of the samples that preparation asked for and that were not read from the store"},
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
    {"repeats", "repeats", Better::none,
     [](const output::RunResult& run) { return static_cast<double>(run.aggregate.repeats); },
     whole_text, "deliveries of a prepared sample to a job that had it before"}};

}  // namespace

std::span<const Figure> figures() {
  return kFigures;
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

}  // namespace batchflow::sim
