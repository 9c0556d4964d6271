#include "runtime/service/cluster/agent_session.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "fmt/format.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/service/control/node_memory.h"
#include "runtime/service/jobs/refusals.h"
#include "runtime/service/node_sockets.h"
#include "runtime/service/service_version.h"

namespace batchflow::service {
namespace {

namespace asio = boost::asio;
using remote::RemoteKind;
using remote::TcpChannel;

constexpr std::chrono::milliseconds kAgainAfter{300};

}  // namespace

AgentSession::AgentSession(const Host& host)
    : host_(host),
      acceptor_(loop_, dup(host.listening.get())),
      signals_(loop_, dup(host.signals.get())),
      users_(host.config.quotas),
      entrance_(std::in_place, host.config, [this](const std::string& line) {
        post([this, line] { log_.say({line, LogLevel::warning, "remote"}); });
      }) {
  memory_.set_most(cache_bytes(config_));
}

std::string AgentSession::host_of_coordinator() const {
  remote::RemoteAddress address;
  std::string ignored;
  remote::parse_remote(coordinator_, address, ignored);
  return address.host;
}

AgentSession::~AgentSession() {
  entrance_->close();
  {
    const std::lock_guard lock(joining_mutex_);
    is_over_ = true;
    if (joining_) joining_->shut("this agent ends");
  }
  if (joiner_.joinable()) joiner_.join();
  entrance_.reset();
  if (link_) link_->close();
  if (keeper_.joinable()) keeper_.join();
  if (backend_) backend_->put_aside();
  backend_.reset();
  host_.memory.items.drop_shares();  // what workers have kept since
  peers_.reset();
}

void AgentSession::post(std::function<void()> what) {
  const memory::WaitsForMemory scope;
  memory::until_there_is_memory([&] {
    asio::post(loop_, [this, what] {
      what();
      schedule();
    });
  });
}

AgentOutcome AgentSession::run() {
  wait_for_signal();
  accept();
  check();
  show();
  joiner_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "bf-join");
    look_for_coordinator();
  });
  loop_.run();
  return outcome_;
}

void AgentSession::wait_for_signal() {
  signals_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                        signalfd_siginfo signal{};
                        if (error || ::read(signals_.native_handle(), &signal, sizeof signal) !=
                                         static_cast<ssize_t>(sizeof signal))
                          return;
                        const bool is_second =
                            std::exchange(outcome_.signal, static_cast<int>(signal.ssi_signo)) != 0;
                        if (outcome_.signal == SIGTERM && link_ && !is_second) {
                          leave();
                          return wait_for_signal();
                        }
                        end(strsignal(outcome_.signal));
                      });
}

// The coordinator has other nodes keep what is kept here. Jobs go on meanwhile.
void AgentSession::leave() {
  const double seconds = std::chrono::duration<double>(config_.drain).count();
  log_.say(fmt::format("ending: what is kept here is handed over, within {:g} s", seconds));
  notify_manager("STOPPING=1\nSTATUS=handing over");
  link_->write(encode_leaving());
  leave_timer_.expires_after(config_.drain);
  leave_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) end("not all is handed over");
  });
}

void AgentSession::end(const std::string& why) {
  log_.say(fmt::format("{}: ending; {} connections are let go", why, connections_.size()));
  loop_.stop();
}

void AgentSession::check() {
  check_timer_.expires_after(std::chrono::seconds(1));
  check_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (backend_) {
      backend_->each_second();
      datasets_->let_go();
      report();
      note_history();
    }
    log_.tick();
    memory::refill_memory_reserve();
    schedule();
    check();
  });
}

