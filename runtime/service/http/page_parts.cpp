#include "runtime/service/http/page_parts.h"

#include <algorithm>
#include <numeric>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

// A graph is so many units wide, one a second, and so many high.
constexpr double kGraphHeight = 60;
constexpr double kGraphSeconds =
    std::chrono::duration<double>(History::kEach * History::kPoints).count();

std::string_view class_of(std::size_t stage) {
  return stage_name(static_cast<Stage>(stage));
}

// Where on the graph a moment is: now is at its right edge.
double place_of(Instant at, Instant now) {
  return kGraphSeconds - std::chrono::duration<double>(now - at).count();
}

// The area between two lines, each with a height for every place.
std::string area(std::string_view colour, const std::vector<double>& places,
                 const std::vector<double>& low, const std::vector<double>& high) {
  std::string corners;
  const auto corner = [&](std::size_t i, double height) {
    corners += fmt::format("{:.1f},{:.1f} ", places[i], kGraphHeight * (1 - height));
  };
  for (std::size_t i = 0; i < places.size(); ++i) corner(i, high[i]);
  for (std::size_t i = places.size(); i-- > 0;) corner(i, low[i]);
  return fmt::format("<polygon class=\"{}\" points=\"{}\"/>", colour, corners);
}

std::string graph(std::string_view what, std::string_view areas) {
  return fmt::format(
      "<figure><figcaption>{0}</figcaption><svg class=\"graph\" viewBox=\"0 0 {1:.0f} {2:.0f}\" "
      "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{0}\">{3}</svg>"
      "<p class=\"ends\"><span>{4:.0f} min ago</span><span>now</span></p></figure>\n",
      what, kGraphSeconds, kGraphHeight, areas, kGraphSeconds / 60);
}

struct Course {
  std::vector<double> places;  // of the moments on the graph
  std::vector<Pace> paces;
};

Course course_of(const std::vector<HistoryPoint>& points) {
  Course course;
  for (std::size_t i = 1; i < points.size(); ++i) {
    course.places.push_back(std::max(0.0, place_of(points[i].at, points.back().at)));
    course.paces.push_back(pace_between(points[i - std::min(i, History::kRecent)], points[i]));
  }
  return course;
}

std::string pace_graph(std::string_view what, const Course& course) {
  double most = 0;
  for (const Pace& one : course.paces) most = std::max(most, one.samples_per_s);
  std::vector<double> heights;
  for (const Pace& one : course.paces) heights.push_back(share_of(one.samples_per_s, most));
  return graph(
      fmt::format("{}, at most {}", what, rate_text(most)),
      area("pace", course.places, std::vector<double>(course.places.size(), 0.0), heights));
}

std::string stall_graph(const Course& course) {
  std::vector<double> low(course.places.size(), 0.0);
  std::string areas;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    std::vector<double> high = low;
    for (std::size_t i = 0; i < high.size(); ++i) high[i] += course.paces[i].stalled[stage];
    areas += area(class_of(stage), course.places, low, high);
    low = std::move(high);
  }
  return graph("stalled, of the time of all ranks (full height: 100 %)", areas);
}

std::string graphs(const std::vector<HistoryPoint>& points, std::string_view all) {
  if (points.size() < 2) return "<p>There is no history yet.</p>\n";
  return fmt::format("<div class=\"graphs\">{}</div>\n", all);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string bytes_text(Bytes bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string rate_text(double samples_per_s) {
  return fmt::format("{:.{}f}", samples_per_s, samples_per_s > 0 && samples_per_s < 10 ? 1 : 0);
}

double share_of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

std::string tile(std::string_view value, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", value, what);
}

Table::Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}

void Table::add(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (std::size_t i = 0; i < columns_.size(); ++i)
    rows_ += fmt::format("<td data-column=\"{}\"><div>{}</div></td>", columns_[i], cells.at(i));
  rows_ += "</tr>\n";
}

std::string Table::take() && {
  std::string head;
  for (const std::string& column : columns_) head += fmt::format("<th>{}</th>", column);
  return fmt::format("<table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table>\n", head, rows_);
}

std::string use_bar(double share) {
  return fmt::format(
      "<svg class=\"bar\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
      "<rect class=\"use\" width=\"{:.1f}\" height=\"1\"/></svg>",
      100 * std::clamp(share, 0.0, 1.0));
}

std::string stage_bar(const std::vector<double>& stalled) {
  std::string parts;
  double begin = 0;
  for (std::size_t stage = 0; stage < stalled.size(); ++stage) {
    parts += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" width=\"{:.2f}\" height=\"1\"/>",
                         class_of(stage), 100 * begin, 100 * stalled[stage]);
    begin += stalled[stage];
  }
  return fmt::format(
      "<svg class=\"bar\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
      "{}</svg>",
      parts);
}

std::string stage_text(const std::vector<double>& stalled) {
  std::string text;
  for (std::size_t stage = 0; stage < stalled.size(); ++stage) {
    if (stalled[stage] < 0.0005) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", class_of(stage),
                        100 * stalled[stage]);
  }
  return text;
}

std::string stage_legend() {
  std::string out = "<p class=\"legend\">What ranks wait for:";
  for (std::size_t stage = 0; stage < kStages; ++stage)
    out += fmt::format(
        " <span><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"{0}\" "
        "width=\"1\" height=\"1\"/></svg> {0}</span>",
        class_of(stage));
  return out + "</p>\n";
}

std::string history_graphs(const std::vector<HistoryPoint>& points) {
  const Course course = course_of(points);
  return graphs(points, pace_graph("samples/s", course) + stall_graph(course));
}

std::string node_graphs(const std::vector<HistoryPoint>& delivered,
                        const std::vector<HistoryPoint>& prepared) {
  return graphs(delivered,
                pace_graph("samples/s delivered to this node's ranks", course_of(delivered)) +
                    pace_graph("samples/s prepared on this node", course_of(prepared)));
}

}  // namespace batchflow::service
