// Refuses what no service could use of a configuration, on whatever machine: at the start, and for
// files that are checked elsewhere.
#include "fmt/format.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {
namespace {

void check_remote(const remote::RemoteOptions& tcp) {
  if (tcp.port >= 0 && tcp.token_file.empty())
    throw ConfigError(
        "tcp: no token file; anyone at the port could read all data. Write "
        "token_file (--tcp-token FILE)");
  if (tcp.certificate.empty() != tcp.key.empty())
    throw ConfigError("tcp: a certificate takes its key, and a key its certificate; write both");
}

}  // namespace

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
  if (config.datasets.empty() && !config.open_datasets)
    throw ConfigError("no dataset to serve; write --dataset NAME=/path/to/it, or --open-datasets");
  check_remote(config.tcp);
}

}  // namespace batchflow::service
