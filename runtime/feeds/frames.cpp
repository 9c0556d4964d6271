#include "runtime/feeds/frames.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/log/frame_log.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/feed_wire.h"

namespace batchflow::feeds {

using protocol::put_feed;
using protocol::take_feed;

std::string said(int error) {
  return std::generic_category().message(error);
}

bool read_at(int file, std::span<std::byte> to, std::uint64_t offset) {
  while (!to.empty()) {
    const ssize_t got = ::pread(file, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

// Empty, or what is wrong.
std::string write_all(int file, std::span<const std::byte> bytes, std::uint64_t offset) {
  if (BF_FAILPOINT("feed.full")) return said(ENOSPC);
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return said(put == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return "";
}

std::vector<std::byte> file_head(std::string_view magic, std::uint32_t version,
                                 std::uint64_t feed) {
  std::vector<std::byte> head;
  head.reserve(kFileHead);
  const auto bytes = std::as_bytes(std::span(magic));
  head.insert(head.end(), bytes.begin(), bytes.end());
  put_feed(version, head);
  put_feed(std::uint32_t{0}, head);
  put_feed(feed, head);
  return head;
}

bool has_head(std::span<const std::byte> bytes, std::string_view magic, std::uint32_t version,
              std::uint64_t feed) {
  const std::vector<std::byte> head = file_head(magic, version, feed);
  return bytes.size() >= head.size() && std::equal(head.begin(), head.end(), bytes.begin());
}

void put_frame(std::span<const std::byte> body, std::vector<std::byte>& to) {
  put_feed(static_cast<std::uint32_t>(body.size()), to);
  put_feed(log::crc32c(body), to);
  to.insert(to.end(), body.begin(), body.end());
}

// A part of the file at a time; frames may lie across parts.
std::uint64_t visit_frames(
    int file, std::uint64_t at, std::uint64_t size, std::size_t longest,
    const std::function<bool(std::span<const std::byte> body, std::uint64_t offset)>& visit) {
  constexpr std::size_t kPart = 1 << 22;
  std::uint64_t part_at = at;
  std::vector<std::byte> part;
  const auto have = [&](std::uint64_t from, std::uint64_t count) {
    if (from + count > size) return false;
    if (from >= part_at && from + count <= part_at + part.size()) return true;
    part_at = from;
    part.resize(std::min<std::uint64_t>(std::max<std::uint64_t>(kPart, count), size - from));
    return read_at(file, part, from);
  };
  while (have(at, kFrameHead)) {
    std::span<const std::byte> frame(part.data() + (at - part_at), kFrameHead);
    const auto length = take_feed<std::uint32_t>(frame);
    const auto sum = take_feed<std::uint32_t>(frame);
    if (length == 0 || length > longest || !have(at, kFrameHead + length)) break;
    const std::span<const std::byte> body(part.data() + (at - part_at) + kFrameHead, length);
    if (log::crc32c(body) != sum || !visit(body, at + kFrameHead)) break;
    at += kFrameHead + length;
  }
  return at;
}

std::string sync_folder(const std::string& path) {
  const protocol::Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder && ::fsync(folder.get()) == 0 ? "" : said(errno);
}

}  // namespace batchflow::feeds
