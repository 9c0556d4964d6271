#include "tools/live/chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "programs/output/terminal.h"

namespace batchflow::live {
namespace {

constexpr int kLeft = 190, kWidth = 480, kBar = 20, kGap = 16, kTop = 20;
constexpr const char* kColours[] = {"#9aa5b1", "#2f6fdb", "#2c8c5a", "#b4572e"};

std::string chart(const std::vector<std::string>& jobs, const std::vector<Bars>& ways) {
  double most = 1;
  for (const Bars& way : ways)
    for (const double rate : way.samples_per_s) most = std::max(most, rate);
  const int group = static_cast<int>(ways.size()) * kBar + kGap;
  const int height = kTop + static_cast<int>(jobs.size()) * group;
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"samples a second of each job\">\n",
      kLeft + kWidth + 90, height);
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const int top = kTop + static_cast<int>(job) * group;
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 10,
                       top + (group - kGap) / 2 + 5, output::escaped(jobs[job]));
    for (std::size_t way = 0; way < ways.size(); ++way) {
      const double rate = ways[way].samples_per_s[job];
      const int y = top + static_cast<int>(way) * kBar;
      const double length = rate / most * kWidth;
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>"
          "<text x=\"{:.1f}\" y=\"{}\">{:.0f}</text>\n",
          kLeft, y, length, kBar - 3, kColours[way % std::size(kColours)], kLeft + length + 6,
          y + 13, rate);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace

std::string chart_page(const std::vector<std::string>& jobs, const std::vector<Bars>& ways) {
  std::string legend;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    legend += fmt::format(
        "<li><b style=\"background:{}\"></b>{}: {:.1f} s in all, {:.0f} samples prepared</li>\n",
        kColours[way % std::size(kColours)], output::escaped(ways[way].served), ways[way].total_s,
        ways[way].prepared);
  }
  return fmt::format(R"(<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Jobs on one service</title>
<style>
  body {{ font: 15px system-ui, sans-serif; max-width: 52em; margin: 2em auto; padding: 0 1em;
         color-scheme: light dark; }}
  svg text {{ font-size: 14px; fill: currentColor; }}
  li {{ list-style: none; }} ul {{ padding: 0; }}
  li b {{ display: inline-block; width: 1em; height: 1em; margin-right: .5em; }}
</style>
<h1>Samples a second of each job</h1>
<ul>
{}</ul>
{}</html>
)",
                     legend, chart(jobs, ways));
}

}  // namespace batchflow::live
