#include "runtime/client/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "core/order/position_json.h"
#include "core/order/rehearsal.h"
#include "runtime/client/c_interface.h"
#include "runtime/client/loader_options.h"
#include "runtime/client/slot_batch.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/ring.h"

namespace batchflow::client {
namespace {

using namespace std::chrono_literals;

// How often a loader that waits looks at its socket. A loader that finds a batch each time looks
// less often, since the batch waits for some microseconds meanwhile.
constexpr auto kLookEvery = 50ms;
constexpr auto kLookEveryWhileBusy = 250ms;

std::uint64_t nanoseconds(std::chrono::nanoseconds duration) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
}

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

// ----------------------------------------------------------------------------- beginning, end ----

bf_status Loader::open(const bf_loader_options& options, std::unique_ptr<Loader>& out) {
  if (std::string problem = options_problem(options); !problem.empty())
    return fail(BF_BAD_ARGUMENT, std::move(problem));
  return open(options, request_of(options), out);
}

bf_status Loader::open_keyed(const bf_loader_options& options, std::string_view form,
                             std::unique_ptr<Loader>& out) {
  if (std::string problem = options_problem(options); !problem.empty())
    return fail(BF_BAD_ARGUMENT, std::move(problem));
  protocol::JoinRequest request = request_of(options);
  request.order_options.keyed = true;
  request.form = form;
  return open(options, std::move(request), out);
}

bf_status Loader::open(const bf_loader_options& options, protocol::JoinRequest request,
                       std::unique_ptr<Loader>& out) {
  std::unique_ptr<Loader> loader(new Loader);
  loader->addresses_ = service_addresses(options.service);
  loader->request_ = std::move(request);
  if (std::string problem =
          protocol::order_problem(loader->request_.order, loader->request_.batch_samples,
                                  loader->request_.order_options, loader->request_.exemplars);
      !problem.empty())
    return fail(BF_BAD_ARGUMENT, std::move(problem));
  loader->copies_ = options.copy != 0;
  loader->say_ = options.say;
  loader->say_context_ = options.say_context;
  loader->timeout_ = duration_of(options.timeout_s, 300);
  const Clock::duration longest_absence = duration_of(options.reconnect_s, 60);
  loader->absence_.set_longest(longest_absence);
  if (std::string problem = show_dataset(options.dataset, loader->request_, loader->shown_);
      !problem.empty())
    return fail(BF_BAD_ARGUMENT, std::move(problem));
  Session::Problem problem;
  std::unique_ptr<Session> session = Session::open_first(
      loader->addresses_, loader->request_, loader->shown_, loader->timeout_, longest_absence,
      [&](const std::string& text) { loader->say(BF_SAID_OF_WAIT, text); }, problem);
  if (!session) return fail(Session::status_of(problem.failure), std::move(problem.message));
  std::string why;
  auto track = Track::begin(loader->request_, session->admission(), why);
  if (!track) return fail(BF_BAD_ARGUMENT, fmt::format("'state' cannot be used: {}", why));
  loader->track_ = std::move(*track);
  loader->adopt(std::move(session));
  loader->describe_fields();
  for (const std::string& note : loader->admission_.notes) loader->say(BF_SAID_OF_DATA, note);
  out = std::move(loader);
  return BF_OK;
}

void Loader::describe_fields() {
  for (const batch::Field& field : admission_.spec.fields) {
    sample_bytes_ += field.row_bytes() * field.rows_most();
    fields_.push_back({field.name.c_str(), static_cast<bf_type>(field.type), field.ragged,
                       static_cast<std::uint32_t>(field.shape.size()), field.shape.data()});
  }
}

Loader::~Loader() {
  sleeps_on_ = nullptr;
  if (!is_of_parent()) ideal_.end();
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
  ideal_.forget_announced();
  is_given_ = false;
  sleeps_on_ = &session_->link()->rings().to_job().writer->wakes;
  // The service draws a weighted epoch when the job requests batches, so scores must come first.
  // So must those that a policy fills a buffer by.
  has_requested_ = request_.order != Order::weighted && !has_buffer();
  if (has_requested_) session_->link()->request_batches(admission_.credits);
  for (const order::MixtureChange& change : mixture_.asked()) session_->link()->report(change);
  if (!mixture_.losses().empty()) session_->link()->report_losses(mixture_.losses());
  if (on_session_) on_session_();
}

bf_status Loader::request_first_batches(Clock::time_point deadline) {
  const bf_status status = reports_.send_all_scores(sends_until(deadline));
  if (status != BF_OK) return status;
  session_->link()->request_batches(admission_.credits);
  has_requested_ = true;
  return BF_OK;
}

// ---------------------------------------------------------------------------- the next batch ----

void Loader::begin_call(Clock::time_point now) {
  if (returned_at_ == Clock::time_point{}) return;
  const auto between = now - returned_at_;
  if (!ideal_.is_again()) between_ += between;
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

bf_status Loader::next_within(bf_batch& batch, double seconds) {
  if (!are_seconds(seconds)) return fail(BF_BAD_ARGUMENT, "'seconds' must be 0 to 1e8");
  const std::chrono::duration<double> most(seconds);
  return next(batch, std::chrono::duration_cast<Clock::duration>(most), false);
}

bf_status Loader::next(bf_batch& batch, Clock::duration most, bool comes_back) {
  if (ended_ == BF_END) return BF_END;
  if (ended_ != BF_OK) return fail(ended_, ended_because_);
  const auto begin = Clock::now();
  begin_call(begin);
  if (ideal_.is_on()) {
    if (const bf_status status = give_again(begin, batch); status != BF_TIMEOUT) return status;
  }
  waits_since_ = begin;
  const bf_status status = next_before(begin, most, comes_back, batch);
  returned_at_ = Clock::now();
  ideal_.returned(returned_at_);
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
    if (!session_ && !comes_back)
      return fail(BF_TIMEOUT, "the service is away: " + absence_.because());
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
    if (record_.kind == protocol::ServiceRecordKind::ideal) ideal_.announce(record_.ideal.steps);
    has_record_ = record_.kind != protocol::ServiceRecordKind::epoch_ended &&
                  record_.kind != protocol::ServiceRecordKind::mixture &&
                  record_.kind != protocol::ServiceRecordKind::exemplars &&
                  record_.kind != protocol::ServiceRecordKind::ideal;
    reader.free_read();
    if (record_.kind == protocol::ServiceRecordKind::mixture && !take_change()) return false;
    if (record_.kind == protocol::ServiceRecordKind::exemplars && !take_buffer()) return false;
  }
  return true;
}

// False: the service sent what it must not.
bool Loader::take_change() {
  const std::string problem = track_.change(record_.change);
  if (!problem.empty()) {
    lost(problem);
    return false;
  }
  mixture_.answered(record_.change);
  return true;
}

// False: a part is missing.
bool Loader::take_buffer() {
  const protocol::BufferRecord& part = record_.buffer;
  if (part.first == 0) next_buffer_ = {};
  if (part.first != next_buffer_.keys.size()) {
    lost("a part of its buffer is missing");
    return false;
  }
  for (const SampleId sample : record_.exemplars) next_buffer_.keys.push_back(sample.value);
  std::vector<std::uint32_t>& weights = next_buffer_.weights;
  weights.insert(weights.end(), record_.weights.begin(), record_.weights.end());
  weights.resize(next_buffer_.keys.size());
  if (next_buffer_.keys.size() == part.total) buffer_ = std::exchange(next_buffer_, {});
  return true;
}

bf_status Loader::take_record(bf_batch& batch, bool only_end) {
  if (!read_record()) return BF_TIMEOUT;
  if (record_.kind == protocol::ServiceRecordKind::finished) return end(BF_END, "");
  if (record_.kind == protocol::ServiceRecordKind::refused) return end_by_refusal();
  if (only_end) return BF_TIMEOUT;
  if (record_.kind == protocol::ServiceRecordKind::absent) return give_absent(batch);
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

const batch::BlockLayout& Loader::layout_of(std::uint32_t samples) {
  constexpr std::size_t kLayoutsMost = 64;
  const auto found = layouts_.find(samples);
  if (found != layouts_.end()) return found->second;
  if (layouts_.size() >= kLayoutsMost) layouts_.clear();
  return layouts_.emplace(samples, batch::BlockLayout(admission_.spec, samples)).first->second;
}

std::string Loader::slab_problem(const Slab* slab) const {
  const protocol::BatchRecord& batch = record_.batch;
  if (batch.step < next_step_) return fmt::format("step {} after step {}", batch.step, next_step_);
  if (slab == nullptr) return fmt::format("a batch in slab {}, which is not there", batch.slab);
  // The numbers of a layout are bounded by the slab's size, so this is checked before one is made.
  if (batch.slot_samples > slab->mapping.memory().size() / sample_bytes_)
    return fmt::format("a slot of {} samples in slab {}", batch.slot_samples, batch.slab);
  return "";
}

bf_status Loader::give(bf_batch& batch) {
  const protocol::BatchRecord& record = record_.batch;
  auto slab = session_->slab(record.slab);
  if (!slab) {
    session_->look_at_socket();  // it may have come just before the end
    slab = session_->slab(record.slab);
  }
  if (const std::string problem = slab_problem(slab.get()); !problem.empty()) {
    lost(problem);
    return BF_TIMEOUT;
  }
  const batch::BlockLayout& layout = layout_of(record.slot_samples);
  const std::span<const std::byte> memory = slab->mapping.memory();
  if (!lies_in(memory, layout, record)) {
    lost(fmt::format("a batch that does not lie in slab {}", record.slab));
    return BF_TIMEOUT;
  }
  // A batch is in place only while one credit stays for the next. So a program that holds all
  // batches gets copies, and never waits for itself.
  const std::shared_ptr<Link>& link = session_->link();
  batch.copied = copies_ || link->held_in_place() + 1 >= admission_.credits;
  std::unique_ptr<HeldBatch> held = show(slab, record, batch);
  held->link = link;
  held->step = record.step;
  if (!ideal_.is_announced()) return given(batch, std::move(held));
  const auto slot = std::make_shared<const KeptSlot>(link, record.step, batch.copied == 0);
  if (!batch.copied) held->kept = slot;  // copies need the slot no more than copies of others do
  const bf_status status = given(batch, std::move(held), true);
  if (status == BF_OK) ideal_.begin(std::move(slab), slot, record, batch);
  return status;
}

bf_status Loader::give_absent(bf_batch& batch) {
  has_record_ = false;
  batch = {};
  batch.step = record_.absent.number;
  absence_.end();
  return BF_OK;
}

std::unique_ptr<HeldBatch> Loader::show(const std::shared_ptr<const Slab>& slab,
                                        const protocol::BatchRecord& record, bf_batch& batch) {
  const batch::BlockLayout& layout = layout_of(record.slot_samples);
  if (batch.copied == 0) return batch_in_place(layout, slab, record, batch);
  return batch_copied(layout, slab->mapping.memory().data() + record.offset,
                      batch::BlockLayout(admission_.spec, record.samples), record, batch);
}

bf_status Loader::give_again(Clock::time_point now, bf_batch& batch) {
  if (interrupted_.load() != 0) return interrupted_now();
  const bool is_over = ideal_.are_all_given();
  if (is_over) ideal_.report(now);
  // A service that has dropped the rank may use the batch's memory for others.
  if (is_over || (session_ && session_->is_revoked())) {
    ideal_.end();
    return BF_TIMEOUT;
  }
  batch = ideal_.first();
  std::unique_ptr<HeldBatch> held = show(ideal_.slab(), ideal_.record(), batch);
  if (!batch.copied) held->kept = ideal_.slot();
  batch.handle = hold(std::move(held));
  batch.again = ideal_.count();
  ++again_;
  returned_at_ = Clock::now();
  ideal_.returned(returned_at_);
  return BF_OK;
}

// Once the batch is counted as given, nothing may fail any more.
bf_status Loader::given(bf_batch& batch, std::unique_ptr<HeldBatch> held, bool slot_is_kept) {
  const protocol::BatchRecord& record = record_.batch;
  const std::shared_ptr<Link> link = held->link;
  if (!batch.copied) link->hold_in_place();
  batch.handle = hold(std::move(held));
  // What was asked for is at no position.
  const bool keyed = request_.order_options.keyed;
  if (const std::string problem = keyed ? "" : track_.give(record, record_.slices, record_.indices);
      !problem.empty()) {
    session_->lose(problem);
    release(batch.handle);
    return end(BF_PROTOCOL, fmt::format("the service gave what it must not: {}; open a loader with "
                                        "a state that was saved before",
                                        problem));
  }
  has_record_ = false;
  if (batch.copied && !slot_is_kept) link->released_copied(record.step);
  is_given_ = true;
  given_step_ = record.step;
  next_step_ = record.step + 1;
  absence_.end();
  batch.step = step_++;
  batch.epoch = record.epoch;
  batch.last_of_epoch = static_cast<int>(record.last_of_epoch);
  batch.samples = record.samples;
  batch.fillers = record.fillers;
  batch.rehearsed = record.rehearsed;
  // What fills a step that was asked to be short stands last, and is not shown.
  if (request_.order_options.fills_cut) batch.samples -= std::exchange(batch.rehearsed, 0);
  batch.repeats = record.repeats;
  samples_ += batch.samples;
  replaced_ += static_cast<std::uint64_t>(
      std::count_if(batch.marks, batch.marks + batch.samples,
                    [](std::uint8_t marks) { return (marks & batch::kReplaced) != 0; }));
  copied_ += batch.copied ? 1 : 0;
  return BF_OK;
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
  sleeps_on_ = nullptr;
  left_ = std::move(session_);
  left_has_record_ = has_record_;
  has_record_ = false;
  is_given_ = false;
  absence_.begin(because, Clock::now());
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
                           absence_.because()));
  const auto give_up_at = absence_.given_up_at();
  Session::Problem problem;
  for (;;) {
    if (!sleep_until(std::min({absence_.next_try(), deadline, give_up_at})))
      return interrupted_now();
    const auto now = Clock::now();
    if (now >= give_up_at) {
      return end(BF_NO_SERVICE,
                 fmt::format("the service went away ({}) and did not come back within {:g} s{}{}; "
                             "start it, and open a loader with the state of this one",
                             absence_.because(), seconds(absence_.longest()),
                             problem.message.empty() ? "" : ": ", problem.message));
    }
    if (now >= deadline) {
      return fail(BF_TIMEOUT, fmt::format("the service went away ({}) and is not back yet; call "
                                          "again to go on waiting",
                                          absence_.because()));
    }
    if (now < absence_.next_try()) continue;
    absence_.tried(now);
    request_.rejoins = true;
    request_.job = admission_.job;
    request_.ticket = admission_.ticket;
    request_.pipeline_hash = admission_.pipeline_hash;
    request_.steps_given = step_;
    if (!request_.order_options.keyed) request_.state = order::to_json(track_.position());
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
    // The service may know of weights to come that this rank had not heard of.
    if (request_.order == Order::mixed) {
      std::string why;
      if (auto track = Track::begin(request_, admission_, why)) {
        for (const order::MixtureChange& change : track->changes_beside(track_))
          mixture_.hear_of(change);
        track_ = std::move(*track);
      }
    }
    ++reconnects_;
    return BF_OK;
  }
}

