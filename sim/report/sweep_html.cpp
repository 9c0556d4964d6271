#include "sim/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/config_value.h"
#include "sim/common_setup.h"
#include "sim/report/chart.h"
#include "sim/report/figure_axes.h"
#include "sim/report/html.h"
#include "sim/variants.h"

namespace batchflow::sim {

namespace {

constexpr std::size_t kLinesMost = kColors;

bool is_policy(const StudyAxis& axis) {
  return axis.name == "policy";
}

// The last part of a path, where no other path ends with it.
std::string short_name(const StudyPlan& plan, std::size_t axis) {
  const auto end = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  const std::string& path = plan.axes[axis].name;
  const auto same = std::count_if(plan.axes.begin(), plan.axes.end(), [&](const StudyAxis& other) {
    return end(other.name) == end(path);
  });
  return same == 1 && path.find(',') == std::string::npos ? end(path) : path;
}

// The index of the point with these indices.
std::size_t point_at(const StudyPlan& plan, const std::vector<std::size_t>& indices) {
  std::size_t point = 0;
  for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
    point = point * plan.axes[axis].values.size() + indices[axis];
  }
  return point;
}

std::string name_without(const StudyPlan& plan, const std::vector<std::size_t>& indices,
                         const std::vector<std::size_t>& left_out) {
  std::string name;
  for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
    if (std::find(left_out.begin(), left_out.end(), axis) != left_out.end()) continue;
    const std::string& value = plan.axes[axis].values[indices[axis]];
    name += name.empty() ? "" : ", ";
    name += is_policy(plan.axes[axis]) ? value : short_name(plan, axis) + "=" + value;
  }
  return name.empty() ? "all runs" : name;
}

// Calls `see(indices)` for every combination of all axes but the axes left out, which stay at 0.
template <class See>
void for_each_other(const StudyPlan& plan, const std::vector<std::size_t>& left_out, See see) {
  std::vector<std::size_t> indices(plan.axes.size(), 0);
  for (;;) {
    see(indices);
    std::size_t axis = plan.axes.size();
    for (;;) {
      if (axis == 0) return;
      --axis;
      if (std::find(left_out.begin(), left_out.end(), axis) != left_out.end()) continue;
      if (++indices[axis] < plan.axes[axis].values.size()) break;
      indices[axis] = 0;
    }
  }
}

// `1500mb`, `2s`, `0.5`, `8`: what a setting is as a number.
std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, problem] = std::from_chars(text.data(), end, number);
  if (problem == std::errc() && last == end) return number;
  if (const auto bytes = parse_bytes(text)) return static_cast<double>(*bytes);
  if (const auto time = parse_duration(text)) return static_cast<double>(time->count());
  return std::nullopt;
}

// Where the values of an axis stand: as far apart as they are, by their logarithms if the greatest
// is many times the least. Words stand evenly.
std::vector<double> positions_of(const StudyAxis& axis) {
  std::vector<double> positions;
  for (const std::string& value : axis.values) {
    const auto number = number_of(value);
    if (!number) break;
    positions.push_back(*number);
  }
  const bool numbers = positions.size() == axis.values.size() && positions.size() > 1 &&
                       std::is_sorted(positions.begin(), positions.end()) &&
                       positions.front() < positions.back();
  if (numbers) return spaced(std::move(positions));
  positions.resize(axis.values.size());
  std::iota(positions.begin(), positions.end(), 0.);
  return positions;
}

// What all charts of a figure have as their y axis.
Scale scale_of(const SweepResults& results, const Figure& figure) {
  std::vector<Estimate> all;
  for (std::size_t point = 0; point < results.plan.points.size(); ++point)
    all.push_back(results.estimate(point, figure));
  return scale_of(all);
}

// The figure against one axis, a line for each combination of the others.
std::string against(const SweepResults& results, const Figure& figure, std::size_t axis) {
  const StudyPlan& plan = results.plan;
  Chart chart;
  const Scale scale = scale_of(results, figure);
  chart.highest = scale.top;
  chart.least = scale.least;
  chart.title = fmt::format("{} by {}", figure.name, plan.axes[axis].name);
  chart.y = axis_of(figure);
  chart.x_axis = Axis::count;
  chart.x_name = plan.axes[axis].name;
  chart.x_labels = plan.axes[axis].values;
  chart.marks = true;
  chart.x = positions_of(plan.axes[axis]);
  std::size_t lines = 0;
  for_each_other(plan, {axis}, [&](std::vector<std::size_t> indices) {
    if (++lines > kLinesMost) return;
    Series series{name_without(plan, indices, {axis}), color_of(chart.series.size()), {}, {}};
    for (std::size_t i = 0; i < plan.axes[axis].values.size(); ++i) {
      indices[axis] = i;
      const Estimate estimate = results.estimate(point_at(plan, indices), figure);
      series.values.push_back(estimate.mean);
      series.margins.push_back(std::isfinite(estimate.margin) ? estimate.margin : 0);
    }
    chart.series.push_back(std::move(series));
  });
  chart.beside = plan.seeds > 1 ? "95 % intervals" : "";
  if (lines > kLinesMost) chart.beside += fmt::format(" (the first {} of {})", kLinesMost, lines);
  return line_chart(chart);
}

