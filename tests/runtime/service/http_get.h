// What a service answers over HTTP, head and body.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "doctest/doctest.h"

namespace batchflow::test {

inline std::string ask(int port, const std::string& request) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(send(socket, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  ssize_t got;
  while ((got = recv(socket, buffer, sizeof buffer, 0)) > 0)
    answer.append(buffer, static_cast<std::size_t>(got));
  close(socket);
  return answer;
}
inline std::string get(int port, const std::string& path) {
  return ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

}  // namespace batchflow::test
