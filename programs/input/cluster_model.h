// The machines of a scenario: nodes, links between them, and the store that they all read from.
//
// A cluster is a file under configs/clusters/ or a map inside a scenario. Every figure can be
// measured or looked up; a rate that is not given is no limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "programs/config/config.h"
#include "programs/input/quantities.h"

namespace batchflow::input {

// A device that many readers share: a parallel file system, an object store, a drive.
struct DriveModel {
  Curve bytes_per_s;              // of all readers together, by their number; empty: no limit
  double reader_bytes_per_s = 0;  // of one reader; 0: no limit
  Duration latency{0};            // of one operation
  Spread latency_spread;
  Pauses pauses;                       // the tail of the latency
  double write_bytes_per_s = 0;        // of all together, beside reads; 0: no limit
  std::uint32_t operations_ahead = 1;  // that one reader has under way at once
  double operations_per_s = 0;         // metadata: of all together; 0: no limit
  Curve efficiency;                    // of the rate, by bytes of an operation; empty: 1
  // How many operations of one node are under way at once; the reads that they belong to begin in
  // the order in which they came. 0: all reads begin at once, and share the drive.
  std::uint32_t queue = 0;
};

// What others take of a store: from `at` on this part of its rate, until the next part begins. The
// list begins again every `period`; 0: its last part stays.
struct OtherLoad {
  struct Part {
    Duration at{0};
    double part = 0;
  };
  std::vector<Part> parts;  // `at` grows
  Duration period{0};
};

// A store that takes requests over a network, as object stores do.
struct RequestModel {
  double failed = 0;        // the part of the requests that are answered by 503
  Duration retry_after{0};  // before such a request is sent again; doubled each time
  double price_per_million = 0;
};

// The time that a service takes beside preparation. It is processor time where a node has
// `processors`, else a delay.
struct OverheadModel {
  Duration read{0};              // of one operation
  double read_ns_per_byte = 0;   // beside that
  double touch_ns_per_byte = 0;  // of memory that blocks and caches use for the first time
  double send_ns_per_byte = 0;   // of what goes to another node
  double receive_ns_per_byte = 0;
  Duration block{0};         // of a block that is prepared
  Duration batch{0};         // of a batch of one rank, until it is handed over
  double ns_per_sample = 0;  // of its samples
  Duration wake{0};          // from waking a thread until it runs
  Duration step{0};          // that a training step takes beyond its time
};

struct LinkModel {
  std::string name;
  double bytes_per_s = 0;  // each way; 0: no limit
  Duration latency{0};
  int up = -1;  // the index of the link above; -1: the root, where all meet
};

// What each GPU of a node keeps, and how bytes come to it.
struct GpuModel {
  Bytes cache = 0;                 // of its memory, for decoded samples
  double pcie_bytes_per_s = 0;     // of its link to the node's memory, each way; 0: no limit
  std::uint32_t copy_engines = 1;  // copies under way at once, each way; the others wait their turn
};

struct NodeModel {
  std::string name;
  std::uint32_t cores = 1;    // for preparation
  std::uint32_t workers = 0;  // blocks that all cores prepare together; 0: a block for each core
  std::uint32_t gpus = 1;
  // Workers, readers, hand-over and loaders of the node share these; 0: cores only prepare, and
  // nothing else takes time of a processor.
  std::uint32_t processors = 0;
  bool workers_help = false;  // all prepare the block that came first, and then the next
  OverheadModel overhead;
  double core_speed = 1;  // preparation costs are divided by it
  double gpu_speed = 1;   // step times are divided by it
  Bytes memory = 0;       // of the machine
  Bytes cache = 0;        // the part of it for prepared blocks and caches
  double memory_bytes_per_s = 0;
  double pcie_bytes_per_s = 0;  // to all its GPUs; 0: no limit
  double nic_bytes_per_s = 0;   // each way; 0: no limit
  Duration nic_latency{0};
  double store_weight = 1;  // of its readers beside those of other nodes, where the store is short
  int link = -1;            // the link of its network card; -1: the root
  Bytes gpu_memory = 0;     // of each GPU, for all that is there; 0: enough
  GpuModel gpu;
  Bytes nvme = 0;  // for caches
  DriveModel nvme_drive;
};

// What an hour of a part costs; 0: nothing. A GB is 10^9 bytes.
struct PricesModel {
  std::string currency;  // as it is shown beside prices; may be empty
  double node_hour = 0;
  double gpu_hour = 0;
  double core_hour = 0;
  double memory_gb_hour = 0;  // of nodes' memory
  double cache_gb_hour = 0;   // of the part of it for blocks and caches, beside memory_gb_hour
  double nvme_gb_hour = 0;    // of the part of drives for caches
};

struct ClusterModel {
  std::string name;
  std::vector<NodeModel> nodes;  // counted entries are written out: gpu-0, gpu-1, ...
  std::vector<LinkModel> links;
  DriveModel store;
  double store_nic_bytes_per_s = 0;
  int store_link = -1;
  OtherLoad store_load;
  RequestModel store_requests;
  std::optional<PricesModel> prices;

  double price_per_hour() const;  // of all nodes; 0 without prices
  std::uint32_t gpus() const;
  int node(std::string_view name) const;  // -1: none
};

// Throws ConfigError for a cluster that cannot be.
ClusterModel read_cluster(config::ConfigSection& section);

}  // namespace batchflow::input
