#include "runtime/service/jobs/rank_arrivals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/base/saturating.h"
#include "core/engine/seed_group.h"
#include "core/order/lane_sizes.h"
#include "core/order/live_epoch.h"
#include "core/order/position_json.h"
#include "fmt/format.h"
#include "policies/registry.h"
#include "runtime/protocol/credits.h"
#include "runtime/protocol/secret.h"
#include "runtime/service/backend/slot_memory.h"
#include "runtime/service/jobs/mixtures.h"

namespace batchflow::service {
namespace {

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

bool is_same_rank(const RankEnd& other, const Peer& peer, const protocol::JoinRequest& request) {
  return is_remote(*other.peer) && is_remote(peer) && other.request.pid == request.pid;
}

// A remote rank notices before its service that their connection is gone. Other users know names
// and process numbers, so only the ticket that a rank was given proves that it is the same.
bool comes_back(const RankEnd& other, const Peer& peer, const protocol::JoinRequest& request) {
  return request.rejoins && is_same_rank(other, peer, request) && !other.ticket.empty() &&
         protocol::same_secret(other.ticket, request.ticket);
}

// Why the peer cannot be the rank that another is.
Objection objection_beside(const RankEnd& other, const Peer& peer,
                           const protocol::JoinRequest& request) {
  const bool is_over = ::kill(other.peer->process(), 0) != 0 && errno == ESRCH;
  return {is_over || is_same_rank(other, peer, request) ? kNotYet : "busy",
          fmt::format("process {} is rank {} of job '{}' already, so process {} cannot be; "
                      "give one of them another job name",
                      process_of(*other.peer, other.request), request.rank, other.job->name,
                      process_of(peer, request))};
}

// Why the job cannot take a rank with this request and these exemplars.
Objection objection_of(const ServedJob& job, const protocol::JoinRequest& request,
                       const ServedPipeline& pipeline, Digest exemplars) {
  if (job.is_announced) {
    // If one of its ranks has ended, all will soon.
    const bool is_ending = std::count(job.ranks.begin(), job.ranks.end(), nullptr) > 0;
    return {is_ending ? kNotYet : "busy",
            fmt::format("job '{}' has begun with other ranks; it can be joined "
                        "again when they have ended",
                        job.name)};
  }
  std::string difference = difference_of(job.request, request);
  if (difference.empty() && job.pipeline != &pipeline) difference = "the pipeline";
  // A rank that comes back may not have been given yet what others had been given.
  if (difference.empty() && !request.rejoins && job.exemplars != exemplars)
    difference = "the exemplars";
  if (difference.empty()) return {};
  return {"bad_request",
          fmt::format("the ranks of job '{}' do not agree: {}; start all with the same arguments",
                      job.name, difference)};
}

// Whether two positions are in different mixtures. If their changes of weights are as many, all
// else must be the same, too.
bool are_apart(const order::Position& one, const order::Position& other) {
  const auto& here = one.fields().mixing;
  const auto& there = other.fields().mixing;
  return here && there && here->fields().changes.size() == there->fields().changes.size() &&
         here->digest() != there->digest();
}

// How many records must be in the log at once, so that a live job's first step comes. A short step
// has one for each rank.
std::uint64_t records_of_first_step(const protocol::JoinRequest& request) {
  const protocol::OrderOptions& options = request.order_options;
  const bool may_be_short = options.fills_from > 0 && options.fills_cut;
  return std::uint64_t{may_be_short ? 1 : request.batch_samples} * request.world_size;
}

// Whether the first of two positions after the same samples of a mixture knows more changes of
// weights.
bool knows_more_changes(const order::Position& one, const order::Position& other) {
  return one.epoch() == other.epoch() && one.consumed() == other.consumed() &&
         one.fields().mixing && other.fields().mixing &&
         one.fields().mixing->fields().changes.size() >
             other.fields().mixing->fields().changes.size();
}

// Takes the position that the ranks of a job have come with. All have had the same steps; otherwise
// there is no common step to go on from. Empty, or what is wrong.
std::string take_positions(ServedJob& job) {
  const protocol::JoinRequest& request = job.request;
  for (const RankEnd* end : job.ranks) {
    if (end->request.state.empty()) continue;
    std::string problem;
    std::optional<order::Position> position =
        order::position_from_json(end->request.state, problem);
    if (!position) return fmt::format("the state cannot be read: {}; begin without one", problem);
    if (request.order == Order::mixed) {
      problem = adopt_mixture(request, *job.dataset, *position);
      if (!problem.empty()) return problem;
      // A rank may not have heard yet of weights to come.
      if (job.position && knows_more_changes(*job.position, *position)) *position = *job.position;
    }
    if (job.position && (position->epoch() != job.position->epoch() ||
                         position->consumed() != job.position->consumed() ||
                         position->next_record() != job.position->next_record() ||
                         position->fields().left_out != job.position->fields().left_out ||
                         are_apart(*job.position, *position)))
      return fmt::format(
          "the ranks are not at the same position: epoch {} after {} samples, "
          "and epoch {} after {}; start all from the same checkpoint",
          job.position->epoch(), job.position->consumed(), position->epoch(), position->consumed());
    job.position = std::move(position);
  }
  return {};
}

}  // namespace

RankArrivals::RankArrivals(const JobOptions& options, const Users& users, Inbox& inbox,
                           Feeds& feeds, ServedJobs& jobs)
    : options_(options),
      users_(users),
      inbox_(inbox),
      feeds_(feeds),
      jobs_(jobs),
      start_(std::random_device()()) {}

void RankArrivals::set_returning(Returning& returning) {
  returning_ = &returning;
  next_job_ = returning.next_job();
}

// A user may set any weights among jobs of that user; beside the jobs of others the quota counts.
double RankArrivals::weight(uid_t user, double asked) const {
  const bool trusted = user == 0 || user == geteuid();
  return users_.limits(user).weight * (trusted ? asked : std::min(asked, 1.0));
}

ServedJob* RankArrivals::join(Peer& peer, const protocol::JoinRequest& request,
                              ServedDataset& dataset, ServedPipeline& pipeline, Instant now) {
  const auto refused = [&peer](std::string_view why, std::string_view message) {
    refuse(peer, why, message);
    return nullptr;
  };
  if (jobs_.end_of(peer)) return refused("bad_request", "this connection has joined a job already");
  if (const Objection why = objection_to(request, dataset)) return refused(why.word, why.text);
  const std::string name = request.job.empty()
                               ? fmt::format("{}-{:08x}-{}", peer.process(), start_, unnamed_++)
                               : request.job;

  ServedJob* job = jobs_.find(peer.user(), name, dataset);
  if (RankEnd* const other =
          job && request.rank < job->ranks.size() ? job->ranks[request.rank] : nullptr) {
    if (comes_back(*other, peer, request)) other->peer->end();
    const Objection why = objection_beside(*other, peer, request);
    return refused(why.word, why.text);
  }
  const Digest exemplars = digest_of(request.exemplars);
  if (job) {
    if (const Objection why = objection_of(*job, request, pipeline, exemplars))
      return refused(why.word, why.text);
  }
  if (!job) {
    auto made = std::make_unique<ServedJob>();
    const Bytes batch = SlotMemory::slot_bytes(
        batch::BlockLayout(pipeline.pipeline->spec(), request.batch_samples).bytes);
    made->credits = credits(request, dataset, pipeline);
    made->batch_bytes =
        saturating_product(batch, std::uint64_t{made->credits} * request.world_size);
    if (const std::string problem = quota_problem(peer.user(), made->batch_bytes); !problem.empty())
      return refused("quota", problem);
    made->name = name;
    made->user = peer.user();
    made->dataset = &dataset;
    made->pipeline = &pipeline;
    made->request = request;
    made->request.exemplars.clear();
    made->exemplars = exemplars;
    made->ranks.resize(request.world_size);
    made->since = now;
    job = &jobs_.add(std::move(made));
  }
  RankEnd& end = jobs_.add(peer, *job, request);
  if (end.rank != 0) end.request.exemplars.clear();
  if (std::count(job->ranks.begin(), job->ranks.end(), nullptr) > 0) return nullptr;
  job->id = JobId(next_job_++);
  return job;
}

Objection RankArrivals::objection_to(const protocol::JoinRequest& request,
                                     const ServedDataset& dataset) const {
  if (std::string problem = request_problem(request, dataset); !problem.empty())
    return {"bad_request", std::move(problem)};
  if (request.order == Order::live) {
    std::string problem = feeds_.step_problem(dataset.id, records_of_first_step(request));
    if (!problem.empty()) return {"bad_request", std::move(problem)};
  }
  const std::optional<double> ratio = request.corrupt_ratio_max;
  const double allowed = static_cast<double>(options_.corrupt_ratio_allowed.parts) / Ratio::kWhole;
  if (ratio && *ratio > allowed)
    return {"not_allowed",
            fmt::format("corrupt_ratio_max of {:g}: this service lets a job ask for {:g}; ask "
                        "for no more, or its operator for more (corrupt_ratio_allowed of the "
                        "node file)",
                        *ratio, allowed)};
  return {};
}

// Each wake of the service and of a job costs as much as many a small batch, so a job that does not
// say how many batches it wants may have as many as take 1 MiB, but not more than half an epoch.
// Each credit promises the memory of a block, which is a bound, too. Jobs with weights, mixtures or
// exemplars get no more than the default: these can change, and batches made ahead have the old
// ones. So do pipelines with steps of users, which cost more than wakes.
std::uint32_t RankArrivals::credits(const protocol::JoinRequest& request,
                                    const ServedDataset& dataset, ServedPipeline& pipeline) const {
  constexpr std::uint32_t kMost = 32;
  constexpr Bytes kBatchesMost = Bytes{1} << 20;
  constexpr Bytes kBlocksMost = Bytes{64} << 20;
  if (request.credits > 0)
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(request.credits, protocol::credits_most(options_.ring_bytes)));
  const bool can_change = request.order == Order::listed || request.order == Order::live ||
                          is_drawn(request.order) || request.order_options.rehearsed > 0;
  if (can_change || !pipeline.pipeline->plugins().empty()) return options_.credits;
  const auto bytes = [&](std::uint32_t samples) {
    return batch::BlockLayout(pipeline.pipeline->spec(), samples).bytes;
  };
  const Bytes batch = bytes(request.batch_samples);
  const Bytes block = bytes(order::block_samples_for(bytes(1), options_.block_bytes));
  const std::uint64_t step = std::uint64_t{request.batch_samples} * request.world_size;
  const std::uint64_t ahead = std::min({kBatchesMost / batch, kBlocksMost / block,
                                        dataset.index->samples() / step / 2, std::uint64_t{kMost}});
  return std::max(options_.credits, static_cast<std::uint32_t>(ahead));
}