// ------------------------------------------------------------------------------ what jobs ask ----

bf_status Loader::state(const char** text) {
  if (!track_.is_known()) {
    return fail(BF_BAD_ARGUMENT,
                "a training step of so many ranks has more slices of blocks than a batch can "
                "describe, so the job's position is not known; use larger batches or fewer ranks");
  }
  state_ = order::to_json(track_.position());
  *text = state_.c_str();
  return BF_OK;
}

// The scores that a program reports before it has requested batches go with the request.
bf_status Loader::report_scores(const std::uint64_t* keys, const float* scores, std::size_t count) {
  return reports_.report_scores(
      {keys, count}, scores, admission_.dataset_samples,
      session_ && has_requested_ ? sends_until(Clock::now() + timeout_) : Send());
}

bf_status Loader::scores(const std::uint64_t** keys, const float** scores, std::size_t& count) {
  reports_.show_scores(keys, scores, count);
  return BF_OK;
}

Send Loader::sends_until(Clock::time_point deadline) {
  return [this, deadline](const char* problem, const std::function<bool(Link&)>& report) {
    while (!report(*session_->link())) {
      if (interrupted_.load() != 0) return interrupted_now();
      if (Clock::now() >= deadline) return fail(BF_TIMEOUT, problem);
      std::this_thread::sleep_for(1ms);
    }
    return BF_OK;
  };
}

