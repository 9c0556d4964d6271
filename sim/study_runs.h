// Makes runs of a study, here or elsewhere, and hands on each result as it comes.
//
// Elsewhere means by a program of another package. It is given a line of JSON that says what to
// make, and answers with lines of JSON. How it reaches other machines is its own business; on each
// of them it runs `batchflow-sim sweep-part`, which writes such lines.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sim/planned_runs.h"
#include "sim/study.h"

namespace batchflow::sim {

// `settings.finished` is called with the index of the run in the plan.
void simulate_runs(const StudyPlan& plan, const std::vector<std::size_t>& runs,
                   const RunSettings& settings);

struct Elsewhere {
  std::string engine;  // of --engine: the program is `python3 -m batchflow.ENGINE_sweep`
  std::string study;   // as it is named on the command line
};

// The same as simulate_runs; `settings.at_once` 0: as many as the other machines take. An interrupt
// ends the program, which ends the runs.
void have_runs_made(const Elsewhere& elsewhere, const StudyPlan& plan,
                    const std::vector<std::size_t>& runs, const RunSettings& settings);

}  // namespace batchflow::sim
