// A pipeline: the ordered steps from a stored sample to the fields of a batch.
//
// It is read from YAML (configs/pipelines/), checked against what the dataset holds, and compiled
// into a plan that any number of workers carry out. A random step draws by the key that it is
// given, and by nothing else, so that a block that is made anew has the same bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "core/engine/catalogue.h"
#include "programs/config/config.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/memory/scratch.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::step {
class StepPlugin;
struct StepSettings;
}  // namespace batchflow::step

namespace batchflow::prepare {

struct Kernels;

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual const std::string& name() const = 0;
  virtual const batch::BatchSpec& spec() const = 0;
  // Hashes, whether it has a random step, and sizes; costs are first guesses.
  virtual const engine::PipelineInfo& info() const = 0;
  virtual std::string describe() const = 0;  // its steps, one a line
  // What its steps are called, without their settings and those of single fields.
  virtual const std::vector<std::string>& step_names() const = 0;
  // Its steps that run in worker processes of their own.
  virtual std::span<const std::shared_ptr<step::StepPlugin>> plugins() const = 0;
};

// Whether some of its steps are plugins: then compiling it takes as long as they take to begin.
bool has_plugins(const config::ConfigNode& pipeline);
// Or functions in Python, which begin and run as plugins do.
bool has_functions(const config::ConfigNode& pipeline);
// Throws ConfigError for a pipeline that can be carried out on no dataset at all. Does not begin
// plugins.
void check_pipeline(const config::ConfigNode& pipeline);
// Throws ConfigError for a pipeline that cannot be carried out on this dataset, or not within
// `scratch`.
std::unique_ptr<Pipeline> compile_pipeline(const config::ConfigNode& pipeline,
                                           const sources::SampleIndex& dataset,
                                           const step::StepSettings& steps,
                                           const memory::ScratchLimits& scratch = {});
// The same for a pipeline without plugins.
std::unique_ptr<Pipeline> compile_pipeline(config::ConfigSection& section,
                                           const sources::SampleIndex& dataset,
                                           const memory::ScratchLimits& scratch = {});

// The outcome of preparing one sample.
enum class Prepared : std::uint8_t {
  done,
  corrupt,
  failed,  // by no fault of the sample's
};

// One for each worker. It holds scratch memory, so that samples of ordinary sizes need no
// allocation once the largest has been seen. A sample that takes more gives it back at its end. For
// one thread at a time.
class Preparer {
 public:
  virtual ~Preparer() = default;

  struct Input {
    SampleId sample;
    std::span<const std::byte> bytes;  // encoded as stored, or the decoded form
    bool decoded = false;              // `bytes` are the decoded form
    std::int64_t label = -1;           // of the index; -1: none
    std::uint64_t draw_key = 0;        // core/order/keys.h
    Bytes beside = 0;  // that the caller takes of the scratch memory for this sample
    // Looked at between two steps. True: the sample is not wanted any more, and so fails.
    const std::atomic<bool>* is_given_up = nullptr;
  };
  // Memory of so many bytes for the decoded form of the sample, which is whole once the sample is
  // done; null: there is none, and it is not kept.
  using KeepDecoded = std::function<std::byte*(Bytes)>;
  // Fills row `index` of every field. Throws std::bad_alloc, and must not be used again then.
  virtual Prepared prepare(const Pipeline& pipeline, const Input& input,
                           const batch::BlockWriter& out, std::uint32_t index,
                           const KeepDecoded* keep_decoded) = 0;
  // Says which samples prepare() is called with next, in this order, so that a step may take
  // several at once. The memory of `bytes` stays until then.
  virtual void expect(const Pipeline& pipeline, std::vector<Input> next) = 0;
  // What was wrong with the last sample that was not done.
  virtual std::string_view problem() const = 0;
  // Frees the scratch memory of the last sample for others. The caller has what it wants of the
  // sample, and has given up what it took beside. The next prepare() does this, too.
  virtual void end_sample() = 0;
  // Ends the processes of steps that are given up.
  virtual void end_steps() = 0;
};
// Uses scratch memory of `scratch`; null: as much as there is.
std::unique_ptr<Preparer> make_preparer(std::shared_ptr<memory::ScratchBudget> scratch = nullptr);
// The same with given inner loops, for tests that compare them.
std::unique_ptr<Preparer> make_preparer(const Kernels& kernels,
                                        std::shared_ptr<memory::ScratchBudget> scratch = nullptr);

}  // namespace batchflow::prepare