// Empty: the user may have another job of this size.
std::string RankArrivals::quota_problem(uid_t user, Bytes bytes) const {
  const UserLimits& limits = users_.limits(user);
  std::uint64_t jobs = 0;
  Bytes held = 0;
  for (const auto& one : jobs_.all()) {
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

bool RankArrivals::begin(ServedJob& job) {
  // A job that comes back has had some of its steps. At least one is left: 0 would mean that it did
  // not say.
  const protocol::JoinRequest& request = job.request;
  if (request.steps > 0)
    job.steps_left = request.steps - std::min(request.steps - 1, request.steps_given);
  engine::JobJoined event = job.joined();
  event.credits = job.credits;
  event.weight = weight(job.user, request.weight);
  // The exact text names one plugin, also later, when the journal is replayed or the buffer is used
  // again.
  const engine::PolicyList list = policies::policy_list();
  event.buffer_policy =
      inbox_.keep(list.exactly(engine::PolicyKind::rehearsal, event.buffer_policy));
  event.weights_policy =
      inbox_.keep(list.exactly(engine::PolicyKind::mixture, event.weights_policy));
  std::vector<NodeId> nodes;
  for (const RankEnd* end : job.ranks) {
    const AgentEnd* const agent = end->peer->agent();
    nodes.push_back(agent ? agent->node() : NodeId(0));
  }
  event.ranks = inbox_.keep(std::move(nodes));

  if (request.order == Order::live && event.fills_from > 0)
    event.fills_from = std::min(event.fills_from, feeds_.window_most(job.dataset->id));

  const auto refuse_all = [&](const std::string& why) {
    for (RankEnd* one : std::vector(job.ranks)) refuse(*one->peer, "bad_position", why);
    return false;
  };
  if (const std::string why = take_positions(job); !why.empty()) return refuse_all(why);
  if (const std::string why = settle_beginning(job, event); !why.empty()) return refuse_all(why);
  if (returning_ && job.position && request.rejoins) {
    if (const std::string why = returning_->objection(event.user, job.name, *job.position);
        !why.empty())
      return refuse_all(why);
  }
  if (returning_) returning_->begun(event.user, job.name);
  if (job.position) event.position = inbox_.keep(*job.position);
  jobs_.announce(job);
  inbox_.add(event);
  return true;
}

std::string RankArrivals::settle_beginning(ServedJob& job, const engine::JobJoined& event) {
  const protocol::JoinRequest& request = job.request;
  if (request.order == Order::mixed && !job.position) {
    const std::uint64_t seed = engine::seed_group_of(event, job.dataset->bundle_shift);
    std::string problem;
    job.position = mixture_position(request, *job.dataset, seed, problem);
    if (!job.position) return problem;
  }
  const std::optional<std::uint64_t> begin_at = request.order_options.begin_at;
  const bool has_state = job.position && job.position->order() == Order::live &&
                         job.position->fields().dataset_version == job.dataset->version;
  if (has_state || (begin_at && !job.position)) {
    std::string problem = feeds_.begin_problem(
        job.dataset->id, has_state ? job.position->next_record() : *begin_at, has_state);
    if (!problem.empty()) return problem;
  }
  if (request.order == Order::live && !job.position &&
      (request.order_options.from_newest || begin_at)) {
    const std::uint64_t seed = engine::seed_group_of(event, job.dataset->bundle_shift);
    job.position =
        order::Position::live(job.dataset->index->version(), job.dataset->index->samples(), seed,
                              begin_at.value_or(feeds_.next_record(job.dataset->id)));
  }
  if (request.order != Order::live || event.buffer_exemplars == 0) return {};
  order::ReservoirName reservoir{0, order::kLiveRecordsMost, event.buffer_exemplars};
  if (job.position) {  // else it begins with the oldest record that is there
    reservoir.seed = job.position->fields().seed;
    reservoir.first = job.position->fields().first;
  }
  return feeds_.exemplars_problem(job.dataset->id, reservoir);
}

void RankArrivals::check_waiting(Instant now) {
  for (const auto& job : jobs_.all()) {
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

}  // namespace batchflow::service
