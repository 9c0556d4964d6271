// How a loader begins, and the questions that it answers beside giving batches.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "core/order/rehearsal.h"
#include "runtime/client/c_interface.h"
#include "runtime/client/loader.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::client {
namespace {

using namespace std::chrono_literals;

constexpr auto kAskAgainAfter = 100ms;
constexpr std::size_t kTextMost = std::size_t{1} << 19;  // leaves room for the rest of a frame

// Whether a message can carry the text as it is.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t more = first < 0x80    ? 0
                             : first < 0xc2  ? text.size()
                             : first < 0xe0  ? 1
                             : first < 0xf0  ? 2
                             : first <= 0xf4 ? 3
                                             : text.size();
    if (more >= text.size() - i) return false;
    for (std::size_t k = 1; k <= more; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    i += more + 1;
  }
  return true;
}

bool are_seconds(double seconds) {
  constexpr double kMost = 1e8;
  return seconds >= 0 && seconds <= kMost;
}

bool is_path(const char* dataset) {
  return dataset[0] == '/' || dataset[0] == '.';
}

std::string too_many_exemplars(std::size_t count) {
  return fmt::format("{} exemplars; a buffer holds {}: give fewer", count, order::kExemplarsMost);
}

// Empty, or what is wrong with the options and what to write instead.
std::string options_problem(const bf_loader_options& options) {
  if (options.dataset == nullptr || *options.dataset == '\0')
    return "'dataset' is missing; write its name at the service, or a path that begins with / or .";
  if (options.reading != nullptr && *options.reading != '\0' && !is_path(options.dataset))
    return "'reading' is for a dataset given as a path; its service says how a named dataset is "
           "read; leave 'reading' out";
  for (const char* text :
       {options.dataset, options.pipeline, options.job, options.state, options.reading}) {
    if (text != nullptr && (!is_utf8(text) || std::strlen(text) > kTextMost))
      return "a string is not UTF-8, or is too long; write names, paths and states in UTF-8";
  }
  if (options.batch_samples == 0) return "'batch_samples' is 0; write how many samples a batch has";
  if (options.rank >= std::max<std::uint32_t>(options.world_size, 1)) {
    return fmt::format("'rank' is {} of {}; write 0 to world_size - 1", options.rank,
                       options.world_size);
  }
  if (!order_of_option(options.order))
    return "'order' is not an order; write BF_RELAXED, BF_STRICT, BF_SEQUENTIAL or BF_WEIGHTED";
  if (const int drawing = number_of(options.drawing);
      drawing != BF_SYSTEMATIC && drawing != BF_MULTINOMIAL)
    return "'drawing' is neither BF_SYSTEMATIC nor BF_MULTINOMIAL; write one of them";
  if (options.exemplars_count > 0 && options.exemplars == nullptr)
    return "'exemplars' is NULL; give as many keys as 'exemplars_count'";
  if (options.exemplars_count > order::kExemplarsMost)
    return too_many_exemplars(options.exemplars_count);
  if (!are_seconds(options.timeout_s) || !are_seconds(options.reconnect_s)) {
    return fmt::format("'{}' must be 0 to 1e8 seconds; write 0 for the default",
                       are_seconds(options.timeout_s) ? "reconnect_s" : "timeout_s");
  }
  if (options.has_corrupt_ratio_max != 0 &&
      !(options.corrupt_ratio_max >= 0 && options.corrupt_ratio_max <= 1))
    return "'corrupt_ratio_max' must be a part of all samples, from 0 to 1";
  if (!std::isfinite(options.weight) || options.weight < 0)
    return "'weight' must be a positive number, or 0 for 1";
  if (!(options.latency_target_s >= 0 && options.latency_target_s <= protocol::kLatencyTargetMostS))
    return "'latency_target_s' must be 0 to 3600 seconds";
  return "";
}

protocol::Channel::Clock::duration duration_of(double seconds, double otherwise) {
  return std::chrono::duration_cast<protocol::Channel::Clock::duration>(
      std::chrono::duration<double>(seconds == 0 ? otherwise : seconds));
}

std::string text_of(const char* text) {
  return text == nullptr ? "" : text;
}

