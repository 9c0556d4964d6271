// batchflow-video-split COUNT: takes files of video apart. The service starts it, confined, with
// each file open at descriptor 10 + 2 i, and what it is to write at 11 + 2 i.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/video/split/split_video.h"

namespace {

using namespace batchflow;

constexpr int kFirstFile = 10;
constexpr std::uint32_t kFramesLeast = 32;
constexpr char kMagic[] = "BFVIDEO2";

bool write_all(int to, const void* bytes, std::size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = write(to, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

std::string split(int from, int to) {
  struct stat status {};
  if (fstat(from, &status) != 0) return "it cannot be read";
  const auto read = [from](std::uint64_t at, std::span<std::uint8_t> into) -> std::size_t {
    const ssize_t got = pread(from, into.data(), into.size(), static_cast<off_t>(at));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  };
  bool is_written = write_all(to, kMagic, sizeof kMagic - 1);
  const auto take = [&](std::span<const std::byte> group) {
    const std::uint64_t size = group.size();
    is_written = is_written && write_all(to, &size, sizeof size) &&
                 write_all(to, group.data(), group.size());
  };
  std::string problem =
      video::split_video(static_cast<Bytes>(status.st_size), read, kFramesLeast, take);
  return is_written ? problem : "there was no room for all of its groups of frames";
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 0;
  // Whatever a file makes FFmpeg's libraries do, no other file is opened from here on.
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_NOFILE, &none) != 0) {
    std::printf("files cannot be kept from opening others\n");
    return 1;
  }
  for (int i = 0; i < count; ++i) {
    std::printf("file %d\n", i);
    std::fflush(stdout);
    const int to = kFirstFile + 2 * i + 1;
    const std::string problem = split(kFirstFile + 2 * i, to);
    if (problem.empty()) continue;
    // The groups before it are served, and the index notes the reason.
    const std::uint64_t end[2] = {0, problem.size()};
    if (write_all(to, end, sizeof end) && write_all(to, problem.data(), problem.size())) continue;
    std::printf("there is no room for its groups of frames\n");
    std::fflush(stdout);
    _exit(1);
  }
  std::printf("done\n");
  std::fflush(stdout);
  _exit(0);
}
