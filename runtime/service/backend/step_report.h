// How well plugins work, pipeline by pipeline: for people who ask.
#pragma once

#include <string>
#include <vector>

#include "runtime/service/datasets/datasets.h"
#include "runtime/step/step_plugin.h"

namespace batchflow::service {

struct StepReport {
  std::string pipeline;
  std::string dataset;
  std::string step;
  std::string version;
  std::string file;
  bool random = false;
  bool broken = false;  // it is not tried for a while
  step::StepCounters counters;
};

std::vector<StepReport> report_steps(const Datasets& datasets);

}  // namespace batchflow::service
