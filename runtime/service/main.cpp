// batchflowd: the service of a node.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "programs/input/yaml.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "programs/version/version.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/service/cluster/agent.h"
#include "runtime/service/cluster/candidate.h"
#include "runtime/service/control/node_memory.h"
#include "runtime/service/log/log_file.h"
#include "runtime/service/plugins/hang_guard.h"
#include "runtime/service/service.h"

namespace {

using namespace batchflow;
using namespace batchflow::service;

constexpr const char* kExamples =
    "Examples:\n"
    "  batchflowd --dataset imagenet=/data/imagenet/train\n"
    "  batchflowd --dataset /data/digits,pipeline=imagenet-val --memory 4gib --workers 4\n"
    "  batchflowd --config node.yaml\n";

NodeConfig read_file(const std::string& file) {
  return read_node_config(input::read_regular_yaml_file(file));
}

// Checks only the file: datasets, tokens and memory are on the machine that will run it. Only the
// folder of its log must be here.
int check(const std::string& file, bool with_more) {
  std::error_code ignored;
  if (with_more)
    throw ConfigError("--check: it reads the file alone; write it without other options");
  const NodeConfig config = read_file(file);
  check_node_config(config);
  check_memory(config);
  const std::filesystem::path folder = config.log_file.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    throw ConfigError(fmt::format(
        "log_file: {}: there is no such folder; make it, or choose another file", folder.string()));
  const std::string sets = config.datasets.size() == 1
                               ? "1 dataset"
                               : fmt::format("{} datasets", config.datasets.size());
  const std::string said = fmt::format("{}: a service would take it; it serves {}{}", file, sets,
                                       config.open_datasets ? " and what jobs bring" : "");
  std::printf("%s\n", output::printable(said).c_str());
  return 0;
}

int exit_code(int ended_by) {
  return ended_by == SIGINT ? 130 : 0;
}

// What the command line says. What it leaves out is as the file has it.
struct CommandLine {
  std::string config_file;
  std::vector<std::string> dataset_texts;
  std::vector<std::string> policies, plugins, plugin_keys;
  bool uncertified = false;
  std::string memory, spill, socket, state, io_engine, log, log_file, corrupt_ratio_allowed;
  std::uint32_t workers = 0;
  int http_port = INT_MIN;
  double exit_when_idle_s = -1;
  std::string tcp, tcp_token, tcp_certificate, tcp_key;
  std::string join, name, cluster_token, cluster_authorities, cluster_log;
  double lost_after_s = 0;
  bool tcp_feeds = false, open_datasets = false, direct = true, journal = false, explain = false;
  std::string checked_file;

