#include "runtime/service/service.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "core/engine.h"
#include "fmt/format.h"
#include "policies/registry.h"
#include "runtime/service/backend.h"
#include "runtime/service/commands.h"
#include "runtime/service/connection.h"
#include "runtime/service/decision_log.h"
#include "runtime/service/engine_logs.h"
#include "runtime/service/http.h"
#include "runtime/service/jobs.h"
#include "runtime/service/joining.h"
#include "runtime/service/listening.h"
#include "runtime/service/notify.h"
#include "runtime/service/snapshot.h"

namespace batchflow {
namespace {

namespace asio = boost::asio;

}  // namespace

struct Service::Parts final : ConnectionHost {
  explicit Parts(NodeConfig settled)
      : config(std::move(settled)),
        jobs(jobs_options(config), inbox, stalls, config.engine.share_streams),
        acceptor(loop),
        step_timer(loop),
        check_timer(loop),
        signals(loop, SIGINT, SIGTERM) {}

  static Jobs::Options jobs_options(const NodeConfig& config) {
    Jobs::Options options;
    options.credits = config.engine.credits;
    options.jobs_of_user_most = config.jobs_of_user_most;
    options.wait_for_ranks = config.engine.rank_timeout;
    return options;
  }

  NodeConfig config;
  asio::io_context loop{1};
  std::function<void(const std::string&)> log;
  Datasets datasets;
  Inbox inbox;
  Inbox stepping;
  StallBook stalls{[this] { return now(); }};
  Jobs jobs;
  std::unique_ptr<Engine> engine;
  DecisionLog decisions;
  std::unique_ptr<EngineLogs> logs;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Joining> joining;
  std::unique_ptr<Commands> commands;
  Descriptor listening;
  asio::posix::stream_descriptor acceptor;
  asio::steady_timer step_timer;
  asio::steady_timer check_timer;
  asio::signal_set signals;
  std::unique_ptr<HttpServer> http;
  std::map<const Connection*, std::shared_ptr<Connection>> sessions;
  std::set<std::shared_ptr<Connection>> unwatched;
  bool step_due = false;
  Instant armed = kNever;  // what the timer waits for
  // Names this start: a client that comes back knows whether it is the same.
  const std::string instance =
      fmt::format("{}-{}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

  Instant now() const {
    return Instant(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began));
  }

  // ------------------------------------------------------------------------------ start and end --

  void start() {
    listening = listen_at(config.socket);
    std::error_code error;
    std::filesystem::create_directories(config.state / "indices", error);
    if (error)
      throw ConfigError(fmt::format("{}: cannot be made: {}; choose another place (--state)",
                                    config.state.string(), error.message()));
    engine =
        std::make_unique<Engine>(config.engine, policy_list(), datasets.catalogues(), explaining());
    logs = std::make_unique<EngineLogs>(config, [this](const std::string& line) { say(line); });
    commands = std::make_unique<Commands>(Commands::Service{
        *engine, config.engine, decisions, config.explain, *logs, inbox, jobs,
        [this] { return snapshot(); }, [this](const std::string& line) { say(line); }});
    Backend::Options options;
    options.workers_most = config.workers;
    options.slots_most = config.cache_bytes();
    options.storage = config.storage;
    const auto post = [this](std::function<void()> what) {
      asio::post(loop, [this, what = std::move(what)] {
        what();
        schedule();
      });
    };
    backend = std::make_unique<Backend>(options, datasets, inbox, jobs, stalls, post);
    jobs.set_backend(*backend);
    joining = std::make_unique<Joining>(
        config, datasets, inbox, jobs, post, [this](const std::string& line) { say(line); },
        [this] { return now(); });
    inbox.add(NodeJoined{NodeId(0), config.workers});
    inbox.add(CapacityChanged{{NodeId(0), Tier::dram, 0}, config.cache_bytes()});
    for (const NodeDataset& dataset : config.datasets) joining->open(dataset);
    acceptor.assign(dup(listening.get()));
    if (config.http_port >= 0)
      http = std::make_unique<HttpServer>(loop, config.http_address,
                                          static_cast<std::uint16_t>(config.http_port),
                                          [this] { return snapshot(); });
    accept();
    check();
    signals.async_wait([this](const boost::system::error_code& cancelled, int number) {
      if (cancelled) return;
      say(fmt::format("{}: ending; {} jobs are told", strsignal(number), jobs.told(now()).size()));
      loop.stop();
    });
    schedule();
  }

  void end() {
    joining.reset();
    backend.reset();
    unlink(config.socket.c_str());
  }

  Explain explaining() {
    if (!config.explain) return {};
    return [this](const Decision& one) { decisions.add(now(), one); };
  }

  void say(const std::string& line) {
    if (log) log(line);
  }

  // --------------------------------------------------------------------------------- the engine --

  void schedule() {
    if (step_due || inbox.empty()) return;
    step_due = true;
    asio::post(loop, [this] {
      step_due = false;
      step();
    });
  }

  void step() {
    backend->fire_timers(now());
    // What orders come to at once is told before anything else is waited for.
    for (int rounds = 0; !inbox.empty() && rounds < 64; ++rounds) {
      stepping.clear();
      stepping.swap(inbox);
      const Instant at = now();
      logs->stepping(at, stepping.events());
      const std::span<const Command> orders = engine->step(at, stepping.events());
      logs->stepped(orders, engine->promises());
      backend->carry_out(orders);
    }
    jobs.wake();
    for (const std::shared_ptr<Connection>& session : std::exchange(unwatched, {})) {
      if (session->watching()) continue;
      if (const Descriptor* doorbell = jobs.doorbell(*session)) {
        session->watch(*doorbell);
      } else if (sessions.count(session.get()) != 0) {
        unwatched.insert(session);
      }
    }
    const Instant next = backend->next_timer();
    if (next != kNever && next != armed) {
      armed = next;
      step_timer.expires_at(began + std::chrono::nanoseconds(next.time_since_epoch()));
      step_timer.async_wait([this](const boost::system::error_code& error) {
        if (error) return;
        armed = kNever;
        step();
      });
    }
    schedule();
  }

