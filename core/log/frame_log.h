// The file format of both logs: frames with checksums behind a header.
//
//   log    := "BFLOG" kind "\r\n", version (4 bytes), header frame, data frames, end frame
//   frame  := length and type (4), their CRC-8 (1), CRC-32C (4), payload
//
// All numbers are little-endian. Each frame's CRC-32C goes on from that of the frame before, so
// that a frame that is lost, repeated or out of order is found like a changed bit. Where the
// writer died, a log ends in the middle of a frame: the reader returns the whole frames before it,
// and says how many bytes it cut. It does the same where a machine died and left a hole of zeros
// with later bytes behind it: what was written from there on is lost. Anything else that is wrong
// is an error.
//
// Core writes to memory. A backend writes the bytes to a file before it carries out the commands
// that follow from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"

namespace batchflow::log {

enum class LogKind : char { journal = 'J', promises = 'P' };

enum class LogEnd : std::uint8_t {
  none,  // no end mark: its writer died, or still writes
  closed,
  at_bound,  // it reached its bound in bytes; what came after is not recorded
};

class FrameWriter {
 public:
  static constexpr Bytes kFrameBytes = 9;  // beside its payload
  static constexpr Bytes kNoBound = UINT64_MAX;

  // Appends the beginning of a log to `out`.
  FrameWriter(LogKind kind, std::uint32_t version, std::span<const std::byte> header,
              Bytes bytes_max, std::vector<std::byte>& out);

  // Appends one frame and answers true. If the frame and an end mark do not fit the bound any more,
  // or the frame is too long (2^30 bytes), appends the end mark instead, with `end_payload`. From
  // then on it answers false.
  bool append(std::span<const std::byte> payload, std::span<const std::byte> end_payload,
              std::vector<std::byte>& out);
  void close(std::span<const std::byte> end_payload, std::vector<std::byte>& out);

  bool ended() const { return ended_; }
  Bytes written() const { return written_; }

 private:
  void put(std::uint32_t type, std::span<const std::byte> payload, std::vector<std::byte>& out);
  void put_end(LogEnd why, std::span<const std::byte> payload, std::vector<std::byte>& out);

  Bytes bytes_max_;
  Bytes written_ = 0;
  std::uint32_t chain_ = 0;
  bool ended_ = false;
};

class FrameReader {
 public:
  // Errors call the log `name`; `log` outlives the reader. Throws ConfigError when this is no such
  // log, or one of another version.
  FrameReader(std::span<const std::byte> log, std::string_view name, LogKind kind,
              std::uint32_t version);

  // False when the log was cut before its header was whole; then there are no frames.
  bool has_header() const { return has_header_; }
  std::span<const std::byte> header() const { return header_; }

  // The next payload; false after the last one. Throws ConfigError where the log is damaged.
  bool next(std::span<const std::byte>& payload);

  // After next() was false.
  LogEnd end() const { return end_; }
  std::span<const std::byte> end_payload() const { return end_payload_; }
  Bytes bytes_cut() const { return cut_; }
  // Where a hole begins that has later bytes behind it; 0: there is none.
  Bytes hole() const { return hole_; }

  // Throws an error about what a payload says, with the offset of the frame last read.
  [[noreturn]] void refuse(std::string_view wrong, std::string_view remedy) const;

 private:
  struct Frame {
    std::uint32_t type;
    std::span<const std::byte> payload;
  };
  bool take(Frame& frame);
  bool cut_here();
  bool cut_at_hole(std::size_t frame_bytes);
  [[noreturn]] void damaged() const;

  std::span<const std::byte> log_;
  std::string name_;
  std::size_t at_ = 0;      // where the next frame begins
  std::size_t before_ = 0;  // where the last one did
  std::uint32_t chain_ = 0;
  bool has_header_ = false;
  bool done_ = false;
  std::span<const std::byte> header_;
  std::span<const std::byte> end_payload_;
  LogEnd end_ = LogEnd::none;
  Bytes cut_ = 0;
  Bytes hole_ = 0;
};

// CRC-32C of `bytes`, going on from `before`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace batchflow::log
