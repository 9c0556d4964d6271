#include "runtime/video/group.h"

#include <cstring>

namespace batchflow::video {
namespace {

constexpr std::string_view kMagic = "BFVG";
constexpr std::size_t kNumbers = 7;
constexpr std::size_t kHead = kMagic.size() + kNumbers * sizeof(std::uint32_t);
constexpr std::size_t kPacketHead = sizeof(std::uint32_t) + sizeof(std::int64_t);

// Not inlined: where GCC 12 sees how large the vector is, it warns of what cannot happen.
[[gnu::noinline]] void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void put(std::vector<std::byte>& out, T value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}

template <class T>
T take(std::span<const std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

}  // namespace

std::vector<std::byte> encode_group(const Group& group) {
  std::vector<std::byte> out;
  append(out, std::as_bytes(std::span(kMagic)));
  for (const std::uint32_t number :
       {static_cast<std::uint32_t>(group.codec), group.width, group.height, group.frames,
        group.turn.number(), static_cast<std::uint32_t>(group.decoder_data.size()),
        static_cast<std::uint32_t>(group.packets.size())})
    put(out, number);
  for (const Packet& packet : group.packets) {
    put(out, static_cast<std::uint32_t>(packet.bytes.size()));
    put(out, packet.time);
  }
  append(out, group.decoder_data);
  for (const Packet& packet : group.packets) append(out, packet.bytes);
  return out;
}

std::string_view read_group(std::span<const std::byte> bytes, Group& group) {
  if (bytes.size() < kHead || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return "it is no group of frames";
  bytes = bytes.subspan(kMagic.size());
  const auto codec = take<std::uint32_t>(bytes);
  group.width = take<std::uint32_t>(bytes);
  group.height = take<std::uint32_t>(bytes);
  group.frames = take<std::uint32_t>(bytes);
  const auto turn = take<std::uint32_t>(bytes);
  const std::size_t data = take<std::uint32_t>(bytes);
  const std::size_t packets = take<std::uint32_t>(bytes);
  group.codec = static_cast<Codec>(codec);
  group.turn = Turn::from_number(turn);
  if (codec == 0 || codec > kCodecs || group.width == 0 || group.width > kSideMost ||
      group.height == 0 || group.height > kSideMost || group.frames == 0 || turn >= Turn::kKinds ||
      group.frames > packets || packets > 2 * kFramesMost || data > kDecoderDataMost ||
      group.pixels() > kPixelsMost)
    return "its head is damaged";
  if (bytes.size() < packets * kPacketHead + data) return "it ends early";
  std::span<const std::byte> heads = bytes.first(packets * kPacketHead);
  bytes = bytes.subspan(heads.size());
  group.decoder_data = bytes.first(data);
  bytes = bytes.subspan(data);
  group.packets.clear();
  for (std::size_t i = 0; i < packets; ++i) {
    const std::size_t size = take<std::uint32_t>(heads);
    const auto time = take<std::int64_t>(heads);
    if (size > bytes.size()) return "it ends early";
    group.packets.push_back({bytes.first(size), time});
    bytes = bytes.subspan(size);
  }
  return bytes.empty() ? "" : "something stands behind its end";
}

}  // namespace batchflow::video
