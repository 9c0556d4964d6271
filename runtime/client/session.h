// A loader's connection to a service: how it is made, and what arrives by it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/client/held_batches.h"
#include "runtime/client/link.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/ring.h"

namespace batchflow::client {

// A loader that waits for other ranks says so after this time, and then after twice as long each
// time.
inline constexpr std::chrono::seconds kAskFirst{5};

// The sockets where a service is looked for, in turn. If one was named, it is the only one.
std::vector<std::string> service_addresses(const char* named);

class Session {
 public:
  using Clock = protocol::Channel::Clock;
  // not_yet: the service is there, and wants to be asked again later. lost: it ended meanwhile.
  enum class Failure : std::uint8_t { no_service, not_yet, lost, refused, protocol, interrupted };
  struct Problem {
    Failure failure = Failure::no_service;
    std::string message;
    std::uint64_t steps_given = 0;  // as Refused has it
  };

  // Says hello, asks to join, and waits until the job is admitted or `is_interrupted` answers true.
  // Null, with the reason in `problem`, if it is not admitted. `shown` is sent along, to prove that
  // this user can read the data. Where the service names a folder that it wants to be shown, that
  // folder is opened and becomes `shown`. `say_wait` gets the ranks that are missing, when the wait
  // is long.
  static std::unique_ptr<Session> open(const std::vector<std::string>& addresses,
                                       const protocol::JoinRequest& request,
                                       protocol::Descriptor& shown, Clock::time_point deadline,
                                       const std::function<bool()>& is_interrupted,
                                       const std::function<void(const std::string&)>& say_wait,
                                       Problem& problem);

  // The same for a loader that has had no session yet: it asks again for as long as `most_away`
  // where a service wants that. A service that is ending wants it, and then is away until the next
  // one has started.
  static std::unique_ptr<Session> open_first(
      const std::vector<std::string>& addresses, const protocol::JoinRequest& request,
      protocol::Descriptor& shown, Clock::duration most, Clock::duration most_away,
      const std::function<void(const std::string&)>& say_wait, Problem& problem);
  static bf_status status_of(Failure failure);

  const protocol::JoinAnswer& admission() const { return admission_; }
  protocol::RingReader& reader() { return reader_; }
  // Whether the service has written the batches of this step for all ranks.
  bool is_there(std::uint64_t step) const { return step < pace_.steps(); }
  // Whether the service has dropped this rank, and may use again the memory of its batches.
  bool is_revoked() const { return link_->rings().revoked().load() != 0; }
  const std::shared_ptr<Link>& link() const { return link_; }

  // Reads the messages that have come. False: the connection is lost; lost_because() says why.
  bool look_at_socket();
  const std::string& lost_because() const { return lost_because_; }
  void lose(std::string_view because);
  // Null: the service has sent no such slab.
  std::shared_ptr<const Slab> slab(std::uint64_t number) const;
  // The service's reason to end the job, if it has sent one.
  const std::optional<protocol::Refused>& refused() const { return refused_; }
  // Asks for a name, and waits for the answer.
  std::optional<std::string> ask_name(bool of_class, std::uint64_t key, Clock::time_point deadline);
  std::optional<protocol::SamplesSum> ask_sum(std::uint64_t first, std::uint64_t count,
                                              Clock::time_point deadline);
  std::optional<protocol::FindMessage> ask_find(const protocol::FindMessage& question,
                                                Clock::time_point deadline);
  // Asks which other ranks hold this one up. look_at_socket() reads the answer.
  void ask_for_missing_ranks();
  // The answer, once. Empty: it has not come, or no rank is missing.
  std::string take_missing_ranks() { return std::exchange(missing_ranks_, {}); }

 private:
  Session(std::shared_ptr<Link> link, protocol::Pace pace, protocol::JoinAnswer admission);
  bool take(protocol::Frame frame);
  bool take_slab(const protocol::Frame& frame);

  std::shared_ptr<Link> link_;
  protocol::Pace pace_;
  protocol::JoinAnswer admission_;
  protocol::RingReader reader_;
  std::map<std::uint64_t, std::shared_ptr<const Slab>> slabs_;
  std::optional<protocol::Refused> refused_;
  std::optional<protocol::NameMessage> name_answer_;  // the last
  std::optional<protocol::SamplesSum> sum_answer_;    // the last
  std::optional<protocol::FindMessage> find_answer_;  // the last
  std::string missing_ranks_;
  std::string lost_because_;
};

}  // namespace batchflow::client
