// The jobs that the service knows, and the ends of their ranks: found by peer, by id, or by what
// they use.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/service/jobs/job.h"

namespace batchflow::service {

class ServedJobs {
 public:
  const auto& all() const { return jobs_; }
  const auto& ends() const { return ends_; }  // by peer
  // Null: the peer has joined no job.
  RankEnd* end_of(const Peer& peer) const;
  // By the engine's id; null: there is none, or it has not begun.
  ServedJob* find(JobId id) const;
  // The job that ranks of the user join by that name.
  ServedJob* find(uid_t user, std::string_view name, const ServedDataset& dataset) const;
  bool any_is_of(DatasetId dataset) const;
  bool any_is_of(PipelineId pipeline) const;
  // Only jobs that want more count. Others have left, and hold some of what they had.
  bool any_reads(DatasetId dataset) const;
  bool none_reads() const;

  ServedJob& add(std::unique_ptr<ServedJob> job) { return *jobs_.emplace_back(std::move(job)); }
  RankEnd& add(Peer& peer, ServedJob& job, const protocol::JoinRequest& request);
  // The job has its id, and the engine will hear of it.
  void announce(ServedJob& job);
  // The peer's end, which is no end of its job any more; null: it has joined none.
  std::unique_ptr<RankEnd> remove(const Peer& peer);
  void remove(ServedJob& job);

 private:
  std::vector<std::unique_ptr<ServedJob>> jobs_;
  std::map<const Peer*, std::unique_ptr<RankEnd>> ends_;
  std::map<std::uint32_t, ServedJob*> by_id_;
};

}  // namespace batchflow::service
