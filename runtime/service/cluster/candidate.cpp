#include "runtime/service/cluster/candidate.h"

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/service/backend/cache_memory.h"
#include "runtime/service/cluster/agent.h"
#include "runtime/service/cluster/terms.h"

namespace batchflow::service {
namespace {

// Looks at the folder once. Where this node has taken a term, `taken` has its number.
FoundCoordinator look(TermWatch& watch, std::uint64_t& taken) {
  FoundCoordinator found;
  try {
    const TermWatch::Seen seen = watch.look();
    found.is_here = seen.taken;
    if (seen.taken) taken = seen.now.number;
    found.address = seen.taken ? "" : seen.now.address;
    found.problem = seen.problem;
    if (found.problem.empty() && found.address.empty())
      found.problem = seen.now.ended
                          ? "no node coordinates"
                          : fmt::format("'{}' has taken term {}, and does not coordinate yet",
                                        seen.now.holder, seen.now.number);
  } catch (const ConfigError& error) {
    found.problem = error.what();
  }
  return found;
}

}  // namespace

int run_candidate(const NodeConfig& config, const Service::Reread& reread,
                  const std::function<void(const std::string&)>& write) {
  const TermFolder folder(config.cluster.log);
  // Between two roles nothing takes a signal, so it waits for the next role.
  const sigset_t ending = ending_signals();
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  // One for all that this process is in turn, so that no client finds the door closed meanwhile.
  const auto listening = std::make_shared<ListeningSocket>(config.socket);
  // A node that may be cut off leaves the next term to others for a while.
  TermWatch::Clock::time_point from{};
  std::shared_ptr<CacheMemory> memory;
  for (;;) {
    TermWatch watch(folder, config.cluster.name, config.cluster.lost_after, from);
    Term mine;
    mine.holder = config.cluster.name;
    const AgentOutcome outcome = run_agent(
        config, [&] { return look(watch, mine.number); }, *listening, write, memory);
    if (!outcome.is_here) return outcome.signal;
    auto term = std::make_unique<HeldTerm>(folder, mine, config.cluster.lost_after);
    Service service(config, reread, std::move(term), listening, {memory, outcome.others});
    write(fmt::format("this node coordinates the cluster of {}: term {}",
                      config.cluster.log.string(), mine.number));
    pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);
    const int ended_by = service.run(write);
    pthread_sigmask(SIG_BLOCK, &ending, nullptr);
    if (!service.is_superseded()) return ended_by;
    from = TermWatch::Clock::now() + 2 * config.cluster.lost_after;
  }
}

}  // namespace batchflow::service
