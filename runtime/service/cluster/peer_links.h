// The data connections to the backends of other nodes (runtime/service/backend/peers.h), and the
// answers to theirs. Blocks and samples go straight from the node that has them to the node that
// needs them.
//
// A request is a record frame, and so is the answer's head; bytes follow in a payload frame. Each
// node that is asked has kLanes threads, each with a connection.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/memory/buffer_pool.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/peers.h"
#include "runtime/service/cluster/node_connection.h"
#include "runtime/service/cluster/node_counters.h"
#include "runtime/service/cluster/peer_spill.h"

namespace batchflow::service {

// Buffers of what has come are used again. So many bytes of them may be idle.
inline constexpr std::size_t kIdleBuffersMost = std::size_t{32} << 20;

class PeerLinks final : public Peers {
 public:
  // `unreachable` is called on the service's thread, once for each node that could not be reached
  // for twice as long as `silence`. A node that is gone would have been lost by then, so the fault
  // is on the way there.
  using Unreachable = std::function<void(NodeId node, const std::string& problem)>;
  PeerLinks(NodeAccess access, Post post, std::chrono::milliseconds silence,
            Unreachable unreachable);
  ~PeerLinks();

  // What is asked of the node from now on goes to this address: tcp://HOST:PORT or tls://HOST:PORT.
  void set(NodeId node, const std::string& address);
  void remove(NodeId node);
  // Why this node cannot reach the address now; empty: it can. Any thread may call it.
  std::string reach_problem(const std::string& address) const;
  // What has gone over the links to the nodes that are there now.
  std::vector<LinkTraffic> traffic() const;

  void fetch(NodeId from, const WantedSlice& wanted,
             std::function<void(std::optional<FetchedSlice>)> done) override;
  void fetch(NodeId from, WantedItems wanted,
             std::function<void(std::optional<FetchedItems>)> done) override;
  void keep(NodeId at, KeptItems items, std::function<void()> done) override;

 private:
  static constexpr std::size_t kLanes = 4;
  // Carries out one request on the channel, and answers how many bytes it has moved. Null: the node
  // cannot be reached.
  using Request = std::function<Bytes(remote::TcpChannel* channel)>;
  struct Peer {
    std::string address;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Request> waiting;
    std::vector<remote::TcpChannel*> channels;  // that are open
    bool ending = false;                        // its lanes are to end
    std::optional<remote::TcpChannel::Clock::time_point> failing_since;
    bool is_reported = false;  // that it cannot be reached
    std::size_t running = 0;   // lanes
    LinkTraffic traffic;
    std::vector<std::thread> lanes;
  };
  void ask(NodeId node, Request request);
  void run(Peer& peer);
  void note_failure(Peer& peer, const std::string& problem);
  void end(std::unique_ptr<Peer> peer);

  const NodeAccess access_;
  const Post post_;
  const std::chrono::milliseconds silence_;
  const Unreachable unreachable_;
  memory::BufferPool buffers_{kIdleBuffersMost};
  // Of the service's thread.
  std::map<std::uint32_t, std::unique_ptr<Peer>> peers_;  // by node
  std::vector<std::unique_ptr<Peer>> ended_;              // their lanes may still run
};

// Answers what the peers of other nodes ask of this node's backend. Each connection has a thread,
// which calls serve().
class PeerServer {
 public:
  PeerServer(Backend& backend, Post post) : backend_(backend), post_(std::move(post)) {}
  // Until the connection ends.
  void serve(remote::TcpChannel& channel);

 private:
  bool answer(remote::TcpChannel& channel, std::span<const std::byte> request);
  bool answer_slice(remote::TcpChannel& channel, const WantedSlice& wanted);
  bool answer_items(remote::TcpChannel& channel, const WantedItems& wanted);
  bool answer_records(remote::TcpChannel& channel, const WantedItems& wanted);
  bool take_items(remote::TcpChannel& channel, const std::shared_ptr<KeptItems>& items);

  Backend& backend_;
  const Post post_;
  memory::BufferPool buffers_{kIdleBuffersMost};
  PeerSpill spill_{backend_, post_, buffers_};
};

}  // namespace batchflow::service
