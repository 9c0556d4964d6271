// A comparison as a table for people, and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "programs/output/terminal.h"
#include "sim/compare.h"
#include "sim/numbers.h"
#include "sim/run_report.h"
#include "sim/variants.h"

namespace batchflow::sim {

namespace {

std::string name_of(const Group& group) {
  return output::printable(group.label.empty() ? group.scenario
                                               : group.scenario + ", " + group.label);
}

std::string ratio_text(double a, double b) {
  return a == b ? "1.000" : a != 0 ? fmt::format("{:.3f}", b / a) : "-";
}

std::string difference_text(const FigurePair& pair, double value) {
  return fmt::format("{}{}", value < 0 ? "-" : "+", pair.figure->text(std::abs(value)));
}

std::vector<std::string> figure_row(const FigurePair& pair, bool sure) {
  const Figure& figure = *pair.figure;
  if (!pair.measured_a || !pair.measured_b) {
    std::vector<std::string> row{figure.name,
                                 pair.measured_a ? figure.text(pair.a) : "not measured",
                                 pair.measured_b ? figure.text(pair.b) : "not measured", "-", "-"};
    if (sure) row.insert(row.end(), {"-", ""});
    return row;
  }
  const Estimate& difference = pair.difference;
  std::vector<std::string> row{figure.name, figure.text(pair.a), figure.text(pair.b),
                               difference_text(pair, difference.mean), ratio_text(pair.a, pair.b)};
  if (sure) {
    row.push_back(difference_text(pair, difference.mean - difference.margin) + " to " +
                  difference_text(pair, difference.mean + difference.margin));
    row.push_back(is_significant(difference) ? "differs" : "");
  }
  return row;
}

std::string figure_rows(const Match& match) {
  const bool sure = std::isfinite(match.figures.front().difference.margin);
  std::vector<std::vector<std::string>> rows{{"", "A", "B", "B - A", "B / A"}};
  if (sure) rows.front().insert(rows.front().end(), {"95 % interval of B - A", ""});
  for (const FigurePair& pair : match.figures) {
    rows.push_back(figure_row(pair, sure));
  }
  return aligned(rows);
}

std::string job_rows(const Match& match) {
  constexpr std::size_t kJobsMost = 40;
  std::vector<std::vector<std::string>> rows{
      {"job", "time A", "time B", "B / A", "stall A", "stall B", "B / A"}};
  for (std::size_t i = 0; i < std::min(match.jobs.size(), kJobsMost); ++i) {
    const JobPair& job = match.jobs[i];
    const bool both = job.a.runs > 0 && job.b.runs > 0;
    const auto time = [](const JobTimes& times, double seconds) {
      return times.runs > 0 ? time_text(seconds) : std::string("refused");
    };
    const auto ratio = [&](double a, double b) { return both ? ratio_text(a, b) : "-"; };
    rows.push_back({output::printable(job.name), time(job.a, job.a.time_s),
                    time(job.b, job.b.time_s), ratio(job.a.time_s, job.b.time_s),
                    time(job.a, job.a.stall_s), time(job.b, job.b.stall_s),
                    ratio(job.a.stall_s, job.b.stall_s)});
  }
  std::string text = aligned(rows);
  if (match.jobs.size() > kJobsMost) {
    text += fmt::format("... and {} more; --json lists all\n", match.jobs.size() - kJobsMost);
  }
  return text;
}

constexpr std::size_t kShownMost = 30;

// `lines` of at most so many entries.
template <class Entry, class Line>
std::string shown(const std::vector<Entry>& entries, const Line& line) {
  std::string text;
  for (std::size_t i = 0; i < std::min(entries.size(), kShownMost); ++i) text += line(entries[i]);
  if (entries.size() > kShownMost)
    text += fmt::format("... and {} more; --json lists all\n", entries.size() - kShownMost);
  return text;
}

// The texts are long: each has a line.
std::string workload_lines(const std::vector<Difference>& differences) {
  return shown(differences, [](const Difference& one) {
    return fmt::format("{}\n  A: {}\n  B: {}\n", output::printable(one.what),
                       output::printable(one.a), output::printable(one.b));
  });
}

std::string settings_rows(const std::vector<Difference>& differences) {
  std::vector<std::vector<std::string>> rows{{"", "A", "B"}};
  for (const Difference& one : differences)
    rows.push_back(
        {output::printable(one.what), output::printable(one.a), output::printable(one.b)});
  return aligned(rows);
}

std::string setup_text(const std::vector<Difference>& workload,
                       const std::vector<Difference>& settings, bool in_all) {
  const char* where = in_all ? " in all runs" : "";
  std::string text;
  if (!workload.empty())
    text += fmt::format("\nNOT THE SAME SCENARIO{}: the jobs or their data differ\n{}", where,
                        workload_lines(workload));
  if (!settings.empty())
    text += fmt::format("\nnot the same{}\n{}", where, settings_rows(settings));
  return text;
}

std::string side_lines(const Match& match) {
  std::string text;
  const auto add = [&](const char* side, const Group& group, const auto& refused, const auto& only,
                       const auto& notes) {
    text += shown(refused, [&](const RefusedJob& job) {
      return fmt::format("{}: job {} was refused{}: {}\n", side, output::printable(job.name),
                         group.runs.size() > 1
                             ? fmt::format(" in {} of {} runs", job.runs, group.runs.size())
                             : "",
                         output::printable(job.why));
    });
    text += shown(only, [&](const std::string& job) {
      return fmt::format("{} alone has job {}\n", side, output::printable(job));
    });
    text += shown(notes, [&](const std::string& note) {
      return fmt::format("{}: {}\n", side, output::printable(note));
    });
  };
  add("A", match.a, match.refused_a, match.jobs_only_a, match.notes_a);
  add("B", match.b, match.refused_b, match.jobs_only_b, match.notes_b);
  return text;
}

// What differs in each of the matches.
std::vector<Difference> common(const std::vector<Match>& matches,
                               std::vector<Difference> Match::*which) {
  if (matches.size() < 2) return {};
  std::vector<Difference> all = matches.front().*which;
  for (const Match& match : matches)
    std::erase_if(all, [&](const Difference& one) {
      return std::find((match.*which).begin(), (match.*which).end(), one) == (match.*which).end();
    });
  return all;
}

std::vector<Difference> without(std::vector<Difference> all, const std::vector<Difference>& some) {
  std::erase_if(all, [&](const Difference& one) {
    return std::find(some.begin(), some.end(), one) != some.end();
  });
  return all;
}

}  // namespace

std::string comparison_table(const Comparison& comparison) {
  const auto file = [](const std::string& name, const auto& policies) {
    const std::string fixed = policies_text(policies);
    return output::printable(name) + (fixed.empty() ? "" : fmt::format(" ({} in all runs)", fixed));
  };
  std::string text = fmt::format("A: {}\nB: {}\n", file(comparison.name_a, comparison.policies_a),
                                 file(comparison.name_b, comparison.policies_b));
  const std::vector<Difference> workload = common(comparison.matches, &Match::workload);
  const std::vector<Difference> settings = common(comparison.matches, &Match::settings);
  text += setup_text(workload, settings, true);
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
    text += setup_text(without(match.workload, workload), without(match.settings, settings), false);
    if (const std::string lines = side_lines(match); !lines.empty()) text += "\n" + lines;
  }
  for (const Group& group : comparison.only_a) text += "\nonly in A: " + name_of(group);
  for (const Group& group : comparison.only_b) text += "\nonly in B: " + name_of(group);
  return text + (text.ends_with('\n') ? "" : "\n");
}

