#include "runtime/ctl/whatif.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/config_value.h"
#include "core/base/names.h"
#include "core/engine/engine_config.h"
#include "core/engine/preset.h"
#include "fmt/format.h"
#include "policies/registry.h"
#include "programs/output/output.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kWarmMost = 1800;  // simulated seconds that caches are warmed

template <class Whole>
Whole whole(const json& from, const char* key) {
  return static_cast<Whole>(std::max(0., number(from, key)));
}

std::string configuration_of(const json& status) {
  std::string all = fmt::format("preset={}\n", text(status, "preset"));
  for (const char* part : {"policies", "settings"}) {
    for (const auto& [key, value] : object(status, part).items()) {
      if (!value.is_string() || key == "preset") continue;
      all += fmt::format("{}{}={}\n", std::string_view(part) == "policies" ? "policies." : "", key,
                         value.get<std::string>());
    }
  }
  return all;
}

// The costs that the service expects, scaled to the core time that preparation took.
double cost_factor(const json& status) {
  double expected = 0, samples = 0;
  const double prepared = number(status, "prepared_samples");
  if (prepared <= 0) return 0;
  const double decoded = std::min(1., number(status, "decoded_hits") / prepared);
  for (const json& job : list(status, "jobs")) {
    const json& model = object(job, "model");
    const double weight = std::max(1., number(job, "samples"));
    expected += weight * (number(model, "augment_s") + (1 - decoded) * number(model, "decode_s"));
    samples += weight;
  }
  return expected > 0 ? number(status, "preparing_s") / prepared / (expected / samples) : 0;
}

std::optional<input::ObservedStore> store_of(const json& status) {
  const double reads = number(status, "device_reads");
  const double busy_s = number(status, "storage_busy_s");
  const double reads_s = number(status, "reads_s");
  if (reads <= 0 || busy_s <= 0) return std::nullopt;
  constexpr double kMany = 1.5;  // blocks that are read at once, in the mean
  const bool is_limit = reads_s > kMany * busy_s;
  return input::ObservedStore{std::max(busy_s, reads_s) / reads,
                              is_limit ? number(status, "read_bytes") / busy_s : 0};
}

// Its times and what it asked for; how long it goes on is found when all are there.
input::ObservedJob job_of(const json& job) {
  const json& model = object(job, "model");
  input::ObservedJob one;
  one.name = text(job, "name");
  one.user = fmt::format("user-{}", whole<std::uint64_t>(job, "user"));
  one.order = order_named(text(model, "order")).value_or(Order::relaxed);
  one.keyed = flag(model, "keyed");
  if (const auto seed = model.find("shuffle_seed"); seed != model.end() && seed->is_number())
    one.shuffle_seed = seed->get<std::uint64_t>();
  one.batch = std::max(1U, whole<std::uint32_t>(job, "batch_samples"));
  one.ranks = std::max(1U, whole<std::uint32_t>(job, "ranks"));
  one.drop_last = flag(model, "drop_last");
  one.node_local = flag(model, "node_local");
  one.runs = flag(model, "runs");
  one.rehearsed = whole<std::uint32_t>(model, "rehearsed");
  one.exemplars = whole<std::uint32_t>(model, "exemplars");
  one.credits = whole<std::uint32_t>(model, "credits");
  one.weight = std::max(1e-6, number(model, "weight"));
  one.latency_target = Duration(static_cast<std::int64_t>(1e9 * number(model, "latency_target_s")));
  const double batches = number(model, "consumed_batches");
  const double mean = batches > 0 ? number(job, "compute_s") / batches : 0;
  one.step_s = mean;
  if (batches > 1 && mean > 0) {
    const double variance = number(model, "compute_squares_s2") / batches - mean * mean;
    one.step_jitter = std::sqrt(std::max(0., variance)) / mean;
  }
  return one;
}

// How fast a job is.
struct Pace {
  double epoch_steps;
  double steps_to_go;  // 0: it did not say
  double step_s;       // with what it waits
};

input::ObservedDataset observed_dataset(const std::string& name, const json& from) {
  input::ObservedDataset dataset;
  dataset.name = name;
  dataset.samples = std::max<std::uint64_t>(1, whole<std::uint64_t>(from, "samples"));
  dataset.bytes = std::max<Bytes>(1, whole<Bytes>(from, "bytes") / dataset.samples);
  for (auto bundle = whole<std::uint64_t>(from, "bundle_samples"); bundle > 1; bundle /= 2)
    ++dataset.bundle_shift;
  return dataset;
}

// `factor` scales its costs; 0: none were measured.
input::ObservedPipeline observed_pipeline(const json& job, double factor) {
  const json& model = object(job, "model");
  input::ObservedPipeline pipeline;
  pipeline.name = text(job, "pipeline").substr(0, 40);
  pipeline.decoded_bytes = whole<Bytes>(model, "decoded_bytes");
  pipeline.prepared_bytes = std::max<Bytes>(1, whole<Bytes>(model, "prepared_bytes"));
  pipeline.was_measured = factor > 0;
  pipeline.decode_s = number(model, "decode_s") * (factor > 0 ? factor : 1);
  pipeline.augment_s = number(model, "augment_s") * (factor > 0 ? factor : 1);
  return pipeline;
}

