#include "sim/sweep_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "programs/output/terminal.h"
#include "sim/common_setup.h"
#include "sim/run_report.h"
#include "sim/variants.h"

namespace batchflow::sim {

Estimate SweepResults::estimate(std::size_t point, const Figure& figure) const {
  std::vector<double> values;
  for (std::size_t i = point * plan.seeds; i < (point + 1) * plan.seeds; ++i) {
    if (runs[i] && runs[i]->failure.empty()) values.push_back(figure.value(*runs[i]));
  }
  return values.empty() ? Estimate{std::nan(""), 0, 0} : sim::estimate(values);
}

std::size_t SweepResults::count() const {
  std::size_t count = 0;
  for (const auto& run : runs) count += run.has_value();
  return count;
}

std::vector<output::RunResult> SweepResults::finished() const {
  std::vector<output::RunResult> all;
  for (const auto& run : runs) {
    if (run) all.push_back(*run);
  }
  return all;
}

std::string estimate_text(const Estimate& estimate, const Figure& figure) {
  if (estimate.count == 0) return "-";
  const std::string mean = figure.text(estimate.mean);
  return std::isfinite(estimate.margin)
             ? fmt::format("{} +- {}", mean, figure.text(estimate.margin))
             : mean;
}

std::string sweep_table(const SweepResults& results) {
  const StudyPlan& plan = results.plan;
  std::vector<std::vector<std::string>> rows{{}};
  for (const StudyAxis& axis : plan.axes) rows.front().push_back(output::printable(axis.name));
  if (plan.axes.empty()) rows.front().emplace_back("study");
  for (const std::string& name : plan.figures) rows.front().emplace_back(figure_named(name).name);
  std::string failures;
  for (std::size_t point = 0; point < plan.points.size(); ++point) {
    std::vector<std::string> row;
    for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
      row.push_back(output::printable(plan.value(point, axis)));
    }
    if (plan.axes.empty()) row.push_back(output::printable(plan.name));
    for (const std::string& name : plan.figures) {
      const Figure& figure = figure_named(name);
      row.push_back(estimate_text(results.estimate(point, figure), figure));
    }
    rows.push_back(std::move(row));
  }
  for (const auto& run : results.runs) {
    if (!run || run->failure.empty()) continue;
    failures += fmt::format("{}, seed {}: failed: {}\n", run_name(*run), run->seed,
                            output::printable(run->failure));
  }
  std::string text = aligned(rows) + "\n" + common_lines(results.finished()) + failures;
  if (plan.seeds > 1) {
    text += interval_text(plan.seeds, results.finished());
  }
  return text + fmt::format("{} of {} runs\n", results.count(), plan.runs.size());
}

std::string sweep_json(const SweepResults& results) {
  using Json = nlohmann::ordered_json;
  const StudyPlan& plan = results.plan;
  const std::vector<output::RunResult> runs = results.finished();
  Json json;
  Json& study = json["study"];
  study = {{"name", plan.name},
           {"about", plan.about},
           {"seeds", plan.seeds},
           {"runs", plan.runs.size()}};
  study["axes"] = Json::array();
  for (const StudyAxis& axis : plan.axes) {
    study["axes"].push_back({{"name", axis.name}, {"values", axis.values}});
  }
  study["policies"] = Json::object();  // of all runs
  for (const auto& [kind, policy] : fixed_policies(runs)) study["policies"][kind] = policy;
  json["points"] = Json::array();
  for (std::size_t point = 0; point < plan.points.size(); ++point) {
    Json point_json{{"values", Json::object()}, {"figures", Json::object()}};
    for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
      point_json["values"][plan.axes[axis].name] = plan.value(point, axis);
    }
    for (const Figure* one : figures_in(runs)) {
      const Figure& figure = *one;
      const Estimate estimate = results.estimate(point, figure);
      if (estimate.count == 0) continue;
      Json& entry = point_json["figures"][figure.field];
      entry = {{"mean", estimate.mean}, {"count", estimate.count}};
      if (std::isfinite(estimate.margin)) entry["margin"] = estimate.margin;
    }
    json["points"].push_back(std::move(point_json));
  }
  return output::text_of(output::results_json(
      runs, "sweep", BATCHFLOW_VERSION,
      with_common_setup(runs, json.dump(-1, ' ', false, Json::error_handler_t::replace))));
}

std::string sweep_csv(const SweepResults& results) {
  const StudyPlan& plan = results.plan;
  std::vector<std::string> names;
  for (const StudyAxis& axis : plan.axes) names.push_back(axis.name);
  std::vector<output::RunResult> runs;
  std::vector<std::vector<std::string>> values;
  for (std::size_t i = 0; i < results.runs.size(); ++i) {
    if (!results.runs[i]) continue;
    runs.push_back(*results.runs[i]);
    std::vector<std::string>& row = values.emplace_back();
    for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
      row.push_back(plan.value(plan.point_of(i), axis));
    }
  }
  return output::runs_csv(runs, names, values);
}

}  // namespace batchflow::sim