  void add_options(CLI::App& app);
  // The file as it is written by now, and the command line beside it.
  NodeConfig configured() const;
};

void CommandLine::add_options(CLI::App& app) {
  app.add_option("--config", config_file, "A file of `kind: node`")->check(CLI::ExistingFile);
  app.add_option("--dataset", dataset_texts,
                 "NAME=PATH[,pipeline=NAME][,format=NAME][,tokens=COUNT][,packing=NAME][,pin]"
                 "[,split=NAME:RULE...]; "
                 "may be repeated");
  app.add_option("--memory", memory,
                 "Memory that the service may take in all (4gib); default: half of what is free");
  app.add_option("--spill", spill,
                 "PATH,SIZE: samples that memory has no room for are kept in a file there");
  app.add_option("--workers", workers, "Threads that prepare; default: one a core")
      ->check(CLI::Range(1, 4096));
  app.add_option("--socket", socket, "Where jobs find the service");
  app.add_option("--state", state, "Where indices and logs are kept");
  app.add_option("--http", http_port,
                 "Port of the status page and metrics, on loopback; 0: any free one, -1: none")
      ->check(CLI::Range(-1, 65535));
  app.add_option(
      "--tcp", tcp,
      "[ADDRESS:]PORT for jobs on other machines; without ADDRESS on loopback; default: none");
  app.add_option("--tcp-token", tcp_token,
                 "File of tokens, one a line; a remote job must show one of them");
  app.add_option("--tcp-certificate", tcp_certificate, "In PEM: remote jobs must use TLS");
  app.add_option("--tcp-key", tcp_key, "The certificate's key, in PEM");
  app.add_flag("--tcp-feeds", tcp_feeds,
               "Producers on other machines may send to feeds, with a token of --tcp-token");
  app.add_option("--join", join,
                 "tcp://HOST:PORT or tls://HOST:PORT of a coordinator: this process is its agent "
                 "for this node. With commas between them: all places where it may be");
  app.add_option("--cluster-log", cluster_log,
                 "A folder that several nodes share. One of them coordinates, the others are its "
                 "agents, and one of these takes over when it goes");
  app.add_option("--name", name,
                 "Name of this agent, unlike all others; default: the machine's name");
  app.add_option("--cluster-token", cluster_token,
                 "File of tokens that nodes of one cluster share; with --tcp, agents may join");
  app.add_option("--cluster-authorities", cluster_authorities,
                 "In PEM: the authorities of other nodes' certificates; default: the system's");
  app.add_option("--lost-after", lost_after_s,
                 "SECONDS of silence after which a node of the cluster is lost; default: 2")
      ->check(output::number_between(0.5, 3600));
  app.add_option("--io-engine", io_engine, "auto, io_uring or pread")
      ->check(CLI::IsMember(
          std::vector<std::string>(storage::kEngines.begin(), storage::kEngines.end())));
  app.add_option("--policy", policies, "kind=name[:parameter=value], or preset=name");
  app.add_option("--plugin", plugins,
                 "FILE of a policy plugin, or NAME of one in BATCHFLOW_PLUGIN_PATH; repeatable")
      ->allow_extra_args(false);
  app.add_option("--plugin-key", plugin_keys,
                 "A public key in PEM: plugins that are certified with it may run; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--uncertified", uncertified,
               "Plugins without a certificate may run, too, in processes of their own");
  app.add_option("--exit-when-idle", exit_when_idle_s,
                 "Ends after SECONDS without a connected client; 0: never (default)")
      ->check(output::number_between(0, 1e8));
  app.add_option("--log", log, "Format of the log's lines: text or json")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_option("--log-file", log_file,
                 "Write the log to this file, of bounded size; default: standard error");
  app.add_flag("--direct,!--no-direct", direct, "Read past the page cache (default)");
  app.add_flag("--open-datasets", open_datasets, "Jobs may name folders that they can read");
  app.add_option("--corrupt-ratio-allowed", corrupt_ratio_allowed,
                 "The largest part of its samples that a job may allow to be corrupt, as 5%");
  app.add_flag("--journal", journal, "Record the events of the engine, for replay");
  app.add_flag("--explain", explain,
               "Keep the last decisions of policies, for batchflowctl explain");
  app.add_option("--check", checked_file,
                 "A file of `kind: node`: says whether a service would take it, and ends")
      ->check(CLI::ExistingFile);
}

NodeConfig CommandLine::configured() const {
  NodeConfig config = default_node_config();
  if (!config_file.empty()) config = read_file(config_file);
  if (!state.empty()) config.state = std::filesystem::absolute(state).lexically_normal();
  PluginSettings more;
  more.files = plugins;
  more.keys = config.plugins.keys;
  more.keys.insert(more.keys.end(), plugin_keys.begin(), plugin_keys.end());
  more.uncertified = config.plugins.uncertified || uncertified;
  load_configured(more, config.state, config.plugin_notes);
  config.plugins.keys = more.keys;
  config.plugins.uncertified = more.uncertified;
  for (const std::string& text : policies) choose_policy(config.engine, text);
  for (const std::string& text : dataset_texts)
    config.datasets.push_back(dataset_from_argument(text, config.pipelines));
  if (!memory.empty()) {
    const std::optional<Bytes> bytes = parse_bytes(memory);
    if (!bytes)
      throw ConfigError(fmt::format("--memory {}: not a size; write 4gib or 4gb", memory));
    config.memory = *bytes;
  }
  if (!spill.empty()) config.spill = spill_from_argument(spill);
  if (http_port != INT_MIN) config.http_port = http_port;
  if (exit_when_idle_s >= 0)
    config.exit_when_idle =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(exit_when_idle_s));
  if (!tcp.empty()) listen_remotely(config.tcp, tcp);
  if (!tcp_token.empty()) config.tcp.token_file = tcp_token;
  if (!tcp_certificate.empty()) config.tcp.certificate = tcp_certificate;
  if (!tcp_key.empty()) config.tcp.key = tcp_key;
  config.tcp.feeds = config.tcp.feeds || tcp_feeds;
  if (!cluster_token.empty()) config.tcp.cluster_token_file = cluster_token;
  if (!cluster_authorities.empty()) config.cluster.authorities = cluster_authorities;
  if (!join.empty()) config.cluster.join = join;
  if (!cluster_log.empty())
    config.cluster.log = std::filesystem::absolute(cluster_log).lexically_normal();
  if (!name.empty()) config.cluster.name = name;
  if (lost_after_s > 0)
    config.cluster.lost_after = std::chrono::milliseconds(std::llround(1000 * lost_after_s));
  if (workers != 0) config.workers = workers;
  if (!socket.empty()) config.socket = std::filesystem::absolute(socket).lexically_normal();
  if (!io_engine.empty()) config.storage.engine = io_engine;
  if (!log.empty()) config.log = log == "json" ? LogForm::json : LogForm::text;
  if (!log_file.empty()) config.log_file = std::filesystem::absolute(log_file).lexically_normal();
  config.storage.direct = config.storage.direct && direct;
  config.open_datasets = config.open_datasets || open_datasets;
  if (!corrupt_ratio_allowed.empty()) {
    const std::optional<Ratio> ratio = parse_ratio(corrupt_ratio_allowed);
    if (!ratio || ratio->parts > Ratio::kWhole)
      throw ConfigError(
          fmt::format("--corrupt-ratio-allowed {}: not a part of all; write 5% or "
                      "0.05",
                      corrupt_ratio_allowed));
    config.corrupt_ratio_allowed = *ratio;
  }
  config.journal = config.journal || journal;
  config.explain = config.explain || explain;
  check_node_config(config);
  return config;
}

