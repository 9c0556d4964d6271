// A page with one picture: how fast each job was, served in each way.
#pragma once

#include <string>
#include <vector>

namespace batchflow::live {

struct Bars {
  std::string served;                 // in which way
  std::vector<double> samples_per_s;  // of each job
  double prepared = 0;                // samples, for all jobs
  double total_s = 0;
};

// `jobs` names them. REQUIRES: each way has as many bars as there are jobs
std::string chart_page(const std::vector<std::string>& jobs, const std::vector<Bars>& ways);

}  // namespace batchflow::live