// Adds the jobs that run, with their datasets and pipelines. Answers how fast each is.
std::vector<Pace> add_jobs(const json& status, input::ObservedWorkload& workload) {
  const double factor = cost_factor(status);
  std::map<std::string, const json*> datasets;
  for (const json& dataset : list(status, "datasets")) datasets[text(dataset, "name")] = &dataset;
  std::map<std::string, std::size_t> dataset_of;
  std::map<std::pair<std::size_t, std::string>, std::size_t> pipeline_of;
  std::vector<Pace> paces;
  for (const json& job : list(status, "jobs")) {
    const std::string name = output::printable(text(job, "name"));
    if (!flag(job, "running") || flag(job, "left")) {
      workload.notes.push_back(fmt::format("job {} does not run now, and is left out", name));
      continue;
    }
    const auto found = datasets.find(text(job, "dataset"));
    if (found == datasets.end()) {
      workload.notes.push_back(
          fmt::format("job {} reads a dataset that is not shown, and is left out", name));
      continue;
    }
    const json& model = object(job, "model");
    if (model.empty())
      throw ConfigError(
          "the service does not tell what its jobs asked for; it is of an older version: start it "
          "anew with the version of batchflowctl");
    input::ObservedJob one = job_of(job);
    const auto [data, is_new] = dataset_of.try_emplace(found->first, workload.datasets.size());
    if (is_new) workload.datasets.push_back(observed_dataset(found->first, *found->second));
    one.dataset = data->second;
    const auto [pipe, is_first] =
        pipeline_of.try_emplace({one.dataset, text(job, "pipeline")}, workload.pipelines.size());
    if (is_first) workload.pipelines.push_back(observed_pipeline(job, factor));
    one.pipeline = pipe->second;
    const double step_samples =
        static_cast<double>(one.batch - std::min(one.rehearsed, one.batch - 1)) * one.ranks;
    const double batches = std::max(1., number(model, "consumed_batches"));
    paces.push_back(
        {std::max(1., std::ceil(static_cast<double>(workload.datasets[one.dataset].samples) /
                                step_samples)),
         number(model, "steps_to_go"), one.step_s + number(job, "wait_s") / batches});
    workload.jobs.push_back(one);
  }
  return paces;
}

// How many steps each job has in the time until caches are warm, and in the hours behind it.
void set_lengths(input::ObservedWorkload& workload, const std::vector<Pace>& paces, double warm_s,
                 double hours_s) {
  for (std::size_t i = 0; i < workload.jobs.size(); ++i) {
    input::ObservedJob& job = workload.jobs[i];
    constexpr double kStepsMost = 1e9;
    const double step_s = std::max(job.step_s, 1e-6);
    const double in_hours = std::ceil(hours_s / step_s) + 1;
    const double steps =
        std::ceil(warm_s / std::max(step_s, paces[i].step_s)) +
        (paces[i].steps_to_go > 0 ? std::min(paces[i].steps_to_go, in_hours) : in_hours);
    job.steps = static_cast<std::uint64_t>(std::min(kStepsMost, std::max(1., steps)));
    job.epochs = static_cast<std::uint32_t>(
        std::min(1e6, std::ceil(static_cast<double>(job.steps) / paces[i].epoch_steps) + 1));
  }
}

}  // namespace

ComingHours coming_hours(const json& status, double hours) {
  ComingHours coming;
  input::ObservedWorkload& workload = coming.workload;
  workload.name = "the-coming-hours";
  workload.seed = std::max<std::uint64_t>(1, whole<std::uint64_t>(status, "seed"));
  workload.configuration = configuration_of(status);
  // The engine counts what reads land in, too, in the memory that it is told of.
  const json& settings = object(status, "settings");
  const Bytes staging = text(settings, "count_staging") == "true"
                            ? parse_unsigned(text(settings, "staging_bytes")).value_or(0)
                            : 0;
  workload.nodes.push_back({std::max(1U, whole<std::uint32_t>(status, "workers_most")),
                            whole<Bytes>(status, "planned_bytes") + staging,
                            whole<Bytes>(status, "spill_limit_bytes")});
  workload.store = store_of(status);
  const std::vector<Pace> paces = add_jobs(status, workload);
  if (workload.jobs.empty()) throw ConfigError("no job runs, so nothing can be foretold");
  const double hours_s = 3600 * hours;
  // Caches are warm after an epoch.
  for (const Pace& pace : paces)
    coming.warm_s = std::max(coming.warm_s, pace.epoch_steps * pace.step_s);
  coming.warm_s = std::min({coming.warm_s, kWarmMost, hours_s});
  set_lengths(workload, paces, coming.warm_s, hours_s);
  workload.ends_after = Duration(static_cast<std::int64_t>(1e9 * (coming.warm_s + hours_s)));
  workload.notes.push_back(fmt::format(
      "all jobs begin an epoch with cold caches, and what counts is what comes after {:.3g} s",
      coming.warm_s));
  workload.notes.push_back("no job is foreseen that does not run now");
  return coming;
}

