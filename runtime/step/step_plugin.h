// A step of a pipeline that is a plugin: what it is, and how well it has worked in all its
// processes.
//
// Its bytes are copied when the pipeline is compiled. So every process runs the same code, whatever
// happens to the file. Their hash is part of the pipeline's. Nothing of a plugin is ever loaded
// into the service itself.
//
// Thread-safe but for `open`.
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "runtime/step/step_process.h"

namespace batchflow::step {

// A plugin cannot be used, and why.
struct StepError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct StepCounters {
  std::uint64_t samples = 0;  // that it has made
  std::uint64_t corrupt = 0;  // that it said are broken
  std::uint64_t starts = 0;   // of processes
  std::uint64_t crashes = 0;
  std::uint64_t late = 0;  // processes that did not answer in time
  Duration busy{0};        // in calls that were answered

  StepCounters& operator+=(const StepCounters& more) {
    samples += more.samples;
    corrupt += more.corrupt;
    starts += more.starts;
    crashes += more.crashes;
    late += more.late;
    busy += more.busy;
    return *this;
  }
};

class StepPlugin {
 public:
  using Parameters = std::vector<std::pair<std::string, std::string>>;

  // Reads the file, and asks a process of its own what it makes of `input`. Takes as long as the
  // settings let it. Throws StepError.
  static std::shared_ptr<StepPlugin> open(const std::filesystem::path& file, Parameters parameters,
                                          const batch::Field& input, const StepSettings& settings);

  // A function in Python: `bundle` is what batchflow.steps made of it, to be run by `interpreter`.
  // `named` is where the function stands, for people. Throws StepError.
  static std::shared_ptr<StepPlugin> open_python(const std::string& bundle,
                                                 const std::filesystem::path& named,
                                                 Parameters places, StepInterpreter interpreter,
                                                 const batch::Field& input,
                                                 const StepSettings& settings);

  const StepSource& source() const { return source_; }
  const StepDeclaration& declared() const { return declared_; }
  // Everything that decides its output: for the hash of a pipeline, and for people.
  const std::string& text() const { return text_; }
  // Why its processes have no temporary folder, where they were to have one.
  const std::string& folder_problem() const { return folder_problem_; }
  Bytes bytes_each() const { return source_.settings.memory; }  // a process takes at most
  // Whether a sample of this size, and what is made of it, may be handed to a process.
  bool has_room(Bytes input, Bytes output) const {
    return input <= source_.settings.memory / 4 && output <= source_.settings.memory / 4;
  }

  // No worker prepares by it any more: its processes may end.
  void give_up() { given_up_ = true; }
  // Another pipeline has it now.
  void use_again() { given_up_ = false; }
  bool is_given_up() const { return given_up_; }

  // It has failed often without a success between: it is not tried for a while.
  bool is_broken() const;
  void started() { ++starts_; }
  void could_not_start(const std::string& why);
  // A call for `sample` has ended; `is_first`: it was the first of its process. `problem` is of a
  // process that has ended.
  void ended(StepResult how, SampleId sample, bool is_first, Duration took,
             const std::string& problem);
  std::string last_failure() const;
  StepCounters counters() const;

 private:
  StepPlugin() = default;
  void declare(std::string_view kind, Digest image, const std::string& written);
  void strike(unsigned strikes, const std::string& why);
  bool is_known(SampleId culprit);  // from now on it is

  StepSource source_;
  StepDeclaration declared_;
  std::string text_;
  std::string folder_problem_;
  std::atomic<std::uint64_t> samples_{0}, corrupt_{0}, starts_{0}, crashes_{0}, late_{0};
  std::atomic<std::int64_t> busy_ns_{0};
  std::atomic<unsigned> strikes_{0};
  std::atomic<bool> given_up_{false};          // no pipeline uses it any more
  std::atomic<std::int64_t> broken_until_{0};  // of the steady clock
  mutable std::mutex mutex_;
  std::deque<SampleId> culprits_;  // at which processes ended of late
  std::string last_failure_;
};

}  // namespace batchflow::step
