#include "programs/input/workload_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "core/base/names.h"
#include "core/base/random.h"

namespace batchflow::input {

namespace {

std::string text_of(const Spread& spread, const char* unit) {
  if (spread.ratio == 0) return "";
  constexpr std::string_view kShapes[] = {"lognormal", "exponential", "normal", "uniform"};
  return fmt::format(", {} {} by {}", unit, kShapes[static_cast<std::size_t>(spread.shape)],
                     spread.ratio);
}

std::string seconds_text(Duration duration) {
  return fmt::format("{} s", std::chrono::duration<double>(duration).count());
}

std::string summary_of(const ArrivalModel& arrivals) {
  switch (arrivals.process) {
    case ArrivalModel::Process::poisson:
      return fmt::format("{} records a second by chance", arrivals.per_s);
    case ArrivalModel::Process::even:
      return fmt::format("{} records a second", arrivals.per_s);
    case ArrivalModel::Process::bursts:
      return fmt::format("{} records a second for {}, and then none for {}", arrivals.per_s,
                         seconds_text(arrivals.burst), seconds_text(arrivals.pause));
    case ArrivalModel::Process::recorded:
      break;
  }
  Digest rates = 0;
  for (const ArrivalModel::Rate& rate : arrivals.recorded)
    rates = hash(rates, rate.from.count(), std::bit_cast<std::uint64_t>(rate.per_s));
  return fmt::format("records at {} recorded rates, digest {:016x}", arrivals.recorded.size(),
                     rates);
}

std::string summary_of(const LiveModel& live) {
  std::string text = ", which grow by " + summary_of(live.arrivals);
  const auto add = [&](bool said, const std::string& what) {
    if (said) text += ", " + what;
  };
  add(live.ends_after.count() > 0, "until " + seconds_text(live.ends_after));
  add(live.lag.count() > 0, "lag " + seconds_text(live.lag) + text_of(live.lag_spread, "lags"));
  add(live.lost > 0, fmt::format("{} of them are lost", live.lost));
  add(live.late_after.count() > 0, "late after " + seconds_text(live.late_after));
  add(true, fmt::format("a log of {} bytes", live.keep));
  add(!live.can_wait, "producers cannot wait");
  add(true, "durable after " + seconds_text(live.sync));
  add(live.classes > 0, fmt::format("{} classes", live.classes));
  add(live.class_every > 0, fmt::format("another class each {} records", live.class_every));
  return text;
}

std::string summary_of(const LiveReading& live) {
  if (live.fills_from == 0) return "waits for records";
  const std::string how = live.fills_cut
                              ? "are short"
                              : fmt::format("are filled from the last {} records", live.fills_from);
  return fmt::format("batches {} after {}", how, seconds_text(live.fills_after));
}

std::string summary_of(const PipelineModel& pipeline) {
  std::vector<std::string> steps;
  for (const StepModel& step : pipeline.steps) {
    const std::string a_byte =
        step.ns_per_byte > 0 ? fmt::format(" and {} ns a byte", step.ns_per_byte) : "";
    const Size& output = step.output;
    const std::string to =
        output.relative ? fmt::format("{} of its input", static_cast<double>(output.ratio.parts) /
                                                             static_cast<double>(Ratio::kWhole))
                        : fmt::format("{} bytes", output.bytes);
    steps.push_back(fmt::format("{}{} takes {}{} and gives {}", step.name,
                                step.random ? " (random)" : "", seconds_text(step.cost), a_byte,
                                to));
  }
  std::string text = steps.empty() ? "no steps" : fmt::format("{}", fmt::join(steps, ", "));
  text += text_of(pipeline.spread, "costs");
  if (pipeline.slow.fraction > 0)
    text += fmt::format(", {} of the samples take {} times as long", pipeline.slow.fraction,
                        pipeline.slow.times);
  return text;
}

// What differs from what jobs have unless they say something else comes last.
std::string summary_of(const Scenario& scenario, const JobModel& job) {
  std::string text = fmt::format(
      "{} ranks on {} by {}, {}, batch {}, {} epochs, a step takes {}, arrives at {}", job.ranks,
      scenario.datasets[static_cast<std::size_t>(job.dataset)].name,
      scenario.pipelines[static_cast<std::size_t>(job.pipeline)].name, name_of(job.order),
      job.batch, job.epochs, seconds_text(job.step), seconds_text(job.arrives.time_since_epoch()));
  text += text_of(job.step_spread, "steps");
  const auto add = [&](bool said, const std::string& what) {
    if (said) text += ", " + what;
  };
  add(!job.user.empty(), "of " + job.user);
  add(job.has_shuffle_seed, fmt::format("shuffle_seed {}", job.shuffle_seed));
  add(job.drop_last, "drop_last");
  add(job.node_local, "node_local");
  add(job.runs, "runs");
  add(job.order == Order::live && job.exemplars == 0, summary_of(job.live));
  add(job.order == Order::live && job.exemplars > 0,
      fmt::format("batches are filled from {} exemplars after {}", job.exemplars,
                  seconds_text(job.live.fills_after)));
  add(job.live.from_newest, "begins with the newest record");
  add(job.rehearsed > 0, job.order == Order::live
                             ? fmt::format("{} rehearsed in each batch", job.rehearsed)
                             : fmt::format("{} rehearsed of {}", job.rehearsed, job.exemplars));
  add(!job.mixture.policy.empty(), "weights by " + job.mixture.policy);
  add(job.importance.reports(), "reports scores");
  add(job.steps > 0, fmt::format("{} steps", job.steps));
  add(job.samples_in_all > 0, fmt::format("{} samples in all", job.samples_in_all));
  add(job.credits > 0, fmt::format("{} credits", job.credits));
  add(job.weight != 1, fmt::format("weight {}", job.weight));
  add(job.latency_target.count() > 0, "latency_target " + seconds_text(job.latency_target));
  add(job.start_up.count() > 0, "start_up " + seconds_text(job.start_up));
  add(job.leaves_after.count() > 0, "leaves after " + seconds_text(job.leaves_after));
  return text;
}

}  // namespace

std::string summary_of(const DatasetModel& dataset) {
  if (dataset.compute_only)
    return fmt::format("{} samples, made where they are used", dataset.samples);
  return fmt::format("{} samples of {} bytes{}{}", dataset.samples, dataset.bytes,
                     text_of(dataset.bytes_spread, "sizes"),
                     dataset.live ? summary_of(*dataset.live) : "");
}

WorkloadSummary summary_of_workload(const Scenario& scenario) {
  WorkloadSummary summary;
  for (const DatasetModel& dataset : scenario.datasets)
    summary.emplace_back("dataset " + dataset.name, summary_of(dataset));
  for (const PipelineModel& pipeline : scenario.pipelines)
    summary.emplace_back("pipeline " + pipeline.name, summary_of(pipeline));
  const std::size_t shown = std::min(scenario.jobs.size(), kJobsSummed);
  for (std::size_t i = 0; i < shown; ++i)
    summary.emplace_back("job " + scenario.jobs[i].name, summary_of(scenario, scenario.jobs[i]));
  if (shown == scenario.jobs.size()) return summary;
  Digest rest = 0;
  for (std::size_t i = shown; i < scenario.jobs.size(); ++i)
    for (const char c : scenario.jobs[i].name + summary_of(scenario, scenario.jobs[i]) + "\n")
      rest = hash(rest, static_cast<unsigned char>(c));
  summary.emplace_back("more jobs",
                       fmt::format("{}, digest {:016x}", scenario.jobs.size() - shown, rest));
  return summary;
}

}  // namespace batchflow::input
