// The jobs of this node: their ranks, each a connection with two rings, and what they hold.
//
// A job is (user, name, dataset). It begins when all its ranks have come, and the engine gets one
// event for all of them. Its batches go out through the rings; its wishes, acknowledgements and
// releases come back through them. What a rank says is checked against what it was given: a job
// that lies hurts only itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/event.h"
#include "core/engine/promise.h"
#include "runtime/protocol/messages.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/stalls.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/datasets/feeds.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/job.h"
#include "runtime/service/jobs/job_waits.h"
#include "runtime/service/jobs/peer.h"
#include "runtime/service/jobs/rank_answers.h"
#include "runtime/service/jobs/rank_arrivals.h"
#include "runtime/service/jobs/returning.h"
#include "runtime/service/jobs/served_jobs.h"
#include "runtime/service/jobs/step_writer.h"
#include "runtime/service/jobs/users.h"

namespace batchflow::service {

class Jobs final : public JobCommands {
 public:
  using Options = JobOptions;
  // `users` says how many jobs each user may have, and what they may hold.
  Jobs(const Options& options, const Users& users, Inbox& inbox, StallBook& stalls);
  ~Jobs();

  // For jobs that come from now on.
  void set_options(const Options& options) { options_ = options; }
  // Sets the jobs of the previous service that may return.
  void set_returning(Returning& returning) { arrivals_.set_returning(returning); }
  // Empty: there is no such job.
  std::string name_of(JobId job) const;
  // The feeds that live jobs read.
  Feeds& feeds() { return feeds_; }
  const Feeds& feeds() const { return feeds_; }
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
  void check_waiting(Instant now) { arrivals_.check_waiting(now); }
  // Has the job of that name and user give its next batch `steps` times more. No `user`: the job of
  // that name, of any user. Answers why it cannot be, or nothing.
  std::string ask_ideal(std::string_view name, std::optional<uid_t> user, std::uint64_t steps);
  // Ends the jobs of that name, also those that wait for their ranks; answers how many.
  std::size_t kill(std::string_view name);
  // No job begins any more. Each that runs is let go where its epoch ends: its ranks look for the
  // next service, and go on there.
  void drain();
  const ServedJobs& served() const { return jobs_; }
  // Null: the peer has joined no job.
  const ServedDataset* dataset_of(Peer& peer) const;
  // Which other ranks of its job the peer waits for, as text; empty: none.
  std::string waits_for_ranks(Peer& peer) const;

  void admitted(const engine::Admit& command) override;
  void refused(const engine::Refuse& command) override;
  bool deliver(const engine::Deliver& command, const Slot* slot,
               std::uint32_t slot_samples) override;
  void epoch_ended(const engine::EpochEnded& command) override;
  void mixture_set(const engine::MixtureSet& command) override;
  void exemplars_set(const engine::ExemplarsSet& command) override;
  void source_paced(const engine::SourcePaced& command) override { feeds_.paced(command); }
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
  void finish_if_left(ServedJob& job);
  void let_go(ServedJob& job);
  std::string refusal_message(const ServedJob& job, const engine::Refuse& command) const;
  std::uint64_t corrupt_most(const ServedJob& job, std::uint64_t samples) const;
  void end_by_corrupt_samples();
  bool make_rings(RankEnd& end);
  bool send_back_those_behind(ServedJob& job);

  Options options_;
  bool draining_ = false;  // no job begins any more
  Inbox& inbox_;
  JobWaits waits_;
  StepWriter writer_{waits_};
  Feeds feeds_{inbox_};
  RankAnswers answers_{inbox_, waits_, writer_, feeds_};
  Backend* backend_ = nullptr;
  ServedJobs jobs_;
  RankArrivals arrivals_;
  bool has_new_job_ = false;        // admitted since the last wake()
  std::uint64_t corrupt_seen_ = 0;  // by the backend, at the last wake()
};

}  // namespace batchflow::service
