// What reading from a store costs: ranges of an object by RangeReader, beside a bare client that
// sends the least that is HTTP and checks nothing, on the same server of loopback. And Parquet:
// unpacking it and making its index, beside pyarrow's own scan of all rows.
//
//   bench_stores [--small] [--rounds N] [--rows N] [--no-parquet]
//
// The server is another process, with a thread for each connection; it sends from memory, at once
// or after some milliseconds, as a store at the other end of a network does. Both clients have as
// many connections. All run in turn, round by round; a ratio is taken within a round.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/objects/range_reader.h"
#include "runtime/sources/sample_index.h"
#include "tests/temporary_folder.h"
#include "tools/bench/spread.h"

using namespace batchflow;

namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kObject = 256 << 20;
struct Way {
  unsigned connections = 16;
  bool in_order = false;  // each range begins where the one before it ends
  unsigned buffers() const { return 4 * connections; }
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void fail(const char* what) {
  fmt::print(stderr, "bench_stores: {}: {}\n", what, std::strerror(errno));
  std::_Exit(1);
}

// ----------------------------------------------------------------------------------- the server --

void serve(int connection, const std::vector<char>& object, std::chrono::milliseconds after) {
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::string held;
  char buffer[4096];
  for (;;) {
    std::size_t end = 0;
    while ((end = held.find("\r\n\r\n")) == std::string::npos) {
      const ssize_t got = recv(connection, buffer, sizeof buffer, 0);
      if (got <= 0) {
        close(connection);
        return;
      }
      held.append(buffer, static_cast<std::size_t>(got));
    }
    std::size_t first = 0, last = object.size() - 1;
    const std::size_t range = held.find("Range: bytes=");
    if (range < end) std::sscanf(held.c_str() + range, "Range: bytes=%zu-%zu", &first, &last);
    const bool has_body = !held.starts_with("HEAD");
    held.erase(0, end + 4);
    std::this_thread::sleep_for(after);
    std::string head = fmt::format(
        "HTTP/1.1 206 Partial Content\r\nETag: \"one\"\r\nContent-Length: {}\r\n"
        "Content-Range: bytes {}-{}/{}\r\n\r\n",
        last - first + 1, first, last, object.size());
    iovec parts[2] = {{head.data(), head.size()},
                      {const_cast<char*>(object.data()) + first, has_body ? last - first + 1 : 0}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    while (parts[0].iov_len + parts[1].iov_len > 0) {
      ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
      if (sent <= 0) break;
      for (iovec& one : parts) {
        const std::size_t taken = std::min(one.iov_len, static_cast<std::size_t>(sent));
        one.iov_base = static_cast<char*>(one.iov_base) + taken;
        one.iov_len -= taken;
        sent -= static_cast<ssize_t>(taken);
      }
    }
  }
}

// A process of its own, which answers at the port.
std::uint16_t start_server(std::chrono::milliseconds after) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  if (bind(listening, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(listening, 512) != 0 ||
      getsockname(listening, reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    fail("no server");
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::vector<char> object(kObject, 'x');
    for (;;) {
      const int connection = accept(listening, nullptr, nullptr);
      if (connection >= 0)
        std::thread([connection, &object, after] { serve(connection, object, after); }).detach();
    }
  }
  close(listening);
  return ntohs(address.sin_port);
}

// ---------------------------------------------------------------------------------- the clients --

// Where range number `i` begins; if not in order, far from the one before it.
std::uint64_t offset_of(std::uint64_t number, Bytes each, const Way& way) {
  return number * (way.in_order ? 1 : 7919) % (kObject / each) * each;
}

double bare_client(std::uint16_t port, std::uint64_t ranges, Bytes each, const Way& way) {
  std::atomic<std::uint64_t> next{0};
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < way.connections; ++i)
    threads.emplace_back([&] {
      const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        fail("the bare client");
      const int on = 1;
      setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      // As many buffers in all as RangeReader gets: into one that is still in the cache of the
      // processor a copy costs less.
      std::vector<std::vector<char>> buffers(way.buffers() / way.connections,
                                             std::vector<char>(each + 4096));
      for (std::uint64_t number; (number = next++) < ranges;) {
        std::vector<char>& to = buffers[number % buffers.size()];
        const std::uint64_t offset = offset_of(number, each, way);
        const std::string request =
            fmt::format("GET /object HTTP/1.1\r\nHost: x\r\nRange: bytes={}-{}\r\n\r\n", offset,
                        offset + each - 1);
        if (send(connection, request.data(), request.size(), MSG_NOSIGNAL) < 0)
          fail("the bare client");
        std::size_t got = 0, wanted = 0;
        do {
          const ssize_t more = recv(connection, to.data() + got, to.size() - got, 0);
          if (more <= 0) fail("the bare client");
          got += static_cast<std::size_t>(more);
          const std::string_view text(to.data(), std::min<std::size_t>(got, 4096));
          if (wanted == 0)
            if (const std::size_t end = text.find("\r\n\r\n"); end != std::string_view::npos)
              wanted = end + 4 + each;
        } while (wanted == 0 || got < wanted);
      }
      close(connection);
    });
  for (std::thread& one : threads) one.join();
  return static_cast<double>(ranges * each) / seconds_since(begin);
}

double range_reader(std::uint16_t port, std::uint64_t ranges, Bytes each, const Way& way) {
  const auto store = objects::open_store(fmt::format("http://127.0.0.1:{}/object", port));
  const objects::ObjectInfo info = store->look(store->only());
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t done = 0;
  std::vector<std::vector<std::byte>> to(way.buffers(), std::vector<std::byte>(each));
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < to.size(); ++i) free.push_back(i);
  const auto begin = Clock::now();
  objects::RangeReader reader(way.connections, [&](const objects::RangeResult& result) {
    if (result.error != 0) {
      fmt::print(stderr, "bench_stores: {}\n", result.problem);
      std::_Exit(1);
    }
    const std::lock_guard lock(mutex);
    ++done;
    free.push_back(result.tag);
    changed.notify_one();
  });
  const std::string path = store->only();
  std::vector<objects::RangePiece> pieces;
  std::vector<std::size_t> taken;
  for (std::uint64_t number = 0; number < ranges;) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !free.empty(); });
      taken.swap(free);
    }
    pieces.clear();
    for (; !taken.empty() && number < ranges; taken.pop_back())
      pieces.push_back({store, path.c_str(), info.mark, offset_of(number++, each, way),
                        to[taken.back()], taken.back()});
    taken.clear();
    reader.submit(pieces);
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done == ranges; });
  return static_cast<double>(ranges * each) / seconds_since(begin);
}

