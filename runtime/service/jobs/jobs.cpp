#include "runtime/service/jobs/jobs.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include "core/base/random.h"
#include "core/engine/engine_config.h"
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
Digest digest_of(const std::vector<SampleId>& samples) {
  Digest digest = samples.size();
  for (const SampleId sample : samples) digest = hash(digest, sample.value);
  return digest;
}

// A remote rank comes by a relay of this process, so its socket has the credentials of this
// process.
bool is_remote(const Peer& peer) {
  return peer.process() == getpid();
}
std::uint64_t process_of(const Peer& peer, const protocol::JoinRequest& request) {
  return is_remote(peer) ? request.pid : static_cast<std::uint64_t>(peer.process());
}

}  // namespace

Jobs::Jobs(const Options& options, const Users& users, Inbox& inbox, StallBook& stalls)
    : options_(options),
      users_(users),
      inbox_(inbox),
      waits_(stalls),
      start_(std::random_device()()) {}

Jobs::~Jobs() = default;

RankEnd* Jobs::find_end(const Peer& peer) const {
  const auto found = ends_.find(&peer);
  return found == ends_.end() ? nullptr : found->second.get();
}

ServedJob* Jobs::find_job(JobId id) const {
  const auto found = by_id_.find(id.value);
  return found == by_id_.end() ? nullptr : found->second;
}

bool Jobs::none_reads() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->has_left(); });
}

bool Jobs::any_reads(DatasetId dataset) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    return job->dataset->id == dataset && !job->has_left();
  });
}

bool Jobs::any_is_of(DatasetId dataset) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& job) { return job->dataset->id == dataset; });
}

bool Jobs::any_is_of(PipelineId pipeline) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& job) { return job->pipeline->id == pipeline; });
}

std::string Jobs::name_of(JobId id) const {
  const ServedJob* job = find_job(id);
  return job ? job->name : std::string();
}

// ----------------------------------------------------------------------------------- joining ----

// A user may set any weights among jobs of that user; beside the jobs of others the quota counts.
double Jobs::weight(uid_t user, double asked) const {
  const bool trusted = user == 0 || user == geteuid();
  return users_.limits(user).weight * (trusted ? asked : std::min(asked, 1.0));
}

