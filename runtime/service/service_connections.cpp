#include "runtime/service/service_connections.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/service/datasets/sample_names.h"
#include "runtime/service/jobs/refusals.h"
#include "runtime/service/node_sockets.h"
#include "runtime/service/service_parts.h"
#include "runtime/service/service_version.h"

namespace batchflow::service {
namespace {

constexpr int kAcceptAtOnce = 64;

}  // namespace

ServiceConnections::ServiceConnections(Service::Parts& parts)
    : parts_(parts), acceptor_(parts.loop), accept_timer_(parts.loop) {}

void ServiceConnections::begin() {
  acceptor_.assign(dup(parts_.listening->socket().get()));
  accept();
}

void ServiceConnections::watch_new() {
  for (const std::shared_ptr<Connection>& connection : std::exchange(unwatched_, {})) {
    if (connection->watching()) continue;
    if (const protocol::Descriptor* doorbell = parts_.jobs.doorbell(*connection)) {
      connection->watch(*doorbell);
    } else if (open_.count(connection.get()) != 0) {
      unwatched_.insert(connection);
    }
  }
}

void ServiceConnections::accept() {
  acceptor_.async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [this](const boost::system::error_code& error) {
        if (error) return;
        // Connections that come as fast as they are accepted have their next turn after others.
        for (int most = kAcceptAtOnce; most > 0; --most) {
          protocol::Descriptor socket = accept_at(parts_.listening->socket());
          if (!socket && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
            return accept_later();
          if (!socket) break;
          auto connection = std::make_shared<Connection>(parts_.loop, std::move(socket), *this);
          if (!parts_.users.connects(connection->user())) {
            // It is told so, and not listened to.
            connection->send(protocol::encode(too_many_connections()), {});
            continue;
          }
          open_[connection.get()] = connection;
          connection->start();
        }
        accept();
      });
}

void ServiceConnections::accept_later() {
  accept_timer_.expires_after(std::chrono::milliseconds(100));
  accept_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) accept();
  });
}

void ServiceConnections::on_end(Connection& connection) {
  parts_.jobs.gone(connection);
  parts_.joining->gone(connection);
  if (BF_FAILPOINT("service.data.let_go")) parts_.joining->let_unused_go();
  const auto found = open_.find(&connection);
  if (found != open_.end()) {
    parts_.users.disconnects(connection.user());
    unwatched_.erase(found->second);
    open_.erase(found);
    idle_since_ = parts_.now();
  }
  parts_.end_if_drained();
  parts_.schedule();
}

bool ServiceConnections::on_unfinished(Connection& connection, std::int64_t change) {
  return parts_.users.holds(connection.user(), change);
}

void ServiceConnections::on_doorbell(Connection& connection) {
  if (!parts_.jobs.read_ring(connection)) {
    connection.send(
        protocol::encode(protocol::Refused{"protocol",
                                           "the client wrote a record that this version "
                                           "does not know; the service ended the job"}),
        {});
    connection.end();
    return;
  }
  // The answer that a key is not there waits for no engine step, since none may follow.
  if (parts_.inbox.empty()) parts_.jobs.wake();
  if (parts_.jobs.sleep(connection)) {
    connection.wait_for_doorbell();
  } else {
    connection.ring_again();
  }
  parts_.schedule();
}

bool ServiceConnections::on_frame(Connection& connection, std::string_view frame,
                                  std::vector<protocol::Descriptor> descriptors,
                                  std::string& problem) {
  const std::string type = protocol::message_type(frame, problem);
  if (type.empty()) return false;
  connection.rest(parts_.users.message(connection.user(), parts_.now()));
  if (type == "hello") {
    std::optional<protocol::Hello> hello = protocol::decode_hello(frame, problem);
    if (!hello) return false;
    if (hello->protocol != protocol::kProtocolVersion) {
      connection.send(
          protocol::encode(protocol::Refused{
              "protocol", fmt::format("the service {} speaks version {} of the protocol, and the "
                                      "client {} speaks version {}; install the same version of "
                                      "both",
                                      kServiceVersion, protocol::kProtocolVersion, hello->version,
                                      hello->protocol)}),
          {});
      connection.end();
      return true;
    }
    // The relays of remote jobs are threads of this process. No other process is believed about
    // this.
    if (connection.process() == getpid()) connection.set_from(std::move(hello->from));
    connection.send(protocol::encode(protocol::Welcome{protocol::kProtocolVersion,
                                                       std::string(kServiceVersion), instance_}),
                    {});
    return true;
  }
  if (!take_message(connection, type, frame, std::move(descriptors), problem)) return false;
  if (type == "join") unwatched_.insert(connection.self());
  parts_.schedule();
  return true;
}

bool ServiceConnections::take_message(Peer& peer, const std::string& type, std::string_view frame,
                                      std::vector<protocol::Descriptor> descriptors,
                                      std::string& problem) {
  if (type == "join") {
    std::optional<protocol::JoinRequest> request = protocol::decode_join(frame, problem);
    if (!request) return false;
    if (parts_.cluster.waits_for_agents()) {
      refuse(peer, kNotYet, "the previous coordinator's nodes are coming back; ask again");
      return true;
    }
    parts_.joining->join(peer, std::move(*request), std::move(descriptors));
    return true;
  }
  if (type == "leave") {
    parts_.jobs.leave(peer);
    parts_.end_if_drained();
    return true;
  }
  if (type == "sample_name" || type == "class_name") {
    std::optional<protocol::NameMessage> question = protocol::decode_name(frame, problem);
    if (!question) return false;
    const ServedDataset* const dataset = parts_.jobs.dataset_of(peer);
    question->name =
        dataset ? name_in(*dataset->index, question->of_class, question->key) : std::string();
    peer.send(protocol::encode(*question), {});
    return true;
  }
  if (type == "samples_sum") {
    std::optional<protocol::SamplesSum> sum = protocol::decode_samples_sum(frame, problem);
    if (!sum) return false;
    if (const ServedDataset* const dataset = parts_.jobs.dataset_of(peer)) {
      *sum = sum_of(*dataset->index, *sum);
    } else {
      *sum = {};
    }
    peer.send(protocol::encode(*sum), {});
    return true;
  }
  if (type == "find_sample") {
    std::optional<protocol::FindMessage> question = protocol::decode_find(frame, problem);
    if (!question) return false;
    const ServedDataset* const dataset = parts_.jobs.dataset_of(peer);
    if (dataset) {
      *question = find_in(*dataset->index, std::move(*question));
    } else {
      question->key = question->next = {};
    }
    peer.send(protocol::encode(*question), {});
    return true;
  }
  if (type == "waiting") {
    peer.send(protocol::encode(protocol::WaitingMessage{parts_.jobs.waits_for_ranks(peer)}), {});
    return true;
  }
  if (type == "command") {
    parts_.commands->answer(peer.user(), frame, [to = peer.weak_from_this()](std::string answer) {
      if (const auto still = to.lock()) still->send(std::move(answer), {});
    });
    return true;
  }
  problem = fmt::format("a message of type '{}' means nothing here", type);
  return false;
}

}  // namespace batchflow::service
