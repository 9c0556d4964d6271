#include "runtime/sources/tar.h"

#include <algorithm>
#include <optional>

namespace batchflow::sources {
namespace {

using ByteSpan = std::span<const std::byte>;

// Offsets in a header.
constexpr std::size_t kName = 0, kNameBytes = 100, kSize = 124, kSizeBytes = 12, kSum = 148,
                      kSumBytes = 8, kType = 156, kMagic = 257, kPrefix = 345, kPrefixBytes = 155;

std::string_view text_at(ByteSpan header, std::size_t at, std::size_t bytes) {
  const std::string_view text = as_text(header.subspan(at, bytes));
  return text.substr(0, text.find('\0'));
}

// Octal digits between blanks or, with the high bit set, a number in base 256.
std::optional<std::uint64_t> number_at(ByteSpan header, std::size_t at, std::size_t bytes) {
  const ByteSpan field = header.subspan(at, bytes);
  std::uint64_t value = 0;
  if ((field[0] & std::byte{0x80}) != std::byte{0}) {
    value = std::to_integer<std::uint64_t>(field[0] & std::byte{0x3f});
    for (const std::byte byte : field.subspan(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | std::to_integer<std::uint64_t>(byte);
    }
    return (field[0] & std::byte{0x40}) == std::byte{0} ? std::optional(value) : std::nullopt;
  }
  std::string_view text = as_text(field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  for (const char c : text) {
    if (c == ' ' || c == '\0') break;
    if (c < '0' || c > '7') return std::nullopt;
    value = value << 3 | static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

bool sum_holds(ByteSpan header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i)
    sum += i >= kSum && i < kSum + kSumBytes ? ' ' : std::to_integer<std::uint64_t>(header[i]);
  return number_at(header, kSum, kSumBytes) == sum;
}

bool all_zero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{}; });
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty() || text.size() > 18) return std::nullopt;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

}  // namespace

// What extension headers say about the member after them.
struct TarWalker::Extension {
  std::string_view name;
  std::optional<std::uint64_t> bytes;

  // Lines `LENGTH KEY=VALUE\n`, where the length counts the line.
  bool read_pax(std::string_view lines) {
    while (!lines.empty()) {
      const std::size_t blank = lines.find(' ');
      const auto length = decimal(lines.substr(0, std::min(blank, lines.size())));
      if (!length || *length > lines.size() || *length < blank + 2) return false;
      const std::string_view entry = lines.substr(blank + 1, *length - blank - 2);
      const std::size_t equals = entry.find('=');
      if (equals == std::string_view::npos) return false;
      const std::string_view key = entry.substr(0, equals), value = entry.substr(equals + 1);
      if (key == "path") name = value;
      if (key == "size" && !(bytes = decimal(value))) return false;
      lines.remove_prefix(*length);
    }
    return true;
  }
};

TarStep TarWalker::extension(char type, std::uint64_t data, Bytes bytes, Extension& extension) {
  if (type != 'L' && type != 'x') return TarStep::member;
  if (bytes > kNameMost) return TarStep::damaged;
  std::string_view text = as_text(bytes_.view(data, static_cast<std::size_t>(bytes)));
  if (text.size() < bytes) return TarStep::cut;
  if (long_name_ != nullptr) {
    *long_name_ = text;
    text = *long_name_;
  }
  if (type == 'x') return extension.read_pax(text) ? TarStep::member : TarStep::damaged;
  extension.name = text.substr(0, text.find('\0'));
  return TarStep::member;
}

TarStep TarWalker::next(TarMember& member) {
  Extension records;
  member = {};
  for (std::uint64_t at = at_;;) {
    const ByteSpan header = bytes_.view(at, kBlock);
    if (header.empty() && at == at_) return TarStep::end;
    if (header.size() < kBlock) return TarStep::cut;
    if (all_zero(header)) {
      end_marked_ = at == at_;
      return end_marked_ ? TarStep::end : TarStep::damaged;
    }
    auto bytes = number_at(header, kSize, kSizeBytes);
    if (!bytes || !sum_holds(header)) return TarStep::damaged;
    const char type = static_cast<char>(header[kType]);
    const bool extends = std::string_view("LKxgVNX").find(type) != std::string_view::npos;
    if (type == 'S') return TarStep::damaged;  // sparse: its bytes are not those of the file
    if (!extends && records.bytes) bytes = records.bytes;
    // The header of a link has the size of the file it leads to, but no bytes of it follow.
    if (type >= '1' && type <= '6') bytes = 0;
    const std::uint64_t data = at + kBlock;
    const bool cut = *bytes > bytes_.size() || data > bytes_.size() - *bytes;
    const std::uint64_t after = data + (*bytes + kBlock - 1) / kBlock * kBlock;
    if (extends) {
      const TarStep step = cut ? TarStep::cut : extension(type, data, *bytes, records);
      if (step != TarStep::member) return step;
      at = after;
      continue;
    }
    member = {{}, records.name, at_, data, *bytes, type == '0' || type == '\0' || type == '7'};
    if (member.name.empty()) {
      // The header's bytes stay until the next call of view(), which is in the next step.
      member.name = text_at(header, kName, kNameBytes);
      // GNU's own format ("ustar  ") keeps other things where POSIX has the prefix.
      if (as_text(header.subspan(kMagic, 6)) == std::string_view("ustar\0", 6))
        member.folder = text_at(header, kPrefix, kPrefixBytes);
    }
    if (cut) return TarStep::cut;
    at_ = after;
    return TarStep::member;
  }
}

bool split_member_name(std::string_view name, std::size_t& key_bytes, std::string_view& part) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base || dot + 1 == name.size()) return false;
  key_bytes = dot;
  part = name.substr(dot + 1);
  return true;
}

}  // namespace batchflow::sources
