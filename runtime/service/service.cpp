#include "runtime/service/service.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
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
#include <vector>

#include "configs/reader/scenario.h"
#include "configs/reader/yaml.h"
#include "core/engine.h"
#include "core/journal.h"
#include "core/promise_log.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "policies/registry.h"
#include "runtime/service/backend.h"
#include "runtime/service/connection.h"
#include "runtime/service/http.h"
#include "runtime/service/jobs.h"
#include "runtime/service/notify.h"
#include "runtime/service/snapshot.h"

namespace batchflow {
namespace {

namespace asio = boost::asio;
using Json = nlohmann::json;

std::string system_text(int error) {
  return std::generic_category().message(error);
}

// A file that grows by what is appended.
class LogFile {
 public:
  bool open(const std::filesystem::path& path) {
    file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    return static_cast<bool>(file_);
  }
  bool is_open() const { return static_cast<bool>(file_); }
  bool append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return true;
  }

 private:
  Descriptor file_;
};

// The service's socket. A file that nobody listens to any more is a leftover.
Descriptor listen_at(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto fail = [&](const std::string& why) -> Descriptor {
    throw ConfigError(fmt::format("{}: {}; choose another place (--socket)", name, why));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() >= sizeof address.sun_path)
    return fail(fmt::format("a socket's path has at most {} bytes", sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, name.data(), name.size());
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return fail(fmt::format("its folder cannot be made: {}", error.message()));
  Descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) return fail(system_text(errno));
  if (connect(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
    return fail("another service listens there already; end it first");
  made = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct stat status {};
  if (lstat(name.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) return fail("it is there, and is no socket");
    unlink(name.c_str());
  }
  if (bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(made.get(), 512) != 0)
    return fail(system_text(errno));
  // Who may connect is decided by the folder, and what he may read by his own rights.
  chmod(name.c_str(), 0666);
  return made;
}

}  // namespace

struct Service::Parts final : ConnectionHost {
  explicit Parts(NodeConfig settled)
      : config(std::move(settled)),
        jobs(jobs_options(config), inbox, config.engine.share_streams),
        promise_log(config.engine.promise_log_bytes_max),
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
  Jobs jobs;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Journal> journal;
  LogFile journal_file;
  PromiseLog promise_log;
  LogFile promise_file;
  std::unique_ptr<Backend> backend;
  Descriptor listening;
  asio::posix::stream_descriptor acceptor;
  asio::steady_timer step_timer;
  asio::steady_timer check_timer;
  asio::signal_set signals;
  std::unique_ptr<HttpServer> http;
  std::map<const Connection*, std::shared_ptr<Connection>> sessions;
  std::set<std::shared_ptr<Connection>> unwatched;
  // Joins that wait for their dataset's index.
  struct Waiting {
    std::weak_ptr<Connection> session;
    JoinRequest request;
  };
  std::map<std::string, std::vector<Waiting>> opening;
  std::vector<std::thread> openers;
  std::atomic<bool> stopping{false};
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
    engine = std::make_unique<Engine>(config.engine, policy_list(), datasets.catalogues());
    if (!promise_file.open(config.state / "promises"))
      throw ConfigError(fmt::format("{}: cannot be written: {}; choose another place (--state)",
                                    (config.state / "promises").string(), system_text(errno)));
    if (config.journal) {
      JournalHeader header;
      header.seed = config.engine.seed;
      journal = std::make_unique<Journal>(header, config.engine.journal_bytes_max);
      if (!journal_file.open(config.state / "journal"))
        throw ConfigError(fmt::format("{}: cannot be written: {}",
                                      (config.state / "journal").string(), system_text(errno)));
    }
    Backend::Options options;
    options.workers_most = config.workers;
    options.slots_most = config.cache_bytes();
    options.storage = config.storage;
    backend = std::make_unique<Backend>(options, datasets, inbox, jobs,
                                        [this](std::function<void()> what) {
                                          asio::post(loop, [this, what = std::move(what)] {
                                            what();
                                            schedule();
                                          });
                                        });
    jobs.set_backend(*backend);
    inbox.add(NodeJoined{NodeId(0), config.workers});
    inbox.add(CapacityChanged{{NodeId(0), Tier::dram, 0}, config.cache_bytes()});
    for (const NodeDataset& dataset : config.datasets) open(dataset);
    acceptor.assign(dup(listening.get()));
    if (config.http_port >= 0)
      http = std::make_unique<HttpServer>(loop, config.http_address,
                                          static_cast<std::uint16_t>(config.http_port),
                                          [this] { return snapshot(); });
    accept();
    check();
    signals.async_wait([this](const boost::system::error_code& cancelled, int number) {
      if (cancelled) return;
      say(fmt::format("{}: ending; {} jobs are told", strsignal(number), jobs.told().size()));
      loop.stop();
    });
    schedule();
  }

  void end() {
    stopping = true;
    for (std::thread& opener : openers) opener.join();
    backend.reset();
    unlink(config.socket.c_str());
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
      if (journal) journal->record(at, stepping.events());
      const std::span<const Command> commands = engine->step(at, stepping.events());
      if (journal) {
        journal->ordered(commands);
        write_journal();
      }
      write_promises();
      backend->carry_out(commands);
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

  void write_journal() {
    if (journal->pending().empty()) return;
    if (!journal_file.append(journal->pending())) {
      say("the journal cannot be written; it ends here");
      journal.reset();
      return;
    }
    journal->clear_pending();
  }

  void write_promises() {
    for (const Promise& promise : engine->promises()) promise_log.add(promise);
    if (promise_log.snapshot_due()) {
      promise_log.begin_anew();
      LogFile anew;
      const std::filesystem::path path = config.state / "promises";
      const std::filesystem::path beside = config.state / "promises.new";
      if (anew.open(beside) && anew.append(promise_log.pending()) &&
          rename(beside.c_str(), path.c_str()) == 0)
        promise_file = std::move(anew);
    } else if (!promise_log.pending().empty()) {
      promise_file.append(promise_log.pending());
    }
    promise_log.clear_pending();
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
      schedule();
      check();
    });
  }