bf_status Loader::ask(std::span<const SampleId> keys) {
  if (!session_) return BF_OK;  // the next one is asked for all of them
  // The batch before counts as consumed, or its credit would be asked for twice.
  const auto now = Clock::now();
  begin_call(now);
  returned_at_ = now;
  return sends_until(Clock::now() + timeout_)("the service does not read what it is asked for",
                                              [&](Link& link) { return link.ask(keys); });
}

// A live job has no buffer: its exemplars follow from the numbers of its records.
bool Loader::has_buffer() const {
  return request_.order != Order::live && request_.order_options.buffer_exemplars > 0;
}

bf_status Loader::report_exemplars(const std::uint64_t* keys, std::size_t count) {
  if (request_.order == Order::live)
    return fail(BF_BAD_ARGUMENT,
                "this loader has a feed, and rehearses records that it has had; 'fills_from' and "
                "'buffer_exemplars' say which");
  if (request_.order_options.rehearsed == 0)
    return fail(BF_BAD_ARGUMENT,
                "this loader rehearses nothing; open one with 'rehearsed', the samples of each "
                "batch that come from the buffer");
  if (request_.order_options.buffer_exemplars > 0)
    return fail(BF_BAD_ARGUMENT,
                "the service fills the buffer of this loader; open one without 'buffer_exemplars'");
  if (count > order::kExemplarsMost) return fail(BF_BAD_ARGUMENT, too_many_exemplars(count));
  for (std::size_t i = 0; i < count; ++i)
    if (keys[i] >= admission_.dataset_samples)
      return fail(BF_BAD_ARGUMENT, fmt::format("exemplar {} has key {}; write keys below {}", i,
                                               keys[i], admission_.dataset_samples));
  request_.exemplars.clear();
  for (std::size_t i = 0; i < count; ++i) request_.exemplars.emplace_back(keys[i]);
  return session_ && request_.rank == 0
             ? JobReports::send_exemplars(request_.exemplars, sends_until(Clock::now() + timeout_))
             : BF_OK;
}

