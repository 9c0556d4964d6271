#include "runtime/ctl/peer_messages.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/random.h"
#include "fmt/format.h"
#include "runtime/ctl/measuring.h"

namespace batchflow::ctl {

using nlohmann::json;
using remote::RemoteKind;
using remote::TcpChannel;

json peer_greeting() {
  return {{"type", kPeerMagic}, {"version", kPeerVersion}};
}

std::string text_of(const json& message, const char* key) {
  const auto text = message.find(key);
  return text != message.end() && text->is_string() ? text->get<std::string>() : "";
}

bool write_message(TcpChannel& channel, const json& message) {
  return channel.write_text(message.dump(-1, ' ', false, json::error_handler_t::replace));
}

json read_message(TcpChannel& channel) {
  TcpChannel::Head head;
  return channel.read_head(head, TcpChannel::kNever) ? read_message(channel, head) : json();
}

json read_message(TcpChannel& channel, const TcpChannel::Head& head) {
  if (head.kind != RemoteKind::text || head.bytes > kPeerMessageMost) {
    channel.shut(fmt::format("a frame of {} bytes came, and no message", head.bytes));
    return {};
  }
  std::string text(head.bytes, '\0');
  if (!channel.read(std::as_writable_bytes(std::span(text)))) return {};
  json message = json::parse(text, nullptr, false);
  if (message.is_object()) return message;
  channel.shut("a text came that is no message");
  return {};
}

bool give_bytes(TcpChannel& channel, double seconds, Moved& moved) {
  // By chance, since links may compress.
  std::vector<std::byte> block(kPeerBlock);
  Random chance(1);
  for (std::size_t at = 0; at < block.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t drawn = chance.draw();
    std::memcpy(block.data() + at, &drawn, sizeof drawn);
  }
  const auto begin = Clock::now();
  const double before_s = cpu_s();
  do {
    if (!channel.write(RemoteKind::payload, block)) return false;
    moved.bytes += static_cast<double>(block.size());
  } while (since(begin) < seconds);
  if (!channel.write(RemoteKind::payload, {})) return false;
  moved.cpu_s = cpu_s() - before_s;
  return true;
}

bool take_bytes(TcpChannel& channel, Moved& moved) {
  std::vector<std::byte> block(kPeerBlock);
  const double before_s = cpu_s();
  for (TcpChannel::Head head; channel.read_head(head, Clock::now() + TcpChannel::kPatience);) {
    if (head.kind != RemoteKind::payload || head.bytes > block.size()) {
      channel.shut(fmt::format("a frame of {} bytes came, and no payload", head.bytes));
      return false;
    }
    moved.cpu_s = cpu_s() - before_s;
    if (head.bytes == 0) return true;
    if (!channel.read(std::span(block).first(head.bytes))) return false;
    moved.bytes += static_cast<double>(head.bytes);
  }
  return false;
}

}  // namespace batchflow::ctl
