// `batchflow-sim check PLUGIN.so`: whether a plugin may be shipped.
#pragma once

#include <string>

#include "programs/output/output_flags.h"

namespace batchflow::sim {

struct PluginCheckOptions {
  std::string plugin;
  std::string key;        // in PEM: signs a certificate
  double most_worse = 1;  // points of stall
  output::OutputFlags outputs;
};

// 0: it passed. 1: it did not.
int check_plugin(const PluginCheckOptions& options);

}  // namespace batchflow::sim
