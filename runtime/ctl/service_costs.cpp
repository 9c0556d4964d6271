#include "runtime/ctl/service_costs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "core/base/config_value.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/service_client.h"
#include "runtime/toys/toy_job.h"

extern char** environ;

namespace batchflow::ctl {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A folder that goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "batchflow-calibrate-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw ConfigError(fmt::format("{}: {}", pattern, std::strerror(errno)));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Seconds of processor time by the names of threads.
using ThreadTimes = std::map<std::string, double>;

// A service that ends with it.
class OwnService {
 public:
  OwnService(const fs::path& program, const fs::path& folder, unsigned workers,
             const std::string& preset)
      : socket_((folder / "s").string()), log_((folder / "log").string()) {
    std::vector<std::string> words = {program.string(),
                                      "--socket",
                                      socket_,
                                      "--state",
                                      (folder / "state").string(),
                                      "--open-datasets",
                                      "--http",
                                      "-1",
                                      "--exit-when-idle",
                                      "30",
                                      "--memory",
                                      "512mib",
                                      "--workers",
                                      std::to_string(workers),
                                      "--policy",
                                      "preset=" + preset};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log_.c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    const int failed =
        posix_spawn(&process_, words[0].c_str(), &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) throw ConfigError(fmt::format("{}: {}", words[0], std::strerror(failed)));
    const auto until = std::chrono::steady_clock::now() + 30s;
    for (;;) {
      try {
        status();
        return;
      } catch (const Failure&) {
      }
      const bool ended = waitpid(process_, nullptr, WNOHANG) == process_;
      if (ended) process_ = 0;
      if (ended || std::chrono::steady_clock::now() > until) {
        const std::string why = said();
        end();
        throw ConfigError("the service for this measurement did not begin: " + why);
      }
      std::this_thread::sleep_for(20ms);
    }
  }
  ~OwnService() { end(); }
  OwnService(const OwnService&) = delete;
  OwnService& operator=(const OwnService&) = delete;

  const std::string& socket() const { return socket_; }
  nlohmann::json status() { return ServiceClient(socket_).ask("status"); }

  ThreadTimes thread_times() const {
    ThreadTimes times;
    std::error_code error;
    for (const auto& thread :
         fs::directory_iterator(fmt::format("/proc/{}/task", process_), error)) {
      std::string name;
      double ns = 0;
      std::getline(std::ifstream(thread.path() / "comm"), name);
      std::ifstream(thread.path() / "schedstat") >> ns;
      times[name] += ns * 1e-9;
    }
    return times;
  }

 private:
  std::string said() const {
    std::ifstream log(log_);
    std::string line, last;
    while (std::getline(log, line)) last = line;
    return last.empty() ? "it said nothing" : last;
  }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGTERM);
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (waitpid(process_, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) kill(process_, SIGKILL);
      std::this_thread::sleep_for(10ms);
    }
    process_ = 0;
  }

  std::string socket_, log_;
  pid_t process_ = 0;
};

double own_cpu_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// What was used while one job ran through the dataset once, or for as long as it had. All that it
// prepared was read, since hardly anything was kept before.
struct Used {
  double opens_s = 0, prepare_s = 0, read_s = 0, copy_s = 0, other_s = 0;
  double samples = 0, prepared = 0, operations = 0, read_bytes = 0, grown_bytes = 0;
};

class Measurement {
 public:
  Measurement(const ServiceCostsOptions& options, const fs::path& program,
              const std::string& preset = "default")
      : options_(options), service_(program, folder_.path(), options.workers, preset) {}

