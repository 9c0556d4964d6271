#include "sim/report/chart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/numbers.h"
#include "sim/report/chart_csv.h"
#include "sim/report/html.h"

namespace batchflow::sim {

namespace {

constexpr double kWidth = 400;
constexpr double kLeft = 48;
constexpr double kRight = 392;
constexpr double kTop = 8;
constexpr double kBottom = 176;
constexpr double kHeight = 200;
constexpr int kTicks = 5;  // about

// About `count` round numbers from 0 up to `most`.
std::vector<double> ticks_up_to(double most, int count, Axis axis) {
  const double raw = most / count;
  double step = 0;
  if (axis == Axis::seconds && raw > 1) {
    for (const double nice :
         {1.,    2.,    5.,    10.,    20.,    30.,    60.,    120.,    300.,    600.,   1200.,
          1800., 3600., 7200., 14400., 21600., 43200., 86400., 172800., 432000., 864000.}) {
      step = nice;
      if (nice >= raw) break;
    }
  }
  if (step < raw) {
    const double power = std::pow(10, std::floor(std::log10(raw)));
    for (const double nice : {1., 2., 5., 10.}) {
      step = nice * power;
      if (step >= raw * 0.999) break;
    }
  }
  std::vector<double> ticks;
  for (int i = 0; i * step <= most * 1.0001; ++i) ticks.push_back(i * step);
  return ticks;
}

// The usual names of times, as far as the axis goes.
constexpr std::pair<double, const char*> kTimes[] = {
    {1, "1 s"},      {10, "10 s"},     {60, "1 min"},    {300, "5 min"},
    {600, "10 min"}, {1800, "30 min"}, {3600, "1 h"},    {10800, "3 h"},
    {36000, "10 h"}, {86400, "1 d"},   {864000, "10 d"}, {8640000, "100 d"}};

// All labels of a time axis have one unit, that of its end.
std::string time_label(double seconds, double most) {
  if (seconds == 0) return "0";
  if (most < 180) return fmt::format("{:g} s", seconds);
  if (most < 3 * 3600) return fmt::format("{:g} min", std::round(seconds / 6) / 10);
  if (most < 72 * 3600.0) return fmt::format("{:g} h", std::round(seconds / 360) / 10);
  return fmt::format("{:g} d", std::round(seconds / 8640) / 10);
}

std::string label(double value, double most, Axis axis) {
  return axis == Axis::seconds ? time_label(value, most) : axis_text(value, axis);
}

// Each line has a dash pattern of its own, so that more than colour tells lines apart.
std::string dashes(std::size_t index) {
  constexpr const char* patterns[] = {"", "7 3", "2 2", "9 3 2 3", "4 2", "1 2", "12 4", "5 2 1 2"};
  const std::string pattern = patterns[index % std::size(patterns)];
  return pattern.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", pattern);
}

std::string legend(const std::vector<Series>& series, bool areas) {
  std::string text = "<div class=\"legend\">";
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::string shape =
        areas ? fmt::format("<rect x=\"0\" y=\"0\" width=\"22\" height=\"10\" fill=\"var(--{})\"/>",
                            series[i].color)
              : fmt::format(
                    "<line x1=\"0\" y1=\"5\" x2=\"22\" y2=\"5\" stroke=\"var(--{})\" "
                    "stroke-width=\"2.5\"{}/>",
                    series[i].color, dashes(i));
    text += fmt::format("<span><svg viewBox=\"0 0 22 10\" aria-hidden=\"true\">{}</svg>{}</span>",
                        shape, escaped(series[i].name));
  }
  return text + "</div>";
}

std::string figure(const std::string& title, const std::string& beside, const std::string& csv,
                   const std::string& content) {
  std::string lines;
  for (std::size_t at = 0; at < csv.size();) {
    const std::size_t end = csv.find('\n', at);
    lines += escaped(csv.substr(at, end - at)) + "&#10;";
    at = end + 1;
  }
  return fmt::format(
      "<figure data-csv=\"{}\"><figcaption>{}{}</figcaption>{}</figure>\n", lines, escaped(title),
      beside.empty() ? "" : fmt::format(" <small>{}</small>", escaped(beside)), content);
}

// Maps values to points of the picture.
struct Plot {
  double x_from;
  double x_to;
  double y_top;
  double y_least = 0;  // 0: the y axis is even

