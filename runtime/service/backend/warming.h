// Reads datasets ahead: what `batchflowctl warm` asks for.
//
// For each dataset it begins a job of one epoch in the order of the files, and releases the job's
// batches as they come. So the engine decides what is read when, and what of it is kept, as for any
// other job. Warming stands between the backend and the jobs, and passes on what is not its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/service/backend/backend.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/inbox.h"

namespace batchflow::service {

class Warming final : public JobCommands {
 public:
  struct Status {
    DatasetId id;
    PipelineId pipeline_id;
    std::string dataset;
    std::string pipeline;
    std::uint64_t samples = 0;  // so far
    std::uint64_t samples_wanted = 0;
    bool over = false;    // well, or with a problem
    std::string problem;  // of one that is over before its end
  };

  Warming(JobCommands& jobs, Inbox& inbox, Post post)
      : jobs_(jobs), inbox_(inbox), post_(std::move(post)) {}
  // The backend gets back the slots of gathered batches.
  void set_backend(Backend& backend) { backend_ = &backend; }

  // False: it is being warmed already.
  bool begin(const ServedDataset& dataset, const ServedPipeline& pipeline);
  bool reads(DatasetId dataset) const;
  bool uses(PipelineId pipeline) const;
  // The warmings under way, and the last one of each dataset and pipeline.
  std::vector<Status> status() const;

  void admitted(const engine::Admit& command) override;
  void refused(const engine::Refuse& command) override;
  bool deliver(const engine::Deliver& command, const Slot* slot,
               std::uint32_t slot_samples) override;
  void epoch_ended(const engine::EpochEnded& command) override;
  void mixture_set(const engine::MixtureSet& command) override { jobs_.mixture_set(command); }
  void exemplars_set(const engine::ExemplarsSet& command) override { jobs_.exemplars_set(command); }
  void source_paced(const engine::SourcePaced& command) override { jobs_.source_paced(command); }
  void slab_gone(std::uint64_t slab) override { jobs_.slab_gone(slab); }

 private:
  Status* find_job(JobId job);

  JobCommands& jobs_;
  Inbox& inbox_;
  Post post_;
  Backend* backend_ = nullptr;
  std::uint32_t next_ = kFirst;
  std::map<std::uint32_t, Status> warmed_;  // by job

  // Far from the ids of jobs with ranks, which count from 0.
  static constexpr std::uint32_t kFirst = 1u << 31;
};

}  // namespace batchflow::service
