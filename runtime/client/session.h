// A loader's connection as the loader sees it: how it comes about, and what arrives by it.
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

namespace batchflow {

// After how long a wait for other ranks is told of, and after twice as long again.
inline constexpr std::chrono::seconds kAskFirst{5};

// Where services are looked for, in turn. One that was named is the only one.
std::vector<std::string> service_addresses(const char* named);

class Session {
 public:
  using Clock = Channel::Clock;
  // not_yet: the service is there, and asks to be asked again. lost: it was, and has ended.
  enum class Failure : std::uint8_t { no_service, not_yet, lost, refused, protocol, interrupted };
  struct Problem {
    Failure failure = Failure::no_service;
    std::string message;
  };

  // Says hello and joins, and waits until the job is admitted, or for `is_interrupted`. Null, with
  // the reason in `problem`. `shown` goes with the wish, to show that this user can read the data;
  // where the service names a folder that is to be shown, that one is opened and becomes it.
  // `say_wait` is told for whom it waits, when that takes long.
  static std::unique_ptr<Session> open(const std::vector<std::string>& addresses,
                                       const JoinRequest& request, Descriptor& shown,
                                       Clock::time_point deadline,
                                       const std::function<bool()>& is_interrupted,
                                       const std::function<void(const std::string&)>& say_wait,
                                       Problem& problem);

  const JoinAnswer& admission() const { return admission_; }
  RingReader& down() { return down_; }
  // Whether all ranks have been sent theirs of this step, so that none can be left without.
  bool is_there(std::uint64_t step) const { return step < pace_.steps(); }
  // The service has dropped this rank and may use its memory again.
  bool is_revoked() const { return link_->rings().revoked().load() != 0; }
  const std::shared_ptr<Link>& link() const { return link_; }

  // Takes what the socket has by now. False: the connection is of no use any more; `lost_because`.
  bool look_at_socket();
  const std::string& lost_because() const { return lost_because_; }
  void lose(std::string_view because);
  // Null: no message has brought it.
  std::shared_ptr<const Slab> slab(std::uint64_t number) const;
  // Why the service ends the job, if it has said so.
  const std::optional<Refused>& refused() const { return refused_; }
  // Asks for a name, and waits for the answer.
  std::optional<std::string> ask_name(bool of_class, std::uint64_t key, Clock::time_point deadline);
  std::optional<SamplesSum> ask_sum(std::uint64_t first, std::uint64_t count,
                                    Clock::time_point deadline);
  // The answer comes by look_at_socket(), and is given once: empty before, and if it is nobody.
  void ask_whom_it_waits_for();
  std::string whom_it_waits_for() { return std::exchange(waits_for_, {}); }

 private:
  Session(std::shared_ptr<Link> link, Pace pace, JoinAnswer admission);
  bool take(Frame frame);
  bool take_slab(const Frame& frame);

  std::shared_ptr<Link> link_;
  Pace pace_;
  JoinAnswer admission_;
  RingReader down_;
  std::map<std::uint64_t, std::shared_ptr<const Slab>> slabs_;
  std::optional<Refused> refused_;
  std::optional<NameMessage> named_;  // the last answer
  std::optional<SamplesSum> summed_;  // likewise
  std::string waits_for_;
  std::string lost_because_;
};

}  // namespace batchflow