  double x(double value) const {
    const double span = x_to > x_from ? x_to - x_from : 1;
    return kLeft + (value - x_from) / span * (kRight - kLeft);
  }
  double y(double value) const {
    const double share =
        y_least > 0 ? std::log(std::max(value, y_least) / y_least) / std::log(y_top / y_least)
                    : value / y_top;
    return kBottom - std::clamp(share, 0.0, 1.0) * (kBottom - kTop);
  }
};

// The next one above or below.
double power_of_ten(double value, bool above) {
  const double power = std::log10(value);
  return std::pow(10, above ? std::ceil(power - 1e-9) : std::floor(power + 1e-9));
}

std::vector<double> y_ticks(const Plot& plot, Axis axis) {
  if (plot.y_least <= 0) return ticks_up_to(plot.y_top, kTicks, axis);
  std::vector<double> ticks;
  for (double tick = plot.y_least; tick <= plot.y_top * 1.001; tick *= 10) ticks.push_back(tick);
  return ticks;
}

Plot plot_of(const Chart& chart) {
  double top = chart.top;
  if (top <= 0) {
    std::vector<double> sums(chart.x.size(), 0);
    for (const Series& line : chart.series) {
      for (std::size_t i = 0; i < line.values.size(); ++i) {
        if (std::isnan(line.values[i])) continue;
        const double margin = i < line.margins.size() ? line.margins[i] : 0;
        sums[i] =
            chart.stacked ? sums[i] + line.values[i] : std::max(sums[i], line.values[i] + margin);
      }
    }
    for (const double sum : sums) top = std::max(top, sum);
    if (chart.limit) top = std::max(top, *chart.limit);
    top = std::max(top, chart.highest);
    const auto ticks = ticks_up_to(top > 0 ? top : 1, kTicks, chart.y);
    const double step = ticks.size() > 1 ? ticks[1] : 1;
    top = std::max(step, std::ceil(top / step * 0.999) * step);
  }
  double y_least = 0;
  if (chart.least > 0) {
    y_least = power_of_ten(chart.least, false);
    top = std::max(10 * y_least, power_of_ten(top, true));
  }
  const auto [least, most] = std::minmax_element(chart.x.begin(), chart.x.end());
  if (chart.x.empty()) return {0, 1, top, y_least};
  return {chart.x_axis == Axis::seconds ? 0 : *least, *most, top, y_least};
}

std::string axes(const Chart& chart, const Plot& plot) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const double tick : y_ticks(plot, chart.y)) {
    fmt::format_to(out,
                   "<line class=\"rule\" x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\"/>"
                   "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>",
                   kLeft, kRight, plot.y(tick), kLeft - 5, plot.y(tick) + 4,
                   label(tick, plot.y_top, chart.y));
  }
  fmt::format_to(out, "<line class=\"axis\" x1=\"{0}\" y1=\"{2}\" x2=\"{1}\" y2=\"{2}\"/>", kLeft,
                 kRight, kBottom);
  std::vector<double> ticks = chart.x;
  std::vector<std::string> names = chart.x_labels;
  if (chart.x_axis == Axis::log_seconds) {
    ticks.clear();
    for (const auto& [seconds, name] : kTimes) {
      if (std::log10(seconds) > plot.x_to) break;
      if (std::log10(seconds) < plot.x_from - 1e-9) continue;
      ticks.push_back(std::log10(seconds));
      names.emplace_back(name);
    }
  } else if (names.empty()) {
    ticks = ticks_up_to(plot.x_to, 6, chart.x_axis);
    for (const double tick : ticks) names.push_back(label(tick, plot.x_to, chart.x_axis));
  }
  double last = -100;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double tick = ticks[i];
    if (plot.x(tick) - last < 48) continue;
    last = plot.x(tick);
    const bool end = last > kRight - 20;
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{}</text>",
                   end ? kWidth - 1 : last, kBottom + 16, end ? "end" : "middle",
                   escaped(names[i]));
  }
  if (chart.limit) {
    fmt::format_to(out,
                   "<line class=\"limit\" x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\"/>",
                   kLeft, kRight, plot.y(*chart.limit));
  }
  return text;
}

std::string lines(const Chart& chart, const Plot& plot) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    std::string points;
    for (std::size_t i = 0; i < series.values.size(); ++i) {
      if (std::isnan(series.values[i])) continue;
      const double x = plot.x(chart.x[i]);
      const double y = plot.y(series.values[i]);
      points += fmt::format("{:.1f},{:.2f} ", x, y);
      if (chart.marks) {
        fmt::format_to(out, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"var(--{})\"/>", x,
                       y, series.color);
      }
      if (i < series.margins.size() && series.margins[i] > 0) {
        const double high = plot.y(series.values[i] + series.margins[i]);
        const double low = plot.y(series.values[i] - series.margins[i]);
        fmt::format_to(out,
                       "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {1:.1f}h8M{3:.1f} {2:.1f}h8\" "
                       "stroke=\"var(--{4})\" fill=\"none\"/>",
                       x, high, low, x - 4, series.color);
      }
    }
    if (points.empty()) continue;
    fmt::format_to(out,
                   "<polyline class=\"series\" points=\"{}\" stroke=\"var(--{})\"{} "
                   "data-name=\"{}\"/>",
                   points, series.color, dashes(s), escaped(series.name));
  }
  return text;
}

