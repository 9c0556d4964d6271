// The workload in a journal: what a service, real or simulated, was asked to do, and how long that
// took. A scenario can be made of it.
//
// A journal has the events alone. What a read or a preparation was for stands in the commands, so
// an engine gets the events once more (programs/config/replay_journal.h). Where this version
// decides otherwise than the recording one, the part before the first difference is used.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/engine/policy_list.h"
#include "core/log/journal.h"
#include "programs/input/observed_workload.h"

namespace batchflow::input {

// What really came of the run, from its first job on.
struct RecordedFigures {
  double span_s = 0;                    // until the last job was done, or until the journal ends
  std::uint64_t samples = 0;            // trained on, without fillers and rehearsed samples
  double rank_s = 0;                    // of all ranks, until their last batches
  double stall_s = 0;                   // of these, waited for a batch
  std::uint64_t samples_requested = 0;  // by preparations
  std::uint64_t samples_read = 0;       // from the store
  Bytes storage_bytes = 0;
};

struct RecordedRun {
  ObservedWorkload workload;
  RecordedFigures figures;
  std::string recorded_by;  // the version of the program
  std::uint64_t steps = 0;  // of the engine, that were used
  bool differs = false;     // this version decides otherwise from there on
};

// `journal` is read from its beginning to its end. `before_step` is called before each step; what
// it throws is thrown. Throws ConfigError where the journal is damaged, or names policies that this
// program does not have.
RecordedRun read_recorded_run(
    log::JournalReader& journal, const std::string& name, const engine::PolicyList& policies,
    const std::function<void(const log::JournalReader::EngineStep&)>& before_step = {});

}  // namespace batchflow::input