std::vector<std::string> usual_candidates(const std::string& present) {
  constexpr const char* kUsual[] = {"default", "fixed",           "coordl", "joader",
                                    "cachew",  "tf-data-service", "silod",  "independent"};
  std::vector<std::string> all;
  for (const char* name : kUsual) {
    engine::EngineConfig config;
    engine::apply_preset(config, name);
    bool is_live = name != present;
    engine::visit_policies(config.policies, [&](std::string_view kind, const std::string& policy) {
      const engine::PolicyChoice choice =
          policies::policy_list().choose(engine::policy_name(kind).kind, policy);
      is_live = is_live && !choice.entry->clairvoyant && !choice.entry->simulated_only;
    });
    if (is_live) all.emplace_back(name);
  }
  return all;
}

// ------------------------------------------------------------------------------ simulations ----

namespace {

// A folder of its own, removed with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "batchflow-whatif-XXXXXX").string();
    if (error || mkdtemp(name.data()) == nullptr)
      throw Failure(
          fmt::format("{}: no folder can be made there: {}; set TMPDIR to one that can "
                      "be written",
                      name, std::strerror(errno)));
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path file(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

// Its exit code. While it runs, an interrupt ends it, too.
int run_program(const fs::path& program, std::vector<std::string> words) {
  words.insert(words.begin(), program.string());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, program.c_str(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0)
    throw Failure(fmt::format("{} cannot be started: {}", program.string(), std::strerror(failed)));
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) throw Failure("the simulator is gone");
    if (output::was_interrupted()) {
      kill(process, SIGTERM);
      waitpid(process, &status, 0);
      throw output::Interrupted();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

json simulate_whatif(const std::string& scenario, const std::vector<std::string>& words) {
  std::error_code error;
  const fs::path program =
      fs::read_symlink("/proc/self/exe", error).parent_path() / "batchflow-sim";
  if (error || access(program.c_str(), X_OK) != 0)
    throw ConfigError(fmt::format(
        "{}: the simulator is not installed beside batchflowctl; install it, or take the journal "
        "to a machine that has it: batchflow-sim journal whatif FILE",
        program.string()));
  const ScratchFolder folder;
  const fs::path from = folder.file("scenario.yaml"), to = folder.file("answer.json");
  output::write_file_atomically(from.string(), scenario, output::check_interrupted);
  std::vector<std::string> all = {"whatif", from.string(), "--json=" + to.string()};
  all.insert(all.end(), words.begin(), words.end());
  const int code = run_program(program, std::move(all));
  std::ifstream file(to);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  json answer = json::parse(text, nullptr, false);
  if (!answer.is_object()) {
    // It has said on standard error what is wrong.
    const std::string why = fmt::format("batchflow-sim ended with {} and no results", code);
    if (code == 2) throw ConfigError(why);
    throw Failure(why);
  }
  return answer;
}

// ---------------------------------------------------------------------------- what was lived ----

LiveFigures live_figures(const json& before, const json& now) {
  const auto grown = [&](const char* key) {
    return std::max(0., number(now, key) - number(before, key));
  };
  LiveFigures figures;
  figures.span_s = grown("up_s");
  if (figures.span_s > 0) figures.samples_per_s = grown("samples") / figures.span_s;
  const double waited = grown("wait_s"), all = waited + grown("compute_s");
  if (all > 0) figures.stall_fraction = waited / all;
  return figures;
}

fs::path applied_file(const json& status) {
  const std::string state = text(status, "state");
  if (state.empty())
    throw Failure(
        "the service does not show its state folder to this user; run it as the service's user");
  return fs::path(state) / "whatif.jsonl";
}

void append_applied(const fs::path& file, const json& applied) {
  const std::string line = applied.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  const int to = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  // One write to the end of a file: two that append at once do not mix.
  const bool written =
      to >= 0 && write(to, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  if (to >= 0) close(to);
  if (!written)
    throw Failure(
        fmt::format("{}: cannot be written: {}; the policy is set, and it is not "
                    "remembered why",
                    file.string(), std::strerror(error)));
}

Applied read_applied(const fs::path& file) {
  Applied applied;
  std::ifstream from(file);
  for (std::string line; std::getline(from, line);) {
    json one = json::parse(line, nullptr, false);
    if (one.is_object()) {
      applied.all.push_back(std::move(one));
    } else if (!line.empty()) {
      ++applied.unreadable;
    }
  }
  return applied;
}

}  // namespace batchflow::ctl