bf_status Loader::report_features(std::span<const std::uint64_t> keys,
                                  std::span<const float> values, std::size_t features,
                                  const std::uint32_t* classes) {
  if (!has_buffer())
    return fail(BF_BAD_ARGUMENT,
                "features are for a buffer that the service fills; open a loader with "
                "'buffer_exemplars'");
  if (features > engine::kFeaturesMost)
    return fail(BF_BAD_ARGUMENT, fmt::format("{} features of a sample; give {} at most", features,
                                             engine::kFeaturesMost));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] >= admission_.dataset_samples)
      return fail(BF_BAD_ARGUMENT, fmt::format("features of key {}; write keys below {}", keys[i],
                                               admission_.dataset_samples));
  }
  if (!std::all_of(values.begin(), values.end(), [](float one) { return std::isfinite(one); }))
    return fail(BF_BAD_ARGUMENT, "a feature is not a number; leave its sample out");
  if (!session_) return BF_OK;  // they say nothing of a service to come
  const std::size_t most = protocol::described_in_record(features);
  protocol::Described part;
  part.features = static_cast<std::uint32_t>(features);
  for (std::size_t first = 0; first < keys.size(); first += most) {
    const std::size_t count = std::min(most, keys.size() - first);
    part.samples.clear();
    for (std::size_t i = first; i < first + count; ++i) part.samples.emplace_back(keys[i]);
    if (classes != nullptr) part.labels.assign(classes + first, classes + first + count);
    const auto own = values.subspan(first * features, count * features);
    part.values.assign(own.begin(), own.end());
    const bf_status status =
        sends_until(Clock::now() + timeout_)("the service does not read features; call again",
                                             [&](Link& link) { return link.report(part); });
    if (status != BF_OK) return status;
  }
  return BF_OK;
}

