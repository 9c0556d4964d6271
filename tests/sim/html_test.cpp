// The report of `run --html`: one file that needs no other, with the figures of the JSON.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/report/chart.h"
#include "sim/report/html.h"
#include "sim/report/over_time.h"
#include "sim/simulate.h"
#include "tests/sim/markup.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::html_test {

namespace {

using nlohmann::json;
using sim::can_simulate;

const std::string kHostile = "<script>alert('1')</script> & \"]]>";

std::string yaml_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "''" : std::string(1, c);
  return result + "'";
}

std::string scenario() {
  return "name: " + yaml_quoted(kHostile) +
         "\ncluster: {nodes: [{name: node, cores: 2, gpus: 4, memory: 1gb}],"
         " store: {bytes_per_s: 1mb}}\n"
         "datasets: [{name: data, samples: 640, bytes: 10kb}]\n"
         "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]\n"
         "jobs:\n"
         "- {name: " +
         yaml_quoted(kHostile) +
         ", dataset: data, pipeline: train, batch: 16, step: 20ms}\n"
         "- {name: slow, dataset: data, pipeline: train, batch: 16, step: 50ms, ranks: 2}\n"
         "grain: {items_per_block: 16}\n";
}

double number(const std::string& text) {
  return std::stod(text);
}

}  // namespace

TEST_CASE("the checks of markup notice what is wrong with it") {
  CHECK(markup_problem("<a><b c=\"<\"/></a>") != "");
  CHECK(markup_problem("<a><b></a></b>") != "");
  CHECK(markup_problem("<a>x & y</a>") != "");
  CHECK(markup_problem("<a b=c></a>") != "");
  CHECK(markup_problem("<a>") != "");
  CHECK(markup_problem("<a><b c=\"&lt;\"/>&amp;<![CDATA[ < & ]]></a>") == "");
  CHECK(sim::escaped("<a href=\"x\">&'\x01") == "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\\x01");
}

TEST_CASE("a report stands alone, says what the JSON says, and lets no name through") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", scenario());
  const std::string html_path = folder.name("report.html");
  const Outcome outcome =
      run({"run", path, "--policy", "preset=independent,default", "--json", "--html", html_path});
  REQUIRE(outcome.code == 0);
  const std::string html = content(html_path);
  check_stands_alone(html);
  CHECK(html.find(kHostile.substr(0, 8)) == html.rfind("<script>//<![CDATA["));
  CHECK(html.find("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;") != std::string::npos);

  const auto figures = figures_of(html);
  std::size_t next = 0;
  std::size_t seen = 0;
  const json runs = json::parse(outcome.out)["runs"];
  REQUIRE(runs.size() == 2);
  for (const json& one : runs) {
    for (; figures[next].first != "seed"; ++next, ++seen) {
      const auto& [field, value] = figures[next];
      CAPTURE(field);
      const json& of = one["aggregate"].contains(field) ? one["aggregate"] : one;
      CHECK(of.at(field).get<double>() == number(value));
    }
    CHECK(one["seed"] == number(figures[next++].second));
  }
  CHECK(seen == 2 * 15);
  for (const json& one : runs) {
    for (const json& job : one["jobs"]) {
      double waited = 0;
      for (std::size_t i = 0; i < 15; ++i, ++next) {
        const auto& [field, value] = figures[next];
        CAPTURE(field);
        const bool is_wait = i >= 8;
        const json& of = is_wait ? job["waited"].at(field + "_s") : job.at(field);
        CHECK(of.get<double>() == number(value));
        if (is_wait) waited += number(value);
      }
      CHECK(waited == doctest::Approx(job["stall_s"].get<double>()).epsilon(1e-9));
    }
  }
  for (const json& one : runs) CHECK(one["digest"] == figures[next++].second);
  CHECK(next == figures.size());
}

TEST_CASE("an interval that reaches below the least power of ten ends at the axis") {
  sim::Chart chart;
  chart.x_axis = sim::Axis::count;
  chart.x = {1, 2};
  chart.least = 0.1;
  chart.series = {{"stall", "c0", {0.5, 1}, {0.6, 0.1}}};
  const std::string figure = sim::line_chart(chart);
  CHECK(figure.find("nan") == std::string::npos);
  CHECK(figure.find("<path d=\"M48.0 ") != std::string::npos);
}

TEST_CASE("a report that cannot be written is refused before anything runs") {
  CHECK(run({"run", "four-jobs", "--html", "/nowhere/r.html"}).code == 2);
}

TEST_CASE("sums over time become rates within spans, and end where the run ends") {
  output::RunResult run;
  run.makespan_s = 3;
  run.series.resize(3);
  run.series[1].time_s = 1;
  run.series[1].samples = 10;
  run.series[2].time_s = 3;
  run.series[2].samples = 50;
  const sim::Sum samples = [](const output::SeriesPoint& point) {
    return static_cast<double>(point.samples);
  };
  CHECK(sim::at_time(run, samples, 2) == 30);
  const auto rates = sim::rates(run, sim::Spans(4, 4), samples);
  CHECK(rates[0] == 10);
  CHECK(rates[1] == 20);
  CHECK(rates[2] == 20);
  CHECK(std::isnan(rates[3]));
}

}  // namespace batchflow::test::html_test
