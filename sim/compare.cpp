#include "sim/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "programs/output/terminal.h"
#include "sim/numbers.h"
#include "sim/run_report.h"
#include "sim/variants.h"

namespace batchflow::sim {

namespace {

std::string name_of(const Group& group) {
  return output::printable(group.label.empty() ? group.scenario
                                               : group.scenario + ", " + group.label);
}

bool same_seeds(const Group& a, const Group& b) {
  return std::equal(
      a.runs.begin(), a.runs.end(), b.runs.begin(), b.runs.end(),
      [](const output::RunResult* x, const output::RunResult* y) { return x->seed == y->seed; });
}

std::vector<double> values(const Group& group, const Figure& figure) {
  std::vector<double> values;
  for (const output::RunResult* run : group.runs) values.push_back(figure.value(*run));
  return values;
}

// The jobs of one name in all runs of a group.
struct JobSums {
  double time_s = 0;
  double stall_s = 0;
  double count = 0;
};
using SumsByName = std::map<std::string_view, JobSums>;

SumsByName job_sums(const Group& group) {
  SumsByName sums;
  for (const output::RunResult* run : group.runs) {
    for (const output::JobResult& job : run->jobs) {
      JobSums& sum = sums[job.name];
      sum.time_s += job.time_s;
      sum.stall_s += job.stall_s;
      ++sum.count;
    }
  }
  return sums;
}

std::vector<JobPair> job_pairs(const Group& a, const Group& b) {
  const SumsByName sums_a = job_sums(a);
  const SumsByName sums_b = job_sums(b);
  std::vector<JobPair> pairs;
  for (const output::JobResult& job : a.runs.front()->jobs) {
    const auto in_b = sums_b.find(job.name);
    if (in_b == sums_b.end()) continue;
    const JobSums& x = sums_a.at(job.name);
    const JobSums& y = in_b->second;
    pairs.push_back({job.name, x.time_s / x.count, y.time_s / y.count, x.stall_s / x.count,
                     y.stall_s / y.count});
  }
  return pairs;
}

Match match(const Group& a, const Group& b) {
  Match match{a, b, same_seeds(a, b), {}, job_pairs(a, b)};
  for (const Figure& figure : figures()) {
    const std::vector<double> of_a = values(a, figure);
    const std::vector<double> of_b = values(b, figure);
    match.figures.push_back(
        {&figure, estimate(of_a).mean, estimate(of_b).mean,
         match.paired ? paired_difference(of_a, of_b) : difference(of_a, of_b)});
  }
  return match;
}

std::string ratio_text(double a, double b) {
  return a == b ? "1.000" : a != 0 ? fmt::format("{:.3f}", b / a) : "-";
}

std::string difference_text(const FigurePair& pair, double value) {
  return fmt::format("{}{}", value < 0 ? "-" : "+", pair.figure->text(std::abs(value)));
}

std::string figure_rows(const Match& match) {
  const bool sure = std::isfinite(match.figures.front().difference.margin);
  std::vector<std::vector<std::string>> rows{{"", "A", "B", "B - A", "B / A"}};
  if (sure) rows.front().insert(rows.front().end(), {"95 % interval of B - A", ""});
  for (const FigurePair& pair : match.figures) {
    const Estimate& difference = pair.difference;
    std::vector<std::string> row{pair.figure->name, pair.figure->text(pair.a),
                                 pair.figure->text(pair.b), difference_text(pair, difference.mean),
                                 ratio_text(pair.a, pair.b)};
    if (sure) {
      row.push_back(difference_text(pair, difference.mean - difference.margin) + " to " +
                    difference_text(pair, difference.mean + difference.margin));
      row.push_back(is_significant(difference) ? "differs" : "");
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

std::string job_rows(const Match& match) {
  constexpr std::size_t kJobsMost = 40;
  std::vector<std::vector<std::string>> rows{
      {"job", "time A", "time B", "B / A", "stall A", "stall B", "B / A"}};
  for (std::size_t i = 0; i < std::min(match.jobs.size(), kJobsMost); ++i) {
    const JobPair& job = match.jobs[i];
    rows.push_back({output::printable(job.name), time_text(job.time_a_s), time_text(job.time_b_s),
                    ratio_text(job.time_a_s, job.time_b_s), time_text(job.stall_a_s),
                    time_text(job.stall_b_s), ratio_text(job.stall_a_s, job.stall_b_s)});
  }
  std::string text = aligned(rows);
  if (match.jobs.size() > kJobsMost) {
    text += fmt::format("... and {} more; --json lists all\n", match.jobs.size() - kJobsMost);
  }
  return text;
}

}  // namespace

std::vector<Group> groups_of(const std::vector<output::RunResult>& runs) {
  std::vector<Group> groups;
  for (const output::RunResult& run : runs) {
    auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.scenario == run.scenario && group.label == run.label;
    });
    if (found == groups.end()) found = groups.insert(found, Group{run.scenario, run.label, {}});
    found->runs.push_back(&run);
  }
  for (Group& group : groups) {
    std::stable_sort(
        group.runs.begin(), group.runs.end(),
        [](const output::RunResult* a, const output::RunResult* b) { return a->seed < b->seed; });
  }
  return groups;
}

Comparison compare(const std::vector<output::RunResult>& a,
                   const std::vector<output::RunResult>& b) {
  Comparison result;
  result.policies_a = fixed_policies(a);
  result.policies_b = fixed_policies(b);
  const std::vector<Group> of_a = groups_of(a);
  std::vector<Group> of_b = groups_of(b);
  const bool one_each = of_a.size() == 1 && of_b.size() == 1;
  for (const Group& group : of_a) {
    const auto found = std::find_if(of_b.begin(), of_b.end(), [&](const Group& other) {
      return one_each || (other.scenario == group.scenario && other.label == group.label);
    });
    if (found == of_b.end()) {
      result.only_a.push_back(group);
    } else {
      result.matches.push_back(match(group, *found));
      of_b.erase(found);
    }
  }
  result.only_b = std::move(of_b);
  return result;
}

std::string comparison_table(const Comparison& comparison) {
  const auto file = [](const std::string& name, const auto& policies) {
    const std::string fixed = policies_text(policies);
    return output::printable(name) + (fixed.empty() ? "" : fmt::format(" ({} in all runs)", fixed));
  };
  std::string text = fmt::format("A: {}\nB: {}\n", file(comparison.name_a, comparison.policies_a),
                                 file(comparison.name_b, comparison.policies_b));
  for (const Match& match : comparison.matches) {
    const std::string a = name_of(match.a);
    const std::string b = name_of(match.b);
    text += fmt::format(
        "\n{}{}\n", a == b ? a : a + " against " + b,
        match.a.runs.size() > 1 || match.b.runs.size() > 1
            ? fmt::format(" (runs: {} and {}{})", match.a.runs.size(), match.b.runs.size(),
                          match.paired ? ", of the same seeds" : "")
            : "");
    text += figure_rows(match);
    if (comparison.matches.size() == 1 && !match.jobs.empty()) text += "\n" + job_rows(match);
  }
  for (const Group& group : comparison.only_a) text += "\nonly in A: " + name_of(group);
  for (const Group& group : comparison.only_b) text += "\nonly in B: " + name_of(group);
  return text + (text.ends_with('\n') ? "" : "\n");
}

std::string comparison_json(const Comparison& comparison) {
  using Json = nlohmann::ordered_json;
  const auto names = [](const Group& group) {
    return Json{{"scenario", group.scenario}, {"label", group.label}, {"runs", group.runs.size()}};
  };
  Json json{{"command", "compare"},
            {"version", BATCHFLOW_VERSION},
            {"a", comparison.name_a},
            {"b", comparison.name_b}};
  for (const auto& [name, policies] : {std::pair("policies_a", &comparison.policies_a),
                                       std::pair("policies_b", &comparison.policies_b)}) {
    json[name] = Json::object();
    for (const auto& [kind, policy] : *policies) json[name][kind] = policy;
  }
  json["matches"] = Json::array();
  for (const Match& match : comparison.matches) {
    Json row{{"a", names(match.a)}, {"b", names(match.b)}, {"paired", match.paired}};
    for (const FigurePair& pair : match.figures) {
      const Estimate& difference = pair.difference;
      Json figure{{"a", pair.a}, {"b", pair.b}, {"difference", difference.mean}};
      if (pair.a != 0) figure["ratio"] = pair.b / pair.a;
      if (std::isfinite(difference.margin)) {
        figure["margin"] = difference.margin;
        figure["significant"] = is_significant(difference);
      }
      row["figures"][pair.figure->field] = std::move(figure);
    }
    row["jobs"] = Json::array();
    for (const JobPair& job : match.jobs) {
      row["jobs"].push_back({{"name", job.name},
                             {"time_a_s", job.time_a_s},
                             {"time_b_s", job.time_b_s},
                             {"stall_a_s", job.stall_a_s},
                             {"stall_b_s", job.stall_b_s}});
    }
    json["matches"].push_back(std::move(row));
  }
  json["only_a"] = Json::array();
  json["only_b"] = Json::array();
  for (const Group& group : comparison.only_a) json["only_a"].push_back(names(group));
  for (const Group& group : comparison.only_b) json["only_b"].push_back(names(group));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace batchflow::sim