bf_status Loader::exemplars(const std::uint64_t** keys, const std::uint32_t** weights,
                            std::size_t& count) {
  *keys = buffer_.keys.data();
  *weights = buffer_.weights.data();
  count = buffer_.keys.size();
  return BF_OK;
}

bf_status Loader::set_weights(std::span<const double> weights, std::uint64_t at) {
  const protocol::OrderOptions& options = request_.order_options;
  if (!options.weights_change)
    return fail(BF_BAD_ARGUMENT,
                "this loader's weights cannot change; open one of a mixture with 'weights_change'");
  if (weights.size() != options.sources.size())
    return fail(BF_BAD_ARGUMENT, fmt::format("{} weights, and the mixture has {} sources; give one "
                                             "for each",
                                             weights.size(), options.sources.size()));
  if (std::string problem = protocol::weights_problem(weights); !problem.empty())
    return fail(BF_BAD_ARGUMENT, std::move(problem));
  if (at > order::Mixing::kDrawsMost)
    return fail(BF_BAD_ARGUMENT, "no mixture has so many samples; give a smaller 'at'");
  const std::size_t left =
      track_.is_known() ? track_.position().fields().mixing->changes_left() : 1;
  if (mixture_.asked().size() >= left)
    return fail(BF_BAD_ARGUMENT,
                "as many other weights are to come as a mixture of so many sources may have; ask "
                "again when some of them are in force");
  mixture_.ask({at, order::Mixture::parts_of(weights)});
  if (!session_) return BF_OK;
  const bf_status status = sends_until(Clock::now() + timeout_)(
      "the service does not read other weights; call again",
      [&](Link& link) { return link.report(mixture_.asked().back()); });
  if (status != BF_OK) mixture_.take_back();
  return status;
}

