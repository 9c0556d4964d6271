// What a service is doing at one moment, for batchflowctl, the metrics and the status page alike.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/engine.h"
#include "runtime/service/backend.h"
#include "runtime/service/jobs.h"

namespace batchflow {

struct Snapshot {
  struct Dataset {
    std::string name;
    std::string path;
    std::uint64_t samples = 0;
    Bytes bytes = 0;
    Digest version = 0;
    std::size_t classes = 0;
  };
  std::string version;
  pid_t process = 0;
  double up_s = 0;
  std::string storage;
  Bytes memory_bytes = 0;
  Bytes cache_bytes = 0;
  Bytes item_bytes = 0;
  Bytes block_bytes = 0;
  std::uint32_t workers = 0;
  std::uint32_t workers_most = 0;
  double preparing_s = 0;
  std::size_t connections = 0;
  EngineCounters engine;
  BackendCounters moved;
  std::vector<Jobs::Told> jobs;
  std::vector<Dataset> datasets;
  std::vector<std::string> opening;  // datasets whose index is being made
};

// The object that `batchflowctl status --json` prints.
std::string to_json(const Snapshot& snapshot);
// In Prometheus' text format, version 0.0.4.
std::string metrics_text(const Snapshot& snapshot);
// A page that needs nothing but itself and asks for itself anew now and then.
std::string status_page(const Snapshot& snapshot);

}  // namespace batchflow
