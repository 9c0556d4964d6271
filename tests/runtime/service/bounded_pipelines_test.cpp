// Pipelines and files that ask for more memory than a service has: each is told so with numbers,
// and what was taken for large pictures goes back.
#include <sys/stat.h>

#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/hostile_pictures.h"
#include "tests/runtime/service/memory_watch.h"
#include "tests/runtime/service/status.h"

namespace batchflow::test::bounded_pipelines_test {
namespace {

struct Came {
  std::vector<std::uint64_t> keys;  // of samples as themselves
  std::uint64_t replaced = 0;
  std::string problem;
};

Came take(const std::string& service, const char* dataset, const std::string& steps) {
  const std::string pipeline =
      fmt::format(R"({{"kind": "pipeline", "name": "own", "steps": [{}]}})", steps);
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = service.c_str();
  options.dataset = dataset;
  options.pipeline = pipeline.c_str();
  options.batch_samples = 4;
  options.epochs = 1;
  options.timeout_s = 60;
  Came came;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) {
    came.problem = bf_last_error();
    return came;
  }
  bf_batch batch = BF_BATCH_INIT;
  bf_status status = BF_OK;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    for (std::uint32_t i = 0; i < batch.samples; ++i) {
      const bool is_replaced = (batch.marks[i] & BF_MARK_REPLACED) != 0;
      came.replaced += is_replaced ? 1 : 0;
      if (!is_replaced && (batch.marks[i] & BF_MARK_FILLER) == 0)
        came.keys.push_back(batch.keys[i]);
    }
    bf_batch_release(loader, batch.handle);
  }
  if (status != BF_END) came.problem = bf_last_error();
  bf_loader_close(loader);
  return came;
}

bool says(const Came& came, std::string_view words) {
  return came.problem.find(words) != std::string::npos;
}

struct Served {
  static constexpr int kOrdinary = 40;
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  std::string ordinary_socket = config.socket;
  explicit Served(const std::vector<Encoded>& hostile = {}) {
    config.memory = 500 * kMib;
    std::vector<Encoded> all;
    for (int i = 0; i < kOrdinary; ++i)
      all.push_back(encode_jpeg(300, 200 + i, {}, static_cast<std::uint64_t>(i)));
    write_pictures(folder.path() / "ordinary", all);
    all.insert(all.end(), hostile.begin(), hostile.end());
    write_pictures(folder.path() / "mixed", all);
    for (const char* name : {"ordinary", "mixed"})
      config.datasets.push_back({name, folder.path() / name, "", "", 0, {}});
  }
};

constexpr const char* kHuge[] = {
    R"({"step": "decode"}, {"step": "centre_crop", "size": 65536}, {"step": "resize", "size": 64})",
    R"({"step": "decode"}, {"step": "random_resized_crop", "size": 65536})",
    R"({"step": "decode"}, {"step": "resize", "size": [65535, 65535]}, {"step": "centre_crop", "size": 8})",
    R"({"step": "decode", "pixels_most": 1099511627776}, {"step": "resize", "size": [65535, 65535]})",
    R"({"step": "decode", "pixels_most": 1099511627776}, {"step": "centre_crop", "size": 8})",
};

TEST_CASE("a pipeline that makes pictures of any size is refused with the numbers") {
  const Served served;
  const LiveService service(served.config);
  for (const char* steps : kHuge) {
    const Came came = take(served.ordinary_socket, "ordinary", steps);
    CAPTURE(came.problem);
    CHECK(says(came, "preparing a sample may take 46.9 MiB"));
    CHECK(says(came, "(scratch of the node file)"));
    CHECK(came.keys.empty());
  }
  CHECK(says(take(served.ordinary_socket, "ordinary", kHuge[0]),
             "a picture of 'centre_crop' takes 12288.0 MiB"));
  CHECK(says(take(served.ordinary_socket, "ordinary", kHuge[4]),
             "a picture of so many pixels takes 3145728.0 MiB"));
}

// So many steps, each of which makes five million pixels, on pictures of a few thousand.
std::string long_steps(int steps) {
  std::string text = R"({"step": "decode"})";
  for (int i = 2; i < steps; ++i)
    text += fmt::format(R"(, {{"step": "resize", "size": [2300, {}]}})", 2200 + i % 7);
  return text + R"(, {"step": "resize", "size": [8, 8]})";
}

