// Compares two files of results: what differs, by how much, and whether chance explains it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "programs/output/results.h"
#include "sim/figures.h"
#include "sim/setup_differences.h"

namespace batchflow::sim {

// The runs that differ by their seed alone. Groups of both files belong together when scenario and
// label agree, or when each file has one group only.
struct Group {
  std::string scenario;
  std::string label;
  std::vector<const output::RunResult*> runs;  // by seed
};
std::vector<Group> groups_of(const std::vector<output::RunResult>& runs);

struct FigurePair {
  const Figure* figure;
  double a;  // means
  double b;
  Estimate difference;     // b - a
  bool measured_a = true;  // in all runs; else the mean means nothing
  bool measured_b = true;  // likewise
};
// Means over the runs in which the job was not refused.
struct JobTimes {
  double time_s = 0;
  double stall_s = 0;
  std::size_t runs = 0;  // 0: it was refused in all of them
};
struct JobPair {
  std::string name;
  JobTimes a;
  JobTimes b;
};
struct Match {
  Group a;
  Group b;
  bool paired;  // by seed
  std::vector<FigurePair> figures;
  std::vector<JobPair> jobs;  // of the same name in both
  // Jobs of one side alone.
  std::vector<std::string> jobs_only_a;
  std::vector<std::string> jobs_only_b;
  std::vector<RefusedJob> refused_a;
  std::vector<RefusedJob> refused_b;
  std::vector<Difference> workload;  // these are two scenarios
  std::vector<Difference> settings;
  std::vector<std::string> notes_a;
  std::vector<std::string> notes_b;
};
struct Comparison {
  std::string name_a;
  std::string name_b;
  // The policies of all runs of a file.
  std::vector<std::pair<std::string, std::string>> policies_a;
  std::vector<std::pair<std::string, std::string>> policies_b;
  std::vector<Match> matches;
  std::vector<Group> only_a;
  std::vector<Group> only_b;
};

// The groups of the result point into the runs.
Comparison compare(const std::vector<output::RunResult>& a,
                   const std::vector<output::RunResult>& b);

std::string comparison_table(const Comparison& comparison);
std::string comparison_json(const Comparison& comparison);

}  // namespace batchflow::sim
