// batchflow-sim: everything that can be learned about data service policies without a cluster.
#pragma once

#include <string>
#include <vector>

namespace batchflow::sim {

// The words behind the program's name. Returns an exit code.
int run_program(const std::vector<std::string>& words);

}  // namespace batchflow::sim
