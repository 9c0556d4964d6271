#include "sim/report/chart_csv.h"

#include <fmt/format.h>

#include <cmath>

namespace batchflow::sim {

namespace {

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "";
}

}  // namespace

std::string csv_of(const Chart& chart) {
  const bool logarithms = chart.x_axis == Axis::log_seconds;
  const bool seconds = logarithms || chart.x_axis == Axis::seconds;
  std::string text = csv_text(!chart.x_name.empty() ? chart.x_name : seconds ? "seconds" : "x");
  for (const Series& series : chart.series) {
    text += "," + csv_text(series.name);
    if (!series.margins.empty()) text += "," + csv_text(series.name + " +-");
  }
  text += "\n";
  for (std::size_t i = 0; i < chart.x.size(); ++i) {
    text += i < chart.x_labels.size()
                ? csv_text(chart.x_labels[i])
                : csv_number(logarithms ? std::pow(10, chart.x[i]) : chart.x[i]);
    for (const Series& series : chart.series) {
      text += "," + csv_number(i < series.values.size() ? series.values[i] : NAN);
      if (!series.margins.empty())
        text += "," + csv_number(i < series.margins.size() ? series.margins[i] : NAN);
    }
    text += "\n";
  }
  return text;
}

std::string csv_of(const Bars& bars) {
  std::string text = "row,part,value\n";
  for (const auto& [name, parts] : bars.rows) {
    for (const Part& part : parts) {
      text +=
          fmt::format("{},{},{}\n", csv_text(name), csv_text(part.name), csv_number(part.value));
    }
  }
  return text;
}

std::string csv_of(const HeatMap& map) {
  std::string text = csv_text(map.y_name + " / " + map.x_name);
  for (const std::string& x : map.x) text += "," + csv_text(x);
  text += "\n";
  for (std::size_t j = 0; j < map.y.size(); ++j) {
    text += csv_text(map.y[j]);
    for (const double value : map.values[j]) text += "," + csv_number(value);
    text += "\n";
  }
  return text;
}

}  // namespace batchflow::sim