TEST_CASE("a pipeline of more steps than a sample may take is refused with their number") {
  const Served served;
  const LiveService service(served.config);
  const Came came = take(served.ordinary_socket, "ordinary", long_steps(65));
  CAPTURE(came.problem);
  CHECK(says(came, "there are 64 steps before it; write at most 64 steps"));
}

// Of so many pictures that its blocks keep workers busy for minutes.
struct BusyJob {
  bf_loader* loader = nullptr;
  static void add_dataset(Served& to) {
    const std::filesystem::path folder = to.folder.path() / "many";
    write_pictures(folder, std::vector<Encoded>(2000, encode_jpeg(16, 16, {}, 1)));
    to.config.datasets.push_back({"many", folder, "", "", 0, {}});
  }
  explicit BusyJob(const std::string& service) {
    const std::string pipeline =
        fmt::format(R"({{"kind": "pipeline", "name": "own", "steps": [{}]}})", long_steps(64));
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = service.c_str();
    options.dataset = "many";
    options.pipeline = pipeline.c_str();
    options.batch_samples = 4;
    options.timeout_s = .5;
    REQUIRE(bf_loader_open(&options, &loader) == BF_OK);
    bf_batch batch = BF_BATCH_INIT;
    CHECK(bf_loader_next(loader, &batch) != BF_OK);  // asked for, and late
  }
  void leave() { bf_loader_close(std::exchange(loader, nullptr)); }
  ~BusyJob() { bf_loader_close(loader); }
};

TEST_CASE("when a job leaves, what is prepared for it alone keeps no other job waiting") {
  Served served;
  BusyJob::add_dataset(served);
  served.config.workers = 1;
  const LiveService service(served.config);
  BusyJob busy(served.ordinary_socket);
  busy.leave();
  const Came came = take(served.ordinary_socket, "ordinary",
                         R"({"step": "decode"}, {"step": "resize", "size": [64, 64]})");
  CHECK(came.problem == "");
  CHECK(is_whole(came.keys, Served::kOrdinary));
}

TEST_CASE("a service that ends waits for no sample") {
  Served served;
  BusyJob::add_dataset(served);
  Daemon daemon({"--dataset", "many=" + (served.folder.path() / "many").string(), "--memory",
                 "500mib", "--workers", "2", "--http", "-1", "--socket", served.ordinary_socket,
                 "--state", served.folder.path() / "state"},
                served.ordinary_socket);
  const BusyJob busy(served.ordinary_socket);
  kill(daemon.process(), SIGINT);
  siginfo_t ended{};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (ended.si_pid == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    waitid(P_PID, static_cast<id_t>(daemon.process()), &ended, WEXITED | WNOHANG | WNOWAIT);
  }
  CHECK(ended.si_pid == daemon.process());
}

#if __has_include(<openssl/ssl.h>)  // else there are no remote jobs
TEST_CASE("so is one of a job on another machine") {
  Served served;
  const std::filesystem::path token = served.folder.path() / "token";
  std::ofstream(token) << std::string(40, 't') << "\n";
  chmod(token.c_str(), 0600);
  served.config.tcp.port = 0;
  served.config.tcp.token_file = token;
  setenv("BATCHFLOW_TOKEN_FILE", token.c_str(), 1);
  const LiveService service(served.config);
  const std::string at = fmt::format("tcp://127.0.0.1:{}", service.tcp_port());
  for (const char* steps : kHuge)
    CHECK(says(take(at, "ordinary", steps), "preparing a sample may take 46.9 MiB"));
}
#endif