protocol::JoinRequest request_of(const bf_loader_options& options) {
  protocol::JoinRequest request;
  request.dataset = options.dataset;
  request.reading = text_of(options.reading);
  request.pipeline = text_of(options.pipeline);
  request.job = text_of(options.job);
  request.pid = static_cast<std::uint64_t>(getpid());
  request.rank = options.rank;
  request.world_size = std::max<std::uint32_t>(options.world_size, 1);
  request.batch_samples = options.batch_samples;
  request.order = *order_of_option(options.order);
  request.order_options.draws = options.draws;
  request.order_options.multinomial = options.drawing == BF_MULTINOMIAL;
  request.order_options.node_local = options.node_local != 0;
  request.order_options.runs = options.runs != 0;
  request.order_options.rehearsed = options.rehearsed;
  for (std::size_t i = 0; i < options.exemplars_count; ++i)
    request.exemplars.emplace_back(options.exemplars[i]);
  if (options.has_shuffle_seed != 0) request.shuffle_seed = options.shuffle_seed;
  request.drop_last = options.drop_last != 0;
  request.epochs = options.epochs;
  request.steps = options.steps;
  request.credits = options.credits;
  if (options.weight != 0) request.weight = options.weight;
  request.latency_target_s = options.latency_target_s;
  request.state = text_of(options.state);
  request.follows_choices = true;
  if (options.has_corrupt_ratio_max != 0) request.corrupt_ratio_max = options.corrupt_ratio_max;
  return request;
}

bf_status status_of(Session::Failure failure) {
  switch (failure) {
    case Session::Failure::refused:
      return BF_REFUSED;
    case Session::Failure::protocol:
      return BF_PROTOCOL;
    case Session::Failure::interrupted:
      return BF_INTERRUPTED;
    case Session::Failure::no_service:
    case Session::Failure::not_yet:
    case Session::Failure::lost:
      break;
  }
  return BF_NO_SERVICE;
}

}  // namespace

