// The nodes of a service beside its own: their agents join here. What the engine commands for a
// node goes to its agent, and what the agent reports comes back as events.
//
// All of it is on the service's thread, but for serve().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "core/log/event_codec.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/cluster/command_routes.h"
#include "runtime/service/cluster/lost_nodes.h"
#include "runtime/service/cluster/node_link.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/cluster/peer_links.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/jobs.h"
#include "runtime/service/jobs/users.h"

namespace batchflow::service {

class NodeRank;

class Cluster {
 public:
  struct Host {
    boost::asio::io_context& loop;
    Inbox& inbox;
    Jobs& jobs;
    JobCommands& commands;  // those that are about jobs
    Datasets& datasets;
    const Users& users;
    PeerLinks& peers;
    Post post;
    Say say;
    // A frame of a rank on another node. False: it is nonsense, and `problem` is what to say.
    std::function<bool(Peer& peer, std::string_view frame, std::string& problem)> on_frame;
    std::function<void(Peer& peer)> on_end;
    std::chrono::milliseconds silence;  // after which a node is lost
    Bytes unsent_most;                  // that may wait for a node, which is lost then
    TermName term;
    // This node is to coordinate no more: an agent has served a newer term, or most nodes are gone,
    // and one of them may coordinate the others.
    std::function<void(const std::string& why)> superseded;
  };
  explicit Cluster(Host host);
  ~Cluster();

  // Where other nodes reach the backend of this one.
  void set_own_address(std::string address) { own_address_ = std::move(address); }
  // The page of this node; empty: it has none. Where it names no host, an agent takes the host that
  // it has joined.
  void set_page(std::string page) { page_ = std::move(page); }
  // Agents hold users to them, each at its own sockets.
  void limits_changed();
  // Serves an agent, which has shown its token, until it is gone. Called on a thread of its own.
  void serve(remote::TcpChannel& channel, const std::string& from);

  // Hands commands for other nodes to their agents, and the others to the backend.
  void carry_out(std::span<const engine::Command> commands, Backend& backend);
  // Agents open what is new.
  void added(const ServedDataset& dataset);
  void added(const ServedPipeline& pipeline);
  void gone(PipelineId pipeline);
  // False: all agents have opened it, or set it up. True: `then` is called when they have, or with
  // why one cannot.
  bool waits_for(ServedId what, std::function<void(const std::string& problem)> then);

  // The node `from` cannot reach the backend of `node`, although both are there.
  void unreachable(NodeId from, NodeId node, const std::string& problem);

  std::vector<NodeStatus> status() const;
  std::size_t ready() const;  // agents
  // What was delivered to ranks on other nodes.
  struct Delivered {
    std::uint64_t batches = 0;
    std::uint64_t samples = 0;
  };
  const Delivered& delivered() const { return delivered_; }

 private:
  struct Agent {
    NodeId node;
    AgentGreeting greeting;
    std::string address;  // of its backend
    std::shared_ptr<NodeLink> link;
    Bytes drive = 0;                           // that its engine may divide; 0: there is none
    bool ready = false;                        // what there was at its start is open, and set up
    bool leaving = false;                      // it hands over what it keeps, and ends
    std::set<ServedId> unanswered;             // what it opens or sets up now
    std::map<ServedId, std::string> problems;  // why it could not
    std::map<std::uint32_t, std::shared_ptr<NodeRank>> ranks;
    log::EventDecoder events;
    NodeCounters counters;
    // Of an agent that is not ready yet: what it keeps from before.
    std::vector<std::pair<engine::SamplesKept, std::vector<SampleId>>> kept;
  };
  struct Waiting {
    ServedId what;
    std::function<void(const std::string& problem)> then;
  };
  struct Admission {
    std::string problem;  // empty: it is in
    NodeId node = NodeId::none();
    bool may_ask_again = false;  // another attempt may be let in
  };
  Admission admit(AgentGreeting greeting, const std::string& from,
                  const std::shared_ptr<NodeLink>& link);
  void say_refusal(const std::string& from, const std::string& problem);
  void lost(const NodeLink& link, const std::string& why);
  void look_at_majority(const std::string& lost);
  void take(NodeId node, NodeFrame frame);
  void take_message(Agent& agent, const NodeMessage& message);
  void take_rank(Agent& agent, const RankMessage& message);
  void take_events(Agent& agent, std::span<const std::byte> bytes);
  void take_capacity(Agent& agent, const engine::CapacityChanged& change);
  void take_kept(Agent& agent, const engine::SamplesKept& kept);
  void pass_on_kept(Agent& agent);
  void take_record(Agent& agent, std::span<const std::byte> bytes);
  template <class Done>
  void take_done(const Agent& agent, Done done);
  void take_opened(Agent& agent, ServedId what, const std::string& problem);
  static void ask_for(Agent& agent, const ServedDataset& dataset);
  static void ask_for(Agent& agent, const ServedPipeline& pipeline);
  void begin_if_ready(Agent& agent);
  void look_at_waiting();
  void end_rank(Agent& agent, std::uint32_t rank);
  void deliver(const engine::Deliver& command);
  Agent* find(NodeId node) const;

  Host host_;
  std::string own_address_, page_;
  std::map<std::uint32_t, std::unique_ptr<Agent>> agents_;  // by node
  LostNodes lost_nodes_;
  CommandRoutes routes_;
  std::string said_refusal_;
  std::uint32_t next_node_ = 1;
  Delivered delivered_;
  std::vector<Waiting> waiting_;
  std::vector<engine::Command> here_;                            // scratch
  std::map<std::uint32_t, std::vector<engine::Command>> there_;  // by node; scratch
};

}  // namespace batchflow::service
