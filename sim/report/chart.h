// Charts as SVG, drawn without a library: lines, stacked areas, points with error bars, heat maps.
// A colour is the name of a variable in html.cpp, so that it follows light and dark.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace batchflow::sim {

// What an axis counts: numbers, bytes, bytes a second, shares of one, seconds. The x axis may also
// count seconds by their logarithm; `x` then holds logarithms to the base of ten.
//
// Every figure holds its numbers, which the page offers as CSV beside the figure as SVG.
enum class Axis { count, bytes, rate, ratio, seconds, log_seconds };

struct Series {
  std::string name;
  std::string color;                 // `c0`, `storage` or the like
  std::vector<double> values;        // one for each x; a value that is no number is a gap
  std::vector<double> margins = {};  // half the length of error bars; empty: none
};

struct Chart {
  std::string title;
  std::string beside = {};  // after the title, smaller: the unit
  Axis y = Axis::count;
  Axis x_axis = Axis::seconds;
  std::string x_name = {};
  std::vector<double> x;
  std::vector<std::string> x_labels = {};  // of each x, instead of its value
  std::vector<Series> series;
  bool stacked = false;  // each series begins where the one before it ends
  bool marks = false;    // a dot at each value
  double top = 0;        // of the y axis; 0: what fits
  double highest = 0;    // a value elsewhere that must fit, too
  double least = 0;      // the y axis begins there and goes by powers of ten; 0: neither
  std::optional<double> limit = {};  // a line across
};

// A figure with its legend.
std::string line_chart(const Chart& chart);

// The share of values that are no greater than x, a line for each group that has values. They are
// seconds, on an axis by powers of ten.
struct NamedValues {
  std::string name;
  std::vector<double> values;
};
std::string distribution_chart(const std::string& title, const std::string& beside,
                               std::vector<NamedValues> groups);

struct Part {
  std::string name;
  std::string color;
  double value;
};
// Horizontal bars, one a row, each made of parts; all have one scale.
struct Bars {
  std::string title;
  std::string beside = {};
  Axis axis = Axis::ratio;
  std::vector<std::pair<std::string, std::vector<Part>>> rows;
};
std::string bar_chart(const Bars& bars);
// A small bar without words, for a table.
std::string part_bar(const std::vector<Part>& parts, const std::string& about);

struct HeatMap {
  std::string title;
  std::string (*text)(double);  // of a value
  std::string x_name;
  std::string y_name;
  std::vector<std::string> x;
  std::vector<std::string> y;
  std::vector<std::vector<double>> values;  // by y, then x; no number: none
};
// One map a figure; all have the same colours for the same values.
std::string heat_maps(const std::vector<HeatMap>& maps);

// A value as text, by what is counted: 1234567 as `1.23 M`, 0.5 as `50 %`.
std::string axis_text(double value, Axis axis);
// The colour of the i-th of several series.
std::string color_of(std::size_t index);
inline constexpr std::size_t kColors = 8;

}  // namespace batchflow::sim
