// Writes which samples jobs trained on to a file, if one was asked for: a line of JSON for each
// batch, in the order in which steps were over. A step that a lost node makes void is not there.
//
//   {"job":"a","rank":0,"epoch":2,"step":12,"samples":[7,3],"fillers":[1],"rehearsed":[5]}
//
// `fillers` and `rehearsed` are left out where there are none. A job that went back to a checkpoint
// counts its steps from 0 again, in life 1, 2 and so on ("life":1); what it had trained on since
// the checkpoint comes again. A corrupt sample is listed as the sample that replaced it. Items of
// the engine are samples: the caller checks the grain.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "core/order/order.h"
#include "programs/input/scenario.h"
#include "sim/world/job_ids.h"
#include "sim/world/run_file.h"
#include "sim/world/workload.h"

namespace batchflow::world {

class BatchFile {
 public:
  // `path` empty: nothing is written. All others outlive it.
  BatchFile(const std::string& path, const input::Scenario& scenario, const Workload& workload,
            const JobIds& ids);

  // Events and commands of a step of the engine. Throws as RunFile.
  void step(Instant now, std::span<const engine::Event> events,
            std::span<const engine::Command> commands);
  void close() { file_.close(); }

 private:
  struct Job {
    std::string name;
    std::uint32_t life;
    order::GenerationOrder order;  // its generation and sizes are those of the batch
    // What was delivered and is not trained on yet: lines without their end, by rank and step.
    std::map<std::pair<Rank, std::uint64_t>, std::string> lines = {};
  };

  void joined(const engine::JobJoined& event);
  void consumed(Instant now, const engine::BatchConsumed& event);
  void delivered(const engine::Deliver& command);
  std::vector<SampleId> samples_of(const Job& job, const engine::Deliver& command);

  RunFile file_;
  const input::Scenario& scenario_;
  const Workload& workload_;
  const JobIds& ids_;
  std::map<JobId, Job> jobs_;
  std::map<std::uint32_t, std::uint32_t> lives_;  // by the index of the job: how many so far
  order::Expander expander_;
};

}  // namespace batchflow::world
