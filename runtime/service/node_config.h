// What a node's service is told at its start: memory, workers, datasets, places. A file of
// `kind: node`, or nothing at all: every setting has a default that fits the machine.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/engine_config.h"
#include "core/types.h"
#include "runtime/memory/scratch.h"
#include "runtime/remote/remote_options.h"
#include "runtime/service/service_log.h"
#include "runtime/service/spill.h"
#include "runtime/service/users.h"
#include "runtime/sources/split.h"
#include "runtime/step/step_process.h"
#include "runtime/storage/read_engine.h"

namespace batchflow {

// A part of a dataset, served as DATASET:NAME.
struct NodeSplit {
  std::string name;
  SplitRule rule;
};

// By a job, which named its path: a name from a configuration does not begin like one.
inline bool is_brought_name(std::string_view name) {
  return name.starts_with('/');
}

struct NodeDataset {
  std::string name;
  std::filesystem::path path;
  std::string format;    // empty: found out
  std::string pipeline;  // of jobs that name none; empty: by what the dataset holds
  std::uint64_t tokens = 0;
  std::vector<NodeSplit> splits = {};
  bool pin = false;  // kept although no job reads it

  bool is_brought() const { return is_brought_name(name); }
};

struct NodeConfig {
  Bytes memory = 0;           // of everything; 0: half of what the machine has left
  std::uint32_t workers = 0;  // threads that prepare; 0: one a core
  Bytes scratch = 0;  // of `memory`, what all workers together take to prepare; 0: by these two
  std::filesystem::path socket;
  std::filesystem::path state;  // indices, logs
  std::vector<NodeDataset> datasets;
  std::vector<std::filesystem::path> pipelines;  // files beside those that are shipped
  bool open_datasets = false;  // jobs may name folders that are not listed, if they can read them
  Duration brought_kept = std::chrono::minutes(10);  // after the last job that used it
  Ratio corrupt_ratio_allowed;  // a job may ask for; less than the engine's counts as that
  Quotas quotas;
  Duration exit_when_idle{0};  // without anybody connected, the service ends after it; 0: never
  Duration drain = std::chrono::seconds(30);  // how long SIGTERM lets jobs go on, at most
  ReadEngineOptions storage;
  SpillOptions spill;
  StepSettings steps;     // that are plugins
  Bytes steps_bytes = 0;  // of `memory`, set apart for their processes
  Bytes data_bytes = 0;   // likewise, for tables of data sets that jobs bring
  std::string http_address = "127.0.0.1";
  int http_port = 9837;                 // 0: any that is free; -1: none
  std::vector<std::string> http_hosts;  // names this machine is asked by, beside its own
  RemoteOptions tcp;                    // for jobs on other machines
  LogForm log = LogForm::text;
  std::filesystem::path log_file;     // empty: standard error
  Bytes log_bytes = Bytes{64} << 20;  // of log_file and the one before it
  bool user_labels = false;           // metrics name jobs' users
  bool journal = false;
  bool explain = false;  // keep the last decisions in words
  EngineConfig engine;

  // As the engine is told: it ends what has more corrupt samples than any job may ask for.
  EngineConfig engine_told() const;
  // For blocks, batches and kept samples: what is left beside staging, scratch and the service
  // itself.
  Bytes cache_bytes() const;
  // How `scratch` is divided.
  ScratchLimits scratch_limits() const;
  // What of the staging memory the engine reads into. The rest covers gaps between samples.
  Bytes staging_told() const { return storage.staging - storage.staging / 4; }
  // What the engine divides: that, and what it counts of the cache. The rest of the cache covers
  // what it does not count: slabs with slots that no job has, entries of tables, what a job has not
  // yet unmapped.
  Bytes engine_bytes() const { return staging_told() + cache_bytes() - cache_bytes() / 16; }
};

// Throws ConfigError for what no service would take, on whatever machine.
void check_node_config(const NodeConfig& config);
// Whether what is told of the memory fits together, wherever the service is to run. Throws
// ConfigError.
void check_memory(NodeConfig config);
// Throws ConfigError where two data sets have one name.
void check_names(const std::vector<NodeDataset>& datasets);
// The files of pipelines by their names: `files`, and those that are shipped.
std::map<std::string, std::string> known_pipelines(const std::vector<std::filesystem::path>& files);
// Defaults of this machine and user.
NodeConfig default_node_config();
// Throws ConfigError.
NodeConfig read_node_config(ConfigSection& section);
// `name=path[,key=value...]` of the command line; a path alone is named after its folder. Its
// pipeline is one of `pipelines`, or one that is shipped. Throws ConfigError.
NodeDataset dataset_from_argument(std::string_view text,
                                  const std::vector<std::filesystem::path>& pipelines = {});
// Of a path that a job names; `reading` as JoinRequest has it. Throws ConfigError.
NodeDataset brought_dataset(const std::filesystem::path& path, std::string_view reading);
// `path,size` of the command line. Throws ConfigError.
SpillOptions spill_from_argument(std::string_view text);
// `[ADDRESS:]PORT` of the command line. Throws ConfigError.
void listen_remotely(RemoteOptions& tcp, std::string_view text);
// `preset=name` or `kind=name[:parameter=value...]` of the command line. Throws ConfigError.
void choose_policy(EngineConfig& config, std::string_view text);
// Kinds of eviction policies, by form.
inline constexpr std::array<std::string_view, kForms> kEvictionKinds = {
    "eviction.encoded", "eviction.decoded", "eviction.prepared"};
// Throws ConfigError unless the engine would take it.
void check_policy(std::string_view kind, std::string_view text);
// What is left for 0, and whether it is enough. Throws ConfigError with numbers and what to do.
// `held`: what this service has of the machine already, and then its staging memory stays as it is.
void settle(NodeConfig& config, Bytes held = 0);
// Takes them from the cache. Throws ConfigError where too little is left of it.
void set_apart_for_steps(NodeConfig& config, Bytes bytes);
void set_apart_for_data(NodeConfig& config, Bytes bytes);

}  // namespace batchflow
