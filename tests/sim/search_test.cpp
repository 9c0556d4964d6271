// `batchflow-sim search`: the search alone, on functions with known answers, and as users call it.
#include "sim/search.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/config_value.h"
#include "programs/input/yaml.h"
#include "sim/simulate.h"
#include "tests/sim/markup.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::search_test {

namespace {

using nlohmann::json;
using sim::LeastSearch;
using Values = std::vector<std::uint64_t>;

// Tries what the search wants until it wants no more; answers how many values that were.
template <class Meets>
std::size_t finish(LeastSearch& search, const Meets& meets) {
  std::size_t tried = 0;
  for (Values values = search.next(); !values.empty(); values = search.next()) {
    for (const std::uint64_t value : values) search.add(value, meets(value));
    tried += values.size();
    REQUIRE(tried < 1000);
  }
  return tried;
}

// Two jobs of four samples a step of 1 s, and preparation of 1 s a sample: a job needs four cores,
// both eight. Each waits 4 s for its first block, and then trains for 20 s: a stall of 16.7 %.
std::string two_jobs() {
  return "cluster: {nodes: [{name: node, cores: 4, gpus: 2, memory: 1gb}],\n"
         "  prices: {currency: EUR, node_hour: 360, core_hour: 36}}\n"
         "datasets: [{name: data, samples: 80, bytes: 1kb}]\n"
         "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1s}]}]\n"
         "jobs: [{dataset: data, pipeline: train, user: a, batch: 4, step: 1s},\n"
         "  {dataset: data, pipeline: train, user: b, batch: 4, step: 1s}]\n"
         "engine: {preset: independent}\n"
         "grain: {items_per_block: 4}\n";
}

}  // namespace

TEST_CASE("the least value is found exactly, in few tries, at any number of tries at once") {
  for (std::uint64_t answer : {1, 2, 37, 63, 64}) {
    for (std::size_t at_once : {1, 2, 3, 16}) {
      LeastSearch search({1, 64, false}, at_once);
      const std::size_t tried =
          finish(search, [&](std::uint64_t value) { return value >= answer; });
      CAPTURE(answer);
      CAPTURE(at_once);
      CHECK(search.answer() == answer);
      CHECK(search.out_of_line().empty());
      if (answer > 1) CHECK(search.below() == answer - 1);
      if (answer == 1) CHECK_FALSE(search.below().has_value());
      if (at_once == 1) CHECK(tried <= 2 + 6);  // both ends, and 64 = 2^6
    }
  }
}

