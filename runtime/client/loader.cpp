// The loader's life: it joins, waits for records, loses a service and finds it again. What it does
// with a batch is in loader_batches.cpp, what it does with options and questions in
// loader_options.cpp.
#include "runtime/client/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/client/c_interface.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/ring.h"

namespace batchflow::client {
namespace {

using namespace std::chrono_literals;

// How often a loader that waits looks at its socket. A loader that finds a batch each time looks
// less often, since the batch waits for some microseconds meanwhile.
constexpr auto kLookEvery = 50ms;
constexpr auto kLookEveryWhileBusy = 250ms;
constexpr auto kBackoffFirst = 50ms;
constexpr auto kBackoffMost = 1s;

std::uint64_t nanoseconds(std::chrono::nanoseconds duration) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
}

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Loader::~Loader() {
  sleeps_on_ = nullptr;
  if (is_of_parent() || !session_ || session_->link()->is_lost()) return;
  begin_call(Clock::now());
  session_->link()->send_pending();
  session_->link()->channel().send(protocol::encode_leave(), {}, protocol::Channel::kAtOnce);
}

void Loader::adopt(std::unique_ptr<Session> session) {
  session_ = std::move(session);
  left_.reset();
  owed_to_ = 0;
  admission_ = session_->admission();
  next_step_ = admission_.first_step;
  is_given_ = false;
  sleeps_on_ = &session_->link()->rings().to_job().writer->wakes;
  // The service draws a weighted epoch when the job requests batches, so scores must come first.
  has_requested_ = request_.order != Order::weighted;
  if (has_requested_) session_->link()->request_batches(admission_.credits);
}

bf_status Loader::request_first_batches(Clock::time_point deadline) {
  std::uint64_t from = 0;
  for (;;) {
    const std::vector<engine::Score> scores = kept_scores_.next(from, engine::kScoresMost);
    if (scores.empty()) break;
    const bf_status status = send_scores(scores, deadline);
    if (status != BF_OK) return status;
  }
  session_->link()->request_batches(admission_.credits);
  has_requested_ = true;
  return BF_OK;
}

// ---------------------------------------------------------------------------- the next batch ----

void Loader::begin_call(Clock::time_point now) {
  if (returned_at_ == Clock::time_point{}) return;
  const auto between = now - returned_at_;
  between_ += between;
  if (!is_given_) return;
  is_given_ = false;
  session_->link()->consumed(given_step_, nanoseconds(between), nanoseconds(waited_));
  waited_ = {};
  ask_after_ = kAskFirst;
}

void Loader::ask_for_missing_ranks(Clock::time_point now) {
  if (say_ == nullptr || request_.world_size == 1) return;
  if (const auto answer = session_->take_missing_ranks(); !answer.empty())
    say(BF_SAID_OF_WAIT, fmt::format("rank {} has waited for {:.0f} s for {}", request_.rank,
                                     seconds(waited_ + (now - waits_since_)), answer));
  if (waited_ + (now - waits_since_) < ask_after_) return;
  ask_after_ *= 2;
  session_->ask_for_missing_ranks();
}

bf_status Loader::next(bf_batch& batch) {
  return next(batch, timeout_, true);
}

bf_status Loader::next(bf_batch& batch, Clock::duration most, bool comes_back) {
  if (ended_ == BF_END) return BF_END;
  if (ended_ != BF_OK) return fail(ended_, ended_because_);
  const auto begin = Clock::now();
  begin_call(begin);
  waits_since_ = begin;
  const bf_status status = next_before(begin, most, comes_back, batch);
  returned_at_ = Clock::now();
  waited_ += returned_at_ - begin;
  wait_ += returned_at_ - begin;
  return status;
}

bf_status Loader::next_before(Clock::time_point begin, Clock::duration most, bool comes_back,
                              bf_batch& batch) {
  const auto deadline = begin + most;
  bool waited = false;
  for (;;) {
    if (interrupted_.load() != 0) return interrupted_now();
    if (!session_ && ended_ != BF_OK) return fail(ended_, ended_because_);
    if (!session_ && !comes_back) return fail(BF_TIMEOUT, "the service is away: " + lost_because_);
    if (!session_) {
      const bf_status status = reconnect(deadline);
      if (status != BF_OK) return status;
    }
    if (!has_requested_) {
      const bf_status status = request_first_batches(deadline);
      if (status != BF_OK) return status;
    }
    // The end of the socket must be noticed also where the ring is never empty.
    const auto now = Clock::now();
    bool alive = true;
    const auto look_every = read_record() ? kLookEveryWhileBusy : kLookEvery;
    if (!session_) continue;
    if (waited || now - looked_at_socket_ > look_every) {
      looked_at_socket_ = now;
      alive = session_->look_at_socket();
      if (waited) ask_for_missing_ranks(now);
    }
    const bf_status status = take_record(batch, session_->is_revoked());
    if (status != BF_TIMEOUT) return status;
    if (!session_) continue;
    session_->link()->send_pending();
    if (!alive) {
      lost(session_->lost_because());
      continue;
    }
    if (now >= deadline) {
      return fail(BF_TIMEOUT,
                  fmt::format("no batch within {:g} s; call again to go on waiting, and run "
                              "'batchflowctl doctor', which says what holds it up",
                              seconds(most)));
    }
    wait_for_record(std::min(now + kLookEvery, deadline));
    waited = true;
  }
}

bool Loader::read_record() {
  protocol::RingReader& reader = session_->reader();
  while (!has_record_) {
    const auto bytes = reader.next();
    if (!bytes) {
      if (reader.broken()) lost("its ring is damaged");
      return false;
    }
    std::string problem;
    if (!protocol::read_service_record(*bytes, record_, problem) || BF_FAILPOINT("client.record")) {
      lost(problem.empty() ? "its ring is damaged" : problem);
      return false;
    }
    has_record_ = record_.kind != protocol::ServiceRecordKind::epoch_ended;
    reader.free_read();
  }
  return true;
}

bf_status Loader::take_record(bf_batch& batch, bool only_end) {
  if (!read_record()) return BF_TIMEOUT;
  if (record_.kind == protocol::ServiceRecordKind::finished) return end(BF_END, "");
  if (record_.kind == protocol::ServiceRecordKind::refused) return end_by_refusal();
  if (only_end) return BF_TIMEOUT;
  return session_->is_there(record_.batch.step) || step_ < owed_to_ ? give(batch) : BF_TIMEOUT;
}

void Loader::wait_for_record(Clock::time_point until) {
  if (has_record_) {
    // As a rule, the service writes the other ranks' batches of the step within microseconds.
    std::this_thread::sleep_for(std::min<Clock::duration>(50us, until - Clock::now()));
  } else {
    session_->reader().wait(nanoseconds(until - Clock::now()));
  }
}

void Loader::interrupt() {
  interrupted_ = 1;
  protocol::futex_wake(&interrupted_);
  if (const auto* word = sleeps_on_.load()) protocol::futex_wake(word);
}

bf_status Loader::interrupted_now() {
  interrupted_ = 0;
  return fail(BF_INTERRUPTED, "bf_loader_interrupt was called; call again to go on");
}

// ----------------------------------------------------------------------- losing the service ----

bf_status Loader::end(bf_status status, std::string because) {
  ended_ = status;
  ended_because_ = std::move(because);
  return status == BF_END ? status : fail(status, ended_because_);
}

bf_status Loader::end_by_refusal() {
  session_->look_at_socket();
  const auto& refused = session_->refused();
  return end(BF_REFUSED, refused ? refused->message
                                 : "the service ended the job without a reason; see its log");
}

void Loader::lost(std::string_view because) {
  session_->lose(because);
  if (session_->refused()) end_by_refusal();
  lost_because_ = because;
  sleeps_on_ = nullptr;
  left_ = std::move(session_);
  left_has_record_ = has_record_;
  has_record_ = false;
  is_given_ = false;
  if (lost_at_ != Clock::time_point{}) return;  // it was lost before, and no batch came since
  lost_at_ = Clock::now();
  try_again_at_ = lost_at_;
  backoff_ = kBackoffFirst;
}

bool Loader::sleep_until(Clock::time_point when) {
  const auto left = when - Clock::now();
  if (left > Clock::duration::zero()) protocol::futex_wait(interrupted_, 0, nanoseconds(left));
  return interrupted_.load() == 0;
}

std::string Loader::difference_of(const protocol::JoinAnswer& admission) const {
  if (admission.dataset_version != admission_.dataset_version ||
      admission.dataset_samples != admission_.dataset_samples) {
    return "the dataset has changed";
  }
  if (admission.pipeline_hash != admission_.pipeline_hash || !(admission.spec == admission_.spec))
    return "the pipeline has changed";
  return admission.seed != admission_.seed ? "the seed has changed" : "";
}

// Goes back to the session that was lost, to give what other ranks have been given. False: that did
// not help before.
bool Loader::catch_up(std::uint64_t steps_given) {
  if (!left_ || (owed_to_ > 0 && step_ == caught_up_at_)) return false;
  session_ = std::move(left_);
  has_record_ = left_has_record_;
  owed_to_ = steps_given;
  caught_up_at_ = step_;
  return true;
}

bf_status Loader::reconnect(Clock::time_point deadline) {
  if (!track_.is_known())
    return end(BF_NO_SERVICE,
               fmt::format("the service went away ({}), and the job's position is not known, since "
                           "it has so many ranks; open its loaders with a state that was saved "
                           "before",
                           lost_because_));
  const auto give_up_at = lost_at_ + reconnect_time_;
  Session::Problem problem;
  for (;;) {
    if (!sleep_until(std::min({try_again_at_, deadline, give_up_at}))) return interrupted_now();
    const auto now = Clock::now();
    if (now >= give_up_at) {
      return end(BF_NO_SERVICE,
                 fmt::format("the service went away ({}) and did not come back within {:g} s{}{}; "
                             "start it, and open a loader with the state of this one",
                             lost_because_, seconds(reconnect_time_),
                             problem.message.empty() ? "" : ": ", problem.message));
    }
    if (now >= deadline) {
      return fail(BF_TIMEOUT, fmt::format("the service went away ({}) and is not back yet; call "
                                          "again to go on waiting",
                                          lost_because_));
    }
    if (now < try_again_at_) continue;
    try_again_at_ = now + backoff_;
    backoff_ = std::min<Clock::duration>(backoff_ * 2, kBackoffMost);
    request_.rejoins = true;
    request_.job = admission_.job;
    request_.ticket = admission_.ticket;
    request_.pipeline_hash = admission_.pipeline_hash;
    request_.steps_given = step_;
    request_.state = order::to_json(track_.position());
    auto session = Session::open(
        addresses_, request_, shown_, std::min(deadline, give_up_at),
        [this] { return interrupted_.load() != 0; },
        [this](const std::string& text) { say(BF_SAID_OF_WAIT, text); }, problem);
    if (!session && problem.steps_given > step_ && catch_up(problem.steps_given)) return BF_OK;
    if (!session && problem.failure == Session::Failure::refused)
      return end(BF_REFUSED, problem.message);
    if (!session && problem.failure == Session::Failure::protocol)
      return end(BF_PROTOCOL, problem.message);
    if (!session) continue;
    if (const std::string difference = difference_of(session->admission()); !difference.empty()) {
      return end(BF_REFUSED,
                 fmt::format("{} while the service was away; open a new loader", difference));
    }
    adopt(std::move(session));
    ++reconnects_;
    return BF_OK;
  }
}

}  // namespace batchflow::client
