#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/common_setup.h"
#include "sim/numbers.h"
#include "sim/report/chart.h"
#include "sim/report/figure_axes.h"
#include "sim/report/html.h"
#include "sim/search_report.h"

namespace batchflow::sim {

namespace {

const TriedValue* find_tried(const SearchResults& results, std::uint64_t value) {
  for (const TriedValue& one : results.tried)
    if (one.value == value && !one.figures.empty()) return &one;
  return nullptr;
}

// The figure of a condition against what was tried, a line for each search, and the limit.
std::string condition_chart(const std::vector<SearchResults>& searches, std::size_t index) {
  const SearchedSetting& setting = searches.front().setting;
  const Condition& condition = searches.front().conditions[index];
  std::set<std::uint64_t> values;
  std::vector<Estimate> all{{condition.limit, 0, 1}};  // the limit must fit, too
  for (const SearchResults& results : searches) {
    for (const TriedValue& one : results.tried) {
      values.insert(one.value);
      if (!one.figures.empty()) all.push_back(one.figures[index]);
    }
  }
  Chart chart;
  chart.title = fmt::format("{} by {}", condition.figure->name, setting.name);
  chart.beside = fmt::format("the dotted line is the limit of {}{}", condition.text,
                             searches.front().seeds > 1 ? "; 95 % intervals" : "");
  chart.y = axis_of(*condition.figure);
  chart.x_axis = Axis::count;
  chart.x_name = setting.name;
  chart.marks = true;
  chart.limit = condition.limit;
  chart.highest = scale_of(all).top;
  chart.least = scale_of(all).least;
  std::vector<double> numbers(values.begin(), values.end());
  chart.x = spaced(numbers);
  for (const std::uint64_t value : values) chart.x_labels.push_back(setting.text(value));
  for (const SearchResults& results : searches) {
    Series series{results.label.empty() ? condition.figure->name : results.label,
                  color_of(chart.series.size()),
                  {},
                  {}};
    for (const std::uint64_t value : values) {
      const TriedValue* const one = find_tried(results, value);
      const Estimate estimate = one ? one->figures[index] : Estimate{NAN, 0, 0};
      series.values.push_back(estimate.mean);
      series.margins.push_back(std::isfinite(estimate.margin) ? estimate.margin : 0);
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

std::string tried_table(const SearchResults& results) {
  const bool priced = has_prices(results);
  std::vector<Column> columns{{results.setting.name}};
  for (const Condition& condition : results.conditions)
    columns.push_back({condition.figure->name, condition.figure->help});
  columns.push_back({"meets", "Whether all conditions hold", true});
  if (priced) {
    columns.push_back({"per hour", "The price of the cluster"});
    columns.push_back({"cost of run"});
    columns.push_back({"of 10^6 samples"});
  }
  const bool remarked = std::any_of(results.tried.begin(), results.tried.end(),
                                    [](const TriedValue& one) { return !one.remark.empty(); });
  if (remarked) columns.push_back({"remark", "", true});
  std::vector<std::vector<Cell>> rows;
  for (const TriedValue& one : results.tried) {
    std::vector<Cell> row{{results.setting.text(one.value), "value", fmt::format("{}", one.value)}};
    row.front().best = results.answer == one.value;
    for (std::size_t i = 0; i < results.conditions.size(); ++i) {
      if (one.figures.empty()) {
        row.push_back(text_cell("-"));
        continue;
      }
      const Figure& figure = *results.conditions[i].figure;
      const Estimate& estimate = one.figures[i];
      row.push_back(figure_cell(figure.text(estimate.mean), figure.field, estimate.mean));
      if (std::isfinite(estimate.margin))
        row.back().beside = "\u00b1 " + figure.text(estimate.margin);
    }
    row.push_back(text_cell(one.meets ? "yes" : "no"));
    if (priced) {
      row.push_back(
          figure_cell(price_text(one.price_per_hour), "price_per_hour", one.price_per_hour));
      const auto cost = [&](const char* field, const Estimate& estimate) {
        row.push_back(estimate.count == 0
                          ? text_cell("-")
                          : figure_cell(price_text(estimate.mean), field, estimate.mean));
      };
      cost("cost", one.cost);
      cost("cost_per_million_samples", one.cost_per_million_samples);
    }
    if (remarked) row.push_back(text_cell(one.remark));
    rows.push_back(std::move(row));
  }
  return html_table(columns, rows);
}

// A paragraph for each line; the first, which answers, stands out.
std::string answer_html(const SearchResults& results) {
  const std::string lines = search_answer(results);
  std::string text =
      results.label.empty() ? "" : fmt::format("<h3>{}</h3>\n", escaped(results.label));
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    text += fmt::format("<p{}>{}</p>\n", at == 0 ? " class=\"answer\"" : "",
                        escaped(lines.substr(at, end - at)));
    at = end + 1;
  }
  return text;
}

}  // namespace

std::string searches_html(const std::vector<SearchResults>& searches,
                          std::span<const output::RunResult> runs) {
  const SearchResults& first = searches.front();
  const std::string question = fmt::format("What is the least value of {} for {}?",
                                           first.setting.name, conditions_text(first));
  std::string body = fmt::format("<h1>{}</h1>\n", escaped(question));
  std::string charts, tables;
  for (const SearchResults& results : searches) {
    body += answer_html(results);
    if (!results.label.empty()) tables += fmt::format("<h3>{}</h3>\n", escaped(results.label));
    tables += tried_table(results);
  }
  for (std::size_t i = 0; i < first.conditions.size(); ++i) charts += condition_chart(searches, i);
  body += html_section("plots", "What was tried",
                       fmt::format("From {} to {}. Values stand as far apart as they are, by "
                                   "powers where the greatest is many times the least.",
                                   first.setting.text(first.setting.range.least),
                                   first.setting.text(first.setting.range.most)),
                       "<div class=\"grid\">\n" + charts + "</div>\n");
  body += html_section(
      "tried", "All values",
      fmt::format(
          "A star marks the answer.{}",
          first.seeds > 1
              ? fmt::format(" Means over {} seeds, with 95 % intervals (Student's t).", first.seeds)
              : ""),
      tables);
  body += common_html(runs);
  return html_page(question + " - batchflow-sim search", body);
}

}  // namespace batchflow::sim