std::string areas(const Chart& chart, const Plot& plot) {
  std::string text;
  std::vector<double> below(chart.x.size(), 0);
  for (const Series& series : chart.series) {
    std::string upper;
    std::string lower;
    for (std::size_t i = 0; i < chart.x.size(); ++i) {
      const double value = std::isnan(series.values[i]) ? 0 : series.values[i];
      upper += fmt::format("{:.1f},{:.2f} ", plot.x(chart.x[i]), plot.y(below[i] + value));
      lower = fmt::format("{:.1f},{:.2f} ", plot.x(chart.x[i]), plot.y(below[i])) + lower;
      below[i] += value;
    }
    text +=
        fmt::format("<polygon class=\"area\" points=\"{}{}\" fill=\"var(--{})\" data-name=\"{}\"/>",
                    upper, lower, series.color, escaped(series.name));
  }
  return text;
}

constexpr const char* kind_of(Axis axis) {
  constexpr const char* names[] = {"count", "bytes", "rate", "ratio", "seconds", "log-seconds"};
  static_assert(std::size(names) == static_cast<std::size_t>(Axis::log_seconds) + 1);
  return names[static_cast<std::size_t>(axis)];
}

}  // namespace

std::string color_of(std::size_t index) {
  return fmt::format("c{}", index % kColors);
}

