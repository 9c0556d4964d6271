// A pipeline: the ordered steps from a stored sample to the fields of a batch.
//
// Read from YAML (configs/pipelines/), checked against what the dataset holds, and compiled into a
// plan that any number of workers carry out. A random step draws by the key it is given and by
// nothing else, so that a block made anew is the same bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/catalogue.h"
#include "core/config.h"
#include "core/types.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/memory/scratch.h"
#include "runtime/sources/sample_index.h"

namespace batchflow {

class StepPlugin;
struct StepSettings;

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual const std::string& name() const = 0;
  virtual const BatchSpec& spec() const = 0;
  // Hashes, whether it has a random step, and sizes; costs are first guesses.
  virtual const PipelineInfo& info() const = 0;
  virtual std::string describe() const = 0;  // its steps, one a line
  // Steps in worker processes of their own.
  virtual std::span<const std::shared_ptr<StepPlugin>> plugins() const = 0;
};

// Whether steps of it are plugins: then compiling it takes as long as they do to begin.
bool has_plugins(const ConfigNode& pipeline);
// Or functions in Python, which are begun and carried out as plugins are.
bool has_functions(const ConfigNode& pipeline);
// Throws ConfigError for what can be carried out on no dataset at all. Plugins are not begun.
void check_pipeline(const ConfigNode& pipeline);
// Throws ConfigError for a pipeline that cannot be carried out on this dataset, or not within
// `scratch`.
std::unique_ptr<Pipeline> compile_pipeline(const ConfigNode& pipeline, const SampleIndex& dataset,
                                           const StepSettings& steps,
                                           const ScratchLimits& scratch = {});
// The same of one that has no plugins.
std::unique_ptr<Pipeline> compile_pipeline(ConfigSection& section, const SampleIndex& dataset,
                                           const ScratchLimits& scratch = {});

// What preparing one sample came to.
enum class Prepared : std::uint8_t {
  done,
  corrupt,
  failed,  // by no fault of the sample's
};

// One for each worker: holds scratch memory, so that nothing is allocated per sample of ordinary
// sizes once the largest has been seen. What takes more is given back with the sample. Not for use
// by two threads at once.
class Preparer {
 public:
  virtual ~Preparer() = default;

  struct Input {
    SampleId sample;
    std::span<const std::byte> bytes;  // encoded as stored, or the decoded form
    bool decoded = false;
    std::int64_t label = -1;     // of the index; -1: none
    std::uint64_t draw_key = 0;  // core/keys.h
    Bytes beside = 0;            // that the caller takes of the scratch memory for this sample
    // Looked at between two steps. True: the sample is not wanted any more, and so fails.
    const std::atomic<bool>* is_given_up = nullptr;
  };
  // Fills place `place` of every field. `keep_decoded`, if given, gets the decoded form. Throws
  // std::bad_alloc, and then is not used again.
  virtual Prepared prepare(const Pipeline& pipeline, const Input& input, const BlockWriter& out,
                           std::uint32_t place, std::vector<std::byte>* keep_decoded) = 0;
  // What was wrong with the last one that was not done.
  virtual std::string_view problem() const = 0;
  // The caller has what it wants of the last sample, and has given up what it took beside: its
  // scratch memory is for others. The next prepare() does that, too.
  virtual void end_sample() = 0;
  // The processes of steps that are given up.
  virtual void end_steps() = 0;
};
// With scratch memory of `scratch`; null: as much as there is.
std::unique_ptr<Preparer> make_preparer(std::shared_ptr<ScratchBudget> scratch = nullptr);

}  // namespace batchflow
