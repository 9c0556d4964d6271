// The faults of a cluster's nodes, as its operators recorded them by events: a JSON list in which
// each fault has an event for its start and one for its end.
//
// Source: `fault_trace.json` of github.com/stepfun-ai/InfiniteHBD-Trace (arXiv 2502.03885); checked
// on the real file. An event has `node_id`, `event_time` in days since an unknown beginning,
// `event_type` (`fault_start` or `fault_end`), and `fault_type` with `Class` and, where they are
// known, `Level` and `Desc`. Faults of one node may overlap. An end belongs to the oldest start of
// the same node and type that has none yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace batchflow::traces {

struct NodeFault {
  std::string node;
  std::string level;                  // as `Hardware Failure`; may be empty
  std::string kind;                   // the class, as `GPU`
  std::int64_t down_ns = 0;           // since the trace's beginning
  std::optional<std::int64_t> up_ns;  // none: the trace ends before the fault does
};

struct NodeFaults {
  std::string name;                // of the trace
  std::vector<NodeFault> faults;   // by their start; faults that start together, as in the trace
  std::vector<std::string> nodes;  // that ever fail, in that order
  std::uint64_t events = 0;
  std::uint64_t without_start = 0;  // they are down from the trace's beginning on
  std::int64_t last_ns = 0;         // of all events
};

// The file may be compressed with zstd or gzip, and `-` is standard input. Events are sorted by
// their time. Throws ConfigError with the line of an event that is not whole: what a lost event
// would leave behind is a fault of another length.
NodeFaults read_node_faults(const std::string& path);

// The faults of one class.
struct FaultClass {
  std::string level;
  std::string kind;
  std::uint64_t faults = 0;
  std::uint64_t unended = 0;  // of these, that outlast the trace
  std::uint64_t nodes = 0;    // that they strike
  double node_hours = 0;      // that nodes are down; of unended faults until the last event
  double median_hours = 0;    // of a fault
  double longest_hours = 0;
};
// Most node hours first. Faults of one node that overlap count in the class of each.
std::vector<FaultClass> fault_classes(const NodeFaults& trace);

}  // namespace batchflow::traces
