// Steps that all ranks have consumed: they are committed and promised, and epochs end with their
// last one.
#pragma once

#include <vector>

#include "core/engine/grants.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Commits {
 public:
  Commits(EngineState& state, Grants& grants) : s_(state), grants_(grants) {}

  // Commits the steps that all ranks of the job have consumed.
  void commit(Job& job);
  // Ends the epochs of which all steps are committed, and those that had no steps left.
  void end_epochs(Job& job);

 private:
  bool apply(Job& job, const EpochRun& run);
  void list_chosen(const Job& job, const EpochRun& run, order::IndexRange indices);
  void show(Job& job, const EpochRun& run, order::IndexRange indices);
  void list_samples(const Job& job, const EpochRun& run, order::IndexRange indices);

  EngineState& s_;
  Grants& grants_;
  std::vector<order::Slice> slices_;    // scratch
  std::vector<std::uint64_t> indices_;  // scratch
  std::vector<SampleId> had_;           // scratch
  std::vector<SampleId> block_;         // scratch
  std::vector<order::Draw> draws_;      // scratch
  std::vector<KeptExemplar> kept_;      // scratch
};

}  // namespace batchflow::engine
