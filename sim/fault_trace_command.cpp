// `trace faults`: what is in a trace of nodes' faults, and the same as a CSV for `--faults`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "programs/input/scenario.h"
#include "programs/input/yaml.h"
#include "programs/output/output.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "sim/commands.h"
#include "sim/numbers.h"
#include "sim/run_report.h"
#include "traces/node_faults.h"

namespace batchflow::sim {
namespace {

using Json = nlohmann::ordered_json;

struct FaultTraceOptions {
  std::string trace;
  std::string output;   // a CSV; empty: none
  std::string cluster;  // the cluster that has the nodes
  std::vector<std::string> overrides;
  std::uint64_t seed = 1;
  output::OutputFlags outputs;
};

std::string table_of(const traces::NodeFaults& trace) {
  std::string text = fmt::format("{}: {} events in {:.1f} days, {} faults of {} nodes\n",
                                 output::printable(trace.name), count_text(trace.events),
                                 static_cast<double>(trace.last_ns) / 86'400e9,
                                 count_text(trace.faults.size()), count_text(trace.nodes.size()));
  if (trace.without_start > 0) {
    text += fmt::format("{} faults have an end alone: down from the trace's beginning on\n",
                        count_text(trace.without_start));
  }
  std::vector<std::vector<std::string>> rows = {{"class", "faults", "that outlast the trace",
                                                 "nodes", "node hours", "median h", "longest h"}};
  for (const traces::FaultClass& one : traces::fault_classes(trace)) {
    rows.push_back({output::printable(one.level.empty() ? one.kind : one.level + ": " + one.kind),
                    count_text(one.faults), count_text(one.unended), count_text(one.nodes),
                    fmt::format("{:.1f}", one.node_hours), fmt::format("{:.1f}", one.median_hours),
                    fmt::format("{:.1f}", one.longest_hours)});
  }
  return text + "\n" + aligned(rows);
}

std::string json_of(const traces::NodeFaults& trace) {
  Json json;
  json["command"] = "trace faults";
  json["version"] = BATCHFLOW_VERSION;
  json["trace"] = {{"name", trace.name}, {"events", trace.events}};
  json["faults"] = trace.faults.size();
  json["nodes"] = trace.nodes.size();
  json["without_start"] = trace.without_start;
  json["last_event_s"] = static_cast<double>(trace.last_ns) * 1e-9;
  json["classes"] = Json::array();
  for (const traces::FaultClass& one : traces::fault_classes(trace)) {
    json["classes"].push_back({{"level", one.level},
                               {"class", one.kind},
                               {"faults", one.faults},
                               {"unended", one.unended},
                               {"nodes", one.nodes},
                               {"node_hours", one.node_hours},
                               {"hours_median", one.median_hours},
                               {"hours_max", one.longest_hours}});
  }
  return json.dump(2) + "\n";
}

std::vector<std::string> node_names(const FaultTraceOptions& options) {
  config::ConfigNode tree;
  const auto set = [&](const std::string& assignment) {
    input::apply_override(tree, assignment);
    input::resolve_names(tree);
  };
  set("cluster=" + options.cluster);
  for (const std::string& text : options.overrides) set(text);
  std::vector<std::string> names;
  for (const input::NodeModel& node : input::read_cluster_and_engine(tree).cluster.nodes)
    names.push_back(node.name);
  return names;
}

// Without what has a meaning in a line of CSV.
std::string field(std::string text) {
  for (char& c : text) {
    if (c == ',' || c == '"' || c == '#' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  return text;
}

// The trace names nodes that the cluster does not have: each fails as a node of the cluster, which
// the seed draws.
std::string csv_of(const traces::NodeFaults& trace, const FaultTraceOptions& options) {
  std::vector<std::string> names = node_names(options);
  if (names.size() < trace.nodes.size()) {
    throw ConfigError(
        fmt::format("{}: has faults of {} nodes, and the cluster has {}; name a larger one, or "
                    "write --set cluster.nodes.0.count={}",
                    trace.name, trace.nodes.size(), names.size(), trace.nodes.size()));
  }
  Random random(options.seed);
  shuffle(std::span(names), random);
  std::unordered_map<std::string, std::string> name_of;
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) name_of[trace.nodes[i]] = names[i];
  std::string text = "node,down,up,level,class\n";
  // A node that was down for less than a tick of the trace's clock has lost its memory, too.
  constexpr double kShortest = 1;
  for (const traces::NodeFault& fault : trace.faults) {
    const double down_s = static_cast<double>(fault.down_ns) * 1e-9;
    std::string up;
    if (fault.up_ns) {
      up = fmt::format("{:.3f}",
                       std::max(static_cast<double>(*fault.up_ns) * 1e-9, down_s + kShortest));
    }
    text += fmt::format("{},{:.3f},{},{},{}\n", name_of.at(fault.node), down_s, up,
                        field(fault.level), field(fault.kind));
  }
  return text;
}

void check_outputs(const FaultTraceOptions& options) {
  options.outputs.check(options.trace);
  if (options.output.empty() != options.cluster.empty()) {
    throw ConfigError(options.output.empty()
                          ? "--cluster says which nodes fail in what --output writes; add --output"
                          : "--output needs --cluster, the nodes that are to fail; name one");
  }
  if (options.output.empty()) return;
  output::require_writable(options.output);
  if (output::same_file(options.output, options.trace == "-" ? "/dev/stdin" : options.trace)) {
    throw ConfigError(
        fmt::format("--output={} would overwrite what is read; name another file", options.output));
  }
}

int show_faults(const FaultTraceOptions& options) {
  check_outputs(options);
  const traces::NodeFaults trace = traces::read_node_faults(options.trace);
  if (!options.output.empty()) {
    output::write_file_atomically(options.output, csv_of(trace, options),
                                  output::check_interrupted);
  }
  if (options.outputs.wanted("json")) options.outputs.write("json", json_of(trace));
  if (options.output != "-") options.outputs.write_text(table_of(trace));
  return 0;
}

}  // namespace

void add_fault_trace_command(CLI::App& trace, Action& action) {
  const auto options = std::make_shared<FaultTraceOptions>();
  CLI::App* command = trace.add_subcommand(
      "faults", "Show what failed in a cluster, by class, and write it for --faults of a run");
  command
      ->add_option("FILE", options->trace,
                   "A JSON list of events fault_start and fault_end, plain, gzip or zstd; - for\n"
                   "standard input")
      ->required();
  command
      ->add_option("-o,--output", options->output,
                   "A CSV with the columns node, down, up, level and class; - is standard output")
      ->type_name("FILE");
  command->add_option(
      "--cluster", options->cluster,
      "The nodes that fail there: a file, or the name of one of configs/clusters. Which\n"
      "node has which node's faults is drawn");
  command
      ->add_option("--set", options->overrides, "path.to.key=value: changes cluster.* (repeat it)")
      ->allow_extra_args(false);
  output::add_whole_number(*command, "--seed", options->seed, 0, UINT64_MAX,
                           "The seed of that draw (default: 1)");
  options->outputs.add(*command, "json", "JSON");
  command->footer(
      "Example:\n"
      "  batchflow-sim trace faults fault_trace.json -o lost.csv --cluster pretraining");
  command->callback([options, &action] { action = [options] { return show_faults(*options); }; });
}

}  // namespace batchflow::sim
