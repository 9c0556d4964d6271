#include "core/log/frame_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/check.h"
#include "core/base/config_value.h"

namespace batchflow::log {

namespace {

constexpr std::uint32_t kHeader = 0, kData = 1, kEnd = 2;
constexpr std::uint32_t kTypeShift = 30;
constexpr std::size_t kPreamble = 12;  // magic and version

using ByteSpan = std::span<const std::byte>;

// Eight tables, so that eight bytes are processed at a time.
struct CrcTables {
  std::array<std::array<std::uint32_t, 256>, 8> table{};
  constexpr CrcTables() {
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0);
      table[0][i] = value;
    }
    for (std::uint32_t i = 0; i < 256; ++i) {
      for (std::size_t k = 1; k < 8; ++k) {
        table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xff];
      }
    }
  }
};
constexpr CrcTables kCrc;

constexpr std::uint32_t get_u32(ByteSpan bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(bytes[i]) << (8 * i);
  return value;
}

constexpr std::uint32_t crc32c_by_tables(ByteSpan bytes, std::uint32_t value) {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const std::uint32_t low = get_u32(bytes) ^ value;
    const std::uint32_t high = get_u32(bytes.subspan(4));
    value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      value ^= kCrc.table[7 - i][low >> (8 * i) & 0xff] ^ kCrc.table[3 - i][high >> (8 * i) & 0xff];
    }
  }
  for (const std::byte byte : bytes) {
    value = (value >> 8) ^ kCrc.table[0][(value ^ static_cast<std::uint32_t>(byte)) & 0xff];
  }
  return value;
}

// Compares with the published check value. It stands here because tests may use this machine's
// instruction instead.
constexpr bool tables_are_right() {
  std::array<std::byte, 9> digits{};
  for (std::size_t i = 0; i < digits.size(); ++i) digits[i] = static_cast<std::byte>('1' + i);
  return ~crc32c_by_tables(digits, ~0u) == 0xe3069283;
}
static_assert(tables_are_right());

// The same with the instruction that x86-64 has had since 2008, several times as fast.
#if defined(__x86_64__) && defined(__GNUC__)
bool has_crc_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2");
  return has;
}
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(ByteSpan bytes,
                                                                      std::uint32_t value) {
  std::uint64_t wide = value;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  value = static_cast<std::uint32_t>(wide);
  for (const std::byte byte : bytes)
    value = __builtin_ia32_crc32qi(value, static_cast<std::uint8_t>(byte));
  return value;
}
#else
bool has_crc_instruction() {
  return false;
}
std::uint32_t crc32c_by_instruction(ByteSpan, std::uint32_t value) {
  return value;
}
#endif

std::uint8_t crc8(ByteSpan bytes) {
  std::uint32_t value = 0xff;
  for (const std::byte byte : bytes) {
    value ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) value = (value << 1) ^ (value & 0x80 ? 0x107u : 0);
  }
  return static_cast<std::uint8_t>(value);
}

void put_u32(std::uint32_t value, std::vector<std::byte>& out) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(value >> shift));
}

std::vector<std::byte> preamble(LogKind kind, std::uint32_t version) {
  std::vector<std::byte> bytes;
  for (const char c : {'B', 'F', 'L', 'O', 'G', static_cast<char>(kind), '\r', '\n'}) {
    bytes.push_back(static_cast<std::byte>(c));
  }
  put_u32(version, bytes);
  return bytes;
}

// The checksum of a frame: over its first four bytes and its payload, after that of the frame
// before.
std::uint32_t frame_checksum(std::uint32_t chain, ByteSpan length_and_type, ByteSpan payload) {
  return crc32c(payload, crc32c(length_and_type, chain));
}

}  // namespace

std::uint32_t crc32c(ByteSpan bytes, std::uint32_t before) {
  return ~(has_crc_instruction() ? crc32c_by_instruction(bytes, ~before)
                                 : crc32c_by_tables(bytes, ~before));
}

// --------------------------------------------------------------------------------- writing ----

FrameWriter::FrameWriter(LogKind kind, std::uint32_t version, ByteSpan header, Bytes bytes_max,
                         std::vector<std::byte>& out)
    : bytes_max_(bytes_max) {
  const auto begin = preamble(kind, version);
  out.insert(out.end(), begin.begin(), begin.end());
  written_ = begin.size();
  chain_ = crc32c(begin);
  put(kHeader, header, out);
}

void FrameWriter::put(std::uint32_t type, ByteSpan payload, std::vector<std::byte>& out) {
  BF_CHECK(payload.size() < std::size_t{1} << kTypeShift);
  const std::size_t begin = out.size();
  put_u32(static_cast<std::uint32_t>(payload.size()) | type << kTypeShift, out);
  const ByteSpan length_and_type = ByteSpan(out).subspan(begin, 4);
  chain_ = frame_checksum(chain_, length_and_type, payload);
  out.push_back(static_cast<std::byte>(crc8(length_and_type)));
  put_u32(chain_, out);
  out.insert(out.end(), payload.begin(), payload.end());
  written_ += kFrameBytes + payload.size();
}

void FrameWriter::put_end(LogEnd why, ByteSpan payload, std::vector<std::byte>& out) {
  std::vector<std::byte> mark = {static_cast<std::byte>(why)};
  mark.insert(mark.end(), payload.begin(), payload.end());
  put(kEnd, mark, out);
  ended_ = true;
}

