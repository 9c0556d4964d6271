// What is assumed of the jobs of a scheduler's log. The log says which user's job ran when on how
// many GPUs, and never what was read. The overlay assumes the datasets, how they are prepared, and
// how fast the models are.
//
// Shares and chances are in the overlay and are drawn by its seed, so that the reader of a report
// sees what was assumed, and can assume something else.
#pragma once

#include <string>
#include <vector>

#include "programs/config/config.h"
#include "programs/input/quantities.h"
#include "programs/input/workload_model.h"

namespace batchflow::input {

struct OverlayClass {
  std::string name;
  double share = 1;  // its weight among the classes that take a job

  // The jobs that it takes; 0 and empty: all.
  double gpus_least = 0;
  double gpus_most = 0;
  Duration lasts_least{0};
  Duration lasts_most{0};
  std::vector<std::string> users;  // any of these
  std::vector<std::string> names;  // any of these in the job's name

  DatasetModel dataset;        // the mean of the datasets
  std::uint32_t datasets = 1;  // how many there are to pick from
  Spread dataset_size;         // how their numbers of samples vary
  PipelineModel pipeline;
  double samples_per_s = 1;  // that a GPU trains on
  Spread speed;

  bool takes_all() const {
    return gpus_least == 0 && gpus_most == 0 && lasts_least.count() == 0 &&
           lasts_most.count() == 0 && users.empty() && names.empty();
  }
};

struct OverlayModel {
  std::string name;
  std::string about;
  double busy =
      0.9;  // share of the recorded time in which GPUs computed; the rest they waited for data
  double reuse = 0.7;     // chance of training on the dataset of the user's last job
  double popularity = 1;  // Zipf's exponent over the datasets of a class
  double same_pipeline =
      0.6;  // chance of preparing a dataset as most jobs do, and not in the user's own way
  std::vector<OverlayClass> classes;
};

// The tree of an overlay, found by name (configs/overlays) or path.
config::ConfigNode load_overlay(const std::string& name_or_path);
OverlayModel read_overlay(const config::ConfigNode& tree);

}  // namespace batchflow::input