NodeCounters AgentSession::counters() const {
  const BackendCounters moved = backend_->counters();
  NodeCounters now;
  now.read_samples = moved.read_samples;
  now.read_bytes = moved.read_bytes;
  now.read_errors = moved.read_errors;
  now.fetched_samples = moved.fetched_samples;
  now.fetched_bytes = moved.fetched_bytes;
  now.store_busy_ns = moved.store_busy_ns;
  now.fetching_ns = moved.fetching_ns;
  now.prepared_samples = moved.prepared_samples;
  now.decoded_hits = moved.decoded_hits;
  now.copied_samples = moved.copied_samples;
  now.preparing_ns = static_cast<std::uint64_t>(backend_->preparations().busy().count());
  now.workers = backend_->preparations().workers();
  now.used_bytes = memory_.used();
  if (const Spill* const spill = backend_->spill()) {
    now.spill_bytes = spill->used();
    now.spill_read_bytes = spill->counters().read_bytes;
    now.spill_written_bytes = spill->counters().written_bytes;
    now.spill_missed = spill->counters().missed;
  }
  now.links = peers_->traffic();
  now.steps = tally_steps(datasets_->all());
  return now;
}

void AgentSession::report() {
  link_->write(encode(counters()));
}

void AgentSession::note_history() {
  if (!http_ || !delivered_.is_due(now())) return;
  delivered_.add({now(), ranks_->delivered_samples(), {}, {}}, {});
  prepared_.add({now(), backend_->counters().prepared_samples, {}, {}}, {});
}

// The coordinator's page shows this node, too. So an agent goes on without a page of its own.
void AgentSession::show() {
  if (config_.http_port < 0) return;
  try {
    http_ = std::make_unique<HttpServer>(
        loop_, config_.http_address, static_cast<std::uint16_t>(config_.http_port),
        config_.http_hosts, HttpPages::make<AgentSnapshot>([this](bool) { return snapshot(); }));
  } catch (const ConfigError& error) {
    if (host_.is_first) log_.say({error.what(), LogLevel::warning});
    return;
  }
  if (host_.is_first || config_.http_port == 0)
    log_.say(fmt::format("http://{}:{}/ shows what this node does; /metrics is for Prometheus",
                         config_.http_address, http_->port()));
}

AgentSnapshot AgentSession::snapshot() const {
  AgentSnapshot now;
  now.version = kServiceVersion;
  now.process = getpid();
  now.up_s = seconds(std::chrono::steady_clock::now() - host_.began);
  now.connections = connections_.size();
  now.node.name = config_.cluster.name;
  now.node.version = kServiceVersion;
  now.node.cores = config_.workers;
  now.node.memory = engine_bytes(config_);
  now.node.ranks = connections_.size();
  if (!backend_) return now;
  now.coordinator = coordinator_;
  now.page = page_;
  now.delivered = delivered_.points();
  now.prepared = prepared_.points();
  now.node.node = node_.value;
  now.node.ready = true;
  now.node.counters = counters();
  if (const Spill* const spill = backend_->spill()) now.node.drive = spill->capacity();
  return now;
}

// --------------------------------------------------------------------------- the coordinator ----

void AgentSession::look_for_coordinator() {
  const Joiner joiner{config_, host_.state.name(), host_.state.term()};
  std::string said;
  for (;;) {
    const FoundCoordinator found = host_.find();
    if (found.is_here)
      return post([this] {
        outcome_.is_here = true;
        loop_.stop();
      });
    std::string problem = found.problem;
    if (!found.address.empty()) {
      Joined joined = join_coordinator(found.address, joiner, [this](TcpChannel& channel) {
        set_joining(&channel);
        return entrance_->listen(channel);
      });
      set_joining(nullptr);
      if (!joined.node.is_none() || joined.is_refused) {
        const auto shared = std::make_shared<Joined>(std::move(joined));
        return post([this, shared] { begin(std::move(*shared)); });
      }
      problem = fmt::format("no coordinator at {}: {}", found.address, joined.problem);
    }
    if (std::exchange(said, problem) != problem)
      post([this, problem] {
        log_.say({fmt::format("{}; this agent goes on looking", problem), LogLevel::warning});
      });
    if (entrance_->wait_for_close(kAgainAfter)) return;
  }
}

