// The loop of a service: what is reported goes into engine steps, their commands are carried out,
// and meanwhile connections are served.
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>

#include "runtime/failpoint/failpoint.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/service/node_sockets.h"
#include "runtime/service/plugins/plugin_apart.h"
#include "runtime/service/service_parts.h"

namespace batchflow::service {
namespace {

// A loader looks for its service as long as its user has said, which is at most some minutes.
constexpr Duration kReturnWithin = std::chrono::hours(1);
constexpr int kAcceptAtOnce = 64;

}  // namespace

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
      if (!may_carry_out()) return;
      jobs.promised(engine->promises());
      carry_out(issued);
    }
  }
  if (const std::string problem = recorder.take_problem(); !problem.empty())
    log.say({problem, LogLevel::error});
  if (const std::string problem = promises->take_problem(); !problem.empty())
    log.say({problem, LogLevel::error});
  jobs.wake();
  for (const std::shared_ptr<Connection>& connection : std::exchange(unwatched, {})) {
    if (connection->watching()) continue;
    if (const protocol::Descriptor* doorbell = jobs.doorbell(*connection)) {
      connection->watch(*doorbell);
    } else if (connections.count(connection.get()) != 0) {
      unwatched.insert(connection);
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

// -------------------------------------------------------------------------------- connections ----

void Service::Parts::accept() {
  acceptor.async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
        if (error) return;
        // Connections that come as fast as they are accepted have their next turn after others.
        for (int most = kAcceptAtOnce; most > 0; --most) {
          protocol::Descriptor socket = accept_at(listening->socket());
          if (!socket && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
            return accept_later();
          if (!socket) break;
          auto connection = std::make_shared<Connection>(loop, std::move(socket), *this);
          if (!users.connects(connection->user())) {
            // It is told so, and not listened to.
            connection->send(
                protocol::encode(protocol::Refused{
                    "quota", "this user has all the connections that the quota allows"}),
                {});
            continue;
          }
          connections[connection.get()] = connection;
          connection->start();
        }
        accept();
      });
}

void Service::Parts::accept_later() {
  accept_timer.expires_after(std::chrono::milliseconds(100));
  accept_timer.async_wait([this](const boost::system::error_code& error) {
    if (!error) accept();
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
    // The connections of these jobs have ended meanwhile, and the engine still knows the jobs.
    if (!draining) joining->let_unused_go();
    schedule();
    log.tick();
    memory::refill_memory_reserve();
    end_if_idle();
    check();
  });
}

void Service::Parts::on_end(Connection& connection) {
  jobs.gone(connection);
  joining->gone(connection);
  if (BF_FAILPOINT("service.data.let_go")) joining->let_unused_go();
  const auto found = connections.find(&connection);
  if (found != connections.end()) {
    users.disconnects(connection.user());
    unwatched.erase(found->second);
    connections.erase(found);
    idle_since = now();
  }
  end_if_drained();
  schedule();
}

bool Service::Parts::on_unfinished(Connection& connection, std::int64_t change) {
  return users.holds(connection.user(), change);
}

void Service::Parts::on_doorbell(Connection& connection) {
  if (!jobs.read_ring(connection)) {
    connection.send(
        protocol::encode(protocol::Refused{"protocol",
                                           "the client wrote a record that this version "
                                           "does not know; the service ended the job"}),
        {});
    connection.end();
    return;
  }
  if (jobs.sleep(connection)) {
    connection.wait_for_doorbell();
  } else {
    connection.ring_again();
  }
  schedule();
}

bool Service::Parts::on_frame(Connection& connection, std::string_view frame,
                              std::vector<protocol::Descriptor> descriptors, std::string& problem) {
  const std::string type = protocol::message_type(frame, problem);
  if (type.empty()) return false;
  connection.rest(users.message(connection.user(), now()));
  if (type == "hello") {
    std::optional<protocol::Hello> hello = protocol::decode_hello(frame, problem);
    if (!hello) return false;
    if (hello->protocol != protocol::kProtocolVersion) {
      connection.send(
          protocol::encode(protocol::Refused{
              "protocol", fmt::format("the service {} speaks version {} of the protocol, and the "
                                      "client {} speaks version {}; install the same version of "
                                      "both",
                                      BATCHFLOW_VERSION, protocol::kProtocolVersion, hello->version,
                                      hello->protocol)}),
          {});
      connection.end();
      return true;
    }
    // The relays of remote jobs are threads of this process. No other process is believed about
    // this.
    if (connection.process() == getpid()) connection.set_from(std::move(hello->from));
    connection.send(protocol::encode(
                        protocol::Welcome{protocol::kProtocolVersion, BATCHFLOW_VERSION, instance}),
                    {});
    return true;
  }
  if (!take_message(connection, type, frame, std::move(descriptors), problem)) return false;
  if (type == "join") unwatched.insert(connection.self());
  schedule();
  return true;
}

bool Service::Parts::take_message(Peer& peer, const std::string& type, std::string_view frame,
                                  std::vector<protocol::Descriptor> descriptors,
                                  std::string& problem) {
  if (type == "join") {
    std::optional<protocol::JoinRequest> request = protocol::decode_join(frame, problem);
    if (!request) return false;
    joining->join(peer, std::move(*request), std::move(descriptors));
    return true;
  }
  if (type == "leave") {
    jobs.leave(peer);
    end_if_drained();
    return true;
  }
  if (type == "sample_name" || type == "class_name") {
    std::optional<protocol::NameMessage> question = protocol::decode_name(frame, problem);
    if (!question) return false;
    question->name = jobs.name(peer, question->of_class, question->key);
    peer.send(protocol::encode(*question), {});
    return true;
  }
  if (type == "samples_sum") {
    std::optional<protocol::SamplesSum> sum = protocol::decode_samples_sum(frame, problem);
    if (!sum) return false;
    peer.send(protocol::encode(jobs.sum(peer, *sum)), {});
    return true;
  }
  if (type == "waiting") {
    peer.send(protocol::encode(protocol::WaitingMessage{jobs.waits_for_ranks(peer)}), {});
    return true;
  }
  if (type == "command") {
    commands->answer(peer.user(), frame, [to = peer.weak_from_this()](std::string answer) {
      if (const auto still = to.lock()) still->send(std::move(answer), {});
    });
    return true;
  }
  problem = fmt::format("a message of type '{}' means nothing here", type);
  return false;
}

}  // namespace batchflow::service