TEST_CASE("bytes are found within 2 %, at values of three digits") {
  LeastSearch search({1'000'000, 64'000'000'000, true}, 2);
  finish(search, [](std::uint64_t value) { return value >= 7'654'321'000; });
  REQUIRE(search.answer().has_value());
  CHECK(*search.answer() >= 7'654'321'000);
  CHECK(*search.answer() <= 7'654'321'000 * 1.02);
  CHECK(*search.below() < 7'654'321'000);
  CHECK(*search.answer() % 10'000'000 == 0);
}

TEST_CASE("a condition that no value meets has no answer, and only the ends are tried") {
  LeastSearch search({1, 64, false}, 1);
  CHECK(finish(search, [](std::uint64_t) { return false; }) == 2);
  CHECK_FALSE(search.answer().has_value());
}

TEST_CASE("a search says which values met a condition below one that did not") {
  LeastSearch search({1, 9, false}, 16);  // all of them are tried
  finish(search, [](std::uint64_t value) { return value == 3 || value >= 6; });
  CHECK(search.answer() == 6);
  CHECK(search.out_of_line() == Values{3});
}

TEST_CASE("conditions are a figure, a sign and a limit") {
  const sim::Condition part = sim::parse_condition("stall_fraction<2%");
  CHECK(part.limit == doctest::Approx(0.02));
  CHECK(part.is_met(0.0199));
  CHECK_FALSE(part.is_met(0.02));
  CHECK(part.distance(0.03) == doctest::Approx(0.5));
  CHECK(sim::parse_condition("stall_fraction<=2%").is_met(0.02));
  CHECK(sim::parse_condition("jct_p95_s <= 10min").limit == 600);
  CHECK(sim::parse_condition("storage_bytes<3gb").limit == 3e9);
  CHECK(sim::parse_condition("samples_per_s>500").is_met(501));
  CHECK_FALSE(sim::parse_condition("samples_per_s>=500").is_met(499));
  for (const char* wrong : {"stall_fraction", "<2%", "stall_fraction<", "stall_fraction<3gb",
                            "jct_s<3gb", "stall_fraction<2%%"})
    CHECK_THROWS_AS(sim::parse_condition(wrong), ConfigError);
  CHECK_THROWS_WITH_AS(sim::parse_condition("stall_fractoin<2%"),
                       "--for 'stall_fractoin<2%': no figure 'stall_fractoin'; write one of the "
                       "JSON's fields, as stall_fraction",
                       ConfigError);
}

TEST_CASE("what is searched has a range that the cluster suggests") {
  const config::ConfigNode tree = input::parse_yaml(two_jobs(), "s.yaml");
  const sim::SearchedSetting cache = sim::searched_setting("cache", "", tree);
  CHECK(cache.paths == std::vector<std::string>{"cluster.nodes.0.cache"});
  CHECK(cache.range.most == 1'000'000'000);
  CHECK(cache.range.is_bytes);
  CHECK(sim::searched_setting("cores", "", tree).range.most == 16);
  CHECK(sim::searched_setting("nodes", "", tree).paths ==
        std::vector<std::string>{"cluster.nodes.0.count"});
  CHECK(sim::searched_setting("cluster.store.bytes_per_s", "1mb,1gb", tree).range.is_bytes);
  CHECK_THROWS_AS(sim::searched_setting("cluster.store.bytes_per_s", "", tree), ConfigError);
  CHECK_THROWS_AS(sim::searched_setting("core", "", tree), ConfigError);
  CHECK_THROWS_AS(sim::searched_setting("cores", "8,2", tree), ConfigError);
}

TEST_CASE("the least cores for two jobs that need four each are eight, with their price") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", two_jobs());
  const Outcome outcome = run({"search", path, "--least", "cores", "--for", "stall_fraction<18%",
                               "--between", "2,16", "-j", "2", "--json"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const json result = json::parse(outcome.out);
  const json& search = result["searches"][0];
  CHECK(search["answer"] == 8);
  CHECK(search["below"] == 7);
  CHECK(search["monotonic"] == true);
  for (const json& tried : search["tried"]) {
    // A node of 360 an hour, and 36 for each core.
    CHECK(tried["price_per_hour"] == 360 + 36 * tried["value"].get<int>());
    CHECK(tried["meets"] == (tried["value"] >= 8));
  }
  CHECK(outcome.err.find("least cores for stall_fraction<18%: 8") != std::string::npos);
  CHECK(outcome.err.find("its price: 648.00 EUR an hour") != std::string::npos);
  CHECK(result["runs"].size() == search["tried"].size());
  CHECK(result["same_in_all_runs"]["policies"]["preset"] == "independent");
}

TEST_CASE(
    "the report of searches has the question, the answers, and what the JSON has of all tried") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", two_jobs());
  const std::string html_path = folder.name("r.html");
  const Outcome outcome =
      run({"search", path, "--least", "cores", "--for", "stall_fraction<18%", "--for", "jct_s<1h",
           "--between", "2,16", "--policy", "preset=independent,default", "--seeds", "2", "--json",
           "--html", html_path});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const std::string html = content(html_path);
  check_stands_alone(html);
  for (const char* part :
       {"<h1>What is the least value of cores for stall_fraction&lt;18% and jct_s&lt;1h?</h1>",
        "<p class=\"answer\">least cores for stall_fraction&lt;18% and jct_s&lt;1h: 8 (",
        "the next less that was tried, 7, does not do", "Means over 2 seeds",
        "the dotted line is the limit of stall_fraction&lt;18%", "class=\"limit\"",
        "The same in all runs"}) {
    CAPTURE(part);
    CHECK(html.find(part) != std::string::npos);
  }
  const auto figures = figures_of(html);
  std::size_t next = 0;
  const json result = json::parse(outcome.out);
  for (const json& search : result["searches"]) {
    for (const json& tried : search["tried"]) {
      const auto check = [&](const char* field, const json& value) {
        REQUIRE(next < figures.size());
        CHECK(figures[next].first == field);
        CHECK(value.get<double>() == std::stod(figures[next++].second));
      };
      check("value", tried["value"]);
      check("stall_fraction", tried["figures"]["stall_fraction"]);
      check("jct_s", tried["figures"]["jct_s"]);
      for (const char* field : {"price_per_hour", "cost", "cost_per_million_samples"})
        check(field, tried[field]);
    }
  }
  CHECK(next == figures.size());
}

TEST_CASE("the report of a search says why a value cannot be, and lets no name through") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string html_path = folder.name("r.html");
  std::string scenario = two_jobs();
  scenario.replace(scenario.find("user: a"), 7, "user: a, name: '<b>&'");
  // A job of four samples does not fit a cache of a few bytes.
  const Outcome outcome = run({"search", folder.file("s.yaml", scenario), "--for",
                               "stall_fraction<90%", "--between", "1,1gb", "--html", html_path});
  CAPTURE(outcome.err);
  const std::string html = content(html_path);
  check_stands_alone(html);
  CHECK(html.find("<b>") == std::string::npos);
  CHECK(html.find("job &lt;b&gt;&amp; was refused") != std::string::npos);
  CHECK(run({"search", "four-jobs", "--for", "au>1", "--html", "/nowhere/r.html"}).code == 2);
}

TEST_CASE("a search that nothing answers says what came nearest, and fails") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const Outcome outcome = run({"search", folder.file("s.yaml", two_jobs()), "--least", "cores",
                               "--for", "stall_fraction<1%", "--between", "1,4"});
  CHECK(outcome.code == 1);
  CHECK(
      outcome.out.find("no value of cores from 1 to 4 meets stall_fraction<1%; the nearest is 4") !=
      std::string::npos);
}

TEST_CASE("a search that cannot be made is refused before anything runs") {
  const Folder folder;
  const std::string path = folder.file("s.yaml", two_jobs());
  check_refused({"search"}, "no scenario");
  check_refused({"search", path}, "--for 'stall_fraction<2%'");
  check_refused({"search", path, "--for", "stal<2%"}, "no figure 'stal'");
  check_refused({"search", path, "--for", "au>1", "--between", "1gb,64gb"}, "more than the");
  check_refused({"search", path, "--for", "au>1", "--least", "cash"}, "write cache");
}

}  // namespace batchflow::test::search_test