bf_status Loader::report_losses(std::span<const double> losses) {
  const protocol::OrderOptions& options = request_.order_options;
  if (options.weights_policy.empty())
    return fail(BF_BAD_ARGUMENT,
                "this loader's weights go by no losses; open one of a mixture with "
                "'weights_policy'");
  if (losses.size() != options.sources.size())
    return fail(BF_BAD_ARGUMENT, fmt::format("{} losses, and the mixture has {} sources; give one "
                                             "for each, NAN for none",
                                             losses.size(), options.sources.size()));
  std::vector<float> reported;
  for (const double loss : losses) reported.push_back(static_cast<float>(loss));
  mixture_.keep_losses(reported);
  if (!session_) return BF_OK;
  return sends_until(Clock::now() + timeout_)(
      "the service does not read losses; call again",
      [&](Link& link) { return link.report_losses(reported); });
}

bf_status Loader::next_change(std::uint64_t& at, const double*& weights) {
  return mixture_.next_change(at, weights) ? BF_OK : BF_END;
}

bf_status Loader::mixture(bf_mixture& out) {
  const auto& mixing = track_.position().fields().mixing;
  if (!mixing) return fail(BF_BAD_ARGUMENT, "this loader has no mixture; open one with BF_MIXED");
  if (!track_.is_known())
    return fail(BF_BAD_ARGUMENT, "the job's position is not known: see bf_loader_state");
  mixture_.show(*mixing, out);
  return BF_OK;
}

// The service has said how many they are for the buffer that the job began with.
std::uint64_t Loader::steps_per_epoch() const {
  const std::uint32_t rehearsed = request_.order_options.rehearsed;
  if (rehearsed == 0 || request_.order == Order::live) return admission_.steps_per_epoch;
  const std::uint64_t samples = request_.order == Order::mixed ? track_.position().epoch_samples()
                                                               : admission_.dataset_samples;
  const bool has_any = !request_.exemplars.empty() || !buffer_.keys.empty();
  return order::RehearsalPlan::split(
             {samples, 0, request_.world_size, request_.batch_samples, request_.drop_last},
             has_any ? rehearsed : 0)
      .steps();
}

