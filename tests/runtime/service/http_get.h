// What a service answers over HTTP, head and body.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "doctest/doctest.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::test {

// A connection on which a request has been sent, or a part of one.
inline protocol::Descriptor begin_to_ask(int port, const std::string& request) {
  protocol::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  // It may be closed by now.
  [[maybe_unused]] const ssize_t sent =
      send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
  return socket;
}
inline std::string ask(int port, const std::string& request) {
  const protocol::Descriptor socket = begin_to_ask(port, request);
  std::string answer;
  char buffer[4096];
  ssize_t got;
  while ((got = recv(socket.get(), buffer, sizeof buffer, 0)) > 0)
    answer.append(buffer, static_cast<std::size_t>(got));
  return answer;
}
inline std::string get(int port, const std::string& path) {
  return ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

}  // namespace batchflow::test