namespace {

using Json = nlohmann::ordered_json;

// Of a group.
Json names_json(const Group& group) {
  return {{"scenario", group.scenario}, {"label", group.label}, {"runs", group.runs.size()}};
}

// What was not measured is null.
Json figure_json(const FigurePair& pair) {
  Json figure{{"a", pair.measured_a ? Json(pair.a) : Json()},
              {"b", pair.measured_b ? Json(pair.b) : Json()}};
  if (!pair.measured_a || !pair.measured_b) return figure;
  const Estimate& difference = pair.difference;
  figure["difference"] = difference.mean;
  if (pair.a != 0) figure["ratio"] = pair.b / pair.a;
  if (std::isfinite(difference.margin)) {
    figure["margin"] = difference.margin;
    figure["significant"] = is_significant(difference);
  }
  return figure;
}

Json job_json(const JobPair& job) {
  const auto time = [](const JobTimes& times, double seconds) {
    return times.runs > 0 ? Json(seconds) : Json();
  };
  return {{"name", job.name},
          {"time_a_s", time(job.a, job.a.time_s)},
          {"time_b_s", time(job.b, job.b.time_s)},
          {"stall_a_s", time(job.a, job.a.stall_s)},
          {"stall_b_s", time(job.b, job.b.stall_s)}};
}

Json refused_json(const std::vector<RefusedJob>& jobs) {
  Json all = Json::array();
  for (const RefusedJob& job : jobs)
    all.push_back({{"name", job.name}, {"runs", job.runs}, {"why", job.why}});
  return all;
}

Json differences_json(const std::vector<Difference>& differences) {
  Json all = Json::array();
  for (const Difference& one : differences)
    all.push_back({{"what", one.what}, {"a", one.a}, {"b", one.b}});
  return all;
}

Json match_json(const Match& match) {
  Json row{{"a", names_json(match.a)}, {"b", names_json(match.b)}, {"paired", match.paired}};
  row["same_scenario"] = match.workload.empty();
  row["workload"] = differences_json(match.workload);
  row["settings"] = differences_json(match.settings);
  row["notes_a"] = match.notes_a;
  row["notes_b"] = match.notes_b;
  row["refused_a"] = refused_json(match.refused_a);
  row["refused_b"] = refused_json(match.refused_b);
  for (const FigurePair& pair : match.figures)
    row["figures"][pair.figure->field] = figure_json(pair);
  row["jobs"] = Json::array();
  for (const JobPair& job : match.jobs) row["jobs"].push_back(job_json(job));
  row["jobs_only_a"] = match.jobs_only_a;
  row["jobs_only_b"] = match.jobs_only_b;
  return row;
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
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
  for (const Match& match : comparison.matches) json["matches"].push_back(match_json(match));
  json["only_a"] = Json::array();
  json["only_b"] = Json::array();
  for (const Group& group : comparison.only_a) json["only_a"].push_back(names_json(group));
  for (const Group& group : comparison.only_b) json["only_b"].push_back(names_json(group));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace batchflow::sim
