// The messages between the service and a worker process of a step.
//
// They share a socket of whole messages (SOCK_SEQPACKET) and a memory file of two areas. Samples go
// in by the first area and come out by the second; the socket says when. The service writes one
// StepSetup, with the parameters behind it, and reads one StepDeclared. Then for each sample it
// writes a StepCall and reads a StepReply. A worker of a function in Python also takes several
// calls in one message, and answers as many replies in one; the input of call i is then at i times
// the bytes of an input, rounded up to kStepAlignment. A worker is any program that speaks this at
// the descriptors below; it ends when the socket does. The worker trusts the service, but the
// service does not trust the worker: sizes stand in messages, never in shared memory.
//
// A worker links nothing of BatchFlow, so that a plugin meets a plain C++ process. The worker for
// functions in Python has the same structs: python/batchflow/step_worker.py.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/step/batchflow_step.h"

namespace batchflow::step {

inline constexpr int kStepSocket = 3;
inline constexpr int kStepAreas = 4;
inline constexpr int kStepImage = 5;  // the plugin, as it was when its pipeline was compiled

inline constexpr std::uint32_t kStepProtocol = 1;
inline constexpr std::size_t kStepMessageMost = 64 << 10;
inline constexpr std::size_t kStepAlignment = 64;
inline constexpr std::uint64_t kStepStackBytes = 8 << 20;

struct StepSetup {
  std::uint32_t protocol = kStepProtocol;
  std::uint32_t parameters = 0;  // behind this: name and value of each, both ended by 0
  std::int32_t parent = 0;       // the service's process
  // How large the temporary folder of a function in Python may become, at the environment's TMPDIR;
  // 0: it has none.
  std::uint32_t folder_mib = 0;
  // That the process may take beside areas and stack, its temporary folder included.
  std::uint64_t data_bytes = 0;
  // Sizes of the areas, in whole pages; 0: there are none, and the process is asked what it would
  // make.
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  bf_step_array input{};
};

enum class StepStatus : std::uint32_t { done, corrupt };

struct StepDeclared {
  StepStatus status = StepStatus::done;
  std::uint32_t random = 0;
  bf_step_array output{};
  char name[BF_STEP_NAME_MOST + 1] = {};
  char version[BF_STEP_NAME_MOST + 1] = {};
  char problem[BF_STEP_PROBLEM_BYTES] = {};  // where it is done: why it has no temporary folder
};

struct StepCall {
  std::uint64_t number = 0;
  std::uint64_t input_bytes = 0;
  std::uint64_t shape[BF_STEP_DIMENSIONS_MOST] = {};
  std::uint64_t output_at = 0;  // in its area
  std::uint64_t output_bytes = 0;
  std::uint64_t seed = 0;
};

struct StepReply {
  std::uint64_t number = 0;
  StepStatus status = StepStatus::done;
  std::uint32_t reserved = 0;
  std::uint64_t rows = 0;
  char problem[BF_STEP_PROBLEM_BYTES] = {};
};

}  // namespace batchflow::step