void Jobs::join(Peer& peer, const protocol::JoinRequest& request, ServedDataset& dataset,
                ServedPipeline& pipeline, Instant now) {
  if (draining_) return refuse(peer, kNotYet, kEnding);
  if (find_end(peer))
    return refuse(peer, "bad_request", "this connection has joined a job already");
  if (const std::string problem = request_problem(request, dataset); !problem.empty())
    return refuse(peer, "bad_request", problem);
  const std::optional<double> ratio = request.corrupt_ratio_max;
  const double allowed = static_cast<double>(options_.corrupt_ratio_allowed.parts) / Ratio::kWhole;
  if (ratio && *ratio > allowed)
    return refuse(
        peer, "not_allowed",
        fmt::format("corrupt_ratio_max of {:g}: this service lets a job ask for {:g}; ask "
                    "for no more, or its operator for more (corrupt_ratio_allowed of the "
                    "node file)",
                    *ratio, allowed));
  const std::string name = request.job.empty()
                               ? fmt::format("{}-{:08x}-{}", peer.process(), start_, unnamed_++)
                               : request.job;

  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& one) {
    return one->user == peer.user() && one->name == name && one->dataset == &dataset && !one->over;
  });
  ServedJob* job = found == jobs_.end() ? nullptr : found->get();
  if (RankEnd* const other =
          job && request.rank < job->ranks.size() ? job->ranks[request.rank] : nullptr) {
    const bool is_same =
        is_remote(*other->peer) && is_remote(peer) && other->request.pid == request.pid;
    // A remote rank notices before its service that their connection is gone. Other users know
    // names and process numbers, so only the ticket that a rank was given proves that it is the
    // same.
    const bool is_proven =
        is_same && !other->ticket.empty() && protocol::same_secret(other->ticket, request.ticket);
    if (is_proven && request.rejoins) other->peer->end();
    const bool is_over = ::kill(other->peer->process(), 0) != 0 && errno == ESRCH;
    return refuse(peer, is_same || is_over ? kNotYet : "busy",
                  fmt::format("process {} is rank {} of job '{}' already, so process {} cannot be; "
                              "give one of them another job name",
                              process_of(*other->peer, other->request), request.rank, name,
                              process_of(peer, request)));
  }
  if (job && job->is_announced) {
    // If one of its ranks has ended, all will soon.
    const bool is_ending = std::count(job->ranks.begin(), job->ranks.end(), nullptr) > 0;
    return refuse(peer, is_ending ? kNotYet : "busy",
                  fmt::format("job '{}' has begun with other ranks; it can be joined "
                              "again when they have ended",
                              name));
  }
  std::string difference = job ? difference_of(job->request, request) : "";
  if (job && difference.empty() && job->pipeline != &pipeline) difference = "the pipeline";
  // A rank that comes back may not have been given yet what others had been given.
  const Digest exemplars = digest_of(request.exemplars);
  if (job && difference.empty() && !request.rejoins && job->exemplars != exemplars)
    difference = "the exemplars";
  if (!difference.empty())
    return refuse(peer, "bad_request",
                  fmt::format("the ranks of job '{}' do not agree: {}; start all with the same "
                              "arguments",
                              name, difference));
  if (!job) {
    auto made = std::make_unique<ServedJob>();
    made->batch_bytes = batch_bytes(request, pipeline);
    if (const std::string problem = quota_problem(peer.user(), made->batch_bytes); !problem.empty())
      return refuse(peer, "quota", problem);
    made->name = name;
    made->user = peer.user();
    made->dataset = &dataset;
    made->pipeline = &pipeline;
    made->request = request;
    made->request.exemplars.clear();
    made->exemplars = exemplars;
    made->ranks.resize(request.world_size);
    made->since = now;
    job = jobs_.emplace_back(std::move(made)).get();
  }
  auto end = std::make_unique<RankEnd>();
  end->peer = &peer;
  end->job = job;
  end->rank = request.rank;
  end->request = request;
  if (end->rank != 0) end->request.exemplars.clear();
  job->ranks[request.rank] = end.get();
  ends_[&peer] = std::move(end);
  if (std::count(job->ranks.begin(), job->ranks.end(), nullptr) > 0) return;
  if (!begin(*job)) finish_if_left(*job);
}

// The bytes of all batches that the job's ranks may hold at once: as many as they have credits.
Bytes Jobs::batch_bytes(const protocol::JoinRequest& request, ServedPipeline& pipeline) const {
  const Bytes batch = SlotMemory::slot_bytes(
      batch::BlockLayout(pipeline.pipeline->spec(), request.batch_samples).bytes);
  const std::uint64_t credits = request.credits == 0 ? options_.credits : request.credits;
  const std::uint64_t batches = credits * request.world_size;
  return batch > UINT64_MAX / batches ? UINT64_MAX : batch * batches;
}

// Empty: the user may have another job of this size.
std::string Jobs::quota_problem(uid_t user, Bytes bytes) const {
  const UserLimits& limits = users_.limits(user);
  std::uint64_t jobs = 0;
  Bytes held = 0;
  for (const auto& one : jobs_) {
    if (one->user != user || one->over) continue;
    ++jobs;
    held += one->batch_bytes;
  }
  if (jobs >= limits.jobs)
    return fmt::format(
        "user {} has {} jobs, and may have {}; end one, or ask the operator for more (batchflowctl "
        "quota set)",
        user_name(user), jobs, limits.jobs);
  if (limits.batch_bytes > 0 && (bytes > limits.batch_bytes || held > limits.batch_bytes - bytes))
    return fmt::format(
        "its batches may take {} MiB, those of user {}'s other jobs {} MiB, and all of them "
        "together {} MiB; ask for smaller batches or fewer credits, or the operator for more "
        "(batchflowctl quota set)",
        bytes >> 20, user_name(user), held >> 20, limits.batch_bytes >> 20);
  return {};
}

