#include "runtime/service/service.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "runtime/memory/out_of_memory.h"
#include "runtime/service/control/node_memory.h"
#include "runtime/service/node_sockets.h"
#include "runtime/service/plugins/plugin_apart.h"
#include "runtime/service/service_parts.h"

namespace batchflow::service {

namespace {

// A loader looks for its service for as long as its user has said, some minutes at most.
constexpr Duration kReturnWithin = std::chrono::hours(1);

// With fewer descriptors a job would wait for what cannot be opened. Descriptors are for reads
// under way, large files that stay open, folders of datasets, the service's own files and sockets,
// and those of a job.
void check_descriptors(const NodeConfig& config) {
  constexpr rlim_t kLargeFiles = 64, kOwn = 48, kOfAJob = 16;
  const rlim_t reads = std::max(config.storage.depth, config.storage.threads);
  const rlim_t needed = reads + kLargeFiles + 2 * config.datasets.size() + kOwn + kOfAJob;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw ConfigError(fmt::format(
      "this process may have {} files and sockets open, and needs {} at least; raise that "
      "(LimitNOFILE=, ulimit -n)",
      limit.rlim_cur, needed));
}

void make_folders(const std::filesystem::path& state) {
  std::error_code error;
  for (const std::filesystem::path& folder : {state, state / "indices"}) {
    std::filesystem::create_directories(folder, error);
    if (!error && !std::filesystem::is_directory(folder))
      error = std::make_error_code(std::errc::not_a_directory);
    if (error)
      throw ConfigError(fmt::format("{}: cannot be made: {}; choose another path (--state)",
                                    folder.string(), error.message()));
  }
}

}  // namespace

JoiningHost Service::Parts::joining_host(const Post& post) {
  return {
      .say = [this](const LogLine& line) { log.say(line); },
      .post = post,
      .now = [this] { return now(); },
      .set_apart = [this](Bytes bytes) { set_apart(bytes); },
      .give_back = [this](Bytes bytes) { give_back(bytes); },
      .set_apart_for_data =
          [this](Bytes bytes) {
            set_apart_for_data(config, bytes);
            report_memory();
          },
      .give_back_of_data =
          [this](Bytes bytes) {
            config.data_bytes -= bytes;
            report_memory();
          },
      .scratch = scratch_limits(config),
      .dataset_added =
          [this, post](const ServedDataset& one) {
            jobs.feeds().added(one, post, [this](const LogLine& line) { log.say(line); });
#ifdef BATCHFLOW_REMOTE
            report_kept(one.id);
            if (Cluster* const agents = cluster.agents()) agents->added(one);
#endif
          },
#ifdef BATCHFLOW_REMOTE
      .pipeline_added =
          [this](const ServedPipeline& one) {
            if (Cluster* const agents = cluster.agents()) agents->added(one);
          },
      .pipeline_gone =
          [this](PipelineId one) {
            if (Cluster* const agents = cluster.agents()) agents->gone(one);
          },
      .waits_for_agents =
          [this](ServedId one, std::function<void(const std::string&)> then) {
            Cluster* const agents = cluster.agents();
            return agents && agents->waits_for(one, std::move(then));
          },
#endif
      .reads = [this](DatasetId one) { return warming->reads(one) || backend->is_at(one); },
      .uses = [this](PipelineId one) { return warming->uses(one) || backend->is_at(one); },
  };
}

Plugins::Host Service::Parts::plugins_host(const Post& post) {
  return {*engine,
          config.engine,
          [this](const engine::PolicyTexts& wanted) { change_policies(wanted); },
          [this](const std::vector<std::string>& anew) {
            for (const std::string& one : anew) inbox.add(engine::PolicyChanged{inbox.keep(one)});
            schedule();
          },
          [this](const std::vector<std::string>& shown) { engine->shadow(shown); },
          [this] { return jobs.wait_totals(); },
          [this] { return now(); },
          [post](std::function<void()> what) { post(std::move(what)); },
          [this](const LogLine& line) { log.say(line); }};
}

void Service::Parts::start() {
  check_descriptors(config);
  if (!listening) listening = std::make_shared<ListeningSocket>(config.socket);
  make_folders(config.state);
  state_lock = lock_state(config.state);
  engine = std::make_unique<engine::Engine>(config.engine_config(), policies, datasets.catalogues(),
                                            explaining());
  promises =
      std::make_unique<PromiseFile>(cluster.promises_place(), config.engine.promise_log_bytes_max,
                                    [this](JobId job) { return jobs.name_of(job); });
  returning.emplace(*promises);
  jobs.set_returning(*returning);
  if (const auto names = returning->names(); !names.empty())
    log.say(fmt::format("{} jobs of the previous service may come back: {}", names.size(),
                        fmt::join(names, ", ")));
  if (config.journal)
    recorder.open(config.state / "journal", config.engine_config(), datasets.catalogues());
  Backend::Options options;
  options.workers_most = config.workers;
  options.scratch = scratch_limits(config);
  options.storage = config.storage;
  options.spill = config.spill;
  options.say = [this](const LogLine& line) { log.say(line); };
  // Any thread may call it. A report that is lost would be waited for for ever.
  const auto post = [this](const std::function<void()>& what) {
    const memory::WaitsForMemory scope;
    memory::until_there_is_memory([&] {
      asio::post(loop, [this, what] {
        what();
        schedule();
      });
    });
  };
  options.peers = cluster.make_peers(post);
  warming = std::make_unique<Warming>(jobs, inbox, post);
  memory.set_most(cache_bytes(config));
  backend =
      std::make_unique<Backend>(options, *cache_memory, datasets, inbox, *warming, stalls, post);
  jobs.set_backend(*backend);
  warming->set_backend(*backend);
  cluster.begin(post);
  joining = std::make_unique<Joining>(config, datasets, inbox, jobs, joining_host(post));
  for (const std::string& note : config.plugin_notes) log.say(note);
  plugins = std::make_unique<Plugins>(config.state, config.plugins, plugins_host(post));
  commands = std::make_unique<Commands>(Commands::Service{
      *engine, config.engine, decisions, config.explain, recorder, inbox, jobs, users, datasets,
      *joining, *warming, *plugins, [this] { return snapshot_of(*this); }, [this] { drain(); },
      [this](ServiceReload::Done done) { reloading.reload(std::move(done)); },
      [this](const LogLine& line) { log.say(line); }});
  for (engine::BufferPromised one : promises->promises().buffers_promised()) {
    one.policy = inbox.keep(std::string(one.policy));
    one.exemplars = inbox.keep(std::vector(one.exemplars.begin(), one.exemplars.end()));
    inbox.add(one);
  }
  inbox.add(engine::NodeJoined{NodeId(0), config.workers});
  inbox.add(engine::CapacityChanged{{NodeId(0), Tier::dram, 0}, engine_bytes(config)});
  if (const Spill* spill = backend->spill(); spill && spill->capacity() > 0)
    inbox.add(engine::CapacityChanged{{NodeId(0), Tier::nvme, 0}, spill->capacity()});
  for (const NodeDataset& dataset : config.datasets) joining->openings().open(dataset);
  if (config.http_port >= 0)
    http = std::make_unique<HttpServer>(
        loop, config.http_address, static_cast<std::uint16_t>(config.http_port), config.http_hosts,
        HttpPages::make<Snapshot>(
            [this](bool all_names) {
              Snapshot all = snapshot_of(*this);
              return all_names ? all : as_seen_by_any_program(std::move(all));
            },
            page_key));
  cluster.listen();
  connections.begin();
  check();
  watch_plugins();
  wait_for_signal();
  schedule();
}

// -------------------------------------------------------------------------------------- loop ----

void Service::Parts::schedule() {
  if (step_due || inbox.empty()) return;
  step_due = true;
  asio::post(loop, [this] {
    step_due = false;
    step();
  });
}

void Service::Parts::step() {
  backend->fire_timers(now());
  // What commands cause at once is reported before anything else is waited for.
  for (int rounds = 0; !inbox.empty() && rounds < 64; ++rounds) {
    stepping.clear();
    stepping.swap(inbox);
    for (std::span<const engine::Event> left = stepping.events(); !left.empty();) {
      const auto events = left.first(engine::events_of_one_step(left));
      left = left.subspan(events.size());
      const Instant at = now();
      plugins->record_new(recorder);
      recorder.record_events(at, events);
      plugins->begin_step(at, events);
      const std::span<const engine::Command> issued = engine->step(at, events);
      recorder.record_answers(answers_apart().take());
      plugins->end_step(at);
      recorder.record_commands(issued);
      promises->write(engine->promises());
      if (!cluster.may_carry_out()) return;
      jobs.promised(engine->promises());
      cluster.carry_out(issued);
    }
  }
  if (const std::string problem = recorder.take_problem(); !problem.empty())
    log.say({problem, LogLevel::error});
  if (const std::string problem = promises->take_problem(); !problem.empty())
    log.say({problem, LogLevel::error});
  jobs.wake();
  connections.watch_new();
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

void Service::Parts::change_policies(const engine::PolicyTexts& wanted) {
  engine::EngineConfig next = config.engine;
  next.policies = wanted;
  engine_changes(config.engine, next).tell(inbox);
  config.engine.policies = wanted;
  schedule();
}

void Service::Parts::watch_plugins() {
  constexpr std::chrono::milliseconds kLookEvery{25}, kIdle{500};
  plugin_timer.expires_after(plugins->watches() ? kLookEvery : kIdle);
  plugin_timer.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    plugins->tick(now());
    watch_plugins();
  });
}

