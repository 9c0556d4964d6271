// What two groups of runs were given: the workload, the policies, the settings of the engine and
// the sizes of the cluster. `compare` names each that differs.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "programs/output/results.h"

namespace batchflow::sim {

struct Difference {
  std::string what;
  std::string a;
  std::string b;
  friend bool operator==(const Difference&, const Difference&) = default;
};

// The differences between what two runs trained on. Two scenarios have some; the seed is none.
std::vector<Difference> workload_differences(const output::RunResult& a,
                                             const output::RunResult& b);

// The sizes of a run's cluster: `cluster.nodes` and its like.
std::vector<std::pair<std::string, std::string>> cluster_of(const output::RunResult& run);

// How it was served: preset, each policy, each other setting of the engine, and the cluster.
std::vector<Difference> settings_differences(const output::RunResult& a,
                                             const output::RunResult& b);

// A job that was refused in some of the runs.
struct RefusedJob {
  std::string name;
  std::string why;  // in the first of them
  std::size_t runs = 0;
};
std::vector<RefusedJob> refused_jobs(std::span<const output::RunResult* const> runs);

// What else a reader should know of the runs, each text once: remarks, failures, interruptions, and
// that a file of an older version does not have what could be compared.
std::vector<std::string> notes_of(std::span<const output::RunResult* const> runs);

}  // namespace batchflow::sim
