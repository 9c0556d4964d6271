// What `batchflowctl calibrate --peer` and `--listen` send each other. They use the channel of
// remote jobs, so that a message costs here what it costs there.
//
//   the node that measures                    the listener
//   {type: batchflow-calibrate, version}      the same
//   {type: token, token, session, seconds}    {type: session, session}
//   a record                                  the same record
//   {type: take}, payloads, an empty payload  {type: moved, bytes, cpu_s}
//   {type: give, seconds}                     payloads, an empty payload, {type: moved, ...}
//   {type: end}
//
// In place of an answer may come {type: refused, message}. No token is sent before the greeting was
// answered. The first connection names no session; the others name the session that it began.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/base/types.h"
#include "nlohmann/json.hpp"
#include "runtime/remote/tcp_channel.h"

namespace batchflow::ctl {

inline constexpr std::string_view kPeerMagic = "batchflow-calibrate";
inline constexpr int kPeerVersion = 1;
inline constexpr Bytes kPeerMessageMost = 4096;
inline constexpr Bytes kPeerBlock = Bytes{256} << 10;  // a payload at most
inline constexpr double kPeerSecondsMost = 600;        // as of `--seconds`

nlohmann::json peer_greeting();
// Empty: the message has no such text.
std::string text_of(const nlohmann::json& message, const char* key);
inline std::string type_of(const nlohmann::json& message) {
  return text_of(message, "type");
}

bool write_message(remote::TcpChannel& channel, const nlohmann::json& message);
// Reads the next message; anything else closes the channel, and the answer is null.
nlohmann::json read_message(remote::TcpChannel& channel);
// The same where its head has been read.
nlohmann::json read_message(remote::TcpChannel& channel, const remote::TcpChannel::Head& head);

// What one side has sent or received, and the processor time that this took its thread.
struct Moved {
  double bytes = 0;
  double cpu_s = 0;
};
// Both answer false when the channel is closed.
bool give_bytes(remote::TcpChannel& channel, double seconds, Moved& moved);
bool take_bytes(remote::TcpChannel& channel, Moved& moved);

}  // namespace batchflow::ctl
