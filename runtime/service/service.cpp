#include "runtime/service/service.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "core/engine.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/service/backend.h"
#include "runtime/service/commands.h"
#include "runtime/service/connection.h"
#include "runtime/service/dataset_splits.h"
#include "runtime/service/decision_log.h"
#include "runtime/service/http.h"
#include "runtime/service/jobs.h"
#include "runtime/service/joining.h"
#include "runtime/service/listening.h"
#include "runtime/service/notify.h"
#include "runtime/service/promise_file.h"
#include "runtime/service/recorder.h"
#include "runtime/service/reload.h"
#include "runtime/service/snapshot.h"
#include "runtime/service/warming.h"
#ifdef BATCHFLOW_REMOTE
#include "runtime/remote/listener.h"
#endif

namespace batchflow {
namespace {

namespace asio = boost::asio;

}  // namespace

struct Service::Parts final : ConnectionHost {
  Parts(NodeConfig as_written, Reread again, const PolicyList& list)
      : written(std::move(as_written)),
        config(settled(written)),
        reread(std::move(again)),
        policies(list),
        users(config.quotas),
        memory(config.cache_bytes()),
        jobs(jobs_options(config), users, inbox, stalls, config.engine.share_streams),
        acceptor(loop),
        step_timer(loop),
        check_timer(loop),
        accept_timer(loop),
        drain_timer(loop),
        signals(loop, SIGINT, SIGTERM, SIGHUP) {}

  NodeConfig settled(NodeConfig from) const {
    settle(from);
    from.steps.ending = ending;
    return from;
  }

  static Jobs::Options jobs_options(const NodeConfig& config) {
    Jobs::Options options;
    options.credits = config.engine.credits;
    options.wait_for_ranks = config.engine.rank_timeout;
    return options;
  }

  const std::shared_ptr<std::atomic<bool>> ending = std::make_shared<std::atomic<bool>>(false);
  NodeConfig written;  // before settle()
  NodeConfig config;
  Reread reread;
  const PolicyList& policies;
  asio::io_context loop{1};
  std::function<void(const std::string&)> log;
  Datasets datasets;
  Inbox inbox;
  Inbox stepping;
  StallBook stalls{[this] { return now(); }};
  Users users;
  MemoryBudget memory;  // jobs hold parts of it, and outlive the backend
  Jobs jobs;
  std::unique_ptr<Engine> engine;
  DecisionLog decisions;
  Recorder recorder;
  std::unique_ptr<PromiseFile> promises;
  std::unique_ptr<Warming> warming;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Joining> joining;
  std::unique_ptr<Commands> commands;
  Descriptor listening;
  asio::posix::stream_descriptor acceptor;
  asio::steady_timer step_timer;
  asio::steady_timer check_timer;
  asio::steady_timer accept_timer;
  asio::steady_timer drain_timer;
  asio::signal_set signals;
  std::unique_ptr<HttpServer> http;
  std::map<const Connection*, std::shared_ptr<Connection>> sessions;
  std::set<std::shared_ptr<Connection>> unwatched;
  bool draining = false;
  int ended_by = 0;  // a signal, at once
  bool step_due = false;
  const std::uint32_t workers_at_start = config.workers;  // as the engine was told
  Instant idle_since{};
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
    engine = std::make_unique<Engine>(config.engine, policies, datasets.catalogues(), explaining());
    promises = std::make_unique<PromiseFile>(config.state / "promises",
                                             config.engine.promise_log_bytes_max);
    if (config.journal)
      recorder.open(config.state / "journal", config.engine, datasets.catalogues());
    Backend::Options options;
    options.workers_most = config.workers;
    options.storage = config.storage;
    options.spill = config.spill;
    options.say = [this](const std::string& line) { say(line); };
    const auto post = [this](std::function<void()> what) {
      asio::post(loop, [this, what = std::move(what)] {
        what();
        schedule();
      });
    };
    warming = std::make_unique<Warming>(jobs, inbox, post);
    backend = std::make_unique<Backend>(options, memory, datasets, inbox, *warming, stalls, post);
    jobs.set_backend(*backend);
    warming->set_backend(*backend);
    joining = std::make_unique<Joining>(
        config, datasets, inbox, jobs, post, [this](const std::string& line) { say(line); },
        [this] { return now(); }, [this](Bytes bytes) { set_apart(bytes); });
    commands = std::make_unique<Commands>(Commands::Service{
        *engine, config.engine, decisions, config.explain, recorder, inbox, jobs, users, datasets,
        *joining, *warming, [this] { return snapshot(); }, [this] { drain(); },
        [this] { return reload(); }, [this](const std::string& line) { say(line); }});
    inbox.add(NodeJoined{NodeId(0), config.workers});
    inbox.add(CapacityChanged{{NodeId(0), Tier::dram, 0}, config.engine_bytes()});
    if (const Spill* spill = backend->spill(); spill && spill->capacity() > 0)
      inbox.add(CapacityChanged{{NodeId(0), Tier::nvme, 0}, spill->capacity()});
    for (const NodeDataset& dataset : config.datasets) joining->open(dataset);
    acceptor.assign(dup(listening.get()));
    if (config.http_port >= 0)
      http = std::make_unique<HttpServer>(loop, config.http_address,
                                          static_cast<std::uint16_t>(config.http_port),
                                          [this] { return as_seen_by_anybody(snapshot()); });
    listen_remotely();
    accept();
    check();
    wait_for_signal();
    schedule();
  }

#ifdef BATCHFLOW_REMOTE
  void listen_remotely() {
    if (config.tcp.port >= 0) remote = std::make_unique<RemoteListener>(config.tcp, config.socket);
  }
  std::unique_ptr<RemoteListener> remote;
#else
  void listen_remotely() const {
    if (config.tcp.port >= 0)
      throw ConfigError("tcp: this service was built without OpenSSL (libssl-dev)");
  }
#endif

