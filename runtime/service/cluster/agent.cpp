#include "runtime/service/cluster/agent.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/log/event_codec.h"
#include "fmt/format.h"
#include "programs/input/yaml.h"
#include "programs/output/output.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/protocol/secret.h"
#include "runtime/remote/listener.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/cluster/agent_ranks.h"
#include "runtime/service/cluster/joining_coordinator.h"
#include "runtime/service/cluster/node_link.h"
#include "runtime/service/cluster/node_messages.h"
#include "runtime/service/cluster/peer_links.h"
#include "runtime/service/connection.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/datasets/openers.h"
#include "runtime/service/jobs/refusals.h"
#include "runtime/service/log/service_log.h"
#include "runtime/service/node_sockets.h"

namespace batchflow::service {
namespace {

namespace asio = boost::asio;
using remote::RemoteKind;
using remote::TcpChannel;

constexpr std::chrono::milliseconds kAgainAfter{300};

// The newest term that this agent has served, for agents that are started again.
std::filesystem::path term_file(const std::filesystem::path& state) {
  return state / "term";
}

TermName read_term(const std::filesystem::path& state) {
  TermName term;
  std::ifstream(term_file(state)) >> term.cluster >> term.number;
  return term;
}

// What was there before stays if it cannot be written. Answers why; empty: it is written.
std::string write_term(const std::filesystem::path& state, const TermName& term) {
  try {
    output::write_file_atomically(term_file(state),
                                  fmt::format("{} {}\n", term.cluster, term.number));
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

// What an agent has from one session to the next.
struct Agent {
  const NodeConfig& config;
  const FindCoordinator& find;
  ServiceLog& log;
  const protocol::Descriptor& listening;
  const protocol::Descriptor& signals;  // a signalfd
  std::string state;                    // the name of its state folder
  TermName term;                        // the newest that it knows
};

class AgentSession final : public ConnectionHost {
 public:
  explicit AgentSession(Agent& agent);
  ~AgentSession();

  // Until a signal ends it, the coordinator is lost, or this node is to coordinate.
  AgentOutcome run();
  // Why the coordinator refused this agent, if it did.
  const std::string& refusal() const { return refusal_; }

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
  void report();
  void write_rest_soon();
  void wait_for_signal();
  void leave();
  void end(const std::string& why);
  void look_for_coordinator();
  std::string listen_for_peers(const TcpChannel& channel);
  void begin(Joined joined);
  void remember(const TermName& term);
  void lost(const std::string& why);
  void take(NodeFrame frame);
  void take_message(const NodeMessage& message);
  void open(const DatasetMessage& wanted);
  void opened(const DatasetMessage& wanted, const std::vector<OpenedIndex>& parts);
  void answer_opened(DatasetId dataset, const std::string& problem);
  void add(const PipelineMessage& wanted);
  void carry_out(std::span<const std::byte> bytes);
  bool can_carry_out(const engine::Command& command);
  void serve_peer(TcpChannel& channel);

  std::string host_of_coordinator() const;

  Agent& agent_;
  const NodeConfig& config_ = agent_.config;
  ServiceLog& log_ = agent_.log;
  asio::io_context loop_{1};
  asio::posix::stream_descriptor acceptor_;
  asio::steady_timer check_timer_{loop_};
  asio::steady_timer rest_timer_{loop_};
  asio::steady_timer leave_timer_{loop_};
  asio::posix::stream_descriptor signals_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  AgentOutcome outcome_;
  std::string coordinator_;  // its address
  bool step_due_ = false;
  bool rest_due_ = false;
  std::string refusal_;
  Datasets datasets_;
  Inbox inbox_, stepping_;
  StallBook stalls_{[this] { return Instant(std::chrono::steady_clock::now() - began_); }};
  MemoryBudget memory_;
  std::map<const Connection*, std::shared_ptr<Connection>> connections_;
  log::CommandDecoder decoder_;
  std::uint64_t next_opening_ = 0;
  std::vector<PipelineMessage> early_;  // their datasets are being opened

  std::unique_ptr<TcpChannel> channel_;
  std::shared_ptr<NodeLink> link_;
  std::unique_ptr<PeerLinks> peers_;
  std::unique_ptr<AgentRanks> ranks_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Openers> openers_;
  std::mutex server_mutex_;
  std::condition_variable server_changed_;
  std::unique_ptr<PeerServer> server_;  // by server_mutex_
  bool ending_ = false;                 // by server_mutex_
  std::unique_ptr<remote::RemoteListener> listener_;
  std::thread keeper_;
  std::thread joiner_;
};

AgentSession::AgentSession(Agent& agent)
    : agent_(agent),
      acceptor_(loop_, dup(agent.listening.get())),
      signals_(loop_, dup(agent.signals.get())),
      memory_(agent.config.cache_bytes()) {}

std::string AgentSession::host_of_coordinator() const {
  remote::RemoteAddress address;
  std::string ignored;
  remote::parse_remote(coordinator_, address, ignored);
  return address.host;
}

AgentSession::~AgentSession() {
  {
    const std::lock_guard lock(server_mutex_);
    ending_ = true;
    server_changed_.notify_all();
  }
  if (joiner_.joinable()) joiner_.join();
  openers_.reset();
  listener_.reset();
  if (link_) link_->close();
  if (keeper_.joinable()) keeper_.join();
  backend_.reset();
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

// The coordinator has others keep what is kept here. Jobs go on meanwhile.
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
      report();
    }
    log_.tick();
    memory::refill_memory_reserve();
    schedule();
    check();
  });
}

void AgentSession::report() {
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
  now.copied_samples = moved.copied_samples;
  now.preparing_ns = static_cast<std::uint64_t>(backend_->preparations().busy().count());
  now.workers = backend_->preparations().workers();
  now.used_bytes = memory_.used();
  now.links = peers_->traffic();
  link_->write(encode(now));
}

// --------------------------------------------------------------------------- the coordinator ----

void AgentSession::look_for_coordinator() {
  const Joiner joiner{config_, agent_.state, agent_.term};
  std::string said;
  for (;;) {
    const FoundCoordinator found = agent_.find();
    if (found.is_here)
      return post([this] {
        outcome_.is_here = true;
        loop_.stop();
      });
    std::string problem = found.problem;
    if (!found.address.empty()) {
      Joined joined = join_coordinator(found.address, joiner, [this](const TcpChannel& channel) {
        return listen_for_peers(channel);
      });
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
    std::unique_lock lock(server_mutex_);
    if (server_changed_.wait_for(lock, kAgainAfter, [this] { return ending_; })) return;
  }
}

// Peers find this node at the address by which it reaches its coordinator, unless another is set.
std::string AgentSession::listen_for_peers(const TcpChannel& channel) {
  const std::string own = own_host(channel);
  const bool is_set = config_.tcp.port >= 0;
  if (!listener_) {
    remote::RemoteOptions options = config_.tcp;
    if (!is_set) {
      options.address = own;
      options.port = 0;
    }
    options.token_file.clear();
    listener_ = std::make_unique<remote::RemoteListener>(
        options, config_.socket, [this](TcpChannel& from, std::string_view as, const std::string&) {
          if (as == remote::kPeer) serve_peer(from);
        });
  }
  return node_address(config_.tcp, is_set ? config_.tcp.address : own, listener_->port());
}

void AgentSession::begin(Joined joined) {
  coordinator_ = joined.address;
  if (joined.is_refused) {
    refusal_ =
        fmt::format("the coordinator at {} refuses this agent: {}", coordinator_, joined.problem);
    return loop_.stop();
  }
  agent_.term = joined.term;
  if (!joined.term.cluster.empty()) remember(joined.term);
  channel_ = std::move(joined.channel);
  link_ = std::make_shared<NodeLink>(loop_, *channel_, config_.cluster.lost_after);
  const auto posting = [this](std::function<void()> what) { post(std::move(what)); };
  peers_ = std::make_unique<PeerLinks>(
      NodeAccess{config_.tcp.cluster_token_file, config_.cluster.authorities}, posting,
      config_.cluster.lost_after, [this](NodeId node, const std::string& problem) {
        log_.say({fmt::format("node {} cannot be reached from here: {}", node.value, problem),
                  LogLevel::warning});
        link_->write(encode_unreachable(node, problem));
      });
  ranks_ = std::make_unique<AgentRanks>(datasets_, *link_);
  Backend::Options options;
  options.node = joined.node;
  options.workers_most = config_.workers;
  options.scratch = config_.scratch_limits();
  options.storage = config_.storage;
  options.say = [this](const LogLine& line) { log_.say(line); };
  options.peers = peers_.get();
  backend_ =
      std::make_unique<Backend>(options, memory_, datasets_, inbox_, *ranks_, stalls_, posting);
  ranks_->set_backend(*backend_);
  openers_ = std::make_unique<Openers>(posting);
  {
    const std::lock_guard lock(server_mutex_);
    server_ = std::make_unique<PeerServer>(*backend_, posting);
    server_changed_.notify_all();
  }
  log_.say(fmt::format("joined {} as node {} '{}', with {} workers and {} MiB", coordinator_,
                       joined.node.value, config_.cluster.name, config_.workers,
                       config_.engine_bytes() >> 20));
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

void AgentSession::remember(const TermName& term) {
  const std::string problem = write_term(config_.state, term);
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

void AgentSession::serve_peer(TcpChannel& channel) {
  PeerServer* server = nullptr;
  {
    std::unique_lock lock(server_mutex_);
    server_changed_.wait(lock, [this] { return server_ || ending_; });
    if (ending_) return;
    server = server_.get();
  }
  server->serve(channel);
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
    if (address.empty()) return peers_->remove(message.node());
    return peers_->set(message.node(), with_host(address, host_of_coordinator()));
  }
  if (message.type() == "dataset") return open(message.dataset());
  if (message.type() == "pipeline") return add(message.pipeline());
  if (message.type() == "let_go") return end("all is handed over");
  if (message.type() == "refused") {
    refusal_ = fmt::format("the coordinator at {} refuses this agent: {}", coordinator_,
                           message.text("message"));
    return link_->shut(refusal_);
  }
  throw MessageError(fmt::format("a message of type '{}'", message.type()));
}

// ------------------------------------------------------------------------ datasets, pipelines ----

void AgentSession::open(const DatasetMessage& wanted) {
  while (datasets_.all().size() <= wanted.id.value) datasets_.add_unknown_dataset();
  if (wanted.version == 0) return answer_opened(wanted.id, {});
  const std::uint64_t number = next_opening_++;
  const auto work = [this, wanted, folder = config_.state / "indices"](
                        const sources::StopAsked& stop) -> std::function<void()> {
    std::vector<OpenedIndex> parts;
    try {
      parts = open_with_splits(wanted.asked, {}, folder, stop);
    } catch (const std::exception& error) {
      parts.emplace_back().problem = error.what();
    }
    const auto shared = std::make_shared<std::vector<OpenedIndex>>(std::move(parts));
    return [this, wanted, shared] { opened(wanted, *shared); };
  };
  try {
    openers_->start(number, std::nullopt, work);
  } catch (const std::system_error& error) {
    answer_opened(wanted.id, fmt::format("no thread to open it: {}", error.code().message()));
  }
}

void AgentSession::opened(const DatasetMessage& wanted, const std::vector<OpenedIndex>& parts) {
  const OpenedIndex* const made = wanted.part < parts.size() ? &parts[wanted.part]
                                  : parts.empty()            ? nullptr
                                                             : &parts.front();
  if (!made || !made->index)
    return answer_opened(wanted.id,
                         fmt::format("dataset '{}' at {} cannot be opened there: {}", wanted.name,
                                     wanted.asked.path.string(), made ? made->problem : ""));
  if (made->index->version() != wanted.version || made->index->listing() != wanted.listing)
    return answer_opened(
        wanted.id, fmt::format("dataset '{}' at {} is another one there: version {:016x}, and the "
                               "coordinator's is {:016x}; mount the same data on all nodes",
                               wanted.name, wanted.asked.path.string(), made->index->version(),
                               wanted.version));
  ServedDataset& dataset = datasets_.dataset(wanted.id);
  dataset.name = wanted.name;
  dataset.root = wanted.asked.path;
  dataset.bundle_shift = made->catalogue->bundle_shift();
  datasets_.add_again(dataset, made->root, made->index);
  dataset.closed = made->closed;
  for (const PipelineMessage& one : std::exchange(early_, {})) add(one);
  log_.say(fmt::format("dataset {}: {} samples, version {:016x}", wanted.name,
                       made->index->samples(), wanted.version));
  answer_opened(wanted.id, {});
}

void AgentSession::answer_opened(DatasetId dataset, const std::string& problem) {
  if (!problem.empty()) log_.say({problem, LogLevel::error, "dataset"});
  link_->write(encode_opened(dataset, problem));
}

void AgentSession::add(const PipelineMessage& wanted) {
  while (datasets_.pipelines().size() <= wanted.id.value) datasets_.add_unknown_pipeline();
  if (wanted.text.empty()) return;
  if (!datasets_.knows(wanted.dataset)) {
    early_.push_back(wanted);
    return;
  }
  ServedPipeline& pipeline = datasets_.pipeline(wanted.id);
  std::string problem;
  try {
    config::read_config(
        input::parse_yaml(wanted.text, wanted.name), [&](config::ConfigSection& section) {
          pipeline.pipeline = prepare::compile_pipeline(
              section, *datasets_.dataset(wanted.dataset).index, config_.scratch_limits());
        });
    if (pipeline.pipeline->info().hash != wanted.hash)
      problem = fmt::format("it has the hash {:016x} here, and {:016x} at the coordinator",
                            pipeline.pipeline->info().hash, wanted.hash);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) {
    pipeline.pipeline = nullptr;
    log_.say({fmt::format("pipeline '{}': {}", wanted.name, problem), LogLevel::error, "pipeline"});
    return;
  }
  pipeline.name = wanted.name;
  pipeline.dataset = wanted.dataset;
  pipeline.spec = pipeline.pipeline->spec();
  pipeline.hash = wanted.hash;
}

// ----------------------------------------------------------------------- commands and events ----

// What this node has not got fails at once. The coordinator's engine tries it elsewhere.
bool AgentSession::can_carry_out(const engine::Command& command) {
  if (const auto* read = std::get_if<engine::Read>(&command)) {
    const bool needs_pipeline = read->form == Form::decoded;
    if (datasets_.knows(read->dataset) &&
        (!needs_pipeline || datasets_.knows(read->lineage.pipeline)))
      return true;
    inbox_.add(engine::ReadDone{read->request, engine::Outcome::failed, {}});
    return false;
  }
  if (const auto* prepare = std::get_if<engine::Prepare>(&command)) {
    if (datasets_.knows(prepare->lineage.dataset) && datasets_.knows(prepare->lineage.pipeline))
      return true;
    inbox_.add(engine::PreparationDone{prepare->request, engine::Outcome::failed, {}});
    return false;
  }
  return std::holds_alternative<engine::Transfer>(command) ||
         std::holds_alternative<engine::Drop>(command) ||
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
        protocol::Descriptor socket = accept_at(agent_.listening);
        if (socket) {
          auto connection = std::make_shared<Connection>(loop_, std::move(socket), *this);
          connections_[connection.get()] = connection;
          connection->start();
        }
        accept();
      });
}

bool AgentSession::on_frame(Connection& connection, std::string_view frame,
                            std::vector<protocol::Descriptor> descriptors, std::string& problem) {
  const std::string type = protocol::message_type(frame, problem);
  if (type.empty()) return false;
  if (type == "hello") {
    const std::optional<protocol::Hello> hello = protocol::decode_hello(frame, problem);
    if (!hello) return false;
    if (hello->protocol != protocol::kProtocolVersion) {
      refuse(connection, "protocol",
             fmt::format("the agent {} speaks version {} of the protocol, and the client {} speaks "
                         "version {}; install the same version of both",
                         BATCHFLOW_VERSION, protocol::kProtocolVersion, hello->version,
                         hello->protocol));
      return true;
    }
    connection.send(protocol::encode(protocol::Welcome{
                        protocol::kProtocolVersion, BATCHFLOW_VERSION,
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
  connections_.erase(&connection);
  schedule();
}

bool AgentSession::on_unfinished(Connection&, std::int64_t) {
  return true;
}

// The signals that end an agent wait for it. A signal between two sessions waits for the next one.
class HeldSignals {
 public:
  HeldSignals() {
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
    descriptor_ = protocol::Descriptor(signalfd(-1, &held_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  const protocol::Descriptor& descriptor() const { return descriptor_; }

 private:
  const sigset_t held_ = ending_signals();
  sigset_t before_{};
  protocol::Descriptor descriptor_;
};

// A name that no other state folder has. It tells an agent that comes back from another one with
// the same name.
std::string state_name(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "agent";
  std::string name;
  if (std::ifstream(file) >> name) return name;
  name = protocol::make_secret();
  try {
    output::write_file_atomically(file, name + "\n");
  } catch (const output::OutputError& error) {
    throw ConfigError(fmt::format("{} (--state), or make room", error.what()));
  }
  return name;
}

}  // namespace

sigset_t ending_signals() {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  return ending;
}

AgentOutcome run_agent(NodeConfig config, const FindCoordinator& find,
                       const ListeningSocket& listening,
                       const std::function<void(const std::string&)>& write) {
  settle(config);
  ServiceLog log(config.log);
  log.write_to(write);
  std::filesystem::create_directories(config.state / "indices");
  const protocol::Descriptor state_lock = lock_state(config.state);
  log.say(fmt::format("an agent, for jobs at {}", config.socket.string()));
  const HeldSignals signals;
  Agent agent{config,
              find,
              log,
              listening.socket(),
              signals.descriptor(),
              state_name(config.state),
              read_term(config.state)};
  AgentOutcome outcome;
  std::string refusal;
  while (outcome.signal == 0 && !outcome.is_here && refusal.empty()) {
    AgentSession session(agent);
    outcome = session.run();
    refusal = session.refusal();
  }
  if (!refusal.empty()) throw ConfigError(refusal);
  return outcome;
}

int run_agent(const NodeConfig& config, const std::function<void(const std::string&)>& write) {
  const ListeningSocket listening(config.socket);
  std::vector<std::string> addresses = split_addresses(config.cluster.join);
  return run_agent(
             config,
             [addresses, next = std::size_t{0}]() mutable {
               return FoundCoordinator{addresses[next++ % addresses.size()], {}, false};
             },
             listening, write)
      .signal;
}

}  // namespace batchflow::service
