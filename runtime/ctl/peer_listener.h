// The other end of `batchflowctl calibrate --peer`: it sends and receives what the node that
// measures asks for. Nothing is sent to a node that shows no token, and one node measures at a
// time. Connections, their time and their memory are bounded.
#pragma once

#include <functional>
#include <string>

namespace batchflow::ctl {

struct PeerListenerOptions {
  std::string address;  // with a port; port 0: any free one
  std::string token_file;
  bool once = false;  // it ends after the first measurement
  std::function<bool()> stop;
};

// Until `stop` says so. Answers whether the last measurement came to its end, or there was none.
// Throws ConfigError.
bool serve_peers(const PeerListenerOptions& options);

}  // namespace batchflow::ctl
