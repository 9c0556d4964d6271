// Measures what this node can do, for simulations: how its store reads the samples of a dataset,
// what a sample costs to prepare, how fast memory is copied, and how soon a thread wakes.
//
// It reads and computes as the service does: by the same read engine, past the page cache where the
// file system allows, and by the same steps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "runtime/ctl/dataset_path.h"
#include "runtime/ctl/network_costs.h"
#include "runtime/ctl/service_costs.h"
#include "runtime/prepare/pipeline.h"

namespace batchflow::ctl {

// The rate of `depth` reads at once, of whole samples or of `bytes` from where samples begin.
struct ReadRate {
  unsigned depth = 0;
  Bytes bytes = 0;        // of a read, mean
  Bytes taken_bytes = 0;  // of the store, in whole sectors
  double reads_per_s = 0, bytes_per_s = 0;
  double p50_s = 0, p99_s = 0;  // of one read, from its submission
  double cpu_s = 0;             // that one read takes of processors
};

// What one sample costs, in processor time of a core, while all cores do the same.
struct PreparationCost {
  double alone_s = 0;    // as cold_s, while the other cores do nothing
  double cold_s = 0;     // from stored bytes that no cache of the processor has
  double decoded_s = 0;  // from its decoded form; 0: the pipeline has none
  Bytes stored = 0, decoded = 0, prepared = 0;  // means
  bool random = false;                          // it differs each time
};

struct Calibration {
  std::string reader;            // as `io_uring`
  bool past_page_cache = false;  // else reads were of memory, and say nothing about the store
  std::vector<ReadRate> reads;   // by ascending depth
  std::vector<ReadRate> sizes;   // at the greatest depth, by ascending size
  std::optional<PreparationCost> preparation;
  double copy_bytes_per_s = 0;  // of one core, in memory
  double wake_s = 0;            // from a notification until another thread runs
  double sleep_over_s = 0;      // that a thread sleeps longer than it should, mean
  std::optional<ServiceCosts> service;
  std::optional<NetworkCosts> network;  // where there is a peer; measured by measure_network
};

struct CalibrationOptions {
  double seconds = 2;                          // for each thing that is measured
  std::optional<ServiceCostsOptions> service;  // how to ask a service; its seconds are these
  std::function<void(double done, std::string_view what)> progress;
  std::function<bool()> stop;  // true: what was measured so far is answered
};
// `pipeline` may be null. Throws ConfigError where samples cannot be read or prepared.
Calibration calibrate(const OpenedDataset& data, const prepare::Pipeline* pipeline,
                      const CalibrationOptions& options);

}  // namespace batchflow::ctl
