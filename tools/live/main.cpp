// batchflow-live: toy jobs on a live service of this machine, with and without sharing.
//
// Makes pictures, starts batchflowd on them once for each policy, trains jobs that sleep in place
// of computing, and prints what each waited for. `./dev demo` runs it small, `./dev bench live`
// large.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "programs/output/usage.h"
#include "programs/version/version.h"
#include "runtime/protocol/channel.h"
#include "runtime/toys/toy_job.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/temporary_folder.h"
#include "tools/live/chart.h"

namespace {

using namespace batchflow;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Plan {
  std::string data;  // empty: pictures are made
  std::uint32_t pictures = 1024;
  int width = 500, height = 375, quality = 75;
  std::vector<double> compute_ms = {10, 40};
  std::vector<double> arrive_s;
  std::uint32_t batch = 32;
  std::uint32_t epochs = 2;
  std::string pipeline = "imagenet-train";
  std::vector<std::string> presets = {"independent", "default"};
  std::string memory = "1gib";
  std::string config;
  std::uint32_t workers = 0;
  bool check = false;
  std::string json;
  std::string html;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void make_pictures(const fs::path& folder, const Plan& plan) {
  constexpr std::uint32_t kDifferent = 64;  // the others are the same under other names
  std::vector<test::Encoded> pictures;
  for (std::uint32_t i = 0; i < std::min(plan.pictures, kDifferent); ++i)
    pictures.push_back(test::encode_jpeg(plan.width, plan.height, {.quality = plan.quality}, i));
  for (std::uint32_t i = 0; i < plan.pictures; ++i) {
    const fs::path place = folder / fmt::format("class{}", i % 10);
    fs::create_directories(place);
    std::ofstream out(place / fmt::format("{:06}.jpg", i), std::ios::binary);
    const test::Encoded& bytes = pictures[i % pictures.size()];
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    if (!out) throw std::runtime_error(fmt::format("{}: cannot be written", place.string()));
  }
}

pid_t start_service(const fs::path& folder, const fs::path& data, const Plan& plan,
                    const std::string& preset) {
  const pid_t process = fork();
  if (process != 0) return process;
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "batchflowd";
  std::vector<std::string> words = {program,
                                    "--dataset",
                                    "pictures=" + data.string() + ",pipeline=" + plan.pipeline,
                                    "--memory",
                                    plan.memory,
                                    "--socket",
                                    folder / "service.sock",
                                    "--state",
                                    folder / "state",
                                    "--http",
                                    "-1",
                                    "--policy",
                                    "preset=" + preset};
  if (!plan.config.empty()) words.insert(words.end(), {"--config", plan.config});
  if (plan.workers > 0) {
    words.insert(words.end(), {"--workers", std::to_string(plan.workers)});
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int log = open((folder / "service.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(log, STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(127);
}

nlohmann::json ask_status(const fs::path& folder) {
  std::string problem;
  protocol::Channel channel = protocol::Channel::connect(folder / "service.sock", problem);
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  if (!channel.is_open() || !channel.send(R"({"type":"command","name":"status"})", {}, deadline))
    throw std::runtime_error(fmt::format("the service does not answer: {}; see {}", problem,
                                         (folder / "service.log").string()));
  const auto frame = channel.receive(deadline);
  if (!frame) throw std::runtime_error("the service does not answer");
  return nlohmann::json::parse(frame->text);
}

std::chrono::nanoseconds nanoseconds(double count) {
  return std::chrono::nanoseconds(std::llround(count));
}

struct Served {
  std::string preset;
  std::vector<toys::ToyOutcome> jobs;
  double total_s = 0;
  nlohmann::json status;
};

Served run(const fs::path& folder, const fs::path& data, const Plan& plan,
           const std::string& preset) {
  Served result;
  result.preset = preset;
  const pid_t service = start_service(folder, data, plan, preset);
  const Clock::time_point until = Clock::now() + std::chrono::seconds(60);
  for (;;) {
    std::string problem;
    if (protocol::Channel::connect(folder / "service.sock", problem).is_open()) break;
    if (Clock::now() > until || waitpid(service, nullptr, WNOHANG) != 0)
      throw std::runtime_error(
          fmt::format("the service did not start; see {}", (folder / "service.log").string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // A service that runs before jobs come has made ready the memory that it reads into.
  ask_status(folder);
  std::vector<toys::ToyJob> jobs;
  for (std::size_t i = 0; i < plan.compute_ms.size(); ++i) {
    toys::ToyJob& job = jobs.emplace_back();
    if (i < plan.arrive_s.size()) job.arrives = nanoseconds(plan.arrive_s[i] * 1e9);
    job.service = folder / "service.sock";
    job.dataset = "pictures";
    job.batch = plan.batch;
    job.epochs = plan.epochs;
    job.compute = nanoseconds(plan.compute_ms[i] * 1e6);
  }
  const Clock::time_point begin = Clock::now();
  result.jobs = toys::run_toys(jobs, static_cast<std::uint32_t>(jobs.size()), [] { return false; });
  result.total_s = seconds_since(begin);
  result.status = ask_status(folder);
  kill(service, SIGTERM);
  waitpid(service, nullptr, 0);
  for (const toys::ToyOutcome& job : result.jobs) {
    if (job.result.state != "done")
      throw std::runtime_error(fmt::format("a job failed: {}{}", job.result.refusal, job.wrong));
  }
  return result;
}

double all_samples_per_s(const Served& result) {
  double sum = 0;
  for (const toys::ToyOutcome& job : result.jobs) sum += job.result.samples_per_s;
  return sum;
}

std::string job_name(const Plan& plan, std::size_t job) {
  return fmt::format("{} ms a batch of {}", plan.compute_ms[job], plan.batch);
}

std::string title_of(const std::string& preset) {
  return preset == "independent"
             ? "Without sharing (preset independent): each job prepares for itself"
         : preset == "default" ? "With BatchFlow (preset default): prepared for all together"
                               : preset;
}

void print(const Served& result, const Plan& plan) {
  std::printf("%s\n", title_of(result.preset).c_str());
  std::printf("  %-28s %10s %10s %10s %11s %8s\n", "job", "samples/s", "seconds", "stalled",
              "first batch", "repeats");
  for (std::size_t i = 0; i < result.jobs.size(); ++i) {
    const output::JobResult& job = result.jobs[i].result;
    std::printf("  %-28s %10.1f %10.2f %9.1f%% %9.2f s %8llu\n", job_name(plan, i).c_str(),
                job.samples_per_s, job.time_s, 100 * job.stall_s / std::max(1e-9, job.time_s),
                job.first_batch_s, static_cast<unsigned long long>(result.jobs[i].repeats));
  }
  const double prepared = result.status.value("prepared_samples", 0.0);
  double samples = 0;
  for (const toys::ToyOutcome& job : result.jobs)
    samples += static_cast<double>(job.result.samples);
  std::printf(
      "  %.0f samples delivered, %.0f prepared (%.2f each), %.1f MB read; %.2f s in all\n\n",
      samples, prepared, prepared / std::max(1.0, samples),
      result.status.value("read_bytes", 0.0) / 1e6, result.total_s);
}

void write_page(const std::vector<Served>& results, const Plan& plan) {
  std::vector<std::string> jobs;
  for (std::size_t i = 0; i < plan.compute_ms.size(); ++i) jobs.push_back(job_name(plan, i));
  std::vector<live::Bars> ways;
  for (const Served& result : results) {
    live::Bars& way = ways.emplace_back();
    way.served = title_of(result.preset);
    way.prepared = result.status.value("prepared_samples", 0.0);
    way.total_s = result.total_s;
    for (const toys::ToyOutcome& job : result.jobs)
      way.samples_per_s.push_back(job.result.samples_per_s);
  }
  std::ofstream out(plan.html);
  out << live::chart_page(jobs, ways);
  if (!out.flush()) throw std::runtime_error(plan.html + ": cannot be written");
}

nlohmann::json to_json(const Served& result) {
  nlohmann::json one = {{"policies", {{"preset", result.preset}}},
                        {"makespan_s", result.total_s},
                        {"aggregate",
                         {{"samples_per_s", all_samples_per_s(result)},
                          {"preparations", result.status["prepared_samples"]},
                          {"storage_bytes", result.status["read_bytes"]}}},
                        {"jobs", nlohmann::json::array()}};
  for (const toys::ToyOutcome& job : result.jobs)
    one["jobs"].push_back({{"samples", job.result.samples},
                           {"time_s", job.result.time_s},
                           {"stall_s", job.result.stall_s},
                           {"first_batch_s", job.result.first_batch_s},
                           {"repeats", job.repeats}});
  return one;
}

int serve(int argc, char** argv) {
  Plan plan;
  CLI::App app("Toy jobs on a live service of this machine.", "batchflow-live");
  app.add_option("--data", plan.data, "A folder of pictures in class folders; default: made ones");
  app.add_option("--pictures", plan.pictures, "How many are made")->check(CLI::Range(1, 10000000));
  app.add_option("--quality", plan.quality, "Of their JPEG")->check(CLI::Range(1, 100));
  app.add_option("--compute-ms", plan.compute_ms,
                 "Computing time of each job for a batch: 10,40 are two jobs")
      ->delimiter(',');
  app.add_option("--arrive-s", plan.arrive_s, "When each job comes; default: at once")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--batch", plan.batch, "Samples of a batch")->check(CLI::Range(1, 4096));
  app.add_option("--epochs", plan.epochs, "Epochs of each job")->check(CLI::Range(1, 1000000));
  app.add_option("--pipeline", plan.pipeline, "How pictures are prepared");
  app.add_option("--presets", plan.presets, "Policies to compare")->delimiter(',');
  app.add_option("--memory", plan.memory, "Memory of the service");
  app.add_option("--config", plan.config, "The node file of the service")->check(CLI::ExistingFile);
  app.add_option("--workers", plan.workers, "Threads that prepare; 0: one a core");
  app.add_option("--json", plan.json, "Write results there");
  app.set_version_flag("--version", version::version_text("batchflow-live"));
  app.add_option("--html", plan.html, "Write a page with a chart there");
  app.add_flag("--check", plan.check, "Fail unless all jobs had each sample once an epoch");
  if (const auto status = output::command_line_ends(app, argc, argv)) return *status;
  const test::TemporaryFolder temporary;
  const fs::path& folder = temporary.path();
  fs::path data = plan.data;
  if (plan.data.empty()) {
    data = folder / "pictures";
    make_pictures(data, plan);
    std::printf("%u pictures of %d x %d\n\n", plan.pictures, plan.width, plan.height);
  }
  std::fflush(stdout);
  std::vector<Served> results;
  for (const std::string& preset : plan.presets) {
    results.push_back(run(folder, data, plan, preset));
    print(results.back(), plan);
    std::fflush(stdout);
  }
  if (results.size() == 2) {
    std::printf("All jobs together: %.1f and %.1f samples/s, %.2fx\n",
                all_samples_per_s(results[0]), all_samples_per_s(results[1]),
                all_samples_per_s(results[1]) / all_samples_per_s(results[0]));
  }
  if (!plan.json.empty()) {
    nlohmann::json all = {{"runs", nlohmann::json::array()}};
    for (const Served& result : results) all["runs"].push_back(to_json(result));
    std::ofstream(plan.json) << all.dump(2) << "\n";
  }
  if (!plan.html.empty()) write_page(results, plan);
  bool well = true;
  for (const Served& result : results) {
    for (const toys::ToyOutcome& job : result.jobs)
      well = well && job.wrong.empty() && job.repeats == 0;
  }
  if (plan.check && !well)
    std::fprintf(stderr, "batchflow-live: a job did not have each sample once\n");
  return plan.check && !well ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return serve(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "batchflow-live: %s\n", error.what());
    return 1;
  }
}
