// One connection on the service's socket: frames in, frames and descriptors out, and the doorbell
// of its rank, if it has one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/protocol/descriptor.h"
#include "runtime/service/jobs/peer.h"

namespace boost::asio {
class io_context;
}

struct msghdr;

namespace batchflow::service {

class Connection;

// What all connections report to. All of this is on one thread.
class ConnectionHost {
 public:
  // False: the peer sent nonsense. `problem` is what to tell it.
  virtual bool on_frame(Connection& connection, std::string_view frame,
                        std::vector<protocol::Descriptor> descriptors, std::string& problem) = 0;
  virtual void on_doorbell(Connection& connection) = 0;
  virtual void on_end(Connection& connection) = 0;
  // Frames that are not whole take `change` more bytes, or fewer. False: that is too much.
  virtual bool on_unfinished(Connection& connection, std::int64_t change) = 0;

 protected:
  ~ConnectionHost() = default;
};

class Connection final : public Peer {
 public:
  // Takes over the connected socket.
  Connection(boost::asio::io_context& loop, protocol::Descriptor socket, ConnectionHost& host);
  ~Connection();

  void start();
  // Calls the host whenever the rank rings.
  void watch(const protocol::Descriptor& doorbell);
  bool watching() const;
  // Calls the host once more soon, without a ring.
  void ring_again();
  void wait_for_doorbell();
  // Reads no further frame for this long.
  void rest(Duration time);

  void send(std::string frame, std::vector<int> descriptors) override;
  void end() override;
  bool has_unsent() const override;
  uid_t user() const override { return user_; }
  pid_t process() const override { return process_; }
  const std::string& from() const override { return from_; }
  void set_from(std::string machine) { from_ = std::move(machine); }
  std::shared_ptr<Connection> self() {
    return std::static_pointer_cast<Connection>(shared_from_this());
  }

 private:
  struct Wires;
  void wait_to_read();
  void read();
  bool charge(std::size_t bytes);
  bool take_descriptors(const msghdr& message);
  void write();
  void close();
  void close_soon();

  ConnectionHost& host_;
  std::unique_ptr<Wires> wires_;
  uid_t user_ = static_cast<uid_t>(-1);
  pid_t process_ = 0;
  std::string from_;
};

}  // namespace batchflow::service