// An empty text may come from a variable that is not set. It must not be taken for an option that
// is left out.
void refuse_empty(const std::vector<const CLI::Option*>& options) {
  for (const CLI::Option* one : options) {
    const std::vector<std::string>& texts = one->results();
    if (std::find(texts.begin(), texts.end(), "") != texts.end())
      throw ConfigError(
          fmt::format("{}: it is followed by an empty text; write {} VALUE, or leave "
                      "it out",
                      one->get_name(), one->get_name()));
  }
}

void prepare_process() {
  // Each slab that jobs map is a descriptor.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  // If a file may not grow any more, its write fails, and the service goes on.
  std::signal(SIGXFSZ, SIG_IGN);
  if (const char* const failing = std::getenv("BATCHFLOW_FAILPOINTS"))
    failpoint::configure_failpoints(failing);
}

int serve(int argc, char** argv) {
  CLI::App app("The data service of a node: prepares each sample once, for all jobs.",
               "batchflowd");
  app.footer(kExamples);
  CommandLine line;
  line.add_options(app);
  app.set_version_flag("--version", version::version_text("batchflowd"));
  if (const auto status = output::command_line_ends(app, argc, argv)) return *status;
  const auto said = app.get_options([](const CLI::Option* one) { return one->count() > 0; });
  refuse_empty({said.begin(), said.end()});
  if (!line.checked_file.empty()) return check(line.checked_file, said.size() > 1);
  prepare_process();
  const auto read_again = [&] {
    if (BF_FAILPOINT("service.reload.read"))
      throw ConfigError(fmt::format("{}: {}", line.config_file, std::strerror(EIO)));
    return line.configured();
  };
  NodeConfig config = line.configured();
  std::optional<service::RotatingFile> file;
  if (!config.log_file.empty()) file.emplace(config.log_file, config.log_bytes);
  const auto write = [&file](const std::string& text) {
    // The line has names of jobs and files, which any user may choose.
    if (!file || !file->append(output::printable(text))) output::say(text);
  };
  if (!config.cluster.join.empty()) return exit_code(service::run_agent(config, write));
  if (!config.cluster.log.empty())
    return exit_code(service::run_candidate(config, read_again, write));
  service::Service service(std::move(config), read_again);
  return exit_code(service.run(write));
}

int serve_and_report(int argc, char** argv) {
  try {
    return serve(argc, argv);
  } catch (const ConfigError& error) {
    output::say("batchflowd: " + std::string(error.what()));
    return 2;
  } catch (const std::exception& error) {
    output::say("batchflowd: " + std::string(error.what()));
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  memory::prepare_for_no_memory();
  service::remember_command_line(argv);
  const int code = serve_and_report(argc, argv);
  failpoint::report_failpoints();
  return code;
}
