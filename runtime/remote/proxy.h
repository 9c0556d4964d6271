// The job's end of a connection to a service on another machine. To the loader it looks like a
// service of this machine, with rings and batches in mapped memory; it gets them over TCP.
//
// So the loader needs no code for other machines. A proxy is one thread, which ends when the loader
// closes its side.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/protocol/channel.h"
#include "runtime/remote/tcp_channel.h"

namespace batchflow::remote {

// What it takes to reach a service: its address, the token of BATCHFLOW_TOKEN_FILE, and for TLS the
// authorities that are trusted, which BATCHFLOW_TLS_CA names beside the system's.
struct RemoteAccess {
  std::string said;  // the address as the user wrote it
  RemoteAddress address;
  std::string token;
  TlsContext tls;  // without TLS: none
};
// None, with the reason in `problem`, which is of this machine: to try again does not help.
std::optional<RemoteAccess> remote_access(const std::string& address, std::string& problem);
// Connects, and shows the token. Null, with the reason in `problem`. `as` and `feed` are those of
// token_message().
std::unique_ptr<TcpChannel> connect_with_token(const RemoteAccess& access,
                                               TcpChannel::Clock::time_point deadline,
                                               std::string& problem, std::string_view as = {},
                                               std::string_view feed = {});

class Proxy final : public protocol::Companion {
 public:
  // The loader uses `channel` as if a service were at its other end. Null, with the reason in
  // `problem`, where no service answers, or there is no token (BATCHFLOW_TOKEN_FILE).
  static std::unique_ptr<Proxy> connect(const std::string& address,
                                        protocol::Channel::Clock::time_point deadline,
                                        protocol::Channel& channel, std::string& problem);
  // REQUIRES: the loader's side of the channel is closed, or no longer waited for
  ~Proxy() override;
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  std::string problem() const override;
  void abandon() override;

 private:
  struct Parts;
  explicit Proxy(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace batchflow::remote
