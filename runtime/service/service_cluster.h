// What a service has to do with other machines: its agents, its peers, remote jobs, and the term
// for which it coordinates. All of it does nothing in a build without OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/engine/event.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/log/promise_file.h"
#include "runtime/service/service.h"
#ifdef BATCHFLOW_REMOTE
#include "runtime/remote/listener.h"
#include "runtime/service/cluster/cluster.h"
#include "runtime/service/cluster/terms.h"
#endif

namespace batchflow::service {

class Peers;

class ServiceCluster {
 public:
  explicit ServiceCluster(Service::Parts& parts) : parts_(parts) {}

  // For the backend. Null: no agent may join.
  Peers* make_peers(const Post& post);
  void begin(const Post& post);
  void listen();
  void carry_out(std::span<const engine::Command> issued);
  PromiseFile::Place promises_place() const;
  // Whether what has been promised may be carried out: no other node coordinates by now.
  bool may_carry_out();
  bool is_superseded() const { return superseded_; }
  // So many agents of the previous coordinator may come back: jobs wait a moment for what these
  // keep.
  void expect(std::size_t agents) { expected_ = agents; }
  bool waits_for_agents();
  // -1: none listens.
  int port() const;
  void end_listening();
  // After the backend's end.
  void end_peers();
#ifdef BATCHFLOW_REMOTE
  void set_term(std::unique_ptr<HeldTerm> term) {
    term_ = std::move(term);
  }
  Cluster* agents() const {
    return cluster_.get();
  }  // null: no agent may join
  const PeerLinks* peers() const {
    return peers_.get();
  }
#endif

 private:
  void serve_term();
  void end_term(const std::string& why);

  Service::Parts& parts_;
  bool superseded_ = false;  // this node coordinates no more
  std::size_t expected_ = 0;
#ifdef BATCHFLOW_REMOTE
  std::unique_ptr<HeldTerm> term_;    // null: this node's alone
  std::unique_ptr<PeerLinks> peers_;  // the backend uses it
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<PeerServer> peer_server_;
  std::unique_ptr<remote::RemoteListener> remote_;
#endif
};

}  // namespace batchflow::service