void compare(std::uint16_t port, std::string_view what, Bytes each, std::uint64_t ranges,
             int rounds, const Way& way = {}) {
  std::vector<double> bare, ours, ratio;
  bare_client(port, ranges / 4 + 1, each, way);  // the first run warms up
  for (int round = 0; round < rounds; ++round) {
    bare.push_back(bare_client(port, ranges, each, way) / (1 << 20));
    ours.push_back(range_reader(port, ranges, each, way) / (1 << 20));
    ratio.push_back(ours.back() / bare.back());
  }
  const bench::Spread b = bench::spread_of(bare), o = bench::spread_of(ours),
                      r = bench::spread_of(ratio);
  fmt::print(
      "ranges of {:>5} KiB{}: bare client {:7.0f} MiB/s, RangeReader {:7.0f} MiB/s, ratio "
      "{:.2f} ({:.2f} to {:.2f})\n",
      each >> 10, what, b.middle, o.middle, r.middle, r.least, r.most);
}

// -------------------------------------------------------------------------------------- Parquet --

std::string python() {
  const char* const named = std::getenv("BATCHFLOW_PYTHON");
  return named ? named : "python3";
}

// What the script prints. It gets the folder.
std::string run(const std::string& script, const std::string& folder) {
  const std::string command =
      fmt::format("'{}' -c '{}' '{}' 2>/dev/null", python(), script, folder);
  FILE* const pipe = popen(command.c_str(), "r");
  char text[256] = {};
  if (pipe && !fgets(text, sizeof text, pipe)) text[0] = '\0';
  if (pipe) pclose(pipe);
  return text;
}

