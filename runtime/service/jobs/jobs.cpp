#include "runtime/service/jobs/jobs.h"

#include <algorithm>
#include <utility>

#include "core/order/replacement.h"
#include "fmt/format.h"
#include "runtime/protocol/secret.h"
#include "runtime/service/backend/slot_memory.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/jobs/refusals.h"

namespace batchflow::service {
namespace {

// The most corrupt samples that a job gets by asking for more than the service's ratio: each is
// remembered.
constexpr std::uint64_t kCorruptMost = 1 << 16;

}  // namespace

Jobs::Jobs(const Options& options, const Users& users, Inbox& inbox, StallBook& stalls)
    : options_(options),
      inbox_(inbox),
      waits_(stalls),
      arrivals_(options_, users, inbox, feeds_, jobs_) {}

Jobs::~Jobs() = default;

std::string Jobs::name_of(JobId id) const {
  const ServedJob* job = jobs_.find(id);
  return job ? job->name : std::string();
}

// ----------------------------------------------------------------------------------- joining ----

void Jobs::join(Peer& peer, const protocol::JoinRequest& request, ServedDataset& dataset,
                ServedPipeline& pipeline, Instant now) {
  if (draining_) return refuse(peer, kNotYet, kEnding);
  ServedJob* const job = arrivals_.join(peer, request, dataset, pipeline, now);
  if (!job || send_back_those_behind(*job)) return;
  if (!arrivals_.begin(*job)) return finish_if_left(*job);
  answers_.add_exemplars(*job);
}

// After a node has ended, ranks on several nodes may have heard of different steps. Ranks that are
// behind have what the others were given (raise), and come back when they have given it. True:
// there are such ranks.
bool Jobs::send_back_those_behind(ServedJob& job) {
  std::uint64_t most = 0;
  for (const RankEnd* end : job.ranks) {
    if (!end->request.rejoins) return false;
    most = std::max(most, end->request.steps_given);
  }
  std::vector<Peer*> behind;
  for (const RankEnd* end : job.ranks) {
    if (end->request.steps_given < most) behind.push_back(end->peer);
  }
  for (Peer* const peer : behind) {
    protocol::Refused refused{
        "bad_position",
        fmt::format("other ranks of job '{}' have had {} steps, and this one has not; start all "
                    "from the same checkpoint",
                    job.name, most)};
    refused.steps_given = most;
    peer->send(protocol::encode(refused), {});
    peer->end();
    gone(*peer);  // its place is free at once
  }
  return !behind.empty();
}

// The engine knows whether a policy chooses the job's samples, and with it the seed.
void Jobs::promised(std::span<const engine::Promise> promises) {
  for (const engine::Promise& promise : promises) {
    if (promise.kind != engine::Promise::Kind::joined) continue;
    if (ServedJob* job = jobs_.find(promise.job)) job->position = promise.join.position;
  }
}

void Jobs::admitted(const engine::Admit& command) {
  ServedJob* job = jobs_.find(command.job);
  if (!job) return;
  job->running = has_new_job_ = true;
  job->corrupt_bounds.clear();
  for (const SampleRange& range : job->ranges())
    job->corrupt_bounds.push_back({range, corrupt_most(*job, range.samples)});
  std::string problem;
  job->pace = protocol::Pace::make(problem);
  job->written = job->paced = command.first_step;
  for (RankEnd* end : job->ranks) {
    if (!end) continue;
    const AgentEnd* const at = end->peer->agent();
    job->held_at[at ? at->node().value : 0] = command.first_step;
    if (job->position->is_chosen() && !end->request.follows_choices) {
      refuse(*end->peer, "bad_request",
             "the service's selection policy chooses the samples of its blocks, and the job's "
             "client library is too old to follow that; install the service's version, or ask for "
             "a strict order");
      continue;
    }
    if (!job->pace) {
      refuse(*end->peer, kNotYet, fmt::format("no memory for its pace: {}", problem));
      continue;
    }
    if (!end->peer->agent() && !make_rings(*end)) continue;
    end->is_admitted = true;
    StepWriter::tell_buffer(*end);
    if (AgentEnd* const agent = end->peer->agent()) agent->admit(job->id);
    end->first_step = command.first_step;
    end->consumed = command.first_step;
    end->credits = command.credits;
    if (!job->request.order_options.keyed) waits_.begin(*end);
    protocol::JoinAnswer admission = job->admission(*end);
    admission.credits = command.credits;
    admission.first_step = command.first_step;
    admission.ring_bytes = options_.ring_bytes;
    admission.ticket = end->ticket = protocol::make_secret();
    std::vector<int> descriptors;  // of a rank on another node: its agent's
    if (end->files)
      descriptors = {end->files.service_file.get(), end->files.job_file.get(),
                     end->files.doorbell.get(), job->pace.file().get()};
    end->peer->send(protocol::encode(admission), descriptors);
    if (job->has_had_all()) writer_.finish(*end, protocol::ServiceRecordKind::finished);
  }
}

// False: the rank was told that there is no memory for them.
bool Jobs::make_rings(RankEnd& end) {
  if (backend_) end.ring_charge = MemoryCharge(backend_->budget(), 2 * options_.ring_bytes);
  if (backend_ && !end.ring_charge) {
    refuse(*end.peer, "no_memory",
           "no memory for its rings: the service's memory is used up (--memory)");
    return false;
  }
  std::string problem;
  end.files = protocol::make_rings(options_.ring_bytes, problem);
  if (!end.files) {
    // What the machine is short of comes back when other jobs end.
    refuse(*end.peer, kNotYet, fmt::format("no memory for its rings: {}", problem));
    return false;
  }
  end.to_job = std::make_unique<protocol::RingWriter>(end.files.rings.to_job());
  end.from_job = std::make_unique<protocol::RingReader>(end.files.rings.from_job());
  return true;
}

std::string Jobs::refusal_message(const ServedJob& job, const engine::Refuse& command) const {
  std::string message =
      fmt::format("job '{}' on '{}': {}", job.name, job.dataset->name, refusal_text(command));
  if (command.why == engine::Refusal::too_many_corrupt && job.request.order == Order::mixed)
    message += "; each source of a mixture counts for itself, and this is one of them";
  if (command.why == engine::Refusal::too_many_corrupt ||
      command.why == engine::Refusal::no_workers ||
      command.why == engine::Refusal::storage_failed) {
    const std::string_view last = backend_->troubles().last(job.pipeline->id);
    if (!last.empty()) message += fmt::format("; the last was: {}", last);
  }
  return message;
}

void Jobs::refused(const engine::Refuse& command) {
  ServedJob* job = jobs_.find(command.job);
  if (!job) return;
  job->running = false;
  job->over = true;
  const std::string message = refusal_message(*job, command);
  for (RankEnd* end : job->ranks) {
    if (!end) continue;
    end->peer->send(
        protocol::encode(protocol::Refused{std::string(engine::name_of(command.why)), message}),
        {});
    if (end->is_admitted) writer_.finish(*end, protocol::ServiceRecordKind::refused);
  }
}

// ----------------------------------------------------------------------------------- running ----

bool Jobs::deliver(const engine::Deliver& command, const Slot* slot, std::uint32_t slot_samples) {
  ServedJob* const job = jobs_.find(command.job);
  return job && writer_.deliver(*job, command, slot, slot_samples);
}

void Jobs::held(NodeId node, JobId id, std::uint64_t steps) {
  if (ServedJob* const job = jobs_.find(id)) writer_.held(*job, node, steps);
}

void Jobs::mixture_set(const engine::MixtureSet& command) {
  if (ServedJob* const job = jobs_.find(command.job)) StepWriter::change(*job, command);
}

void Jobs::exemplars_set(const engine::ExemplarsSet& command) {
  if (ServedJob* const job = jobs_.find(command.job)) StepWriter::change(*job, command);
}

void Jobs::epoch_ended(const engine::EpochEnded& command) {
  ServedJob* job = jobs_.find(command.job);
  if (!job) return;
  protocol::EpochEndedRecord record;
  record.epoch = command.epoch;
  record.samples = command.samples;
  const bool last = job->request.order == Order::live ||
                    (job->request.epochs > 0 && command.epoch + 1 >= job->request.epochs);
  for (RankEnd* end : job->ranks) {
    if (!end || !end->is_admitted) continue;
    writer_.write(*end, protocol::bytes_of(record));
    if (last) writer_.finish(*end, protocol::ServiceRecordKind::finished);
  }
  if (draining_ && !last) let_go(*job);
}

void Jobs::slab_gone(std::uint64_t slab) {
  for (const auto& [peer, end] : jobs_.ends()) {
    if (auto handed = end->slabs.extract(slab)) {
      end->slabs_gone.insert(std::move(handed));
      end->peer->send(protocol::encode(protocol::SlabMessage{slab, 0}), {});
    }
  }
}

void Jobs::wake() {
  end_by_corrupt_samples();
  writer_.flush();
}

const protocol::Descriptor* Jobs::doorbell(Peer& peer) const {
  const RankEnd* end = jobs_.end_of(peer);
  return end && end->from_job ? &end->files.doorbell : nullptr;
}

bool Jobs::read_ring(Peer& peer) {
  RankEnd* end = jobs_.end_of(peer);
  if (!end || !end->from_job) return true;
  const bool well = answers_.read(*end);
  if (end->left) finish_if_left(*end->job);
  return well;
}

bool Jobs::take_record(Peer& peer, std::span<const std::byte> record) {
  RankEnd* end = jobs_.end_of(peer);
  if (!end || !end->is_admitted) return true;
  const bool well = answers_.take(*end, record);
  if (end->left) finish_if_left(*end->job);
  return well;
}

bool Jobs::sleep(Peer& peer) {
  RankEnd* end = jobs_.end_of(peer);
  return !end || !end->from_job || end->from_job->fall_asleep();
}

// Of so many samples that the job reads.
std::uint64_t Jobs::corrupt_most(const ServedJob& job, std::uint64_t samples) const {
  std::uint64_t most = options_.corrupt_ratio_max.share_of(samples);
  if (const auto asked = job.request.corrupt_ratio_max) {
    const auto wanted = static_cast<std::uint64_t>(*asked * static_cast<double>(samples));
    most = std::min(wanted, std::max(most, kCorruptMost));
  }
  return std::max(most, order::kCorruptLeast);
}

// The engine ends jobs that have more than any job may ask for; each job has a bound of its own.
void Jobs::end_by_corrupt_samples() {
  if (!backend_) return;
  const bool has_new_job = std::exchange(has_new_job_, false);
  if (std::exchange(corrupt_seen_, backend_->corrupt_seen()) == backend_->corrupt_seen() &&
      !has_new_job)
    return;
  for (const auto& job : jobs_.all()) {
    if (!job->running || job->over) continue;
    const auto has_more = [&](const ServedJob::CorruptBound& bound) {
      return backend_->corrupt_of(job->pipeline->id, bound.range) > bound.most;
    };
    const auto passed =
        std::find_if(job->corrupt_bounds.begin(), job->corrupt_bounds.end(), has_more);
    if (passed == job->corrupt_bounds.end()) continue;
    job->over = true;
    engine::Refuse why;
    why.job = job->id;
    why.why = engine::Refusal::too_many_corrupt;
    why.needed = backend_->corrupt_of(job->pipeline->id, passed->range);
    why.available = passed->most;
    const std::string message = refusal_message(*job, why);
    for (RankEnd* end : std::vector(job->ranks)) {
      if (end) refuse(*end->peer, std::string(engine::name_of(why.why)), message);
    }
  }
}

// ----------------------------------------------------------------------------------- leaving ----

void Jobs::leave(Peer& peer) {
  RankEnd* end = jobs_.end_of(peer);
  if (!end) return;
  end->left = true;
  waits_.end(*end);
  finish_if_left(*end->job);
}

void Jobs::gone(Peer& peer) {
  const std::unique_ptr<RankEnd> end = jobs_.remove(peer);
  if (!end) return;
  writer_.forget(*end);
  ServedJob& job = *end->job;
  if (end->files && !job.is_let_go) end->files.rings.revoked().store(1);
  job.steps.clear();  // they will never be whole
  waits_.end(*end);
  const bool last = std::count(job.ranks.begin(), job.ranks.end(), nullptr) ==
                    static_cast<std::ptrdiff_t>(job.ranks.size());
  // What the rank held is free: it reads nothing any more.
  if (job.is_announced && !job.is_let_go) {
    if (!last) {
      inbox_.add(engine::RankLost{job.id, end->rank});
    } else {
      inbox_.add_left(job.id, job.dataset->id, job.pipeline->id);
    }
    for (const auto& [step, held] : end->held) answers_.release(*end, held);
  }
  if (!last) return;
  writer_.forget(job);
  jobs_.remove(job);
}

// Ends the job if none of its ranks wants or holds anything any more.
void Jobs::finish_if_left(ServedJob& job) {
  const bool over = std::all_of(job.ranks.begin(), job.ranks.end(), [](const RankEnd* end) {
    return !end || (end->left && end->held.empty());
  });
  if (!over) return;
  for (RankEnd* end : job.ranks) {
    if (end) end->peer->end();
  }
}

std::string Jobs::ask_ideal(std::string_view name, std::optional<uid_t> user, std::uint64_t steps) {
  ServedJob* found = nullptr;
  for (const auto& job : jobs_.all()) {
    if (job->name != name || (user && job->user != *user)) continue;
    if (found)
      return fmt::format("several jobs are called '{}'; give them names of their own", name);
    found = job.get();
  }
  if (!found) return fmt::format("no job is called '{}'; see batchflowctl jobs", name);
  if (!found->allows_ideal())
    return fmt::format(
        "job '{}' does not allow it: it would train on one batch {} times more; allow that in its "
        "script, on a run that you can throw away: DataLoader(..., ideal=True), or "
        "BATCHFLOW_IDEAL=1 in its environment",
        name, steps);
  if (!found->running || found->over) return fmt::format("job '{}' does not run now", name);
  if (found->ideal.are_on())
    return fmt::format("job '{}' is asked for this already; ask again when it is over", name);
  found->ideal.ask(steps);
  return {};
}

std::size_t Jobs::kill(std::string_view name) {
  std::size_t ended = 0;
  for (const auto& job : jobs_.all()) {
    if (job->name != name) continue;
    ++ended;
    for (RankEnd* end : std::vector(job->ranks)) {
      if (end) refuse(*end->peer, "killed", "an operator ended this job (batchflowctl job kill)");
    }
  }
  return ended;
}

void Jobs::drain() {
  draining_ = true;
  for (const auto& job : jobs_.all()) {
    if (job->is_announced) continue;
    for (RankEnd* end : std::vector(job->ranks)) {
      if (end) refuse(*end->peer, kNotYet, kEnding);
    }
  }
}

// Nothing more is written for the job, and what its ranks hold or have not taken yet stays as it
// is. So all of them leave after the same step, and go on there.
void Jobs::let_go(ServedJob& job) {
  job.is_let_go = true;
  job.steps.clear();
  for (RankEnd* end : std::vector(job.ranks)) {
    if (end) end->peer->end();
  }
}

void Jobs::away(const Peer& peer) {
  RankEnd* const end = jobs_.end_of(peer);
  if (!end || !end->job->is_announced || !end->is_admitted || end->job->ends_after) return;
  ServedJob& job = *end->job;
  job.ends_after = job.paced;
  for (RankEnd* other : std::vector(job.ranks)) {
    if (other && other != end) other->end_if_far_enough();
  }
}

// ------------------------------------------------------------------------------------- asked ----

StageTimes Jobs::stalls() const {
  StageTimes all = waits_.stalls().ended();
  for (const auto& [peer, end] : jobs_.ends()) all += waits_.stalls().times_of(end->wait);
  return all;
}

std::vector<JobStatus> Jobs::status(Instant now) const {
  std::vector<JobStatus> all;
  for (const auto& job : jobs_.all()) all.push_back(status_of(*job, waits_.stalls(), now));
  return all;
}

std::string Jobs::waits_for_ranks(Peer& peer) const {
  const RankEnd* end = jobs_.end_of(peer);
  return end ? service::waits_for_ranks(*end) : std::string();
}

const ServedDataset* Jobs::dataset_of(Peer& peer) const {
  const RankEnd* end = jobs_.end_of(peer);
  return end ? end->job->dataset : nullptr;
}

}  // namespace batchflow::service