// A coordinator that says nothing is not waited for when the agent is to end.
void AgentSession::set_joining(TcpChannel* channel) {
  const std::lock_guard lock(joining_mutex_);
  joining_ = channel;
  if (joining_ && is_over_) joining_->shut("this agent ends");
}

void AgentSession::begin(Joined joined) {
  coordinator_ = joined.address;
  if (joined.is_refused) {
    refusal_ =
        fmt::format("the coordinator at {} refuses this agent: {}", coordinator_, joined.problem);
    return loop_.stop();
  }
  serve(joined.term);
  node_ = joined.node;
  page_ = with_host(joined.page, host_of_coordinator());
  channel_ = std::move(joined.channel);
  link_ = std::make_shared<NodeLink>(loop_, *channel_, config_.cluster.lost_after,
                                     config_.cluster.unsent_most);
  const auto posting = [this](std::function<void()> what) { post(std::move(what)); };
  peers_ = std::make_unique<PeerLinks>(
      NodeAccess{config_.tcp.cluster_token_file, config_.cluster.authorities}, posting,
      config_.cluster.lost_after, [this](NodeId node, const std::string& problem) {
        log_.say({fmt::format("node {} cannot be reached from here: {}", node.value, problem),
                  LogLevel::warning});
        link_->write(encode_unreachable(node, problem));
      });
  const Place own{joined.node, Tier::dram, 0};
  datasets_ = std::make_unique<AgentDatasets>(
      config_, AgentDatasets::Host{log_, *link_, posting,
                                   [this, own](const NodeConfig& config) {
                                     backend_->set_memory(cache_bytes(config));
                                     backend_->end_steps();
                                     inbox_.add(engine::CapacityChanged{own, engine_bytes(config)});
                                   },
                                   [this](PipelineId one) { return backend_->is_at(one); },
                                   [this](DatasetId one) { report_kept(one); }});
  ranks_ = std::make_unique<AgentRanks>(datasets_->all(), *link_);
  Backend::Options options;
  options.node = joined.node;
  options.workers_most = config_.workers;
  options.scratch = scratch_limits(config_);
  options.storage = config_.storage;
  options.say = [this](const LogLine& line) { log_.say(line); };
  options.peers = peers_.get();
  options.spill = config_.spill;
  make_backend(options, posting);
  ranks_->set_backend(*backend_);
  entrance_->open(*backend_, posting, coordinator_);
  log_.say(fmt::format("joined {} as node {} '{}', with {} workers and {} MiB", coordinator_,
                       joined.node.value, config_.cluster.name, config_.workers,
                       engine_bytes(config_) >> 20));
  offer_drive(joined);
  if (const std::string note = other_version_note(joined.version); !note.empty())
    log_.say({fmt::format("the coordinator at {}: {}", coordinator_, note), LogLevel::warning});
  link_->read(posting, [this](NodeFrame frame) { take(std::move(frame)); });
  keeper_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "bf-node");
    link_->keep();
    const std::string problem = link_->problem();
    asio::post(loop_, [this, problem] { lost(problem); });
  });
}

// Reports what is kept here from before this coordinator, before the coordinator has this node
// work.
void AgentSession::report_kept(DatasetId dataset) {
  backend_->report_kept(dataset, [this](const engine::SamplesKept& kept) {
    const engine::Event event(kept);
    std::vector<std::byte> bytes;
    log::EventEncoder().step(Instant{}, {&event, 1}, bytes);
    link_->write(RemoteKind::payload, bytes);
  });
}

// A drive that has gone since the start does not end the agent.
void AgentSession::make_backend(Backend::Options options, const Post& posting) {
  const auto make = [&] {
    backend_ = std::make_unique<Backend>(options, host_.memory, datasets_->all(), inbox_, *ranks_,
                                         stalls_, posting);
  };
  try {
    make();
  } catch (const ConfigError& error) {
    if (host_.is_first || options.spill.path.empty()) throw;
    log_.say({fmt::format("{}; this agent goes on without", error.what()), LogLevel::warning});
    options.spill = {};
    make();
  }
}

