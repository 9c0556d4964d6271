// A job in a process of its own that goes on whatever it is told, as a careful user's script would:
// it opens its loader again with the state of the last one, and at its end has had each sample of
// each epoch once, or says what was otherwise.
#pragma once

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "runtime/client/batchflow.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test {

struct FaultyJob {
  std::string name;
  std::string service;
  std::string dataset;
  std::string pipeline;
  bf_order order = BF_RELAXED;
  std::uint64_t samples = 0;
  std::uint32_t epochs = 2;
  std::size_t width = 0;  // of rows with known values; 0: of anything else
  std::uint32_t ranks = 1;
};

class FaultyJobRun {
 public:
  explicit FaultyJobRun(const FaultyJob& job) : job_(job) {}

  // Writes "whole", or what was wrong, and then a line for each error it was told to `file`.
  void run(const std::string& file) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!over_ && wrong_.empty()) {
      if (std::chrono::steady_clock::now() > until) wrong_ = "not at its end within 60 s";
      if (!train(until)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (std::uint32_t epoch = 0; wrong_.empty() && epoch < job_.epochs; ++epoch) {
      if (!is_whole(epochs_[epoch], job_.samples))
        wrong_ = fmt::format("epoch {} has {} of {} samples, or one twice", epoch,
                             epochs_[epoch].size(), job_.samples);
    }
    std::ofstream out(file);
    out << (wrong_.empty() ? "whole" : wrong_) << "\n";
    for (const auto& [what, times] : told_) out << what << "\n";
  }

 private:
  // Trains with one loader, until that ends; false: it could not be opened.
  bool train(std::chrono::steady_clock::time_point until) {
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = job_.service.c_str();
    options.dataset = job_.dataset.c_str();
    options.job = job_.name.c_str();
    if (!job_.pipeline.empty()) options.pipeline = job_.pipeline.c_str();
    options.batch_samples = 37;
    options.order = job_.order;
    options.epochs = job_.epochs;
    options.timeout_s = 20;
    options.reconnect_s = 20;
    if (!state_.empty()) options.state = state_.c_str();
    bf_loader* loader = nullptr;
    if (bf_loader_open(&options, &loader) != BF_OK) {
      ++told_["open: " + std::string(bf_last_error())];
      return false;
    }
    std::deque<std::uint64_t> held;
    for (bool goes_on = true; goes_on && std::chrono::steady_clock::now() < until;) {
      bf_batch batch = BF_BATCH_INIT;
      const bf_status status = bf_loader_next(loader, &batch);
      if (status == BF_OK) {
        take(batch);
        held.push_back(batch.handle);
        // Most are held for a while, so that some are copies.
        for (; held.size() > 3 || (batch.last_of_epoch != 0 && !held.empty()); held.pop_front())
          bf_batch_release(loader, held.front());
        continue;
      }
      over_ = status == BF_END;
      if (!over_) ++told_["next: " + std::string(bf_last_error())];
      goes_on = status == BF_NO_MEMORY || status == BF_TIMEOUT;
    }
    const char* state = nullptr;
    if (!over_ && bf_loader_state(loader, &state) == BF_OK) state_ = state;
    for (const std::uint64_t handle : held) bf_batch_release(loader, handle);
    bf_loader_close(loader);
    return true;
  }

  // Corrupt samples count by their own keys.
  void take(const bf_batch& batch) {
    const auto* values = static_cast<const std::int64_t*>(batch.arrays[0].values);
    for (std::uint32_t i = 0; i < batch.samples; ++i) {
      if (job_.width != 0 &&
          (values[i * job_.width] != value_at(batch.keys[i], 0) ||
           values[(i + 1) * job_.width - 1] != value_at(batch.keys[i], job_.width - 1)))
        wrong_ = fmt::format("sample {} is not what was stored", batch.keys[i]);
      if ((batch.marks[i] & BF_MARK_FILLER) == 0) epochs_[batch.epoch].push_back(batch.wanted[i]);
    }
  }

  const FaultyJob& job_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> epochs_;
  std::map<std::string, int> told_;
  std::string state_;
  std::string wrong_;
  bool over_ = false;
};

// REQUIRES: this process has no other thread
inline pid_t start_job(const FaultyJob& job, const std::string& file,
                       const std::string& failpoints) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(90);
  if (!failpoints.empty()) setenv("BATCHFLOW_CLIENT_FAILPOINTS", failpoints.c_str(), 1);
  FaultyJobRun(job).run(file);
  _exit(0);
}

}  // namespace batchflow::test