// All ranks have come: the engine is told.
bool Jobs::begin(ServedJob& job) {
  job.id = JobId(next_job_++);
  // A job that comes back has had some of its steps. At least one is left: 0 would mean that it did
  // not say.
  const protocol::JoinRequest& request = job.request;
  if (request.steps > 0)
    job.steps_left = request.steps - std::min(request.steps - 1, request.steps_given);
  engine::JobJoined event = job.joined();
  event.credits = request.credits == 0 ? options_.credits : request.credits;
  event.weight = weight(job.user, request.weight);
  std::vector<NodeId> nodes;
  for (const RankEnd* end : job.ranks) {
    const AgentEnd* const agent = end->peer->agent();
    nodes.push_back(agent ? agent->node() : NodeId(0));
  }
  event.ranks = inbox_.keep(std::move(nodes));

  if (send_back_those_behind(job)) return true;
  // Ranks that come back have had the same steps. Otherwise there is no common step to go on from.
  const auto refuse_all = [&](const std::string& why) {
    for (RankEnd* one : std::vector(job.ranks)) refuse(*one->peer, "bad_position", why);
    return false;
  };
  for (const RankEnd* end : job.ranks) {
    if (end->request.state.empty()) continue;
    std::string problem;
    std::optional<order::Position> position =
        order::position_from_json(end->request.state, problem);
    if (!position)
      return refuse_all(fmt::format("the state cannot be read: {}; begin without one", problem));
    if (job.position && (position->epoch() != job.position->epoch() ||
                         position->consumed() != job.position->consumed() ||
                         position->fields().left_out != job.position->fields().left_out))
      return refuse_all(
          fmt::format("the ranks are not at the same position: epoch {} after {} samples, "
                      "and epoch {} after {}; start all from the same checkpoint",
                      job.position->epoch(), job.position->consumed(), position->epoch(),
                      position->consumed()));
    job.position = std::move(position);
  }
  if (returning_ && job.position && request.rejoins) {
    if (const std::string why = returning_->objection(event.user, job.name, *job.position);
        !why.empty())
      return refuse_all(why);
  }
  if (returning_) returning_->begun(event.user, job.name);
  if (job.position) event.position = inbox_.keep(*job.position);
  by_id_[job.id.value] = &job;
  job.is_announced = true;
  inbox_.add(event);
  answers_.add_exemplars(job);
  return true;
}

// Ranks on several nodes have heard of different steps, when a node has ended. Those that are
// behind have what the others were given (raise), and come back when they have given it. True:
// there are some.
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
    if (ServedJob* job = find_job(promise.job)) job->position = promise.join.position;
  }
}

void Jobs::admitted(const engine::Admit& command) {
  ServedJob* job = find_job(command.job);
  if (!job) return;
  job->running = has_new_job_ = true;
  job->corrupt_most = corrupt_most(*job);
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
    if (AgentEnd* const agent = end->peer->agent()) agent->admit(job->id);
    end->first_step = command.first_step;
    end->consumed = command.first_step;
    waits_.begin(*end);
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
  if (command.why == engine::Refusal::too_many_corrupt ||
      command.why == engine::Refusal::no_workers ||
      command.why == engine::Refusal::storage_failed) {
    const std::string_view last = backend_->troubles().last(job.pipeline->id);
    if (!last.empty()) message += fmt::format("; the last was: {}", last);
  }
  return message;
}

void Jobs::refused(const engine::Refuse& command) {
  ServedJob* job = find_job(command.job);
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
  ServedJob* const job = find_job(command.job);
  return job && writer_.deliver(*job, command, slot, slot_samples);
}

void Jobs::held(NodeId node, JobId id, std::uint64_t steps) {
  if (ServedJob* const job = find_job(id)) writer_.held(*job, node, steps);
}

void Jobs::epoch_ended(const engine::EpochEnded& command) {
  ServedJob* job = find_job(command.job);
  if (!job) return;
  protocol::EpochEndedRecord record;
  record.epoch = command.epoch;
  record.samples = command.samples;
  const bool last = job->request.epochs > 0 && command.epoch + 1 >= job->request.epochs;
  for (RankEnd* end : job->ranks) {
    if (!end || !end->is_admitted) continue;
    writer_.write(*end, protocol::bytes_of(record));
    if (last) writer_.finish(*end, protocol::ServiceRecordKind::finished);
  }
  if (draining_ && !last) let_go(*job);
}

