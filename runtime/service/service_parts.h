// The parts of a service, and what they do together.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "core/engine/engine.h"
#include "fmt/format.h"
#include "runtime/protocol/secret.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/warming.h"
#include "runtime/service/control/commands.h"
#include "runtime/service/control/node_memory.h"
#include "runtime/service/datasets/joining.h"
#include "runtime/service/http/history.h"
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
#include "runtime/service/service_cluster.h"
#include "runtime/service/service_connections.h"
#include "runtime/service/service_reload.h"

namespace batchflow::service {

namespace asio = boost::asio;

struct Service::Parts {
  // `kept`: what this process has kept as an agent; null: it was none.
  Parts(NodeConfig as_written, Reread again, const engine::PolicyList& list,
        std::shared_ptr<CacheMemory> kept = nullptr)
      : written(std::move(as_written)),
        config(settled(written)),
        log(config.log),
        reread(std::move(again)),
        policies(list),
        users(config.quotas),
        cache_memory(kept ? std::move(kept) : std::make_shared<CacheMemory>(cache_bytes(config))),
        memory(cache_memory->budget),
        jobs(jobs_options(config), users, inbox, stalls),
        step_timer(loop),
        check_timer(loop),
        drain_timer(loop),
        plugin_timer(loop),
        signals(loop, SIGINT, SIGTERM, SIGHUP) {}

  NodeConfig settled(NodeConfig from) const {
    settle(from);
    from.steps.ending = ending;
    from.steps.temporary = from.state / "temporary";
    return from;
  }

  static Jobs::Options jobs_options(const NodeConfig& config) {
    Jobs::Options options;
    options.credits = config.engine.credits;
    options.block_bytes = config.engine.block_bytes;
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
  const std::shared_ptr<CacheMemory> cache_memory;
  MemoryBudget& memory;
  Jobs jobs;
  std::unique_ptr<engine::Engine> engine;
  DecisionLog decisions;
  Recorder recorder;
  ServiceCluster cluster{*this};
  std::unique_ptr<PromiseFile> promises;
  std::optional<Returning> returning;
  std::unique_ptr<Warming> warming;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Joining> joining;
  std::unique_ptr<Plugins> plugins;
  std::unique_ptr<Commands> commands;
  std::shared_ptr<ListeningSocket> listening;
  protocol::Descriptor state_lock;
  asio::steady_timer step_timer;
  asio::steady_timer check_timer;
  asio::steady_timer drain_timer;
  asio::steady_timer plugin_timer;
  asio::signal_set signals;
  const std::string page_key = protocol::make_secret();
  std::unique_ptr<HttpServer> http;
  History history;  // for the page
  ServiceConnections connections{*this};
  bool draining = false;  // no job begins any more, and the service ends when none is left
  int ended_by = 0;       // a signal, at once
  bool step_due = false;  // it was posted, and has not begun
  ServiceReload reloading{*this};
  const std::uint32_t workers_at_start = config.workers;  // as the engine was told
  Instant armed = kNever;                                 // what the timer waits for
  const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

  Instant now() const {
    return Instant(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began));
  }

  void start();
  JoiningHost joining_host(const Post& post);
  Plugins::Host plugins_host(const Post& post);
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
  void report_kept(DatasetId dataset);
  engine::Explain explaining();
  void schedule();
  void step();
  // While policies of plugins may decide, looks at them every now and then.
  void watch_plugins();
  void change_policies(const engine::PolicyTexts& wanted);

  void check();
  void note_history();
};

// What the service reports of itself.
Snapshot snapshot_of(const Service::Parts& parts);

}  // namespace batchflow::service