  void wait_for_signal() {
    signals.async_wait([this](const boost::system::error_code& cancelled, int number) {
      if (cancelled) return;
      if (number == SIGHUP) {
        try {
          reload();
        } catch (const ConfigError&) {
          // It has been said.
        }
      } else if (number == SIGTERM && !draining) {
        drain();
      } else {
        say(fmt::format("{}: ending at once; {} jobs are let go", strsignal(number),
                        jobs.told(now()).size()));
        ended_by = number;
        loop.stop();
      }
      wait_for_signal();
    });
  }

  // Jobs go on to the end of their epochs, or for `drain`; then each looks for the next service,
  // and goes on where it was. No other begins.
  void drain() {
    if (std::exchange(draining, true)) return;
    const double seconds = std::chrono::duration<double>(config.drain).count();
    say(fmt::format("draining: {} jobs end their epochs, within {:g} s", jobs.told(now()).size(),
                    seconds));
    notify_manager("STOPPING=1\nSTATUS=draining");
    jobs.drain();
    drain_timer.expires_after(config.drain);
    drain_timer.async_wait([this](const boost::system::error_code& cancelled) {
      if (cancelled) return;
      say(fmt::format("drained: {} jobs are let go in mid-epoch", jobs.told(now()).size()));
      loop.stop();
    });
    end_if_drained();
  }

  void end_if_drained() {
    if (!draining || !jobs.empty()) return;
    asio::post(loop, [this] {
      say("drained: no job is left");
      loop.stop();
    });
  }

  void end_if_idle() {
    const bool may_end = config.exit_when_idle > Duration(0) && sessions.empty();
    if (!may_end || now() - idle_since < config.exit_when_idle) return;
    say("nobody is connected any more (--exit-when-idle)");
    loop.stop();
  }

  // Answers what has changed. What cannot be read changes nothing; throws ConfigError.
  std::string reload() {
    if (draining) throw ConfigError("nothing changes: the service is draining");
    notify_manager(fmt::format("RELOADING=1\nMONOTONIC_USEC={}",
                               std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count()));
    std::string result, problem;
    try {
      result = reread ? apply(reread()) : "there is no file to read";
    } catch (const std::exception& error) {
      problem = fmt::format("nothing changes: {}", error.what());
    }
    say(fmt::format("reload: {}", problem.empty() ? result : problem));
    notify_manager("READY=1\nSTATUS=serving");
    if (!problem.empty()) throw ConfigError(problem);
    return result;
  }

