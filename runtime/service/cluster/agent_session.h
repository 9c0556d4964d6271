// An agent's life with one coordinator: from looking for it to its loss. Jobs come meanwhile.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/log/event_codec.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/cluster/agent.h"
#include "runtime/service/cluster/agent_datasets.h"
#include "runtime/service/cluster/agent_ranks.h"
#include "runtime/service/cluster/agent_state.h"
#include "runtime/service/cluster/joining_coordinator.h"
#include "runtime/service/cluster/node_link.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/cluster/peer_entrance.h"
#include "runtime/service/cluster/peer_links.h"
#include "runtime/service/connection.h"
#include "runtime/service/http/history.h"
#include "runtime/service/http/http.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/users.h"
#include "runtime/service/log/service_log.h"

namespace batchflow::service {

class AgentSession final : public ConnectionHost {
 public:
  // What an agent has from one session to the next.
  struct Host {
    const NodeConfig& config;
    const FindCoordinator& find;
    ServiceLog& log;
    const protocol::Descriptor& listening;
    const protocol::Descriptor& signals;  // a signalfd
    AgentState& state;
    CacheMemory& memory;
    std::chrono::steady_clock::time_point began;  // the agent
    bool is_first = true;                         // session
  };
  explicit AgentSession(const Host& host);
  ~AgentSession();

  // Until a signal ends it, the coordinator is lost, or this node is to coordinate.
  AgentOutcome run();
  // Why the coordinator refused this agent, if it did.
  const std::string& refusal() const { return refusal_; }
  // How many other agents the coordinator had; nothing: this one has not joined it.
  std::optional<std::size_t> others() const {
    return link_ ? std::optional(other_agents_.size()) : std::nullopt;
  }

  bool on_frame(Connection& connection, std::string_view frame,
                std::vector<protocol::Descriptor> descriptors, std::string& problem) override;
  void on_doorbell(Connection& connection) override;
  void on_end(Connection& connection) override;
  bool on_unfinished(Connection& connection, std::int64_t change) override;

 private:
  void post(std::function<void()> what);
  void schedule();
  void step();
  void accept();
  void check();
  void show();
  void report();
  void note_history();
  NodeCounters counters() const;
  AgentSnapshot snapshot() const;
  void write_rest_soon();
  void wait_for_signal();
  void leave();
  void end(const std::string& why);
  void look_for_coordinator();
  void set_joining(remote::TcpChannel* channel);
  void begin(Joined joined);
  void make_backend(Backend::Options options, const Post& posting);
  void report_kept(DatasetId dataset);
  void offer_drive(const Joined& joined);
  void serve(const TermName& term);
  void lost(const std::string& why);
  void take(NodeFrame frame);
  void take_message(const NodeMessage& message);
  void carry_out(std::span<const std::byte> bytes);
  bool can_carry_out(const engine::Command& command);
  std::string host_of_coordinator() const;

  const Host host_;
  const NodeConfig& config_ = host_.config;
  ServiceLog& log_ = host_.log;
  boost::asio::io_context loop_{1};
  boost::asio::posix::stream_descriptor acceptor_;
  boost::asio::steady_timer check_timer_{loop_};
  boost::asio::steady_timer rest_timer_{loop_};
  boost::asio::steady_timer leave_timer_{loop_};
  boost::asio::posix::stream_descriptor signals_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  AgentOutcome outcome_;
  Instant now() const { return Instant(std::chrono::steady_clock::now() - began_); }

  NodeId node_ = NodeId::none();
  std::string coordinator_;  // its address
  std::string page_;         // the coordinator's, for people
  bool step_due_ = false;    // it was posted, and has not begun
  bool rest_due_ = false;    // a timer will write it
  std::string refusal_;
  std::set<std::uint32_t> other_agents_;  // by node
  Inbox inbox_, stepping_;
  StallBook stalls_{[this] { return now(); }};
  MemoryBudget& memory_ = host_.memory.budget;
  Users users_;  // at this node's socket
  std::map<const Connection*, std::shared_ptr<Connection>> connections_;
  log::CommandDecoder decoder_;

  std::unique_ptr<remote::TcpChannel> channel_;
  std::shared_ptr<NodeLink> link_;
  std::unique_ptr<AgentDatasets> datasets_;
  std::unique_ptr<PeerLinks> peers_;
  std::unique_ptr<AgentRanks> ranks_;
  std::unique_ptr<Backend> backend_;
  std::optional<PeerEntrance> entrance_;
  std::unique_ptr<HttpServer> http_;
  History delivered_, prepared_;  // samples, for the page
  std::mutex joining_mutex_;
  remote::TcpChannel* joining_ = nullptr;  // by joining_mutex_: waits for a coordinator's welcome
  bool is_over_ = false;                   // by joining_mutex_
  std::thread keeper_;
  std::thread joiner_;
};

}  // namespace batchflow::service
