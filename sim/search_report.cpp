#include "sim/search_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "programs/output/terminal.h"
#include "sim/numbers.h"
#include "sim/run_report.h"
#include "sim/sweep_report.h"

namespace batchflow::sim {

const TriedValue& SearchResults::at(std::uint64_t value) const {
  const auto found = std::find_if(tried.begin(), tried.end(),
                                  [&](const TriedValue& one) { return one.value == value; });
  BF_CHECK(found != tried.end());
  return *found;
}

const TriedValue* SearchResults::best() const {
  const TriedValue* best = nullptr;
  double least = INFINITY;
  for (const TriedValue& one : tried) {
    if (one.meets || one.figures.empty()) continue;
    double distance = 0;
    for (std::size_t i = 0; i < conditions.size(); ++i)
      distance = std::max(distance, conditions[i].distance(one.figures[i].mean));
    if (distance >= least) continue;
    least = distance;
    best = &one;
  }
  return best;
}

std::string conditions_text(const SearchResults& results) {
  std::vector<std::string> texts;
  for (const Condition& condition : results.conditions) texts.push_back(condition.text);
  return output::printable(fmt::format("{}", fmt::join(texts, " and ")));
}

bool has_prices(const SearchResults& results) {
  return std::any_of(results.tried.begin(), results.tried.end(),
                     [](const TriedValue& one) { return one.price_per_hour > 0; });
}

namespace {

std::string figures_text(const SearchResults& results, const TriedValue& one) {
  if (one.figures.empty()) return one.remark;
  std::string text;
  for (std::size_t i = 0; i < results.conditions.size(); ++i) {
    const Figure& figure = *results.conditions[i].figure;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", figure.name,
                        estimate_text(one.figures[i], figure));
  }
  return text;
}

std::string money(const SearchResults& results, double price) {
  return price_text(price) +
         (results.currency.empty() ? "" : " " + output::printable(results.currency));
}

std::string rows(const SearchResults& results) {
  const bool priced = has_prices(results);
  std::vector<std::vector<std::string>> rows{{output::printable(results.setting.name)}};
  for (const Condition& condition : results.conditions)
    rows.front().emplace_back(condition.figure->name);
  rows.front().emplace_back("meets");
  if (priced) {
    for (const char* name : {"per hour", "cost of run", "of 10^6 samples"})
      rows.front().emplace_back(name);
  }
  std::string remarks;
  for (const TriedValue& one : results.tried) {
    std::vector<std::string> row{results.setting.text(one.value)};
    for (std::size_t i = 0; i < results.conditions.size(); ++i) {
      row.push_back(
          one.figures.empty() ? "-" : estimate_text(one.figures[i], *results.conditions[i].figure));
    }
    row.emplace_back(one.meets ? "yes" : "no");
    if (priced) {
      row.push_back(price_text(one.price_per_hour));
      for (const Estimate& cost : {one.cost, one.cost_per_million_samples})
        row.push_back(cost.count == 0 ? "-" : price_text(cost.mean));
    }
    rows.push_back(std::move(row));
    if (!one.remark.empty())
      remarks +=
          fmt::format("{}: {}\n", results.setting.text(one.value), output::printable(one.remark));
  }
  return aligned(rows) + remarks;
}

std::string answer_lines(const SearchResults& results) {
  const SearchedSetting& setting = results.setting;
  const std::string name = output::printable(setting.name);
  if (!results.answer) {
    std::string text = fmt::format("no value of {} from {} to {} meets {}", name,
                                   setting.text(setting.range.least),
                                   setting.text(setting.range.most), conditions_text(results));
    if (const TriedValue* best = results.best()) {
      text += fmt::format("; the nearest is {}: {}", setting.text(best->value),
                          output::printable(figures_text(results, *best)));
    }
    return text + "\n";
  }
  const TriedValue& found = results.at(*results.answer);
  std::string text = fmt::format("least {} for {}: {} ({})\n", name, conditions_text(results),
                                 setting.text(*results.answer), figures_text(results, found));
  if (results.below) {
    text += fmt::format("the next less that was tried, {}, does not do: {}\n",
                        setting.text(*results.below),
                        output::printable(figures_text(results, results.at(*results.below))));
  } else {
    text += "it is the least of the range; --between looks further down\n";
  }
  if (found.price_per_hour > 0) {
    text += fmt::format("its price: {} an hour", money(results, found.price_per_hour));
    if (found.cost.count > 0) {
      text += fmt::format(", {} for the run, {} for 10^6 samples", money(results, found.cost.mean),
                          money(results, found.cost_per_million_samples.mean));
    }
    text += "\n";
  }
  return text;
}

std::string order_lines(const SearchResults& results) {
  if (results.out_of_line.empty()) return "";
  std::vector<std::string> values;
  for (const std::uint64_t value : results.out_of_line)
    values.push_back(results.setting.text(value));
  return fmt::format(
      "it is not monotonic: {} met {} too, and a greater value did not; a value between those "
      "that were tried may do, and more --seeds may tell\n",
      fmt::join(values, ", "), conditions_text(results));
}

}  // namespace

std::string search_answer(const SearchResults& results) {
  return answer_lines(results) + order_lines(results);
}

std::string search_table(const SearchResults& results) {
  std::string text = results.label.empty() ? "" : output::printable(results.label) + "\n";
  text += rows(results) + "\n" + search_answer(results);
  if (results.seeds > 1) text += interval_text(results.seeds, {});
  return text;
}

std::string searches_json(const std::vector<SearchResults>& searches) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const SearchResults& results : searches) {
    Json json{{"least", results.setting.name},
              {"label", results.label},
              {"from", results.setting.range.least},
              {"to", results.setting.range.most},
              {"seeds", results.seeds},
              {"currency", results.currency}};
    for (const Condition& condition : results.conditions)
      json["conditions"].push_back(condition.text);
    json["answer"] = results.answer ? Json(*results.answer) : Json();
    json["below"] = results.below ? Json(*results.below) : Json();
    json["monotonic"] = results.out_of_line.empty();
    const TriedValue* best = results.best();
    json["nearest"] = !results.answer && best != nullptr ? Json(best->value) : Json();
    json["tried"] = Json::array();
    for (const TriedValue& one : results.tried) {
      Json row{{"value", one.value}, {"meets", one.meets}};
      row["figures"] = Json::object();
      for (std::size_t i = 0; i < one.figures.size(); ++i)
        row["figures"][results.conditions[i].figure->field] = one.figures[i].mean;
      row["remark"] = one.remark;
      if (one.price_per_hour > 0) row["price_per_hour"] = one.price_per_hour;
      if (one.cost.count > 0) {
        row["cost"] = one.cost.mean;
        row["cost_per_million_samples"] = one.cost_per_million_samples.mean;
      }
      json["tried"].push_back(std::move(row));
    }
    all.push_back(std::move(json));
  }
  return Json{{"searches", all}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace batchflow::sim
