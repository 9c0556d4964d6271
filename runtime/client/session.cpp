#include "runtime/client/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/protocol/credits.h"
#ifdef BATCHFLOW_REMOTE
#include "runtime/remote/proxy.h"
#endif

namespace batchflow::client {
namespace {

using namespace std::chrono_literals;
using Clock = Session::Clock;

// How long the service may take to answer what it answers at once.
constexpr auto kAnswerTime = 10s;
constexpr auto kAskAgainAfter = 100ms;
constexpr std::size_t kSlabsMost = 65536;

// Waits for the next frame in slices, so that an interrupt is noticed.
std::optional<protocol::Frame> next_frame(protocol::Channel& channel, Clock::time_point deadline,
                                          const std::function<bool()>& is_interrupted) {
  while (channel.is_open() && Clock::now() < deadline && !is_interrupted()) {
    if (auto frame = channel.receive(std::min(deadline, Clock::now() + 50ms))) return frame;
  }
  return std::nullopt;
}

// Waits for the answer to the request to join. Now and then it asks which ranks are missing.
std::optional<protocol::Frame> admission_frame(
    protocol::Channel& channel, const protocol::JoinRequest& request, Clock::time_point deadline,
    const std::function<bool()>& is_interrupted,
    const std::function<void(const std::string&)>& say_wait) {
  const auto begin = Clock::now();
  for (Clock::duration ask_after = kAskFirst;; ask_after *= 2) {
    const auto until = request.world_size > 1 ? std::min(deadline, begin + ask_after) : deadline;
    while (auto frame = next_frame(channel, until, is_interrupted)) {
      std::string problem;
      if (protocol::message_type(frame->text, problem) != "waiting") return frame;
      const auto waiting = protocol::decode_waiting(frame->text, problem);
      if (waiting && waiting->message && !waiting->message->empty())
        say_wait(fmt::format("rank {} has waited for {:.0f} s for {}", request.rank,
                             std::chrono::duration<double>(Clock::now() - begin).count(),
                             *waiting->message));
    }
    if (!channel.is_open() || is_interrupted() || Clock::now() >= deadline) return std::nullopt;
    channel.send(protocol::encode(protocol::WaitingMessage{}), {},
                 std::min(deadline, Clock::now() + kAnswerTime));
  }
}

Session::Problem no_answer(const protocol::Channel& channel, const protocol::Companion* proxy,
                           const std::function<bool()>& is_interrupted, std::string_view to_what) {
  if (is_interrupted()) return {Session::Failure::interrupted, "interrupted"};
  const std::string further = proxy ? proxy->problem() : std::string();
  return {Session::Failure::no_service, fmt::format("the service did not answer {} ({})", to_what,
                                                    channel.is_open() ? "the time is over"
                                                    : further.empty() ? channel.problem()
                                                                      : further)};
}

#ifdef BATCHFLOW_REMOTE
protocol::Channel connect_remotely(const std::string& address, Clock::time_point deadline,
                                   std::unique_ptr<protocol::Companion>& proxy,
                                   std::string& problem) {
  protocol::Channel channel;
  proxy = remote::Proxy::connect(address, deadline, channel, problem);
  return channel;
}
#else
protocol::Channel connect_remotely(const std::string& address, Clock::time_point,
                                   std::unique_ptr<protocol::Companion>&, std::string& problem) {
  problem = fmt::format("{}: this library was built without OpenSSL (libssl-dev)", address);
  return {};
}
#endif

protocol::Channel connect_to_first(const std::vector<std::string>& addresses,
                                   Clock::time_point deadline,
                                   std::unique_ptr<protocol::Companion>& proxy,
                                   std::string& problem) {
  for (const std::string& address : addresses) {
    std::string why;
    if (protocol::is_remote(address)) return connect_remotely(address, deadline, proxy, problem);
    protocol::Channel channel = protocol::Channel::connect(address, why);
    if (channel.is_open()) return channel;
    problem += fmt::format("{}{}", problem.empty() ? "" : "; ", why);
  }
  problem = fmt::format(
      "no service answers ({}); start batchflowd, or name its socket by 'service' or "
      "BATCHFLOW_SERVICE",
      problem);
  return {};
}

// Exchanges versions with the service. Answers what is wrong; empty: both speak one protocol.
std::string greet(protocol::Channel& channel, const protocol::Companion* proxy,
                  Clock::time_point deadline, const std::function<bool()>& is_interrupted,
                  Session::Problem& problem) {
  const protocol::Hello hello{protocol::kProtocolVersion, BATCHFLOW_VERSION,
                              static_cast<std::uint64_t>(getpid()), ""};
  channel.send(protocol::encode(hello), {}, deadline);
  const auto frame = next_frame(channel, deadline, is_interrupted);
  if (!frame) {
    problem = no_answer(channel, proxy, is_interrupted, "the first message");
    return problem.message;
  }
  std::string why;
  if (const auto refused = protocol::decode_refused(frame->text, why)) {
    const bool other_protocol = refused->why == "protocol";
    problem = {other_protocol ? Session::Failure::protocol : Session::Failure::refused,
               refused->message, 0};
    return problem.message;
  }
  const auto welcome = protocol::decode_welcome(frame->text, why);
  if (!welcome) {
    problem = {Session::Failure::protocol,
               fmt::format("what answers is not a BatchFlow service: {}", why)};
  } else if (welcome->protocol != protocol::kProtocolVersion) {
    problem = {Session::Failure::protocol,
               fmt::format("the service {} speaks version {} of the protocol, and this library {} "
                           "speaks version {}; install the same version of both",
                           welcome->version, welcome->protocol, BATCHFLOW_VERSION,
                           protocol::kProtocolVersion)};
  }
  return problem.message;
}

// What a service hands a rank that it admits.
struct Admitted {
  protocol::JoinAnswer answer;
  protocol::Rings rings;
  protocol::Pace pace;
};

// Nothing, with the reason in `why`: this library cannot use the answer.
std::optional<Admitted> admission_of(const protocol::Frame& frame,
                                     const protocol::JoinRequest& request, std::string& why) {
  std::optional<protocol::JoinAnswer> answer = protocol::decode_join_answer(frame.text, why);
  if (!answer) return std::nullopt;
  if (frame.descriptors.size() != 4) {
    why = "it admits the job without two rings, a doorbell and the job's pace";
    return std::nullopt;
  }
  protocol::Rings rings =
      protocol::map_rings(frame.descriptors[0], frame.descriptors[1], answer->ring_bytes, why);
  if (!rings) return std::nullopt;
  if (answer->order_options != request.order_options) {
    why =
        "it is older than this library, and does not know 'drawing', 'draws', 'node_local', "
        "'runs', 'rehearsed' and 'sources'; install the same version of both";
    return std::nullopt;
  }
  if (answer->credits > protocol::credits_most(answer->ring_bytes)) {
    why = fmt::format("{} credits are too many for rings of {} bytes", answer->credits,
                      answer->ring_bytes);
    return std::nullopt;
  }
  protocol::Pace pace = protocol::Pace::map_file(frame.descriptors[3], why);
  if (!pace) return std::nullopt;
  return Admitted{std::move(*answer), std::move(rings), std::move(pace)};
}

// Another user may have made the folder, since every user may write to the folder above it.
bool is_own(const std::string& folder) {
  struct stat status {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & 022) == 0;
}

// Opens a folder, and no file: a service could ask for any file that this user can read.
protocol::Descriptor open_folder(const std::string& path) {
  return protocol::Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

std::vector<std::string> service_addresses(const char* named) {
  if (named == nullptr || *named == '\0') named = std::getenv("BATCHFLOW_SERVICE");
  if (named != nullptr && *named != '\0') return {named};
  std::vector<std::string> addresses;
  const char* user = std::getenv("XDG_RUNTIME_DIR");
  if (user != nullptr && *user == '/') {  // the service ignores relative paths, too
    addresses.push_back(fmt::format("{}/batchflow/batchflow.sock", user));
  } else if (const std::string folder = fmt::format("/tmp/batchflow-{}", geteuid());
             is_own(folder)) {
    addresses.push_back(folder + "/batchflow.sock");
  }
  addresses.emplace_back("/run/batchflow/batchflow.sock");
  return addresses;
}

Session::Session(std::shared_ptr<Link> link, protocol::Pace pace, protocol::JoinAnswer admission)
    : link_(std::move(link)),
      pace_(std::move(pace)),
      admission_(std::move(admission)),
      reader_(link_->rings().to_job()) {}

std::unique_ptr<Session> Session::open(const std::vector<std::string>& addresses,
                                       const protocol::JoinRequest& request,
                                       protocol::Descriptor& shown, Clock::time_point deadline,
                                       const std::function<bool()>& is_interrupted,
                                       const std::function<void(const std::string&)>& say_wait,
                                       Problem& problem) {
  problem = {};
  std::string why;
  std::unique_ptr<protocol::Companion> proxy;
  protocol::Channel channel =
      connect_to_first(addresses, std::min(deadline, Clock::now() + kAnswerTime), proxy, why);
  if (!channel.is_open()) {
    problem = {Failure::no_service, why};
    return nullptr;
  }
  if (!greet(channel, proxy.get(), std::min(deadline, Clock::now() + kAnswerTime), is_interrupted,
             problem)
           .empty()) {
    return nullptr;
  }
  const std::string join = protocol::encode(request);
  if (join.size() > protocol::kFrameMost) {
    problem = {Failure::refused,
               fmt::format("the request to join has {} bytes, and may have {}; give shorter names, "
                           "a smaller state or fewer exemplars",
                           join.size(), protocol::kFrameMost)};
    return nullptr;
  }
  const int number = shown.get();
  const auto shows = shown ? std::span<const int>(&number, 1) : std::span<const int>();
  channel.send(join, shows, std::min(deadline, Clock::now() + kAnswerTime));
  auto frame = admission_frame(channel, request, deadline, is_interrupted, say_wait);
  if (!frame) {
    problem = no_answer(channel, proxy.get(), is_interrupted, "the request to join");
    if (problem.failure == Failure::no_service && !channel.is_open())
      problem.failure = Failure::lost;
    return nullptr;
  }
  if (const auto refused = protocol::decode_refused(frame->text, why)) {
    const bool later = refused->why == "not_yet";
    problem = {later ? Failure::not_yet : Failure::refused, refused->message, refused->steps_given};
    if (refused->show.empty() || shown) return nullptr;
    shown = open_folder(refused->show);
    if (shown) return open(addresses, request, shown, deadline, is_interrupted, say_wait, problem);
    problem.message = fmt::format(
        "the dataset {} lies in {}, which cannot be opened: {}; let this user read that folder",
        request.dataset, refused->show, std::strerror(errno));
    return nullptr;
  }
  std::optional<Admitted> admitted = admission_of(*frame, request, why);
  if (!admitted) {
    problem = {Failure::protocol, fmt::format("the service's answer cannot be used: {}", why)};
    return nullptr;
  }
  auto link = std::make_shared<Link>(std::move(channel), std::move(admitted->rings),
                                     std::move(frame->descriptors[2]), std::move(proxy));
  return std::unique_ptr<Session>(
      new Session(std::move(link), std::move(admitted->pace), std::move(admitted->answer)));
}

void Session::lose(std::string_view because) {
  if (!link_->is_lost() || lost_because_.empty()) lost_because_ = because;
  link_->lose();
  // A service that is still there learns by this that the job is gone.
  link_->channel().close(because);
}

bool Session::look_at_socket() {
  protocol::Channel& channel = link_->channel();
  while (auto frame = channel.receive(protocol::Channel::kAtOnce)) {
    if (!take(std::move(*frame))) return false;
  }
  if (link_->is_lost()) lose("it does not read the job's records");
  if (!channel.is_open()) lose(channel.problem());
  return !link_->is_lost();
}

bool Session::take(protocol::Frame frame) {
  std::string problem;
  const std::string type = protocol::message_type(frame.text, problem);
  if (type == "slab" || type == "slab_gone") return take_slab(frame);
  if (type == "refused") {
    refused_ = protocol::decode_refused(frame.text, problem);
  } else if (type == "sample_name" || type == "class_name") {
    name_answer_ = protocol::decode_name(frame.text, problem);
  } else if (type == "samples_sum") {
    sum_answer_ = protocol::decode_samples_sum(frame.text, problem);
  } else if (type == "find_sample") {
    find_answer_ = protocol::decode_find(frame.text, problem);
  } else if (type == "waiting") {
    if (const auto waiting = protocol::decode_waiting(frame.text, problem))
      missing_ranks_ = waiting->message.value_or("");
  } else if (problem.empty()) {
    problem = fmt::format("it sent a message of type '{}', which no client understands", type);
  }
  if (!problem.empty()) lose(problem);
  return problem.empty();
}

// A slab that reports to the service when it is unmapped; but not in a child of this process, which
// must not use the link.
static std::shared_ptr<Slab> make_slab(const std::shared_ptr<Link>& link) {
  return {new Slab, [to = std::weak_ptr(link), owner = process_generation()](Slab* slab) {
            const std::uint64_t number = slab->number;
            const bool was_mapped = static_cast<bool>(slab->mapping);
            delete slab;
            const auto still = to.lock();
            if (still && was_mapped && owner == process_generation()) still->unmapped(number);
          }};
}

bool Session::take_slab(const protocol::Frame& frame) {
  std::string problem;
  const auto message = protocol::decode_slab(frame.text, problem);
  if (message && message->bytes == 0) {
    slabs_.erase(message->slab);
  } else if (message && frame.descriptors.size() == 1 && slabs_.size() < kSlabsMost) {
    auto slab = make_slab(link_);
    slab->number = message->slab;
    slab->mapping =
        protocol::Mapping::map_sealed(frame.descriptors.front(), message->bytes, false, problem);
    if (slab->mapping) slabs_[message->slab] = std::move(slab);
  } else if (message) {
    problem = "it sent a slab without its memory";
  }
  if (!problem.empty()) lose(problem);
  return problem.empty();
}

std::shared_ptr<const Slab> Session::slab(std::uint64_t number) const {
  const auto found = slabs_.find(number);
  return found == slabs_.end() ? nullptr : found->second;
}

std::optional<std::string> Session::ask_name(bool of_class, std::uint64_t key,
                                             Clock::time_point deadline) {
  name_answer_.reset();
  protocol::Channel& channel = link_->channel();
  channel.send(protocol::encode(protocol::NameMessage{of_class, key, std::nullopt}), {}, deadline);
  while (!name_answer_ || name_answer_->of_class != of_class || name_answer_->key != key ||
         !name_answer_->name) {
    auto frame = channel.receive(deadline);
    if (!frame || !take(std::move(*frame))) return std::nullopt;
  }
  return std::move(name_answer_->name);
}

std::optional<protocol::SamplesSum> Session::ask_sum(std::uint64_t first, std::uint64_t count,
                                                     Clock::time_point deadline) {
  sum_answer_.reset();
  protocol::Channel& channel = link_->channel();
  channel.send(protocol::encode(protocol::SamplesSum{first, count}), {}, deadline);
  while (!sum_answer_ || sum_answer_->first != first || sum_answer_->count != count) {
    auto frame = channel.receive(deadline);
    if (!frame || !take(std::move(*frame))) return std::nullopt;
  }
  return sum_answer_;
}

std::optional<protocol::FindMessage> Session::ask_find(const protocol::FindMessage& question,
                                                       Clock::time_point deadline) {
  find_answer_.reset();
  protocol::Channel& channel = link_->channel();
  channel.send(protocol::encode(question), {}, deadline);
  while (!find_answer_ || find_answer_->name != question.name ||
         find_answer_->from != question.from) {
    auto frame = channel.receive(deadline);
    if (!frame || !take(std::move(*frame))) return std::nullopt;
  }
  return find_answer_;
}

void Session::ask_for_missing_ranks() {
  link_->channel().send(protocol::encode(protocol::WaitingMessage{}), {},
                        Clock::now() + kAnswerTime);
}

bf_status Session::status_of(Failure failure) {
  switch (failure) {
    case Session::Failure::refused:
      return BF_REFUSED;
    case Session::Failure::protocol:
      return BF_PROTOCOL;
    case Session::Failure::interrupted:
      return BF_INTERRUPTED;
    case Session::Failure::no_service:
    case Session::Failure::not_yet:
    case Session::Failure::lost:
      break;
  }
  return BF_NO_SERVICE;
}

std::unique_ptr<Session> Session::open_first(
    const std::vector<std::string>& addresses, const protocol::JoinRequest& request,
    protocol::Descriptor& shown, Clock::duration most, Clock::duration most_away,
    const std::function<void(const std::string&)>& say_wait, Problem& problem) {
  const auto deadline = Clock::now() + most;
  auto ask_until = Clock::now();
  bool was_lost = false;  // tried again only once: this very request may be what ends the service
  for (;;) {
    auto session = open(
        addresses, request, shown, deadline, [] { return false; }, say_wait, problem);
    const auto now = Clock::now();
    if (problem.failure == Failure::not_yet ||
        (problem.failure == Failure::lost && !std::exchange(was_lost, true)))
      ask_until = std::min(deadline, now + most_away);
    const bool is_away = problem.failure == Failure::not_yet || problem.failure == Failure::lost ||
                         problem.failure == Failure::no_service;
    if (session || !is_away || now >= ask_until) return session;
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

}  // namespace batchflow::client