void Service::Parts::check() {
  check_timer.expires_after(std::chrono::seconds(1));
  check_timer.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    jobs.check_waiting(now());
    jobs.wake();
    if (now() - Instant{} > kReturnWithin) returning->give_up();
    promises->flush();
    backend->each_second();
    note_history();
    // In a drain, connections have ended of jobs that the engine still knows.
    if (!draining) joining->let_unused_go();
    schedule();
    log.tick();
    memory::refill_memory_reserve();
    end_if_idle();
    check();
  });
}

// --------------------------------------------------------------------------------------- end ----

void Service::Parts::wait_for_signal() {
  signals.async_wait([this](const boost::system::error_code& cancelled, int number) {
    if (cancelled) return;
    if (number == SIGHUP) {
      reloading.reload({});  // what comes of it is said
    } else if (number == SIGTERM && !draining) {
      drain();
    } else {
      log.say(fmt::format("{}: ending at once; {} jobs are let go", strsignal(number),
                          jobs.status(now()).size()));
      ended_by = number;
      loop.stop();
    }
    wait_for_signal();
  });
}

void Service::Parts::drain() {
  if (std::exchange(draining, true)) return;
  const double seconds = std::chrono::duration<double>(config.drain).count();
  log.say(fmt::format("draining: {} jobs end their epochs, within {:g} s",
                      jobs.status(now()).size(), seconds));
  notify_manager("STOPPING=1\nSTATUS=draining");
  jobs.drain();
  drain_timer.expires_after(config.drain);
  drain_timer.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    log.say(fmt::format("drained: {} jobs are let go in mid-epoch", jobs.status(now()).size()));
    loop.stop();
  });
  end_if_drained();
}

