#include "runtime/protocol/order_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/names.h"
#include "core/order/mixing.h"
#include "core/order/permutation.h"
#include "core/order/rehearsal.h"
#include "core/order/weights.h"

namespace batchflow::protocol {
namespace {

constexpr std::size_t kSourceNamesMost = 1 << 17;
constexpr std::size_t kBufferTextMost = 1024;
constexpr std::size_t kScheduledMost = 8192;  // weights, of all sources and times

std::string draws_problem(Order order, const OrderOptions& options) {
  if (!is_drawn(order) && options.draws > 0)
    return fmt::format(
        "'draws' is {}, and a {} order has each sample once; ask for a weighted order or a "
        "mixture, or leave it out",
        options.draws, name_of(order));
  if (order != Order::weighted && options.multinomial)
    return fmt::format(
        "'drawing' is multinomial, and a {} order is not drawn; ask for a weighted order, or leave "
        "it out",
        name_of(order));
  if (order == Order::weighted && options.draws > order::kWeightedSamplesMost)
    return fmt::format("'draws' is {}; an epoch may have {} draws", options.draws,
                       order::kWeightedSamplesMost);
  return {};
}

// What a live job rehearses are the records that also fill its steps.
std::string live_rehearsal_problem(const OrderOptions& options,
                                   std::span<const SampleId> exemplars) {
  if (!exemplars.empty())
    return "a list of exemplars is for datasets that do not grow; a live job rehearses records "
           "that it has had: leave the list out";
  const bool has_reservoir = options.buffer_exemplars > 0;
  if (has_reservoir && (options.buffer_policy != "reservoir" || !options.buffer_name.empty()))
    return "the exemplars of a live job are a reservoir of its own; write 'reservoir' as the "
           "policy, and no name (other policies go by classes or scores, and are for datasets "
           "that do not grow)";
  if (has_reservoir && options.fills_from > 0)
    return fmt::format(
        "'fills_from' is {}, and the job rehearses from {} exemplars; leave one of them out (in "
        "Python window= or rehearsal=)",
        options.fills_from, options.buffer_exemplars);
  if (options.rehearsed > 0 && (options.fills_cut || (options.fills_from == 0 && !has_reservoir)))
    return fmt::format(
        "'rehearsed' is {}, and steps of this live job {}; write how many records it rehearses "
        "from in 'fills_from' (in Python fill='rehearse' and window=), or leave 'rehearsed' out",
        options.rehearsed, options.fills_cut ? "are short" : "have new records alone");
  return {};
}

std::string rehearsal_problem(Order order, std::uint32_t batch_samples, const OrderOptions& options,
                              std::span<const SampleId> exemplars) {
  if (order == Order::live) {
    if (std::string problem = live_rehearsal_problem(options, exemplars); !problem.empty())
      return problem;
  }
  if (options.rehearsed == 0 && !exemplars.empty())
    return fmt::format(
        "{} exemplars are given, and 'rehearsed' is 0; write how many samples of each batch are "
        "rehearsed",
        exemplars.size());
  const bool has_buffer = options.buffer_exemplars > 0;
  if (!has_buffer && (!options.buffer_policy.empty() || !options.buffer_name.empty()))
    return "a buffer is asked for that has no exemplars; write how many it may have";
  if (has_buffer && options.rehearsed == 0)
    return "a buffer is asked for, and 'rehearsed' is 0; write how many samples of each batch are "
           "rehearsed";
  if (has_buffer && !exemplars.empty())
    return "the service fills the buffer, and exemplars are given, too; leave one of them out";
  if (has_buffer && options.buffer_policy.empty())
    return "a buffer is asked for, and no policy that fills it; write one, as 'reservoir'";
  if (options.buffer_exemplars > order::kExemplarsMost)
    return fmt::format("a buffer of {} exemplars; it may have {}", options.buffer_exemplars,
                       order::kExemplarsMost);
  if (std::max(options.buffer_policy.size(), options.buffer_name.size()) > kBufferTextMost)
    return fmt::format("the name or the policy of the buffer has more than {} bytes",
                       kBufferTextMost);
  if (options.rehearsed == 0) return {};
  if (!order::may_rehearse(order) && order != Order::live)
    return fmt::format(
        "'rehearsed' is for a strict, sequential, relaxed, mixed or live order, and this one is "
        "{}; ask for one of those, or leave it out",
        name_of(order));
  if (options.rehearsed >= batch_samples)
    return fmt::format(
        "'rehearsed' is {} of a batch of {}, which leaves no room for new samples; write less than "
        "the batch",
        options.rehearsed, batch_samples);
  if (exemplars.size() > order::kExemplarsMost)
    return fmt::format("{} exemplars; a buffer holds {}", exemplars.size(), order::kExemplarsMost);
  return {};
}

std::string live_problem(Order order, std::uint32_t batch_samples, const OrderOptions& options) {
  constexpr double kLongest = 3600;
  if (order != Order::live)
    return options.fills_after_s != 0 || options.fills_from != 0 || options.fills_cut ||
                   options.from_newest || options.begin_at || options.keyed
               ? fmt::format(
                     "steps are to be filled, and a {} order has all of its samples; ask "
                     "for a live one",
                     name_of(order))
               : "";
  if (options.keyed &&
      (batch_samples != 1 || options.fills_after_s != 0 || options.fills_from != 0 ||
       options.fills_cut || options.from_newest || options.begin_at))
    return "samples are asked for by their keys, one in each batch, and nothing fills it; leave "
           "the rest out";
  if (options.from_newest && options.begin_at)
    return "a job begins with the next record that comes, or with one that is named; leave one out";
  if (options.draws > 0)
    return "'draws' is for orders that are drawn, and a live one has records as they come; leave "
           "it "
           "out";
  if (!(options.fills_after_s >= 0 && options.fills_after_s <= kLongest))
    return fmt::format("a step that waits for {} s; it may wait for 0 to {} s",
                       options.fills_after_s, kLongest);
  return {};
}

std::string schedule_problem(const OrderOptions& options) {
  const std::size_t sources = options.sources.size();
  const std::size_t most = std::min(order::Mixing::kChangesMost, kScheduledMost / sources);
  if (options.schedule.size() > most)
    return fmt::format("a schedule of {} other weights; of {} sources it may have {}",
                       options.schedule.size(), sources, most);
  for (const ScheduledWeights& one : options.schedule) {
    if (one.weights.size() != sources)
      return fmt::format(
          "{} weights from sample {} on, and the mixture has {} sources; give one "
          "for each",
          one.weights.size(), one.at, sources);
    if (one.at > order::Mixing::kDrawsMost)
      return fmt::format("weights from sample {} on; no mixture has so many", one.at);
    if (std::string problem = weights_problem(one.weights); !problem.empty())
      return fmt::format("from sample {} on: {}", one.at, problem);
  }
  if (options.weights_policy.size() > kBufferTextMost)
    return fmt::format("the policy of the weights has more than {} bytes", kBufferTextMost);
  if (!options.weights_policy.empty() && !options.schedule.empty())
    return "the weights have a schedule, and a policy changes them, too; leave one of them out";
  return "";
}

std::string sources_problem(Order order, const OrderOptions& options) {
  const bool has_any = !options.sources.empty() || options.sources_in_order ||
                       options.may_change() || !options.schedule.empty();
  if (order != Order::mixed)
    return has_any ? fmt::format("sources are given, and a {} order has none; ask for a mixed one",
                                 name_of(order))
                   : "";
  if (options.draws > order::kSamplesMost)
    return fmt::format("'draws' is {}; an epoch may have {} draws", options.draws,
                       order::kSamplesMost);
  if (options.sources.empty() || options.sources.size() > order::Mixing::kSourcesMost)
    return fmt::format("a mixture of {} sources; write 1 to {}", options.sources.size(),
                       order::Mixing::kSourcesMost);
  std::set<std::string_view> names;
  std::vector<double> weights;
  for (const WeighedSource& source : options.sources) {
    if (source.name.empty() || !names.insert(source.name).second)
      return fmt::format("the source '{}' {}", source.name,
                         source.name.empty() ? "has no name" : "stands in the mixture twice");
    weights.push_back(source.weight);
  }
  // A request, its answer and the job's state each fit into one message.
  std::size_t bytes = 0;
  for (const WeighedSource& source : options.sources) bytes += source.name.size();
  if (bytes > kSourceNamesMost)
    return fmt::format("the names of the sources have {} bytes; they may have {} together", bytes,
                       kSourceNamesMost);
  if (std::string problem = weights_problem(weights); !problem.empty()) return problem;
  return schedule_problem(options);
}

}  // namespace

std::string weights_problem(std::span<const double> weights) {
  const auto wrong = std::find_if(weights.begin(), weights.end(), [](double weight) {
    return !std::isfinite(weight) || weight < 0;
  });
  if (wrong != weights.end())
    return fmt::format("a weight of {}; write finite numbers that are not below 0", *wrong);
  const bool any = std::any_of(weights.begin(), weights.end(), [](double one) { return one > 0; });
  return any ? "" : "all weights are 0, so there is nothing to draw; write one above 0";
}

std::string order_problem(Order order, std::uint32_t batch_samples, const OrderOptions& options,
                          std::span<const SampleId> exemplars) {
  if (std::string problem = draws_problem(order, options); !problem.empty()) return problem;
  if (std::string problem = live_problem(order, batch_samples, options); !problem.empty())
    return problem;
  if (options.node_local && order != Order::relaxed)
    return fmt::format(
        "'node_local' is for a relaxed order, which alone has a sequence for each node, and this "
        "one is {}; ask for relaxed, or leave it out",
        name_of(order));
  if (options.runs && order != Order::relaxed)
    return fmt::format(
        "'runs' is for a relaxed order, and this one is {}; ask for relaxed, or leave it out",
        name_of(order));
  if (std::string problem = sources_problem(order, options); !problem.empty()) return problem;
  return rehearsal_problem(order, batch_samples, options, exemplars);
}

}  // namespace batchflow::protocol
