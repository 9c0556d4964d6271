#include "runtime/service/jobs/returning.h"

#include <algorithm>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

// A batch is handed out before it is trained on, so a loader that reports what it has handed out is
// never behind. At the end of an epoch the engine has begun the next one, of which a loader may not
// know yet.
bool is_behind(const order::Position& reported, const order::Position& trained) {
  if (reported.epoch() == trained.epoch()) return reported.consumed() < trained.consumed();
  return reported.epoch() < trained.epoch() &&
         (trained.consumed() > 0 || reported.epoch() + 1 < trained.epoch());
}

}  // namespace

Returning::Returning(PromiseFile& file) : file_(file) {
  std::vector<JobId> superseded;
  for (const auto& [id, job] : file.promises().jobs()) {
    const bool is_new = !job.join.name.empty() &&
                        jobs_.try_emplace({job.join.join.user, job.join.name}, JobId(id)).second;
    if (!is_new) superseded.push_back(JobId(id));
    if (is_new) next_job_ = std::max(next_job_, id + 1);
  }
  for (const JobId job : superseded) file_.end(job);
}

std::string Returning::objection(std::uint64_t user, const std::string& name,
                                 const order::Position& reported) const {
  const auto found = jobs_.find({user, name});
  if (found == jobs_.end()) return {};
  const order::Position& trained = file_.promises().jobs().at(found->second.value).join.position;
  const bool is_same = reported.order() == trained.order() &&
                       reported.fields().dataset_version == trained.fields().dataset_version &&
                       reported.fields().seed == trained.fields().seed;
  if (!is_same || !is_behind(reported, trained)) return {};
  return fmt::format(
      "job '{}' comes back after {} samples of epoch {}, but had trained on {} of epoch {}: it "
      "would be given samples again; begin with the state it saved last, as another job",
      name, reported.consumed(), reported.epoch(), trained.consumed(), trained.epoch());
}

void Returning::begun(std::uint64_t user, const std::string& name) {
  const auto found = jobs_.find({user, name});
  if (found == jobs_.end()) return;
  file_.end(found->second);
  jobs_.erase(found);
}

void Returning::give_up() {
  for (const auto& [key, job] : jobs_) file_.end(job);
  jobs_.clear();
}

std::vector<std::string> Returning::names() const {
  std::vector<std::string> all;
  for (const auto& [key, job] : jobs_) all.push_back(key.second);
  return all;
}

}  // namespace batchflow::service