  // Begins with nothing kept; what it costs to have memory for the first time is seen beside a
  // second time.
  Used first(std::uint32_t batch) {
    const double opening_s = job(batch, 1).first_batch_s;
    Used used = run(batch);
    used.opens_s = std::max(0.0, opening_s - job(batch, 1).first_batch_s);
    return used;
  }
  Used run(std::uint32_t batch) {
    const double own_before = own_cpu_s();
    const ThreadTimes threads_before = service_.thread_times();
    const nlohmann::json before = service_.status();
    Used used;
    used.samples = static_cast<double>(job(batch, 0).samples);
    used.other_s = own_cpu_s() - own_before;
    const nlohmann::json after = service_.status();
    for (const auto& [name, cpu_s] : service_.thread_times()) {
      const auto was = threads_before.find(name);
      if (name == "bf-unmap") continue;  // of memory that is given back: beside all else
      (name == "bf-prepare" ? used.prepare_s
       : name == "bf-read"  ? used.read_s
       : name == "bf-copy"  ? used.copy_s
                            : used.other_s) +=
          cpu_s - (was == threads_before.end() ? 0 : was->second);
    }
    const auto grown = [&](const char* key) { return number(after, key) - number(before, key); };
    used.prepared = grown("prepared_samples");
    used.read_bytes = grown("read_bytes");
    used.operations = grown("device_reads");
    used.grown_bytes = grown("used_bytes");
    return used;
  }

 private:
  // 0 steps: as many as it takes in the time that there is.
  output::JobResult job(std::uint32_t batch, std::uint64_t steps) {
    toys::ToyJob job;
    job.service = service_.socket();
    job.dataset = options_.dataset;
    job.pipeline = options_.pipeline;
    job.batch = batch;
    job.steps = steps;
    job.has_shuffle_seed = true;
    job.shuffle_seed = ++jobs_;  // an order of its own
    job.leaves_after = std::chrono::nanoseconds(static_cast<std::int64_t>(options_.seconds * 1e9));
    const std::vector<toys::ToyOutcome> outcomes =
        toys::run_toys({&job, 1}, 1, [this] { return options_.stop && options_.stop(); });
    output::JobResult result = outcomes[0].result;
    if (result.state == "refused")
      throw ConfigError("the service for this measurement refused the job: " + result.refusal);
    return result;
  }

  const ServiceCostsOptions& options_;
  TemporaryFolder folder_;
  OwnService service_;
  std::uint64_t jobs_ = 0;
};

double each(double whole, double count) {
  return count > 0 ? whole / count : 0;
}

}  // namespace

std::optional<ServiceCosts> measure_service_costs(const ServiceCostsOptions& options) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path() / "batchflowd";
  if (error || access(program.c_str(), X_OK) != 0) return std::nullopt;
  constexpr std::uint32_t kMany = 64, kFew = 2;
  Measurement with_many(options, program);
  const Used cold = with_many.first(kMany);
  const Used many = with_many.run(kMany);
  Measurement with_few(options, program);
  with_few.first(kFew);
  const Used few = with_few.run(kFew);
  ServiceCosts costs;
  costs.workers = options.workers;
  costs.opens_s = cold.opens_s;
  // This preset keeps nothing decoded, so each sample is prepared from its stored bytes; the second
  // time no memory is new.
  Measurement from_stored(options, program, "independent");
  from_stored.first(kMany);
  const Used stored = from_stored.run(kMany);
  costs.prepare_s = each(stored.prepare_s, stored.prepared);
  costs.read_s = each(cold.read_s, cold.operations);
  costs.copy_s_per_byte = each(cold.copy_s, cold.read_bytes);
  // The samples cost the same in both runs, and there are so many times as many batches.
  const double of_many = each(many.other_s, many.samples), of_few = each(few.other_s, few.samples);
  costs.batch_s = std::max(0.0, (of_few - of_many) / (1.0 / kFew - 1.0 / kMany));
  costs.sample_s = std::max(0.0, of_many - costs.batch_s / kMany);
  if (cold.grown_bytes > 0)
    costs.touch_s_per_byte =
        std::max(0.0, (cold.other_s - of_many * cold.samples) / cold.grown_bytes);
  return costs;
}

}  // namespace batchflow::ctl
