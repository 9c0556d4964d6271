// Pipelines and pictures made at random, as any job may bring them, against a service with memory
// is watched from outside: whatever they ask for, it takes what it was given, and goes on.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>

#include "core/base/random.h"
#include "tests/policies/random_seeds.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/hostile_pictures.h"
#include "tests/runtime/service/memory_watch.h"
#include "tests/runtime/service/status.h"

namespace batchflow::test::random_pipelines_test {
namespace {

constexpr Bytes kMemory = 500 * kMib;
constexpr int kOrdinary = 24;
constexpr std::uint64_t kRows = 64;

struct Served {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  Served() {
    write_pictures(folder.path() / "claiming", claiming_pictures());
    write_pictures(folder.path() / "large", large_pictures());
    std::vector<Encoded> ordinary;
    for (int i = 0; i < kOrdinary; ++i)
      ordinary.push_back(encode_jpeg(500 + i, 375, {}, static_cast<std::uint64_t>(i)));
    write_pictures(folder.path() / "ordinary", ordinary);
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 512);
  }
  std::vector<std::string> arguments() const {
    std::vector<std::string> all;
    for (const char* name : {"claiming", "large", "ordinary", "rows"})
      all.insert(all.end(),
                 {"--dataset", fmt::format("{}={}", name, (folder.path() / name).string())});
    all.insert(all.end(),
               {"--memory", "500mib", "--workers", "2", "--http", "-1", "--corrupt-ratio-allowed",
                "100%", "--socket", socket, "--state", folder.path() / "state"});
    return all;
  }
};

// --- what is asked

template <class T>
const T& one_of(Random& random, const std::vector<T>& all) {
  return all[random.below(all.size())];
}

std::string size_of(Random& random) {
  static const std::vector<int> sides = {1,   2,    7,    64,   224,   224,   256,
                                         500, 1024, 3000, 4096, 16384, 65535, 65536};
  const int first = one_of(random, sides);
  return random.below(2) == 0 ? std::to_string(first)
                              : fmt::format("[{}, {}]", first, one_of(random, sides));
}

std::string picture_step(Random& random) {
  switch (random.below(12)) {
    case 0:
      return fmt::format(R"({{"step": "resize", "size": {}}})", size_of(random));
    case 1:
      return fmt::format(R"({{"step": "centre_crop", "size": {}}})", size_of(random));
    case 2:
      return fmt::format(
          R"({{"step": "random_resized_crop", "size": {}, "scale": [{}, 1], "ratio": [{}, 1000]}})",
          size_of(random), one_of<double>(random, {1e-6, 0.08, 0.9}),
          one_of<double>(random, {0.001, 0.75, 999}));
    case 3:
      return R"({"step": "horizontal_flip", "probability": 1})";
    case 4:
      return R"({"step": "colour_jitter", "brightness": 0.4, "hue": 0.2})";
    case 5:
      return fmt::format(R"({{"step": "resize", "size": {}, "interpolation": "{}"}})",
                         size_of(random), random.below(2) == 0 ? "bicubic" : "nearest");
    case 6:
      return fmt::format(R"({{"step": "pad", "padding": {}, "padding_mode": "{}"}})",
                         one_of<int>(random, {0, 1, 300, 65536}),
                         random.below(2) == 0 ? "reflect" : "constant");
    case 7:
      return fmt::format(R"({{"step": "random_crop", "size": {}, "pad_if_needed": {}}})",
                         size_of(random), random.below(2) == 0);
    case 8:
      return R"({"step": "gaussian_blur", "kernel_size": [3, 63], "sigma": 20})";
    case 9:
      return R"({"step": "random_affine", "degrees": 180, "scale": [0.001, 1000], "shear": 89})";
    case 10:
      return R"({"step": "random_apply", "steps": [{"step": "rand_augment", "operations": 16}]})";
    default:
      return fmt::format(R"({{"step": "centre_crop", "size": {}}})", 224);
  }
}

std::string picture_pipeline(Random& random) {
  std::string steps = R"({"step": "decode")";
  if (random.below(2) == 0)
    steps += fmt::format(R"(, "pixels_most": {})",
                         one_of<std::uint64_t>(random, {1, 1'000'000, 10'000'000, 1ull << 26,
                                                        1ull << 32, 1ull << 40}));
  steps += "}";
  for (std::uint64_t left = random.below(5); left > 0; --left) steps += ", " + picture_step(random);
  // As a rule so that a batch can be made of it.
  if (random.below(4) != 0) steps += R"(, {"step": "resize", "size": [32, 32]})";
  if (random.below(3) == 0) steps += R"(, {"step": "cast", "to": "f32"})";
  if (random.below(3) == 0) steps += R"(, {"step": "layout", "order": "nchw"})";
  return steps;
}

std::string number_pipeline(Random& random) {
  std::string steps;
  if (random.below(2) == 0)
    steps = fmt::format(R"({{"step": "tokens", "length": {}}}, )",
                        one_of<std::uint64_t>(random, {1, 512, 4096, 1ull << 20, 1ull << 30}));
  return steps + R"({"step": "cast", "to": "f64"})";
}

struct Asked {
  const char* dataset;
  std::string pipeline;
  std::uint32_t batch;
  bf_order order;
};

Asked ask(std::uint64_t seed, std::uint64_t number) {
  Random random(hash(seed, number));
  static constexpr const char* kSets[] = {"claiming", "claiming", "claiming", "large",
                                          "ordinary", "ordinary", "rows",     "rows"};
  Asked asked;
  asked.dataset = kSets[random.below(std::size(kSets))];
  const bool is_rows = asked.dataset == std::string("rows");
  asked.pipeline = fmt::format(R"({{"kind": "pipeline", "name": "p{}", "steps": [{}]}})", number,
                               is_rows ? number_pipeline(random) : picture_pipeline(random));
  asked.batch = static_cast<std::uint32_t>(1 + random.below(4));
  asked.order = random.below(2) == 0 ? BF_STRICT : BF_RELAXED;
  return asked;
}

// --- what comes of it

bf_loader_options options_of(const Served& served, const Asked& asked) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = served.socket.c_str();
  options.dataset = asked.dataset;
  options.pipeline = asked.pipeline.c_str();
  options.batch_samples = asked.batch;
  options.order = asked.order;
  options.epochs = 1;
  options.credits = 1;
  options.timeout_s = 1200;  // workers yield to all else that runs on the machine
  options.reconnect_s = 1;
  options.has_corrupt_ratio_max = 1;
  options.corrupt_ratio_max = 1;
  return options;
}