// The figure over two axes, a map for each combination of the others.
std::string maps(const SweepResults& results, const Figure& figure, std::size_t x, std::size_t y) {
  const StudyPlan& plan = results.plan;
  std::vector<HeatMap> all;
  std::size_t count = 0;
  for_each_other(plan, {x, y}, [&](std::vector<std::size_t> indices) {
    if (++count > kLinesMost) return;
    HeatMap map;
    map.title = fmt::format("{}: {}", figure.name, name_without(plan, indices, {x, y}));
    map.text = figure.text;
    map.x_name = plan.axes[x].name;
    map.y_name = plan.axes[y].name;
    map.x = plan.axes[x].values;
    map.y = plan.axes[y].values;
    for (std::size_t j = 0; j < map.y.size(); ++j) {
      map.values.emplace_back();
      for (std::size_t i = 0; i < map.x.size(); ++i) {
        indices[x] = i;
        indices[y] = j;
        map.values.back().push_back(results.estimate(point_at(plan, indices), figure).mean);
      }
    }
    all.push_back(std::move(map));
  });
  return heat_maps(all);
}

std::string plots(const SweepResults& results, const Figure& figure) {
  const StudyPlan& plan = results.plan;
  std::vector<std::size_t> swept;  // axes of settings; policies are lines of a plot
  for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
    if (!is_policy(plan.axes[axis]) && plan.axes[axis].values.size() > 1) swept.push_back(axis);
  }
  if (swept.empty() && !plan.axes.empty()) swept.push_back(plan.axes.size() - 1);
  std::string text;
  if (swept.size() == 2) text += maps(results, figure, swept[1], swept[0]);
  for (const std::size_t axis : swept) text += against(results, figure, axis);
  return text;
}

std::string table(const SweepResults& results) {
  const StudyPlan& plan = results.plan;
  std::vector<Column> columns;
  for (const StudyAxis& axis : plan.axes) columns.push_back({axis.name, "", true});
  const std::vector<output::RunResult> finished = results.finished();
  const std::vector<const Figure*> shown = figures_in(finished);
  for (const Figure* figure : shown) columns.push_back({figure->name, figure->help});
  columns.push_back({"runs"});
  std::vector<std::vector<Cell>> rows;
  for (std::size_t point = 0; point < plan.points.size(); ++point) {
    std::vector<Cell> row;
    for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
      row.push_back(text_cell(plan.value(point, axis)));
    }
    std::size_t count = 0;
    for (const Figure* one : shown) {
      const Figure& figure = *one;
      const Estimate estimate = results.estimate(point, figure);
      count = estimate.count;
      if (count == 0) {
        row.push_back(text_cell("-"));
        continue;
      }
      Cell cell = figure_cell(figure.text(estimate.mean), figure.field, estimate.mean);
      if (std::isfinite(estimate.margin)) cell.beside = "\u00b1 " + figure.text(estimate.margin);
      row.push_back(std::move(cell));
    }
    row.push_back(text_cell(fmt::format("{}", count)));
    rows.push_back(std::move(row));
  }
  return html_table(columns, rows);
}

}  // namespace

std::string sweep_html(const SweepResults& results) {
  const StudyPlan& plan = results.plan;
  std::string body =
      fmt::format("<h1>{}</h1>\n<p>{}</p>\n", escaped(plan.name), escaped(plan.about));
  body += fmt::format("<p>{} of {} runs: {} points, {} each.</p>\n", results.count(),
                      plan.runs.size(), plan.points.size(),
                      plan.seeds == 1 ? "one seed" : fmt::format("{} seeds", plan.seeds));
  if (const auto fixed = fixed_policies(results.finished()); !fixed.empty())
    body += fmt::format("<p>Policies in all runs: {}.</p>\n", escaped(policies_text(fixed)));
  if (!plan.axes.empty()) {
    std::string charts;
    for (const std::string& name : plan.figures) charts += plots(results, figure_named(name));
    body += html_section("plots", "By what was varied",
                         "Charts of one figure have one scale. Numbers stand as far apart as they "
                         "are, by powers where the greatest is many times the least.",
                         "<div class=\"grid\">\n" + charts + "</div>\n");
  }
  body +=
      html_section("points", "All points",
                   plan.seeds > 1 ? "Means over the seeds, with 95 % intervals (Student's t)." : "",
                   table(results));
  body += common_html(results.finished());
  return html_page(plan.name + " - batchflow-sim sweep", body);
}

}  // namespace batchflow::sim
