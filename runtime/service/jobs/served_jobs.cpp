#include "runtime/service/jobs/served_jobs.h"

#include <algorithm>
#include <utility>

namespace batchflow::service {

RankEnd* ServedJobs::end_of(const Peer& peer) const {
  const auto found = ends_.find(&peer);
  return found == ends_.end() ? nullptr : found->second.get();
}

ServedJob* ServedJobs::find(JobId id) const {
  const auto found = by_id_.find(id.value);
  return found == by_id_.end() ? nullptr : found->second;
}

ServedJob* ServedJobs::find(uid_t user, std::string_view name, const ServedDataset& dataset) const {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& one) {
    return one->user == user && one->name == name && one->dataset == &dataset && !one->over;
  });
  return found == jobs_.end() ? nullptr : found->get();
}

bool ServedJobs::none_reads() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->has_left(); });
}

bool ServedJobs::any_reads(DatasetId dataset) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    return job->dataset->id == dataset && !job->has_left();
  });
}

bool ServedJobs::any_is_of(DatasetId dataset) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& job) { return job->dataset->id == dataset; });
}

bool ServedJobs::any_is_of(PipelineId pipeline) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& job) { return job->pipeline->id == pipeline; });
}

RankEnd& ServedJobs::add(Peer& peer, ServedJob& job, const protocol::JoinRequest& request) {
  auto made = std::make_unique<RankEnd>();
  RankEnd& end = *made;
  end.peer = &peer;
  end.job = &job;
  end.rank = request.rank;
  end.request = request;
  job.ranks[request.rank] = &end;
  ends_[&peer] = std::move(made);
  return end;
}

void ServedJobs::announce(ServedJob& job) {
  by_id_[job.id.value] = &job;
  job.is_announced = true;
}

std::unique_ptr<RankEnd> ServedJobs::remove(const Peer& peer) {
  auto found = ends_.extract(&peer);
  if (!found) return nullptr;
  RankEnd& end = *found.mapped();
  end.job->ranks[end.rank] = nullptr;
  return std::move(found.mapped());
}

void ServedJobs::remove(ServedJob& job) {
  if (job.is_announced) by_id_.erase(job.id.value);
  std::erase_if(jobs_, [&](const auto& one) { return one.get() == &job; });
}

}  // namespace batchflow::service