TEST_CASE("a file that claims any size is corrupt for the pipeline, with the numbers") {
  JpegWay progressive;
  progressive.progressive = true;
  const struct {
    Encoded file;
    const char* words;
  } all[] = {
      {claiming_png(1'000'000, 1'000'000, 8, PNG_COLOR_TYPE_GRAY),
       "1000000 x 1000000 pixels, of which 67108864 are allowed"},
      {claiming_png(8000, 8000, 8, PNG_COLOR_TYPE_GRAY),
       "8000 x 8000 pixels: preparing it takes 18"},
      {claiming_png(1, 67'000'000, 8, PNG_COLOR_TYPE_GRAY), "of which a sample may have 46.9 MiB"},
      {claiming_jpeg(8000, 8000, {}), "of which a sample may have 46.9 MiB"},
      // Of which the picture alone would fit.
      {claiming_jpeg(3500, 3500, progressive), "of which a sample may have 46.9 MiB"},
      {even_png(7'000, 7'000, PNG_COLOR_TYPE_GRAY, 1), "of which a sample may have 46.9 MiB"},
  };
  for (const auto& one : all) {
    const Served served({one.file});
    const LiveService service(served.config);
    const Came came = take(served.ordinary_socket, "mixed",
                           R"({"step": "decode"}, {"step": "resize", "size": [64, 64]})");
    CAPTURE(one.words);
    CHECK(came.problem == "");
    CHECK(came.replaced == 1);
    CHECK(is_whole(came.keys, Served::kOrdinary));
    CHECK(service.has_said(one.words));
  }
}

TEST_CASE("texts that inflate to gigabytes are not read, and the picture is") {
  const Served served({texted_png(300, 8)});
  Daemon daemon({"--dataset", "mixed=" + (served.folder.path() / "mixed").string(), "--memory",
                 "500mib", "--workers", "2", "--http", "-1", "--socket", served.ordinary_socket,
                 "--state", served.folder.path() / "state"},
                served.ordinary_socket);
  const Came came = take(served.ordinary_socket, "mixed",
                         R"({"step": "decode"}, {"step": "resize", "size": [64, 64]})");
  CHECK(came.problem == "");
  CHECK(is_whole(came.keys, Served::kOrdinary + 1));
  if (kMemoryIsMeasured) CHECK(highest_memory_of(daemon.process()) < 200 * kMib);
}

TEST_CASE("memory of large pictures goes back when they are done") {
  Folder folder;
  const std::string socket = folder.path() / "b.sock";
  std::vector<Encoded> all;
  for (int i = 0; i < 12; ++i) all.push_back(even_png(4400, 4400 + i, PNG_COLOR_TYPE_GRAY, 8));
  write_pictures(folder.path() / "large", all);
  Daemon daemon(
      {"--dataset", "large=" + (folder.path() / "large").string(), "--memory", "700mib",
       "--workers", "4", "--http", "-1", "--socket", socket, "--state", folder.path() / "state"},
      socket);
  const Came came =
      take(socket, "large", R"({"step": "decode"}, {"step": "resize", "size": [64, 64]})");
  CHECK(came.problem == "");
  CHECK(came.keys.size() == all.size());
  const Bytes used = status_of(socket).at("used_bytes").get<Bytes>();
  if (!kMemoryIsMeasured) return;
  CHECK(highest_memory_of(daemon.process()) > 55 * kMib + used);  // one of them was there
  // Beside what it is known to hold: the program, staging, and no picture.
  const Bytes own = status_lines(daemon.process(), {"RssAnon:"});
  MESSAGE(fmt::format("{} MiB of its own, {} MiB in use", own / kMib, used / kMib));
  CHECK(own < used + 48 * kMib);
}

TEST_CASE("workers and decoders that find no memory begin the block anew") {
  const Served served({even_png(200, 200, PNG_COLOR_TYPE_RGB, 8)});
  for (const std::string where :
       {"memory.scratch", "prepare.jpeg.memory", "prepare.png.memory", "service.prepare.new"}) {
    CAPTURE(where);
    const LiveService service(served.config);
    failpoint::configure_failpoints(where + "=fail:1:2");
    const Came came = take(served.ordinary_socket, "mixed",
                           R"({"step": "decode"}, {"step": "resize", "size": [64, 64]})");
    std::uint64_t acted = 0;
    for (const failpoint::FailpointCount& one : failpoint::failpoint_counts())
      if (one.name == where) acted += one.acted;
    failpoint::configure_failpoints("");
    CHECK(came.problem == "");
    CHECK(came.replaced == 0);
    CHECK(is_whole(came.keys, Served::kOrdinary + 1));
    CHECK(acted == 2);
    CHECK(status_of(served.ordinary_socket).at("no_memory") == 2);
  }
}

}  // namespace
}  // namespace batchflow::test::bounded_pipelines_test
