#include "runtime/service/service_cluster.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "fmt/format.h"
#include "runtime/service/cluster/agent.h"
#include "runtime/service/cluster/candidate.h"
#include "runtime/service/service_parts.h"

namespace batchflow::service {

#ifdef BATCHFLOW_REMOTE
namespace {

// An agent fills in an empty host: the one that it has joined.
std::string page_address(const std::string& address, int port) {
  const bool is_everywhere = address == "0.0.0.0" || address == "::";
  return with_host(fmt::format("http://:{}/", port), is_everywhere ? "" : address);
}

}  // namespace

Peers* ServiceCluster::make_peers(const Post& post) {
  if (parts_.config.tcp.cluster_token_file.empty()) return nullptr;
  peers_ = std::make_unique<PeerLinks>(
      NodeAccess{parts_.config.tcp.cluster_token_file, parts_.config.cluster.authorities}, post,
      parts_.config.cluster.lost_after, [this](NodeId node, const std::string& problem) {
        if (cluster_) cluster_->unreachable(NodeId(0), node, problem);
      });
  return peers_.get();
}

void ServiceCluster::begin(const Post& post) {
  if (!peers_) return;
  peer_server_ = std::make_unique<PeerServer>(*parts_.backend, post);
  cluster_ = std::make_unique<Cluster>(Cluster::Host{
      parts_.loop, parts_.inbox, parts_.jobs, *parts_.warming, parts_.datasets, parts_.users,
      *peers_, post, [this](const LogLine& line) { parts_.log.say(line); },
      [this](Peer& peer, std::string_view frame, std::string& problem) {
        const std::string type = protocol::message_type(frame, problem);
        return !type.empty() && parts_.connections.take_message(peer, type, frame, {}, problem);
      },
      [this](Peer& peer) {
        parts_.jobs.gone(peer);
        parts_.joining->gone(peer);
        parts_.end_if_drained();
      },
      parts_.config.cluster.lost_after, parts_.config.cluster.unsent_most,
      term_ ? term_->name() : TermName{}, [this](const std::string& why) { end_term(why); }});
  parts_.users.on_change([this] { cluster_->limits_changed(); });
}

// If nothing waited for them, what they keep would be read from the store again.
bool ServiceCluster::waits_for_agents() {
  if (expected_ == 0 || !cluster_) return false;
  const bool is_late = parts_.now() - Instant{} > parts_.config.cluster.lost_after;
  if (is_late || cluster_->ready() >= expected_) expected_ = 0;
  return expected_ > 0;
}

PromiseFile::Place ServiceCluster::promises_place() const {
  if (!term_) return {parts_.config.state / "promises"};
  const std::uint64_t number = term_->name().number;
  const TermFolder& folder = term_->folder();
  return {folder.promises_of(number), folder.promises_before(number), true};
}

void ServiceCluster::serve_term() {
  if (!term_) return;
  // What was promised before goes when this term's own file has all of it.
  if (!parts_.promises->is_behind()) term_->folder().remove_before(term_->name().number);
  term_->serve(node_address(parts_.config.tcp, parts_.config.tcp.address, remote_->port()),
               [this](const std::string& why) {
                 boost::asio::post(parts_.loop, [this, why] { end_term(why); });
               });
}

bool ServiceCluster::may_carry_out() {
  if (!term_ || superseded_) return !superseded_;
  if (parts_.promises->is_behind()) {
    end_term(parts_.promises->take_problem());
  } else if (!parts_.engine->promises().empty() && term_->is_over()) {
    end_term(fmt::format("another node has taken term {}", term_->name().number + 1));
  }
  return !superseded_;
}

void ServiceCluster::end_term(const std::string& why) {
  if (std::exchange(superseded_, true)) return;
  parts_.log.say({fmt::format("{}; this node coordinates no more, and lets {} jobs go", why,
                              parts_.jobs.status(parts_.now()).size()),
                  LogLevel::warning});
  parts_.loop.stop();
}

void ServiceCluster::carry_out(std::span<const engine::Command> issued) {
  if (cluster_) {
    cluster_->carry_out(issued, *parts_.backend);
  } else {
    parts_.backend->carry_out(issued);
  }
}

void ServiceCluster::listen() {
  if (parts_.config.tcp.port < 0) return;
  remote_ = std::make_unique<remote::RemoteListener>(
      parts_.config.tcp, parts_.config.socket,
      [this](remote::TcpChannel& channel, std::string_view as, const std::string& from) {
        if (as == remote::kAgent) {
          cluster_->serve(channel, from);
        } else {
          peer_server_->serve(channel);
        }
      },
      [this](const std::string& name) {
        return remote::open_feed_in(parts_.jobs.feeds().folder_of(name), name);
      },
      [this](const std::string& line) {
        boost::asio::post(parts_.loop, [this, line] {
          parts_.log.say({line, LogLevel::warning, "remote"});
        });
      });
  if (!cluster_) return;
  if (parts_.http)
    cluster_->set_page(page_address(parts_.config.http_address, parts_.http->port()));
  cluster_->set_own_address(
      node_address(parts_.config.tcp, parts_.config.tcp.address, remote_->port()));
  serve_term();
}

int ServiceCluster::port() const {
  return remote_ ? remote_->port() : -1;
}

void ServiceCluster::end_listening() {
  remote_.reset();
}

void ServiceCluster::end_peers() {
  peers_.reset();
}

#else
Peers* ServiceCluster::make_peers(const Post&) {
  if (!parts_.config.tcp.cluster_token_file.empty())
    throw ConfigError("cluster_token_file: this service was built without OpenSSL (libssl-dev)");
  return nullptr;
}

void ServiceCluster::begin(const Post&) {}

PromiseFile::Place ServiceCluster::promises_place() const {
  return {parts_.config.state / "promises"};
}

bool ServiceCluster::may_carry_out() {
  return true;
}

bool ServiceCluster::waits_for_agents() {
  return false;
}

void ServiceCluster::carry_out(std::span<const engine::Command> issued) {
  parts_.backend->carry_out(issued);
}

void ServiceCluster::listen() {
  if (parts_.config.tcp.port >= 0)
    throw ConfigError("tcp: this service was built without OpenSSL (libssl-dev)");
}

int ServiceCluster::port() const {
  return -1;
}

void ServiceCluster::end_listening() {}

void ServiceCluster::end_peers() {}

int run_agent(const NodeConfig&, const std::function<void(const std::string&)>&) {
  throw ConfigError("--join: this service was built without OpenSSL (libssl-dev)");
}

int run_candidate(const NodeConfig&, const Service::Reread&,
                  const std::function<void(const std::string&)>&) {
  throw ConfigError("--cluster-log: this service was built without OpenSSL (libssl-dev)");
}

#endif

}  // namespace batchflow::service
