// What a service itself costs beside the work on samples: measured on a service of its own, which
// runs for this alone, by the processor time of its threads.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/types.h"

namespace batchflow::ctl {

// Processor time.
struct ServiceCosts {
  unsigned workers = 0;
  double opens_s = 0;    // not processor time: until the first job on the dataset begins
  double prepare_s = 0;  // of a worker, for a sample from its stored bytes, while all are busy
  double read_s = 0;     // of the reader, for an operation
  double copy_s_per_byte = 0;   // of what is read, until it is kept
  double touch_s_per_byte = 0;  // of memory that is used for the first time
  double batch_s = 0;           // of the service and its client, for a batch beside its samples
  double sample_s = 0;          // for each of its samples
};

struct ServiceCostsOptions {
  std::string dataset;  // a path
  std::string pipeline;
  unsigned workers = 1;
  double seconds = 2;  // for each of the two runs
  std::function<bool()> stop;
};
// None: no batchflowd is beside this program. Throws ConfigError where it does not serve the
// dataset.
std::optional<ServiceCosts> measure_service_costs(const ServiceCostsOptions& options);

}  // namespace batchflow::ctl