void Service::Parts::end_if_drained() {
  if (!draining || !jobs.served().none_reads()) return;
  asio::post(loop, [this] {
    log.say({"drained: no job is left"});
    loop.stop();
  });
}

void Service::Parts::end_if_idle() {
  const bool may_end = config.exit_when_idle > Duration(0) && connections.size() == 0 &&
                       !jobs.feeds().has_producers();
  if (!may_end || now() - connections.idle_since() < config.exit_when_idle) return;
  log.say({"no client is connected any more (--exit-when-idle)"});
  loop.stop();
}

void Service::Parts::end() {
  *ending = true;
  jobs.feeds().end();
  cluster.end_listening();
  joining.reset();
  if (backend) backend->put_aside();
  backend.reset();
  cache_memory->items.drop_shares();  // what workers have kept since
  cluster.end_peers();
  listening.reset();
}

void Service::Parts::set_apart(Bytes bytes_each) {
  set_apart_for_steps(config, bytes_each * workers_at_start);
  report_memory();
}

void Service::Parts::give_back(Bytes bytes_each) {
  backend->end_steps();
  config.steps_bytes -= bytes_each * workers_at_start;
  report_memory();
}

// Reports what this node has kept as an agent.
void Service::Parts::report_kept(DatasetId dataset) {
  backend->report_kept(dataset, [this](engine::SamplesKept kept) {
    kept.samples = inbox.keep(std::vector<SampleId>(kept.samples.begin(), kept.samples.end()));
    inbox.add(kept);
  });
}

