// A job of several ranks, each in a process of its own, as a launcher runs them: where a rank ends
// too early, or is killed, all are killed, and begin again with the last state that all have
// written.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <string_view>

#include "tests/runtime/service/faulty_job.h"

namespace batchflow::test {

// What a rank has written: a line for each step, of its epoch, its samples and the state after it.
struct RankSteps {
  struct Step {
    std::uint32_t epoch = 0;
    std::vector<std::uint64_t> samples;
    std::string state;
    std::string line;
  };
  std::vector<Step> steps;

  // A line that was cut short when the process was killed counts for nothing.
  static RankSteps read(const std::string& file) {
    RankSteps all;
    std::ifstream in(file);
    Step step;
    while (std::getline(in, step.line) && !in.eof()) {
      std::istringstream fields(step.line);
      std::size_t count = 0;
      fields >> step.epoch >> count;
      step.samples.resize(count);
      for (std::uint64_t& sample : step.samples) fields >> sample;
      fields.ignore();
      std::getline(fields, step.state);
      all.steps.push_back(step);
    }
    return all;
  }
  void write(const std::string& file) const {
    std::ofstream out(file);
    for (const Step& step : steps) out << step.line << "\n";
  }
};

// Trains until the end (0), or until it is told that it cannot go on (3): then the reason is in
// `file`.told.
inline int train_rank(const FaultyJob& job, std::uint32_t rank, const std::string& file,
                      const std::string& state) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = job.service.c_str();
  options.dataset = job.dataset.c_str();
  options.job = job.name.c_str();
  options.batch_samples = 37;
  options.order = job.order;
  options.epochs = job.epochs;
  options.rank = rank;
  options.world_size = job.ranks;
  options.timeout_s = 20;
  options.reconnect_s = 20;
  if (!state.empty()) options.state = state.c_str();
  const auto told = [&](const char* what) {
    std::ofstream(file + ".told", std::ios::app) << what << bf_last_error() << "\n";
    return 3;
  };
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) return told("open: ");
  std::ofstream out(file, std::ios::app);
  for (;;) {
    bf_batch batch = BF_BATCH_INIT;
    const bf_status status = bf_loader_next(loader, &batch);
    if (status == BF_END) break;
    if (status == BF_NO_MEMORY || status == BF_TIMEOUT) {
      told("next: ");
      continue;
    }
    const char* after = nullptr;
    if (status != BF_OK || bf_loader_state(loader, &after) != BF_OK) return told("next: ");
    std::vector<std::uint64_t> samples;
    for (std::uint32_t i = 0; i < batch.samples; ++i)
      if ((batch.marks[i] & BF_MARK_FILLER) == 0) samples.push_back(batch.wanted[i]);
    out << fmt::format("{} {} {} {}\n", batch.epoch, samples.size(), fmt::join(samples, " "), after)
        << std::flush;
    bf_batch_release(loader, batch.handle);
  }
  bf_loader_close(loader);
  return 0;
}

class FaultyRanks {
 public:
  FaultyRanks(const FaultyJob& job, std::string file) : job_(job), file_(std::move(file)) {}
  ~FaultyRanks() { kill_all(); }

  void start(const std::string& failpoints) {
    std::string state;
    if (const std::size_t common = keep_common(); common > 0)
      state = RankSteps::read(file_of(0)).steps[common - 1].state;
    processes_.assign(job_.ranks, -1);
    for (std::uint32_t rank = 0; rank < job_.ranks; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(90);
        if (!failpoints.empty()) setenv("BATCHFLOW_CLIENT_FAILPOINTS", failpoints.c_str(), 1);
        _exit(train_rank(job_, rank, file_of(rank), state));
      }
      processes_[rank] = child;
    }
  }

  // Whether a rank has ended. If it ended too early, all begin anew, without failpoints.
  bool look(int& killed) {
    for (pid_t& process : processes_) {
      int status = 0;
      if (process <= 0 || waitpid(process, &status, WNOHANG) != process) continue;
      process = -1;
      if (status == 0) return true;
      const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      killed += was_killed ? 1 : 0;
      kill_all();
      if (!was_killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 3)) {
        wrong_ = fmt::format("a rank of job {} ended with status {:#x}", job_.name, status);
      } else if (++restarts_ > 20) {
        wrong_ = fmt::format("job {} was begun again twenty times", job_.name);
      } else {
        start("");
      }
      return true;
    }
    return false;
  }
  bool is_over() const {
    return std::ranges::all_of(processes_, [](pid_t process) { return process < 0; });
  }

  // Empty: all ranks had equally many batches, and together each sample of each epoch once.
  std::string wrong() const {
    if (!wrong_.empty()) return wrong_;
    std::map<std::uint32_t, std::vector<std::uint64_t>> epochs;
    const RankSteps first = RankSteps::read(file_of(0));
    for (std::uint32_t rank = 0; rank < job_.ranks; ++rank) {
      const RankSteps one = RankSteps::read(file_of(rank));
      if (one.steps.size() != first.steps.size())
        return fmt::format("ranks of job {} had {} and {} batches", job_.name, first.steps.size(),
                           one.steps.size());
      for (const RankSteps::Step& step : one.steps) {
        auto& epoch = epochs[step.epoch];
        epoch.insert(epoch.end(), step.samples.begin(), step.samples.end());
      }
    }
    for (std::uint32_t epoch = 0; epoch < job_.epochs; ++epoch) {
      if (!is_whole(epochs[epoch], job_.samples))
        return fmt::format("epoch {} of job {} has {} of {} samples, or one twice", epoch,
                           job_.name, epochs[epoch].size(), job_.samples);
    }
    return "";
  }
  // Errors that ranks were told.
  std::vector<std::string> told() const {
    std::vector<std::string> all;
    for (std::uint32_t rank = 0; rank < job_.ranks; ++rank) {
      std::ifstream in(file_of(rank) + ".told");
      for (std::string line; std::getline(in, line);) all.push_back(line);
    }
    return all;
  }

 private:
  std::string file_of(std::uint32_t rank) const { return fmt::format("{}.{}", file_, rank); }

  // Steps that all ranks have written; what some wrote beyond is as if it had not been.
  std::size_t keep_common() const {
    std::size_t common = SIZE_MAX;
    for (std::uint32_t rank = 0; rank < job_.ranks; ++rank)
      common = std::min(common, RankSteps::read(file_of(rank)).steps.size());
    for (std::uint32_t rank = 0; rank < job_.ranks; ++rank) {
      RankSteps one = RankSteps::read(file_of(rank));
      one.steps.resize(common);
      one.write(file_of(rank));
    }
    return common;
  }
  void kill_all() {
    for (pid_t& process : processes_) {
      if (process <= 0) continue;
      ::kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
      process = -1;
    }
  }

  const FaultyJob job_;
  const std::string file_;
  std::vector<pid_t> processes_;
  std::string wrong_;
  int restarts_ = 0;
};

}  // namespace batchflow::test
