// Every thread of a service runs out of memory again and again, while jobs of pictures and rows
// run: what a thread was at is done later, and neither the service nor a sample is lost.
#include <fstream>

#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"
#include "tests/runtime/service/status.h"

namespace batchflow::test::running_out_test {
namespace {

constexpr std::uint64_t kRows = 2000;
constexpr int kPictures = 64;

struct Served {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  std::string from = folder.path() / "no_memory";
  Served() {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
    for (int i = 0; i < kPictures; ++i) {
      const auto seed = static_cast<std::uint64_t>(i);
      const int side = 40 + i;
      write_file(folder.path() / "pictures" / "one" / fmt::format("{:03}", i),
                 i % 2 == 0 ? encode_jpeg(side, side, {}, seed)
                            : encode_png(make_pixels(side, side, 3, seed), side, side));
    }
  }
  std::vector<std::string> arguments() const {
    return {"--dataset",
            "rows=" + (folder.path() / "rows").string(),
            "--dataset",
            "pictures=" + (folder.path() / "pictures").string(),
            "--memory",
            "256mib",
            "--workers",
            "2",
            "--http",
            "0",
            "--open-datasets",
            "--socket",
            socket,
            "--state",
            folder.path() / "state"};
  }
  std::vector<std::string> without_memory(const std::string& thread, int every) const {
    return {"env", "LD_PRELOAD=" BATCHFLOW_NO_MEMORY_LIBRARY,
            fmt::format("BATCHFLOW_NO_MEMORY={}:{}", thread, every),
            "BATCHFLOW_NO_MEMORY_FROM=" + from};
  }
};

// Keys of a job's epochs of pictures, or what went wrong.
std::string read_pictures(const Served& served, std::vector<std::uint64_t>& keys) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = served.socket.c_str();
  options.dataset = "pictures";
  options.pipeline =
      R"({"kind": "pipeline", "name": "own", "steps": [{"step": "decode"},
          {"step": "random_resized_crop", "size": 32}, {"step": "colour_jitter", "hue": 0.1}]})";
  options.batch_samples = 8;
  options.epochs = 1;
  options.timeout_s = 60;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) return bf_last_error();
  bf_batch batch = BF_BATCH_INIT;
  bf_status status = BF_OK;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    for (std::uint32_t i = 0; i < batch.samples; ++i)
      if ((batch.marks[i] & (BF_MARK_FILLER | BF_MARK_REPLACED)) == 0)
        keys.push_back(batch.keys[i]);
    bf_batch_release(loader, batch.handle);
  }
  const std::string wrong = status == BF_END ? "" : bf_last_error();
  bf_loader_close(loader);
  return wrong;
}

bool is_of_memory(const std::string& wrong) {
  return wrong.find("no memory") != std::string::npos ||
         wrong.find("Cannot allocate memory") != std::string::npos ||
         wrong.find("no thread to open it") != std::string::npos;  // for want of memory
}

// A job that is told that there is no memory asks again.
template <class Attempt>
std::string until_served(Attempt attempt) {
  std::string wrong;
  for (int tries = 0; tries < 40; ++tries) {
    wrong = attempt();
    if (!is_of_memory(wrong)) break;
  }
  return wrong;
}

// The jobs of a round: of pictures, of rows, and of a folder that the job names, which is opened
// for it. Where memory is so short that all attempts meet it, they are told so, and nothing else.
void check_jobs(const Served& served, bool may_be_refused) {
  const auto served_or_refused = [&](const std::string& wrong) {
    if (!may_be_refused || !is_of_memory(wrong)) CHECK(wrong == "");
    return wrong.empty();
  };
  std::vector<std::uint64_t> keys;
  const std::string pictures = until_served([&] {
    keys.clear();
    return read_pictures(served, keys);
  });
  if (served_or_refused(pictures)) CHECK(is_whole(keys, kPictures));
  JobPlan plan;
  plan.service = served.socket;
  Handed handed;
  if (served_or_refused(until_served([&] { return (handed = run_job(plan)).wrong; }))) {
    for (const auto& [epoch, its] : handed.epochs) CHECK(is_whole(its, kRows));
    CHECK(handed.epochs.size() == plan.epochs);
  }
  plan.dataset = served.folder.path() / "rows";
  served_or_refused(until_served([&] { return run_job(plan).wrong; }));
}

void check_thread(const std::string& thread, int every, int rounds) {
  CAPTURE(thread);
  CAPTURE(every);
  const Served served;
  Daemon daemon(served.arguments(), served.socket, served.without_memory(thread, every));
  std::ofstream(served.from) << "now";
  // A thread that asks for about as many pieces each time may meet the same one each time.
  constexpr int kLuckBelow = 12;
  for (int round = 0; round < rounds; ++round) check_jobs(served, every < kLuckBelow);
  std::filesystem::remove(served.from);
  check_jobs(served, false);  // there is memory again
  // Else nothing was tried.
  if (thread == "bf-prepare") CHECK(status_of(served.socket).at("no_memory") > 0);
  CHECK(waitpid(daemon.process(), nullptr, WNOHANG) == 0);
  CHECK(daemon.kill(SIGINT) == 130);
}

TEST_CASE("threads that run out of memory lose a piece of work at most, and no sample") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // their allocator is not the one that fails
#endif
  for (const char* thread : {"bf-copy", "bf-unmap", "bf-read", "batchflowd"})
    check_thread(thread, 50, 1);
  check_thread("batchflowd", 11, 1);  // met while memory is divided
  // An opening is given up as a whole, and a block begun anew: not each of them may be met.
  check_thread("bf-prepare", 199, 1);
  for (const char* thread : {"bf-open", "*"}) check_thread(thread, 2003, 1);
}

TEST_SUITE("long") {
  TEST_CASE("for long, and with less memory") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return;
#endif
    for (const int every : {2, 3, 7, 11, 101}) {
      check_thread("batchflowd", every, 4);
      check_thread("bf-read", every, 4);
    }
    // Fewer, and a block that is begun anew meets the same piece each time.
    for (const int every : {199, 251, 307}) check_thread("bf-prepare", every, 4);
    for (const int every : {1009, 3001, 10'007}) {
      check_thread("bf-open", every, 4);
      check_thread("*", every, 4);
    }
  }
}

}  // namespace
}  // namespace batchflow::test::running_out_test