std::string axis_text(double value, Axis axis) {
  if (axis == Axis::ratio) return fmt::format("{:g} %", std::round(value * 1000) / 10);
  if (axis == Axis::seconds) return time_text(value);
  constexpr std::pair<double, const char*> units[] = {
      {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  const std::string unit = axis == Axis::bytes ? "B" : axis == Axis::rate ? "B/s" : "";
  for (const auto& [size, name] : units) {
    if (std::abs(value) >= size * 0.9995)
      return fmt::format("{:.3g} {}{}", value / size, name, unit);
  }
  return fmt::format("{:.3g}{}{}", value, unit.empty() ? "" : " ", unit);
}

std::string line_chart(const Chart& chart) {
  const Plot plot = plot_of(chart);
  return figure(
      chart.title, chart.beside, csv_of(chart),
      legend(chart.series, chart.stacked) +
          fmt::format(
              "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" "
              "data-plot=\"{} {} {} {}\" data-x=\"{} {}\" data-top=\"{}\" data-least=\"{}\" "
              "data-kind=\"{}\" data-xkind=\"{}\" data-xname=\"{}\" data-labels=\"{}\" "
              "data-at=\"{}\">{}{}"
              "<line class=\"cursor\" x1=\"0\" x2=\"0\" y1=\"{}\" y2=\"{}\"/></svg>",
              kWidth, kHeight, escaped(chart.title), kLeft, kTop, kRight, kBottom, plot.x_from,
              plot.x_to, plot.y_top, plot.y_least, kind_of(chart.y), kind_of(chart.x_axis),
              escaped(chart.x_name), escaped(fmt::format("{}", fmt::join(chart.x_labels, "|"))),
              chart.x_labels.empty() ? "" : fmt::format("{}", fmt::join(chart.x, " ")),
              chart.stacked ? areas(chart, plot) : "",
              axes(chart, plot) + (chart.stacked ? "" : lines(chart, plot)), kTop, kBottom));
}

std::string distribution_chart(const std::string& title, const std::string& beside,
                               std::vector<NamedValues> groups) {
  constexpr std::size_t kPoints = 160;
  double least = INFINITY;
  double longest = 1;
  for (NamedValues& group : groups) {
    std::sort(group.values.begin(), group.values.end());
    if (group.values.empty()) continue;
    least = std::min(least, group.values.front());
    longest = std::max(longest, group.values.back());
  }
  Chart chart;
  chart.title = title;
  chart.beside = beside;
  chart.y = Axis::ratio;
  chart.top = 1;
  chart.x_axis = Axis::log_seconds;
  // From the last power of ten before the first value, so that the lines have the width.
  const double from = least >= 1 && least < INFINITY ? std::floor(std::log10(least)) : 0;
  const double to = std::max(from + 1, std::log10(longest));
  for (std::size_t i = 0; i <= kPoints; ++i) {
    chart.x.push_back(from + (to - from) * static_cast<double>(i) / static_cast<double>(kPoints));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<double>& values = groups[g].values;
    if (values.empty()) continue;
    Series series{groups[g].name, color_of(g), {}};
    for (const double x : chart.x) {
      const double at_s = std::pow(10, x) * (1 + 1e-12);
      const auto below = std::upper_bound(values.begin(), values.end(), at_s) - values.begin();
      series.values.push_back(static_cast<double>(below) / static_cast<double>(values.size()));
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

// ------------------------------------------------------------------------------------ bars ----

std::string bar_chart(const Bars& bars) {
  constexpr double kRow = 38;
  constexpr double kBarRight = 398;
  double most = 0;
  std::vector<Series> names;  // for the legend
  for (const auto& [name, parts] : bars.rows) {
    double sum = 0;
    for (const Part& part : parts) {
      sum += part.value;
      const bool known = std::any_of(names.begin(), names.end(),
                                     [&](const Series& line) { return line.name == part.name; });
      if (!known && part.value > 0) names.push_back({part.name, part.color, {}});
    }
    most = std::max(most, sum);
  }
  std::string text;
  double y = 0;
  for (const auto& [name, parts] : bars.rows) {
    text += fmt::format("<text class=\"on\" x=\"1\" y=\"{}\">{}</text>", y + 11, escaped(name));
    double x = 1;
    for (const Part& part : parts) {
      const double wide = most > 0 ? part.value / most * (kBarRight - 1) : 0;
      if (wide > 0) {
        text += fmt::format(
            "<rect class=\"area\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"16\" "
            "fill=\"var(--{})\"><title>{}: {}</title></rect>",
            x, y + 15, wide, part.color, escaped(part.name), axis_text(part.value, bars.axis));
      }
      x += wide;
    }
    y += kRow;
  }
  return figure(
      bars.title, bars.beside, csv_of(bars),
      legend(names, true) + fmt::format("<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" "
                                        "aria-label=\"{}\">{}</svg>",
                                        kWidth, y, escaped(bars.title), text));
}

std::string part_bar(const std::vector<Part>& parts, const std::string& about) {
  double sum = 0;
  for (const Part& part : parts) sum += part.value;
  std::string text = fmt::format(
      "<svg class=\"parts\" viewBox=\"0 0 150 13\" role=\"img\" "
      "aria-label=\"{0}\"><title>{0}</title>",
      escaped(about));
  double x = 0;
  for (const Part& part : parts) {
    const double wide = sum > 0 ? part.value / sum * 150 : 0;
    if (wide > 0) {
      text += fmt::format(
          "<rect x=\"{:.2f}\" y=\"0\" width=\"{:.2f}\" height=\"13\" fill=\"var(--{})\"/>", x, wide,
          part.color);
    }
    x += wide;
  }
  return text + "</svg>";
}

// -------------------------------------------------------------------------------- heat map ----

namespace {

std::string heat_table(const HeatMap& map, double least, double most) {
  std::vector<Column> columns{{"", "", true}};
  for (const std::string& x : map.x) columns.push_back({x});
  std::vector<std::vector<Cell>> rows;
  for (std::size_t j = 0; j < map.y.size(); ++j) {
    std::vector<Cell> row{text_cell(map.y[j])};
    for (const double value : map.values[j]) {
      Cell cell;
      if (!std::isnan(value)) {
        const double share = most > least ? (value - least) / (most - least) : 0.5;
        cell.html = fmt::format(
            "<span class=\"heat\" style=\"background:color-mix(in srgb,var(--c0) {:.0f}%,"
            "var(--paper))\">{}</span>",
            5 + 55 * share, escaped(map.text(value)));
      }
      row.push_back(std::move(cell));
    }
    rows.push_back(std::move(row));
  }
  return html_table(columns, rows);
}

}  // namespace

std::string heat_maps(const std::vector<HeatMap>& maps) {
  double least = INFINITY;
  double most = -INFINITY;
  for (const HeatMap& map : maps) {
    for (const auto& row : map.values) {
      for (const double value : row) {
        if (std::isnan(value)) continue;
        least = std::min(least, value);
        most = std::max(most, value);
      }
    }
  }
  std::string text;
  for (const HeatMap& map : maps) {
    text += figure(map.title, fmt::format("down: {}; across: {}", map.y_name, map.x_name),
                   csv_of(map), heat_table(map, least, most));
  }
  return text;
}

}  // namespace batchflow::sim