  // -------------------------------------------------------------------------------- connections --

  void accept() {
    acceptor.async_wait(
        asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
          if (error) return;
          for (;;) {
            Descriptor socket(
                accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!socket) break;
            auto session = std::make_shared<Connection>(loop, std::move(socket), *this);
            sessions[session.get()] = session;
            session->start();
          }
          accept();
        });
  }

  void check() {
    check_timer.expires_after(std::chrono::seconds(1));
    check_timer.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      jobs.check_waiting(now());
      jobs.wake();
      schedule();
      check();
    });
  }

  void on_end(Connection& session) override {
    jobs.gone(session);
    joining->gone(session);
    const auto found = sessions.find(&session);
    if (found != sessions.end()) {
      unwatched.erase(found->second);
      sessions.erase(found);
    }
    schedule();
  }

  void on_doorbell(Connection& session) override {
    if (!jobs.read_ring(session)) {
      session.send(encode(Refused{"protocol",
                                  "its ring holds what no client of this version "
                                  "writes; the job is ended"}),
                   {});
      session.end();
      return;
    }
    if (jobs.sleep(session)) {
      session.wait_for_doorbell();
    } else {
      session.ring_again();
    }
    schedule();
  }

  bool on_frame(Connection& session, std::string_view frame, std::vector<Descriptor> descriptors,
                std::string& problem) override {
    const std::string type = message_type(frame, problem);
    if (type.empty()) return false;
    if (type == "hello") {
      session.send(encode(Welcome{kProtocolVersion, BATCHFLOW_VERSION, instance}), {});
      return true;
    }
    if (type == "join") {
      std::optional<JoinRequest> request = decode_join(frame, problem);
      if (!request) return false;
      joining->join(session, std::move(*request), descriptors);
      unwatched.insert(session.shared_from_this());
      schedule();
      return true;
    }
    if (type == "leave") {
      jobs.leave(session);
      schedule();
      return true;
    }
    if (type == "sample_name" || type == "class_name") {
      std::optional<NameMessage> question = decode_name(frame, problem);
      if (!question) return false;
      question->name = jobs.name(session, question->of_class, question->key);
      session.send(encode(*question), {});
      return true;
    }
    if (type == "command") {
      session.send(commands->answer(session.user(), frame), {});
      schedule();
      return true;
    }
    problem = fmt::format("a message of type '{}' means nothing here", type);
    return false;
  }

  Snapshot snapshot() const {
    Snapshot all;
    all.version = BATCHFLOW_VERSION;
    all.process = getpid();
    all.up_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    all.storage = backend->storage();
    all.memory_bytes = config.memory;
    all.cache_bytes = config.cache_bytes();
    all.item_bytes = backend->item_bytes();
    all.block_bytes = backend->slot_bytes();
    all.workers = backend->workers();
    all.workers_most = config.workers;
    all.cores = std::thread::hardware_concurrency();
    all.preparing_s = std::chrono::duration<double>(backend->preparing()).count();
    all.connections = sessions.size();
    all.engine = engine->counters();
    all.moved = backend->counters();
    all.jobs = jobs.told(now());
    all.stalls = jobs.stalls();
    const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
    all.storage_busy_s = seconds(stalls.storage_busy());
    all.reads_s = seconds(stalls.reads_lasted());
    all.reads_now = stalls.reads_now();
    all.preparing_now = stalls.preparing_now();
    all.cache = backend->cache();
    all.policies = config.engine.policies;
    all.journal = logs->journal();
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) all.locked_memory_most = limit.rlim_cur;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) all.files_most = limit.rlim_cur;
    for (const auto& dataset : datasets.all()) {
      const SampleIndex& index = *dataset->index;
      all.datasets.push_back(
          {dataset->name, dataset->root.string(), index.samples(),
           datasets.catalogues().find(dataset->id, index.version())->total_bytes(), index.version(),
           index.classes().size(), dataset->format, dataset->tokens});
    }
    all.opening = joining->opening();
    return all;
  }
};

Service::Service(NodeConfig config) {
  settle(config);
  parts_ = std::make_unique<Parts>(std::move(config));
  parts_->start();
}

Service::~Service() {
  parts_->end();
}

void Service::run(const std::function<void(const std::string&)>& log) {
  parts_->log = log;
  const NodeConfig& config = parts_->config;
  log(fmt::format("serving at {}: {} MiB for batches and samples, up to {} workers, storage {}",
                  config.socket.string(), config.cache_bytes() >> 20, config.workers,
                  parts_->backend->storage()));
  if (parts_->http)
    log(fmt::format("http://{}:{}/ shows what it does; /metrics is for Prometheus",
                    config.http_address, parts_->http->port()));
  notify_manager("READY=1\nSTATUS=serving");
  parts_->loop.run();
  notify_manager("STOPPING=1");
}

int Service::http_port() const {
  return parts_->http ? parts_->http->port() : -1;
}

void Service::stop() {
  parts_->loop.stop();
}

}  // namespace batchflow