// The drive is a place of the coordinator's engine, as this node's memory is.
void AgentSession::offer_drive(const Joined& joined) {
  const Spill* const spill = backend_->spill();
  if (!spill) return;
  log_.say("spill: " + spill->description());
  if (spill->capacity() == 0) return;
  inbox_.add(engine::CapacityChanged{{joined.node, Tier::nvme, 0}, spill->capacity()});
  schedule();
}

void AgentSession::serve(const TermName& term) {
  const std::string problem = host_.state.serve(term);
  if (!problem.empty())
    log_.say({fmt::format("{} (--state), or make room: an agent that is started anew does not know "
                          "that term {} has begun",
                          problem, term.number),
              LogLevel::warning});
}

void AgentSession::lost(const std::string& why) {
  if (refusal_.empty())
    log_.say({fmt::format("the coordinator at {} is lost: {}; {} connections are let go",
                          coordinator_, why, connections_.size()),
              LogLevel::warning});
  loop_.stop();
}

void AgentSession::take(NodeFrame frame) {
  try {
    switch (frame.kind) {
      case RemoteKind::text:
        return take_message(NodeMessage(frame.text()));
      case RemoteKind::record:
        if (!ranks_->take(frame.bytes)) throw MessageError("a record of no rank");
        return write_rest_soon();
      case RemoteKind::payload:
        return carry_out(frame.bytes);
    }
  } catch (const MessageError& error) {
    link_->shut(fmt::format("the coordinator sent nonsense: {}", error.what()));
  }
}

// Where a rank's socket or ring takes nothing now, its records follow soon.
void AgentSession::write_rest_soon() {
  if (rest_due_ || !ranks_->has_rest()) return;
  rest_due_ = true;
  rest_timer_.expires_after(std::chrono::milliseconds(1));
  rest_timer_.async_wait([this](const boost::system::error_code& error) {
    rest_due_ = false;
    if (error) return;
    ranks_->write_rest();
    write_rest_soon();
  });
}

void AgentSession::take_message(const NodeMessage& message) {
  if (message.type() == "rank") return ranks_->take(message.rank());
  if (message.type() == "peer") {
    const std::string address = message.text("address");
    if (message.node() != NodeId(0)) {
      other_agents_.insert(message.node().value);
      if (address.empty()) other_agents_.erase(message.node().value);
    }
    if (address.empty()) return peers_->remove(message.node());
    return peers_->set(message.node(), with_host(address, host_of_coordinator()));
  }
  if (message.type() == "limits") return users_.set(message.quotas());
  if (message.type() == "dataset") return datasets_->open(message.dataset());
  if (message.type() == "pipeline") return datasets_->add(message.pipeline());
  if (message.type() == "pipeline_gone") return datasets_->remove(message.pipeline_id());
  if (message.type() == "let_go") return end("all is handed over");
  if (message.type() == "refused") {
    refusal_ = fmt::format("the coordinator at {} refuses this agent: {}", coordinator_,
                           message.text("message"));
    return link_->shut(refusal_);
  }
  throw MessageError(fmt::format("a message of type '{}'", message.type()));
}

// ----------------------------------------------------------------------- commands and events ----

// What this node has not got fails at once. The coordinator's engine tries it elsewhere.
bool AgentSession::can_carry_out(const engine::Command& command) {
  const Datasets& datasets = datasets_->all();
  if (const auto* read = std::get_if<engine::Read>(&command)) {
    const bool needs_pipeline = read->form == Form::decoded;
    if (datasets.knows(read->dataset) &&
        (!needs_pipeline || datasets.knows(read->lineage.pipeline)))
      return true;
    inbox_.add(engine::ReadDone{read->request, engine::Outcome::failed, {}});
    return false;
  }
  if (const auto* prepare = std::get_if<engine::Prepare>(&command)) {
    if (datasets.knows(prepare->lineage.dataset) && datasets.knows(prepare->lineage.pipeline))
      return true;
    inbox_.add(engine::PreparationDone{prepare->request, engine::Outcome::failed, {}});
    return false;
  }
  return std::holds_alternative<engine::Transfer>(command) ||
         std::holds_alternative<engine::Drop>(command) ||
         std::holds_alternative<engine::Adopt>(command) ||
         std::holds_alternative<engine::Cancel>(command) ||
         std::holds_alternative<engine::Release>(command) ||
         std::holds_alternative<engine::SetWorkers>(command);
}