  void on_end(Connection& session) override {
    jobs.gone(session);
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
      join(session, std::move(*request), descriptors);
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
      session.send(answer(session, Json::parse(frame, nullptr, false)), {});
      return true;
    }
    problem = fmt::format("a message of type '{}' means nothing here", type);
    return false;
  }

  // ----------------------------------------------------------------------------------- datasets --

  // Builds or finds the index beside everything else; who asks for the dataset meanwhile waits.
  void open(const NodeDataset& dataset) {
    opening[dataset.name];
    openers.emplace_back([this, dataset] {
      std::shared_ptr<SampleIndex> index;
      std::string problem;
      const auto began_opening = std::chrono::steady_clock::now();
      try {
        SourceOptions options;
        options.name = dataset.name;
        options.root = dataset.path;
        options.format = dataset.format;
        options.index_folder = config.state / "indices";
        options.tokens_per_sample = dataset.tokens;
        options.stop = [this] { return stopping.load(); };
        index = open_index(options);
      } catch (const std::exception& error) {
        problem = error.what();
      }
      const double took =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - began_opening).count();
      asio::post(loop, [this, dataset, index, problem, took] {
        opened(dataset, index, problem, took);
        schedule();
      });
    });
  }

  void opened(const NodeDataset& dataset, const std::shared_ptr<SampleIndex>& index,
              std::string problem, double took) {
    const std::vector<Waiting> waiting = std::move(opening[dataset.name]);
    opening.erase(dataset.name);
    ServedDataset* served = nullptr;
    if (index) {
      try {
        served = &datasets.add(dataset.name, dataset.path, index);
        served->pipeline = dataset.pipeline;
        for (const std::string& note : index->notes())
          say(fmt::format("dataset {}: {}", dataset.name, note));
        inbox.add(CatalogueKnown{served->id, index->version()});
        say(fmt::format(
            "dataset {}: {} samples, {:.1f} MiB, {} classes, version {:016x}, opened in "
            "{:.2f} s",
            dataset.name, index->samples(),
            static_cast<double>(index->catalogue().total_bytes()) / 1048576,
            index->classes().size(), index->version(), took));
      } catch (const std::exception& error) {
        problem = error.what();
      }
    }
    if (!served) say(fmt::format("dataset {}: {}", dataset.name, problem));
    for (const Waiting& one : waiting) {
      const std::shared_ptr<Connection> session = one.session.lock();
      if (!session || sessions.count(session.get()) == 0) continue;
      if (served) {
        join(*session, one.request, *served);
      } else {
        session->send(encode(Refused{"bad_dataset", problem}), {});
        session->end();
      }
    }
  }

  // Whoever joins shows that he may read the dataset: by being this service's user or root, or with
  // a descriptor of its folder that he could open for reading.
  bool may_read(const Connection& session, const ServedDataset& dataset,
                const std::vector<Descriptor>& descriptors) const {
    if (session.user() == geteuid() || session.user() == 0) return true;
    for (const Descriptor& one : descriptors) {
      struct stat status {};
      const int flags = fcntl(one.get(), F_GETFL);
      if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) continue;
      if (fstat(one.get(), &status) == 0 && S_ISDIR(status.st_mode) &&
          status.st_dev == dataset.device && status.st_ino == dataset.inode)
        return true;
    }
    return false;
  }

  void refuse(Connection& session, std::string_view why, const std::string& message) {
    session.send(encode(Refused{std::string(why), message}), {});
    session.end();
  }

  void join(Connection& session, JoinRequest request, const std::vector<Descriptor>& descriptors) {
    const bool is_path = !request.dataset.empty() &&
                         (request.dataset.front() == '/' || request.dataset.front() == '.');
    if (is_path) {
      const std::filesystem::path path = std::filesystem::path(request.dataset).lexically_normal();
      ServedDataset* known = datasets.find(path);
      if (!known && !config.open_datasets)
        return refuse(session, "unknown_dataset",
                      fmt::format("this service serves the datasets it was started with: {}; start "
                                  "it with --dataset NAME={} or --open-datasets",
                                  names_of_datasets(), request.dataset));
      if (!known && path.is_absolute()) {
        const std::string name = path.string();
        if (opening.count(name) == 0) open({name, path, {}, {}, 0});
        opening[name].push_back({session.weak_from_this(), std::move(request)});
        return;
      }
      if (known) request.dataset = known->name;
    }
    if (const auto waiting = opening.find(request.dataset); waiting != opening.end()) {
      waiting->second.push_back({session.weak_from_this(), std::move(request)});
      return;
    }
    ServedDataset* dataset = datasets.find(std::string_view(request.dataset));
    if (!dataset)
      return refuse(session, "unknown_dataset",
                    fmt::format("no dataset is called '{}'; there are: {}", request.dataset,
                                names_of_datasets()));
    if (!may_read(session, *dataset, descriptors))
      return refuse(session, "not_allowed",
                    fmt::format("user {} has not shown that he may read {}; let him read that "
                                "folder",
                                session.user(), dataset->root.string()));
    join(session, request, *dataset);
  }

  std::string names_of_datasets() const {
    std::string all;
    for (const auto& one : datasets.all()) all += (all.empty() ? "" : ", ") + one->name;
    for (const auto& [name, waiting] : opening) all += (all.empty() ? "" : ", ") + name;
    return all.empty() ? "none" : all;
  }

  void join(Connection& session, const JoinRequest& request, ServedDataset& dataset) {
    std::string name = request.pipeline.empty() ? dataset.pipeline : request.pipeline;
    if (name.empty()) name = default_pipeline(*dataset.index, request.order);
    ServedPipeline* pipeline = nullptr;
    try {
      pipeline = &pipeline_for(name, dataset);
    } catch (const std::exception& error) {
      return refuse(session, "unknown_pipeline", error.what());
    }
    jobs.join(session, request, dataset, *pipeline, now());
    unwatched.insert(session.shared_from_this());
    schedule();
  }

  static std::string default_pipeline(const SampleIndex& index, Order order) {
    if (index.kind() != RecordKind::whole || index.classes().empty()) return "bytes";
    return order == Order::sequential ? "imagenet-val" : "imagenet-train";
  }

  // Jobs name pipelines and no files.
  std::string pipeline_file(const std::string& name) const {
    for (const std::filesystem::path& path : config.pipelines) {
      if (path.stem() == name) return path.string();
    }
    if (name.find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") !=
        std::string::npos)
      throw ConfigError(
          fmt::format("pipeline '{}': a name has letters, digits, '-', '_' and '.'", name));
    return find_config(name, "pipelines", "");
  }

  // A pipeline is compiled for a dataset when its first job comes.
  ServedPipeline& pipeline_for(const std::string& name, ServedDataset& dataset) {
    if (ServedPipeline* known = datasets.find(name, dataset.id)) return *known;
    const ConfigNode root = read_yaml_file(pipeline_file(name));
    std::unique_ptr<Pipeline> compiled;
    read_config(root, [&](ConfigSection& section) {
      compiled = compile_pipeline(section, *dataset.index);
    });
    ServedPipeline& made =
        datasets.add(name, dataset.id, std::move(compiled), config.engine.block_bytes);
    inbox.add(PipelineKnown{made.id, made.pipeline->info().hash});
    return made;
  }

  // ----------------------------------------------------------------------------------- commands --

  static std::string error_text(const std::string& message) {
    return Json{{"type", "error"}, {"message", message}}.dump();
  }

  // What batchflowctl asks for. To change something takes the service's own user, or root.
  std::string answer(const Connection& session, const Json& message) {
    const auto text = [](const Json& from, const char* key) {
      const auto found = from.find(key);
      return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const std::string name = text(message, "name");
    const Json arguments = message.value("arguments", Json::object());
    if (name == "status") return to_json(snapshot());
    if (name == "describe") return Json{{"type", "answer"}, {"text", engine->describe()}}.dump();
    if (name != "policy_set" && name != "job_kill")
      return error_text("there is no such command here; is batchflowctl of another version?");
    if (session.user() != geteuid() && session.user() != 0)
      return error_text(
          fmt::format("user {} may look and not change; ask user {}", session.user(), geteuid()));
    if (name == "policy_set") {
      const std::string policy = text(arguments, "policy");
      const std::size_t equals = policy.find('=');
      try {
        if (equals == std::string::npos)
          throw ConfigError("no kind; write kind=name, as eviction=sieve");
        check_policy(policy.substr(0, equals), policy.substr(equals + 1));
      } catch (const ConfigError& error) {
        return error_text(error.what());
      }
      inbox.add(PolicyChanged{inbox.keep(policy)});
      say(fmt::format("policy {}, by user {}", policy, session.user()));
    } else {
      const std::string job = text(arguments, "job");
      std::size_t ended = 0;
      for (const Jobs::Told& one : jobs.told()) {
        if (one.name == job && jobs.kill(one.id)) ++ended;
      }
      if (ended == 0) return error_text(fmt::format("no job is called '{}'", job));
      say(fmt::format("job {} ended by user {}", job, session.user()));
    }
    schedule();
    return Json{{"type", "answer"}}.dump();
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
    all.preparing_s = std::chrono::duration<double>(backend->preparing()).count();
    all.connections = sessions.size();
    all.engine = engine->counters();
    all.moved = backend->counters();
    all.jobs = jobs.told();
    for (const auto& dataset : datasets.all()) {
      const SampleIndex& index = *dataset->index;
      all.datasets.push_back(
          {dataset->name, dataset->root.string(), index.samples(),
           datasets.catalogues().find(dataset->id, index.version())->total_bytes(), index.version(),
           index.classes().size()});
    }
    for (const auto& [name, waiting] : opening) all.opening.push_back(name);
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