void Jobs::slab_gone(std::uint64_t slab) {
  for (const auto& [peer, end] : ends_) {
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
  const RankEnd* end = find_end(peer);
  return end && end->from_job ? &end->files.doorbell : nullptr;
}

bool Jobs::read_ring(Peer& peer) {
  RankEnd* end = find_end(peer);
  if (!end || !end->from_job) return true;
  const bool well = answers_.read(*end);
  if (end->left) finish_if_left(*end->job);
  return well;
}

bool Jobs::take_record(Peer& peer, std::span<const std::byte> record) {
  RankEnd* end = find_end(peer);
  if (!end || !end->is_admitted) return true;
  const bool well = answers_.take(*end, record);
  if (end->left) finish_if_left(*end->job);
  return well;
}

bool Jobs::sleep(Peer& peer) {
  RankEnd* end = find_end(peer);
  return !end || !end->from_job || end->from_job->fall_asleep();
}

std::uint64_t Jobs::corrupt_most(const ServedJob& job) const {
  const std::uint64_t samples = job.dataset->index->samples();
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
  for (const auto& job : jobs_) {
    const std::uint64_t corrupt = backend_->corrupt_of(job->pipeline->id);
    if (!job->running || job->over || corrupt <= job->corrupt_most) continue;
    job->over = true;
    engine::Refuse why;
    why.job = job->id;
    why.why = engine::Refusal::too_many_corrupt;
    why.needed = corrupt;
    why.available = job->corrupt_most;
    const std::string message = refusal_message(*job, why);
    for (RankEnd* end : std::vector(job->ranks)) {
      if (end) refuse(*end->peer, std::string(engine::name_of(why.why)), message);
    }
  }
}

// ----------------------------------------------------------------------------------- leaving ----

void Jobs::leave(Peer& peer) {
  RankEnd* end = find_end(peer);
  if (!end) return;
  end->left = true;
  waits_.end(*end);
  finish_if_left(*end->job);
}

void Jobs::gone(Peer& peer) {
  const auto found = ends_.find(&peer);
  if (found == ends_.end()) return;
  const std::unique_ptr<RankEnd> end = std::move(found->second);
  ends_.erase(found);
  writer_.forget(*end);
  ServedJob& job = *end->job;
  if (end->files && !job.is_let_go) end->files.rings.revoked().store(1);
  job.steps.clear();  // they will never be whole
  waits_.end(*end);
  job.ranks[end->rank] = nullptr;
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
  if (last) forget(job);
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

void Jobs::forget(ServedJob& job) {
  if (job.is_announced) by_id_.erase(job.id.value);
  writer_.forget(job);
  std::erase_if(jobs_, [&](const auto& one) { return one.get() == &job; });
}

std::size_t Jobs::kill(std::string_view name) {
  std::size_t ended = 0;
  for (const auto& job : jobs_) {
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
  for (const auto& job : jobs_) {
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

void Jobs::check_waiting(Instant now) {
  for (const auto& job : jobs_) {
    if (job->is_announced || now - job->since < options_.wait_for_ranks) continue;
    const auto here = std::count_if(job->ranks.begin(), job->ranks.end(),
                                    [](const RankEnd* end) { return end != nullptr; });
    for (RankEnd* end : std::vector(job->ranks)) {
      if (end)
        refuse(
            *end->peer, "rank_lost",
            fmt::format(
                "only {} of {} ranks of job '{}' came within {} s; start the others, or "
                "ask for that world size",
                here, job->ranks.size(), job->name,
                std::chrono::duration_cast<std::chrono::seconds>(options_.wait_for_ranks).count()));
    }
    return;  // the list may have changed; the next check sees the others
  }
}

void Jobs::away(const Peer& peer) {
  RankEnd* const end = find_end(peer);
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
  for (const auto& [peer, end] : ends_) all += waits_.stalls().times_of(end->wait);
  return all;
}

std::vector<JobStatus> Jobs::status(Instant now) const {
  std::vector<JobStatus> all;
  for (const auto& job : jobs_)
    all.push_back(status_of(*job, waits_.stalls(), options_.credits, now));
  return all;
}

std::string Jobs::waits_for_ranks(Peer& peer) const {
  const RankEnd* end = find_end(peer);
  return end ? service::waits_for_ranks(*end) : std::string();
}

const ServedDataset* Jobs::dataset_of(Peer& peer) const {
  const RankEnd* end = find_end(peer);
  return end ? end->job->dataset : nullptr;
}

}  // namespace batchflow::service
