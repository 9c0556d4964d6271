// The worker processes of one thread that prepares: one for each plugin, started when it is first
// needed and again after it has crashed.
//
// It tells apart whether a failure is the sample's fault or not. A crash or a hang counts as the
// sample's fault, until it happens so often that the step itself must be broken.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "runtime/step/step_plugin.h"

namespace batchflow::step {

class StepRunner {
 public:
  void begin_sample(SampleId sample) {
    sample_ = sample;
    failed_ = false;
  }
  // Where the sample's bytes go; null: see failed().
  std::byte* begin(const std::shared_ptr<StepPlugin>& plugin, Bytes input, Bytes output);
  // The step's output for what has been put there, valid until the next begin(); null: see
  // failed().
  // REQUIRES: begin() was the last call, for an input of this shape
  const std::byte* run(std::span<const std::uint64_t> shape, std::uint64_t seed);
  // The rows of a ragged output.
  std::uint64_t rows() const;

  // True if a null since begin_sample() was not the sample's fault; else the sample is corrupt.
  bool failed() const { return failed_; }
  const std::string& problem() const { return problem_; }

  // A sample that a step is to be run on later, and what came of it.
  struct Ahead {
    SampleId sample{0};
    std::uint64_t draw_key = 0;    // of the sample, by which it is known again
    std::uint64_t seed = 0;        // of the step
    std::vector<std::byte> bytes;  // before: the input; afterwards: the output
    std::string problem;           // afterwards; empty: it is done
    Duration took{0};
  };
  // How many samples one message to the step's process may have; 1: they are run one by one.
  std::size_t ahead_most(const std::shared_ptr<StepPlugin>& plugin, Bytes input, Bytes output);
  // Runs the step on all of these in one message. False: they are to be run one by one, which finds
  // out which of them is to blame. REQUIRES: at most ahead_most()
  bool run_ahead(const std::shared_ptr<StepPlugin>& plugin, std::span<const std::uint64_t> shape,
                 std::span<Ahead> samples, Bytes output);
  // The output of a sample that was run ahead, as run() gives it, and counted as there.
  const std::byte* take_ahead(const std::shared_ptr<StepPlugin>& plugin, const Ahead& made);

  // Ends the processes of plugins that are given up.
  void end_given_up();

 private:
  struct Running {
    explicit Running(std::shared_ptr<StepPlugin> owner)
        : plugin(std::move(owner)), process(plugin->source()) {}
    const std::shared_ptr<StepPlugin> plugin;
    StepProcess process;
    Bytes input = 0, output = 0;  // of the areas
    unsigned crashes = 0;         // since the last success
    Duration each{0};             // that a sample takes, of late; 0: not known yet
    std::size_t one_by_one = 0;   // samples that still are, since a message failed
  };
  bool start(Running& one, Bytes input, Bytes output);
  std::byte* fail(const Running& one, bool for_all, std::string_view why);

  std::map<const StepPlugin*, Running> running_;
  SampleId sample_{0};
  Running* current_ = nullptr;
  Bytes input_ = 0, output_ = 0;  // of the sample
  bool failed_ = false;           // all samples fail, not this one alone
  std::string problem_;
};

}  // namespace batchflow::step
