// One worker process of a step. One thread of the service starts, calls and ends it.
//
// Whatever the process does, a call ends within its time: with a result, or with what became of the
// process, which is then gone. What it writes is checked before it is used. It can write only into
// its own area, and results are copied out of it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/mapping.h"

namespace batchflow::step {

class OpenSteps;

// The settings of all steps of a service.
struct StepSettings {
  Bytes memory = Bytes{64} << 20;                     // of each process, areas included
  Duration timeout = std::chrono::seconds(10);        // for one sample
  Duration start_timeout = std::chrono::seconds(60);  // to load and set up
  std::filesystem::path worker;                       // the program; empty: beside this one
  std::shared_ptr<const std::atomic<bool>> ending;    // set: nothing is waited for any more
  std::shared_ptr<OpenSteps> open;                    // functions are looked for there first
  // Where each process of a function in Python finds a temporary folder of its own, in memory, and
  // how large it may become. The folder that others see there stays empty. No path: there is none.
  std::filesystem::path temporary;
  Bytes temporary_bytes = kTemporaryUsual;  // a part of `memory`

  static constexpr Bytes kMemoryLeast = Bytes{32} << 20;
  static constexpr Bytes kTemporaryUsual = Bytes{16} << 20;
  static constexpr Bytes kMemoryMost = Bytes{1} << 40;  // so that sums of it do not wrap
  friend bool operator==(const StepSettings&, const StepSettings&) = default;
};

// A step that is a function in Python is carried out by `batchflow.step_worker` of its package.
struct StepInterpreter {
  std::string program;  // empty: the step is a library
  std::string package;  // the folder that has `batchflow`
};

// What a process is started with: the same for all processes of a step, whenever they start.
struct StepSource {
  std::filesystem::path file;  // as it is named to people
  protocol::Descriptor image;  // its bytes, in a sealed memory file
  StepInterpreter interpreter;
  std::vector<std::pair<std::string, std::string>> parameters;
  batch::Field input;
  StepSettings settings;

  // The setting, as people write it, of how much memory a process may take.
  const char* memory_setting() const {
    return interpreter.program.empty() ? "steps: memory of the node file"
                                       : "memory= of batchflow.step";
  }
};

// What a plugin says of itself.
struct StepDeclaration {
  std::string name;
  std::string version;
  bool random = false;  // it draws
  batch::Field output;
  friend bool operator==(const StepDeclaration&, const StepDeclaration&) = default;
};

enum class StepResult : std::uint8_t {
  done,
  corrupt,  // the step says that the sample is broken
  crashed,  // the process has ended, or broke the protocol, and is gone
  late,     // it did not answer in time, and is gone
};

class StepProcess {
 public:
  // `source` outlives it.
  explicit StepProcess(const StepSource& source) : source_(source) {}
  ~StepProcess() { end(); }
  StepProcess(const StepProcess&) = delete;
  StepProcess& operator=(const StepProcess&) = delete;

  bool is_running() const { return process_ > 0; }
  pid_t process() const { return process_; }
  // Starts it with areas of at least these sizes; 0, 0: without areas, only to ask what it makes.
  // Empty when it cannot start, or the plugin refuses its input or parameters: see problem().
  std::optional<StepDeclaration> start(Bytes input, Bytes output);
  bool has_room(Bytes input, Bytes output) const {
    return is_running() && input <= input_bytes_ && output <= output_bytes_;
  }
  // Where the sample's bytes go. REQUIRES: has_room(...)
  std::byte* input() const { return areas_.memory().data(); }
  // REQUIRES: has_room(input, output); the sample has `input` bytes in shape `shape`
  StepResult call(Bytes input, std::span<const std::uint64_t> shape, std::uint64_t seed,
                  Bytes output);
  // The same for several samples of one shape in one message, which only functions in Python take.
  // Sample i is at input() + i * aligned(input), its output at all_outputs() + i * aligned(output).
  // False: the process is gone, and which sample is to blame is not known.
  // REQUIRES: has_room(samples * aligned(input), samples * aligned(output))
  bool call_all(Bytes input, std::span<const std::uint64_t> shape,
                std::span<const std::uint64_t> seeds, Bytes output);
  const std::byte* all_outputs() const { return areas_.memory().data() + input_bytes_; }
  // What is wrong with sample i of the last call_all(); empty: it is done.
  const std::string& problem_of(std::size_t i) const { return problems_[i]; }
  static Bytes aligned(Bytes bytes);
  // The output of the last call, if that was done.
  const std::byte* output() const { return areas_.memory().data() + input_bytes_ + output_at_; }
  std::uint64_t rows() const { return rows_; }
  const std::string& problem() const { return problem_; }
  // Why it has no temporary folder, where it was to have one; known from its start.
  const std::string& folder_problem() const { return folder_problem_; }
  bool has_been_called() const { return calls_ > 0; }

  void end();

 private:
  bool make_areas(Bytes input, Bytes output);
  bool spawn();
  std::string setup_message() const;
  bool receive(std::span<std::byte> message, Duration within);
  StepResult lose();  // kills it, and says what has become of it
  std::string last_words();
  void say_if_of_memory();        // in problem_, what it may take and where that is set
  Bytes temporary_bytes() const;  // of its folder; 0: it is to have none

  const StepSource& source_;
  pid_t process_ = -1;
  protocol::Descriptor socket_;
  protocol::Descriptor says_;  // its standard output and error
  protocol::Descriptor areas_file_;
  protocol::Mapping areas_;
  Bytes input_bytes_ = 0;
  Bytes output_bytes_ = 0;
  Bytes output_at_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t rows_ = 0;
  bool late_ = false;                  // the last answer did not come in time
  std::vector<std::string> problems_;  // of the samples of a call_all()
  std::string said_;
  std::string problem_;
  std::string folder_problem_;
};

}  // namespace batchflow::step
