// Measures the network between this node and another, on which `batchflowctl calibrate --listen`
// runs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace batchflow::ctl {

// The rate of some streams together. The processor times are of the threads that send and receive;
// what interrupts take is not in them.
struct NetworkRate {
  unsigned streams = 0;
  bool is_sent = false;  // by this node; else received
  double bytes_per_s = 0;
  double own_s_per_byte = 0;
  double peer_s_per_byte = 0;
};

struct NetworkCosts {
  std::string peer;
  double p50_s = 0, p99_s = 0;  // of a small message there and back
  std::vector<NetworkRate> rates;

  // The greatest rate, with any number of streams.
  double most_bytes_per_s(bool is_sent) const;
  // The processor time of this node, with one stream.
  double cpu_s_per_byte(bool is_sent) const;
};

struct NetworkCostsOptions {
  std::string peer;  // as 10.0.0.2:9840
  std::string token_file;
  double seconds = 2;
  std::function<void(double done, std::string_view what)> progress;
  std::function<bool()> stop;
};
// Throws ConfigError, Failure where the peer does not answer as it should, and Interrupted.
NetworkCosts measure_network(const NetworkCostsOptions& options);

}  // namespace batchflow::ctl
