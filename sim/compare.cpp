#include "sim/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "sim/variants.h"

namespace batchflow::sim {

namespace {

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

using TimesByName = std::map<std::string_view, JobTimes>;

TimesByName job_times(const Group& group) {
  TimesByName times;
  for (const output::RunResult* run : group.runs) {
    for (const output::JobResult& job : run->jobs) {
      JobTimes& sum = times[job.name];
      if (job.state == "refused") continue;
      sum.time_s += job.time_s;
      sum.stall_s += job.stall_s;
      ++sum.runs;
    }
  }
  for (auto& [name, sum] : times) {
    if (sum.runs == 0) continue;
    sum.time_s /= static_cast<double>(sum.runs);
    sum.stall_s /= static_cast<double>(sum.runs);
  }
  return times;
}

void pair_jobs(Match& match) {
  const TimesByName of_a = job_times(match.a);
  const TimesByName of_b = job_times(match.b);
  for (const output::JobResult& job : match.a.runs.front()->jobs) {
    const auto in_b = of_b.find(job.name);
    if (in_b == of_b.end()) {
      match.jobs_only_a.push_back(job.name);
    } else {
      match.jobs.push_back({job.name, of_a.at(job.name), in_b->second});
    }
  }
  for (const output::JobResult& job : match.b.runs.front()->jobs)
    if (!of_a.contains(job.name)) match.jobs_only_b.push_back(job.name);
}

bool is_measured(const Group& group, const Figure& figure) {
  return std::all_of(group.runs.begin(), group.runs.end(),
                     [&](const output::RunResult* run) { return is_known(*run, figure); });
}

Match match(const Group& a, const Group& b) {
  Match match;
  match.a = a;
  match.b = b;
  match.paired = same_seeds(a, b);
  for (const Figure& figure : figures()) {
    const std::vector<double> of_a = values(a, figure);
    const std::vector<double> of_b = values(b, figure);
    const bool is_cost = std::string_view(figure.field).starts_with("cost");
    if (is_cost && !is_measured(a, figure) && !is_measured(b, figure)) continue;
    match.figures.push_back({&figure, estimate(of_a).mean, estimate(of_b).mean,
                             match.paired ? paired_difference(of_a, of_b) : difference(of_a, of_b),
                             is_measured(a, figure), is_measured(b, figure)});
  }
  pair_jobs(match);
  match.refused_a = refused_jobs(a.runs);
  match.refused_b = refused_jobs(b.runs);
  match.workload = workload_differences(*a.runs.front(), *b.runs.front());
  match.settings = settings_differences(*a.runs.front(), *b.runs.front());
  match.notes_a = notes_of(a.runs);
  match.notes_b = notes_of(b.runs);
  return match;
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

}  // namespace batchflow::sim