void AgentSession::carry_out(std::span<const std::byte> bytes) {
  const auto commands = decoder_.commands(bytes);
  if (!commands) throw MessageError("commands that cannot be read");
  std::vector<engine::Command> mine;
  mine.reserve(commands->size());
  for (const engine::Command& one : *commands) {
    if (can_carry_out(one)) mine.push_back(one);
  }
  backend_->carry_out(mine);
}

void AgentSession::schedule() {
  if (step_due_ || inbox_.empty()) return;
  step_due_ = true;
  asio::post(loop_, [this] {
    step_due_ = false;
    step();
  });
}

// What has happened goes to the coordinator's engine.
void AgentSession::step() {
  if (inbox_.empty() || !link_) return;
  stepping_.clear();
  stepping_.swap(inbox_);
  std::vector<std::byte> bytes;
  log::EventEncoder().step(Instant{}, stepping_.events(), bytes);
  link_->write(RemoteKind::payload, bytes);
}

// -------------------------------------------------------------------------------- connections ----

void AgentSession::accept() {
  acceptor_.async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
        if (error) return;
        protocol::Descriptor socket = accept_at(host_.listening);
        if (socket) {
          auto connection = std::make_shared<Connection>(loop_, std::move(socket), *this);
          if (users_.connects(connection->user())) {
            connections_[connection.get()] = connection;
            connection->start();
          } else {  // it is told so, and not listened to
            connection->send(protocol::encode(too_many_connections()), {});
          }
        }
        accept();
      });
}

bool AgentSession::on_frame(Connection& connection, std::string_view frame,
                            std::vector<protocol::Descriptor> descriptors, std::string& problem) {
  const std::string type = protocol::message_type(frame, problem);
  if (type.empty()) return false;
  connection.rest(users_.message(connection.user(), now()));
  if (type == "hello") {
    const std::optional<protocol::Hello> hello = protocol::decode_hello(frame, problem);
    if (!hello) return false;
    if (hello->protocol != protocol::kProtocolVersion) {
      refuse(connection, "protocol",
             fmt::format("the agent {} speaks version {} of the protocol, and the client {} speaks "
                         "version {}; install the same version of both",
                         kServiceVersion, protocol::kProtocolVersion, hello->version,
                         hello->protocol));
      return true;
    }
    connection.send(protocol::encode(protocol::Welcome{
                        protocol::kProtocolVersion, std::string(kServiceVersion),
                        fmt::format("{}-{}", getpid(), static_cast<const void*>(this))}),
                    {});
    return true;
  }
  if (!link_) {
    refuse(connection, kNotYet, "this agent looks for its coordinator; ask again");
    return true;
  }
  ranks_->pass_on(connection, frame, descriptors);
  return true;
}

void AgentSession::on_doorbell(Connection& connection) {
  if (!ranks_->read_ring(connection)) {
    refuse(connection, "protocol",
           "the client wrote a record that this version does not know; the agent ended the job");
    return;
  }
  if (ranks_->sleep(connection)) {
    connection.wait_for_doorbell();
  } else {
    connection.ring_again();
  }
  write_rest_soon();
  schedule();
}

void AgentSession::on_end(Connection& connection) {
  if (ranks_) ranks_->gone(connection);
  if (connections_.erase(&connection) > 0) users_.disconnects(connection.user());
  schedule();
}

bool AgentSession::on_unfinished(Connection& connection, std::int64_t change) {
  return users_.holds(connection.user(), change);
}

}  // namespace batchflow::service
