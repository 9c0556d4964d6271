// How the files of a feed are read and written: frames with a checksum, one behind the other.
//
//   head  := magic (8), version (4), 0 (4), id of the feed (8)
//   frame := length of the body (4), CRC-32C of the body (4), body
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace batchflow::feeds {

inline constexpr std::size_t kFileHead = 24;
inline constexpr std::size_t kFrameHead = 8;

std::string said(int error);
bool read_at(int file, std::span<std::byte> to, std::uint64_t offset);
// Empty, or what is wrong.
std::string write_all(int file, std::span<const std::byte> bytes, std::uint64_t offset);
// REQUIRES: magic.size() == 8
std::vector<std::byte> file_head(std::string_view magic, std::uint32_t version, std::uint64_t feed);
// Whether the bytes begin with that head.
bool has_head(std::span<const std::byte> bytes, std::string_view magic, std::uint32_t version,
              std::uint64_t feed);
void put_frame(std::span<const std::byte> body, std::vector<std::byte>& to);
// Visits the bodies of the frames from `at` on, each with its offset, until one is torn, is longer
// than `longest`, or `visit` says false. Answers where the last that was visited ends.
std::uint64_t visit_frames(
    int file, std::uint64_t at, std::uint64_t size, std::size_t longest,
    const std::function<bool(std::span<const std::byte> body, std::uint64_t offset)>& visit);
// The name of a new file must survive, too. Otherwise says what is wrong.
std::string sync_folder(const std::string& folder);

}  // namespace batchflow::feeds
