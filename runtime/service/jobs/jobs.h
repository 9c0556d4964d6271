// The jobs of this node: their ranks, each a connection with two rings, and what they hold.
//
// A job is (user, name, dataset). It begins when all its ranks have come, and the engine gets one
// event for all of them. Its batches go out through the rings; its wishes, acknowledgements and
// releases come back through them. What a rank says is checked against what it was given: a job
// that lies hurts only itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/engine_config.h"
#include "core/engine/event.h"
#include "core/engine/promise.h"
#include "runtime/protocol/messages.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/stalls.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/job.h"
#include "runtime/service/jobs/job_waits.h"
#include "runtime/service/jobs/peer.h"
#include "runtime/service/jobs/rank_answers.h"
#include "runtime/service/jobs/returning.h"
#include "runtime/service/jobs/step_writer.h"
#include "runtime/service/jobs/users.h"

namespace batchflow::service {

class Jobs final : public JobCommands {
 public:
  struct Options {
    std::uint32_t credits = engine::EngineConfig().credits;  // a rank
    bool share_streams = true;                               // jobs of one order share their blocks
    Bytes ring_bytes = Bytes{256} << 10;
    Duration wait_for_ranks = std::chrono::seconds(300);
    // As a ratio of the dataset's samples: for jobs that say nothing, and the most a job may ask
    // for.
    Ratio corrupt_ratio_max{Ratio::kWhole / 1000};
    Ratio corrupt_ratio_allowed{Ratio::kWhole / 1000};
  };
  // `users` says how many jobs each user may have, and what they may hold.
  Jobs(const Options& options, const Users& users, Inbox& inbox, StallBook& stalls);
  ~Jobs();

  // For jobs that come from now on.
  void set_options(const Options& options) { options_ = options; }
  void share_streams(bool share) { options_.share_streams = share; }
  // Sets the jobs of the previous service that may return.
  void set_returning(Returning& returning) {
    returning_ = &returning;
    next_job_ = returning.next_job();
  }
  // Empty: there is no such job.
  std::string name_of(JobId job) const;
  // The backend gets back the slots of gathered batches.
  void set_backend(Backend& backend) {
    backend_ = &backend;
    answers_.set_backend(backend);
  }
  // What the engine has promised in a step: where jobs begin. Call it before the step's commands
  // are carried out.
  void promised(std::span<const engine::Promise> promises);

  // A peer asks to join. Its dataset and pipeline are open, and its user may read them.
  void join(Peer& peer, const protocol::JoinRequest& request, ServedDataset& dataset,
            ServedPipeline& pipeline, Instant now);
  // The peer will ask for nothing more. It ends when it has released what it holds.
  void leave(Peer& peer);
  // The peer's socket has ended.
  void gone(Peer& peer);
  // The peer's agent is lost, and the rank looks for another: the other ranks of its job go as far
  // as it may have gone, and then look for the service, too. Call it before gone().
  void away(const Peer& peer);
  // All ranks of the job on the node have the batches of the steps below `steps`.
  void held(NodeId node, JobId job, std::uint64_t steps);
  // Reads what the peer has written into its ring. False: it has written nonsense.
  bool read_ring(Peer& peer);
  // Call this before waiting for the rank's doorbell: from then on the rank rings when it has
  // written. False: there is more to read.
  bool sleep(Peer& peer);
  const protocol::Descriptor* doorbell(Peer& peer) const;
  // Refuses jobs that have waited too long for their other ranks.
  void check_waiting(Instant now);
  // Ends the jobs of that name, also those that wait for their ranks; answers how many.
  std::size_t kill(std::string_view name);
  // No job begins any more. Each that runs is let go where its epoch ends: its ranks look for the
  // next service, and go on there.
  void drain();
  bool any_is_of(DatasetId dataset) const;
  bool any_is_of(PipelineId pipeline) const;
  // Only jobs that want more count. Others have left, and hold some of what they had.
  bool any_reads(DatasetId dataset) const;
  bool none_reads() const;
  // Null: the peer has joined no job.
  const ServedDataset* dataset_of(Peer& peer) const;
  // Which other ranks of its job the peer waits for, as text; empty: none.
  std::string waits_for_ranks(Peer& peer) const;

  void admitted(const engine::Admit& command) override;
  void refused(const engine::Refuse& command) override;
  bool deliver(const engine::Deliver& command, const Slot* slot,
               std::uint32_t slot_samples) override;
  void epoch_ended(const engine::EpochEnded& command) override;
  void slab_gone(std::uint64_t slab) override;
  // A rank's agent has read this in its ring. False: it is nonsense.
  bool take_record(Peer& peer, std::span<const std::byte> record);

  using Status = JobStatus;
  std::vector<Status> status(Instant now) const;
  // Of all jobs since the start: by stage, and how long each wait was.
  StageTimes stalls() const;
  const WaitHistogram& waits() const { return waits_.histogram(); }
  const WaitTotals& wait_totals() const { return waits_.totals(); }
  // Called after each engine step: from now on ranks may read what was delivered, and those that
  // sleep are woken once.
  void wake();

 private:
  RankEnd* find_end(const Peer& peer) const;
  ServedJob* find_job(JobId id) const;
  bool begin(ServedJob& job);
  void finish_if_left(ServedJob& job);
  void forget(ServedJob& job);
  void let_go(ServedJob& job);
  std::string refusal_message(const ServedJob& job, const engine::Refuse& command) const;
  std::uint64_t corrupt_most(const ServedJob& job) const;
  void end_by_corrupt_samples();
  bool make_rings(RankEnd& end);
  bool send_back_those_behind(ServedJob& job);

  Bytes batch_bytes(const protocol::JoinRequest& request, ServedPipeline& pipeline) const;
  std::string quota_problem(uid_t user, Bytes bytes) const;
  double weight(uid_t user, double asked) const;

  Options options_;
  const Users& users_;
  bool draining_ = false;  // no job begins any more
  Inbox& inbox_;
  JobWaits waits_;
  StepWriter writer_{waits_};
  RankAnswers answers_{inbox_, waits_, writer_};
  Backend* backend_ = nullptr;
  std::vector<std::unique_ptr<ServedJob>> jobs_;
  std::map<const Peer*, std::unique_ptr<RankEnd>> ends_;
  std::map<std::uint32_t, ServedJob*> by_id_;
  std::uint32_t next_job_ = 0;
  bool has_new_job_ = false;        // admitted since the last wake()
  std::uint64_t corrupt_seen_ = 0;  // by the backend, at the last wake()
  Returning* returning_ = nullptr;
  // Part of the names of unnamed jobs. It differs at each start, because unnamed jobs of this
  // service may come back to the next one.
  const std::uint32_t start_;
  std::uint64_t unnamed_ = 0;
};

}  // namespace batchflow::service
