// Ranks that come: each is put into its job, which may be a new one, or is refused. A job begins
// when all its ranks have come.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "core/engine/engine_config.h"
#include "core/engine/event.h"
#include "runtime/protocol/messages.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/datasets/feeds.h"
#include "runtime/service/inbox.h"
#include "runtime/service/jobs/job.h"
#include "runtime/service/jobs/peer.h"
#include "runtime/service/jobs/refusals.h"
#include "runtime/service/jobs/returning.h"
#include "runtime/service/jobs/served_jobs.h"
#include "runtime/service/jobs/users.h"

namespace batchflow::service {

// What the node file says of jobs.
struct JobOptions {
  std::uint32_t credits = engine::EngineConfig().credits;  // a rank
  Bytes block_bytes = engine::EngineConfig().block_bytes;
  Bytes ring_bytes = Bytes{256} << 10;
  Duration wait_for_ranks = std::chrono::seconds(300);
  // As a ratio of the dataset's samples: for jobs that say nothing, and the most a job may ask
  // for.
  Ratio corrupt_ratio_max{Ratio::kWhole / 1000};
  Ratio corrupt_ratio_allowed{Ratio::kWhole / 1000};
};

class RankArrivals {
 public:
  // All outlive it. `users` says how many jobs each user may have, and what they may hold.
  RankArrivals(const JobOptions& options, const Users& users, Inbox& inbox, Feeds& feeds,
               ServedJobs& jobs);

  // Sets the jobs of the previous service that may return.
  void set_returning(Returning& returning);
  // The job of which the peer is the last rank to come; null: others are to come, or the peer is
  // refused.
  ServedJob* join(Peer& peer, const protocol::JoinRequest& request, ServedDataset& dataset,
                  ServedPipeline& pipeline, Instant now);
  // Tells the engine of a job that has all its ranks. False: these are refused.
  bool begin(ServedJob& job);
  // Refuses jobs that have waited too long for their other ranks.
  void check_waiting(Instant now);

 private:
  // What is wrong with a request, whatever job it is for.
  Objection objection_to(const protocol::JoinRequest& request, const ServedDataset& dataset) const;
  std::uint32_t credits(const protocol::JoinRequest& request, const ServedDataset& dataset,
                        ServedPipeline& pipeline) const;
  std::string quota_problem(uid_t user, Bytes bytes) const;
  double weight(uid_t user, double asked) const;
  // Where a job begins that has come without a position: a mixture, and a live job that says where.
  // Empty, or what is wrong with that.
  std::string settle_beginning(ServedJob& job, const engine::JobJoined& event);

  const JobOptions& options_;
  const Users& users_;
  Inbox& inbox_;
  Feeds& feeds_;
  ServedJobs& jobs_;
  Returning* returning_ = nullptr;
  std::uint32_t next_job_ = 0;
  // Part of the names of unnamed jobs. It differs at each start, because unnamed jobs of this
  // service may come back to the next one.
  const std::uint32_t start_;
  std::uint64_t unnamed_ = 0;
};

}  // namespace batchflow::service