bf_status Loader::name(bool of_class, std::uint64_t key, const char** text) {
  if (key >= (of_class ? admission_.classes : admission_.dataset_samples)) {
    return fail(
        BF_BAD_ARGUMENT,
        fmt::format("there is no {} {}; write a number below {}", of_class ? "class" : "sample",
                    key, of_class ? admission_.classes : admission_.dataset_samples));
  }
  auto found = names_.find({of_class, key});
  if (found == names_.end()) {
    std::optional<std::string> name;
    if (session_) name = session_->ask_name(of_class, key, Clock::now() + timeout_);
    if (!name)
      return fail(BF_NO_SERVICE,
                  "the service is away, or did not answer; ask again when batches come again");
    found = names_.emplace(std::pair(of_class, key), std::move(*name)).first;
  }
  *text = found->second.c_str();
  return BF_OK;
}

bf_status Loader::find(std::string_view name, std::uint64_t& key) {
  // No file has a longer path, and what is not UTF-8 would come to the service as another name.
  constexpr std::size_t kNameMost = 1 << 16;
  constexpr std::uint64_t kSamplesOfFeed = UINT32_MAX;
  if (admission_.dataset_samples == kSamplesOfFeed)
    return fail(BF_ABSENT, "the records of a feed have no names; a key is a record's number");
  if (name.size() > kNameMost)
    return fail(BF_ABSENT, fmt::format("no sample has a name of {} bytes", name.size()));
  protocol::FindMessage question{std::string(name)};
  std::string problem;
  const auto sent = protocol::decode_find(protocol::encode(question), problem);
  if (!sent || sent->name != name)
    return fail(BF_BAD_ARGUMENT,
                "a name that is no UTF-8 cannot be asked for; ask for the sample by its key");
  const auto deadline = Clock::now() + timeout_;
  for (;;) {
    if (interrupted_.load() != 0) return interrupted_now();
    if (ended_ != BF_OK) return fail(ended_, ended_because_);
    if (!session_) {
      if (const bf_status status = reconnect(deadline); status != BF_OK) return status;
    }
    const auto answer = session_->ask_find(question, deadline);
    if (!answer && Clock::now() >= deadline)
      return fail(BF_TIMEOUT, fmt::format("no answer to where '{}' is within {:g} s; call again",
                                          name, seconds(timeout_)));
    if (!answer) {
      session_->look_at_socket();  // it says why
      lost(session_->lost_because());
      continue;
    }
    if (answer->key) {
      key = *answer->key;
      return BF_OK;
    }
    if (!answer->next || *answer->next <= question.from)
      return fail(BF_ABSENT, fmt::format("no sample is called '{}'", name));
    question.from = *answer->next;
  }
}

bf_status Loader::samples_sum(std::uint64_t first, std::uint64_t count, bf_samples_sum& sum) {
  if (count == 0 || count > protocol::SamplesSum::kMost || first > admission_.dataset_samples ||
      count > admission_.dataset_samples - first)
    return fail(BF_BAD_ARGUMENT,
                fmt::format("{} samples from {} on: write 1 to {} of the {} that there are", count,
                            first, protocol::SamplesSum::kMost, admission_.dataset_samples));
  std::optional<protocol::SamplesSum> answer;
  if (session_) answer = session_->ask_sum(first, count, Clock::now() + timeout_);
  if (!answer)
    return fail(BF_NO_SERVICE,
                "the service is away, or did not answer; ask again when batches have come");
  sum.names = answer->names;
  sum.labels = answer->labels;
  sum.pairs = answer->pairs;
  return BF_OK;
}

void Loader::say(bf_said about, const std::string& text) const {
  if (say_ != nullptr) say_(say_context_, about, text.c_str());
}

void Loader::info(bf_loader_info& out) const {
  out.dataset_samples = admission_.dataset_samples;
  out.dataset_version = admission_.dataset_version;
  out.steps_per_epoch = steps_per_epoch();
  out.classes = admission_.classes;
  out.credits = admission_.credits;
  out.epoch = track_.epoch();
  out.samples_in_epoch = track_.samples_in_epoch();
  out.fields = static_cast<std::uint32_t>(fields_.size());
  out.field = fields_.data();
}

void Loader::times(bf_loader_times& out) const {
  out.wait_s = std::chrono::duration<double>(wait_).count();
  out.between_s = std::chrono::duration<double>(between_).count();
  out.batches = step_;
  out.samples = samples_;
  out.copied = copied_;
  out.reconnects = reconnects_;
  out.replaced = replaced_;
  out.again = again_;
}

}  // namespace batchflow::client