void Service::Parts::report_memory() {
  inbox.add(engine::CapacityChanged{{NodeId(0), Tier::dram, 0}, engine_bytes(config)});
  backend->set_memory(cache_bytes(config));
}

engine::Explain Service::Parts::explaining() {
  if (!config.explain) return {};
  return [this](const engine::Decision& one) { decisions.add(now(), one); };
}

Service::Service(NodeConfig config, Reread reread, const engine::PolicyList& policies) {
  parts_ = std::make_unique<Parts>(std::move(config), std::move(reread), policies);
  begin();
}

#ifdef BATCHFLOW_REMOTE
Service::Service(NodeConfig config, Reread reread, std::unique_ptr<HeldTerm> term,
                 std::shared_ptr<ListeningSocket> listening, Before before) {
  parts_ = std::make_unique<Parts>(std::move(config), std::move(reread), policies::policy_list(),
                                   std::move(before.kept));
  parts_->cluster.expect(before.others);
  parts_->cluster.set_term(std::move(term));
  parts_->listening = std::move(listening);
  begin();
}
#endif

void Service::begin() {
  try {
    parts_->start();
  } catch (...) {
    parts_->end();
    throw;
  }
}

Service::~Service() {
  parts_->end();
}

bool Service::is_superseded() const {
  return parts_->cluster.is_superseded() && !parts_->draining;
}

int Service::run(const std::function<void(const std::string&)>& write) {
  ServiceLog& log = parts_->log;
  log.write_to(write);
  const NodeConfig& config = parts_->config;
  log.say(fmt::format(
      "serving at {}: {} MiB for batches and samples, {} MiB at most to prepare a sample, up to {} "
      "workers, storage {}",
      config.socket.string(), cache_bytes(config) >> 20, scratch_limits(config).most() >> 20,
      config.workers, parts_->backend->readings().storage()));
  engine::visit_policies(config.engine.policies,
                         [&](std::string_view kind, const std::string& text) {
                           if (const std::string_view note = policy_note(kind, text); !note.empty())
                             log.say(fmt::format("policy {}={}{}", kind, text, note));
                         });
  if (const Spill* spill = parts_->backend->spill()) log.say("spill: " + spill->description());
  if (parts_->http)
    log.say(fmt::format("http://{}:{}/ shows what it does; /metrics is for Prometheus",
                        config.http_address, parts_->http->port()));
  if (tcp_port() >= 0)
    log.say(fmt::format("{}://{}:{} is for jobs on other machines",
                        config.tcp.certificate.empty() ? "tcp" : "tls", config.tcp.address,
                        tcp_port()));
  notify_manager("READY=1\nSTATUS=serving");
  parts_->loop.run();
  notify_manager("STOPPING=1");
  Recorder& recorder = parts_->recorder;
  recorder.close();
  log.say(fmt::format("seed {}, {} steps, digest {:016x}", config.engine.seed, recorder.steps(),
                      recorder.digest()));
  return parts_->ended_by;
}

int Service::tcp_port() const {
  return parts_->cluster.port();
}

int Service::http_port() const {
  return parts_->http ? parts_->http->port() : -1;
}

void Service::stop() {
  parts_->loop.stop();
}

}  // namespace batchflow::service