  std::string apply(const NodeConfig& wanted) {
    ReloadPlan plan = plan_reload(written, wanted);
    NodeConfig next = wanted;
    next.storage = config.storage;
    next.spill = config.spill;
    next.steps_bytes = config.steps_bytes;
    next.steps.ending = config.steps.ending;
    if (!plan.memory) next.memory = config.memory;
    settle(next, config.memory);
    if (plan.workers && next.workers > workers_at_start) {
      plan.takes_restart.push_back(
          fmt::format("workers: more than the {} it began with", workers_at_start));
      next.workers = workers_at_start;
    }
    for (const std::string& text : plan.policies) {
      const std::size_t equals = text.find('=');
      check_policy(text.substr(0, equals), text.substr(equals + 1));
    }
    // From here on nothing can fail.
    if (plan.memory) {
      inbox.add(CapacityChanged{{NodeId(0), Tier::dram, 0}, next.engine_bytes()});
      backend->set_memory(next.cache_bytes());
    }
    if (plan.workers) backend->set_workers_most(next.workers);
    for (const std::string& text : plan.policies) inbox.add(PolicyChanged{inbox.keep(text)});
    for (const std::string& text : plan.settings) inbox.add(ConfigurationChanged{inbox.keep(text)});
    for (const NodeDataset& one : plan.removed) joining->remove(one);
    for (const NodeDataset& one : plan.added) joining->open(one);
    for (const NodeDataset& one : plan.pipelines) {
      if (ServedDataset* served = datasets.find(std::string_view(one.name)))
        served->pipeline = one.pipeline;
    }
    for (const NodeDataset& one : plan.pins) {
      for (const std::string& name : served_names(one)) {
        if (ServedDataset* served = datasets.find(std::string_view(name)))
          joining->keep(*served, one.pin ? Keep::always : Keep::as_needed);
      }
    }
    users.set(next.quotas);
    config.memory = next.memory;
    config.workers = next.workers;
    config.drain = next.drain;
    config.open_datasets = next.open_datasets;
    config.pipelines = next.pipelines;
    config.steps = next.steps;
    written = after_reload(written, wanted);
    config.engine = written.engine;
    jobs.set_options(jobs_options(config));
    schedule();
    std::string result = plan.summary();
    for (const std::string& one : plan.takes_restart)
      result += fmt::format("; {}: takes a restart", one);
    return result;
  }

  void end() {
    *ending = true;
#ifdef BATCHFLOW_REMOTE
    remote.reset();
#endif
    joining.reset();
    backend.reset();
    unlink(config.socket.c_str());
  }

