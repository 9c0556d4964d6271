// The configuration of a node's service: memory, workers, datasets, paths. It is a file of `kind:
// node`, or nothing at all: every setting has a default that fits the machine.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "core/engine/engine_config.h"
#include "programs/config/config.h"
#include "runtime/objects/object_store.h"
#include "runtime/remote/remote_options.h"
#include "runtime/service/backend/spill.h"
#include "runtime/service/jobs/users.h"
#include "runtime/service/log/service_log.h"
#include "runtime/service/plugins/plugin_settings.h"
#include "runtime/sources/split.h"
#include "runtime/step/step_process.h"
#include "runtime/storage/read_engine.h"

namespace batchflow::service {

// A part of a dataset, served as DATASET:NAME.
struct NodeSplit {
  std::string name;
  sources::SplitRule rule;
};

// A job has brought it by its path: a name in a configuration does not begin like this.
inline bool is_brought_name(std::string_view name) {
  return name.starts_with('/') || objects::is_url(name);
}

struct NodeDataset {
  std::string name;
  std::filesystem::path path;
  std::string format;    // empty: found out
  std::string pipeline;  // of jobs that name none; empty: by what the dataset holds
  std::uint64_t tokens = 0;
  std::vector<NodeSplit> splits = {};
  bool pin = false;       // kept although no job reads it
  bool everyone = false;  // of a URL: all users may read it without showing a right to it
  // Of tables: the columns that are served; empty: the obvious ones.
  std::string column = {}, label = {};
  // How documents become sequences of so many tokens.
  sources::SequenceRule sequences = {};

  bool is_brought() const { return is_brought_name(name); }
};

// A service over several nodes.
struct ClusterOptions {
  std::string
      join;  // where this agent's coordinator may be, with commas between; empty: it is none
  // A folder that all candidates share, one of which coordinates; empty: no other may take over.
  std::filesystem::path log;
  std::string name;         // of an agent; its machine's unless it is set
  std::string authorities;  // that sign other nodes' certificates; empty: the system's
  // A node that says nothing for so long is lost.
  std::chrono::milliseconds lost_after{2000};
  Bytes unsent_most = Bytes{256} << 20;  // that may wait for a node, which is lost then
  friend bool operator==(const ClusterOptions&, const ClusterOptions&) = default;
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
  Ratio corrupt_ratio_allowed;  // that a job may ask for; at least the engine's
  Quotas quotas;
  Duration exit_when_idle{0};  // without a connection, the service ends after it; 0: never
  Duration drain = std::chrono::seconds(30);  // how long SIGTERM lets jobs go on, at most
  storage::ReadEngineOptions storage;
  SpillOptions spill;
  step::StepSettings steps;  // that are plugins
  Bytes steps_bytes = 0;     // of `memory`, set apart for their processes
  Bytes data_bytes = 0;      // likewise, for tables of datasets that jobs bring
  std::string http_address = "127.0.0.1";
  int http_port = 9837;                 // 0: any that is free; -1: none
  std::vector<std::string> http_hosts;  // names by which this machine is asked, beside its own
  remote::RemoteOptions tcp;            // for jobs on other machines, and for agents
  ClusterOptions cluster;               // the file of its tokens is in `tcp`
  LogForm log = LogForm::text;
  std::filesystem::path log_file;         // empty: standard error
  Bytes log_bytes = Bytes{64} << 20;      // of log_file and the one before it
  bool user_labels = false;               // metrics name jobs' users
  bool journal = false;                   // all events are recorded
  bool explain = false;                   // keep the last decisions in words
  PluginSettings plugins;                 // of policies
  std::vector<std::string> plugin_notes;  // what came of them
  engine::EngineConfig engine;

  // The engine's configuration: it ends jobs with more corrupt samples than any job may ask for.
  engine::EngineConfig engine_config() const;
  // The part of the staging memory that the engine reads into. The rest covers gaps between
  // samples.
  Bytes shown_staging() const { return storage.staging - storage.staging / 4; }
};

// The addresses of `join`, with commas between them.
std::vector<std::string> split_addresses(const std::string& text);
// Throws ConfigError for a configuration that no service could use, on whatever machine.
void check_node_config(const NodeConfig& config);
// Throws ConfigError where two datasets have one name.
void check_names(const std::vector<NodeDataset>& datasets);
// The file of a pipeline by its name: of `files`, or one that is shipped. Lists no folder, since
// each new pipeline of a job comes here.
std::optional<std::string> pipeline_file(const std::vector<std::filesystem::path>& files,
                                         const std::string& name);
// All files of pipelines by their names.
std::map<std::string, std::string> known_pipelines(const std::vector<std::filesystem::path>& files);
// The defaults of this machine and user.
NodeConfig default_node_config();
// Throws ConfigError, also for policies that no service takes.
NodeConfig read_node_config(const config::ConfigNode& root);
// Reads `name=path[,key=value...]` of the command line; a path alone is named after its folder. The
// pipeline is one of `pipelines`, or one that is shipped. Throws ConfigError.
NodeDataset dataset_from_argument(std::string_view text,
                                  const std::vector<std::filesystem::path>& pipelines = {});
// The dataset of a path that a job names; `reading` as JoinRequest has it. Throws ConfigError.
NodeDataset brought_dataset(const std::filesystem::path& path, std::string_view reading);
// Reads `path,size` of the command line. Throws ConfigError.
SpillOptions spill_from_argument(std::string_view text);
// Reads `[ADDRESS:]PORT` of the command line. Throws ConfigError.
void listen_remotely(remote::RemoteOptions& tcp, std::string_view text);
// Reads `preset=name` or `kind=name[:parameter=value...]` of the command line. Throws ConfigError.
void choose_policy(engine::EngineConfig& config, std::string_view text);
// Throws ConfigError unless the engine would take it.
void check_policy(std::string_view name, std::string_view text);
// What stands behind the policy's name in the log: that it may starve jobs, or nothing.
std::string_view policy_note(std::string_view kind, std::string_view text);

}  // namespace batchflow::service
