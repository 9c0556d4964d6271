// Refuses what no service could use of a configuration, on whatever machine: at the start, and for
// files that are checked elsewhere.
#include <algorithm>

#include "fmt/format.h"
#include "runtime/protocol/channel.h"
#include "runtime/service/control/node_config.h"
#ifdef BATCHFLOW_REMOTE
#include "runtime/remote/tcp_channel.h"
#endif

namespace batchflow::service {
namespace {

void check_remote(const remote::RemoteOptions& tcp) {
  if (tcp.port >= 0 && tcp.token_file.empty() && tcp.cluster_token_file.empty())
    throw ConfigError(
        "tcp: no token file; anyone at the port could read all data. Write "
        "token_file (--tcp-token FILE)");
  if (tcp.feeds && (tcp.port < 0 || tcp.token_file.empty()))
    throw ConfigError(
        "tcp: feeds take records of producers on other machines, which reach a port and show a "
        "token; write port and token_file (--tcp [ADDRESS:]PORT --tcp-token FILE)");
  if (tcp.certificate.empty() != tcp.key.empty())
    throw ConfigError("tcp: a certificate takes its key, and a key its certificate; write both");
}

// What the nodes of a cluster cannot do yet.
void check_cluster(const NodeConfig& config) {
  if (config.cluster.join.empty() && config.tcp.port < 0)
    throw ConfigError(
        "cluster: no port for agents; write tcp: {port: 9838} (--tcp [ADDRESS:]PORT), or join for "
        "an agent (--join tcp://HOST:PORT)");
  const std::string& address = config.tcp.address;
  if (!config.cluster.log.empty() && (address.empty() || address == "0.0.0.0" || address == "::"))
    throw ConfigError(
        "cluster: other nodes must find this one at one address; write the address at which they "
        "reach it (--tcp ADDRESS:PORT)");
}

void check_candidate(const NodeConfig& config) {
  if (config.tcp.cluster_token_file.empty())
    throw ConfigError(
        "--cluster-log: no token; write the file of tokens that all nodes share "
        "(--cluster-token FILE)");
}

std::string address_problem(const std::string& address) {
  if (!protocol::is_remote(address))
    return fmt::format("'{}' is not an address; write tcp://HOST:PORT or tls://HOST:PORT", address);
#ifdef BATCHFLOW_REMOTE
  std::string problem;
  remote::RemoteAddress parsed;
  remote::parse_remote(address, parsed, problem);
  return problem;
#else
  return "this service was built without OpenSSL (libssl-dev)";
#endif
}

void check_agent(const NodeConfig& config) {
  for (const std::string& one : split_addresses(config.cluster.join)) {
    if (const std::string problem = address_problem(one); !problem.empty())
      throw ConfigError("--join: " + problem);
  }
  if (!config.cluster.log.empty())
    throw ConfigError(
        "--join: the nodes of --cluster-log find their coordinator there; leave one of the two "
        "out");
  if (config.tcp.cluster_token_file.empty())
    throw ConfigError(
        "--join: no token; write the file of tokens that the coordinator has (--cluster-token "
        "FILE)");
  if (!config.datasets.empty() || config.open_datasets)
    throw ConfigError(
        "--join: an agent serves the datasets of its coordinator; leave --dataset and "
        "--open-datasets out");
  if (config.journal)
    throw ConfigError("--journal: the coordinator has the engine, and records; leave it out here");
}

}  // namespace

std::vector<std::string> split_addresses(const std::string& text) {
  std::vector<std::string> all;
  std::size_t begin = 0;
  do {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    all.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  } while (begin <= text.size());
  return all;
}

void check_names(const std::vector<NodeDataset>& datasets) {
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (datasets[i].name.starts_with('/') || datasets[i].name.starts_with('.'))
      throw ConfigError(
          fmt::format("dataset '{}': jobs would take this name for a path, since it begins with / "
                      "or .; give it another (--dataset NAME=PATH)",
                      datasets[i].name));
    if (datasets[i].name.find(':') != std::string::npos)
      throw ConfigError(
          fmt::format("dataset '{}': in names a colon stands before a split; give it another "
                      "(--dataset NAME=PATH)",
                      datasets[i].name));
    for (std::size_t j = 0; j < i; ++j) {
      if (datasets[i].name == datasets[j].name)
        throw ConfigError(fmt::format(
            "two datasets are called '{}': {} and {}; give one another name (--dataset NAME=PATH)",
            datasets[i].name, datasets[j].path.string(), datasets[i].path.string()));
    }
  }
}

void check_node_config(const NodeConfig& config) {
  check_names(config.datasets);
  check_remote(config.tcp);
  if (!config.tcp.cluster_token_file.empty()) check_cluster(config);
  if (!config.cluster.join.empty()) return check_agent(config);
  if (!config.cluster.log.empty()) check_candidate(config);
  if (config.datasets.empty() && !config.open_datasets)
    throw ConfigError("no dataset to serve; write --dataset NAME=/path/to/it, or --open-datasets");
}

}  // namespace batchflow::service
