#include "runtime/ctl/live_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <system_error>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "core/order/permutation.h"
#include "nlohmann/json.hpp"
#include "programs/output/output.h"
#include "runtime/client/c_interface.h"
#include "runtime/sources/npy.h"

namespace batchflow::ctl {
namespace {

constexpr std::uint32_t kRanksMost = 256;  // a thread each

bf_order order_of(const input::JobModel& job) {
  if (const auto option = client::option_of(job.order)) return *option;
  throw ConfigError(
      fmt::format("job '{}': a listed order cannot run live; write strict or relaxed", job.name));
}

void check(const input::Scenario& scenario) {
  std::uint64_t ranks = 0;
  for (const input::JobModel& job : scenario.jobs) {
    ranks += job.ranks;
    if (job.exemplars > BF_EXEMPLARS_MOST)
      throw ConfigError(
          fmt::format("job '{}': {} exemplars, and a live buffer holds {}; write fewer", job.name,
                      job.exemplars, int{BF_EXEMPLARS_MOST}));
    if (job.mixture.sources > 0)
      throw ConfigError(fmt::format(
          "job '{}': mixtures of a scenario are only simulated; leave it out with mixture: {{}}",
          job.name));
    if (job.order == Order::live)
      throw ConfigError(fmt::format(
          "job '{}': its dataset grows, which is only simulated; make a feed of the service and "
          "read it by batchflow.Live",
          job.name));
    if (job.importance.reports())
      throw ConfigError(fmt::format(
          "job '{}': scores are only simulated; leave them out with importance: {{}}", job.name));
  }
  if (ranks > kRanksMost)
    throw ConfigError(
        fmt::format("{} ranks in all, each a thread, and {} are the most; simulate it, "
                    "or leave jobs out",
                    ranks, kRanksMost));
  if (!scenario.faults.empty())
    throw ConfigError("faults are only simulated; leave them out with --set faults=[]");
  if (scenario.scheduler != input::Scheduler::fifo)
    throw ConfigError("GPUs go to the job that comes first; write --set scheduler=fifo");
  if (scenario.grain.epochs_per_block > 1)
    throw ConfigError(
        "blocks of several epochs are only simulated; write --set grain.epochs_per_block=1");
}

// A buffer at random, of the dataset as the scenario has it; it differs from the simulated one.
std::vector<std::uint64_t> exemplars_of(const input::Scenario& scenario, std::size_t job) {
  const input::JobModel& model = scenario.jobs[job];
  const order::Permutation chosen(
      hash(scenario.seed, job), scenario.datasets[static_cast<std::size_t>(model.dataset)].samples);
  std::vector<std::uint64_t> keys(model.exemplars);
  chosen.fill(0, keys);
  return keys;
}

void write_samples(const std::filesystem::path& file, const input::DatasetModel& dataset) {
  // One row for each sample.
  const std::string head =
      sources::npy_head("|u1", fmt::format("({}, {})", dataset.samples, dataset.bytes));
  const Bytes size = dataset.samples * dataset.bytes;
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    if (std::filesystem::file_size(file, error) == head.size() + size) return;
    throw ConfigError(
        fmt::format("{}: is there, and has another size than the scenario says; remove it, "
                    "or name another folder",
                    file.string()));
  }
  std::filesystem::create_directories(file.parent_path(), error);
  output::write_file_atomically(file.string(), [&](const output::Sink& sink) {
    sink(head);
    Random random(hash(dataset.samples, dataset.bytes));
    std::string piece(std::size_t{1} << 16, '\0');
    for (Bytes left = size; left > 0;) {
      for (std::size_t at = 0; at < piece.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.draw();
        std::memcpy(piece.data() + at, &word, sizeof word);
      }
      const auto part = static_cast<std::size_t>(std::min<Bytes>(left, piece.size()));
      sink(std::string_view(piece).substr(0, part));
      left -= part;
    }
  });
}

}  // namespace

std::vector<toys::ToyJob> make_toys(const input::Scenario& scenario, const LiveNames& names,
                                    const std::string& service, double time_scale) {
  check(scenario);
  const auto scaled = [time_scale](Duration duration) {
    return Duration(std::llround(static_cast<double>(duration.count()) * time_scale));
  };
  std::vector<toys::ToyJob> toys;
  for (const input::JobModel& job : scenario.jobs) {
    toys::ToyJob& toy = toys.emplace_back();
    toy.service = service;
    toy.name = fmt::format("{}-{}", job.name, getpid());  // differs from those of another run
    toy.dataset = names.dataset(scenario.datasets[static_cast<std::size_t>(job.dataset)].name);
    toy.pipeline = names.pipeline(scenario.pipelines[static_cast<std::size_t>(job.pipeline)].name);
    toy.order = order_of(job);
    toy.has_shuffle_seed = job.has_shuffle_seed;
    toy.shuffle_seed = job.shuffle_seed;
    toy.node_local = job.node_local;
    toy.runs = job.runs;
    toy.rehearsed = job.rehearsed;
    if (!job.rehearsal_policy.empty()) {
      toy.buffer_exemplars = job.exemplars;
      toy.buffer_policy = job.rehearsal_policy;
    } else if (job.exemplars > 0) {
      toy.exemplars = exemplars_of(scenario, toys.size() - 1);
    }
    toy.drop_last = job.drop_last;
    toy.batch = job.batch;
    toy.ranks = job.ranks;
    toy.epochs = job.epochs;
    toy.steps = job.steps;
    toy.credits = job.credits;
    toy.weight = job.weight;
    toy.latency_target_s = std::chrono::duration<double>(job.latency_target).count();
    toy.compute = scaled(job.step);
    toy.arrives = scaled(job.arrives.time_since_epoch());
    toy.start_up = scaled(job.start_up);
    toy.leaves_after = scaled(job.leaves_after);
  }
  return toys;
}

std::map<std::string, std::string> make_data(const input::Scenario& scenario,
                                             const std::filesystem::path& folder, Bytes most) {
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / (1 << 20); };
  Bytes all = 0;
  for (const input::DatasetModel& dataset : scenario.datasets) {
    Bytes size = 0;
    if (dataset.bytes == 0)
      throw ConfigError(fmt::format(
          "dataset '{}': its samples have no bytes; there is nothing to make", dataset.name));
    if (dataset.name.empty() || dataset.name.front() == '.' ||
        dataset.name.find('/') != std::string::npos)
      throw ConfigError(fmt::format("dataset '{}': a folder cannot have this name; choose another",
                                    dataset.name));
    if (__builtin_mul_overflow(dataset.samples, dataset.bytes, &size) ||
        __builtin_add_overflow(all, size, &all))
      all = UINT64_MAX;
    if (all > most)
      throw ConfigError(fmt::format(
          "dataset '{}': with {} samples of {} bytes, {:.1f} MiB would be made, and at most "
          "{:.1f} are allowed; raise --make-most, or make it smaller with --set "
          "datasets.N.samples=COUNT",
          dataset.name, dataset.samples, dataset.bytes, mib(all), mib(most)));
  }
  std::map<std::string, std::string> made;
  for (const input::DatasetModel& dataset : scenario.datasets) {
    const std::filesystem::path path = std::filesystem::absolute(folder) / dataset.name;
    write_samples(path / "samples.npy", dataset);
    made[dataset.name] = path.lexically_normal().string();
  }
  return made;
}

}  // namespace batchflow::ctl
