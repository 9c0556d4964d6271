// The parts of a service, and what they do together. service.cpp has its life, service_reload.cpp
// how it takes a changed configuration, service_loop.cpp its loop (engine steps, connections), and
// service_snapshot.cpp what it reports of itself.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include "core/engine/engine.h"
#include "fmt/format.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/warming.h"
#include "runtime/service/connection.h"
#include "runtime/service/control/commands.h"
#include "runtime/service/control/reload.h"
#include "runtime/service/datasets/joining.h"
#include "runtime/service/http/http.h"
#include "runtime/service/http/snapshot.h"
#include "runtime/service/jobs/jobs.h"
#include "runtime/service/jobs/returning.h"
#include "runtime/service/log/decision_log.h"
#include "runtime/service/log/promise_file.h"
#include "runtime/service/log/recorder.h"
#include "runtime/service/log/service_log.h"
#include "runtime/service/node_sockets.h"
#include "runtime/service/plugins/plugins.h"
#include "runtime/service/service.h"
#ifdef BATCHFLOW_REMOTE
#include "runtime/remote/listener.h"
#include "runtime/service/cluster/cluster.h"
#endif

namespace batchflow::service {

namespace asio = boost::asio;

struct Service::Parts final : ConnectionHost {
  Parts(NodeConfig as_written, Reread again, const engine::PolicyList& list)
      : written(std::move(as_written)),
        config(settled(written)),
        log(config.log),
        reread(std::move(again)),
        policies(list),
        users(config.quotas),
        memory(config.cache_bytes()),
        jobs(jobs_options(config), users, inbox, stalls),
        acceptor(loop),
        step_timer(loop),
        check_timer(loop),
        accept_timer(loop),
        drain_timer(loop),
        plugin_timer(loop),
        signals(loop, SIGINT, SIGTERM, SIGHUP) {}

  NodeConfig settled(NodeConfig from) const {
    settle(from);
    from.steps.ending = ending;
    return from;
  }

  static Jobs::Options jobs_options(const NodeConfig& config) {
    Jobs::Options options;
    options.credits = config.engine.credits;
    options.share_streams = config.engine.share_streams;
    options.corrupt_ratio_max = config.engine.corrupt_ratio_max;
    options.corrupt_ratio_allowed = config.engine_config().corrupt_ratio_max;
    return options;
  }

  const std::shared_ptr<std::atomic<bool>> ending = std::make_shared<std::atomic<bool>>(false);
  NodeConfig written;  // before settle()
  NodeConfig config;
  ServiceLog log;
  Reread reread;
  const engine::PolicyList& policies;
  asio::io_context loop{1};
  Datasets datasets;
  Inbox inbox;
  Inbox stepping;  // the events of the step under way
  StallBook stalls{[this] { return now(); }};
  Users users;
  MemoryBudget memory;  // jobs hold parts of it, and outlive the backend
  Jobs jobs;
  std::unique_ptr<engine::Engine> engine;
  DecisionLog decisions;
  Recorder recorder;
#ifdef BATCHFLOW_REMOTE
  std::unique_ptr<HeldTerm> term;  // null: this node's alone
#endif
  bool superseded = false;
  std::unique_ptr<PromiseFile> promises;
  std::optional<Returning> returning;
#ifdef BATCHFLOW_REMOTE
  std::unique_ptr<PeerLinks> peers;  // the backend uses it
#endif
  std::unique_ptr<Warming> warming;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Joining> joining;
  std::unique_ptr<Plugins> plugins;
  std::unique_ptr<Commands> commands;
  std::shared_ptr<ListeningSocket> listening;
  protocol::Descriptor state_lock;
  asio::posix::stream_descriptor acceptor;
  asio::steady_timer step_timer;
  asio::steady_timer check_timer;
  asio::steady_timer accept_timer;
  asio::steady_timer drain_timer;
  asio::steady_timer plugin_timer;
  asio::signal_set signals;
  std::unique_ptr<HttpServer> http;
  std::map<const Connection*, std::shared_ptr<Connection>> connections;
  std::set<std::shared_ptr<Connection>> unwatched;
  bool draining = false;
  int ended_by = 0;  // a signal, at once
  bool step_due = false;
  using Reloaded = std::function<void(std::string changed, std::string problem)>;
  bool reloading = false;
  std::vector<Reloaded> asked_reload, asked_next_reload;
  const std::uint32_t workers_at_start = config.workers;  // as the engine was told
#ifdef BATCHFLOW_REMOTE
  std::unique_ptr<Cluster> cluster;  // null: no agent may join
  std::unique_ptr<PeerServer> peer_server;
  std::unique_ptr<remote::RemoteListener> remote;
#endif
  Instant idle_since{};
  Instant armed = kNever;  // what the timer waits for
  // Names this start, in the welcome. No client of today reads it.
  const std::string instance =
      fmt::format("{}-{}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

  Instant now() const {
    return Instant(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began));
  }

  void start();
  void listen_remotely();
  Peers* make_peers(const Post& post);
  void make_cluster(const Post& post);
  void carry_out(std::span<const engine::Command> issued);
  PromiseFile::Place promises_place() const;
  void serve_term();
  // Whether what has been promised may be carried out: no other node coordinates by now.
  bool may_carry_out();
  void end_term(const std::string& why);
  // A message of a local rank or of one on another node, but for its greeting.
  bool take_message(Peer& peer, const std::string& type, std::string_view frame,
                    std::vector<protocol::Descriptor> descriptors, std::string& problem);
  void wait_for_signal();
  // Jobs go on to the end of their epochs, or for `drain`. Then each looks for the next service,
  // and goes on where it was. No other job begins.
  void drain();
  void end_if_drained();
  void end_if_idle();
  void end();
  // Takes memory of the cache for worker processes of steps.
  void set_apart(Bytes bytes_each);
  void give_back(Bytes bytes_each);
  void report_memory();
  engine::Explain explaining();
  // Reads the configuration anew, opens what it adds, and only then changes to it: as a whole, or
  // not at all. `done` is called with what has changed, or with why nothing has. A call while this
  // goes on gets the result of the next reading.
  void reload(Reloaded done);
  void begin_reload();
  void end_reload(const std::string& changed, const std::string& problem);
  // What `wanted` changes, checked. Throws ConfigError.
  ReloadPlan planned(NodeConfig& next) const;
  std::string apply(const NodeConfig& wanted, const std::vector<Joining::Opened>& opened);

  void schedule();
  void step();
  // While policies of plugins may decide, looks at them every now and then.
  void watch_plugins();
  void change_policies(const engine::PolicyTexts& wanted);

  void accept();
  // The process is out of descriptors or memory. The clients that wait will still be there when
  // there are some again. To try again at once would keep a core busy meanwhile.
  void accept_later();
  void check();
  void on_end(Connection& connection) override;
  bool on_unfinished(Connection& connection, std::int64_t change) override;
  void on_doorbell(Connection& connection) override;
  bool on_frame(Connection& connection, std::string_view frame,
                std::vector<protocol::Descriptor> descriptors, std::string& problem) override;

  Snapshot snapshot() const;
};

}  // namespace batchflow::service
