#include "runtime/service/cluster/agent.h"

#include <sys/signalfd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "runtime/service/backend/cache_memory.h"
#include "runtime/service/cluster/agent_session.h"
#include "runtime/service/cluster/agent_state.h"
#include "runtime/service/control/node_memory.h"
#include "runtime/service/log/service_log.h"
#include "runtime/service/node_sockets.h"

namespace batchflow::service {
namespace {

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
                       const std::function<void(const std::string&)>& write,
                       std::shared_ptr<CacheMemory>& memory) {
  settle(config);
  if (!memory) memory = std::make_shared<CacheMemory>(cache_bytes(config));
  ServiceLog log(config.log);
  log.write_to(write);
  std::filesystem::create_directories(config.state / "indices");
  const protocol::Descriptor state_lock = lock_state(config.state);
  log.say(fmt::format("an agent, for jobs at {}", config.socket.string()));
  const HeldSignals signals;
  AgentState state(config.state);
  AgentSession::Host host{config,
                          find,
                          log,
                          listening.socket(),
                          signals.descriptor(),
                          state,
                          *memory,
                          std::chrono::steady_clock::now()};
  AgentOutcome outcome;
  std::string refusal;
  while (outcome.signal == 0 && !outcome.is_here && refusal.empty()) {
    AgentSession session(host);
    const std::size_t others = outcome.others;
    outcome = session.run();
    outcome.others = session.others().value_or(others);
    refusal = session.refusal();
    host.is_first = false;
  }
  if (!refusal.empty()) throw ConfigError(refusal);
  return outcome;
}

int run_agent(const NodeConfig& config, const std::function<void(const std::string&)>& write) {
  const ListeningSocket listening(config.socket);
  std::vector<std::string> addresses = split_addresses(config.cluster.join);
  std::shared_ptr<CacheMemory> memory;
  return run_agent(
             config,
             [addresses, next = std::size_t{0}]() mutable {
               return FoundCoordinator{addresses[next++ % addresses.size()], {}, false};
             },
             listening, write, memory)
      .signal;
}

}  // namespace batchflow::service
