// What all listeners on TCP share: where they listen, what they know of the other side, and how
// they refuse it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/protocol/descriptor.h"
#include "runtime/remote/tcp_channel.h"

namespace batchflow::remote {

// `port` 0: any free one. `bound` is set to the port that it is. Throws ConfigError.
protocol::Descriptor listen_at(const std::string& address, int port, std::uint16_t& bound);

// The address of the other side, without its port.
std::string address_of_peer(int socket);

// Whether the file has this token; a wrong one takes a second, which makes guessing hopeless. The
// file is read each time, so that a token that was taken out of it is no longer taken. `problem`:
// why the file cannot be read.
bool knows_token(const TcpChannel& channel, const std::string& file, const std::string& shown,
                 std::string& problem);

// Closes the connection when the other side has all that was sent, or after a moment.
void close_after_last(TcpChannel& channel);
// Sends a last message and waits for a moment until the other side has it.
void write_last(TcpChannel& channel, std::string_view text);

}  // namespace batchflow::remote
