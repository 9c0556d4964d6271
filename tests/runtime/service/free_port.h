// Ports for the services of tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <random>

#include "runtime/protocol/descriptor.h"

namespace batchflow::test {

// Lies below the ports that the kernel gives to connections, so that no connection of another test
// takes it before a service listens there.
inline int free_port() {
  std::random_device device;
  std::uniform_int_distribution<int> ports(10000, 31999);
  while (true) {
    const protocol::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(ports(device)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return ntohs(address.sin_port);
  }
}

}  // namespace batchflow::test