bool FrameWriter::append(ByteSpan payload, ByteSpan end_payload, std::vector<std::byte>& out) {
  if (ended_) return false;
  const Bytes after = written_ + 2 * kFrameBytes + payload.size() + 1 + end_payload.size();
  if (after > bytes_max_ || payload.size() >= std::size_t{1} << kTypeShift) {
    put_end(LogEnd::at_bound, end_payload, out);
    return false;
  }
  put(kData, payload, out);
  return true;
}

void FrameWriter::close(ByteSpan end_payload, std::vector<std::byte>& out) {
  if (!ended_) put_end(LogEnd::closed, end_payload, out);
}

// --------------------------------------------------------------------------------- reading ----

FrameReader::FrameReader(ByteSpan log, std::string_view name, LogKind kind, std::uint32_t version)
    : log_(log), name_(name) {
  const auto begin = preamble(kind, version);
  const std::size_t there = std::min(log.size(), kPreamble);
  const std::size_t magic = std::min(there, kPreamble - 4);
  if (!std::equal(begin.begin(), begin.begin() + static_cast<std::ptrdiff_t>(magic), log.begin())) {
    throw ConfigError(fmt::format("{}: not a {} of BatchFlow; name a file that one has written",
                                  name_, kind == LogKind::journal ? "journal" : "promise log"));
  }
  if (there < kPreamble) {
    done_ = cut_here();
    return;
  }
  const std::uint32_t found = get_u32(log.subspan(kPreamble - 4));
  if (found != version) {
    throw ConfigError(
        fmt::format("{}: a log of version {}, this program reads version {}; read it with the "
                    "program that wrote it",
                    name_, found, version));
  }
  at_ = kPreamble;
  chain_ = crc32c(begin);
  Frame frame;
  has_header_ = take(frame);
  if (!has_header_) return;
  if (frame.type != kHeader) damaged();
  header_ = frame.payload;
}

void FrameReader::damaged() const {
  throw ConfigError(
      fmt::format("{}: damaged at byte {} of {}; restore it from a copy, or cut it there to use "
                  "what stands before",
                  name_, at_, log_.size()));
}

void FrameReader::refuse(std::string_view wrong, std::string_view remedy) const {
  throw ConfigError(fmt::format("{}: at byte {}: {}; {}", name_, before_, wrong, remedy));
}

bool FrameReader::cut_here() {
  cut_ = log_.size() - at_;
  done_ = true;
  return done_;
}

// Whether the frame that should stand here lies in a hole, wholly or in part. File systems lose
// unwritten data in whole blocks, which are sectors or larger: no sector that holds only zeros is
// taken for damage. The last block ends with the log.
bool FrameReader::cut_at_hole(std::size_t frame_bytes) {
  constexpr std::size_t kSector = 512;
  const std::size_t end = std::min(log_.size(), at_ + frame_bytes);
  for (std::size_t at = at_ / kSector * kSector; at < end; at += kSector) {
    const ByteSpan sector = log_.subspan(at, std::min(kSector, log_.size() - at));
    // What stands before the frame is whole: a hole begins with a sector, or in the middle of the
    // sector in which the frames end.
    const ByteSpan mine = at < at_ ? sector.subspan(at_ - at) : sector;
    if (std::any_of(mine.begin(), mine.end(), [](std::byte byte) { return byte != std::byte{0}; }))
      continue;
    hole_ = std::max(at, at_);
    return cut_here();
  }
  return false;
}

// A log ends in the middle of a frame when its writer died. Then bytes are missing, or were never
// written and read as zeros, or (in the very last frame) do not fit their checksum.
bool FrameReader::take(Frame& frame) {
  const ByteSpan rest = log_.subspan(at_);
  before_ = at_;
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (rest.size() < FrameWriter::kFrameBytes || std::all_of(rest.begin(), rest.end(), is_zero)) {
    return !cut_here();
  }
  if (static_cast<std::uint8_t>(rest[4]) != crc8(rest.first(4))) {
    if (cut_at_hole(FrameWriter::kFrameBytes)) return false;
    damaged();
  }
  const std::uint32_t word = get_u32(rest);
  const std::size_t length = word & ((1u << kTypeShift) - 1);
  if (rest.size() - FrameWriter::kFrameBytes < length) return !cut_here();
  frame.type = word >> kTypeShift;
  frame.payload = rest.subspan(FrameWriter::kFrameBytes, length);
  const std::uint32_t checksum = frame_checksum(chain_, rest.first(4), frame.payload);
  const bool last = rest.size() == FrameWriter::kFrameBytes + length;
  if (checksum != get_u32(rest.subspan(5))) {
    if (last) return !cut_here();
    if (cut_at_hole(FrameWriter::kFrameBytes + length)) return false;
    damaged();
  }
  chain_ = checksum;
  at_ += FrameWriter::kFrameBytes + length;
  return true;
}

bool FrameReader::next(ByteSpan& payload) {
  Frame frame;
  if (done_ || at_ == log_.size()) return false;
  if (!take(frame)) return false;
  if (frame.type == kData) {
    payload = frame.payload;
    return true;
  }
  const bool is_end = frame.type == kEnd && !frame.payload.empty() && at_ == log_.size();
  if (!is_end || frame.payload[0] > static_cast<std::byte>(LogEnd::at_bound)) {
    at_ = before_;
    damaged();
  }
  end_ = static_cast<LogEnd>(frame.payload[0]);
  end_payload_ = frame.payload.subspan(1);
  done_ = true;
  return false;
}

}  // namespace batchflow::log
