// The service of a node: connections, engine, backend and logs on one thread. It collects what has
// happened, steps the engine, and carries out its commands.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "policies/registry.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {

struct CacheMemory;
class HeldTerm;
class ListeningSocket;

class Service {
 public:
  // Reads the configuration again, as it is written by now. Throws ConfigError.
  using Reread = std::function<NodeConfig()>;

  // Binds the socket and opens logs. `policies` outlive it. Throws ConfigError.
  explicit Service(NodeConfig config, Reread reread = {},
                   const engine::PolicyList& policies = policies::policy_list());
  // What a node of a cluster has from before it coordinates.
  struct Before {
    std::shared_ptr<CacheMemory> kept;  // as an agent
    std::size_t others = 0;             // agents of the coordinator before
  };
  // Coordinates a cluster for a term, as long as no other node takes a newer one. Clients come at
  // `listening`.
  Service(NodeConfig config, Reread reread, std::unique_ptr<HeldTerm> term,
          std::shared_ptr<ListeningSocket> listening, Before before);
  ~Service();

  // Serves until stop(), a signal, or the end of a drain (docs/operations.md); SIGHUP reloads.
  // Answers the signal that ended it at once, or 0. `log` gets a line for each thing that people
  // should know.
  int run(const std::function<void(const std::string& line)>& log);
  // Whether run() has ended because this node coordinates no more. False if it was draining.
  bool is_superseded() const;
  // Any thread, or a signal handler, may call it. The service ends after what is being delivered.
  void stop();
  int http_port() const;  // -1: none
  int tcp_port() const;   // -1: none

  struct Parts;  // what it is made of: service_parts.h

 private:
  void begin();
  std::unique_ptr<Parts> parts_;
};

}  // namespace batchflow::service
