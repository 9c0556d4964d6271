// How fast a feed takes records of 1 KB, and how long a record waits until it is durable, at RATE
// records a second and at half of what the feed takes. The feed is another process of this program,
// on one core of its own where there are two; the log lies in a folder of its own.
//
//   stream_feed [--small] RATE [FOLDER]: one line of JSON
//   stream_feed --send FEED RATE RECORDS: sends to a service's feed, each record with the time in
//     ns since the machine's start at which it was due
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/client/batchflow.h"
#include "runtime/feeds/feed_server.h"

using namespace batchflow;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kRecord = 1000;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double cpu_s(int who) {
  rusage used{};
  getrusage(who, &used);
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

// The first of the cores that this program may use, or the others; all, where there is one alone.
void stay_on(bool first) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  cpu_set_t mine = all;
  CPU_CLR(core, &mine);
  if (first) {
    CPU_ZERO(&mine);
    CPU_SET(core, &mine);
  }
  sched_setaffinity(0, sizeof mine, &mine);
}

void check(bf_status status) {
  if (status == BF_OK) return;
  fmt::print(stderr, "stream_feed: {}\n", bf_last_error());
  std::exit(1);
}

// Takes records until its parent ends it.
[[noreturn]] void serve(const std::string& folder) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  stay_on(true);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  {
    feeds::FeedServer server(std::make_shared<feeds::FeedLog>(folder, feeds::read_settings(folder)),
                             [](const feeds::FeedState&) {});
    int number = 0;
    sigwait(&ends, &number);
  }
  std::_Exit(0);
}

std::uint64_t acknowledged(bf_feed* feed) {
  bf_feed_info info = BF_FEED_INFO_INIT;
  check(bf_feed_info_get(feed, &info));
  return info.acknowledged;
}

// As fast as can be. Answers records a second.
double ingest(bf_feed* feed, std::uint64_t records) {
  const std::string bytes(kRecord, 'r');
  bf_record record = BF_RECORD_INIT;
  record.bytes = bytes.data();
  record.count = bytes.size();
  const auto began = Clock::now();
  for (std::uint64_t n = 0; n < records; ++n) {
    record.key = n;
    check(bf_feed_put(feed, &record));
  }
  check(bf_feed_flush(feed, 0));
  return static_cast<double>(records) / seconds(Clock::now() - began);
}

// At a steady rate. Answers the times from when each was due until it was acknowledged, sorted.
std::vector<double> lags(bf_feed* feed, std::uint64_t records, double rate) {
  std::string bytes(kRecord, 'r');
  bf_record record = BF_RECORD_INIT;
  record.bytes = bytes.data();
  record.count = bytes.size();
  std::vector<double> lags;
  std::deque<Clock::time_point> waiting;  // of records that are not acknowledged
  std::uint64_t acked = acknowledged(feed);
  const auto take = [&] {
    const auto now = Clock::now();
    for (const std::uint64_t end = acknowledged(feed); acked < end; ++acked) {
      lags.push_back(seconds(now - waiting.front()));
      waiting.pop_front();
    }
  };
  const auto began = Clock::now();
  for (std::uint64_t n = 0; n < records; ++n) {
    const auto due = began + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(static_cast<double>(n) / rate));
    while (Clock::now() < due) bf_feed_flush(feed, 1e-6);
    const std::int64_t due_ns = due.time_since_epoch().count();
    std::memcpy(bytes.data(), &due_ns, sizeof due_ns);
    waiting.push_back(due);
    check(bf_feed_put(feed, &record));
    take();
  }
  check(bf_feed_flush(feed, 0));
  take();
  std::sort(lags.begin(), lags.end());
  return lags;
}

}  // namespace

namespace {

bf_feed* open_feed(const char* folder, const char* schema) {
  bf_feed_options options = BF_FEED_OPTIONS_INIT;
  options.folder = folder;
  options.producer = "bench";
  options.schema = schema;
  bf_feed* feed = nullptr;
  check(bf_feed_open(&options, &feed));
  return feed;
}

int send(const char* folder, const char* rate, const char* records) {
  bf_feed* const feed = open_feed(folder, "i64[125]");
  lags(feed, std::strtoull(records, nullptr, 10), std::strtod(rate, nullptr));
  check(bf_feed_end(feed));
  bf_feed_close(feed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--send") return send(argv[2], argv[3], argv[4]);
  bool small = false;
  double aimed = 0;
  std::string folder = (std::filesystem::temp_directory_path() / "stream-feed-XXXXXX").string();
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--small") {
      small = true;
    } else if (aimed == 0) {
      aimed = std::strtod(argv[i], nullptr);
    } else {
      folder = std::string(argv[i]) + "/stream-feed-XXXXXX";
    }
  }
  if (!(aimed > 0) || mkdtemp(folder.data()) == nullptr) return 1;
  feeds::FeedSettings settings;
  settings.record_bytes = 1024;
  settings.keep_bytes = Bytes{8} << 30;
  feeds::create_feed(folder, settings);
  const pid_t service = fork();
  if (service == 0) serve(folder);
  stay_on(false);
  bf_feed* const feed = open_feed(folder.c_str(), "bytes");
  const std::uint64_t records = small ? 5'000 : 2'000'000;
  const double before = cpu_s(RUSAGE_SELF);
  const double rate = ingest(feed, records);
  const double producer = cpu_s(RUSAGE_SELF) - before;
  std::string durable;
  std::uint64_t sent = records;
  for (const double per_s : {aimed, rate / 2}) {
    const std::vector<double> all = lags(feed, small ? 2'000 : 500'000, per_s);
    sent += all.size();
    const auto at = [&](double share) {
      return 1000 * all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
    };
    durable += fmt::format(R"({}{{"per_s": {}, "p50_ms": {}, "p99_ms": {}, "worst_ms": {}}})",
                           durable.empty() ? "" : ", ", per_s, at(.5), at(.99), at(1));
  }
  bf_feed_close(feed);
  kill(service, SIGTERM);
  int ended = 0;
  waitpid(service, &ended, 0);
  fmt::print(R"({{"records": {}, "record_bytes": {}, "per_s": {}, "producer_us": {}, )"
             R"("feed_us": {}, "durable": [{}]}})"
             "\n",
             records, kRecord, rate, 1e6 * producer / static_cast<double>(records),
             1e6 * cpu_s(RUSAGE_CHILDREN) / static_cast<double>(sent), durable);
  std::filesystem::remove_all(folder);
  return ended == 0 ? 0 : 1;
}