struct Came {
  std::uint64_t batches = 0;
  std::string problem;  // that its user is told
};

Came take(const Served& served, const Asked& asked, std::uint64_t batches_most) {
  const bf_loader_options options = options_of(served, asked);
  Came came;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) {
    came.problem = bf_last_error();
    return came;
  }
  bf_batch batch = BF_BATCH_INIT;
  bf_status status = BF_OK;
  while (came.batches < batches_most && (status = bf_loader_next(loader, &batch)) == BF_OK) {
    ++came.batches;
    bf_batch_release(loader, batch.handle);
  }
  if (status != BF_OK && status != BF_END) came.problem = bf_last_error();
  if (status == BF_TIMEOUT) came.problem = "HANGS: " + came.problem;
  bf_loader_close(loader);
  return came;
}

// What kind of an answer it is; empty: one that no pipeline should be given.
std::string kind_of(const Came& came) {
  if (came.problem.empty()) return "served";
  for (const char* words :
       {"preparing a sample may take", "there is no room for its batches", "takes more than",
        "corrupt", "pictures would have different sizes", "cannot be decoded",
        "no worker could prepare batches for it", "normalised values", "is no sequence of tokens"})
    if (came.problem.find(words) != std::string::npos) return words;
  return {};
}

bool is_alive(pid_t process) {
  return ::kill(process, 0) == 0 && waitpid(process, nullptr, WNOHANG) == 0;
}

void check_random_pipelines(std::uint64_t seed, std::uint64_t first, std::uint64_t count) {
  const Served served;
  Daemon daemon(served.arguments(), served.socket);
  const Asked usual{"ordinary", "imagenet-val", 4, BF_STRICT};
  REQUIRE(take(served, usual, UINT64_MAX).problem == "");
  MemoryWatch watch(daemon.process());
  std::atomic<std::uint64_t> next{first};
  std::mutex mutex;
  std::map<std::string, std::uint64_t> kinds;
  std::pair<double, std::uint64_t> longest{0, first};  // seconds of a job, and its number
  std::vector<std::thread> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.emplace_back([&] {
      for (std::uint64_t number; (number = next++) < first + count;) {
        const Asked asked = ask(seed, number);
        const auto began = std::chrono::steady_clock::now();
        const Came came = take(served, asked, 3);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        const std::lock_guard lock(mutex);
        longest = std::max(longest, {took.count(), number});
        const std::string kind = kind_of(came);
        ++kinds[kind];
        const Bytes highest = highest_memory_of(daemon.process());
        const bool fits = !kMemoryIsMeasured || highest <= kMemory + kMemoryBeside;
        if (kind.empty() || !fits)
          FAIL_CHECK(fmt::format(
              "BATCHFLOW_SEED={} BATCHFLOW_FIRST={} BATCHFLOW_COUNT=1 repeats this: {} over '{}': "
              "{}; {} MiB",
              seed, number, asked.pipeline, asked.dataset, came.problem, highest / kMib));
        if (!fits) next = first + count;
      }
    });
  }
  for (std::thread& job : jobs) job.join();
  REQUIRE(is_alive(daemon.process()));
  const Bytes most = watch.end();
  std::string came;
  for (const auto& [kind, times] : kinds) came += fmt::format("\n  {:6} {}", times, kind);
  const Bytes highest = highest_memory_of(daemon.process());
  MESSAGE(fmt::format(
      "seed {}: {} pipelines, the longest (number {}) {:.1f} s; {} MiB with all slabs, {} MiB by "
      "VmHWM, of {}{}",
      seed, count, longest.second, longest.first, most / kMib, highest / kMib, kMemory / kMib,
      came));
  CHECK(kinds["served"] > count / 20);
  if (kMemoryIsMeasured) {
    CHECK(most <= kMemory + kMemoryBeside);
    CHECK(highest <= kMemory + kMemoryBeside);
  }
  // The service serves as before.
  const Came after = take(served, usual, UINT64_MAX);
  CHECK(after.problem == "");
  CHECK(after.batches == kOrdinary / 4);
}

std::uint64_t number_from(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : usual;
}

TEST_CASE("pipelines and pictures at random take no more than the service was given") {
  check_random_pipelines(number_from("BATCHFLOW_SEED", 1), number_from("BATCHFLOW_FIRST", 0),
                         number_from("BATCHFLOW_COUNT", sanitized_share(200)));
}

TEST_SUITE("long") {
  TEST_CASE("ten thousand pipelines and pictures at random") {
    check_random_pipelines(number_from("BATCHFLOW_SEED", 2), number_from("BATCHFLOW_FIRST", 0),
                           10'000);
  }
}

}  // namespace
}  // namespace batchflow::test::random_pipelines_test
