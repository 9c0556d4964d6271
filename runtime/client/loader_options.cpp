#include "runtime/client/loader_options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/order/rehearsal.h"
#include "runtime/client/c_interface.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::client {
namespace {

constexpr std::size_t kTextMost = std::size_t{1} << 19;  // leaves room for the rest of a frame

constexpr std::size_t kNameMost = 4096;  // of a source

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

bool is_path(const char* dataset) {
  return dataset[0] == '/' || dataset[0] == '.';
}

std::string text_of(const char* text) {
  return text == nullptr ? "" : text;
}

}  // namespace

bool are_seconds(double seconds) {
  constexpr double kMost = 1e8;
  return seconds >= 0 && seconds <= kMost;
}

std::string too_many_exemplars(std::size_t count) {
  return fmt::format("{} exemplars; a buffer holds {}: give fewer", count, order::kExemplarsMost);
}

protocol::Channel::Clock::duration duration_of(double seconds, double otherwise) {
  return std::chrono::duration_cast<protocol::Channel::Clock::duration>(
      std::chrono::duration<double>(seconds == 0 ? otherwise : seconds));
}

std::string options_problem(const bf_loader_options& options) {
  if (options.dataset == nullptr || *options.dataset == '\0')
    return "'dataset' is missing; write its name at the service, or a path that begins with / or .";
  if (options.reading != nullptr && *options.reading != '\0' && !is_path(options.dataset) &&
      std::string_view(options.dataset).find("://") == std::string_view::npos)
    return "'reading' is for a dataset given as a path; its service says how a named dataset is "
           "read; leave 'reading' out";
  for (const char* text :
       {options.dataset, options.pipeline, options.job, options.state, options.reading,
        options.buffer_policy, options.buffer_name, options.weights_policy}) {
    if (text != nullptr && (!is_utf8(text) || std::strlen(text) > kTextMost))
      return "a string is not UTF-8, or is too long; write names, paths and states in UTF-8";
  }
  if (options.batch_samples == 0) return "'batch_samples' is 0; write how many samples a batch has";
  if (options.rank >= std::max<std::uint32_t>(options.world_size, 1)) {
    return fmt::format("'rank' is {} of {}; write 0 to world_size - 1", options.rank,
                       options.world_size);
  }
  if (!order_of_option(options.order))
    return "'order' is not an order; write BF_RELAXED, BF_STRICT, BF_SEQUENTIAL, BF_WEIGHTED, "
           "BF_MIXED or BF_LIVE";
  if (const int drawing = number_of(options.drawing);
      drawing != BF_SYSTEMATIC && drawing != BF_MULTINOMIAL)
    return "'drawing' is neither BF_SYSTEMATIC nor BF_MULTINOMIAL; write one of them";
  if (options.exemplars_count > 0 && options.exemplars == nullptr)
    return "'exemplars' is NULL; give as many keys as 'exemplars_count'";
  if (options.exemplars_count > order::kExemplarsMost)
    return too_many_exemplars(options.exemplars_count);
  if (options.sources_count > 0 &&
      (options.sources == nullptr || options.source_weights == nullptr))
    return "'sources' or 'source_weights' is NULL; give as many of each as 'sources_count'";
  if (options.sources_count > BF_SOURCES_MOST)
    return fmt::format("{} sources; a mixture has at most {}", options.sources_count,
                       BF_SOURCES_MOST + 0);
  for (std::size_t i = 0; i < options.sources_count; ++i) {
    const char* const name = options.sources[i];
    if (name == nullptr || !is_utf8(name) || std::strlen(name) > kNameMost)
      return fmt::format("source {} has no name in UTF-8 of at most {} bytes", i, kNameMost);
  }
  if (options.schedule_count > 0 &&
      (options.schedule_at == nullptr || options.schedule_weights == nullptr))
    return "'schedule_at' or 'schedule_weights' is NULL; give as many as 'schedule_count', and as "
           "many weights for each as there are sources";
  if (options.schedule_count > BF_CHANGES_MOST)
    return fmt::format("a schedule of {} other weights; it has at most {}", options.schedule_count,
                       BF_CHANGES_MOST + 0);
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
  request.order_options.buffer_exemplars = options.buffer_exemplars;
  request.order_options.buffer_policy = text_of(options.buffer_policy);
  request.order_options.buffer_name = text_of(options.buffer_name);
  for (std::size_t i = 0; i < options.sources_count; ++i)
    request.order_options.sources.push_back({options.sources[i], options.source_weights[i]});
  request.order_options.sources_in_order = options.sources_in_order != 0;
  request.order_options.weights_change = options.weights_change != 0;
  for (std::size_t i = 0; i < options.schedule_count; ++i) {
    const double* const weights = options.schedule_weights + i * options.sources_count;
    request.order_options.schedule.push_back(
        {options.schedule_at[i], {weights, weights + options.sources_count}});
  }
  request.order_options.weights_policy = text_of(options.weights_policy);
  request.order_options.fills_after_s = options.fills_after_s;
  request.order_options.fills_from = options.fills_from;
  request.order_options.fills_cut = options.fills_cut != 0;
  request.order_options.from_newest = options.from_newest != 0;
  if (options.has_begin_at != 0) request.order_options.begin_at = options.begin_at;
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
  request.allows_ideal = options.ideal != 0;
  if (options.has_corrupt_ratio_max != 0) request.corrupt_ratio_max = options.corrupt_ratio_max;
  return request;
}

std::string show_dataset(const char* dataset, protocol::JoinRequest& request,
                         protocol::Descriptor& shown) {
  if (!is_path(dataset)) return {};
  const std::unique_ptr<char, void (*)(void*)> path(realpath(dataset, nullptr), free);
  if (path) shown = protocol::Descriptor(::open(path.get(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (BF_FAILPOINT("client.folder")) {
    shown.reset();
    errno = EMFILE;
  }
  if (!shown)
    return fmt::format("the dataset {} cannot be read: {}", dataset, std::strerror(errno));
  request.dataset = path.get();
  return {};
}

}  // namespace batchflow::client