bf_status Loader::open(const bf_loader_options& options, std::unique_ptr<Loader>& out) {
  if (std::string problem = options_problem(options); !problem.empty())
    return fail(BF_BAD_ARGUMENT, std::move(problem));
  std::unique_ptr<Loader> loader(new Loader);
  loader->addresses_ = service_addresses(options.service);
  loader->request_ = request_of(options);
  if (std::string problem =
          protocol::order_problem(loader->request_.order, loader->request_.batch_samples,
                                  loader->request_.order_options, loader->request_.exemplars);
      !problem.empty())
    return fail(BF_BAD_ARGUMENT, std::move(problem));
  loader->copies_ = options.copy != 0;
  loader->say_ = options.say;
  loader->say_context_ = options.say_context;
  loader->timeout_ = duration_of(options.timeout_s, 300);
  loader->reconnect_time_ = duration_of(options.reconnect_s, 60);
  if (is_path(options.dataset)) {
    // The open descriptor proves to the service that this user can read the data.
    const std::unique_ptr<char, void (*)(void*)> path(realpath(options.dataset, nullptr), free);
    if (path)
      loader->shown_ = protocol::Descriptor(::open(path.get(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (BF_FAILPOINT("client.folder")) {
      loader->shown_.reset();
      errno = EMFILE;
    }
    if (!loader->shown_) {
      return fail(BF_BAD_ARGUMENT, fmt::format("the dataset {} cannot be read: {}", options.dataset,
                                               std::strerror(errno)));
    }
    loader->request_.dataset = path.get();
  }
  Session::Problem problem;
  std::unique_ptr<Session> session;
  const auto deadline = Clock::now() + loader->timeout_;
  // A service that is ending answers "not yet", and then is away until the next one has started.
  auto ask_until = Clock::now();
  bool was_lost = false;  // tried again only once: this very request may be what ends the service
  for (;;) {
    session = Session::open(
        loader->addresses_, loader->request_, loader->shown_, deadline, [] { return false; },
        [&](const std::string& text) { loader->say(BF_SAID_OF_WAIT, text); }, problem);
    const auto now = Clock::now();
    if (problem.failure == Session::Failure::not_yet ||
        (problem.failure == Session::Failure::lost && !std::exchange(was_lost, true)))
      ask_until = std::min(deadline, now + loader->reconnect_time_);
    const bool is_away = problem.failure == Session::Failure::not_yet ||
                         problem.failure == Session::Failure::lost ||
                         problem.failure == Session::Failure::no_service;
    if (session || !is_away || now >= ask_until) break;
    std::this_thread::sleep_for(kAskAgainAfter);
  }
  if (!session) return fail(status_of(problem.failure), std::move(problem.message));
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

bf_status Loader::next_within(bf_batch& batch, double seconds) {
  if (!are_seconds(seconds)) return fail(BF_BAD_ARGUMENT, "'seconds' must be 0 to 1e8");
  const std::chrono::duration<double> most(seconds);
  return next(batch, std::chrono::duration_cast<Clock::duration>(most), false);
}

void Loader::describe_fields() {
  for (const batch::Field& field : admission_.spec.fields) {
    sample_bytes_ += field.row_bytes() * field.rows_most();
    fields_.push_back({field.name.c_str(), static_cast<bf_type>(field.type), field.ragged,
                       static_cast<std::uint32_t>(field.shape.size()), field.shape.data()});
  }
}

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

bf_status Loader::report_scores(const std::uint64_t* keys, const float* scores, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(scores[i]) || keys[i] >= admission_.dataset_samples)
      return fail(BF_BAD_ARGUMENT,
                  fmt::format("score {} is not a number, or its key is not of a sample; leave it "
                              "out",
                              i));
  }
  const auto deadline = Clock::now() + timeout_;
  std::vector<engine::Score> chunk;
  for (std::size_t done = 0; done < count; done += chunk.size()) {
    chunk.clear();
    for (std::size_t i = done; i < count && chunk.size() < engine::kScoresMost; ++i)
      chunk.push_back({SampleId(keys[i]), scores[i]});
    for (const engine::Score& score : chunk) kept_scores_.keep(score, admission_.dataset_samples);
    // Otherwise the loader sends them before it requests its next batches.
    if (!session_ || !has_requested_) continue;
    const bf_status status = send_scores(chunk, deadline);
    if (status != BF_OK) return status;
  }
  return BF_OK;
}

bf_status Loader::send_scores(std::span<const engine::Score> scores, Clock::time_point deadline) {
  while (!session_->link()->report(scores)) {
    if (interrupted_.load() != 0) return interrupted_now();
    if (Clock::now() >= deadline)
      return fail(BF_TIMEOUT, "the service does not read scores; call again to go on");
    std::this_thread::sleep_for(1ms);
  }
  return BF_OK;
}

bf_status Loader::report_exemplars(const std::uint64_t* keys, std::size_t count) {
  if (request_.order_options.rehearsed == 0)
    return fail(BF_BAD_ARGUMENT,
                "this loader rehearses nothing; open one with 'rehearsed', the samples of each "
                "batch that come from the buffer");
  if (count > order::kExemplarsMost) return fail(BF_BAD_ARGUMENT, too_many_exemplars(count));
  for (std::size_t i = 0; i < count; ++i)
    if (keys[i] >= admission_.dataset_samples)
      return fail(BF_BAD_ARGUMENT, fmt::format("exemplar {} has key {}; write keys below {}", i,
                                               keys[i], admission_.dataset_samples));
  request_.exemplars.clear();
  for (std::size_t i = 0; i < count; ++i) request_.exemplars.emplace_back(keys[i]);
  return session_ && request_.rank == 0 ? send_exemplars(Clock::now() + timeout_) : BF_OK;
}

bf_status Loader::send_exemplars(Clock::time_point deadline) {
  const std::span<const SampleId> all = request_.exemplars;
  std::size_t first = 0;
  do {
    const auto part =
        all.subspan(first, std::min(protocol::kExemplarsInRecord, all.size() - first));
    const bool more = first + part.size() < all.size();
    while (!session_->link()->report(part, static_cast<std::uint32_t>(first), more)) {
      if (interrupted_.load() != 0) return interrupted_now();
      if (Clock::now() >= deadline)
        return fail(BF_TIMEOUT, "the service does not read exemplars; call again");
      std::this_thread::sleep_for(1ms);
    }
    first += part.size();
  } while (first < all.size());
  return BF_OK;
}

// The service has said how many they are for the buffer that the job began with.
std::uint64_t Loader::steps_per_epoch() const {
  const std::uint32_t rehearsed = request_.order_options.rehearsed;
  if (rehearsed == 0) return admission_.steps_per_epoch;
  return order::RehearsalPlan::split({admission_.dataset_samples, 0, request_.world_size,
                                      request_.batch_samples, request_.drop_last},
                                     request_.exemplars.empty() ? 0 : rehearsed)
      .steps();
}

bf_status Loader::scores(const std::uint64_t** keys, const float** scores, std::size_t& count) {
  shown_keys_.clear();
  shown_scores_.clear();
  std::uint64_t from = 0;
  for (const engine::Score& score : kept_scores_.next(from, SIZE_MAX)) {
    shown_keys_.push_back(score.sample.value);
    shown_scores_.push_back(score.value);
  }
  *keys = shown_keys_.data();
  *scores = shown_scores_.data();
  count = shown_keys_.size();
  return BF_OK;
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
}

}  // namespace batchflow::client