  // Of the cache, for worker processes of steps.
  void set_apart(Bytes bytes_each) {
    set_apart_for_steps(config, bytes_each * workers_at_start);
    inbox.add(CapacityChanged{{NodeId(0), Tier::dram, 0}, config.engine_bytes()});
    backend->set_memory(config.cache_bytes());
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
      recorder.told(at, stepping.events());
      const std::span<const Command> orders = engine->step(at, stepping.events());
      recorder.ordered(orders);
      promises->write(engine->promises());
      backend->carry_out(orders);
    }
    if (const std::string problem = recorder.take_problem(); !problem.empty()) say(problem);
    if (const std::string problem = promises->take_problem(); !problem.empty()) say(problem);
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
            Descriptor socket = accept_at(listening);
            if (!socket && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
              return accept_later();
            if (!socket) break;
            auto session = std::make_shared<Connection>(loop, std::move(socket), *this);
            if (!users.connects(session->user())) {
              // It is told so, and not listened to.
              session->send(encode(Refused{"quota", "this user has as many connections as he may"}),
                            {});
              continue;
            }
            sessions[session.get()] = session;
            session->start();
          }
          accept();
        });
  }

  // Out of descriptors or memory: who waits is still there when there are some again, and asking at
  // once would take a core meanwhile.
  void accept_later() {
    accept_timer.expires_after(std::chrono::milliseconds(100));
    accept_timer.async_wait([this](const boost::system::error_code& error) {
      if (!error) accept();
    });
  }

  void check() {
    check_timer.expires_after(std::chrono::seconds(1));
    check_timer.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      jobs.check_waiting(now());
      jobs.wake();
      backend->retry_waiting();
      schedule();
      end_if_idle();
      check();
    });
  }

  void on_end(Connection& session) override {
    jobs.gone(session);
    joining->gone(session);
    const auto found = sessions.find(&session);
    if (found != sessions.end()) {
      users.disconnects(session.user());
      unwatched.erase(found->second);
      sessions.erase(found);
      idle_since = now();
    }
    end_if_drained();
    schedule();
  }

  bool on_unfinished(Connection& session, std::int64_t change) override {
    return users.holds(session.user(), change);
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
    session.rest(users.message(session.user(), now()));
    if (type == "hello") {
      session.send(encode(Welcome{kProtocolVersion, BATCHFLOW_VERSION, instance}), {});
      return true;
    }
    if (type == "join") {
      std::optional<JoinRequest> request = decode_join(frame, problem);
      if (!request) return false;
      joining->join(session, std::move(*request), std::move(descriptors));
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
    all.used_bytes = memory.used();
    all.item_bytes = backend->item_bytes();
    all.block_bytes = backend->slot_bytes();
    if (const Spill* spill = backend->spill()) {
      all.spill_limit_bytes = spill->capacity();
      all.spill_bytes = spill->used();
      all.spill = spill->counters();
    }
    all.workers = backend->workers();
    all.workers_most = config.workers;
    all.cores = std::thread::hardware_concurrency();
    all.preparing_s = std::chrono::duration<double>(backend->preparing()).count();
    all.connections = sessions.size();
    all.engine = engine->counters();
    all.policies = config.engine.policies;
    all.preset = config.engine.preset;
    all.seed = config.engine.seed;
    all.steps = recorder.steps();
    all.events = recorder.events();
    all.digest = recorder.digest();
    all.moved = backend->counters();
    all.jobs = jobs.told(now());
    all.stalls = jobs.stalls();
    const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
    all.storage_busy_s = seconds(stalls.storage_busy());
    all.reads_s = seconds(stalls.reads_lasted());
    all.reads_now = stalls.reads_now();
    all.preparing_now = stalls.preparing_now();
    all.cache = backend->cache();
    all.journal = recorder.state();
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) all.locked_memory_most = limit.rlim_cur;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) all.files_most = limit.rlim_cur;
    all.draining = draining;
    for (const auto& dataset : datasets.all()) {
      if (dataset->removed) continue;
      const SampleIndex& index = *dataset->index;
      all.datasets.push_back(
          {dataset->name, dataset->root.string(), index.samples(),
           datasets.catalogues().find(dataset->id, index.version())->total_bytes(), index.version(),
           index.classes().size(), dataset->format, dataset->tokens, dataset->pinned});
    }
    all.opening = joining->opening();
    all.steps_bytes = config.steps_bytes;
    all.step_reports = report_steps(datasets);
    if (failpoints_on) all.failpoints = failpoint_counts();
    return all;
  }
};

Service::Service(NodeConfig config, Reread reread, const PolicyList& policies) {
  parts_ = std::make_unique<Parts>(std::move(config), std::move(reread), policies);
  parts_->start();
}

Service::~Service() {
  parts_->end();
}

int Service::run(const std::function<void(const std::string&)>& log) {
  parts_->log = log;
  const NodeConfig& config = parts_->config;
  log(fmt::format("serving at {}: {} MiB for batches and samples, up to {} workers, storage {}",
                  config.socket.string(), config.cache_bytes() >> 20, config.workers,
                  parts_->backend->storage()));
  if (const Spill* spill = parts_->backend->spill(); spill && !spill->note().empty())
    log(fmt::format("spill: {}", spill->note()));
  if (parts_->http)
    log(fmt::format("http://{}:{}/ shows what it does; /metrics is for Prometheus",
                    config.http_address, parts_->http->port()));
  if (tcp_port() >= 0)
    log(fmt::format("{}://{}:{} is for jobs on other machines",
                    config.tcp.certificate.empty() ? "tcp" : "tls", config.tcp.address,
                    tcp_port()));
  notify_manager("READY=1\nSTATUS=serving");
  parts_->loop.run();
  notify_manager("STOPPING=1");
  Recorder& recorder = parts_->recorder;
  recorder.close();
  log(fmt::format("seed {}, {} steps, digest {:016x}", config.engine.seed, recorder.steps(),
                  recorder.digest()));
  return parts_->ended_by;
}

int Service::tcp_port() const {
#ifdef BATCHFLOW_REMOTE
  if (parts_->remote) return parts_->remote->port();
#endif
  return -1;
}

int Service::http_port() const {
  return parts_->http ? parts_->http->port() : -1;
}

void Service::stop() {
  parts_->loop.stop();
}

}  // namespace batchflow