void compare_parquet(std::uint64_t rows, int rounds) {
  const test::TemporaryFolder folder;
  const std::string write = fmt::format(R"(
import os, sys, random, pyarrow as pa, pyarrow.parquet as pq
random.seed(1)
part = {} // 4
for i in range(4):
    table = pa.table({{"image": [random.randbytes(20000) for _ in range(part)],
                      "label": pa.array([k % 1000 for k in range(part)], pa.int64())}})
    pq.write_table(table, f"{{sys.argv[1]}}/{{i}}.parquet", row_group_size=500)
print(pa.__version__)
)",
                                        rows);
  const std::string version = run(write, folder.path().string());
  if (version.empty()) {
    fmt::print("Parquet: skipped: {} has no pyarrow (pip install pyarrow, BATCHFLOW_PYTHON)\n",
               python());
    return;
  }
  const std::string scan = R"(
import sys, time, glob, pyarrow.dataset as ds
begin = time.monotonic()
rows = sum(batch.num_rows for batch in ds.dataset(glob.glob(sys.argv[1] + "/*.parquet")).to_batches())
print(rows / (time.monotonic() - begin))
)";
  std::vector<double> scanned, unpacked, ratio;
  for (int round = 0; round < rounds; ++round) {
    scanned.push_back(std::strtod(run(scan, folder.path().string()).c_str(), nullptr));
    const test::TemporaryFolder indices;
    sources::SourceOptions options;
    options.name = "bench";
    options.root = folder.path();
    options.index_folder = indices.path();
    const auto begin = Clock::now();
    const auto index = sources::open_index(options);
    unpacked.push_back(static_cast<double>(index->samples()) / seconds_since(begin));
    ratio.push_back(unpacked.back() / scanned.back());
  }
  const bench::Spread s = bench::spread_of(scanned), u = bench::spread_of(unpacked),
                      r = bench::spread_of(ratio);
  fmt::print(
      "Parquet, {} rows of 20 kB: pyarrow's scan {:.0f} rows/s, unpacked and indexed {:.0f} "
      "rows/s, ratio {:.2f} ({:.2f} to {:.2f})\n",
      rows, s.middle, u.middle, r.middle, r.least, r.most);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  std::uint64_t rows = 20'000;
  bool small = false, parquet = true;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--small") {
      small = true;
    } else if (word == "--no-parquet") {
      parquet = false;
    } else if (word == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--rows" && i + 1 < argc) {
      rows = std::strtoull(argv[++i], nullptr, 10);
    } else {
      fmt::print(stderr, "bench_stores [--small] [--rounds N] [--rows N] [--no-parquet]\n");
      return 2;
    }
  }
  if (small) {
    rounds = 1;
    rows = 400;
  }
  const std::uint16_t port = start_server({});
  for (const Bytes each : {Bytes{16} << 10, Bytes{128} << 10, Bytes{1} << 20, Bytes{8} << 20})
    compare(port, "", each, small ? 20 : (Bytes{2} << 30) / std::max<Bytes>(each, 64 << 10),
            rounds);
  const unsigned reads = objects::StoreSettings().reads;
  const std::uint16_t far = start_server(std::chrono::milliseconds(20));
  for (const Bytes each : {Bytes{4} << 10, Bytes{16} << 10, Bytes{128} << 10}) {
    const std::uint64_t ranges = small ? 20 : 20 * reads;
    compare(far, " after 20 ms", each, ranges, rounds, {reads});
    compare(far, " after 20 ms, in order", each, ranges, rounds, {reads, true});
  }
  if (parquet) compare_parquet(rows, rounds);
  return 0;
}
